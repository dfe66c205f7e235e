//! Start, stop and maintenance of a node. The [`Heartbeat`] renews its lease and does nothing else, so that no other work can
//! delay it. The [`Sweeper`] takes over runs of lost nodes, the [`Reconciler`] compares the store with this node's runs, and the
//! [`Watch`] finds changes by other nodes to runs that are followed or active here.

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
use sortie_store::{Store, runs::Claim};

pub(crate) use self::{heartbeat::Heartbeat, reconciler::Reconciler, sweeper::Sweeper, watch::Watch};
use crate::{
    cluster::identity::Identity,
    worker::{Slots, StartPermit},
};

/// Takeover of runs, shared by the tasks that do it.
#[derive(Clone)]
pub(crate) struct Takeover {
    pub(crate) store: Store,
    pub(crate) slots: Slots,
    pub(crate) identity: Identity,
}

impl Takeover {
    /// Notifies readers and the callback worker of runs that were ended instead of taken over.
    fn announce_ended(&self, ended: &[(OrgId, RunId)]) {
        let worker = self.slots.worker();
        if !ended.is_empty() {
            worker.callbacks.look();
        }
        for (org, run) in ended {
            tracing::warn!(run.id = %run, "ended a run that cannot be resumed as interrupted");
            worker.metrics.ended(RunStatus::Interrupted);
            worker.hub.ended(*run);
            worker.hub.listed(*org);
        }
    }

    /// Starts the runs that were taken over.
    fn start(&self, permit: &StartPermit<'_>, taken: Vec<Claim>) {
        for claim in taken {
            tracing::warn!(run.id = %claim.fence.run, "took over a run of a lost worker");
            self.slots.metrics().took_over();
            permit.start(claim);
        }
    }
}
