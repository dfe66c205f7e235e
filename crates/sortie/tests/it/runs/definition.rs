//! `GET /v1/runs/{id}/definition` (`docs/RUNS.md#the-definition-and-once-more`).

use crate::prelude::*;

both_databases![the_definition_is_what_the_run_used_and_can_be_sent_again];

async fn the_definition_is_what_the_run_used_and_can_be_sent_again(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let request = json!({
        "prompt": "hello\u{2028}",
        "input": {"b": [1, 2.50], "a": null},
        "files": [{"path": "a/b.txt", "content": "text\n"}],
        "description": "a greeting",
        "input_schema": {"type": "object", "required": ["a"]},
        "output_schema": {"type": "string"},
        "timeout_seconds": 7,
        "shell": false,
        "max_cost_micros": 5,
    });
    let run = client.create(&request).await?;
    let definition = client
        .get(&format!("/v1/runs/{}/definition", run.id))
        .json(200)
        .await?;
    assert_eq!(definition["requires_credentials"], json!([]));
    for (field, sent) in request.as_object().into_iter().flatten() {
        assert_eq!(&definition["request"][field], sent, "{field}");
    }
    for gone in ["workflow", "callback"] {
        ensure!(definition["request"].get(gone).is_none(), "{definition}");
    }
    let again = client.create(&definition["request"]).await?;
    let second = client
        .get(&format!("/v1/runs/{}/definition", again.id))
        .json(200)
        .await?;
    assert_eq!(second, definition);
    Ok(())
}

/// `docs/RUNS.md#the-definition-and-once-more`: `request` is the definition the run actually used, defaults filled in.
#[tokio::test]
async fn defaults_are_filled_in() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let run = client.create(&plain("x")).await?;
    let definition = client
        .get(&format!("/v1/runs/{}/definition", run.id))
        .json(200)
        .await?;
    let request = &definition["request"];
    assert_eq!(request["model"], "runbook");
    assert_eq!(request["timeout_seconds"], 300);
    assert_eq!(request["shell"], true);
    assert_eq!(request["max_cost_micros"], 1_000_000);
    Ok(())
}

/// `docs/RUNS.md#the-definition-and-once-more`: the input is stored as sent, even if a number exceeds 64 bits.
#[tokio::test]
async fn the_input_is_kept_as_sent() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let input = r#"{"n":12345678901234567890123,"e":1e400,"twice":1,"twice":2}"#;
    let body = format!(r#"{{"prompt":"x","input":{input}}}"#);
    let run: Value = client
        .send(Method::POST, "/v1/runs", Bytes::from(body))
        .json(202)
        .await?;
    let path = format!("/v1/runs/{}/definition", run["id"].as_str().unwrap_or_default());
    let definition = client.get(&path).expect(200).await?.text();
    ensure!(definition.contains(input), "{definition}");
    Ok(())
}
