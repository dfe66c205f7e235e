//! MCP clients that others wrote, with the MCP server.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use sortie_testkit::{
    Balancer,
    peers::{Peer, installed},
    prelude::*,
    s3::S3,
};
use tempfile::TempDir;

use crate::{peer, storage, succeeds};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/peers")
        .join(name)
}

async fn save(client: &Client, name: &str, definition: &Value) -> Result<()> {
    client
        .put(&format!("/v1/workflows/{name}"), definition)
        .expect(201)
        .await?;
    Ok(())
}

/// Saves the workflows that the clients call.
async fn with_workflows(client: &Client) -> Result<()> {
    let greet = json!({
        "prompt": "```answer\n{\"greeting\": \"hello Ada\"}\n```", "description": "Greets somebody.", "model": "runbook",
        "input_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "output_schema": {
            "type": "object", "properties": {"greeting": {"$ref": "#/$defs/text"}}, "required": ["greeting"],
            "$defs": {"text": {"type": "string"}}
        }
    });
    save(client, "greet", &greet).await?;
    let slow = json!({"prompt": "```sh\nsleep 7; echo slept\n```", "model": "runbook"});
    save(client, "slow", &slow).await
}

/// The SDK for Python, with a server at an address or as a program.
fn python(target: &str, mode: &str, key: &str) -> Result<Command> {
    let mut command = peer("venv/bin/python", &TempDir::new()?)?;
    command.current_dir("/").env("SORTIE_API_KEY", key);
    command.args([&*script("mcp_client.py").to_string_lossy(), target, mode]);
    Ok(command)
}

#[tokio::test]
async fn the_sdk_for_python_calls_workflows_with_and_without_tasks() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    with_workflows(&node.client()?).await?;
    let url = format!("{}/mcp", node.url()?);
    for mode in ["auto", "legacy", "tasks"] {
        let said = succeeds(&mut python(&url, mode, node.key())?)?;
        assert_eq!(said, format!("ok {mode}\n"));
    }
    Ok(())
}

#[tokio::test]
async fn the_server_is_a_program_too() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    with_workflows(&node.client()?).await?;
    for mode in ["auto", "legacy", "tasks"] {
        let mut client = python(env!("CARGO_BIN_EXE_sortie"), mode, node.key())?;
        let said = succeeds(client.env("SORTIE_URL", node.url()?))?;
        assert_eq!(said, format!("ok {mode}\n"));
    }
    Ok(())
}

#[tokio::test]
async fn the_sdk_for_typescript_calls_workflows_and_hears_of_changes() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    with_workflows(&node.client()?).await?;
    let folder = TempDir::new()?;
    std::os::unix::fs::symlink(installed("npm/node_modules")?, folder.path().join("node_modules"))?;
    std::fs::copy(script("mcp_client.mjs"), folder.path().join("mcp_client.mjs"))?;
    for mode in ["auto", "legacy", "tasks"] {
        let mut client = peer("node/bin/node", &folder)?;
        client.args(["mcp_client.mjs", &format!("{}/mcp", node.url()?), mode]);
        let said = succeeds(client.env("SORTIE_API_KEY", node.key()))?;
        assert_eq!(said, format!("ok {mode}\n"));
    }
    Ok(())
}

/// Each request of the client goes to another node.
#[tokio::test(flavor = "multi_thread")]
async fn any_of_three_nodes_answers_any_request() -> Result<()> {
    let store = S3::start().await?;
    let options = storage::options(&store);
    let first = Node::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Postgres, options).await?;
    let nodes = [first.beside().await?, first.beside().await?];
    with_workflows(&first.client()?).await?;
    let addresses = [first.address()?, nodes[0].address()?, nodes[1].address()?];
    let balancer = Balancer::start(addresses).await?;
    let url = format!("http://{}/mcp", balancer.address());
    for mode in ["auto", "tasks"] {
        let said = succeeds(&mut python(&url, mode, first.key())?)?;
        assert_eq!(said, format!("ok {mode}\n"));
    }
    let url = format!("{}/mcp", nodes[0].url()?);
    let listener = Peer::spawn(&mut python(&url, "listen", first.key())?)?;
    assert_eq!(listener.line()?, "listening");
    save(&first.client()?, "new", &json!({"prompt": "x"})).await?;
    let changed = listener.line()?;
    ensure!(changed.contains(" new "), "{changed}");
    Ok(())
}

