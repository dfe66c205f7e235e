//! An attacker who can write the database but has no master key points connections elsewhere: no credential is sent
//! there.

use super::{authorize, calls, put};
use crate::prelude::*;

/// The requests that a service has received below a path.
fn received(service: &Service, path: &str) -> usize {
    let all = service.received();
    all.iter()
        .filter(|request| request.path.starts_with(path))
        .count()
}

/// Replaces `/echo`, or `/guarded`, by another path in every definition.
async fn point_elsewhere(node: &Node) -> Checked {
    for (table, path) in [
        ("connection", "/echo"),
        ("connection", "/guarded"),
        ("run_definition", "/echo"),
    ] {
        node.meddle(&format!(
            "UPDATE {table} SET definition = replace(definition, '{path}', '/elsewhere')"
        ))
        .await?;
    }
    Ok(())
}

async fn failed(node: &Node, request: &serde_json::Value) -> Result<String> {
    let (_, run) = node.client()?.complete(request).await?;
    ensure!(run.status == RunStatus::Failed, "{run:?}");
    run.error.context("an error")
}

#[tokio::test]
async fn a_saved_connection_that_is_pointed_elsewhere_sends_nothing() -> Checked {
    let service = Service::start().await?;
    let (node, client) = started(Database::Postgres).await?;
    let definition = json!({"type": "http", "url": format!("{}/echo", service.url()),
        "auth": {"type": "bearer", "token": "hush-hush"}});
    put(&client, "echo", &definition).expect(201).await?;
    authorize(&client, &service).await?.expect(200)?;
    point_elsewhere(&node).await?;
    for name in ["echo", "crm"] {
        let tool = format!("{name}__request");
        let request = calls(
            &[(&tool, json!({"method": "GET"}))],
            &json!({name: {"ref": name}}),
        );
        let said = failed(&node, &request).await?;
        ensure!(said.contains("saved for another address"), "{name}: {said}");
    }
    assert_eq!(received(&service, "/elsewhere"), 0);
    Ok(())
}

#[tokio::test]
async fn a_connection_of_a_waiting_run_that_is_pointed_elsewhere_sends_nothing() -> Checked {
    let service = Service::start().await?;
    let mut node = node(Database::Postgres).await?;
    node.stop().await?;
    node.set_env("SORTIE_CONCURRENCY", "1");
    node.restart().await?;
    let client = node.client()?;
    let first = at_work(&client).await?;
    let inline = json!({"echo": {"type": "http", "url": format!("{}/echo", service.url()),
        "auth": {"type": "bearer", "token": "hush-hush"}}});
    let second = client
        .create(&calls(&[("echo__request", json!({"method": "GET"}))], &inline))
        .await?;
    point_elsewhere(&node).await?;
    client.cancel(&first.id.to_string()).await?;
    let (_, run) = client.finished(&second.id.to_string()).await?;
    assert_eq!(run.status, RunStatus::Failed);
    let said = run.error.context("an error")?;
    ensure!(said.contains("saved for another address"), "{said}");
    assert_eq!(received(&service, "/elsewhere"), 0);
    Ok(())
}
