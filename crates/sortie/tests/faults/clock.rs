//! Clocks that jump while nodes run: libfaketime intercepts the wall clock of the real binary. It does not change the
//! monotonic clock, as an operating system does not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sortie_api::{Timestamp, usage::Day};
use sortie_base::Clock;
use tempfile::TempDir;

use crate::{prelude::*, world::MOST_NODES};

both_databases![clocks_jump];

/// Paths of the library of the package `faketime`.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// The clocks of the nodes of a world, each a file that libfaketime reads at every call.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    folder: Arc<TempDir>,
    library: &'static str,
}

impl Clocks {
    /// None where the library is not installed.
    fn new() -> Result<Option<Self>> {
        let Some(library) = LIBRARIES.into_iter().find(|path| Path::new(path).exists()) else {
            return Ok(None);
        };
        let folder = Arc::new(tempfile::tempdir()?);
        Ok(Some(Self { folder, library }))
    }

    fn file(&self, nth: usize) -> PathBuf {
        self.folder.path().join(format!("clock{nth}"))
    }

    /// Moves the wall clock of this node forward by this many seconds from now on.
    fn set(&self, nth: usize, seconds: i64) -> Result<()> {
        // Replaced atomically, so that a reader never sees half of it.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{seconds:+}s\n"))?;
        fs::rename(new, self.file(nth)).context("the clock")
    }

