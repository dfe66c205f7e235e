//! Runs of a node that is killed (`docs/RUNS.md#statuses`).

mod calls;
mod durability;
mod tasks;

use std::time::Instant;

use sortie_testkit::model::Turn;

use crate::{
    kit::{assert_resumed, now, unsettled},
    prelude::*,
    runs::model::Scripted,
};

both_databases![
    a_restart_goes_on_at_once_with_the_runs_its_predecessor_lost,
    a_run_goes_on_from_its_last_completed_step_in_its_directory,
    a_run_is_resumed_three_times_and_then_ended,
    a_run_that_loses_two_workers_in_one_step_gets_no_third,
    waiting_runs_survive_a_kill,
    everything_acknowledged_is_there_after_a_kill,
];

async fn a_restart_goes_on_at_once_with_the_runs_its_predecessor_lost(database: Database) -> Checked {
    let mut node = node(database).await?;
    let mut times: Vec<Duration> = Vec::new();
    // A busy host is sometimes late; a node that waits for its next poll is late each time.
    while times.last().is_none_or(|took| *took >= Duration::from_secs(1)) {
        ensure!(times.len() < 3, "{times:?} after the node was ready");
        let id = at_work(&node.client()?).await?.id.to_string();
        node.kill()?;
        node.restart().await?;
        let begun = Instant::now();
        let client = node.client()?;
        let mut stream = client.follow(&id, None).await?;
        stream.until(|event| event.kind == "resumed").await?;
        times.push(begun.elapsed());
        assert_eq!(client.run(&id).await?.status, RunStatus::Running);
        client.cancel(&id).await?;
        let (events, _) = client.finished(&id).await?;
        assert_resumed(&events, 1);
    }
    // The node continues as if nothing had happened.
    let (_, next) = node.client()?.complete(&plain("next")).await?;
    assert_eq!(next.status, RunStatus::Succeeded);
    Ok(())
}

async fn a_run_goes_on_from_its_last_completed_step_in_its_directory(database: Database) -> Checked {
    let shell = |command: &str| Turn::calls("shell", json!({"command": command}));
    let script = [
        shell("echo once >> log; echo 1"),
        shell("echo twice >> log; echo 2"),
        // This one goes with the node.
        Turn::says(["never"]).held(),
        shell("cat log"),
        Turn::says(["done"]),
    ];
    let mut rig = Scripted::start(database, script).await?;
    let client = rig.node.client()?;
    let id = client.create_id(&plain("Go.")).await?;
    let mut stream = client.follow(&id, None).await?;
    for _ in 0..2 {
        stream.until(|event| event.kind == "tool_end").await?;
    }
    rig.model.asked(3).await?;
    rig.node.kill()?;
    rig.node.restart().await?;
    let (events, run) = rig.node.client()?.finished(&id).await?;
    assert_ended!(run, Succeeded, "done");
    assert_resumed(&events, 1);
    assert_eq!(data(of_kind(&events, "resumed")[0])["step"], 2);
    // Each command ran once, the last one in the same directory as the others.
    let outputs: Vec<Value> = of_kind(&events, "tool_end")
        .into_iter()
        .map(|event| data(event)["output"].clone())
        .collect();
    let told = |stdout: &str| format!("[the command exited with status 0]\n[stdout]\n{stdout}");
    assert_eq!(outputs, [told("1\n"), told("2\n"), told("once\ntwice\n")]);
    Ok(())
}

async fn a_run_is_resumed_three_times_and_then_ended(database: Database) -> Checked {
    // Each attempt completes one command, and is lost with its node in the next model call.
    let script = (1..=4).flat_map(|n| {
        let command = json!({"command": format!("echo {n}")});
        [Turn::calls("shell", command), Turn::says(["never"]).held()]
    });
    let mut rig = Scripted::start(database, script).await?;
    let id = rig.node.client()?.create_id(&plain("Go.")).await?;
    for attempt in 1..=4 {
        completed(&rig.node.client()?, &id, attempt).await?;
        rig.model.asked(2 * attempt).await?;
        rig.node.kill()?;
        rig.node.restart().await?;
    }
    let client = rig.node.client()?;
    let (events, run) = client.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted);
    ensure!(
        run.error
            .as_deref()
            .is_some_and(|error| error.contains("resumed 3 times"))
            && run.finished_at.is_some()
            && !run.billing_pending,
        "{run:?}"
    );
    assert_resumed(&events, 3);
    assert_eq!(data(of_kind(&events, "interrupted")[0])["reason"], "worker_lost");
    // Cancel does not change an interrupted run.
    assert_eq!(client.cancel(&id).await?, run);
    Ok(())
}

async fn a_run_that_loses_two_workers_in_one_step_gets_no_third(database: Database) -> Checked {
    let shell = json!({"command": "echo 1"});
    let held = || Turn::says(["never"]).held();
    let script = [Turn::calls("shell", shell), held(), held(), Turn::says(["next"])];
    let mut rig = Scripted::start(database, script).await?;
    let id = rig.node.client()?.create_id(&plain("Go.")).await?;
    for attempt in 1..=2 {
        let mut stream = rig.node.client()?.follow(&id, None).await?;
        let last = if attempt == 1 { "tool_end" } else { "resumed" };
        stream.until(|event| event.kind == last).await?;
        rig.model.asked(1 + attempt).await?;
        rig.node.kill()?;
        rig.node.restart().await?;
    }
    let (events, run) = rig.node.client()?.finished(&id).await?;
    let error = "two workers in a row were lost while they ran its step 2; a third one is not put at risk";
    assert_eq!(
        (run.status, run.error.as_deref()),
        (RunStatus::Interrupted, Some(error))
    );
    assert_resumed(&events, 1);
    assert_eq!(
        data(of_kind(&events, "interrupted")[0]),
        json!({"reason": "worker_lost", "step": 2})
    );
    // The node itself works on.
    let (_, next) = rig.node.client()?.complete(&plain("next")).await?;
    assert_eq!(next.status, RunStatus::Succeeded);
    Ok(())
}

