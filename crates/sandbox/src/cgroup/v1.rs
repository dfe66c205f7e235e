//! Control groups version 1: memory, pids and cpu are separate hierarchies.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{directory, make_common, mounts, write};

/// CPU shares of one run, and of all runs together: a quarter and a half of the kernel's default for a group or session, which
/// the engine's has.
pub(super) const SHARES: u32 = 256;
const SHARES_OF_ALL: u32 = 512;
/// Group of all runs for the processor.
const RUNS: &str = "sortie-runs";

/// Our own groups, the parents of the groups of runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bases {
    pub(super) memory: PathBuf,
    pub(super) pids: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
}

/// Finds our own groups of the controllers.
pub(super) fn find(mountinfo: &str, own: &str) -> Option<Bases> {
    let group = |controller: &str| {
        let has = |list: &str| list.split(',').any(|item| item == controller);
        let mount = mounts(mountinfo).find(|mount| mount.kind == "cgroup" && has(mount.options))?;
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            has(controllers).then_some(path)
        })?;
        Some(directory(&mount, path))
    };
    Some(Bases {
        memory: group("memory")?,
        pids: group("pids"),
        // Without cpu delegation, runs go without a cpu group.
        cpu: group("cpu").and_then(|own| all_runs(&own).ok()),
    })
}

fn all_runs(own: &Path) -> io::Result<PathBuf> {
    let all = make_common(own, RUNS)?;
    write(&all, "cpu.shares", SHARES_OF_ALL)?;
    Ok(all)
}

/// TCP and UDP buffers may use one part in this many of the limit in addition: version 1 counts them separately.
const SHARE_OF_BUFFERS: u64 = 10;

pub(super) fn limit_memory(group: &Path, bytes: u64) -> io::Result<()> {
    write(group, "memory.limit_in_bytes", bytes)?;
    // Memory and swap together; only kernels that account for swap have it.
    if_there(write(group, "memory.memsw.limit_in_bytes", bytes))?;
    if_there(write(
        group,
        "memory.kmem.tcp.limit_in_bytes",
        bytes / SHARE_OF_BUFFERS,
    ))
}

/// Ignores a limit that this kernel does not support.
fn if_there(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_found_where_they_are_mounted() {
        let cpu = tempfile::tempdir().unwrap();
        std::fs::create_dir(cpu.path().join("task")).unwrap();
        let mounts = "30 24 0:26 / CPU rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 24 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      36 24 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let own = "9:name=systemd:/\n8:pids:/\n4:memory:/jobs/one\n1:cpu,cpuacct:/task\n0::/\n";
        let mounts = &mounts.replace("CPU", cpu.path().to_str().unwrap());
        let bases = find(mounts, own).unwrap();
        assert_eq!(bases.memory, Path::new("/sys/fs/cgroup/memory/jobs/one"));
        assert_eq!(bases.pids.unwrap(), Path::new("/sys/fs/cgroup/pids"));
        let all = cpu.path().join("task/sortie-runs");
        assert_eq!(bases.cpu.as_ref(), Some(&all));
        assert_eq!(std::fs::read_to_string(all.join("cpu.shares")).unwrap(), "512");
        let nowhere = find(mounts, &own.replace("/task", "/nowhere")).unwrap();
        assert_eq!(nowhere.cpu, None, "no group can be made there");
        assert!(find("", own).is_none());
    }
}
