//! Landlock rules for the files that a command may open and the processes it may signal: the second layer inside
//! namespaces, the first one without them.

use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// The newest rules we know; older kernels apply the subset they support.
const NEWEST: ABI = ABI::V7;
/// The first version that keeps signals and abstract unix sockets inside.
pub(crate) const SCOPED: u32 = 6;

/// System folders and files that a command may read and execute.
pub(crate) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];
/// Name tables that a namespace replaces by its own.
const NAMES: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
];
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Confines this process and its later children inside a private root file system: read-only files stay read-only, whatever
/// happens to the mounts. Returns whether the kernel took part.
pub(crate) fn confine_inside_root() -> Result<bool, RulesetError> {
    let mut ruleset = files_and_scopes()?.create()?;
    let read = AccessFs::from_read(NEWEST);
    let device = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    for (path, rights) in [
        ("/", read),
        ("/work", AccessFs::from_all(NEWEST)),
        ("/tmp", AccessFs::from_all(NEWEST)),
        ("/dev/shm", AccessFs::from_all(NEWEST)),
        ("/dev", device),
        ("/proc", AccessFs::WriteFile | AccessFs::Truncate),
    ] {
        ruleset = allow_path(ruleset, path, rights)?;
    }
    Ok(ruleset.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Denies this process and its later children writing to `/proc`, in addition to the rules of [`confine_inside_root`]. A command
/// could raise its session's share of the processor there.
pub(crate) fn leave_proc_as_it_is() -> Result<(), RulesetError> {
    let write = AccessFs::WriteFile | AccessFs::Truncate;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)?
        .create()?;
    for path in ["/work", "/tmp", "/dev"] {
        ruleset = allow_path(ruleset, path, write)?;
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Confines this process and its later children in the host's file system: system folders and the visible paths to read, the
/// given folders to write, a few devices; no TCP. Returns whether the kernel took part.
pub(crate) fn confine_on_host(visible: &[String], writable: &[BorrowedFd<'_>]) -> Result<bool, RulesetError> {
    let mut ruleset = files_and_scopes()?
        .handle_access(AccessNet::from_all(NEWEST))?
        .create()?;
    let read = AccessFs::from_read(NEWEST);
    let visible = visible.iter().map(String::as_str);
    for path in SYSTEM.iter().chain(NAMES).copied().chain(visible) {
        ruleset = allow_path(ruleset, path, read)?;
    }
    for path in DEVICES {
        let rights = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        ruleset = allow_path(ruleset, path, rights)?;
    }
    for folder in writable {
        ruleset = ruleset.add_rule(PathBeneath::new(folder, AccessFs::from_all(NEWEST)))?;
    }
    Ok(ruleset.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn files_and_scopes() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))
}

/// A path that does not exist needs no rule.
fn allow_path(
    ruleset: RulesetCreated,
    path: &str,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(fd) = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
        return Ok(ruleset);
    };
    let is_dir = fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
    let rights = if is_dir {
        rights
    } else {
        rights & AccessFs::from_file(NEWEST)
    };
    ruleset.add_rule(PathBeneath::new(fd, rights))
}
