//! The audit after a fault: invariants of every run, of the ledger, of the callbacks, of the host and of the nodes. It
//! reads the API as clients do, and the database directly.

use std::{fmt::Write as _, path::Path};

use anyhow::bail;
use futures_util::{StreamExt, stream};
use sortie_api::{Event, Run};
use sortie_testkit::{
    client::status_of,
    processes::{self, InUse},
    until_within,
};

use crate::prelude::*;

mod cancelled;

use crate::{
    Checked,
    load::{Kind, Order},
    model::{CALL_MICROS, CALLS},
    world::{RATE, World},
};

/// Time for the work that follows the end of runs: settling, callbacks that wait for their next attempt, directories.
const SETTLING: Duration = Duration::from_secs(90);
/// Resources that a node may use in addition to its earlier use.
const MORE_MEMORY: u64 = 48 << 20;
const MORE_DESCRIPTORS: usize = 24;
/// Tolerance for two clocks that are read as a pair on a busy machine, in micros at [`RATE`].
const CLOCKS: u64 = 50;

/// Errors of runs that lost their worker, each a part of the message.
const LOST: [&str; 3] = [
    "working directory is gone",
    "resumed 3 times",
    "two workers in a row",
];

/// Deviations that a fault excuses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Excuse {
    /// Workers were lost: runs may end as `interrupted` if their directory is gone, after three resumes, or after two
    /// losses in one step.
    pub(crate) lost_workers: bool,
    /// Runs may fail with one of these texts in their error.
    pub(crate) failures: &'static [&'static str],
    /// Files may be skipped instead of kept.
    pub(crate) skipped_artifacts: bool,
    /// Models wrote this endlessly: an answer may be a truncated part of it.
    pub(crate) cut_answer: Option<&'static str>,
    /// The clock jumped: displayed times do not show how long a run took. No worker is lost by it, because leases do
    /// not depend on the clocks of nodes.
    pub(crate) moved_clock: bool,
}

/// Counts of the audit, for its last line.
#[derive(Debug, Default)]
struct Report {
    ends: BTreeMap<&'static str, usize>,
    resumes: usize,
    callbacks: usize,
    wrong: Vec<String>,
}

