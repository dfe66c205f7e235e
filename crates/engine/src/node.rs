//! The node's own life: its lease, the sweep of lost nodes, and the watch over runs that work elsewhere.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use sortie_api::{OrgId, RunId, RunStatus, Timestamp};
use sortie_store::{Claim, Error as StoreError, Expired, NewNode, NodeId, Store, Sweep};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    Error, MasterKey, Options, Serves,
    callbacks::Hints,
    check_master_keys,
    clock::random,
    hub::Hub,
    lease::LeaseClock,
    metrics::Renewal,
    news::Wake,
    unretained::Unretained,
    worker::{Active, Places, StopReason, Turn},
};

/// Lost runs ended in one transaction.
const SWEEP: u32 = 100;

/// Who this node is now: a new identity after each start, and after it was declared lost.
#[derive(Clone)]
pub(crate) struct Identity {
    id: Arc<AtomicI64>,
    /// What its leases, and those of others, are counted on.
    pub(crate) leases: LeaseClock,
    /// Since when it is about to stop, under whatever identity.
    draining_since: Arc<OnceLock<Timestamp>>,
}

impl Identity {
    /// Makes the node known under its first identity; what an earlier start of it still holds is lost from here on. A node that cannot
    /// open what is sealed is not made known: it takes nothing from those that can.
    pub(crate) async fn begin(store: &Store, options: &Options) -> Result<Self, Error> {
        check_master_keys(store, &options.master_keys).await?;
        let leases = LeaseClock::begin(store, options.clock.clone()).await?;
        let node = new_node(options, &leases, None)?;
        let id = node.id;
        store.register_node(node).await?;
        Ok(Self::of(id, leases))
    }

    fn of(id: NodeId, leases: LeaseClock) -> Self {
        Self {
            id: Arc::new(AtomicI64::new(id.0)),
            leases,
            draining_since: Arc::default(),
        }
    }

