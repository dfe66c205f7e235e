//! The heartbeat: renews the node's lease, and does nothing else.

use std::time::Duration;

use sortie_api::Refusal;
use sortie_store::Error as StoreError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Takeover;
use crate::{cluster::hints::Wake, kit::metrics::Renewal, runs::active::StopReason};

/// Pause after a renewal that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

pub(crate) struct Heartbeat {
    pub(crate) node: Takeover,
    pub(crate) wake: Wake,
}

impl Heartbeat {
    /// Renews the lease until the node has stopped, then signs it off.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let options = &self.node.slots.worker().options;
        while !stop.is_cancelled() {
            let began = Instant::now();
            let next = match self.beat().await {
                Ok(()) => began + options.heartbeat,
                Err(error) => {
                    tracing::error!(%error, "cannot renew the node's lease");
                    Instant::now() + AFTER_FAILURE.min(options.heartbeat)
                }
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {}
                () = stop.cancelled() => {}
            }
        }
        let Takeover { store, identity, .. } = &self.node;
        if let Err(error) = store.deregister_node(identity.get(), options.clock.now()).await {
            tracing::warn!(%error, "cannot deregister the node; its lease will expire");
        }
    }

    /// Renews the lease. A node that was declared lost abandons its runs and starts under a new identity.
    pub(super) async fn beat(&self) -> Result<(), Refusal> {
        let Takeover {
            store,
            slots,
            identity,
        } = &self.node;
        let options = &slots.worker().options;
        let (sent_at, now) = (Instant::now(), options.clock.now());
        let beat = store.heartbeat(identity.get(), now, options.lease).await;
        slots.metrics().renewed(match &beat {
            Ok(_) => Renewal::Renewed,
            Err(StoreError::Fenced) => Renewal::Lost,
            Err(_) => Renewal::Failed,
        });
        match beat {
            Ok(beat) => {
                identity.seen.renewed(sent_at, &beat.others);
                let step = identity.leases.set(beat.clock, sent_at);
                slots.metrics().measured_clock(options.clock.offset());
                if step > options.heartbeat {
                    tracing::warn!(
                        "the database's clock has stepped: it was set, or this is another database, or this machine slept"
                    );
                }
                Ok(())
            }
            Err(StoreError::Fenced) => {
                tracing::warn!(
                    "this node was declared lost: it abandons its runs and starts under a new identity"
                );
                slots.active().stop_all(StopReason::Lost);
                let unretained = &slots.worker().records.unretained;
                identity.renew(store, options, unretained).await?;
                // The sweeper resumes the runs that no other node has taken over.
                self.wake.nodes.notify_one();
                Ok(())
            }
            Err(error) => {
                identity.seen.forget();
                Err(error.into())
            }
        }
    }
}