/// Runs the whole audit. `orders` is the clients' record: every one of them was acknowledged.
pub(crate) async fn audit(world: &World, orders: &[Order], excuse: Excuse) -> Checked {
    let begun = Instant::now();
    let mut report = Report::default();
    runs(world, orders, excuse, &mut report).await?;
    ensure!(
        report.wrong.is_empty(),
        "{} runs:\n{}",
        report.wrong.len(),
        report.wrong[..report.wrong.len().min(20)].join("\n")
    );
    settled(world).await?;
    records(world, orders).await?;
    if !excuse.moved_clock {
        cancelled::costs(world).await?;
    }
    callbacks(world, orders, &mut report).await?;
    levels(world).await?;
    host(world).await?;
    for node in &world.nodes {
        let client = node.client()?;
        client.get("/readyz").expect(200).await?;
        let (_, run) = client.complete(&json!({"prompt": "well again"})).await?;
        ensure!(run.status == RunStatus::Succeeded, "{run:?}");
    }
    let mut line = String::new();
    for (status, count) in &report.ends {
        write!(line, "{count} {status}, ")?;
    }
    println!(
        "{} runs: {line}{} times resumed, {} callbacks; audited in {:.1} s",
        orders.len(),
        report.resumes,
        report.callbacks,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Every acknowledged run: its end, its events, its answer, its cost.
async fn runs(world: &World, orders: &[Order], excuse: Excuse, report: &mut Report) -> Checked {
    let nodes = world.nodes.len();
    let looks = orders.iter().enumerate().map(|(nth, order)| {
        let client = world.nodes[nth % nodes].client();
        async move {
            let client = client?;
            let id = order.id.as_deref().context("not acknowledged")?;
            cancelled::until_settled(&client, id).await?;
            let (events, run) = client
                .finished(id)
                .await
                .with_context(|| format!("{id} {:?} was acknowledged", order.kind))?;
            let looked = look(order, &events, &run, excuse);
            let looked = match (&looked, order.kind, run.status) {
                (Ok(()), Kind::Artifact, RunStatus::Succeeded) => {
                    kept(&client, order, (&run, &events), excuse).await
                }
                _ => looked,
            };
            let events: Vec<&str> = kinds(&events);
            let resumes = events.iter().filter(|kind| **kind == "resumed").count();
            Ok::<_, anyhow::Error>((
                run.status,
                resumes,
                looked.with_context(|| format!("{id} {:?}: {run:?}", order.kind)),
            ))
        }
    });
    let mut looks = stream::iter(looks).buffer_unordered(8);
    while let Some(looked) = looks.next().await {
        match looked {
            Ok((status, resumes, looked)) => {
                *report.ends.entry(status.as_str()).or_default() += 1;
                report.resumes += resumes;
                if let Err(error) = looked {
                    report.wrong.push(format!("{error:#}"));
                }
            }
            Err(error) => report.wrong.push(format!("{error:#}")),
        }
    }
    Ok(())
}

/// Checks a run. The stream has already checked that events are numbered from 1 without a gap and that each status
/// transition is allowed.
fn look(order: &Order, events: &[Event], run: &Run, excuse: Excuse) -> Checked {
    let last = end(events, run)?;
    let count = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    let (starts, resumes) = (count("worker_started"), count("resumed"));
    ensure!(
        resumes <= 3 && starts <= 1 + resumes,
        "{starts} starts and {resumes} resumes"
    );
    ensure!(resumes == 0 || !excuse.moved_clock, "lost by a clock");
    let done: Vec<String> = events
        .iter()
        .filter(|event| event.kind == "tool_end")
        .map(|event| data(event)["id"].to_string())
        .collect();
    // The id names a call of a run, because the model server derives the number of a call from the conversation.
    let once: BTreeSet<&String> = done.iter().collect();
    ensure!(
        once.len() == done.len(),
        "a completed call was made again: {done:?}"
    );
    if let Some(followed) = &order.followed {
        same(followed, events, (run, last))?;
    }
    cost(order, events, run, excuse)?;
    match run.status {
        RunStatus::Succeeded => {
            ensure!(order.kind != Kind::Cancel, "it could not succeed");
            ensure!(
                run.output.as_deref() == Some(order.answer().as_str()) || is_cut(order, run, excuse),
                "another answer"
            );
        }
        RunStatus::Cancelled => ensure!(order.kind == Kind::Cancel, "nobody cancelled it"),
        RunStatus::Interrupted if excuse.lost_workers => {
            let error = run.error.as_deref().unwrap_or_default();
            ensure!(
                LOST.iter().any(|reason| error.contains(reason)),
                "no reason: {error}"
            );
        }
        RunStatus::Failed => {
            let error = run.error.as_deref().unwrap_or_default();
            ensure!(
                excuse.failures.iter().any(|excused| error.contains(excused)),
                "not excused: {error}"
            );
        }
        RunStatus::Interrupted
        | RunStatus::TimedOut
        | RunStatus::Reserving
        | RunStatus::Queued
        | RunStatus::Starting
        | RunStatus::Running => bail!("{} is not excused", run.status),
    }
    if let Some(cancelled) = &order.cancelled {
        ensure!(
            cancelled.status == run.status,
            "the cancel was answered with {}",
            cancelled.status
        );
    }
    Ok(())
}

/// Returns the final status event. Only calls of a cancelled run may follow it.
fn end<'a>(events: &'a [Event], run: &Run) -> Result<&'a Event> {
    let finals = events
        .iter()
        .filter_map(status_of)
        .filter(|status| status.is_final())
        .count();
    ensure!(finals == 1, "{finals} final statuses");
    // Only calls that a cancel has prevented are recorded after it.
    let is_late = |event: &&Event| run.status == RunStatus::Cancelled && is_call(event);
    let last = events
        .iter()
        .rev()
        .find(|event| !is_late(event))
        .context("no events")?;
    ensure!(
        status_of(last) == Some(run.status),
        "{} {} behind the end",
        last.kind,
        data(last)
    );
    Ok(last)
}

