//! Zero data retention (`docs/ZERO-DATA-RETENTION.md`) on one node. `nothing_is_stored` checks the written data,
//! `nodes` the view of other nodes.

mod callbacks;
mod commands;
pub(crate) mod nodes;
mod nothing_is_stored;

use sortie_api::Run;

use crate::prelude::*;

both_databases![
    the_first_read_after_the_end_has_the_output_and_no_other,
    of_many_readers_one_gets_the_output,
    it_can_be_cancelled_while_it_waits_and_while_it_works,
    a_restart_interrupts_those_under_way_and_loses_what_was_held,
    a_stop_interrupts_those_that_outlive_the_grace,
];

/// A run of this prompt that stores nothing.
pub(crate) fn unretained(prompt: &str) -> Value {
    json!({"prompt": prompt, "zero_data_retention": true})
}

/// Returns a request of a run that waits until a test ends it.
fn waiting() -> Value {
    json!({"prompt": "```wait 600000\n```\n", "timeout_seconds": 900, "zero_data_retention": true})
}

async fn at_work(client: &Client) -> anyhow::Result<String> {
    let id = client.create_id(&waiting()).await?;
    client.until_running(&id).await?;
    Ok(id)
}

/// Returns a run of a lost node after a sweep has ended it. A node is ready before its first sweep.
async fn swept(client: &Client, id: &str) -> anyhow::Result<Run> {
    let look = async || client.run(id).await;
    until("the sweep", look, |run| run.status.is_final()).await
}

/// Returns the fields of a run that concern its output.
fn held(run: &Run) -> (Option<&str>, Option<bool>, bool) {
    (
        run.output.as_deref(),
        run.output_available,
        run.output_expires_at.is_some(),
    )
}

async fn the_first_read_after_the_end_has_the_output_and_no_other(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let keyed = client.with_header("idempotency-key", "once");
    let created = keyed
        .create(&unretained("```sh\necho deep > a; cat a\n```\n"))
        .await?;
    ensure!(created.zero_data_retention && created.surcharge_percent.is_none());
    assert_eq!(held(&created), (None, Some(false), false));
    let id = created.id.to_string();
    let (events, done) = client.finished(&id).await?;
    assert_eq!(done.status, RunStatus::Succeeded);
    assert_eq!(held(&done), (None, Some(true), true), "done does not hand it out");
    assert_eq!(data(of_kind(&events, "result")[0])["output"], "deep\n");
    let ids: Vec<i64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..).take(ids.len()).collect::<Vec<i64>>());
    assert_eq!(
        statuses(&events),
        [
            RunStatus::Queued,
            RunStatus::Starting,
            RunStatus::Running,
            RunStatus::Succeeded
        ]
    );
    let expires_at = done.output_expires_at.context("it expires")?;
    let finished_at = done.finished_at.context("it is finished")?;
    assert_eq!(expires_at.as_micros() - finished_at.as_micros(), 3_600_000_000);

    // Neither the list, nor a cancel, nor the idempotency key returns it.
    for run in [
        client.list("").await?.remove(0),
        client.cancel(&id).await?,
        keyed.post("/v1/runs", &unretained("other")).read(200).await?,
    ] {
        assert_eq!(run, done);
    }
    client
        .get(&format!("/v1/runs/{id}/definition"))
        .refused("gone")
        .await?;

    let first: Run = client.get(&format!("/v1/runs/{id}?wait=5")).read(200).await?;
    assert_eq!(held(&first), (Some("deep\n"), Some(false), false));
    let second = client.run(&id).await?;
    assert_eq!(held(&second), (None, Some(false), false));
    assert_eq!(client.list("").await?, [second]);
    // The stream stays available for a few minutes, from any position.
    let (again, done) = client.finished(&id).await?;
    assert_eq!(kinds(&again), kinds(&events));
    assert_eq!(held(&done), (None, Some(false), false));
    let as_json = client.with_header("accept", "application/json");
    let rest = as_json
        .get(&format!("/v1/runs/{id}/events?after=3"))
        .json(200)
        .await?;
    assert_eq!(rest.as_array().context("an array")?.len(), events.len() - 3);
    Ok(())
}

async fn of_many_readers_one_gets_the_output(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let (_, done) = client.complete(&unretained("mine")).await?;
    let id = done.id.to_string();
    let reads = futures_util::future::join_all((0..16).map(|_| client.run(&id))).await;
    let mut outputs = Vec::new();
    for run in reads {
        outputs.extend(run?.output);
    }
    assert_eq!(outputs, ["mine"]);
    Ok(())
}

