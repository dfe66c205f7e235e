//! Creates on a node with a long history, during continuous requests of one client for lists, sums or the audit log, during the
//! counting of usage, and during deletions by the retention.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sortie_api::{ScheduleId, Timestamp};
use sortie_testkit::{History, Node, NodeOptions};
use tokio::task::JoinSet;

use crate::{
    Bench,
    connection::Connection,
    load::{complete, request},
    report::Report,
    run::Run,
    samples::Samples,
};

/// Number of clients that create runs.
const CLIENTS: u32 = 16;

/// Number of creates per second by all clients.
const PER_SECOND: u32 = 200;

/// Interval of the requests to `/readyz`.
const LOOK: Duration = Duration::from_millis(10);

/// Interval of the checks of a node's task.
const PAUSE: Duration = Duration::from_millis(100);

/// Time span of the history.
const SPAN: Duration = Duration::from_hours(30 * 24);

/// Time between the last run of the history and its creation.
const AGE: Duration = Duration::from_hours(48);

/// Log filter of the node during retention, which logs its end.
const LOG_FILTER: &str = "warn,sortie::commands::serve=info,sortie_engine::operations::retention=info";

/// Maximum time to count the usage.
const PATIENCE: Duration = Duration::from_mins(15);

/// Measures creates during every operation on many runs. Does nothing if no history is requested.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if bench.history_runs == 0 || !report.wants("history") {
        return Ok(());
    }
    // Retention is enabled only for the last load.
    let options = NodeOptions::default().env("SORTIE_RETENTION_DAYS", "0");
    let mut node = bench.node_with(options).await?;
    let schedules = [schedule(&node).await?, schedule(&node).await?];
    fill(&mut node, bench.history_runs, schedules, report).await?;
    let mut worst = Worst::default();

    let counting = usage_is_counted(&node);
    let counted = beside(&node, bench.seconds, Load::Task(Box::pin(counting))).await?;
    worst.add(report, "the count of usage", &counted);
    until_counted(&node).await?;
    for (name, path) in loads(schedules) {
        let load = path.map_or(Load::Nothing, Load::Reads);
        let measured = beside(&node, bench.seconds, load).await?;
        worst.add(report, name, &measured);
    }
    retention(&mut node, bench.seconds, report, &mut worst).await?;
    report.reach(
        "history: creates beside the worst of these, p99",
        worst.0.as_secs_f64(),
    );
    Ok(())
}

/// Continuous requests of one client: a name, and the path.
fn loads([first, second]: [ScheduleId; 2]) -> Vec<(&'static str, Option<String>)> {
    let list = |query: &str| Some(format!("/v1/runs?{query}"));
    vec![
        ("nothing", None),
        ("a list", list("limit=100")),
        ("a list by a rare status", list("status=failed&limit=100")),
        ("a list by a status of no run", list("status=timed_out&limit=100")),
        (
            "a list by schedule and status",
            list(&format!("schedule={first}&status=failed&limit=100")),
        ),
        (
            "a list by a common tag and a rare status",
            list("tag=nightly&status=failed&limit=100"),
        ),
        (
            "a list by tag and schedule",
            list(&format!("tag=nightly&schedule={second}&limit=100")),
        ),
        (
            "a list by a tag and a status that no run has together",
            list("tag=even&status=cancelled&limit=100"),
        ),
        (
            "an array by a tag and a status that no run has together",
            list("tag=even&status=cancelled"),
        ),
        ("usage", Some("/v1/admin/usage?by=day,workflow,model".to_owned())),
        (
            "the audit log by a rare action",
            Some("/v1/admin/audit?action=test.rare&limit=100".to_owned()),
        ),
    ]
}

/// Creates a disabled schedule. Returns its id.
async fn schedule(node: &Node) -> Result<ScheduleId> {
    let client = node.client()?;
    let workflow = json!({"prompt": "hello", "shell": false}).to_string();
    let put = client.send(Method::PUT, "/v1/workflows/nightly", workflow.into());
    ensure!(put.await?.status < 300, "no workflow");
    let disabled = json!({"workflow": "nightly", "cron": "@yearly", "enabled": false});
    let made = client
        .post("/v1/schedules", &disabled)
        .await?
        .expect(201)?
        .json()?;
    let id = made.get("id").and_then(Value::as_str).context("no id")?;
    id.parse().ok().context("an id of another kind")
}

/// Fills the database of a node, and restarts it.
async fn fill(node: &mut Node, runs: u64, schedules: [ScheduleId; 2], report: &mut Report) -> Result<()> {
    let (mut creating, mut following) = (Connection::to(node)?, Connection::to(node)?);
    complete(&mut creating, &mut following, &request("hello")).await?;
    let template: Vec<Run> = creating.call(Method::GET, "/v1/runs", Bytes::new(), 200).await?;
    let template = template.first().context("no run")?;
    let first = i64::try_from((SPAN + AGE).as_micros())?;
    let history = History {
        template: template.id,
        runs,
        first: Timestamp::from_micros(template.created_at.as_micros() - first),
        lasts: SPAN,
        schedules,
    };
    node.stop().await?;
    let begun = Instant::now();
    node.add_history(&history).await?;
    report.add(
        "history: finished runs put into the database",
        format!("{runs} in {:.0} s", begun.elapsed().as_secs_f64()),
    );
    node.restart().await?;
    Ok(())
}

