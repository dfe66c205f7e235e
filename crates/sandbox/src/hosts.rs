//! What a refusal of the host means to its operator.

use std::io;

use crate::types::Error;

/// What can be done where the level that was asked for is not to be had.
pub(crate) const HINT: &str = "Allow it (docs/SANDBOX.md says how on Ubuntu, in Docker, in Kubernetes and under \
    systemd), or send runs with shell = false, or accept less with sandbox.minimum = \"landlock\"";

/// A refused step of the setup as an error: of the host where it is the host's doing, of this sandbox otherwise.
pub(crate) fn refusal(step: &str, errno: i32) -> Error {
    let description = describe(errno);
    let denied = matches!(
        errno,
        libc::EPERM | libc::EACCES | libc::ENOSPC | libc::ENOSYS | libc::EINVAL
    );
    let reason = match step {
        "unshare" if denied => "this host does not allow user namespaces",
        "setgroups" | "uid_map" | "gid_map" | "mount private" | "raise lo" if denied => {
            "this host makes user namespaces but gives no rights in them, as AppArmor does on Ubuntu"
        }
        "mount proc" if denied => "this host covers parts of /proc, so that a fresh one may not be mounted",
        "landlock" if denied || errno == libc::EOPNOTSUPP => "this kernel has no Landlock",
        "seccomp" if denied => "this host does not allow seccomp filters",
        "setgroups root" | "setresgid" | "setresuid" if denied => {
            "the engine is root but may not run commands as another user"
        }
        _ => return Error::Setup(format!("{step}: {description}")),
    };
    Error::Unavailable {
        reason: format!("{reason} ({step}: {description})"),
        hint: HINT.to_owned(),
    }
}

/// The system's words for an error number.
pub(crate) fn describe(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_told_what_the_host_refused_and_what_to_do() {
        let error = refusal("unshare", libc::EPERM);
        let text = error.to_string();
        let start = "this host does not allow user namespaces (unshare: Operation not permitted). Allow it";
        assert!(text.starts_with(start), "{text}");
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
