//! Control groups version 2: one hierarchy, and processes only in its leaves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{directory, make_common, mounts, write};
use crate::hosts;

/// CPU weight of one run, and of all runs together. The engine's leaf keeps the default, 100.
pub(super) const WEIGHT: u32 = 25;
const WEIGHT_OF_ALL: u32 = 50;

/// Parent group of the groups of runs: our own, or one that holds all runs and bounds their share of the processor.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) folder: PathBuf,
    /// Whether the cpu controller is delegated, too.
    pub(super) weighs: bool,
}

/// Finds the parent group for runs, after the engine has moved into a leaf of our own group.
pub(super) fn find(mountinfo: &str, own: &str) -> Result<Base, String> {
    let mount = mounts(mountinfo)
        .find(|mount| mount.kind == "cgroup2")
        .ok_or_else(|| "this host has no control groups".to_owned())?;
    let path = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or_else(|| "this process is in no control group".to_owned())?;
    let mut base = directory(&mount, path);
    // A previous engine may have left us in its leaf.
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
    // The kernel refuses the cpu controller if the engine has a real-time process. Memory limits matter more.
    let shares_out = has(&controllers, "cpu")
        && (has(&enabled, "cpu") && has_both(&enabled) || enable(&base, WITH_CPU).is_ok());
    if !shares_out && !has_both(&enabled) {
        enable(&base, WITHOUT_CPU).map_err(|error| {
            format!(
                "the engine's control group cannot be divided ({})",
                hosts::words(&error)
            )
        })?;
    }
    let all = shares_out.then(|| all_runs(&base)).and_then(Result::ok);
    Ok(Base {
        weighs: all.is_some(),
        folder: all.unwrap_or(base),
    })
}

fn all_runs(base: &Path) -> io::Result<PathBuf> {
    let all = make_common(base, RUNS)?;
    write(&all, "cgroup.subtree_control", WITH_CPU)?;
    write(&all, "cpu.weight", WEIGHT_OF_ALL)?;
    Ok(all)
}

const WITHOUT_CPU: &str = "+memory +pids";
const WITH_CPU: &str = "+memory +pids +cpu";
const RUNS: &str = "runs";
const LEAF: &str = "engine";

fn has_both(controllers: &str) -> bool {
    has(controllers, "memory") && has(controllers, "pids")
}

fn has(controllers: &str, wanted: &str) -> bool {
    controllers.split_whitespace().any(|name| name == wanted)
}

/// Moves the engine into a leaf and enables the controllers for its sibling groups.
fn enable(base: &Path, controllers: &str) -> io::Result<()> {
    let own = std::process::id().to_string();
    let members = fs::read_to_string(base.join("cgroup.procs"))?;
    if members.lines().any(|pid| pid != own) {
        return Err(io::Error::other("other processes are in it"));
    }
    if members.lines().count() > 0 {
        write(&make_common(base, LEAF)?, "cgroup.procs", &own)?;
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

    /// A group with these delegated controllers, as files.
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
            ("cpu io memory pids\n", WITH_CPU, true),
            ("memory pids\n", WITHOUT_CPU, false),
        ] {
            let (folder, mounts) = delegated(controllers);
            let base = find(&mounts, "0::/\n").unwrap();
            assert_eq!(base.weighs, weighs);
            let all = folder.path().join("runs");
            assert_eq!(
                base.folder.as_path(),
                if weighs { all.as_path() } else { folder.path() }
            );
            assert_eq!(
                fs::read_to_string(all.join("cpu.weight")).is_ok_and(|text| text == "50"),
                weighs
            );
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
        // A process of another program prevents the group from being divided further.
        fs::write(folder.path().join("cgroup.procs"), "1\n").unwrap();
        assert!(!find(&mounts, "0::/\n").unwrap().weighs);
    }
}
