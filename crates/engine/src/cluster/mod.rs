//! The nodes of one engine: the identity and the lease of this one, and its messages to the others.

pub(crate) mod identity;
pub(crate) mod lease_clock;
pub(crate) mod leases;
pub(crate) mod news;
mod nodes;
pub(crate) mod peers;

use self::{
    identity::Identity,
    news::{News, Wake},
    peers::Peers,
};

/// This node among the others.
pub(crate) struct Cluster {
    pub(crate) identity: Identity,
    /// Requests to other nodes.
    pub(crate) peers: Peers,
    /// Hints to other nodes.
    pub(crate) news: News,
    /// Wakes the tasks that hints of other nodes concern.
    pub(crate) wake: Wake,
}