    /// Makes the node known anew after it was declared lost. One that is about to stop still is. Content without retention
    /// that is still in memory is its own again.
    async fn renew(&self, store: &Store, options: &Options, unretained: &Unretained) -> Result<(), Error> {
        self.leases.set(store.clock().await?);
        let node = new_node(options, &self.leases, self.draining_since.get().copied())?;
        let id = node.id;
        store.register_again(node, unretained.all()).await?;
        self.id.store(id.0, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn get(&self) -> NodeId {
        NodeId(self.id.load(Ordering::SeqCst))
    }

    /// Says that the node is about to stop.
    pub(crate) async fn drain(&self, store: &Store, at: Timestamp) -> Result<(), StoreError> {
        let since = *self.draining_since.get_or_init(|| at);
        store.drain_node(self.get(), since).await
    }
}

/// The node under a new identity. Its earlier ones are lost once this one is known.
fn new_node(
    options: &Options,
    leases: &LeaseClock,
    draining_since: Option<Timestamp>,
) -> Result<NewNode, Error> {
    Ok(NewNode {
        id: NodeId(i64::from_be_bytes(random()?) & i64::MAX),
        name: options.node_name.clone(),
        started_at: options.clock.now(),
        lease_until: leases.now() + options.lease,
        address: options.node_address.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        master_keys: Some(options.master_keys.iter().map(MasterKey::id).collect()),
        draining_since,
    })
}

pub(crate) struct Lifeline {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) hub: Hub,
    pub(crate) places: Places,
    pub(crate) identity: Identity,
    pub(crate) callbacks: Hints,
    pub(crate) wake: Wake,
    pub(crate) unretained: Unretained,
}

/// Since when the node is in touch with the database, on a clock that goes evenly. After an outage nobody could renew, and
/// after the clock was set leases say nothing: who was away as well gets the time of a lease to come back.
#[derive(Default)]
struct Touch(Option<Instant>);

/// What the last look at the store found unlike this node's own registry.
#[derive(Default)]
struct Suspects {
    /// Held in the store, without a task here.
    without_task: HashSet<RunId>,
    /// At work here, not held in the store.
    without_row: HashSet<RunId>,
}

impl Lifeline {
    /// Renews the lease, sweeps, and compares what the store says this node holds with what it works on, until the
    /// node has stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut beat = tokio::time::interval(self.options.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut suspects = Suspects::default();
        let mut touch = Touch::default();
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = self.wake.nodes.notified() => {
                    self.sweep_declared().await;
                    continue;
                }
                () = stop.cancelled() => break,
            }
            if let Err(error) = self.beat(&mut touch, &mut suspects).await {
                tracing::error!(%error, "the node's lease, or what it holds, could not be looked after");
                touch.0 = None;
            }
        }
        let now = self.options.clock.now();
        if let Err(error) = self.store.deregister_node(self.identity.get(), now).await {
            tracing::warn!(%error, "the node could not sign off; its lease will run out");
        }
    }

    /// Takes over what a node has left behind that has just signed off.
    async fn sweep_declared(&self) {
        if let Err(error) = self.sweep(Expired::Leave).await {
            tracing::warn!(%error, "runs that another node has left behind are taken over at the next heartbeat");
        }
    }

    async fn beat(&self, touch: &mut Touch, suspects: &mut Suspects) -> Result<(), Error> {
        if self.renew().await? > self.options.heartbeat {
            tracing::warn!(
                "the database's time is not what it should be by now: its clock was set, it is another database, or this \
                 machine slept"
            );
            touch.0 = None;
            // The lease was counted on what is not so.
            self.renew().await?;
        }
        let since = *touch.0.get_or_insert_with(Instant::now);
        let expired = if since.elapsed() >= self.options.lease {
            let at = self.identity.leases.now();
            // Those at work have renewed theirs since the clock was set.
            let latest = at + 2 * self.options.lease;
            Expired::Declare { at, latest }
        } else {
            Expired::Leave
        };
        self.sweep(expired).await?;
        self.compare(suspects).await
    }

    /// Returns how far the clock that leases are counted on has stepped.
    async fn renew(&self) -> Result<Duration, Error> {
        let until = self.identity.leases.now() + self.options.lease;
        let renewed = self.store.heartbeat(self.identity.get(), until).await;
        self.places.metrics().renewed(match &renewed {
            Ok(_) => Renewal::Renewed,
            Err(StoreError::Fenced) => Renewal::Lost,
            Err(_) => Renewal::Failed,
        });
        match renewed {
            Err(StoreError::Fenced) => {
                // Silent for longer than the lease: others may have taken this node's runs over.
                tracing::warn!("this node was declared lost; its runs are given up and it starts afresh");
                self.places.active().stop_all(StopReason::Lost);
                self.identity
                    .renew(&self.store, &self.options, &self.unretained)
                    .await?;
                Ok(Duration::ZERO)
            }
            other => Ok(self.identity.leases.set(other?)),
        }
    }

    /// Takes over runs of lost nodes, as many as there are places, and ends those that were resumed too often.
    pub(crate) async fn sweep(&self, expired: Expired) -> Result<(), Error> {
        loop {
            let turn = self.places.turn().await;
            let places = match self.options.serves {
                Serves::Everyone => turn.free(),
                // What others left is for a node that is here to stay.
                Serves::OwnRuns | Serves::Nothing => 0,
            };
            let sweep = Sweep {
                node: self.identity.get(),
                at: self.options.clock.now(),
                limit: SWEEP,
                places,
                expired,
                compute_micros_per_second: self.options.compute_micros_per_second,
            };
            let swept = self.store.sweep(sweep).await?;
            let all_ended = swept.ended.len() < SWEEP as usize;
            let all_taken = places == 0 || swept.taken.len() < places as usize;
            self.tell_ended(&swept.ended);
            self.go_on(&turn, swept.taken);
            if all_ended && all_taken {
                return Ok(());
            }
        }
    }

    fn tell_ended(&self, ended: &[(OrgId, RunId)]) {
        if !ended.is_empty() {
            self.callbacks.look();
        }
        for (_, run) in ended {
            tracing::warn!(run.id = %run, "a run that cannot go on is ended as interrupted");
            self.places.metrics().ended(RunStatus::Interrupted);
            self.hub.ended(*run);
        }
    }

    /// Finds runs that were cancelled on another node, and those that the store and this node do not agree on. What is
    /// just beginning or ending looks like that as well: only who does so twice in a row is dealt with.
    async fn compare(&self, suspects: &mut Suspects) -> Result<(), Error> {
        let node = self.identity.get();
        // Before the query: what begins after it is not missed in the store.
        let at_work = self.places.active().all();
        let held = self.store.held_runs(node).await?;
        let mut found = Suspects::default();
        let mut rows = HashSet::with_capacity(held.len());
        for sortie_store::Held { run, status } in held {
            rows.insert(run);
            if !self.places.active().contains(run) {
                found.without_task.insert(run);
            } else if status.is_final() {
                self.places.active().stop(run, StopReason::NotOurs);
                self.hub.ended_elsewhere(run);
            }
        }
        found
            .without_row
            .extend(at_work.into_iter().filter(|run| !rows.contains(run)));
        for run in found.without_row.intersection(&suspects.without_row) {
            self.places.active().stop(*run, StopReason::NotOurs);
        }
        let lost: Vec<RunId> = found
            .without_task
            .intersection(&suspects.without_task)
            .copied()
            .collect();
        if !lost.is_empty() {
            self.retake(node, lost).await?;
        }
        *suspects = found;
        Ok(())
    }

    /// Takes runs up again that this node holds and has no task for.
    async fn retake(&self, node: NodeId, runs: Vec<RunId>) -> Result<(), Error> {
        let turn = self.places.turn().await;
        if turn.is_closing() {
            // They are handed over with the others.
            return Ok(());
        }
        let (at, price) = (self.options.clock.now(), self.options.compute_micros_per_second);
        let swept = self.store.retake_held(node, runs, at, price).await?;
        self.tell_ended(&swept.ended);
        self.go_on(&turn, swept.taken);
        Ok(())
    }

    /// Works on runs that were taken over.
    fn go_on(&self, turn: &Turn<'_>, taken: Vec<Claim>) {
        for claim in taken {
            tracing::warn!(run.id = %claim.fence.run, "a run whose worker was lost is taken over");
            self.places.metrics().took_over();
            turn.start(claim);
        }
    }
}