/// Checks that a follower saw the events of a run.
fn same(followed: &[Event], events: &[Event], (run, last): (&Run, &Event)) -> Checked {
    let told = |events: &[Event]| -> Vec<(i64, String)> {
        events
            .iter()
            .map(|event| (event.id, event.kind.clone()))
            .collect()
    };
    // A stream ends with a cancel, whatever events follow it.
    let seen = if run.status == RunStatus::Cancelled {
        followed.len().max(usize::try_from(last.id)?)
    } else {
        events.len()
    };
    ensure!(
        events
            .get(..seen)
            .is_some_and(|seen| told(followed) == told(seen)),
        "its follower saw something else"
    );
    Ok(())
}

/// Whether an event is of a call that may have a cost.
fn is_call(event: &Event) -> bool {
    matches!(event.kind.as_str(), "model_call" | "tool_end")
}

/// Whether the answer of a run is a truncated text of the model.
fn is_cut(order: &Order, run: &Run, excuse: Excuse) -> bool {
    let output = run.output.as_deref().unwrap_or_default();
    order.kind == Kind::Model
        && excuse
            .cut_answer
            .is_some_and(|written| output.starts_with(written))
}

/// Whether an answer before the last one was cut off while the model wrote. The next call continues after it.
fn was_cut(events: &[Event], excuse: Excuse) -> bool {
    excuse.cut_answer.is_some_and(|written| {
        events
            .iter()
            .filter(|event| event.kind == "message")
            .any(|event| {
                data(event)["text"]
                    .as_str()
                    .is_some_and(|text| text.starts_with(written))
            })
    })
}

/// Checks that a run's cost is that of its calls, as its events have them, and its time
/// (`docs/RUNS.md#what-the-events-say-of-the-cost`).
///
/// The cost is never higher. It is lower if a part of the time is not charged: while a worker takes over a run, and
/// while a run waits for the storage of files. For a cancelled run the time of the database counts: see [`cancelled`].
fn cost(order: &Order, events: &[Event], run: &Run, excuse: Excuse) -> Checked {
    let of_calls: u64 = events
        .iter()
        .filter(|event| is_call(event))
        .filter_map(|event| data(event)["cost_micros"].as_u64())
        .sum();
    let cost = u64::try_from(run.cost_micros.get())?;
    ensure!(cost <= 2_000_000, "more than its budget: {cost}");
    ensure!(
        cost >= of_calls || run.billing_pending,
        "{cost} is less than its calls cost: {of_calls}"
    );
    let is_plain = events
        .iter()
        .all(|event| !matches!(event.kind.as_str(), "resumed" | "retry"));
    if order.kind == Kind::Model
        && run.status == RunStatus::Succeeded
        && is_plain
        && !is_cut(order, run, excuse)
        && !was_cut(events, excuse)
    {
        let calls = CALLS as u64;
        ensure!(of_calls == calls * CALL_MICROS, "{of_calls} for {calls} calls");
    }
    if excuse.moved_clock || run.status == RunStatus::Cancelled {
        return Ok(());
    }
    let (Some(begun), Some(ended)) = (run.started_at, run.finished_at) else {
        ensure!(
            run.started_at.is_none() && run.finished_at.is_some() && cost == 0,
            "it has no times, and costs {cost}"
        );
        return Ok(());
    };
    let is_whole = events.iter().all(|event| {
        let waits = event.kind == "retry" && data(event)["what"] == "outputs";
        event.kind != "resumed" && !waits
    }) && run.status != RunStatus::Interrupted;
    let micros = u64::try_from(ended.as_micros() - begun.as_micros()).unwrap_or_default();
    // A millisecond costs one micro here. The displayed and the charged times come from two clocks. Both are read
    // together at the start and at the end, and again if a busy machine has delayed one of the readings.
    let of_time = micros * RATE / 1_000_000;
    let shown = of_calls + of_time;
    ensure!(
        cost <= shown + CLOCKS && (!is_whole || shown <= cost + CLOCKS),
        "{cost} for {of_calls} of calls and {of_time} of time"
    );
    Ok(())
}

