//! `/mcp` of a node that is killed, and `sortie mcp` (`docs/MCP.md`).

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use sortie_testkit::node::binary_command;

use crate::prelude::*;

both_databases![a_call_goes_on_after_its_node_was_killed];

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Sends a request of a client that knows tasks. Returns the result.
async fn request(client: &Client, method: &str, name: &str, mut params: Value) -> Result<Value> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let client = client
        .with_header("accept", "application/json, text/event-stream")
        .with_header("mcp-protocol-version", "2026-07-28")
        .with_header("mcp-method", method)
        .with_header("mcp-name", name);
    let answer = client.post("/mcp", &body).json(200).await?;
    ensure!(answer["error"].is_null(), "{answer}");
    Ok(answer["result"].clone())
}

async fn a_call_goes_on_after_its_node_was_killed(database: Database) -> Checked {
    let (mut node, client) = started(database).await?;
    let slow =
        json!({"prompt": "```wait 5000\n```\n```answer\ndone\n```", "model": "runbook", "shell": false});
    client.put("/v1/workflows/slow", &slow).expect(201).await?;
    let call = json!({"name": "slow", "arguments": {}});
    let task = request(&client, "tools/call", "slow", call).await?["taskId"].clone();
    let task = task.as_str().context("no task")?;
    client.until_running(task).await?;
    let state = request(&client, "tasks/get", task, json!({"taskId": task})).await?;
    assert_has!(state, {"status": "working"});
    node.kill()?;
    node.restart().await?;
    let client = node.client()?;
    client.finished(task).await?;
    let state = request(&client, "tasks/get", task, json!({"taskId": task})).await?;
    assert_has!(state, {"status": "completed"});
    assert_eq!(state["result"]["structuredContent"]["output"], "done");
    assert_eq!(client.list("").await?.len(), 1, "it was started once");
    Ok(())
}

/// Gives `sortie mcp` these lines. Returns its lines, by the IDs that they answer.
fn answers(mut command: Command, lines: &[&str]) -> Result<Vec<Value>> {
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = server.stdin.take().context("no standard input")?;
    for line in lines {
        writeln!(input, "{line}")?;
    }
    drop(input);
    let output = server.wait_with_output()?;
    ensure!(output.status.success(), "{}", output.status);
    let said = String::from_utf8(output.stdout)?;
    let mut answers: Vec<Value> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    answers.sort_by_key(|answer| answer["id"].to_string());
    Ok(answers)
}

/// Each line is answered before the program ends, also one that is no message.
#[test]
fn the_program_answers_every_line_with_an_engine_of_its_own() -> Checked {
    let folder = tempfile::tempdir()?;
    let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
    command
        .args(["mcp", "--data-dir"])
        .arg(folder.path().join("data"));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "start_run", "arguments": {"prompt": "größer", "model": "runbook", "shell": false}
    }});
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        &call.to_string(),
        "",
        "no message",
        "[]",
        r#"{"jsonrpc":"2.0","id":"three","method":"no/such/method"}"#,
        r#"{"jsonrpc":"2.0","id":4,"result":{}}"#,
    ];
    let answers = answers(command, &lines)?;
    let [three, handshake, started, none, batch] = &answers[..] else {
        anyhow::bail!("{answers:?}");
    };
    assert_eq!(handshake["result"]["protocolVersion"], "2025-06-18");
    assert_has!(started["result"]["structuredContent"], {"status": "queued"});
    assert_eq!(three["error"]["code"], -32_601);
    assert_has!(*none, {"id": null});
    let codes = [none, batch].map(|answer| answer["error"]["code"].clone());
    assert_eq!(codes, [json!(-32_700), json!(-32_600)]);
    Ok(())
}

#[test]
fn the_program_says_why_an_engine_does_not_answer() -> Checked {
    let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
    command
        .args(["mcp", "--url", "http://127.0.0.1:9"])
        .env("SORTIE_API_KEY", "sts_x");
    let answers = answers(command, &[r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#])?;
    let error = answers[0]["error"]["message"].as_str().context("no error")?;
    ensure!(
        error.starts_with("cannot reach the engine at http://127.0.0.1:9/"),
        "{error}"
    );
    Ok(())
}
