//! Runs that call through connections.

use super::{calls, put};
use crate::prelude::*;

both_databases![
    a_run_calls_a_saved_connection_with_its_credentials,
    an_inline_connection_is_used_and_its_credentials_are_not_kept,
];

fn get(path: &str) -> Value {
    json!({"method": "GET", "path": path})
}

async fn a_run_calls_a_saved_connection_with_its_credentials(database: Database) -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(database).await?;
    let definition = json!({
        "type": "http", "url": format!("{}/echo?tenant=seven-and-more", service.url()),
        "auth": {"type": "bearer", "token": "hush-hush"}, "headers": {"X-Key": "also-hushed"},
    });
    put(&client, "crm", &definition).expect(201).await?;
    put(&client, "tools", &json!({"type": "mcp", "url": format!("{}/mcp", service.url()), "auth": {"type": "bearer", "token": "hush-mcp"}})).expect(201).await?;
    let connections =
        json!({"customers": {"ref": "crm"}, "tools": {"ref": "tools", "allowed_tools": ["echo"]}});
    let request = calls(
        &[("tools__echo", json!({})), ("customers__request", get("/orders"))],
        &connections,
    );
    let (events, run) = client.complete(&request).await?;
    assert_ended!(run, Succeeded);

    let received = service.received();
    let order = received
        .iter()
        .find(|one| one.path == "/echo/orders")
        .context("the API was not called")?;
    assert_eq!(order.headers["authorization"], "Bearer hush-hush");
    assert_eq!(
        (&*order.headers["x-key"], &*order.query),
        ("also-hushed", "tenant=seven-and-more")
    );
    let call = received
        .iter()
        .find(|one| one.method == "tools/call")
        .context("the server was not called")?;
    assert_eq!(call.headers["authorization"], "Bearer hush-mcp");
    let told = of_kind(&events, "connection_call");
    let told: Vec<Value> = told
        .iter()
        .map(|event| serde_json::from_str(event.data.get()))
        .collect::<Result<_, _>>()?;
    let to_api = told.iter().find(|data| data["connection"] == "customers");
    let to_api = to_api.context("no connection_call")?;
    assert_has!(to_api, {"method": "GET", "status": 200});
    ensure!(
        to_api["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/orders")),
        "{to_api}"
    );
    Ok(())
}

async fn an_inline_connection_is_used_and_its_credentials_are_not_kept(database: Database) -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(database).await?;
    let url = service.url().replace("http://", "http://ann:hush-pass@") + "/echo?key=hush-query";
    let connections = json!({
        "api": {"type": "http", "url": url, "headers": {"X-Key": "hush-header"}, "allowed_methods": ["GET"]},
        "open": {"type": "http", "url": format!("{}/echo", service.url())},
        "tools": {"type": "mcp", "url": format!("{}/mcp", service.url()), "auth": {"type": "header", "name": "X-Token", "value": "hush-token"}},
    });
    let request = calls(
        &[
            ("tools__echo", json!({})),
            ("open__request", get("/open")),
            ("api__request", get("")),
        ],
        &connections,
    );
    let (_, run) = client.complete(&request).await?;
    assert_ended!(run, Succeeded);
    let received = service.received();
    let call = received
        .iter()
        .find(|one| one.path == "/echo")
        .context("the API was not called")?;
    assert_eq!(
        (&*call.query, &*call.headers["x-key"]),
        ("key=hush-query", "hush-header")
    );
    assert_eq!(call.headers["authorization"], "Basic YW5uOmh1c2gtcGFzcw==");

    let path = format!("/v1/runs/{}/definition", run.id);
    let definition = client.get(&path).json(200).await?;
    assert_eq!(definition["requires_credentials"], json!(["api", "tools"]));
    let shown = &definition["request"]["connections"];
    assert_eq!(
        shown["api"],
        json!({"type": "http", "url": format!("{}/echo", service.url()), "auth": {"type": "basic"}, "headers": {"X-Key": ""}, "allowed_methods": ["GET"]})
    );
    ensure!(!definition.to_string().contains("hush"), "{definition}");

    // To replay it, the credentials are put back first (`docs/RUNS.md#the-definition-and-once-more`).
    let refusal = client
        .post("/v1/runs", &definition["request"])
        .refused("invalid_request")
        .await?;
    ensure!(
        refusal
            .error
            .starts_with("connections.api.auth.username: required"),
        "{}",
        refusal.error
    );
    let mut restored = definition["request"].clone();
    for name in ["api", "tools"] {
        restored["connections"][name] = connections[name].clone();
    }
    let (_, again) = client.complete(&restored).await?;
    assert_ended!(again, Succeeded);
    Ok(())
}