/// Checks that the file of a run exists with its content, or, if the excuse allows it, that the run has reported it as
/// skipped.
async fn kept(
    client: &sortie_testkit::Client,
    order: &Order,
    (run, events): (&Run, &[Event]),
    excuse: Excuse,
) -> Checked {
    let path = format!("/v1/runs/{}/artifacts/a.txt", run.id);
    let answer = client.get(&path).await?;
    let was_skipped = kinds(events).contains(&"artifact_skipped");
    if was_skipped && excuse.skipped_artifacts {
        ensure!(
            answer.status == 404 && run.artifacts.is_empty(),
            "a file was skipped and is there"
        );
        return Ok(());
    }
    let text = answer.expect(200)?.text();
    ensure!(text == format!("{}\n", order.name), "the file says {text:?}");
    Ok(())
}

/// The first row of a query that has one row with one number.
async fn number(world: &World, sql: &str) -> Result<i64> {
    let rows = world.nodes[0].rows(sql).await?;
    let row = rows.first().and_then(Value::as_object).context("no row")?;
    let value = row.values().next().context("no column")?;
    value.as_i64().with_context(|| format!("{value} of {sql}"))
}

/// Waits until no work is in progress.
async fn settled(world: &World) -> Checked {
    for open in [
        "queue",
        "run WHERE billing_pending <> 0 OR outcome IS NULL",
        "journal",
        "delivery WHERE due_at IS NOT NULL",
    ] {
        let some = format!("SELECT * FROM {open} LIMIT 5");
        let look = async || world.nodes[0].rows(&some).await;
        until_within(SETTLING, &format!("the end of {open}"), look, Vec::is_empty).await?;
    }
    Ok(())
}

/// Checks the database: as many runs as were acknowledged, their events, the ledger.
async fn records(world: &World, orders: &[Order]) -> Checked {
    let node = &world.nodes[0];
    let known: BTreeSet<&str> = orders.iter().filter_map(|order| order.id.as_deref()).collect();
    ensure!(known.len() == orders.len(), "two orders have one run");
    let rows = node
        .rows(
            "SELECT id, last_event, (SELECT count(*) FROM event e WHERE e.run_id = run.id) AS events, \
             (SELECT min(seq) FROM event e WHERE e.run_id = run.id) AS first, \
             (SELECT max(seq) FROM event e WHERE e.run_id = run.id) AS last FROM run",
        )
        .await?;
    let there: BTreeSet<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    ensure!(
        there == known,
        "runs that nobody knows: {:?}; runs that are gone: {:?}",
        there.difference(&known).collect::<Vec<_>>(),
        known.difference(&there).collect::<Vec<_>>()
    );
    for row in &rows {
        let is_gapless =
            row["first"] == 1 && row["last"] == row["events"] && row["last"] == row["last_event"];
        ensure!(is_gapless, "events with a gap: {row}");
    }
    let ledger = rows! {
        "SELECT count(*) AS n FROM budget_window WHERE held_micros <> 0", 0;
        "SELECT count(*) AS n FROM run WHERE holds IS NULL", 0;
        "SELECT count(*) AS n FROM run WHERE cost_micros > max_cost_micros", 0;
        "SELECT count(*) AS n FROM run_secret", 0;
        "SELECT count(*) AS n FROM event e JOIN run ON run.id = e.run_id WHERE e.seq > run.last_event", 0;
    };
    for (sql, expected) in ledger {
        let found = number(world, sql).await?;
        ensure!(found == expected, "{found}: {sql}");
    }
    let spent = number(
        world,
        "SELECT CAST(sum(spent_micros) AS BIGINT) AS n FROM budget_window WHERE scope = 'organization'",
    );
    let cost = number(world, "SELECT CAST(sum(cost_micros) AS BIGINT) AS n FROM run");
    let (spent, cost) = (spent.await?, cost.await?);
    ensure!(spent == cost, "the ledger says {spent}, the runs cost {cost}");
    Ok(())
}

