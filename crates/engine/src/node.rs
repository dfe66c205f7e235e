//! The node's own life: its lease, the sweep of lost nodes, and the watch over runs that work elsewhere.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use sortie_sandbox::Workdir;
use sortie_store::{Error as StoreError, NewNode, NodeId, Store};
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
        lifeline.sweep().await?;
        Ok(lifeline)
    }

    /// Renews the lease and sweeps, until the node has stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut beat = tokio::time::interval(self.options.heartbeat);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = stop.cancelled() => break,
            }
            if let Err(error) = self.renew().await {
                tracing::error!(%error, "the node's lease could not be renewed");
            } else if let Err(error) = self.sweep().await {
                tracing::error!(%error, "lost runs could not be ended");
            }
        }
        if let Err(error) = self.store.deregister_node(self.identity.get()).await {
            tracing::warn!(%error, "the node could not sign off; its lease will run out");
        }
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

    /// Ends the runs of lost nodes; how many.
    async fn sweep(&self) -> Result<usize, Error> {
        let mut ended = 0;
        loop {
            let lost = self.store.interrupt_lost(self.options.clock.now(), SWEEP).await?;
            for (_, run) in &lost {
                self.hub.ended(*run);
            }
            ended += lost.len();
            if lost.len() < SWEEP as usize {
                if ended > 0 {
                    tracing::warn!(ended, "runs of lost workers were ended as interrupted");
                }
                return Ok(ended);
            }
        }
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
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