/// Checks of the conformance runner that do not hold, each with the reason.
const NOT_APPLICABLE: &[(&str, &[&str])] = &[
    (
        "there are no prompts, completions or log messages",
        &[
            "caching/sep-2549-prompts-list-caching-hints",
            "completion-complete/completion-complete",
            "logging-set-level/logging-set-level",
            "prompts-get-embedded-resource/prompts-get-embedded-resource",
            "prompts-get-simple/prompts-get-simple",
            "prompts-get-with-args/prompts-get-with-args",
            "prompts-get-with-image/prompts-get-with-image",
            "prompts-list/prompts-list",
            "tools-call-with-logging/tools-call-with-logging",
        ],
    ),
    (
        "each request has a bearer credential, which no page of another origin has",
        &["dns-rebinding-protection/localhost-host-rebinding-rejected"],
    ),
    (
        "a call asks its client for nothing",
        &[
            "elicitation-sep1034-defaults/elicitation-sep1034-general",
            "elicitation-sep1330-enums/elicitation-sep1330-general",
            "input-required-result-basic-elicitation/sep-2322-elicitation-incomplete",
            "input-required-result-basic-list-roots/sep-2322-list-roots-incomplete",
            "input-required-result-basic-sampling/sep-2322-sampling-incomplete",
            "input-required-result-capability-check/sep-2322-respect-client-capabilities",
            "input-required-result-missing-input-response/sep-2322-missing-response-rerequests",
            "input-required-result-multi-round/sep-2322-multi-round-r1",
            "input-required-result-multiple-input-requests/sep-2322-multiple-inputs-incomplete",
            "input-required-result-non-tool-request/sep-2322-non-tool-incomplete",
            "input-required-result-request-state/sep-2322-request-state-incomplete",
            "input-required-result-result-type/sep-2322-result-type-included",
            "input-required-result-tampered-state/sep-2322-reject-tampered-state",
            "input-required-result-validate-input/sep-2322-error-on-protocol-error",
            "input-required-result-validate-input/sep-2322-validate-input-responses",
            "server-stateless/sep-2575-missing-capability-http-400",
            "server-stateless/sep-2575-server-rejects-undeclared-capability",
            "tasks-mrtr-composition/sep-2663-mrtr-synchronous-before-task-creation",
            "tasks-mrtr-input/sep-2663-tasks-get-status-input-required",
            "tasks-mrtr-input/tasks-mrtr-partial-fulfillment",
            "tasks-mrtr-input/tasks-mrtr-tasks-update-resumes",
            "tools-call-elicitation/tools-call-elicitation",
            "tools-call-sampling/tools-call-sampling",
        ],
    ),
    (
        "no tool of ours mirrors arguments in headers",
        &[
            "http-custom-header-server-validation/sep-2243-server-decode-base64",
            "http-custom-header-server-validation/sep-2243-server-no-xmcp-tool",
            "http-custom-header-server-validation/sep-2243-server-reject-invalid-param-chars",
            "http-custom-header-server-validation/sep-2243-server-reject-param-mismatch",
            "http-custom-header-server-validation/sep-2243-server-validate-param-match",
        ],
    ),
    (
        "the fixtures of the runner: resources of its own, and tools whose results have other content than a run",
        &[
            "resources-read-binary/resources-read-binary",
            "resources-read-text/resources-read-text",
            "resources-templates-read/resources-templates-read",
            "tools-call-audio/tools-call-audio",
            "tools-call-embedded-resource/tools-call-embedded-resource",
            "tools-call-image/tools-call-image",
            "tools-call-mixed-content/tools-call-mixed-content",
        ],
    ),
    (
        "no resource can be subscribed to",
        &[
            "resources-subscribe/resources-subscribe",
            "resources-unsubscribe/resources-unsubscribe",
        ],
    ),
    (
        "there are no sessions",
        &[
            "server-sse-multiple-streams/server-sse-multiple-streams-session",
            "server-sse-polling/server-sse-polling-session",
        ],
    ),
    (
        "workflows are saved over HTTP, and not by the tool that the runner calls",
        &["server-stateless/sep-2575-server-sends-tools-list-changed-on-subscription"],
    ),
    (
        "each call of a workflow may take long: it is a task for every client that knows tasks, and needs none",
        &[
            "tasks-dispatch-and-envelope/sep-2663-legacy-task-param-ignored",
            "tasks-dispatch-and-envelope/tasks-result-type-complete-on-non-task-responses",
            "tasks-lifecycle/sep-2663-tasks-get-status-failed",
            "tasks-lifecycle/tasks-sync-tool-call",
            "tasks-request-headers/tasks-headers-tolerate-mcp-method-on-tools-call",
            "tasks-required-task-error/sep-2663-server-returns-missing-capability-when-required",
        ],
    ),
];

