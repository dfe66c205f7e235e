//! Feeds of the list of runs (`docs/RUNS.md#the-feed-of-the-list`).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use sortie_api::{Run, RunId, RunStatus};
use sortie_engine::{Engine, Message, Options, RunChange};
use sortie_store::runs::RunFilter;
use sortie_testkit::postgres::TestDatabase;

use crate::{
    cluster::{Rig, comes, now, options, told},
    rig::Stream,
};

/// Minimum time between two messages about a run.
const APART: Duration = Duration::from_millis(255);

/// Largest number of changes at once that a feed reports.
const MOST_CHANGES: usize = 100;

/// A reader of a feed.
struct Feed {
    stream: Stream,
    /// Position of the last message.
    position: String,
}

impl Feed {
    /// A feed that has got its first `reset`: it has every later change.
    async fn open(rig: &Rig, engine: &Engine, filter: RunFilter) -> Self {
        let mut feed = Self::at(rig, engine, filter, None);
        assert!(feed.next().await.is_none());
        feed
    }

    fn at(rig: &Rig, engine: &Engine, filter: RunFilter, position: Option<&str>) -> Self {
        Self {
            stream: engine.follow_list(rig.org(), filter, position).unwrap(),
            position: String::new(),
        }
    }

    /// The run of the next message, or `None` for a `reset`.
    async fn next(&mut self) -> Option<Run> {
        let batch = comes(self.stream.next())
            .await
            .expect("the feed is open")
            .unwrap();
        let [Message::Change(RunChange { position, run })] = batch.messages() else {
            panic!("{batch:?}")
        };
        self.position.clone_from(position);
        run.as_ref().map(|run| serde_json::from_str(run.get()).unwrap())
    }

    /// Messages up to one in which the run has this status and is settled or not.
    async fn until(&mut self, run: RunId, status: RunStatus, is_pending: bool) -> Vec<Run> {
        let mut runs = Vec::new();
        loop {
            let next = self.next().await.expect("no reset");
            let is_last = next.id == run && next.status == status && next.billing_pending == is_pending;
            runs.push(next);
            if is_last {
                return runs;
            }
        }
    }
}

fn all() -> RunFilter {
    RunFilter::default()
}

/// The newest runs of the list, without their outputs.
async fn listed(rig: &Rig) -> Vec<Run> {
    let filter = RunFilter { limit: 100, ..all() };
    let found = rig.outside.list_runs(rig.org(), filter).await.unwrap();
    let without = |run| Run { output: None, ..run };
    found
        .items
        .into_iter()
        .map(|listed| without(listed.run))
        .collect()
}

/// Place of a status in the life of a run.
fn place(status: RunStatus) -> usize {
    RunStatus::ALL.iter().position(|other| *other == status).unwrap()
}

async fn a_feed_ends_up_with_the_list(database: TestDatabase) {
    let rig = Rig::on(database, told()).await;
    let before = rig.create("quick").await;
    let mut feed = Feed::open(&rig, &rig.engine, all()).await;
    let began = Instant::now();
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(rig.create("quick").await.id);
    }
    let waiting = rig.at_work().await.id;
    let (mut last, mut counts) = (BTreeMap::<RunId, Run>::new(), BTreeMap::<RunId, usize>::new());
    let mut is_cancelled = false;
    while last.len() < 6
        || last
            .values()
            .any(|run| !run.status.is_final() || run.billing_pending)
    {
        let run = feed.next().await.expect("no reset");
        let known = last.insert(run.id, run.clone());
        // `docs/RUNS.md#statuses`: no run goes back.
        assert!(
            known.is_none_or(|known| place(known.status) <= place(run.status)),
            "{run:?}"
        );
        if run.id == before.id {
            last.remove(&before.id);
        } else {
            *counts.entry(run.id).or_default() += 1;
        }
        if run.id == waiting && run.status == RunStatus::Running && !is_cancelled {
            is_cancelled = true;
            rig.engine.cancel_run(rig.org(), waiting).await.unwrap();
        }
    }
    // Each read of the follower has a run once.
    let reads = 1 + began.elapsed().as_millis() / APART.as_millis();
    assert!(
        counts
            .values()
            .all(|count| u128::try_from(*count).unwrap() <= reads),
        "{counts:?}"
    );
    for run in listed(&rig).await.into_iter().filter(|run| run.id != before.id) {
        // As JSON, which has times in milliseconds.
        let json = |run: &Run| serde_json::to_value(run).unwrap();
        assert_eq!(last.remove(&run.id).as_ref().map(json), Some(json(&run)));
    }
    assert!(last.is_empty(), "{last:?}");
    rig.engine.shutdown().await;
}

async fn a_feed_has_the_runs_that_its_filter_admits(database: TestDatabase) {
    let rig = Rig::on(database, told()).await;
    let filter = RunFilter {
        statuses: vec![RunStatus::Succeeded],
        text: Some("needle".to_owned()),
        ..all()
    };
    let mut feed = Feed::open(&rig, &rig.engine, filter).await;
    rig.create("hay").await;
    rig.at_work().await;
    let wanted = rig.create("the Needle").await;
    let found = feed.next().await.expect("no reset");
    assert_eq!((found.id, found.status), (wanted.id, RunStatus::Succeeded));
    rig.engine.shutdown().await;
}

