//! This process leaves no copy of its memory behind: that of runs with zero data retention is nowhere else.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps, and reading this process's memory to others of the same user. The limit alone would not do:
/// where the system pipes dumps to a program it is not heeded.
pub(crate) fn forbid() {
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "cannot limit the size of core dumps");
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "cannot forbid core dumps");
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
