//! The node's own life: its lease, the sweep of lost nodes, and the watch over runs that work elsewhere.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use sortie_api::{OrgId, RunId};
use sortie_sandbox::Workdir;
use sortie_store::{Error as StoreError, Expired, Held, NewNode, NodeId, Store, Sweep};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    Error, Options,
    clock::random,
    hub::Hub,
    worker::{Active, StopReason},
};

/// Lost runs ended in one transaction.
const SWEEP: u32 = 100;

/// Who this node is now: a new identity after each start, and after it was declared lost.
#[derive(Clone)]
pub(crate) struct Identity(Arc<AtomicI64>);

impl Identity {
    pub(crate) fn get(&self) -> NodeId {
        NodeId(self.0.load(Ordering::SeqCst))
    }
}

/// Makes the node known under a new identity; its earlier ones are lost from here on.
async fn register(store: &Store, options: &Options) -> Result<NodeId, Error> {
    let now = options.clock.now();
    let id = NodeId(i64::from_be_bytes(random()?) & i64::MAX);
    store
        .register_node(NewNode {
            id,
            name: options.node_name.clone(),
            started_at: now,
            lease_until: now + options.lease,
        })
        .await?;
    Ok(id)
}

pub(crate) struct Lifeline {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) hub: Hub,
    pub(crate) active: Active,
    pub(crate) identity: Identity,
}

/// What the last look at the store found unlike this node's own registry.
#[derive(Default)]
struct Suspects {
    /// Held in the store, without a task here.
    without_task: HashSet<RunId>,
    /// At work here, not held in the store.
    without_row: HashSet<RunId>,
}

impl Lifeline {
    /// Registers the node and ends what an earlier start of it left at work.
    pub(crate) async fn begin(
        store: Store,
        options: Arc<Options>,
        hub: Hub,
        active: Active,
    ) -> Result<Self, Error> {
        let id = register(&store, &options).await?;
        let identity = Identity(Arc::new(AtomicI64::new(id.0)));
        let lifeline = Self {
            store,
            options,
            hub,
            active,
            identity,
        };
        lifeline.sweep(Expired::Leave).await?;
        Ok(lifeline)
    }