async fn waiting_runs_survive_a_kill(database: Database) -> Checked {
    let (mut node, client) =
        started_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let at_work = at_work(&client).await?.id.to_string();
    let mut waiting = Vec::new();
    for n in 0..5 {
        waiting.push(client.create_id(&plain(&n.to_string())).await?);
    }
    node.kill()?;
    node.restart().await?;
    // It has the only place again.
    node.client()?.cancel(&at_work).await?;
    for (n, id) in waiting.iter().enumerate() {
        let (events, run) = node.client()?.finished(id).await?;
        assert_eq!(
            (run.status, run.output),
            (RunStatus::Succeeded, Some(n.to_string()))
        );
        assert_eq!(of_kind(&events, "worker_started").len(), 1);
    }
    Ok(())
}

async fn everything_acknowledged_is_there_after_a_kill(database: Database) -> Checked {
    let mut node = node(database).await?;
    let client = node.client()?.with_header("idempotency-key", "order 7");
    let (events, run) = client.complete(&plain("kept")).await?;
    let definition = client
        .get(&format!("/v1/runs/{}/definition", run.id))
        .await?
        .text();
    node.kill()?;
    node.restart().await?;
    let client = node.client()?.with_header("idempotency-key", "order 7");
    let (again, same) = client.finished(&run.id.to_string()).await?;
    assert_eq!((kinds(&again), &same), (kinds(&events), &run));
    assert_eq!(
        client
            .get(&format!("/v1/runs/{}/definition", run.id))
            .await?
            .text(),
        definition
    );
    let replayed: sortie_api::Run = client.post("/v1/runs", &plain("other")).read(200).await?;
    assert_eq!(replayed, run);
    Ok(())
}

/// Waits until a run has this many finished tool calls.
async fn completed(client: &Client, id: &str, calls: usize) -> Checked {
    let mut stream = client.follow(id, None).await?;
    for _ in 0..calls {
        stream.until(|event| event.kind == "tool_end").await?;
    }
    Ok(())
}

/// `docs/RUNS.md#statuses`: another node resumes the runs of a lost node within 15 seconds.
#[tokio::test]
async fn another_node_goes_on_with_the_runs_of_a_lost_one_within_15_seconds() -> Checked {
    const RUNS: usize = 4;
    let lost = (0..RUNS).map(|_| Turn::says(["never"]).held());
    let answers = (0..RUNS).map(|n| Turn::says([n.to_string()]));
    let mut rig = Scripted::start(Database::Postgres, lost.chain(answers)).await?;
    let client = rig.node.client()?;
    let mut ids = Vec::new();
    for _ in 0..RUNS {
        ids.push(client.create_id(&plain("Go.")).await?);
    }
    rig.model.asked(RUNS).await?;
    // The second node starts when the first has them all.
    let second = rig.node.beside().await?;
    rig.node.kill()?;
    let killed = now();
    let client = second.client()?;
    for id in &ids {
        let mut stream = client.follow(id, None).await?;
        let resumed = stream.until(|event| event.kind == "resumed").await?;
        // By the clock of the node that resumes; the time at which the test notices does not matter.
        let took = resumed.created_at.since(killed);
        ensure!(took < Duration::from_secs(15), "{took:?} after the kill");
    }
    let mut outputs = Vec::new();
    for id in &ids {
        let (events, run) = client.finished(id).await?;
        assert_eq!((run.status, run.error), (RunStatus::Succeeded, None));
        assert_resumed(&events, 1);
        outputs.extend(run.output);
    }
    outputs.sort_unstable();
    assert_eq!(outputs, ["0", "1", "2", "3"]);
    Ok(())
}

/// The files of a completed command are only in the directory of the lost node.
#[tokio::test]
async fn another_node_ends_a_run_whose_working_directory_it_does_not_have() -> Checked {
    let mut first = node(Database::Postgres).await?;
    let client = first.client()?;
    let prompt = "```sh\necho a > a; echo begun\n```\n```wait 600000\n```\n```sh\ncat a\n```\n";
    let request = json!({"prompt": prompt, "timeout_seconds": 900});
    let id = client.create_id(&request).await?;
    let mut stream = client.follow(&id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    let second = first.beside().await?;
    first.kill()?;
    first.declare_lost().await?;
    let (events, run) = second.client()?.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted);
    assert_contains!(run.error, "working directory is gone");
    assert_eq!(data(of_kind(&events, "interrupted")[0])["reason"], "worker_lost");
    assert_resumed(&events, 0);
    Ok(())
}

/// A node sees the changes of another one as they happen: events, the end, a cancel.
#[tokio::test]
async fn two_nodes_on_one_database_show_the_same() -> Checked {
    let first = node(Database::Postgres).await?;
    let second = first.beside().await?;
    let (here, there) = (first.client()?, second.client()?);
    let run = at_work(&here).await?;
    let id = run.id.to_string();
    let mut stream = there.follow(&id, None).await?;
    stream.until_status(RunStatus::Running).await?;
    let cancelled = there.cancel(&id).await?;
    let (events, done) = here.finished(&id).await?;
    assert_eq!((unsettled(&done), finals(&events)), (unsettled(&cancelled), 1));
    let (_, done) = there.complete(&plain("anywhere")).await?;
    assert_eq!(here.run(&done.id.to_string()).await?, done);
    Ok(())
}
