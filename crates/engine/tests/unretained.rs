//! Zero data retention against the clock: what is held, and for how long.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use futures_util::StreamExt as _;
use prometheus_client::{encoding::text::encode, registry::Registry};
use sortie_api::{
    OrgId, Run, RunId, RunStatus, Timestamp,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Caller, Clock, Deltas, Engine, Error, Hop, Options};
use sortie_store::{Actor, Created, Store};
use tempfile::TempDir;

struct Rig {
    engine: Engine,
    clock: Clock,
    org: OrgId,
    _dirs: [TempDir; 2],
}

const BEGINNING: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

impl Rig {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let store = Store::open(&format!("sqlite:{}", dir.path().join("test.db").display()))
            .await
            .unwrap();
        let clock = Clock::manual(BEGINNING);
        let mut options = Options {
            clock: clock.clone(),
            data_dir: dir.path().to_owned(),
            memory_dir: Some(memory.path().join("work")),
            ..Options::default()
        };
        change(&mut options);
        let engine = Engine::start(options, store, Err("this test has no sandbox.".to_owned()))
            .await
            .unwrap();
        let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
        assert!(engine.bootstrap(&key).await.unwrap());
        let org = engine.authenticate(key.expose()).await.unwrap().unwrap().org;
        Self {
            engine,
            clock,
            org,
            _dirs: [dir, memory],
        }
    }

    fn caller(&self) -> Caller {
        Caller {
            org: self.org,
            actor: Actor::default(),
            schedule: None,
        }
    }

    /// A run that has answered.
    async fn answered(&self, text: &str) -> RunId {
        let request = serde_json::json!({"prompt": text, "shell": false, "zero_data_retention": true});
        let request = serde_json::from_value(request).unwrap();
        let created = self
            .engine
            .create_run(&self.caller(), request, None)
            .await
            .unwrap();
        let Created::New(run) = created else {
            panic!("the run is new")
        };
        assert!(self.follow(run.id).await.unwrap() > 3);
        run.id
    }

    /// How many frames the stream has to its end.
    async fn follow(&self, id: RunId) -> Result<usize, Error> {
        let from = (0, Deltas::Off);
        let stream = self.engine.follow(&self.caller(), id, from, Hop::First).await?;
        let frames: Vec<_> = stream.collect().await;
        let bytes = frames.into_iter().map(|frame| match frame.unwrap() {
            sortie_engine::Frame::Events(bytes) | sortie_engine::Frame::Done(bytes) => bytes,
        });
        Ok(bytes
            .map(|bytes| bytes.windows(5).filter(|part| part == b"data:").count())
            .sum())
    }

    async fn get(&self, id: RunId) -> Run {
        let caller = self.caller();
        self.engine
            .get_run(&caller, id, Duration::ZERO, Hop::First)
            .await
            .unwrap()
    }

    fn pass(&self, time: Duration) {
        self.clock.set(self.clock.now() + time);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_there_for_five_minutes_and_the_output_for_an_hour() {
    let rig = Rig::start().await;
    let read = rig.answered("read late").await;
    let unread = rig.answered("never read").await;
    rig.pass(Duration::from_secs(5 * 60 - 1));
    assert!(rig.follow(read).await.is_ok());
    rig.pass(Duration::from_secs(1));
    for id in [read, unread] {
        assert!(matches!(rig.follow(id).await, Err(Error::Gone(_))));
        let events = rig
            .engine
            .events_after(&rig.caller(), id, (0, 10), Hop::First)
            .await;
        assert!(matches!(events, Err(Error::Gone(_))));
    }
    rig.pass(Duration::from_secs(3_600 - 5 * 60 - 1));
    let run = rig.get(read).await;
    assert_eq!(
        (run.output.as_deref(), run.output_available),
        (Some("read late"), Some(false))
    );
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.get(unread).await.output, None);
    // The store is told at the next look.
    while rig
        .engine
        .store()
        .get_run(rig.org, unread)
        .await
        .unwrap()
        .output_available
        == Some(true)
    {
        tokio::task::yield_now().await;
    }
    while rig
        .engine
        .store()
        .content_holder(rig.org, unread)
        .await
        .unwrap()
        .is_some()
    {
        tokio::task::yield_now().await;
    }
    let run = rig.get(unread).await;
    assert_eq!(
        (run.output, run.output_available, run.output_expires_at),
        (None, Some(false), None)
    );
    assert!(matches!(rig.follow(unread).await, Err(Error::Gone(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_node_passes_on_is_not_passed_on_again() {
    let rig = Rig::start().await;
    let id = rig.answered("here").await;
    // As if this node had forgotten it, and another had it.
    let elsewhere = sortie_store::NewRun {
        id: RunId::new(BEGINNING, [9; 10]),
        org: rig.org,
        idempotency_key: None,
        definition: sortie_store::Definition::Unretained(sortie_store::Unretained {
            node: sortie_store::NodeId(77),
            surcharge_percent: 0,
        }),
        inline: None,
        callback: None,
        max_cost: sortie_api::Micros::new(1).unwrap(),
        timeout_seconds: 60,
        labels: sortie_store::Labels::default(),
        created_at: BEGINNING,
        trace: None,
    };
    let other = elsewhere.id;
    let node = sortie_store::NewNode {
        id: sortie_store::NodeId(77),
        name: "other".to_owned(),
        started_at: BEGINNING,
        lease_until: BEGINNING + Duration::from_hours(9),
        address: Some("http://127.0.0.1:1".to_owned()),
        version: String::new(),
        master_keys: None,
        draining_since: None,
    };
    rig.engine.store().register_node(node).await.unwrap();
    rig.engine.store().create_run(elsewhere).await.unwrap();
    for hop in [Hop::First, Hop::Second] {
        let answer = rig
            .engine
            .get_run(&rig.caller(), other, Duration::ZERO, hop)
            .await;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(rig.get(id).await.output.as_deref(), Some("here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_the_store_calls_gone_is_not_handed_out() {
    let rig = Rig::start().await;
    let id = rig.answered("gone").await;
    rig.engine.store().forget_outputs(vec![id]).await.unwrap();
    let run = rig.get(id).await;
    assert_eq!((run.output, run.output_available), (None, Some(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_a_run_leaves_its_output_where_it_is() {
    let rig = Rig::start().await;
    let id = rig.answered("here").await;
    for _ in 0..2 {
        let run = rig
            .engine
            .look_at_run(rig.org, id, Duration::from_secs(1))
            .await
            .unwrap();
        assert_eq!((run.output, run.output_available), (None, Some(true)));
    }
    assert_eq!(rig.get(id).await.output.as_deref(), Some("here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_when_its_node_stops_ends_with_it_and_is_counted() {
    let rig = Rig::start_with(|options| {
        options.concurrency = 1;
        options.shutdown_grace = Duration::ZERO;
    })
    .await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let request = serde_json::json!({
            "prompt": "```wait 600000\n```", "shell": false, "zero_data_retention": true
        });
        let request = serde_json::from_value(request).unwrap();
        let created = rig.engine.create_run(&rig.caller(), request, None).await;
        let (Created::New(run) | Created::Existing(run)) = created.unwrap();
        runs.push(run.id);
    }
    let status = async |run| rig.engine.store().get_run(rig.org, run).await.unwrap().status;
    while status(runs[0]).await != RunStatus::Running && status(runs[1]).await != RunStatus::Running {
        tokio::task::yield_now().await;
    }
    rig.engine.shutdown().await;
    for run in runs {
        assert_eq!(status(run).await, RunStatus::Interrupted);
    }
    let (mut registry, mut text) = (Registry::with_prefix("sortie"), String::new());
    rig.engine.register_metrics(&mut registry);
    encode(&mut text, &registry).unwrap();
    assert!(
        text.contains("sortie_runs_finished_total{status=\"interrupted\"} 2"),
        "{text}"
    );
}