/// How often the watch looks by itself, at least: other nodes tell what is new, so this is for what was not heard. With the
/// jitter, with which nodes that started together drift apart, it is short enough for a run that was cancelled through
/// another node to stop within a second all the same.
const WATCH: Duration = Duration::from_millis(500);
const WATCH_JITTER_MS: i64 = 250;

/// Two looks of the watch are at least so far apart, however much other nodes tell.
const WATCH_APART: Duration = Duration::from_millis(100);

/// The watch over what other nodes do to runs that are followed, or at work, here.
pub(crate) struct Watch {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) hub: Hub,
    pub(crate) active: Active,
    pub(crate) identity: Identity,
    pub(crate) wake: Wake,
}

impl Watch {
    /// Looks until the node has stopped: one query for all runs.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            let jitter = self.options.clock.now().as_micros().rem_euclid(WATCH_JITTER_MS);
            let pause = WATCH + Duration::from_millis(jitter.unsigned_abs());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wake.watch.notified() => {}
                () = stop.cancelled() => return,
            }
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "runs that are followed or at work could not be looked up");
            }
            tokio::select! {
                () = tokio::time::sleep(WATCH_APART) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        let followed = self.hub.watched();
        if followed.is_empty() && self.active.count() == 0 {
            return Ok(());
        }
        let found = self.store.watch(self.identity.get(), followed).await?;
        for (run, last) in found.positions {
            self.hub.hint(run, last);
        }
        for run in found.cancelled {
            self.active.stop(run, StopReason::NotOurs);
            self.hub.ended_elsewhere(run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{
        connections::Connections,
        contents::Contents,
        models::Models,
        no_sandbox::NoSandbox,
        testing::{Held, held},
        web::NodeWeb,
        worker::{Collecting, Worker},
    };

    /// A node that holds one run without a task for it.
    async fn holding() -> (Lifeline, OrgId, RunId, TempDir) {
        let Held {
            store,
            node,
            claim,
            dir,
        } = held().await;
        let options = Arc::new(Options {
            data_dir: dir.path().to_owned(),
            ..Options::default()
        });
        let records = crate::testing::records(&store);
        let unretained = records.unretained.clone();
        let hub = Hub::new(
            records.clone(),
            crate::news::News::default(),
            CancellationToken::new(),
        );
        let metrics = Arc::new(crate::metrics::Metrics::default());
        let models = Models::new(&sortie_models::Settings::default(), &metrics.models).unwrap();
        let worker = Worker {
            records,
            metrics,
            hub: hub.clone(),
            clock: options.clock.clone(),
            models: Arc::new(models),
            connections: Connections::new(
                &options,
                store.clone(),
                TaskTracker::new(),
                &Err("a test".to_owned()),
            )
            .unwrap(),
            contents: Contents::open(&options, store.clone()).await.unwrap(),
            collecting: Collecting::default(),
            sandbox: Arc::new(NoSandbox::new("a test".to_owned())),
            web: NodeWeb::new(&options).unwrap(),
            schedules: crate::news::TimerBell::default(),
            active: Active::default(),
            callbacks: Hints::default(),
            options: Arc::clone(&options),
        };
        let places = Places::new(Arc::new(worker), TaskTracker::new(), CancellationToken::new());
        let leases = LeaseClock::begin(&store, options.clock.clone()).await.unwrap();
        let lifeline = Lifeline {
            identity: Identity::of(node, leases),
            store,
            options,
            hub,
            places,
            callbacks: Hints::default(),
            wake: Wake::default(),
            unretained,
        };
        (lifeline, claim.org, claim.fence.run, dir)
    }

    async fn status(lifeline: &Lifeline, org: OrgId, run: RunId) -> RunStatus {
        lifeline.store.get_run(org, run).await.unwrap().status
    }

    #[tokio::test]
    async fn a_run_that_is_held_without_a_task_goes_on_at_the_second_look() {
        let (lifeline, org, run, _dir) = holding().await;
        let mut suspects = Suspects::default();
        lifeline.compare(&mut suspects).await.unwrap();
        assert!(!lifeline.places.active().contains(run));
        lifeline.compare(&mut suspects).await.unwrap();
        assert!(lifeline.places.active().contains(run));
        lifeline.places.active().drained().await;
        assert_eq!(status(&lifeline, org, run).await, RunStatus::Succeeded);
        let events = lifeline.store.events_after(org, run, 0, 100).await.unwrap();
        let resumed: Vec<_> = events.iter().filter(|event| event.kind == "resumed").collect();
        assert_eq!(resumed.len(), 1);
        assert_eq!(resumed[0].data, r#"{"step":0,"attempt":2}"#);
    }

    #[tokio::test]
    async fn a_node_that_was_declared_lost_gets_back_what_nobody_took_over() {
        let (lifeline, org, run, _dir) = holding().await;
        let mut earlier = lifeline.places.active().enter(run);
        let lost = lifeline.identity.get();
        lifeline
            .store
            .deregister_node(lost, lifeline.options.clock.now())
            .await
            .unwrap();
        let mut suspects = Suspects::default();
        lifeline.beat(&mut Touch::default(), &mut suspects).await.unwrap();
        assert_ne!(lifeline.identity.get(), lost);
        assert_eq!(earlier.stopped().await, StopReason::Lost);
        assert_eq!(status(&lifeline, org, run).await, RunStatus::Starting);
        // The next attempt waits until the earlier one has wound up.
        drop(earlier);
        lifeline.places.active().drained().await;
        assert_eq!(status(&lifeline, org, run).await, RunStatus::Succeeded);
    }

    #[tokio::test]
    async fn a_node_that_is_declared_lost_while_it_drains_is_shown_as_draining() {
        let (lifeline, _org, _run, _dir) = holding().await;
        let since = lifeline.options.clock.now();
        lifeline.identity.drain(&lifeline.store, since).await.unwrap();
        let lost = lifeline.identity.get();
        lifeline.store.deregister_node(lost, since).await.unwrap();
        lifeline.renew().await.unwrap();
        let nodes = lifeline.store.list_nodes().await.unwrap();
        let shown = nodes.iter().find(|row| row.node.id == lifeline.identity.get());
        assert_eq!(shown.unwrap().node.draining_since, Some(since));
    }

    #[tokio::test]
    async fn a_closing_node_takes_nothing_up_again() {
        let (lifeline, org, run, _dir) = holding().await;
        lifeline.places.close();
        let mut suspects = Suspects::default();
        for _ in 0..3 {
            lifeline.compare(&mut suspects).await.unwrap();
        }
        assert_eq!(lifeline.places.active().count(), 0);
        assert_eq!(status(&lifeline, org, run).await, RunStatus::Starting);
    }

    #[tokio::test]
    async fn a_run_with_a_task_is_left_alone_until_it_is_cancelled_elsewhere() {
        let (lifeline, org, run, _dir) = holding().await;
        let mut place = lifeline.places.active().enter(run);
        let mut suspects = Suspects::default();
        for _ in 0..3 {
            lifeline.compare(&mut suspects).await.unwrap();
        }
        assert_eq!(status(&lifeline, org, run).await, RunStatus::Starting);
        lifeline
            .store
            .cancel_run(org, run, lifeline.options.clock.now())
            .await
            .unwrap();
        lifeline.compare(&mut suspects).await.unwrap();
        assert_eq!(place.stopped().await, StopReason::NotOurs);
    }
}
