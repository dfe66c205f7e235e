//! Limit of open files and connections of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A lower limit is too low for a busy node: each connection needs one, and each run with commands a few.
const ENOUGH: u64 = 4_096;

/// Raises this process's limit to what the system allows it. Many systems default to 1,024 and allow far more. Commands
/// of runs keep the limit of their sandbox.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is "unlimited".
    if current != maximum {
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
    if let Some(limit) = maximum.filter(|limit| *limit < ENOUGH) {
        tracing::warn!(
            limit,
            "this process may have few files open, hence few connections and runs at once; raise the hard limit \
             (`ulimit -Hn`, or LimitNOFILE= of systemd) to {ENOUGH} or more"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_to_what_the_system_allows() {
        let before = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(256),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, few).unwrap();
        raise_limit();
        let after = getrlimit(Resource::Nofile);
        assert_eq!((after.current, after.maximum), (before.maximum, before.maximum));
    }
}
