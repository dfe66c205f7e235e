//! Error messages about a host's refusals, for its operator.

use std::io;

use crate::types::{Enforcement, Error, Level};

/// Remedy if the host does not support even the weakest accepted level.
const NO_LEVEL_HINT: &str = "Allow one of them (docs/SANDBOX.md says how on Ubuntu, in Docker, in Kubernetes and under \
    systemd), or send runs with \"shell\": false";

/// Returns the refusals of a host as one error.
pub(crate) fn all_refused(errors: Vec<Error>) -> Error {
    let mut errors = errors.into_iter();
    let (first, second) = (errors.next(), errors.next());
    match (first, second) {
        (None, _) => Error::Unavailable {
            reason: "the strongest level to try is below the minimum".to_owned(),
            hint: "Correct the configuration".to_owned(),
        },
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let reasons: Vec<String> = [first, second]
                .into_iter()
                .chain(errors)
                .map(|error| reason(&error))
                .collect();
            Error::Unavailable {
                reason: reasons.join("; and "),
                hint: NO_LEVEL_HINT.to_owned(),
            }
        }
    }
}

/// Returns the reason why the host does not give a level, without the remedy.
pub(crate) fn reason(error: &Error) -> String {
    if let Error::Unavailable { reason, .. } = error {
        reason.clone()
    } else {
        error.to_string()
    }
}

/// Remedy if the host does not support the requested level.
pub(crate) const HINT: &str = "Allow it (docs/SANDBOX.md says how on Ubuntu, in Docker, in Kubernetes and under \
    systemd), or send runs with \"shell\": false, or start the engine with SORTIE_SANDBOX_MINIMUM=landlock \
    (sandbox.minimum in its configuration), which confines less";

/// Returns the error for egress at a level without a separate network.
pub(crate) fn no_egress(level: Level) -> Error {
    let reason = match level {
        Level::Landlock => {
            "a shell at level landlock has no network to itself, and Landlock tells ports apart but not addresses"
        }
        Level::None | Level::Namespaces => "a shell that is not confined cannot be kept to a proxy",
    };
    Error::Unavailable {
        reason: reason.to_owned(),
        hint: "Web access from the shell takes level namespaces (docs/SANDBOX.md says how to allow it)"
            .to_owned(),
    }
}

/// Returns a sentence if only people who trust each other may use the shell of a host: the resources that its runs share with
/// each other or with the engine.
pub(crate) fn shared(level: Level, memory: Enforcement, own_users: bool) -> Option<String> {
    let level = match level {
        Level::None => Some("commands are not confined"),
        Level::Landlock => Some("commands run in the host's own namespaces"),
        Level::Namespaces => None,
    };
    let users = (!own_users).then_some("runs have the engine's own user");
    let memory = match memory {
        Enforcement::Hard => None,
        Enforcement::Soft => Some("no control group keeps the memory limit"),
    };
    let reasons: Vec<&str> = [level, users, memory].into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| {
        format!(
            "this node is single-tenant, for people who trust each other: {}. A root engine at level namespaces with a \
             control group for memory serves strangers",
            reasons.join("; ")
        )
    })
}

/// Maps a refused step of the setup to an error: [`Error::Unavailable`] if the host caused it, an error of this sandbox
/// otherwise.
pub(crate) fn refusal(step: &str, errno: i32) -> Error {
    let description = describe(errno);
    let denied = matches!(
        errno,
        libc::EPERM | libc::EACCES | libc::ENOSPC | libc::ENOSYS | libc::EINVAL
    );
    let reason = match step {
        "unshare" | "setns" if denied => "this host does not allow user namespaces",
        "setgroups" | "uid_map" | "gid_map" | "unshare mounts" | "mount private" | "raise lo" if denied => {
            "this host makes user namespaces but gives no rights in them, as AppArmor does on Ubuntu"
        }
        "mount proc" if denied => "this host covers parts of /proc, so that a fresh one may not be mounted",
        "landlock" if denied || errno == libc::EOPNOTSUPP => "this kernel has no Landlock",
        "seccomp" if denied => "this host does not allow seccomp filters",
        "setgroups root" | "setresgid" | "setresuid" if denied => {
            "the engine is root but may not run commands as another user"
        }
        _ => {
            let error = io::Error::from_raw_os_error(errno);
            return Error::of_setup(&error, format!("{step}: {description}"));
        }
    };
    Error::Unavailable {
        reason: format!("{reason} ({step}: {description})"),
        hint: HINT.to_owned(),
    }
}

/// The system's message for an error number.
pub(crate) fn describe(errno: i32) -> String {
    words(&io::Error::from_raw_os_error(errno))
}

/// The message of an error, without its number.
pub(crate) fn words(error: &io::Error) -> String {
    error
        .to_string()
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_finds_no_descriptor_is_told_by_its_number() {
        for (errno, is_out) in [
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ENOMEM, false),
            (libc::EPERM, false),
        ] {
            let error = refusal("clone", errno);
            assert_eq!(error.is_out_of_descriptors(), is_out, "{error}");
            assert!(!error.to_string().contains("os error"), "{error}");
        }
    }

    #[test]
    fn only_users_namespaces_and_control_groups_together_keep_strangers_apart() {
        assert_eq!(shared(Level::Namespaces, Enforcement::Hard, true), None);
        for (level, memory, own_users, reason) in [
            (
                Level::Namespaces,
                Enforcement::Hard,
                false,
                "the engine's own user",
            ),
            (Level::Namespaces, Enforcement::Soft, true, "no control group"),
            (
                Level::Landlock,
                Enforcement::Hard,
                true,
                "the host's own namespaces",
            ),
            (Level::None, Enforcement::Hard, true, "not confined"),
        ] {
            let sentence = shared(level, memory, own_users).unwrap();
            assert!(
                sentence.starts_with("this node is single-tenant") && sentence.contains(reason),
                "{sentence}"
            );
        }
    }

    #[test]
    fn an_operator_is_told_what_the_host_refused_and_what_to_do() {
        let error = refusal("unshare", libc::EPERM);
        let text = error.to_string();
        let start = "this host does not allow user namespaces (unshare: Operation not permitted). Allow it";
        assert!(text.starts_with(start), "{text}");
        // Including the setting that allows commands anyway.
        assert!(text.contains("SORTIE_SANDBOX_MINIMUM=landlock"), "{text}");
        assert!(matches!(error, Error::Unavailable { .. }));
        assert!(matches!(
            refusal("unshare", libc::ENOSPC),
            Error::Unavailable { .. }
        ));
        assert!(matches!(
            refusal("mount proc", libc::EPERM),
            Error::Unavailable { .. }
        ));
        let other = refusal("open devices", libc::ENOENT);
        assert_eq!(
            other.to_string(),
            "sandbox setup failed: open devices: No such file or directory"
        );
    }
}
