//! The official Python clients read what the scripted models send: what our own clients are tested with is real.

use serde_json::json;
use sortie_testkit::{ScriptedModel, model::Turn};

use crate::support::run_script;

#[tokio::test]
async fn the_openai_client_reads_the_scripted_model_in_both_protocols() {
    let script = || {
        [
            Turn::says(["Hel", "lö"])
                .and_calls("shell", json!({"command": "ls ä"}))
                .and_calls("read", json!({"n": 1}))
                .using(17, 5),
            Turn::says(["Done."]).using(20, 2),
        ]
    };
    let calls = json!([["call_0", "shell", {"command": "ls ä"}], ["call_1", "read", {"n": 1}]]);
    for protocol in ["chat", "responses"] {
        let model = ScriptedModel::start(script()).await.unwrap();
        let read = run_script("openai_sdk.py", vec![protocol.to_owned(), model.base_url()]).await;
        let expected = json!([
            {"text": "Hellö", "calls": calls, "usage": [17, 5]},
            {"text": "Done.", "calls": [], "usage": [20, 2]},
        ]);
        assert_eq!(read, expected, "{protocol}");
    }
}
