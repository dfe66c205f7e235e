//! `POST /v1/runs/{id}/cancel` (`docs/RUNS.md#cancel`).

use std::fs;

use futures_util::future::try_join_all;

use crate::{kit::unsettled, prelude::*};

both_databases![
    cancel_of_a_running_run_ends_it,
    cancel_of_a_queued_run_ends_it_before_it_starts,
    cancel_of_a_finished_run_returns_it_unchanged,
    ten_cancels_at_once_end_a_run_once,
    a_cancel_that_races_the_end_agrees_with_it,
];

/// A test of the engine proves that the worker gets a hint and does not depend on a poll.
async fn cancel_of_a_running_run_ends_it(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let id = at_work(&client).await?.id.to_string();
    let cancelled = client.cancel(&id).await?;
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    ensure!(cancelled.finished_at.is_some(), "{cancelled:?}");
    let (events, done) = client.finished(&id).await?;
    assert_eq!(unsettled(&done), unsettled(&cancelled));
    assert_eq!(unsettled(&settled(&client, &id).await?), unsettled(&cancelled));
    assert_eq!(
        (statuses(&events).last(), finals(&events)),
        (Some(&RunStatus::Cancelled), 1)
    );
    Ok(())
}

/// `docs/RUNS.md#cancel`: the processes of the run are killed.
#[tokio::test]
async fn cancel_kills_the_command_that_runs() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let mark = format!("3600.{}", node.pid()?);
    let request = commands(&[&format!("sleep {mark} & sleep {mark}")]);
    let run = client.create(&request).await?;
    wait_for_processes(&mark, |count| count >= 2).await?;
    client.cancel(&run.id.to_string()).await?;
    wait_for_processes(&mark, |count| count == 0).await
}

/// Waits until the expected number of processes have this argument.
async fn wait_for_processes(argument: &str, is_wanted: fn(usize) -> bool) -> Checked {
    let look = async || {
        let mut count = 0;
        for entry in fs::read_dir("/proc")?.flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let mut arguments = line.split(|byte| *byte == 0);
            count += usize::from(
                arguments.next() == Some(b"sleep") && arguments.next() == Some(argument.as_bytes()),
            );
        }
        Ok(count)
    };
    until("the number of processes", look, |count| is_wanted(*count)).await?;
    Ok(())
}

async fn cancel_of_a_queued_run_ends_it_before_it_starts(database: Database) -> Checked {
    let (_node, client) =
        started_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let working = at_work(&client).await?;
    let queued = client.create(&plain("never")).await?;
    let cancelled = client.cancel(&queued.id.to_string()).await?;
    assert_eq!(
        (cancelled.status, cancelled.started_at),
        (RunStatus::Cancelled, None)
    );
    ensure!(
        !cancelled.billing_pending,
        "nothing was done that would still be to settle"
    );
    let (events, _) = client.finished(&queued.id.to_string()).await?;
    assert_eq!(statuses(&events), [RunStatus::Queued, RunStatus::Cancelled]);
    // The run before it is unaffected, and the run after it gets its slot.
    let after = client.create(&plain("after")).await?;
    client.cancel(&working.id.to_string()).await?;
    assert_eq!(
        client.finished(&after.id.to_string()).await?.1.status,
        RunStatus::Succeeded
    );
    Ok(())
}

async fn cancel_of_a_finished_run_returns_it_unchanged(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let cancelled = client.create(&waiting()).await?;
    client.cancel(&cancelled.id.to_string()).await?;
    settled(&client, &cancelled.id.to_string()).await?;
    let timed_out = json!({"prompt": "```wait 60000\n```\n", "timeout_seconds": 1});
    let mut finished = vec![client.finished(&cancelled.id.to_string()).await?.1];
    for request in [plain("x"), commands(&["false"]), timed_out] {
        finished.push(client.complete(&request).await?.1);
    }
    let statuses: Vec<_> = finished.iter().map(|run| run.status).collect();
    assert_eq!(
        statuses,
        [
            RunStatus::Cancelled,
            RunStatus::Succeeded,
            RunStatus::Failed,
            RunStatus::TimedOut
        ]
    );
    for run in finished {
        let id = run.id.to_string();
        let events = client.finished(&id).await?.0.len();
        assert_eq!(client.cancel(&id).await?, run);
        assert_eq!(client.run(&id).await?, run);
        assert_eq!(
            client.finished(&id).await?.0.len(),
            events,
            "the cancel was recorded"
        );
    }
    Ok(())
}

async fn ten_cancels_at_once_end_a_run_once(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let id = at_work(&client).await?.id.to_string();
    let answers = try_join_all((0..10).map(|_| client.cancel(&id))).await?;
    ensure!(
        answers
            .iter()
            .all(|run| unsettled(run) == unsettled(&answers[0]) && run.status == RunStatus::Cancelled),
        "{answers:?}"
    );
    assert_eq!(finals(&client.finished(&id).await?.0), 1);
    Ok(())
}

async fn a_cancel_that_races_the_end_agrees_with_it(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let races = (0..40).map(|n| {
        let client = client.clone();
        async move {
            let id = client.create_id(&plain("quick")).await?;
            tokio::time::sleep(Duration::from_micros(n * 250)).await;
            let answer = client.cancel(&id).await?;
            let (events, done) = client.finished(&id).await?;
            ensure!(
                unsettled(&answer) == unsettled(&done) && finals(&events) == 1,
                "{answer:?} {events:?}"
            );
            Ok(done.status)
        }
    });
    let ends = try_join_all(races).await.context("a race went wrong")?;
    ensure!(
        ends.iter()
            .all(|status| matches!(status, RunStatus::Cancelled | RunStatus::Succeeded)),
        "{ends:?}"
    );
    Ok(())
}
