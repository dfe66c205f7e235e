//! Disables core dumps: the memory of this process may hold runs with zero data retention, which must not reach the
//! disk.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps, and reading this process's memory to others of the same user. The limit alone is not enough: the
/// kernel ignores it if the system pipes dumps to a program.
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