/// Every run with a callback was delivered, genuine and unchanged; no other run was.
async fn callbacks(world: &World, orders: &[Order], report: &mut Report) -> Checked {
    let all = world.receiver.all();
    for delivery in &all {
        ensure!(
            delivery.refused.is_none(),
            "{:?}: {}",
            delivery.refused,
            delivery.body
        );
        let order = orders
            .iter()
            .find(|order| order.id.as_deref() == Some(&delivery.run));
        ensure!(
            order.is_some_and(|order| order.has_callback),
            "a callback of {}, which nobody asked for",
            delivery.run
        );
    }
    let client = world.nodes[0].client()?;
    for order in orders.iter().filter(|order| order.has_callback) {
        let id = order.id.as_deref().unwrap_or_default();
        let last = all.iter().rfind(|delivery| delivery.run == id);
        let last = last.with_context(|| format!("{id} was never delivered"))?;
        let mut sent: Value = last.body.clone();
        let mut shown: Value = client.get(&format!("/v1/runs/{id}")).json(200).await?;
        if sent["billing_pending"] == true {
            // The cost of a run that was cancelled while it ran is known later.
            for changed in ["billing_pending", "cost_micros", "last_event_id", "usage"] {
                for run in [&mut sent, &mut shown] {
                    run.as_object_mut().context("no object")?.remove(changed);
                }
            }
        }
        ensure!(sent == shown, "{id}: sent {sent}, is {shown}");
        report.callbacks += 1;
    }
    Ok(())
}

/// Checks that runs have left nothing on the host: no process, no directory, no staged content.
async fn host(world: &World) -> Checked {
    let look = async || {
        let alive = world.left_alive().into_iter();
        let described = alive.map(|process| (process, processes::command_line(process)));
        Ok(described.collect::<Vec<_>>())
    };
    until("the end of all processes", look, Vec::is_empty).await?;
    for node in &world.nodes {
        let folder = node.data_dir().to_owned();
        // A node checks every ten seconds for directories of runs that another node has ended.
        let look = async || entries(&folder.join("work"));
        until("the removal of all directories", look, Vec::is_empty).await?;
        for staging in [
            folder.join("blobs/staging"),
            folder.join("staging"),
            world.staging(),
        ] {
            let left = entries(&staging)?;
            ensure!(left.is_empty(), "staged and left: {left:?}");
        }
    }
    Ok(())
}

/// Returns the entries of a folder; empty if there is no folder.
fn entries(folder: &Path) -> Result<Vec<String>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| folder.display().to_string()),
    }
}

/// Checks that the surviving nodes use no more resources than before, within a bound.
async fn levels(world: &World) -> Checked {
    for node in &world.nodes {
        let pid = node.pid()?;
        let Some((_, before)) = world.levels.iter().find(|(known, _)| *known == pid) else {
            continue;
        };
        let is_as_before = |now: &InUse| {
            now.memory <= before.memory + MORE_MEMORY
                && now.descriptors <= before.descriptors + MORE_DESCRIPTORS
        };
        // Idle connections close by and by.
        let look = async || processes::in_use(pid);
        until(&format!("not more than {before:?}"), look, is_as_before).await?;
    }
    Ok(())
}
