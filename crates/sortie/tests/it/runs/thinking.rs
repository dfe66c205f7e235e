//! Answers that are cut off while the model thinks. The provider refuses such thinking when it is sent back.

use sortie_testkit::{ScriptedAnthropic, ScriptedModel, model::Turn};

use super::model::node_of_with;
use crate::prelude::*;

/// Two answers that are cut off within their thinking, and a complete one after each.
fn script() -> Vec<Turn> {
    let cut = || Turn::says([] as [&str; 0]).thinks("Where was I?").cut_off();
    let works = Turn::calls("write_file", serde_json::json!({"path": "a.txt", "content": "a"}));
    vec![
        cut(),
        works.thinks("A file first."),
        cut(),
        Turn::says(["Done."]).thinks("That is all."),
    ]
}

async fn ends_well(provider: (&str, &str)) -> Result<()> {
    let (node, _config) = node_of_with(Database::Sqlite, provider, NodeOptions::default()).await?;
    let (_, run) = node.client()?.complete(&plain("Write a file.")).await?;
    ensure!(
        (run.status, run.output.as_deref()) == (RunStatus::Succeeded, Some("Done.")),
        "{run:?}"
    );
    Ok(())
}

/// Whether the newest message tells the model that its answer has reached its limit.
fn is_told(request: &Value, messages: &str) -> bool {
    let newest = request[messages].as_array().and_then(|messages| messages.last());
    newest.is_some_and(|newest| newest.to_string().contains("limit of length"))
}

#[tokio::test]
async fn an_answer_of_anthropic_that_is_cut_off_in_its_thinking_goes_on() -> Checked {
    let server = ScriptedAnthropic::start(script()).await?;
    ends_well(("anthropic", &server.base_url())).await?;
    assert_eq!(server.broken_rules(), [""; 0]);
    let told: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| is_told(request, "messages"))
        .collect();
    assert_eq!(told, [false, true, false, true]);
    Ok(())
}

#[tokio::test]
async fn an_answer_of_responses_that_is_cut_off_in_its_reasoning_goes_on() -> Checked {
    let server = ScriptedModel::start(script()).await?;
    ends_well(("openai-responses", &server.base_url())).await?;
    assert_eq!(server.broken_rules(), [""; 0]);
    let told: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| is_told(request, "input"))
        .collect();
    assert_eq!(told, [false, true, false, true]);
    Ok(())
}