    /// Renews the lease, sweeps, and compares what the store says this node holds with what it works on, until the
    /// node has stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut beat = tokio::time::interval(self.options.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut suspects = Suspects::default();
        let mut in_touch_since = None;
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = stop.cancelled() => break,
            }
            match self.beat(in_touch_since, &mut suspects).await {
                Ok(()) => in_touch_since = in_touch_since.or_else(|| Some(Instant::now())),
                Err(error) => {
                    tracing::error!(%error, "the node's lease, or what it holds, could not be looked after");
                    in_touch_since = None;
                }
            }
        }
        if let Err(error) = self.store.deregister_node(self.identity.get()).await {
            tracing::warn!(%error, "the node could not sign off; its lease will run out");
        }
    }

    async fn beat(&self, in_touch_since: Option<Instant>, suspects: &mut Suspects) -> Result<(), Error> {
        self.renew().await?;
        // After an outage nobody could renew: who was away as well gets the time of a lease to come back.
        let expired = match in_touch_since {
            Some(since) if since.elapsed() >= self.options.lease => Expired::Declare,
            Some(_) | None => Expired::Leave,
        };
        self.sweep(expired).await?;
        self.compare(suspects).await
    }

    async fn renew(&self) -> Result<(), Error> {
        let until = self.options.clock.now() + self.options.lease;
        match self.store.heartbeat(self.identity.get(), until).await {
            Err(StoreError::Fenced) => {
                // Silent for longer than the lease: others have ended this node's runs.
                tracing::warn!("this node was declared lost; its runs are given up and it starts afresh");
                self.active.stop_all(StopReason::NotOurs);
                let id = register(&self.store, &self.options).await?;
                self.identity.0.store(id.0, Ordering::SeqCst);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Ends the runs of lost nodes.
    async fn sweep(&self, expired: Expired) -> Result<(), Error> {
        loop {
            let sweep = Sweep {
                node: self.identity.get(),
                at: self.options.clock.now(),
                limit: SWEEP,
                expired,
                compute_micros_per_second: self.options.compute_micros_per_second,
            };
            let lost = self.store.interrupt_lost(sweep).await?;
            self.tell_ended(&lost);
            if lost.len() < SWEEP as usize {
                return Ok(());
            }
        }
    }

    fn tell_ended(&self, ended: &[(OrgId, RunId)]) {
        for (_, run) in ended {
            tracing::warn!(%run, "a run whose worker was lost is ended as interrupted");
            self.hub.ended(*run);
        }
    }

    /// Finds runs that were cancelled on another node, and those that the store and this node do not agree on. What is
    /// just beginning or ending looks like that as well: only who does so twice in a row is dealt with.
    async fn compare(&self, suspects: &mut Suspects) -> Result<(), Error> {
        let node = self.identity.get();
        // Before the query: what begins after it is not missed in the store.
        let at_work = self.active.all();
        let held = self.store.held_runs(node).await?;
        let mut found = Suspects::default();
        let mut rows = HashSet::with_capacity(held.len());
        for Held { run, status } in held {
            rows.insert(run);
            if !self.active.contains(run) {
                found.without_task.insert(run);
            } else if status.is_final() {
                self.active.stop(run, StopReason::NotOurs);
                self.hub.ended(run);
            }
        }
        found
            .without_row
            .extend(at_work.into_iter().filter(|run| !rows.contains(run)));
        for run in found.without_row.intersection(&suspects.without_row) {
            self.active.stop(*run, StopReason::NotOurs);
        }
        let lost: Vec<RunId> = found
            .without_task
            .intersection(&suspects.without_task)
            .copied()
            .collect();
        if !lost.is_empty() {
            let (at, price) = (self.options.clock.now(), self.options.compute_micros_per_second);
            let ended = self.store.interrupt_held(node, lost, at, price).await?;
            self.tell_ended(&ended);
        }
        *suspects = found;
        Ok(())
    }
}

/// Removes the working directories that an earlier start of this node left behind. In the background: a run takes its
/// place among the active ones before it makes its directory.
pub(crate) async fn remove_leftovers(work_dir: PathBuf, active: Active) {
    let swept = tokio::task::spawn_blocking(move || {
        Workdir::sweep(&work_dir, |name| {
            name.parse().is_ok_and(|run| active.contains(run))
        })
    });
    match swept.await {
        Ok(Ok(0)) => {}
        Ok(Ok(removed)) => tracing::info!(removed, "working directories of lost runs were removed"),
        Ok(Err(error)) => tracing::error!(%error, "working directories of lost runs could not be removed"),
        Err(error) => tracing::error!(%error, "the removal of working directories did not end"),
    }
}

/// How often runs that are followed here are looked up, in case that another node works on them.
const WATCH: std::time::Duration = std::time::Duration::from_millis(500);

/// Tells readers here what other nodes have written: one query for all followed runs.
pub(crate) async fn watch(store: Store, hub: Hub, stop: CancellationToken) {
    let mut tick = tokio::time::interval(WATCH);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        let watched = hub.watched();
        if watched.is_empty() {
            continue;
        }
        match store.last_events(watched).await {
            Ok(positions) => {
                for (run, last) in positions {
                    hub.hint(run, last);
                }
            }
            Err(error) => tracing::warn!(%error, "followed runs could not be looked up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::{Micros, Role, RunStatus};
    use sortie_store::{Created, NewRun};

    use super::*;
    use crate::keys::Keys;

    /// A node on a fresh SQLite file, and one run that it has claimed without giving it a task.
    async fn holding(dir: &tempfile::TempDir) -> (Lifeline, OrgId, RunId) {
        let url = format!("sqlite:{}", dir.path().join("test.db").display());
        let store = Store::open(&url).await.unwrap();
        let options = Arc::new(Options::default());
        let hub = Hub::new(store.clone(), CancellationToken::new());
        let lifeline = Lifeline::begin(store.clone(), Arc::clone(&options), hub, Active::default())
            .await
            .unwrap();
        let now = options.clock.now();
        let org = OrgId::new(now, [1; 10]);
        let keys = Keys::new(store.clone(), options.clock.clone(), options.mode);
        let secret = sortie_api::secret::Secret::new(sortie_api::secret::SELF_HOSTED_KEY, [1; 32]);
        let key = keys
            .new_key(org, "test".to_owned(), Role::Admin, &secret)
            .unwrap();
        assert!(store.bootstrap("test", key).await.unwrap());
        let run = NewRun {
            id: RunId::new(now, [2; 10]),
            org,
            idempotency_key: None,
            definition: r#"{"prompt":"x"}"#.into(),
            inline: None,
            max_cost: Micros::new(1).unwrap(),
            timeout_seconds: 60,
            created_at: now,
        };
        let Created::New(run) = store.create_run(run).await.unwrap() else {
            panic!("the run is new")
        };
        let claims = store
            .claim_named(lifeline.identity.get(), vec![run.id], now)
            .await
            .unwrap();
        assert_eq!(claims.len(), 1);
        (lifeline, org, run.id)
    }

    #[tokio::test]
    async fn a_run_that_is_held_without_a_task_is_ended_at_the_second_look() {
        let dir = tempfile::tempdir().unwrap();
        let (lifeline, org, run) = holding(&dir).await;
        let mut suspects = Suspects::default();
        lifeline.compare(&mut suspects).await.unwrap();
        assert_eq!(
            lifeline.store.get_run(org, run).await.unwrap().status,
            RunStatus::Starting
        );
        lifeline.compare(&mut suspects).await.unwrap();
        let ended = lifeline.store.get_run(org, run).await.unwrap();
        assert_eq!(
            (ended.status, ended.billing_pending),
            (RunStatus::Interrupted, false)
        );
    }

    #[tokio::test]
    async fn a_run_with_a_task_is_left_alone_until_it_is_cancelled_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (lifeline, org, run) = holding(&dir).await;
        let mut place = lifeline.active.enter(run);
        let mut suspects = Suspects::default();
        for _ in 0..3 {
            lifeline.compare(&mut suspects).await.unwrap();
        }
        assert_eq!(
            lifeline.store.get_run(org, run).await.unwrap().status,
            RunStatus::Starting
        );
        lifeline
            .store
            .cancel_run(org, run, lifeline.options.clock.now())
            .await
            .unwrap();
        lifeline.compare(&mut suspects).await.unwrap();
        assert_eq!(place.stopped().await, StopReason::NotOurs);
    }
}
