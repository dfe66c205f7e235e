//! A node and its lease.

use std::time::Duration;

use sortie_api::Timestamp;

use crate::db::{Column, Val, row};

/// Identity of a node: new at each start, and again after the node was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

impl Column<'_> for NodeId {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        i64::from_value(value).map(Self)
    }
}

impl From<NodeId> for Val<'_> {
    fn from(node: NodeId) -> Self {
        Self::Int(node.0)
    }
}

/// Registration of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Random positive number.
    pub id: NodeId,
    /// Name of the node, constant across restarts. Registering a name declares earlier identities with this name lost.
    pub name: String,
    /// Time of the registration.
    pub started_at: Timestamp,
    /// End of the lease. Each heartbeat moves it.
    pub lease_until: Timestamp,
    /// Address for other nodes, as `http://host:port`. `None` if they cannot reach the node.
    pub address: Option<String>,
    /// Version of the node's program.
    pub version: String,
    /// IDs of the node's master keys. The first one seals new credentials.
    pub master_keys: Vec<String>,
    /// Time at which the node began to stop.
    pub draining_since: Option<Timestamp>,
}

/// A node as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Registration of the node, with its current lease.
    pub node: NewNode,
    /// Time at which the node was declared lost or signed off. `None` for a live node.
    pub ended_at: Option<Timestamp>,
    /// Number of runs that the node holds.
    pub runs: i64,
}

row! {
    /// A lease of another node, as a heartbeat has read it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SeenLease {
        /// The node.
        pub node: NodeId = "id",
        /// End of the lease. Every heartbeat of the node changes it.
        pub lease_until: Timestamp = "lease_until",
    }
}

/// Result of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The time by the database's own clock; see [`Store::clock`](crate::Store::clock).
    pub clock: Option<Timestamp>,
    /// The leases of all other nodes that have not been declared lost.
    pub others: Vec<SeenLease>,
}

/// Takes the lock for claims of runs and for registrations and losses of nodes.
pub(crate) const LOCK: &str = "UPDATE dispatch SET turn = turn + 1 WHERE id = 1";

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
