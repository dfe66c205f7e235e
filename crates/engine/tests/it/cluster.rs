//! Engines that share a database: what one finds out by polling alone, and what it learns from hints.

use std::time::Duration;

use futures_util::StreamExt as _;
use sortie_api::{OrgId, Run, RunId, RunStatus, Timestamp};
use sortie_engine::{Clock, Deltas, Engine, Hop, Message, Options, Polls};
use sortie_store::{Store, access::Caller, runs::Created};
use sortie_testkit::{PATIENCE, postgres::TestDatabase, until};
use tempfile::TempDir;

use crate::rig::{Stream, bootstrapped, start};

/// Prompt of a run that waits until the end of its test.
const WAITING: &str = "```wait 600000\n```";

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) caller: Caller,
    /// Store of another program on the database. Writes through it send no hint to any node.
    pub(crate) outside: Store,
    database: TestDatabase,
    dir: TempDir,
}

/// Settings of an engine that renews its lease, sweeps and compares so rarely that no test depends on it.
pub(crate) fn options() -> Options {
    Options {
        heartbeat: Duration::from_hours(1),
        lease: Duration::from_hours(2),
        shutdown_grace: Duration::ZERO,
        ..Options::default()
    }
}

/// Settings of an engine that practically never polls: it learns of changes from hints alone.
pub(crate) fn told() -> Options {
    let never = Duration::from_hours(1);
    Options {
        polls: Polls {
            runs: never,
            queue: never,
        },
        ..options()
    }
}

async fn engine(options: Options, store: Store, dir: &TempDir, name: &str) -> Engine {
    let options = Options {
        data_dir: dir.path().join(name),
        node_name: name.to_owned(),
        ..options
    };
    start(options, store).await
}

/// Waits for `event` and returns its output. Fails if it takes too long.
pub(crate) async fn comes<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, event).await.expect("it comes")
}

/// Events of a run until one that `is_wanted`, or until the stream has ended.
async fn read_until(stream: &mut Stream, is_wanted: impl Fn(&str) -> bool) {
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap();
        let wanted = |message: &Message| matches!(message, Message::Event(event) if is_wanted(&event.kind));
        if batch.messages().iter().any(wanted) {
            return;
        }
        assert!(!batch.is_last(), "the run is over");
    }
    panic!("the stream ends without done")
}

/// Reads a stream to its end, the run with its final status.
async fn read_to_the_end(mut stream: Stream) {
    while let Some(batch) = stream.next().await {
        if batch.unwrap().is_last() {
            return;
        }
    }
    panic!("the stream ends without done")
}

impl Rig {
    pub(crate) async fn on(database: TestDatabase, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(database.url()).await.unwrap();
        let outside = if database.url().starts_with("sqlite:") {
            store.clone()
        } else {
            Store::open(database.url()).await.unwrap()
        };
        let engine = engine(options, store, &dir, "a").await;
        let (caller, _) = bootstrapped(&engine).await;
        Self {
            engine,
            caller,
            outside,
            database,
            dir,
        }
    }

    /// Starts another engine on the database, without waiting for its hints.
    pub(crate) async fn deaf(&self, options: Options, name: &str) -> Engine {
        let store = Store::open(self.database.url()).await.unwrap();
        engine(options, store, &self.dir, name).await
    }

    /// Starts another engine on the database. Returns it once each of the two gets the hints of the other.
    pub(crate) async fn beside(&self, options: Options) -> Engine {
        let other = self.deaf(options, "b").await;
        // The second engine polls when it begins to listen, and when the first one does. If three cancels reach its readers, at
        // least one came through its own hint. A first engine that sends such a hint has received one of the second. Until then
        // cancels do not arrive.
        let mut came = 0;
        while came < 3 {
            let run = self.create(WAITING).await;
            let stream = self.follow(&other, run.id).await;
            self.engine.cancel_run(self.org(), run.id).await.unwrap();
            let short = Duration::from_millis(200);
            let read = tokio::time::timeout(short, read_to_the_end(stream)).await;
            came += usize::from(read.is_ok());
        }
        other
    }

    pub(crate) fn org(&self) -> OrgId {
        self.caller.org
    }

    pub(crate) async fn create(&self, prompt: &str) -> Run {
        let request = serde_json::from_value(crate::rig::prompt(prompt)).unwrap();
        let created = self.engine.create_run(&self.caller, request, None).await.unwrap();
        let Created::New(run) = created else {
            panic!("the run is new")
        };
        run
    }

    /// Stream of a run that has already read the recorded events.
    async fn follow(&self, engine: &Engine, run: RunId) -> Stream {
        let stream = engine.follow(&self.caller, run, (0, Deltas::Off), Hop::First);
        let mut stream = stream.await.unwrap();
        read_until(&mut stream, |_| true).await;
        stream
    }

    /// Starts a run that waits, and returns it once it is active.
    pub(crate) async fn at_work(&self) -> Run {
        let run = self.create(WAITING).await;
        let stream = self
            .engine
            .follow(&self.caller, run.id, (0, Deltas::Off), Hop::First);
        let mut stream = stream.await.unwrap();
        comes(read_until(&mut stream, |kind| kind == "worker_started")).await;
        run
    }

    /// Waits until the worker of a cancelled run has stopped. The worker then reports the cost of the run.
    pub(crate) async fn until_stopped(&self, run: RunId) {
        let look = async || {
            let run = self.outside.get_run(self.org(), run).await?;
            assert_eq!(run.status, RunStatus::Cancelled);
            Ok(run)
        };
        until("the settlement", look, |run| !run.billing_pending)
            .await
            .unwrap();
    }
}

pub(crate) fn now() -> Timestamp {
    Clock::system().now()
}

