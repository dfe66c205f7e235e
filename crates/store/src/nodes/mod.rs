//! System: nodes, which are started processes, and their leases. A node holds every run that it has claimed
//! until its lease expires. Extending the lease is one update, regardless of the number of runs.

pub(crate) mod channel;
mod node;
mod rates;
mod registry;

pub use channel::{ChannelMessage, LONGEST_HINT, Speaker};
pub use node::{Heartbeat, NewNode, NodeId, NodeRow, SeenLease};
pub(crate) use node::{LOCK, micros};
pub use rates::{GrantedBlock, Leased, WantedBlock};
pub(crate) use registry::key_ids;