#[tokio::test]
async fn a_saved_connection_stays_a_reference_and_is_resolved_again() -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(Database::Sqlite).await?;
    put(&client, "crm", &json!({"type": "http", "url": format!("{}/echo", service.url()), "auth": {"type": "bearer", "token": "hush"}})).expect(201).await?;
    let connections = json!({"crm": {"ref": "crm", "allowed_methods": ["GET"]}});
    let (_, run) = client
        .complete(&calls(&[("crm__request", get("/one"))], &connections))
        .await?;
    let definition = client
        .get(&format!("/v1/runs/{}/definition", run.id))
        .await?
        .json()?;
    assert_eq!(definition["request"]["connections"], connections);
    assert_eq!(definition["requires_credentials"], json!([]));
    client.delete("/v1/connections/crm").expect(204).await?;
    let refusal = client
        .post("/v1/runs", &definition["request"])
        .refused("invalid_request")
        .await?;
    ensure!(
        refusal.error.starts_with("connections.crm.ref: no connection"),
        "{}",
        refusal.error
    );
    Ok(())
}

/// `docs/CONNECTIONS.md#what-an-agent-cannot-do`: a forbidden call fails for the agent, a missing server fails the run.
#[tokio::test]
async fn what_a_run_may_not_or_cannot_do_is_told() -> Checked {
    let service = Service::start().await?;
    let (_node, client) = started(Database::Sqlite).await?;
    let echo = format!("{}/echo", service.url());
    put(
        &client,
        "crm",
        &json!({"type": "http", "url": echo, "allowed_methods": ["GET", "POST"]}),
    )
    .expect(201)
    .await?;
    let narrowed = json!({"crm": {"ref": "crm", "allowed_methods": ["GET", "DELETE"]}});
    for (method, allowed) in [("GET", true), ("POST", false), ("DELETE", false)] {
        let request = calls(&[("crm__request", json!({"method": method}))], &narrowed);
        let (_, run) = client.complete(&request).await?;
        assert_eq!(
            run.status == RunStatus::Succeeded,
            allowed,
            "{method}: {:?}",
            run.error
        );
    }
    for path in [
        "/../admin",
        "//example.com/",
        "/%2e%2e/admin",
        "http://example.com/",
    ] {
        let (_, run) = client
            .complete(&calls(&[("crm__request", get(path))], &narrowed))
            .await?;
        assert_eq!(run.status, RunStatus::Failed, "{path}");
    }
    let received = service.received();
    ensure!(
        !received.is_empty() && received.iter().all(|one| one.path == "/echo"),
        "{received:?}"
    );

    for (connection, told) in rows! {
        json!({"type": "mcp", "url": "http://127.0.0.1:9/mcp"}), "connection `api`: ";
        json!({"type": "mcp", "url": echo}), "connection `api`: ";
    } {
        let (_, run) = client.complete(&calls(&[], &json!({"api": connection}))).await?;
        assert_eq!(run.status, RunStatus::Failed);
        let error = run.error.unwrap_or_default();
        ensure!(error.starts_with(told), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_that_is_gone_when_the_run_starts_fails_it() -> Checked {
    let options = sortie_testkit::NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let node = crate::node_with(Database::Sqlite, options).await?;
    let client = node.client()?;
    put(
        &client,
        "crm",
        &json!({"type": "http", "url": "https://api.example.com"}),
    )
    .expect(201)
    .await?;
    let first = crate::kit::at_work(&client).await?;
    let waits = client
        .create(&calls(&[], &json!({"api": {"ref": "crm"}})))
        .await?;
    client.delete("/v1/connections/crm").expect(204).await?;
    client.cancel(&first.id.to_string()).await?;
    let (_, run) = client.finished(&waits.id.to_string()).await?;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(
        run.error.as_deref(),
        Some("connection `api`: the saved connection \"crm\" was deleted")
    );
    Ok(())
}

/// An MCP server in the language of the shell: one tool, which returns the environment that it was started with.
const SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
        *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
        *'"method":"tools/list"'*) result='{"tools":[{"name":"tell","inputSchema":{"type":"object"}}]}' ;;
        *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"started with '"$TOKEN and ${SORTIE_MASTER_KEY:-nothing}"'"}]}' ;;
        *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"; continue ;;
        *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// Programs that fail are named, in a test and by a run, with their standard error.
