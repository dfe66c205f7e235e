//! `sortie runs replay`: starts a run again with the definition that it used
//! (`docs/RUNS.md#the-definition-and-once-more`).

use std::{
    fs,
    process::{Command, Output},
};

use crate::{prelude::*, terminal::at_a_terminal};

both_databases![a_replayed_run_gets_its_credentials_back];

/// Runs a command to its end while the service answers in this thread.
async fn ends(command: Command, code: i32) -> Result<Output> {
    tokio::task::spawn_blocking(move || exits(command, code)).await?
}

/// A run that calls an API with the token `hush-1`.
async fn run_with_a_token(client: &Client, service: &Service) -> Result<String> {
    let request = json!({
        "prompt": "```tool api__request\n{\"method\": \"GET\", \"path\": \"/orders\"}\n```\n", "shell": false,
        "input": {"n": 7}, "connections": {"api": {"type": "http", "url": format!("{}/echo", service.url()),
            "auth": {"type": "bearer", "token": "hush-1"}}},
    });
    let (_, run) = client.complete(&request).await?;
    assert_ended!(run, Succeeded);
    Ok(run.id.to_string())
}

/// Returns the tokens of the calls so far.
fn tokens(service: &Service) -> Vec<String> {
    let calls = service
        .received()
        .into_iter()
        .filter(|one| one.path == "/echo/orders");
    calls
        .filter_map(|call| call.headers.get("authorization").cloned())
        .collect()
}

async fn a_replayed_run_gets_its_credentials_back(database: Database) -> Checked {
    let service = Service::start().await?;
    let (node, client) = started(database).await?;
    let run = run_with_a_token(&client, &service).await?;
    let replay = |more: &[&str]| {
        let mut arguments = vec!["runs", "replay", &run];
        arguments.extend(more);
        node.sortie(&arguments)
    };
    let output = ends(replay(&[]), 64).await?;
    assert_contains!(output.stderr, "connection api lacks auth.token");

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("token");
    fs::write(&path, "hush-2\n")?;
    let from_file = format!("api=@{}", path.display());
    ends(replay(&["--credential", &from_file, "--max-cost", "$0.00007"]), 0).await?;
    let mut command = replay(&["--credential-env", "api=API_TOKEN", "--detach"]);
    command.env("API_TOKEN", "hush-3");
    let detached = text(&ends(command, 0).await?.stdout);
    client.finished(detached.trim()).await?;
    assert_eq!(
        tokens(&service),
        ["Bearer hush-1", "Bearer hush-2", "Bearer hush-3"]
    );

    let runs = client.list("").await?;
    let budgets: Vec<i64> = runs.iter().map(|run| run.max_cost_micros.get()).collect();
    assert_eq!(budgets, [1_000_000, 70, 1_000_000]);
    for run in runs {
        let path = format!("/v1/runs/{}/definition", run.id);
        let definition = client.get(&path).json(200).await?;
        assert_eq!(definition["request"]["input"], json!({"n": 7}));
        assert_eq!(definition["requires_credentials"], json!(["api"]));
    }
    Ok(())
}

#[tokio::test]
async fn a_credential_that_is_typed_is_not_shown() -> Checked {
    let service = Service::start().await?;
    let node: Node = node(Database::Sqlite).await?;
    let run = run_with_a_token(&node.client()?, &service).await?;
    let output = ends(
        at_a_terminal(
            &node.sortie(&["runs", "replay", &run]),
            &[("auth.token: ", "hush-4")],
        ),
        0,
    )
    .await?;
    let shown = text(&output.stdout);
    assert_contains!(shown, "api: auth.token: ");
    assert_lacks!(shown, "hush-4");
    assert_eq!(tokens(&service), ["Bearer hush-1", "Bearer hush-4"]);
    Ok(())
}

#[tokio::test]
async fn a_run_of_a_workflow_is_replayed_as_it_was() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let put = |prompt: &str| client.put("/v1/workflows/daily", &json!({"prompt": prompt, "shell": false}));
    put("first").expect(201).await?;
    let (_, run) = client.complete(&json!({"workflow": "daily"})).await?;
    put("second").expect(200).await?;
    let output = exits(node.sortie(&["runs", "replay", &run.id.to_string()]), 0)?;
    assert_eq!(text(&output.stdout), "first\n");
    Ok(())
}
