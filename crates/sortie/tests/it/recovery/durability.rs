//! kill -9 under load, counted: every acknowledged run exists afterwards, and succeeds or reports why it could not
//! continue. Its events are numbered without a gap, and no run is executed again after its end.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use sortie_api::{Event, Run};
use tokio::task::JoinSet;

use crate::{node_under_load, prelude::*};

both_databases![no_acknowledged_run_is_lost_when_the_node_is_killed_under_load];

/// Clients that create runs at once.
const CLIENTS: usize = 8;
/// Minimum time until the kill of the node; the maximum is twice as long.
const ROUND: Duration = Duration::from_millis(600);

/// A run of several steps in one directory. A command that was in progress when the node died is repeated: only its
/// line may be there twice, one after the other.
const STEPS: &str = "```sh\necho 1 >> log; echo done\n```\n```wait 150\n```\n```sh\necho 2 >> log; sleep 0.1\n```\n\
                     ```sh\necho 3 >> log\n```\n```wait 150\n```\n```sh\nuniq log\n```\n";

/// The mix of the load: most runs end at once, some work in a shell, some are still waiting when the node dies. The
/// prompt, and the required answer.
fn task(n: usize) -> (String, String) {
    match n % 8 {
        0 => ("```sh\necho a > a; cat a\n```\n".to_owned(), "a\n".to_owned()),
        1 => (
            "```wait 300\n```\n```answer\nwaited\n```\n".to_owned(),
            "waited".to_owned(),
        ),
        2 => (
            "```sh\nsleep 0.2\n```\n```sh\necho end\n```\n".to_owned(),
            "end\n".to_owned(),
        ),
        3 => (STEPS.to_owned(), "1\n2\n3\n".to_owned()),
        _ => (format!("run {n}"), format!("run {n}")),
    }
}

/// Acknowledged runs, each with its required answer.
type Acknowledged = Arc<Mutex<Vec<(String, String)>>>;

/// Creates runs until the node is gone, and records the acknowledged ones.
async fn create_until_gone(client: Client, first: usize, acknowledged: Acknowledged) {
    for n in (first..).step_by(CLIENTS) {
        let (prompt, answer) = task(n);
        match client.create(&json!({"prompt": prompt})).await {
            Ok(run) => acknowledged.lock().push((run.id.to_string(), answer)),
            Err(_) => return,
        }
    }
}

/// Checks the invariants of a run's events.
fn check(events: &[Event], run: &Run, answer: &str) -> Checked {
    ensure!(run.status.is_final(), "{run:?}");
    ensure!(finals(events) == 1, "{} final statuses", finals(events));
    // The stream has already checked that the ids are 1, 2, 3 … and that each status transition is allowed.
    let starts = of_kind(events, "worker_started").len();
    let resumes = of_kind(events, "resumed").len();
    ensure!(resumes <= 3, "resumed {resumes} times");
    ensure!(
        starts <= 1 + resumes,
        "executed {starts} times, resumed {resumes} times"
    );
    let mut done: Vec<_> = of_kind(events, "tool_end")
        .into_iter()
        .map(|event| data(event)["id"].to_string())
        .collect();
    let calls = done.len();
    done.sort_unstable();
    done.dedup();
    ensure!(
        done.len() == calls,
        "a completed call was made again: {done:?} of {calls}"
    );
    let last = events.last().context("no events")?;
    ensure!(last.kind == "status", "{} after the end", last.kind);
    if run.status == RunStatus::Interrupted {
        // No call of this load is ever in doubt: only the number of kills can be too high.
        let is_lost_twice = run
            .error
            .as_deref()
            .is_some_and(|error| error.contains("in a row"));
        ensure!(
            resumes == 3 || is_lost_twice,
            "interrupted after {resumes} resumes: {:?}",
            run.error
        );
        return Ok(());
    }
    ensure!(
        run.status == RunStatus::Succeeded,
        "{}: {:?}",
        run.status,
        run.error
    );
    ensure!(
        run.output.as_deref() == Some(answer),
        "{:?} for {answer:?}",
        run.output
    );
    Ok(())
}

async fn no_acknowledged_run_is_lost_when_the_node_is_killed_under_load(database: Database) -> Checked {
    let mut node = node_under_load(database).await?;
    let rounds = rounds("SORTIE_DURABILITY_ROUNDS", 3)?;
    let acknowledged = Acknowledged::default();
    for round in 0..rounds {
        let mut load = JoinSet::new();
        for first in 0..CLIENTS {
            load.spawn(create_until_gone(
                node.client()?,
                first,
                Arc::clone(&acknowledged),
            ));
        }
        // The moment of the kill is the point of the test: it is spread over a round, and differs each time.
        let part = u32::try_from(round * 7 % 20)?;
        tokio::time::sleep(ROUND + ROUND * part / 20).await;
        node.kill()?;
        while load.join_next().await.is_some() {}
        node.restart().await?;
    }
    let begun = Instant::now();
    let ids = std::mem::take(&mut *acknowledged.lock());
    let client = node.client()?;
    let checks = ids.iter().map(|(id, answer)| {
        let client = &client;
        async move {
            let (events, run) = client
                .finished(id)
                .await
                .with_context(|| format!("{id} was acknowledged"))?;
            check(&events, &run, answer).with_context(|| id.clone())?;
            let resumes = of_kind(&events, "resumed").len();
            Ok::<_, anyhow::Error>((run.status, resumes))
        }
    });
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut wrong, mut takeovers) = (Vec::new(), 0);
    let mut checks = stream::iter(checks).buffer_unordered(16);
    while let Some(checked) = checks.next().await {
        match checked {
            Ok((status, resumes)) => {
                *ends.entry(status.as_str()).or_default() += 1;
                takeovers += resumes;
            }
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    println!(
        "{}: {rounds} kills, {} acknowledged runs, all final {:.1} s after the last restart: {ends:?}, \
         {takeovers} times resumed; {} wrong",
        database.as_str(),
        ids.len(),
        begun.elapsed().as_secs_f64(),
        wrong.len()
    );
    ensure!(
        ids.len() > rounds * CLIENTS,
        "hardly any load: {} runs",
        ids.len()
    );
    ensure!(takeovers > 0, "no run was at work when the node was killed");
    ensure!(
        wrong.is_empty(),
        "{} runs:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    // Runs that were created but not acknowledged end as well.
    for status in ["queued", "starting", "running"] {
        for run in client.list(&format!("status={status}")).await? {
            client.finished(&run.id.to_string()).await?;
        }
    }
    Ok(())
}
