//! Steps of a run: a model that loops comes to an end.

use crate::prelude::*;

#[tokio::test]
async fn a_run_fails_that_needs_more_steps_than_it_may_make_also_over_several_attempts() {
    let limited = |max_steps, resume| RunSpec {
        max_steps,
        resume,
        ..spec("Go.")
    };
    let backend = Pretended::new(&["bash"], |_| prints(""));
    let script = || -> Vec<Line> {
        vec![
            calls(&[shell("echo 1")]).into(),
            calls(&[shell("echo 2")]).into(),
            says("done").into(),
        ]
    };
    // The last step may be the answer.
    play_in(limited(3, None), &Scripted::new(script()), &backend, &[])
        .await
        .succeeds("done");
    let model = Scripted::new(script());
    let (outcome, recorder) = run_in(limited(2, None), &model, &backend, &[]).await;
    let reason = "step limit reached: the run has made 2 model calls, its max_steps, and has no answer";
    assert_eq!(failed(&outcome), reason);
    assert_eq!(model.asked().len(), 2);
    let journal = Journal::new(recorder.entries());
    let model = scripted![];
    let (outcome, _) = run_in(limited(2, Some(journal)), &model, &backend, &[]).await;
    assert_eq!(failed(&outcome), reason);
}