    /// Returns the variables to start a node with; the clock must be [set](Self::set) before.
    pub(crate) fn environment(&self, nth: usize) -> Vec<(String, String)> {
        let file = self.file(nth).display().to_string();
        [
            ("LD_PRELOAD", self.library),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}

async fn clocks_jump(database: Database) -> Checked {
    let Some(clocks) = Clocks::new()? else {
        println!("NOT CHECKED: clock jumps: the package faketime is not installed");
        return Ok(());
    };
    let all = 0..MOST_NODES;
    for nth in all.clone() {
        clocks.set(nth, 0)?;
    }
    let setup = Setup {
        clocks: Some(clocks.clone()),
        ..Setup::default()
    };
    let (mut world, mut load) = begin(database, "clocks_jump", setup).await?;
    for _ in 0..4 {
        load.follow();
        // Beyond a lease in both directions, and within the tolerance of callback receivers. Work that became due while
        // the clock was ahead waits for that time, so forward it is at most as long as the audit waits.
        let seconds = world.random.i64(-120..30);
        let alone = world.random.bool().then(|| world.some_node());
        println!(
            "{}: {seconds:+} s off",
            alone.map_or("all".to_owned(), |nth| format!("node {nth}"))
        );
        for nth in all.clone().filter(|nth| alone.is_none_or(|alone| alone == *nth)) {
            clocks.set(nth, seconds)?;
        }
        // Some of these are long enough for a heartbeat, and together they are longer than a lease.
        let pause = world.moment(1_500..5_000);
        tokio::time::sleep(pause).await;
    }
    for nth in all {
        clocks.set(nth, 0)?;
    }
    let excuse = Excuse {
        moved_clock: true,
        ..Excuse::default()
    };
    end(world, load, excuse).await
}

/// Further time of the wrong clocks, in seconds: beyond the next occurrence of the schedule, and beyond `retention_days`.
const HOURS: i64 = 3 * 3_600;
const WEEKS: i64 = 960 * 3_600;

/// Logged by a node with a clock that differs from that of its database.
const WRONG: &str = "the node is not ready, and deletes, counts and starts nothing by the clock";
/// Logged by a node that was away for longer than its retention, by its own clock.
const REFUSED: &str = "nothing expired is deleted";

fn options(clocks: &Clocks, nth: usize) -> NodeOptions {
    let mut options = NodeOptions::default().with_few_connections();
    options.environment.extend(clocks.environment(nth));
    options
}

/// Makes a run that ends at once. Returns its path.
async fn finished_run(client: &Client) -> Result<String> {
    let body = json!({"prompt": "done", "shell": false});
    let made = client.post("/v1/runs", &body).json(202).await?;
    let id = made["id"].as_str().context("a run without an id")?;
    client.finished(id).await?;
    Ok(format!("/v1/runs/{id}"))
}

/// Makes a schedule that is due in one and a half to two and a half hours.
async fn later_schedule(client: &Client, now: Timestamp) -> Checked {
    let body = Bytes::from(json!({"prompt": "done", "shell": false}).to_string());
    client
        .send(Method::PUT, "/v1/workflows/report", body)
        .expect(201)
        .await?;
    let hour = (now.as_micros() / 3_600_000_000 + 2) % 24;
    let schedule = json!({"workflow": "report", "cron": format!("30 {hour} * * *"), "timezone": "UTC"});
    client.post("/v1/schedules", &schedule).expect(201).await?;
    Ok(())
}

/// Waits until the process has logged this text this many times since its log had the length `before`.
async fn logged(node: &Node, (before, times): (usize, usize), text: &str) -> Checked {
    let look = async || Ok(node.log().get(before..).unwrap_or_default().matches(text).count());
    until(&format!("{text:?} in the log"), look, |count| *count >= times).await?;
    Ok(())
}

/// Reads everything that a wrong clock could change: the runs, the occurrences and the state of schedules, and the hours
/// that are counted.
async fn state(node: &Node) -> Result<Vec<Vec<Value>>> {
    let mut state = Vec::new();
    for sql in [
        "SELECT id FROM run ORDER BY id",
        "SELECT schedule_id FROM fire",
        "SELECT id, next_instant, due_at FROM schedule",
    ] {
        state.push(node.rows(sql).await?);
    }
    Ok(state)
}

#[tokio::test]
async fn a_wrong_clock_of_one_node_deletes_and_moves_nothing_on_postgres() -> Checked {
    let Some(clocks) = Clocks::new()? else {
        println!("NOT CHECKED: wrong clocks: the package faketime is not installed");
        return Ok(());
    };
    for nth in 0..2 {
        clocks.set(nth, 0)?;
    }
    let binary = env!("CARGO_BIN_EXE_sortie");
    let right = Node::start_with(binary, Database::Postgres, options(&clocks, 0)).await?;
    let now = Clock::system().now();
    later_schedule(&right.client()?, now).await?;
    let run = finished_run(&right.client()?).await?;
    let mut wrong = right.beside_with(options(&clocks, 1)).await?;
    let before = state(&right).await?;

    // It jumps while the node works.
    clocks.set(1, HOURS)?;
    logged(&wrong, (0, 2), WRONG).await?;
    let answer = wrong.client()?.get("/readyz").expect(503).await?;
    let said = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(said.contains("s ahead of the database's"), "{said}");
    assert_eq!(state(&right).await?, before);

    // The clock is wrong at the start: every job runs at once, and the timer again with each heartbeat.
    wrong.stop().await?;
    clocks.set(1, WEEKS)?;
    let from = wrong.log().len();
    wrong.restart_unready().await?;
    logged(&wrong, (from, 3), WRONG).await?;
    wrong.client()?.get("/readyz").expect(503).await?;
    assert_eq!(state(&right).await?, before);
    right.client()?.get(&run).expect(200).await?;
    let counted = right
        .rows("SELECT MAX(usage_until) AS until FROM organization")
        .await?;
    assert!(
        counted[0]["until"]
            .as_i64()
            .is_some_and(|until| until < now.as_micros()),
        "{counted:?}"
    );

    // A run that ends there gets the time of the database.
    let late = finished_run(&wrong.client()?).await?;
    let late = right.client()?.get(&late).json(200).await?;
    let finished: Timestamp = late["finished_at"].as_str().context("no end")?.parse()?;
    assert!(finished.since(now) < Duration::from_mins(10), "{late}");

    clocks.set(1, 0)?;
    wrong.client()?.get("/readyz").expect(200).await?;
    wrong.stop().await
}

#[tokio::test]
async fn a_wrong_clock_deletes_nothing_until_somebody_has_looked_at_it_on_sqlite() -> Checked {
    let Some(clocks) = Clocks::new()? else {
        println!("NOT CHECKED: wrong clocks: the package faketime is not installed");
        return Ok(());
    };
    clocks.set(0, 0)?;
    let mut node = Node::start_with(
        env!("CARGO_BIN_EXE_sortie"),
        Database::Sqlite,
        options(&clocks, 0),
    )
    .await?;
    let run = finished_run(&node.client()?).await?;
    node.stop().await?;

    clocks.set(0, WEEKS)?;
    for _ in 0..2 {
        let from = node.log().len();
        node.restart().await?;
        logged(&node, (from, 1), REFUSED).await?;
        node.client()?.get(&run).expect(200).await?;
        // A newer run does not prove that the clock is right.
        finished_run(&node.client()?).await?;
        node.stop().await?;
    }
    let shown = Clock::system().now() + Duration::from_secs(WEEKS.unsigned_abs());
    node.set_env("SORTIE_RETENTION_CLOCK_CHECKED", &Day::of(shown).to_string());
    let from = node.log().len();
    node.restart().await?;
    logged(&node, (from, 1), "deleted expired runs").await?;
    node.client()?.get(&run).expect(404).await?;
    node.stop().await
}
