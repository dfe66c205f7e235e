//! Runs on a model of a provider that binds thinking to the conversation before it.

use super::with_get;
use crate::prelude::*;

/// A model of a provider that binds thinking to everything before it.
struct Bound(Scripted);

impl Model for Bound {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn binds_thinking(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.0.call(request, deltas)
    }
}

fn thinks(n: u32) -> Reply {
    let thought = Content::Opaque(raw(&json!({"thinking": n})));
    reply(vec![thought, call("x", "get", &json!({"n": n, "bytes": 2_000}))])
}

fn thoughts(transcript: &[Turn]) -> usize {
    let pieces = transcript.iter().flat_map(|turn| match turn {
        Turn::Assistant(pieces) => pieces.as_slice(),
        Turn::ToolResults(_) | Turn::User(_) => &[],
    });
    pieces.filter(|piece| matches!(piece, Content::Opaque(_))).count()
}

fn foreign() -> ModelError {
    ModelError {
        retry: Retry::WithoutThinking,
        ..ModelError::fatal("bound to a different conversation")
    }
}

pub(super) async fn run_bound(script: Vec<Line>) -> (sortie_agent::Outcome, Recorder, Vec<usize>) {
    let model = Bound(Scripted::new(script));
    let (outcome, recorder) = run_in(with_get(), &model, &untouched(), &[]).await;
    let thoughts = model
        .0
        .transcripts()
        .iter()
        .map(|turns| thoughts(turns))
        .collect();
    (outcome, recorder, thoughts)
}

#[tokio::test]
async fn thinking_that_the_provider_finds_foreign_is_left_out_once() {
    let (outcome, recorder, thoughts) =
        run_bound(script![thinks(1), thinks(2), foreign(), thinks(3), says("ok")]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(thoughts, [0, 1, 2, 0, 1]);
    let dropped = recorder
        .steps()
        .iter()
        .filter(|step| step.ends_with("thinking dropped"))
        .count();
    assert_eq!(dropped, 1);

    let (outcome, ..) = run_bound(script![thinks(1), foreign(), foreign()]).await;
    assert_eq!(failed(&outcome), "bound to a different conversation");
}

#[tokio::test]
async fn outputs_that_are_dropped_take_the_bound_thinking_with_them() {
    let too_large = ModelError {
        retry: Retry::Smaller,
        ..ModelError::fatal("prompt is too long")
    };
    let script: Vec<Line> = script![thinks(1), thinks(2), thinks(3), too_large.clone(), says("ok")];
    let (outcome, recorder, shown) = run_bound(script).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(shown, [0, 1, 2, 3, 0]);

    // So it stays after a resume.
    let model = Bound(scripted![says("ok")]);
    play(with_get().resuming(recorder.entries()), &model)
        .await
        .succeeds("ok");
    assert_eq!(thoughts_of(&model), [0]);

    // Providers that do not bind it want it back.
    let script: Vec<Line> = script![thinks(1), thinks(2), thinks(3), too_large, says("ok")];
    let model = Scripted::new(script);
    play(with_get(), &model).await.succeeds("ok");
    assert_eq!(thoughts(&model.transcripts()[4]), 3);
}

fn thoughts_of(model: &Bound) -> Vec<usize> {
    model
        .0
        .transcripts()
        .iter()
        .map(|turns| thoughts(turns))
        .collect()
}

#[tokio::test]
async fn thinking_is_kept_over_a_resume_unless_the_fixed_part_has_changed() {
    let script: Vec<Line> = script![thinks(1), thinks(2), says("ok")];
    let (_, recorder, _) = run_bound(script).await;
    for (prompt, expected) in [("Go.", 2), ("Go on.", 0)] {
        let model = Bound(scripted![says("ok")]);
        let resumed = RunSpec {
            prompt: prompt.to_owned(),
            resume: Some(Journal::new(recorder.entries())),
            ..with_get()
        };
        let again = play(resumed, &model).await.succeeds("ok");
        assert_eq!(thoughts_of(&model), [expected], "{prompt}");
        assert_eq!(again.entries().is_empty(), expected == 2);
    }
}
