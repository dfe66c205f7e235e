//! `sortie runs export`: writes a finished run as a cassette.

use sortie_testkit::model::Turn;

use crate::{prelude::*, runs::model::Scripted};

fn lines(cassette: &str) -> serde_json::Result<Vec<Value>> {
    cassette.lines().map(serde_json::from_str).collect()
}

#[tokio::test]
async fn a_run_is_exported_with_its_answers_results_and_cost_and_without_its_credentials() -> Checked {
    let service = Service::start().await?;
    let headers = json!({"Authorization": "Bearer planted-by-the-model"});
    let script = [
        Turn::says(["I ask."])
            .and_calls(
                "api__request",
                json!({"method": "GET", "path": "/x", "headers": headers}),
            )
            .and_calls("shell", json!({"command": "seq 10000"}))
            .using(1_000, 100),
        Turn::says(["Done."]).using(2_000, 7),
    ];
    let rig = Scripted::start(Database::Sqlite, script).await?;
    let connections = json!({"api": {
        "type": "http", "url": format!("{}/echo", service.url()), "auth": {"type": "bearer", "token": "hush-hush"},
    }});
    let input = json!({"ssn": 123_456_789, "password": ["hush"]});
    let request = json!({
        "prompt": "Ask.", "input": input, "connections": connections, "timeout_seconds": 60, "fallback_model": "runbook",
    });
    let (_, run) = rig.node.client()?.complete(&request).await?;
    let id = run.id.to_string();
    let exported = said(&rig.node, &["runs", "export", &id])?;
    assert_lacks!(exported, "hush", "planted-by");
    let lines = lines(&exported)?;
    let header = &lines[0];
    assert_has!(header, {"cassette": 1, "prompt": "Ask."});
    assert_eq!(header["model"]["prices"]["output_micros_per_mtok"], 15_000_000);
    assert_eq!(header["fallback_model"]["id"], "runbook");
    assert_eq!(
        header["input"],
        json!({"ssn": 123_456_789, "password": "[redacted]"})
    );
    assert_has!(header, {"tools": ["api__request", "shell"], "timeout_seconds": 60});
    let says: Vec<&Value> = lines.iter().filter_map(|line| line.get("say")).collect();
    assert_eq!(says.len(), 2);
    assert_eq!(
        (&says[0]["cost_micros"], &says[0]["usage"]["input_tokens"]),
        (&json!(4_500), &json!(1_000))
    );
    assert_eq!(says[0]["model"], "scripted");
    assert_eq!(says[0]["calls"][1]["arguments"], json!({"command": "seq 10000"}));
    let results: Vec<&Value> = lines.iter().filter_map(|line| line.get("result")).collect();
    let long = results
        .iter()
        .find(|result| result["tool"] == "shell")
        .context("no result")?;
    let kept = long["output"].as_str().map_or(0, str::len);
    ensure!(
        kept < 17 * 1024 && long["output_bytes"].as_u64() > Some(16 * 1024),
        "{kept}"
    );
    let end = &lines[lines.len() - 1]["end"];
    assert_has!(end, {"status": "succeeded", "output": "Done."});
    assert_eq!(end["cost_micros"], run.cost_micros.get());

    is_masked(&rig.node, &id)
}

/// Checks that an export without content, into a file, has none.
fn is_masked(node: &Node, id: &str) -> Checked {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.jsonl");
    let path = file.to_str().context("a path that is no text")?;
    assert_eq!(
        said(node, &["runs", "export", id, "-o", path, "--no-content"])?,
        ""
    );
    let masked = std::fs::read_to_string(&file)?;
    ensure!(masked.contains("\"xxxxx\""), "{masked}");
    for content in ["Done.", "seq 10000", "ssn", "123456789", "password"] {
        ensure!(!masked.contains(content), "{content} is in {masked}");
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_has_not_ended_is_not_exported() -> Checked {
    let node = crate::node(Database::Sqlite).await?;
    let run = at_work(&node.client()?).await?;
    let id = run.id.to_string();
    let refused = exits(node.sortie(&["runs", "export", &id]), 64)?;
    ensure!(text(&refused.stderr).contains("has not ended: running"));
    Ok(())
}
