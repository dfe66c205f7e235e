//! System: nodes, which are started processes, and their leases. A node holds every run that it has claimed
//! for as long as its lease lasts. Renewing the lease is one update, however many runs there are.

pub(crate) mod channel;
mod node;
mod rates;
mod registry;

pub use channel::{ChannelMessage, LONGEST_HINT, Speaker};
pub use node::{Heartbeat, NewNode, NodeId, NodeRow, SeenLease};
pub(crate) use node::{LOCK, micros};
pub use rates::{GrantedBlock, Leased, WantedBlock};
pub(crate) use registry::key_ids;
