//! `/v1/budgets` (decisions 4): what runs may cost in a day or a month, however many come at once.

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use serde_json::json;
use sortie_api::{Budget, Run, RunStatus};
use sortie_testkit::{Bytes, Client, Database, NodeOptions, http::Method};

use crate::{
    Checked, both_databases,
    kit::{plain, settled, waiting},
    node_with,
};

both_databases![
    no_stack_of_runs_gets_over_a_budget_and_each_counts_what_it_cost,
    what_is_held_outlives_a_kill_and_is_settled_by_who_goes_on,
];

async fn limited(client: &Client, scope: &str, limit: i64) -> Checked {
    let body = json!({"limit_micros": limit, "period": "day"}).to_string();
    let path = format!("/v1/budgets/{scope}");
    client
        .send(Method::PUT, &path, Bytes::from(body))
        .await?
        .expect(201)?;
    Ok(())
}

async fn budget(client: &Client, scope: &str) -> Result<Budget> {
    client
        .get(&format!("/v1/budgets/{scope}"))
        .await?
        .expect(200)?
        .read()
}

/// A node on which time costs something.
fn priced() -> NodeOptions {
    NodeOptions::default().env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000")
}

async fn no_stack_of_runs_gets_over_a_budget_and_each_counts_what_it_cost(database: Database) -> Checked {
    let node = node_with(database, priced()).await?;
    let admin = node.client()?;
    let key = admin
        .post("/v1/admin/keys", &json!({"name": "ci"}))
        .await?
        .expect(201)?
        .json()?;
    let scope = format!("key:{}", key["id"].as_str().unwrap_or_default());
    limited(&admin, "organization", 100_000_000).await?;
    limited(&admin, &scope, 7_500_000).await?;
    let ci = admin.with_key(key["key"].as_str().unwrap_or_default());
    let request = waiting();
    let answers = join_all((0..20).map(|_| ci.post("/v1/runs", &request))).await;
    let mut runs: Vec<Run> = Vec::new();
    for answer in answers {
        let answer = answer?;
        if answer.status == 202 {
            runs.push(answer.read()?);
        } else {
            let refused = answer.failure(402, "payment_required")?;
            ensure!(
                refused.error.starts_with(&format!("budget {scope}: ")),
                "{}",
                refused.error
            );
        }
    }
    assert_eq!(runs.len(), 7);
    let now = budget(&admin, &scope).await?;
    assert_eq!(
        (now.held_micros.get(), now.available_micros.get()),
        (7_000_000, 500_000)
    );
    assert_eq!(budget(&admin, "organization").await?.held_micros.get(), 7_000_000);

    let mut spent = 0;
    for run in &runs {
        let id = run.id.to_string();
        admin.cancel(&id).await?;
        spent += settled(&admin, &id).await?.cost_micros.get();
    }
    // A run that ends by itself counts as well.
    let (_, run) = ci
        .complete(&plain("```wait 30\n```\n\n```answer\nx\n```\n"))
        .await?;
    ensure!(run.cost_micros.get() > 0, "{run:?}");
    spent += run.cost_micros.get();
    for scope in [scope.as_str(), "organization"] {
        let now = budget(&admin, scope).await?;
        assert_eq!(
            (now.held_micros.get(), now.spent_micros.get()),
            (0, spent),
            "{scope}"
        );
    }
    Ok(())
}

async fn what_is_held_outlives_a_kill_and_is_settled_by_who_goes_on(database: Database) -> Checked {
    let mut node = node_with(database, priced()).await?;
    let client = node.client()?;
    limited(&client, "organization", 1_500_000).await?;
    let request = json!({"prompt": "```wait 700\n```\n\n```answer\nx\n```\n", "shell": false});
    let id = client.create(&request).await?.id.to_string();
    client
        .follow(&id, None)
        .await?
        .until_status(RunStatus::Running)
        .await?;
    node.kill()?;
    node.restart().await?;
    let client = node.client()?;
    client
        .post("/v1/runs", &plain("x"))
        .await?
        .failure(402, "payment_required")?;
    let (_, run) = client.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Succeeded);
    let now = budget(&client, "organization").await?;
    assert_eq!((now.held_micros.get(), now.spent_micros), (0, run.cost_micros));
    client.create(&plain("x")).await?;
    Ok(())
}

/// Decisions 2, queueing: the limit of an organization holds over all nodes, and each organization has its own.
#[tokio::test]
async fn two_nodes_work_on_no_more_runs_of_an_organization_than_it_may_have() -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_ORGANIZATION_CONCURRENCY", "3")
        .env("SORTIE_RATE_LIMIT_PER_MINUTE", "1000000");
    let node = node_with(Database::Postgres, options).await?;
    let beside = node.beside().await?;
    let (owner, foreign) = (node.client()?, node.foreign_client(1).await?);
    let clients = [owner.clone(), beside.client()?];
    let request = json!({"prompt": "```wait 40\n```\n\n```answer\nx\n```\n", "shell": false});
    for number in 0..24 {
        clients[number % 2].create(&request).await?;
    }
    let other = foreign.create(&request).await?.id.to_string();
    let mut most = 0;
    loop {
        // One look sees one moment.
        let runs = owner.list("").await?;
        let open = |run: &&Run| matches!(run.status, RunStatus::Starting | RunStatus::Running);
        let at_work = runs.iter().filter(open).count();
        ensure!(at_work <= 3, "{at_work} at work");
        most = most.max(at_work);
        if runs.iter().all(|run| run.status.is_final()) {
            assert_eq!(runs.len(), 24);
            ensure!(
                runs.iter().all(|run| run.status == RunStatus::Succeeded),
                "{runs:?}"
            );
            break;
        }
    }
    ensure!(most > 0, "none was seen at work");
    let (_, other) = foreign
        .finished(&other)
        .await
        .context("another organization's run")?;
    assert_eq!(other.status, RunStatus::Succeeded);
    Ok(())
}
