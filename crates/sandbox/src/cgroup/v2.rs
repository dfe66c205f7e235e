//! Control groups version 2: one hierarchy, and processes only in its leaves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{directory, mounts, write};
use crate::hosts;

/// Weight of one run at the processor. The engine's leaf keeps the default, 100.
pub(super) const WEIGHT: u32 = 25;

/// Our own group, below which runs get theirs.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) folder: PathBuf,
    /// Whether the cpu controller is delegated, too.
    pub(super) weighs: bool,
}

/// Finds the group below which runs get theirs: our own, after the engine has moved into a leaf of it.
pub(super) fn find(mountinfo: &str, own: &str) -> Result<Base, String> {
    let mount = mounts(mountinfo)
        .find(|mount| mount.kind == "cgroup2")
        .ok_or_else(|| "this host has no control groups".to_owned())?;
    let path = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or_else(|| "this process is in no control group".to_owned())?;
    let mut base = directory(&mount, path);
    // An engine of before may have left us in its leaf.
    if base.file_name().is_some_and(|name| name == LEAF) {
        base.pop();
    }
    let controllers = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
    if !has_both(&controllers) {
        return Err(
            "the memory and pids controllers are not delegated to the engine's control group".to_owned(),
        );
    }
    let enabled = fs::read_to_string(base.join("cgroup.subtree_control")).unwrap_or_default();
    // The kernel refuses the cpu controller where a real-time process is among the engine's. Memory counts for more.
    let weighs = has(&controllers, "cpu")
        && (has(&enabled, "cpu") && has_both(&enabled) || enable(&base, "+memory +pids +cpu").is_ok());
    if !weighs && !has_both(&enabled) {
        enable(&base, "+memory +pids").map_err(|error| {
            format!(
                "the engine's control group cannot be divided ({})",
                hosts::words(&error)
            )
        })?;
    }
    Ok(Base {
        folder: base,
        weighs,
    })
}

const LEAF: &str = "engine";

fn has_both(controllers: &str) -> bool {
    has(controllers, "memory") && has(controllers, "pids")
}

fn has(controllers: &str, wanted: &str) -> bool {
    controllers.split_whitespace().any(|name| name == wanted)
}

/// Moves the engine into a leaf and gives the controllers to the groups beside it.
fn enable(base: &Path, controllers: &str) -> io::Result<()> {
    let own = std::process::id().to_string();
    let members = fs::read_to_string(base.join("cgroup.procs"))?;
    if members.lines().any(|pid| pid != own) {
        return Err(io::Error::other("other processes are in it"));
    }
    if members.lines().count() > 0 {
        let leaf = base.join(LEAF);
        match fs::create_dir(&leaf) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => write(&leaf, "cgroup.procs", &own)?,
        }
    }
    write(base, "cgroup.subtree_control", controllers)
}

pub(super) fn limit(group: &Path, memory_bytes: u64, processes: u64) -> io::Result<()> {
    write(group, "memory.max", memory_bytes)?;
    write(group, "pids.max", processes)?;
    // Older kernels have neither; a kernel without swap accounting lacks the first.
    for (file, value) in [("memory.swap.max", 0), ("memory.oom.group", 1)] {
        match write(group, file, value) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group that was delegated with these controllers, as files.
    fn delegated(controllers: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", ""),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        let mounts = format!(
            "30 24 0:26 / {} rw - cgroup2 cgroup2 rw\n",
            folder.path().display()
        );
        (folder, mounts)
    }

    #[test]
    fn the_processor_is_shared_out_where_its_controller_is_delegated() {
        for (controllers, enabled, weighs) in [
            ("cpu io memory pids\n", "+memory +pids +cpu", true),
            ("memory pids\n", "+memory +pids", false),
        ] {
            let (folder, mounts) = delegated(controllers);
            let base = find(&mounts, "0::/\n").unwrap();
            assert_eq!((base.folder.as_path(), base.weighs), (folder.path(), weighs));
            let control = fs::read_to_string(folder.path().join("cgroup.subtree_control")).unwrap();
            assert_eq!(control, enabled);
        }
        let (_folder, mounts) = delegated("cpu memory\n");
        assert!(find(&mounts, "0::/\n").is_err(), "processes are not bounded");
    }

    #[test]
    fn memory_is_limited_where_the_processor_cannot_be_shared_out() {
        let (folder, mounts) = delegated("cpu memory pids\n");
        fs::write(folder.path().join("cgroup.subtree_control"), "memory pids\n").unwrap();
        // A process that is not the engine's keeps the group from being divided further.
        fs::write(folder.path().join("cgroup.procs"), "1\n").unwrap();
        assert!(!find(&mounts, "0::/\n").unwrap().weighs);
    }
}
