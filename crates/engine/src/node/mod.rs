//! The node's own life. The [`Heartbeat`] renews its lease and does nothing else, so that no other work can delay it. The
//! [`Sweeper`] takes over runs of lost nodes, the [`Reconciler`] compares the store with this node's runs, and the
//! [`Watch`] notices what other nodes do to runs that are followed or at work here.

mod heartbeat;
pub(crate) mod parts;
mod reconciler;
pub(crate) mod start;
mod stop;
mod sweeper;
#[cfg(test)]
mod tests;
mod watch;

use sortie_api::{OrgId, RunId, RunStatus};
use sortie_store::{Claim, Store};

pub(crate) use self::{heartbeat::Heartbeat, reconciler::Reconciler, sweeper::Sweeper, watch::Watch};
use crate::{
    cluster::identity::Identity,
    worker::{Places, Turn},
};

/// Shared by the tasks that take runs over.
#[derive(Clone)]
pub(crate) struct Takeover {
    pub(crate) store: Store,
    pub(crate) places: Places,
    pub(crate) identity: Identity,
}

impl Takeover {
    /// Tells readers and the callback worker of runs that were ended instead of taken over.
    fn tell_ended(&self, ended: &[(OrgId, RunId)]) {
        let worker = self.places.worker();
        if !ended.is_empty() {
            worker.callbacks.look();
        }
        for (_, run) in ended {
            tracing::warn!(run.id = %run, "a run that cannot go on is ended as interrupted");
            worker.metrics.ended(RunStatus::Interrupted);
            worker.hub.ended(*run);
        }
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
