//! Zero data retention against the clock: which content is kept, and for how long.

use std::{ops::Deref, time::Duration};

use futures_util::StreamExt as _;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::json;
use sortie_api::{ErrorCode, Refusal, Run, RunId, RunStatus, Timestamp};
use sortie_engine::{Clock, Hop, Message, Options, RunChange};
use sortie_store::{
    nodes::{NewNode, NodeId},
    runs::NewRun,
};
use sortie_testkit::until;
use tempfile::TempDir;

use crate::rig::{any_run, new_node};

/// An engine that keeps the working directories of its runs in memory, with a clock that tests move.
struct Rig {
    engines: crate::rig::Rig,
    clock: Clock,
    _memory: TempDir,
}

impl Deref for Rig {
    type Target = crate::rig::Rig;

    fn deref(&self) -> &Self::Target {
        &self.engines
    }
}

const BEGINNING: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Refusal of events that no node has.
fn forgotten() -> Refusal {
    ErrorCode::Gone.because(
        "the run has zero data retention: its events were kept while it worked and for five minutes afterwards",
    )
}

impl Rig {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let memory = tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let clock = Clock::manual(BEGINNING);
        let engines = crate::rig::Rig::start_with(|options| {
            options.clock = clock.clone();
            options.memory_dir = Some(memory.path().join("work"));
            change(options);
        })
        .await;
        Self {
            engines,
            clock,
            _memory: memory,
        }
    }

    async fn create(&self, text: &str) -> Result<Run, Refusal> {
        let request = json!({"prompt": text, "shell": false, "zero_data_retention": true});
        self.engines.create(request).await
    }

    /// Locks the database: no commit takes place until the lock is dropped.
    fn lock(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.dir.path().join("sortie.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    }

    /// The identity of the node.
    async fn node(&self) -> NodeId {
        let nodes = self.engine.store().list_nodes().await.unwrap();
        let own = nodes.iter().find(|row| row.ended_at.is_none());
        own.unwrap().node.id
    }

    /// A run with content on `node`.
    fn held_by(&self, node: NodeId) -> NewRun {
        NewRun {
            id: RunId::new(BEGINNING, [9; 10]),
            org: self.org,
            idempotency_key: None,
            definition: sortie_store::runs::Definition::Unretained(sortie_store::runs::Unretained {
                node,
                surcharge_percent: 0,
            }),
            inline: None,
            callback: None,
            max_cost: sortie_api::Micros::new(1).unwrap(),
            payment: sortie_store::money::Payment::Free,
            timeout_seconds: 60,
            labels: sortie_store::runs::Labels::default(),
            created_at: BEGINNING,
            trace: None,
            allowance: None,
        }
    }

    /// Creates a run with this answer, and waits for its end.
    async fn answered(&self, text: &str) -> RunId {
        let run = self.create(text).await.unwrap();
        assert!(self.follow(run.id).await.unwrap() > 3);
        run.id
    }

    /// Follows the stream to its end, and returns the number of its messages.
    async fn follow(&self, id: RunId) -> Result<usize, Refusal> {
        let batches: Vec<_> = self.stream(id, 0).await?.collect().await;
        let messages = batches.into_iter().map(|batch| batch.unwrap().messages().len());
        Ok(messages.sum())
    }

    /// Registers a node that no test reaches.
    async fn other_node(&self, id: NodeId) {
        let node = NewNode {
            address: Some("http://127.0.0.1:1".to_owned()),
            ..new_node(id, "other", BEGINNING, Duration::from_hours(9))
        };
        self.engine.store().register_node(node).await.unwrap();
    }

    async fn get(&self, id: RunId) -> Run {
        let found = self
            .engine
            .get_run(&self.caller, id, Duration::ZERO, Hop::First)
            .await;
        found.unwrap().run
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
        assert_eq!(rig.follow(id).await, Err(forgotten()));
        let events = rig
            .engine
            .list_events(rig.org, id, &sortie_store::runs::EventSelection::after(0), 10)
            .await;
        assert_eq!(events.unwrap_err(), sortie_store::Error::Unretained.into());
        let events = rig
            .engine
            .events_elsewhere(
                &rig.caller,
                id,
                (&sortie_store::runs::EventSelection::after(0), 10),
                Hop::First,
            )
            .await;
        assert_eq!(events.err(), Some(forgotten()));
    }
    rig.pass(Duration::from_secs(3_600 - 5 * 60 - 1));
    let run = rig.get(read).await;
    assert_eq!(
        (run.output.as_deref(), run.output_available),
        (Some("read late"), Some(false))
    );
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.get(unread).await.output, None);
    // The keeper notifies the store in its next pass.
    let stored = async || Ok(rig.engine.store().get_run(rig.org, unread).await?);
    let is_gone = |run: &Run| run.output_available != Some(true);
    until("the end of the output", stored, is_gone).await.unwrap();
    let holder = async || Ok(rig.engine.store().content_holder(rig.org, unread).await?);
    until("no holder", holder, Option::is_none).await.unwrap();
    let run = rig.get(unread).await;
    assert_eq!(
        (run.output, run.output_available, run.output_expires_at),
        (None, Some(false), None)
    );
    assert_eq!(rig.follow(unread).await, Err(forgotten()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_node_passes_on_is_not_passed_on_again() {
    let rig = Rig::start().await;
    let id = rig.answered("here").await;
    // Makes the store believe that another node has the content.
    let elsewhere = rig.held_by(NodeId(77));
    let other = elsewhere.id;
    rig.other_node(NodeId(77)).await;
    rig.engine.store().create_run(elsewhere).await.unwrap();
    for (hop, text) in [
        (
            Hop::First,
            "the node that has the content of this run cannot be asked from here, retry later",
        ),
        (
            Hop::Second,
            "the content of this run is on another node, retry later",
        ),
    ] {
        let answer = rig.engine.get_run(&rig.caller, other, Duration::ZERO, hop).await;
        assert_eq!(answer.err(), Some(ErrorCode::Unavailable.because(text)));
    }
    assert_eq!(rig.get(id).await.output.as_deref(), Some("here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_the_store_calls_gone_is_not_handed_out() {
    let rig = Rig::start().await;
    let id = rig.answered("gone").await;
    rig.engine.store().forget_outputs(vec![(id, None)]).await.unwrap();
    let run = rig.get(id).await;
    assert_eq!((run.output, run.output_available), (None, Some(false)));
}

/// A feed describes the run without any content, and the answer can still be read afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_feed_has_no_content_of_a_run_and_leaves_its_output_where_it_is() {
    let rig = Rig::start().await;
    let filter = sortie_store::runs::RunFilter::default();
    let mut feed = rig.engine.follow_list(rig.org, filter, None).unwrap();
    let reset = feed.next().await.unwrap().unwrap();
    assert_eq!(reset.messages().len(), 1);
    let id = rig.answered("a secret").await;
    loop {
        let batch = feed.next().await.unwrap().unwrap();
        let [Message::Change(RunChange { run: Some(run), .. })] = batch.messages() else {
            panic!("{batch:?}")
        };
        assert!(!run.get().contains("secret"), "{run}");
        let run: Run = serde_json::from_str(run.get()).unwrap();
        assert_eq!((run.id, run.title, run.output), (id, None, None));
        if !run.billing_pending {
            assert_eq!(run.output_available, Some(true));
            break;
        }
    }
    assert_eq!(rig.get(id).await.output.as_deref(), Some("a secret"));
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
        runs.push(rig.create("```wait 600000\n```").await.unwrap().id);
    }
    let status = async |run| rig.engine.store().get_run(rig.org, run).await.unwrap().status;
    let look = async || Ok([status(runs[0]).await, status(runs[1]).await]);
    until("a run at work", look, |both| both.contains(&RunStatus::Running))
        .await
        .unwrap();
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

/// `docs/API.md#large-answers`
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_events_leaves_large_data_out_and_it_is_read_apart() {
    let rig = Rig::start().await;
    let id = rig.answered(&"x".repeat(20_000)).await;
    let events = rig
        .engine
        .list_events(rig.org, id, &sortie_store::runs::EventSelection::after(0), 100)
        .await
        .unwrap();
    let large: Vec<_> = events.iter().filter(|event| event.data.is_none()).collect();
    assert_eq!(
        large.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(),
        ["message", "result"]
    );
    for event in large {
        let text = sortie_store::runs::LargeText::Event(id, event.seq);
        assert!(rig.engine.large_text(rig.org, text).await.unwrap().len() > 20_000);
    }
}

/// Longer than two passes of the keeper.
const LOOKS: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_while_the_store_is_told_leaves_the_output_for_the_next() {
    let rig = Rig::start().await;
    let id = rig.answered("for the next").await;
    let lock = rig.lock();
    let reader = tokio::time::timeout(LOOKS, rig.get(id)).await;
    assert!(reader.is_err(), "{reader:?}");
    drop(lock);
    // The store records the read even though the reader has gone.
    let stored = async || Ok(rig.engine.store().get_run(rig.org, id).await?);
    let is_told = |run: &Run| run.output_available == Some(false);
    until("the read to be stored", stored, is_told).await.unwrap();
    let outputs = [rig.get(id).await.output, rig.get(id).await.output];
    assert_eq!(outputs, [Some("for the next".to_owned()), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_client_goes_away_while_it_is_recorded_goes_on() {
    let rig = Rig::start().await;
    let lock = rig.lock();
    let created = tokio::time::timeout(LOOKS, rig.create("goes on")).await;
    assert!(created.is_err(), "{created:?}");
    // From now on only the node waits for the commit.
    tokio::time::sleep(LOOKS).await;
    drop(lock);
    let filter = any_run(Some(RunStatus::Succeeded));
    let listed = async || Ok(rig.engine.store().list_runs(rig.org, filter.clone()).await?.items);
    let found = until("the run", listed, |found| found.len() == 1).await.unwrap();
    assert_eq!(rig.get(found[0].run.id).await.output.as_deref(), Some("goes on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_store_gives_this_node_and_that_is_not_in_its_memory_is_ended() {
    let rig = Rig::start().await;
    let recorded_late = rig.held_by(rig.node().await);
    let id = recorded_late.id;
    rig.engine.store().create_run(recorded_late).await.unwrap();
    let run = until(
        "the end",
        async || Ok(rig.get(id).await),
        |run| run.status.is_final(),
    );
    let run = run.await.unwrap();
    assert_eq!((run.status, run.billing_pending), (RunStatus::Interrupted, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_declared_lost_and_lives_still_hands_its_outputs_out() {
    let rig = Rig::start().await;
    let id = rig.answered("still here").await;
    let lost = rig.node().await;
    rig.engine.store().deregister_node(lost, BEGINNING).await.unwrap();
    // The node registers again with its next heartbeat.
    let look = async || Ok(rig.engine.store().content_holder(rig.org, id).await?.unwrap());
    let holder = until("the node", look, |holder| !holder.is_lost).await.unwrap();
    assert_ne!(holder.node, lost);
    assert_eq!(rig.get(id).await.output.as_deref(), Some("still here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_whose_node_is_lost_is_unavailable_and_not_called_gone() {
    let rig = Rig::start().await;
    let node = NodeId(77);
    let elsewhere = rig.held_by(node);
    let (store, id) = (rig.engine.store(), elsewhere.id);
    rig.other_node(node).await;
    store.create_run(elsewhere).await.unwrap();
    let claims = store.claim_named(node, vec![id], None, BEGINNING).await.unwrap();
    let mut fence = claims[0].fence;
    store.start_unretained(fence, 1).await.unwrap();
    fence.last_event += 1;
    let expires_at = rig.clock.now() + Duration::from_hours(1);
    let finish = sortie_store::runs::UnretainedFinish {
        status: RunStatus::Succeeded,
        error: None,
        last: sortie_store::runs::Counted {
            events: 1,
            ..sortie_store::runs::Counted::default()
        },
        output_expires_at: Some(expires_at),
        receiver: sortie_store::runs::Receiver::Nobody,
        at: rig.clock.now(),
    };
    store.finish_unretained(fence, finish).await.unwrap();
    store.deregister_node(node, BEGINNING).await.unwrap();
    let get = async || {
        rig.engine
            .get_run(&rig.caller, id, Duration::ZERO, Hop::First)
            .await
    };
    let lost = ErrorCode::Unavailable.because(
        "the node that holds the output of this run cannot be reached: the output is available once it comes back, and is \
         deleted at output_expires_at",
    );
    assert_eq!(get().await.err(), Some(lost.clone()));
    // Reading the run without its output works as before.
    let run = rig.engine.look_at_run(rig.org, id, Duration::ZERO).await.unwrap();
    assert_eq!(
        (run.status, run.output_available),
        (RunStatus::Succeeded, Some(true))
    );
    rig.pass(Duration::from_hours(1));
    let is_answer = |answer: &Result<_, Refusal>| answer.as_ref().err() != Some(&lost);
    let answer = until("an answer", async || Ok(get().await), is_answer).await;
    let run = answer.unwrap().unwrap().run;
    assert_eq!((run.output, run.output_available), (None, Some(false)));
}
