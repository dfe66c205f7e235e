//! This process leaves no copy of its memory behind: that of runs with zero data retention is nowhere else.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps, and reading this process's memory to others of the same user. The limit alone would not do: where
/// the system pipes dumps to a program it is not heeded.
pub(crate) fn forbid() {
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "the size of core dumps could not be limited");
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "core dumps could not be forbidden");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn a_node_leaves_no_core() {
        forbid();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert!(matches!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable)));
    }
}
