//! The nodes of one engine: the identity and the lease of this one, and its messages to the others.

pub(crate) mod hints;
pub(crate) mod identity;
pub(crate) mod installation;
pub(crate) mod lease_clock;
pub(crate) mod leases;
mod nodes;
pub(crate) mod peers;

use self::{
    hints::{HintSender, Wake},
    identity::Identity,
    installation::Installation,
    peers::Peers,
};

/// This node as a member of the cluster.
pub(crate) struct Cluster {
    pub(crate) identity: Identity,
    /// Random bytes that all nodes of the database share.
    pub(crate) installation: Installation,
    /// Requests to other nodes.
    pub(crate) peers: Peers,
    /// Hints to other nodes.
    pub(crate) hints: HintSender,
    /// Wakes the tasks that hints of other nodes concern.
    pub(crate) wake: Wake,
}