/// The official runner holds the server against the specification, in each revision that a check is for.
#[tokio::test]
async fn the_conformance_runner_finds_what_applies_in_order() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    let client = node.client()?;
    let plain = |prompt: &str| json!({"prompt": prompt, "model": "runbook", "shell": false});
    for (name, prompt) in [
        ("greet", "hello"),
        ("slow_compute", "```wait 3000\n```"),
        ("failing_job", "```tool none\n{}\n```"),
        ("test_error_handling", "```tool none\n{}\n```"),
        ("test_input_required_result_elicitation", "asks for nothing"),
        ("test_logging_tool", "logs nothing"),
        ("test_streaming_elicitation", "asks for nothing"),
        ("test_simple_text", "This is a simple text response for testing."),
        ("test_tool_with_progress", "```wait 11000\n```"),
    ] {
        save(&client, name, &plain(prompt)).await?;
    }
    let mut of_2020 = plain("x");
    of_2020["input_schema"] = serde_json::from_str(include_str!("json_schema_2020_12.json"))?;
    save(&client, "json_schema_2020_12_tool", &of_2020).await?;

    let folder = TempDir::new()?;
    let mut proxy = peer("node/bin/node", &folder)?;
    proxy
        .arg(script("key_proxy.mjs"))
        .arg(node.url()?)
        .env("SORTIE_API_KEY", node.key());
    let proxy = Peer::spawn(&mut proxy)?;
    let mut runner = peer("npm/node_modules/.bin/conformance", &folder)?;
    runner.args([
        "server",
        "--suite",
        "all",
        "--output-dir",
        "results",
        "--url",
        &format!("{}/mcp", proxy.line()?),
    ]);
    // It fails, because it counts checks that do not apply.
    let output = runner.output()?;
    let (held, others) = results(&folder.path().join("results"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(held >= 140, "only {held} checks hold: {said}");
    let listed: BTreeSet<_> = NOT_APPLICABLE
        .iter()
        .flat_map(|(_, checks)| *checks)
        .map(|check| (*check).to_owned())
        .collect();
    assert_eq!(
        others.keys().cloned().collect::<BTreeSet<_>>(),
        listed,
        "{others:#?}"
    );
    Ok(())
}

/// Reads the results of the runner: the number of checks that hold, and the others with their reasons.
fn results(folder: &Path) -> Result<(usize, BTreeMap<String, Value>)> {
    let (mut held, mut others) = (0, BTreeMap::new());
    for scenario in std::fs::read_dir(folder)? {
        let scenario = scenario?;
        let name = scenario.file_name().to_string_lossy().into_owned();
        // server-ping-2026-11-30T19-53-35-914Z
        let name = name.strip_prefix("server-").unwrap_or(&name);
        let name = name
            .get(..name.len().saturating_sub("-2026-11-30T19-53-35-914Z".len()))
            .context("a name")?;
        let checks: Vec<Value> =
            serde_json::from_slice(&std::fs::read(scenario.path().join("checks.json"))?)?;
        for check in checks {
            let id = check["id"].as_str().context("a check without an ID")?;
            match check["status"].as_str() {
                Some("SUCCESS") => held += 1,
                Some("FAILURE" | "WARNING") => {
                    others.insert(format!("{name}/{id}"), check["errorMessage"].clone());
                }
                _ => {}
            }
        }
    }
    Ok((held, others))
}
