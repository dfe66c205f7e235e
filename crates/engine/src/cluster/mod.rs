//! The nodes of one engine: the identity and the lease of this one, and its messages to the others.

pub(crate) mod identity;
pub(crate) mod lease_clock;
pub(crate) mod leases;
pub(crate) mod news;
mod nodes;
pub(crate) mod peers;