async fn a_feed_continues_at_its_position_and_begins_anew_at_another(database: TestDatabase) {
    let rig = Rig::on(database, told()).await;
    let mut feed = Feed::open(&rig, &rig.engine, all()).await;
    let first = rig.create("one").await.id;
    feed.until(first, RunStatus::Succeeded, false).await;
    let position = feed.position.clone();
    drop(feed);
    let second = rig.create("two").await.id;
    let mut again = Feed::at(&rig, &rig.engine, all(), Some(&position));
    let missed = again.until(second, RunStatus::Succeeded, false).await;
    assert!(missed.iter().all(|run| run.id == second), "{missed:?}");
    for unknown in ["", "x", "1", "0000000000000000-1", &format!("{position}0")] {
        let mut other = Feed::at(&rig, &rig.engine, all(), Some(unknown));
        assert!(other.next().await.is_none(), "{unknown:?}");
        assert_eq!(other.position, again.position);
    }
    rig.engine.shutdown().await;
}

/// The database changes without any signal, as if every hint was lost.
async fn a_feed_finds_by_a_poll_what_no_signal_names(database: TestDatabase) {
    let rig = Rig::on(database, options()).await;
    let waiting = rig.at_work().await.id;
    let mut feed = Feed::open(&rig, &rig.engine, all()).await;
    rig.outside.cancel_run(rig.org(), waiting, now()).await.unwrap();
    feed.until(waiting, RunStatus::Cancelled, false).await;
    rig.engine.shutdown().await;
}

/// More runs change at once than a feed reports one by one.
async fn a_feed_begins_anew_after_each_flood_of_changes(database: TestDatabase) {
    let one_worker = Options {
        concurrency: 1,
        ..told()
    };
    let rig = Rig::on(database, one_worker).await;
    rig.at_work().await;
    let mut floods = [Vec::new(), Vec::new()];
    for runs in &mut floods {
        for _ in 0..=MOST_CHANGES {
            runs.push(rig.create("waits").await.id);
        }
    }
    let mut feed = Feed::open(&rig, &rig.engine, all()).await;
    // The second flood comes right after the reset for the first one, and nothing signals after it.
    for runs in floods {
        for run in runs {
            rig.outside.cancel_run(rig.org(), run, now()).await.unwrap();
        }
        let last = rig.create("waits").await.id;
        while let Some(run) = feed.next().await {
            assert_ne!(run.id, last, "every change was reported");
        }
    }
    rig.engine.shutdown().await;
}

/// Runs each test on both databases.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use sortie_testkit::postgres::TestDatabase;

            #[tokio::test]
            async fn on_sqlite() {
                super::$name(TestDatabase::sqlite().unwrap()).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                super::$name(TestDatabase::postgres().await.unwrap()).await;
            }
        }
    )+};
}

on_both! {
    a_feed_ends_up_with_the_list,
    a_feed_has_the_runs_that_its_filter_admits,
    a_feed_continues_at_its_position_and_begins_anew_at_another,
    a_feed_finds_by_a_poll_what_no_signal_names,
    a_feed_begins_anew_after_each_flood_of_changes,
}

/// Neither node polls: the feed of one learns of the runs of the other from hints.
#[tokio::test]
async fn a_feed_has_the_changes_of_another_node() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), told()).await;
    let other = rig.beside(told()).await;
    let mut hinted = Feed::open(&rig, &other, all()).await;
    let run = rig.create("quick").await.id;
    hinted.until(run, RunStatus::Succeeded, false).await;

    let waiting = rig.at_work().await.id;
    hinted.until(waiting, RunStatus::Running, true).await;
    // This write sends no hint. The signal for another run lets the feed find it as well.
    rig.outside.cancel_run(rig.org(), waiting, now()).await.unwrap();
    let next = rig.create("quick").await.id;
    let found = hinted.until(next, RunStatus::Succeeded, false).await;
    assert!(
        found
            .iter()
            .any(|run| run.id == waiting && run.status == RunStatus::Cancelled),
        "{found:?}"
    );
    rig.engine.shutdown().await;
    other.shutdown().await;
}

/// Every hint is lost: the changes are written without one. Each of three nodes finds all of them by its own polls.
#[tokio::test]
async fn the_feeds_of_three_nodes_need_no_hint() {
    let rig = Rig::on(TestDatabase::postgres().await.unwrap(), told()).await;
    let runs = [rig.at_work().await.id, rig.at_work().await.id];
    let (mut nodes, mut feeds) = (Vec::new(), Vec::new());
    for name in ["b", "c", "d"] {
        let node = rig.deaf(options(), name).await;
        feeds.push(Feed::open(&rig, &node, all()).await);
        nodes.push(node);
    }
    for run in runs {
        rig.outside.cancel_run(rig.org(), run, now()).await.unwrap();
        for feed in &mut feeds {
            // Its worker may have reported the cost by then.
            let is_it = |next: &Run| (next.id, next.status) == (run, RunStatus::Cancelled);
            while !is_it(&feed.next().await.expect("no reset")) {}
        }
    }
    rig.engine.shutdown().await;
    for node in nodes {
        node.shutdown().await;
    }
}

#[tokio::test]
async fn the_stop_of_a_node_ends_its_feeds() {
    let rig = Rig::on(TestDatabase::sqlite().unwrap(), told()).await;
    let mut feed = Feed::open(&rig, &rig.engine, all()).await;
    rig.engine.shutdown().await;
    assert!(comes(feed.stream.next()).await.is_none());
}
