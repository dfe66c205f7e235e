//! The identity of a node. A node gets a new one at each start, and after it was declared lost.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicI64, Ordering},
};

use sortie_api::{Refusal, Timestamp};
use sortie_store::{
    Error as StoreError, Store,
    nodes::{NewNode, NodeId},
};
use tokio::time::Instant;

use super::leases::Leases;
use crate::{
    cluster::lease_clock::LeaseClock,
    credentials::master_keys::check_master_keys,
    kit::{options::Options, random::random},
    runs::unretained::Unretained,
};
use sortie_base::MasterKey;

/// Identity of this node, with its own lease and those of the others.
#[derive(Clone)]
pub(crate) struct Identity {
    id: Arc<AtomicI64>,
    /// Clock that leases are counted on.
    pub(crate) leases: LeaseClock,
    /// Leases as the heartbeat has last read them.
    pub(crate) seen: Leases,
    /// The time at which the node began to drain. All identities of the process share it.
    draining_since: Arc<OnceLock<Timestamp>>,
}

impl Identity {
    /// Registers the node under its first identity. Runs that its earlier process still holds are lost from then on. A
    /// node that cannot open sealed credentials is not registered, so that it takes no runs from nodes that can.
    pub(crate) async fn begin(store: &Store, options: &Options) -> Result<Self, Refusal> {
        check_master_keys(store, &options.master_keys).await?;
        let leases = LeaseClock::begin(store, options.clock.clone()).await?;
        let sent_at = Instant::now();
        let node = new_node(options, &leases, None)?;
        let id = node.id;
        store.register_node(node).await?;
        Ok(Self::of(id, leases, Leases::new(options.lease, sent_at)))
    }

    /// Creates an identity that is registered in the store.
    pub(crate) fn of(id: NodeId, leases: LeaseClock, seen: Leases) -> Self {
        Self {
            id: Arc::new(AtomicI64::new(id.0)),
            leases,
            seen,
            draining_since: Arc::default(),
        }
    }

    /// Registers the node under a new identity after it was declared lost. A draining node stays draining.
    /// Content of runs without retention in memory belongs to the node again.
    pub(crate) async fn renew(
        &self,
        store: &Store,
        options: &Options,
        unretained: &Unretained,
    ) -> Result<(), Refusal> {
        self.leases.read(store).await?;
        let sent_at = Instant::now();
        let node = new_node(options, &self.leases, self.draining_since.get().copied())?;
        let id = node.id;
        store.register_again(node, unretained.all()).await?;
        self.id.store(id.0, Ordering::SeqCst);
        self.seen.renewed(sent_at, &[]);
        Ok(())
    }

    pub(crate) fn get(&self) -> NodeId {
        NodeId(self.id.load(Ordering::SeqCst))
    }

    /// Records that the node is draining.
    pub(crate) async fn drain(&self, store: &Store, at: Timestamp) -> Result<(), StoreError> {
        let since = *self.draining_since.get_or_init(|| at);
        store.drain_node(self.get(), since).await
    }
}

/// Returns the row of the node under a new identity. Its earlier identities are lost once this one is registered.
fn new_node(
    options: &Options,
    leases: &LeaseClock,
    draining_since: Option<Timestamp>,
) -> Result<NewNode, Refusal> {
    Ok(NewNode {
        id: NodeId(i64::from_be_bytes(random()?) & i64::MAX),
        name: options.node_name.clone(),
        started_at: options.clock.now(),
        lease_until: leases.now() + options.lease,
        address: options.node_address.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        master_keys: options.master_keys.iter().map(MasterKey::id).collect(),
        draining_since,
    })
}
