//! Settings of an open database.

use std::time::Duration;

/// Default number of connections for commands on `PostgreSQL`.
pub const CONNECTIONS: u32 = 4;

/// Settings of an open database.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Number of connections for commands on `PostgreSQL`. Up to four more connections serve other purposes.
    pub connections: u32,
    /// Time limits of urgent commands.
    pub urgent: UrgentLimits,
    /// Time without a write after which the write-ahead log of a `SQLite` database is checkpointed.
    pub checkpoint_after: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            urgent: UrgentLimits::default(),
            checkpoint_after: Duration::from_secs(1),
        }
    }
}

/// Time limits of urgent commands: waiting for an unresponsive database must not use up the lease.
#[derive(Clone, Copy, Debug)]
pub struct UrgentLimits {
    /// Time limit of a heartbeat, and of a look at the clock of the database.
    pub heartbeat: Duration,
    /// Time limit for registering a node, which may wait for the lock of dispatch.
    pub register: Duration,
    /// Time limit for connecting to `PostgreSQL`, and for an answer of it.
    pub connection: Duration,
}

impl Default for UrgentLimits {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(2),
            register: Duration::from_secs(6),
            connection: Duration::from_secs(2),
        }
    }
}