/// `docs/RUNS.md#cancel`: the processes are killed at once. The worker gets a hint; this engine does not poll.
async fn a_cancel_stops_the_worker_of_its_own_node_without_a_poll(database: TestDatabase) {
    let rig = Rig::on(database, told()).await;
    let run = rig.at_work().await;
    rig.engine.cancel_run(rig.org(), run.id).await.unwrap();
    rig.until_stopped(run.id).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_cancel_stops_the_worker_of_its_own_node_without_a_poll_on_postgres() {
    a_cancel_stops_the_worker_of_its_own_node_without_a_poll(TestDatabase::postgres().await.unwrap()).await;
}

#[tokio::test]
async fn a_cancel_stops_the_worker_of_its_own_node_without_a_poll_on_sqlite() {
    a_cancel_stops_the_worker_of_its_own_node_without_a_poll(TestDatabase::sqlite().unwrap()).await;
}

/// `docs/RUNS.md#cancel`: without a hint the worker notices within a second, the longest pause between two polls.
async fn a_cancel_that_nobody_tells_is_found_by_a_poll(database: TestDatabase) {
    let rig = Rig::on(database, options()).await;
    let run = rig.at_work().await;
    rig.outside.cancel_run(rig.org(), run.id, now()).await.unwrap();
    rig.until_stopped(run.id).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_cancel_that_nobody_tells_is_found_by_a_poll_on_postgres() {
    a_cancel_that_nobody_tells_is_found_by_a_poll(TestDatabase::postgres().await.unwrap()).await;
}

#[tokio::test]
async fn a_cancel_that_nobody_tells_is_found_by_a_poll_on_sqlite() {
    a_cancel_that_nobody_tells_is_found_by_a_poll(TestDatabase::sqlite().unwrap()).await;
}

#[tokio::test]
async fn readers_find_by_a_poll_what_nobody_tells() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), options()).await;
    let other = rig.beside(options()).await;
    let run = rig.at_work().await;
    let stream = rig.follow(&other, run.id).await;
    let waiting = other.get_run(&rig.caller, run.id, PATIENCE, Hop::First);
    let cancel = rig.outside.cancel_run(rig.org(), run.id, now());
    let all = async { tokio::join!(cancel, waiting, read_to_the_end(stream)) };
    let (cancelled, read, ()) = comes(all).await;
    cancelled.unwrap();
    assert_eq!(read.unwrap().run.status, RunStatus::Cancelled);
    rig.engine.shutdown().await;
    other.shutdown().await;
}

/// A cancel through any node stops the worker on another node and ends the readers on both. This also holds after the connections
/// for hints were lost. No engine polls: each learns of the cancel from a hint.
#[tokio::test]
async fn a_cancel_stops_the_worker_and_the_readers_on_other_nodes_by_hints() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), told()).await;
    let other = rig.beside(told()).await;
    for _ in 0..3 {
        for cancelling in [&rig.engine, &other] {
            let run = rig.at_work().await;
            let streams = [
                rig.follow(&rig.engine, run.id).await,
                rig.follow(&other, run.id).await,
            ];
            let waiting = other.get_run(&rig.caller, run.id, PATIENCE, Hop::First);
            let cancel = cancelling.cancel_run(rig.org(), run.id);
            let [here, there] = streams.map(read_to_the_end);
            let all = async { tokio::join!(cancel, waiting, here, there) };
            let (cancelled, read, (), ()) = comes(all).await;
            cancelled.unwrap();
            assert_eq!(read.unwrap().run.status, RunStatus::Cancelled);
            rig.until_stopped(run.id).await;
        }
        rig.database.disconnect_all().await.unwrap();
    }
    rig.engine.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn a_stream_on_another_node_goes_on_and_ends_by_hints() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), told()).await;
    let other = rig.beside(told()).await;
    loop {
        let run = rig.create("```wait 200\n```\ndone").await;
        let stream = other.follow(&rig.caller, run.id, (0, Deltas::Off), Hop::First);
        let mut stream = stream.await.unwrap();
        // On a loaded machine the run may have ended by now.
        if !comes(stream.next()).await.unwrap().unwrap().is_last() {
            comes(read_to_the_end(stream)).await;
            break;
        }
    }
    rig.engine.shutdown().await;
    other.shutdown().await;
}

/// A node without a free slot leaves its runs to the others, which do not poll for them.
#[tokio::test]
async fn a_run_that_a_full_node_cannot_take_starts_on_another_by_a_hint() {
    let full = Options {
        concurrency: 1,
        ..told()
    };
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), full).await;
    let blocking = rig.at_work().await;
    let other = rig.beside(told()).await;
    for _ in 0..3 {
        let run = rig.create("quick").await;
        let done = rig
            .engine
            .get_run(&rig.caller, run.id, PATIENCE, Hop::First)
            .await;
        assert_eq!(done.unwrap().run.status, RunStatus::Succeeded);
    }
    let blocking = rig.outside.get_run(rig.org(), blocking.id).await.unwrap();
    assert_eq!(blocking.status, RunStatus::Running);
    rig.engine.shutdown().await;
    other.shutdown().await;
}

/// A node that signs off notifies the others, which sweep at once, before their next heartbeat.
#[tokio::test]
async fn runs_of_a_node_that_stops_go_on_on_another_by_a_hint() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), told()).await;
    let other = rig.beside(told()).await;
    let run = rig.at_work().await;
    let mut stream = rig.follow(&other, run.id).await;
    let resumed = read_until(&mut stream, |kind| kind == "resumed");
    let all = async { tokio::join!(rig.engine.shutdown(), resumed) };
    comes(all).await;
    other.shutdown().await;
}
