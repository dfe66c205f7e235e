//! The official Python clients parse the output of our scripted models, so our tests use realistic servers.

use serde_json::{Value, json};
use sortie_testkit::{ScriptedAnthropic, ScriptedModel, model::Turn};

use crate::support::run_script;

fn script() -> [Turn; 2] {
    [
        Turn::says(["Hel", "lö"])
            .and_calls("shell", json!({"command": "ls ä"}))
            .and_calls("read", json!({"n": 1}))
            .using(17, 5),
        Turn::says(["Done."]).using(20, 2),
    ]
}

/// Pieces that a client must have parsed, if the ids of calls begin with `ids`.
fn expected(ids: &str) -> Value {
    let call = |number: u8, tool: &str, arguments: Value| json!([format!("{ids}_{number}"), tool, arguments]);
    let calls = [
        call(0, "shell", json!({"command": "ls ä"})),
        call(1, "read", json!({"n": 1})),
    ];
    json!([
        {"text": "Hellö", "calls": calls, "usage": [17, 5]},
        {"text": "Done.", "calls": [], "usage": [20, 2]},
    ])
}

#[tokio::test]
async fn the_openai_client_reads_the_scripted_model_in_both_protocols() {
    let chat = ScriptedModel::start(script()).await.unwrap();
    let responses = ScriptedModel::start(script()).await.unwrap();
    let read = run_script("openai_sdk.py", vec![chat.base_url(), responses.base_url()]).await;
    assert_eq!(
        read,
        json!({"chat": expected("call"), "responses": expected("call")})
    );
}

#[tokio::test]
async fn the_anthropic_client_reads_the_scripted_model() {
    let model = ScriptedAnthropic::start(script()).await.unwrap();
    let read = run_script("anthropic_sdk.py", vec![model.base_url()]).await;
    assert_eq!(read, expected("toolu"));
}
