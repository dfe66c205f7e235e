//! Control groups version 1: memory and pids are hierarchies of their own.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{directory, mounts, write};

/// Our own groups of the memory and the pids controller.
pub(super) fn find(mountinfo: &str, own: &str) -> Option<(PathBuf, Option<PathBuf>)> {
    let group = |controller: &str| {
        let has = |list: &str| list.split(',').any(|item| item == controller);
        let mount = mounts(mountinfo).find(|mount| mount.kind == "cgroup" && has(mount.options))?;
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            has(controllers).then_some(path)
        })?;
        Some(directory(&mount, path))
    };
    Some((group("memory")?, group("pids")))
}

/// Part of the limit that buffers of TCP and UDP may hold beside it: version 1 counts them apart from all else.
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

/// Takes a limit that this kernel does not know for set.
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
    fn both_controllers_are_found_where_they_are_mounted() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 24 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      36 24 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let own = "9:name=systemd:/\n8:pids:/\n4:memory:/jobs/one\n0::/\n";
        let (memory, pids) = find(mounts, own).unwrap();
        assert_eq!(memory, Path::new("/sys/fs/cgroup/memory/jobs/one"));
        assert_eq!(pids.unwrap(), Path::new("/sys/fs/cgroup/pids"));
        assert!(find("", own).is_none());
    }
}