async fn it_can_be_cancelled_while_it_waits_and_while_it_works(database: Database) -> Checked {
    let (_node, client) =
        started_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let works = at_work(&client).await?;
    let waits = client.create_id(&waiting()).await?;
    assert_eq!(
        client
            .list("status=queued")
            .await?
            .iter()
            .map(|run| run.id.to_string())
            .collect::<Vec<_>>(),
        std::slice::from_ref(&waits)
    );
    for id in [&waits, &works] {
        let cancelled = client.cancel(id).await?;
        assert_eq!(cancelled.status, RunStatus::Cancelled);
        let (events, done) = client.finished(id).await?;
        assert_eq!((done.status, finals(&events)), (RunStatus::Cancelled, 1));
        assert_eq!(held(&client.run(id).await?), (None, Some(false), false));
    }
    // Runs of both kinds get the only slot in turn.
    for request in [unretained("a"), json!({"prompt": "b"}), unretained("c")] {
        let (_, done) = client.complete(&request).await?;
        assert_eq!(done.status, RunStatus::Succeeded);
    }
    Ok(())
}

async fn a_restart_interrupts_those_under_way_and_loses_what_was_held(database: Database) -> Checked {
    let (mut node, client) =
        started_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let (_, done) = client.complete(&unretained("unread")).await?;
    let works = at_work(&client).await?;
    let waits = client.create_id(&unretained("never begun")).await?;
    node.kill()?;
    node.restart().await?;
    let client = node.client()?;
    for id in [works, waits] {
        let run = swept(&client, &id).await?;
        assert_eq!(
            (run.status, run.error.as_deref(), run.billing_pending),
            (
                RunStatus::Interrupted,
                Some("the node that had its content was lost"),
                false
            )
        );
        client
            .get(&format!("/v1/runs/{id}/events"))
            .refused("gone")
            .await?;
    }
    let lost = client.run(&done.id.to_string()).await?;
    assert_eq!(lost.status, RunStatus::Succeeded);
    assert_eq!(held(&lost), (None, Some(false), false));
    let (_, next) = client.complete(&unretained("next")).await?;
    assert_eq!(next.status, RunStatus::Succeeded);
    node.stop().await
}

async fn a_stop_interrupts_those_that_outlive_the_grace(database: Database) -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_SHUTDOWN_GRACE_SECONDS", "0")
        .env("SORTIE_CONCURRENCY", "1");
    let (mut node, client) = started_with(database, options).await?;
    let works = at_work(&client).await?;
    let waits = client.create_id(&unretained("never begun")).await?;
    let mut stream = client.follow(&works, None).await?;
    node.terminate()?;
    stream.until_status(RunStatus::Interrupted).await?;
    ensure!(node.ended().await?.success());
    node.restart().await?;
    for (id, error) in [
        (works, "the node that ran it was stopped"),
        (waits, "the node that had its content was lost"),
    ] {
        let run = swept(&node.client()?, &id).await?;
        assert_eq!(
            (run.status, run.error.as_deref()),
            (RunStatus::Interrupted, Some(error))
        );
    }
    Ok(())
}

/// `docs/ZERO-DATA-RETENTION.md#limits-and-cost`: the surcharge is a part of the cost and within the budget.
#[tokio::test]
async fn the_surcharge_is_part_of_the_cost_and_of_such_runs_alone() -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_SURCHARGE_PERCENT", "20")
        .env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    let (_, kept) = client.complete(&json!({"prompt": "```wait 20\n```\n"})).await?;
    ensure!(
        kept.surcharge_percent.is_none() && kept.surcharge_micros.is_zero() && !kept.cost_micros.is_zero()
    );
    let (_, run) = client.complete(&unretained("```wait 20\n```\n")).await?;
    let (cost, surcharge) = (run.cost_micros.get(), run.surcharge_micros.get());
    assert_eq!(run.surcharge_percent, Some(20));
    assert_eq!(surcharge, ((cost - surcharge) * 20 + 99) / 100);
    // The budget is used up by the cost and the surcharge together.
    let mut small = unretained("```wait 600000\n```\n");
    small["max_cost_micros"] = json!(25);
    let (_, run) = client.complete(&small).await?;
    assert_eq!(run.status, RunStatus::Failed);
    ensure!(
        run.cost_micros.get() <= 25 && run.surcharge_micros.get() >= 3,
        "{run:?}"
    );
    ensure!(
        run.error
            .as_deref()
            .is_some_and(|error| error.starts_with("budget")),
        "{run:?}"
    );
    Ok(())
}

#[tokio::test]
async fn without_memory_to_work_in_or_to_keep_it_in_it_is_refused() -> Checked {
    let options = NodeOptions::default().env("SORTIE_ZERO_DATA_RETENTION_WORK_DIR", "/proc/no");
    let node = node_with(Database::Sqlite, options).await?;
    let refused = node.client()?.post("/v1/runs", &unretained("x")).await?;
    let message = refused.refused("invalid_request")?.error;
    ensure!(
        message.starts_with("zero_data_retention: not available on this engine"),
        "{message}"
    );

    let options = NodeOptions::default().env("SORTIE_ZERO_DATA_RETENTION_MEMORY_BYTES", "1572864");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    let works = at_work(&client).await?;
    client
        .post("/v1/runs", &unretained("x"))
        .refused("unavailable")
        .await?;
    // Others are served.
    client.complete(&json!({"prompt": "y"})).await?;
    client.cancel(&works).await?;
    client.finished(&works).await?;
    let (_, done) = client.complete(&unretained("x")).await?;
    assert_eq!(done.status, RunStatus::Succeeded);
    Ok(())
}
