//! Control groups version 2: one hierarchy, and processes only in its leaves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{directory, mounts, write};
use crate::hosts;

/// The group below which runs get theirs: our own, after the engine has moved into a leaf of it.
pub(super) fn find(mountinfo: &str, own: &str) -> Result<PathBuf, String> {
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
    if !has_both(&enabled) {
        enable(&base).map_err(|error| {
            format!(
                "the engine's control group cannot be divided ({})",
                hosts::words(&error)
            )
        })?;
    }
    Ok(base)
}

const LEAF: &str = "engine";

fn has_both(controllers: &str) -> bool {
    ["memory", "pids"]
        .iter()
        .all(|wanted| controllers.split_whitespace().any(|name| name == *wanted))
}

/// Moves the engine into a leaf and gives the controllers to the groups beside it.
fn enable(base: &Path) -> io::Result<()> {
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
    write(base, "cgroup.subtree_control", "+memory +pids")
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
