//! File descriptors of the process, and the part of them that client connections may use.

use rustix::process::{Resource, getrlimit};

/// Assumed limit if the process has no limit.
const NO_LIMIT: u64 = 1 << 20;

/// Division of the file descriptors of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Maximum number of descriptors that the process may have open. `None` without a limit.
    pub limit: Option<u64>,
    /// Maximum number of client connections.
    pub connections: u64,
    /// Descriptors that client connections leave free for runs, the storage and the database.
    pub reserved: u64,
}

impl Descriptors {
    /// Divides the limit of this process: half of it is reserved.
    pub fn of_process() -> Self {
        Self::of(getrlimit(Resource::Nofile).current)
    }

    fn of(limit: Option<u64>) -> Self {
        let all = limit.unwrap_or(NO_LIMIT);
        let connections = (all / 2).max(1);
        Self {
            limit,
            connections,
            reserved: all.saturating_sub(connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_is_reserved() {
        let of = |limit| {
            let shares = Descriptors::of(limit);
            (shares.connections, shares.reserved)
        };
        assert_eq!(of(Some(1_024)), (512, 512));
        assert_eq!(of(Some(4_097)), (2_048, 2_049));
        assert_eq!(of(None), (1 << 19, 1 << 19));
        assert_eq!(of(Some(0)), (1, 0));
    }
}
