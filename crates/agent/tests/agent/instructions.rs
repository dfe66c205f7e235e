//! Instructions of a run: the model reads them after the system prompt and before the task, and they are paid for.

use crate::prelude::*;

fn instructed(instructions: &str) -> RunSpec {
    RunSpec {
        instructions: instructions.to_owned(),
        ..spec("Go.")
    }
}

#[tokio::test]
async fn instructions_are_the_end_of_the_system_prompt_of_every_call() {
    let model = Scripted::new(script![calls(&[shell("ls")]), says("done")]);
    let backend = Pretended::new(&["bash"], |_| prints(""));
    play_in(instructed("You are a clerk.\nBe brief."), &model, &backend, &[])
        .await
        .succeeds("done");
    let asked = model.asked();
    let (common, own) = asked[0].system.split_once("The owner of this run").unwrap();
    assert!(own.ends_with("\n\nYou are a clerk.\nBe brief."), "{own}");
    assert_eq!(
        asked[1].system, asked[0].system,
        "the cached prefix stays the same"
    );
    assert!(!asked[0].first_message.contains("clerk"));

    for none in ["", " \n"] {
        let model = Scripted::new(script![says("done")]);
        play(instructed(none), &model).await.succeeds("done");
        assert_eq!(model.asked()[0].system.trim_end(), common.trim_end());
    }
}