async fn is_named_where_it_fails(client: &Client) -> Checked {
    for (command, told) in rows! {
        json!(["no-such-program"]),
        "the program `no-such-program` cannot be run in its sandbox: no-such-program: No such file or directory";
        json!(["sh", "-c", "echo \"cannot find module\" >&2; exit 3"]),
        "the program `sh` ended with exit code 3, and wrote to standard error: cannot find module";
        // It starts and never answers.
        json!(["sh", "-c", "echo \"no license server\" >&2; cat >/dev/null"]),
        "the program `sh` did not answer within 15 s, and wrote to standard error: no license server";
    } {
        let broken = json!({"type": "mcp", "command": command});
        put(client, "broken", &broken).await?;
        let request = calls(&[], &json!({"x": {"ref": "broken"}}));
        let (complete, test) = tokio::join!(
            client.complete(&request),
            client.post_empty("/v1/connections/broken/test")
        );
        let (_, run) = complete?;
        let told_run = format!("connection `x`: {told}");
        assert_eq!((run.status, run.error), (RunStatus::Failed, Some(told_run)));
        let tested = test?.expect(200)?.json()?;
        assert_has!(tested, {"status": "error", "detail": told});
        let shown = client.get("/v1/connections/broken").await?.json()?;
        assert_eq!(shown["error"], told);
    }
    Ok(())
}

/// A program is confined as commands are, gets the variables of its connection but not those of the engine, and leaves
/// no process.
#[tokio::test]
async fn an_mcp_server_may_be_a_program_in_a_sandbox() -> Checked {
    let options = sortie_testkit::NodeOptions::default().env("SORTIE_MASTER_KEY", &"6".repeat(64));
    let mut node = crate::node_with(Database::Sqlite, options).await?;
    let client = node.client()?;
    let program = json!({"type": "mcp", "command": ["sh", "-c", SERVER], "env": {"TOKEN": "hush-env"}});
    let saved = put(&client, "local", &program).json(201).await?;
    assert_has!(saved, {"env": ["TOKEN"], "status": "ready"});
    let found = client.post_empty("/v1/connections/local/test").json(200).await?;
    assert_eq!(
        (&found["status"], &found["tools"]),
        (&json!("ready"), &json!(["tell"])),
        "{found}"
    );
    let (events, run) = client
        .complete(&calls(
            &[("local__tell", json!({}))],
            &json!({"local": {"ref": "local"}}),
        ))
        .await?;
    assert_eq!(
        run.output.as_deref(),
        Some("started with [redacted] and nothing"),
        "{:?}",
        run.error
    );
    ensure!(
        !serde_json::to_string(&events)?.contains("hush-env"),
        "{events:?}"
    );

    is_named_where_it_fails(&client).await?;
    // Nothing listens there.
    let gone = json!({"type": "mcp", "url": "http://127.0.0.1:9/mcp"});
    put(&client, "gone", &gone).expect(201).await?;
    let (_, run) = client
        .complete(&calls(&[], &json!({"x": {"ref": "gone"}})))
        .await?;
    assert_eq!(run.status, RunStatus::Failed);
    ensure!(
        !node.log().contains("ERROR"),
        "faults of others are no errors: {}",
        node.log()
    );

    node.stop().await?;
    let left = std::fs::read_dir(node.data_dir().join("programs"))?.count();
    assert_eq!(left, 0, "a program's directory is left behind");
    Ok(())
}
