//! Engines that share a database, and what they find out without being told.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use sortie_api::{
    OrgId, Run, RunStatus, Timestamp,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Caller, Clock, Deltas, Engine, Hop, Message, Options};
use sortie_store::{Actor, Created, Store};
use sortie_testkit::postgres::TestDatabase;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// Time within which a cancel stops its run (`docs/RUNS.md#cancel`), and what a busy machine adds.
const A_SECOND: Duration = Duration::from_millis(1_500);

struct Rig {
    engine: Engine,
    caller: Caller,
    /// Store of another program on the database. No node gets a hint of what is written through it.
    outside: Store,
    database: TestDatabase,
    dir: TempDir,
}

/// Starts an engine that renews its lease so rarely that no test depends on it.
async fn engine(store: Store, dir: &TempDir, name: &str) -> Engine {
    let options = Options {
        data_dir: dir.path().join(name),
        node_name: name.to_owned(),
        heartbeat: Duration::from_hours(1),
        lease: Duration::from_hours(2),
        ..Options::default()
    };
    Engine::start(options, store, Err("this test has no sandbox.".to_owned()))
        .await
        .unwrap()
}

impl Rig {
    async fn on(database: TestDatabase) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(database.url()).await.unwrap();
        let outside = if database.url().starts_with("sqlite:") {
            store.clone()
        } else {
            Store::open(database.url()).await.unwrap()
        };
        let engine = engine(store, &dir, "a").await;
        let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
        assert!(engine.bootstrap(&key).await.unwrap());
        let key = engine.authenticate(key.expose()).await.unwrap().expect("a key");
        let caller = Caller {
            org: key.org,
            actor: Actor::default(),
        };
        Self {
            engine,
            caller,
            outside,
            database,
            dir,
        }
    }

    fn org(&self) -> OrgId {
        self.caller.org
    }

    /// Starts a run that waits, and returns it once it is at work.
    async fn at_work(&self) -> Run {
        let request = serde_json::json!({"prompt": "```wait 600000\n```", "shell": false});
        let request = serde_json::from_value(request).unwrap();
        let created = self.engine.create_run(&self.caller, request, None).await.unwrap();
        let Created::New(run) = created else {
            panic!("the run is new")
        };
        let stream = self
            .engine
            .follow(&self.caller, run.id, (0, Deltas::Off), Hop::First);
        let mut stream = stream.await.unwrap();
        let begun = async {
            loop {
                let batch = stream.next().await.expect("the stream goes on").unwrap();
                assert!(!batch.is_last(), "the run is over");
                let has_begun = |message: &Message| match message {
                    Message::Event(event) => event.kind == "worker_started",
                    Message::Delta(_) | Message::Done(_) => false,
                };
                if batch.messages().iter().any(has_begun) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, begun).await.expect("it begins");
        run
    }
}

fn now() -> Timestamp {
    Clock::system().now()
}

/// Number of measurements. A machine under load may delay some of them, a slow watch delays each.
const TRIES: usize = 5;

/// Measures up to [`TRIES`] times, and fails if none takes less than a second.
async fn within_a_second(mut attempt: impl AsyncFnMut() -> Duration) {
    let mut times = Vec::new();
    while times.len() < TRIES {
        let took = attempt().await;
        if took < A_SECOND {
            return;
        }
        times.push(took);
    }
    panic!("{times:?}");
}

async fn a_worker_stops_after_a_cancel_that_nobody_tells(database: TestDatabase) {
    let rig = Rig::on(database).await;
    within_a_second(async || stops_after_a_cancel(&rig).await).await;
    rig.engine.shutdown().await;
}

/// Returns the time until the run's worker has stopped, which then reports the cost of the run.
async fn stops_after_a_cancel(rig: &Rig) -> Duration {
    let run = rig.at_work().await;
    let begun = Instant::now();
    rig.outside.cancel_run(rig.org(), run.id, now()).await.unwrap();
    loop {
        let run = rig.outside.get_run(rig.org(), run.id).await.unwrap();
        assert_eq!(run.status, RunStatus::Cancelled);
        if !run.billing_pending {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < PATIENCE, "its worker goes on");
        // Nothing tells of the settlement.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_cancel_that_nobody_tells_stops_the_run_within_a_second_on_postgres() {
    a_worker_stops_after_a_cancel_that_nobody_tells(TestDatabase::postgres().await.unwrap()).await;
}

#[tokio::test]
async fn a_cancel_that_nobody_tells_stops_the_run_within_a_second_on_sqlite() {
    a_worker_stops_after_a_cancel_that_nobody_tells(TestDatabase::sqlite().unwrap()).await;
}

#[tokio::test]
async fn readers_learn_within_a_second_of_what_nobody_tells() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap()).await;
    let other = engine(Store::open(rig.database.url()).await.unwrap(), &rig.dir, "b").await;
    within_a_second(async || read_after_a_cancel(&rig, &other).await).await;
    rig.engine.shutdown().await;
    other.shutdown().await;
}

/// Returns the time until a stream and a read end after their run was ended without a hint.
async fn read_after_a_cancel(rig: &Rig, other: &Engine) -> Duration {
    let run = rig.at_work().await;
    let mut stream = other
        .follow(&rig.caller, run.id, (0, Deltas::Off), Hop::First)
        .await
        .unwrap();
    let waiting = other.get_run(&rig.caller, run.id, PATIENCE, Hop::First);
    let followed = async {
        while let Some(batch) = stream.next().await {
            if batch.unwrap().is_last() {
                return;
            }
        }
        panic!("the stream ends without done");
    };
    let cancelled = async {
        let begun = Instant::now();
        rig.outside.cancel_run(rig.org(), run.id, now()).await.unwrap();
        begun
    };
    let (begun, read, ()) = tokio::join!(cancelled, waiting, followed);
    let took = begun.elapsed();
    assert_eq!(read.unwrap().status, RunStatus::Cancelled);
    took
}

/// Returns the time between a cancel on one engine and the response to a read that waits on the other.
async fn answered_after(rig: &Rig, other: &Engine) -> Duration {
    let run = rig.at_work().await;
    let waiting = other.get_run(&rig.caller, run.id, PATIENCE, Hop::First);
    let cancelled = async {
        // Until the read waits.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begun = Instant::now();
        rig.engine.cancel_run(rig.org(), run.id).await.unwrap();
        begun
    };
    let (begun, read) = tokio::join!(cancelled, waiting);
    assert_eq!(read.unwrap().status, RunStatus::Cancelled);
    begun.elapsed()
}

/// Far sooner than the engines would look by themselves, also after the connections on which they hear each other were
/// lost: of looks alone one in six comes so soon.
#[tokio::test]
async fn hints_come_again_after_the_connections_were_lost() {
    const SOON: Duration = Duration::from_millis(150);
    const ENOUGH: usize = 16;
    let rig = Rig::on(TestDatabase::postgres().await.unwrap()).await;
    let other = engine(Store::open(rig.database.url()).await.unwrap(), &rig.dir, "b").await;
    for _ in 0..2 {
        let (mut soon, mut times) = (0, Vec::new());
        while soon < ENOUGH {
            let took = answered_after(&rig, &other).await;
            soon += usize::from(took < SOON);
            times.push(took);
            assert!(times.len() < 40, "{times:?}");
        }
        rig.database.disconnect_all().await.unwrap();
    }
    rig.engine.shutdown().await;
    other.shutdown().await;
}
