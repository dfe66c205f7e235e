//! `/v1/budgets` (`docs/BUDGETS.md`): limits of the cost of runs in a day or a month, also with many concurrent runs.

use futures_util::future::join_all;
use sortie_api::{Budget, Run};
use sortie_testkit::model::Turn;

use crate::{prelude::*, runs::model::Scripted};

both_databases![
    no_stack_of_runs_gets_over_a_budget_and_each_counts_what_it_cost,
    what_is_held_outlives_a_kill_and_is_settled_by_who_goes_on,
];

async fn limited(client: &Client, scope: &str, limit: i64) -> Checked {
    let body = json!({"limit_micros": limit, "period": "day"}).to_string();
    let path = format!("/v1/budgets/{scope}");
    client
        .send(Method::PUT, &path, Bytes::from(body))
        .expect(201)
        .await?;
    Ok(())
}

async fn budget(client: &Client, scope: &str) -> Result<Budget> {
    client.get(&format!("/v1/budgets/{scope}")).read(200).await
}

/// A node on which time costs something.
fn priced() -> NodeOptions {
    NodeOptions::default().env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000")
}

async fn no_stack_of_runs_gets_over_a_budget_and_each_counts_what_it_cost(database: Database) -> Checked {
    let (_node, admin) = started_with(database, priced()).await?;
    let key = admin
        .post("/v1/admin/keys", &json!({"name": "ci"}))
        .json(201)
        .await?;
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
            let refused = answer.refused("payment_required")?;
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
    // A run that ends normally counts as well.
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
    // One answer may be lost with the node: the other is for the node that resumes the run.
    let script = ["x", "x"].map(|text| Turn::says([text]).held());
    let mut rig = Scripted::start_with(database, script, priced()).await?;
    let client = rig.node.client()?;
    limited(&client, "organization", 1_500_000).await?;
    let request = json!({"prompt": "Go.", "shell": false});
    let id = client.create_id(&request).await?;
    client.until_running(&id).await?;
    rig.node.kill()?;
    rig.node.restart().await?;
    let client = rig.node.client()?;
    client
        .follow(&id, None)
        .await?
        .until(|event| event.kind == "resumed")
        .await?;
    client
        .post("/v1/runs", &plain("x"))
        .refused("payment_required")
        .await?;
    rig.model.release();
    let (_, run) = client.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Succeeded);
    let now = budget(&client, "organization").await?;
    assert_eq!((now.held_micros.get(), now.spent_micros), (0, run.cost_micros));
    client.create(&plain("x")).await?;
    Ok(())
}

/// `docs/BUDGETS.md#how-many-at-once`: the limit of an organization applies across all nodes, and separately to each
/// organization.
#[tokio::test]
async fn two_nodes_work_on_no_more_runs_of_an_organization_than_it_may_have() -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_ORGANIZATION_CONCURRENCY", "3")
        .env("SORTIE_RATE_LIMIT_PER_MINUTE", "1000000");
    let node = node_with(Database::Postgres, options).await?;
    let beside = node.beside().await?;
    let (owner, foreign) = (node.client()?, node.foreign_client(1).await?);
    let clients = [owner.clone(), beside.client()?];
    // A trigger records with each claim how many runs are active: a client that lists them may be too late.
    node.meddle(
        "CREATE TABLE noted (org_id TEXT, at_work BIGINT); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         INSERT INTO noted SELECT org_id, COUNT(*) FROM queue WHERE node_id >= 0 GROUP BY org_id; \
         RETURN NULL; END $$; \
         CREATE TRIGGER notes AFTER UPDATE ON queue FOR EACH STATEMENT EXECUTE FUNCTION note()",
    )
    .await?;
    let request = json!({"prompt": "```wait 40\n```\n\n```answer\nx\n```\n", "shell": false});
    let mut runs = Vec::new();
    for number in 0..24 {
        runs.push(clients[number % 2].create_id(&request).await?);
    }
    let other = foreign.create_id(&request).await?;
    for id in &runs {
        let (_, run) = owner.finished(id).await?;
        assert_eq!(run.status, RunStatus::Succeeded);
    }
    let noted = node.rows("SELECT MAX(at_work) AS most FROM noted").await?;
    let most = noted[0]["most"].as_i64().context("no claim was noted")?;
    ensure!((1..=3).contains(&most), "{most} at work");
    let (_, other) = foreign
        .finished(&other)
        .await
        .context("another organization's run")?;
    assert_eq!(other.status, RunStatus::Succeeded);
    Ok(())
}