async fn usage_is_counted(node: &Node) -> Result<()> {
    while !node.has_counted_history().await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn until_counted(node: &Node) -> Result<()> {
    let counted = tokio::time::timeout(PATIENCE, usage_is_counted(node)).await;
    counted.context("the usage is not counted")?
}

/// Measures creates while the retention deletes the history.
async fn retention(node: &mut Node, seconds: u64, report: &mut Report, worst: &mut Worst) -> Result<()> {
    node.stop().await?;
    node.set_env("SORTIE_RETENTION_DAYS", "1");
    node.set_env("SORTIE_LOG_FILTER", LOG_FILTER);
    node.restart().await?;
    let begun = Instant::now();
    while node.has_first_of_history().await? {
        ensure!(begun.elapsed() < PATIENCE, "nothing is deleted");
        tokio::time::sleep(PAUSE).await;
    }
    let deletes = async {
        while !node.log().contains("deleted expired runs") {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    };
    let measured = beside(node, seconds, Load::Task(Box::pin(deletes))).await?;
    worst.add(report, "the retention", &measured);
    Ok(())
}

/// Load on the node while creates are measured.
enum Load<'a> {
    /// No load.
    Nothing,
    /// Consecutive requests with this path.
    Reads(String),
    /// A task of the node that runs until this future completes.
    Task(Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>),
}

/// Times of requests during a load, and of the load's requests.
#[derive(Default)]
struct Beside {
    creates: Samples,
    ready: Samples,
    load: Samples,
}

/// Longest p99 of creates so far.
#[derive(Default)]
struct Worst(Duration);

impl Worst {
    /// Adds the results of one load.
    fn add(&mut self, report: &mut Report, name: &str, measured: &Beside) {
        let Beside { creates, ready, load } = measured;
        let load = match load.len() {
            0 => "-".to_owned(),
            _ => load.to_string(),
        };
        report.add(
            format!("history: beside {name}: POST to 202; `/readyz`; the request"),
            match creates.len() {
                0 => "it was over at once".to_owned(),
                _ => format!("{creates}; {ready}; {load}"),
            },
        );
        self.0 = self.0.max(creates.percentile(99));
    }
}

/// Measures creates at a fixed rate, and `/readyz`, until the time or the load ends.
async fn beside(node: &Node, seconds: u64, load: Load<'_>) -> Result<Beside> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        // The first create opens the connection.
        let mut connection = Connection::to(node)?;
        create(&mut connection).await?;
        connections.push(connection);
    }
    let begun = Instant::now();
    let to = begun + Duration::from_secs(seconds);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for (nth, connection) in (0..CLIENTS).zip(connections) {
        let first = begun + Duration::from_secs(nth.into()) / PER_SECOND;
        clients.spawn(creates(connection, first, to, Arc::clone(&is_over)));
    }
    let mut looking = JoinSet::new();
    looking.spawn(looks(Connection::to(node)?, to, Arc::clone(&is_over)));
    let mut found = Beside::default();
    match load {
        Load::Nothing => tokio::time::sleep_until(to.into()).await,
        Load::Reads(path) => {
            let mut connection = Connection::to(node)?;
            while Instant::now() < to {
                found.load.add(read(&mut connection, &path).await?);
            }
        }
        Load::Task(task) => tokio::select! {
            ended = task => ended?,
            () = tokio::time::sleep_until(to.into()) => {}
        },
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(samples) = clients.join_next().await {
        found.creates.extend(samples??);
    }
    while let Some(samples) = looking.join_next().await {
        found.ready = samples??;
    }
    Ok(found)
}

/// Creates runs, the first at this time and then at the rate of one client. The time of a create counts from its scheduled time.
async fn creates(
    mut connection: Connection,
    first: Instant,
    to: Instant,
    is_over: Arc<AtomicBool>,
) -> Result<Samples> {
    let mut samples = Samples::default();
    let pause = Duration::from_secs(CLIENTS.into()) / PER_SECOND;
    let mut due = first;
    while due < to {
        tokio::time::sleep_until(due.into()).await;
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        create(&mut connection).await?;
        samples.add(due.elapsed());
        due += pause;
    }
    Ok(samples)
}

async fn create(connection: &mut Connection) -> Result<()> {
    let _: Run = connection
        .call(Method::POST, "/v1/runs", request("hello"), 202)
        .await?;
    Ok(())
}

/// Requests `/readyz` repeatedly.
async fn looks(mut connection: Connection, to: Instant, is_over: Arc<AtomicBool>) -> Result<Samples> {
    let mut samples = Samples::default();
    while Instant::now() < to && !is_over.load(Ordering::Relaxed) {
        samples.add(read(&mut connection, "/readyz").await?);
        tokio::time::sleep(LOOK).await;
    }
    Ok(samples)
}

/// Sends a request, reads the whole response and returns the duration.
async fn read(connection: &mut Connection, path: &str) -> Result<Duration> {
    let begun = Instant::now();
    let response = connection.send(Method::GET, path, Bytes::new()).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(
        status == 200,
        "{path}: {status} {}",
        String::from_utf8_lossy(&body)
    );
    Ok(begun.elapsed())
}
