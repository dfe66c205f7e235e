//! The file system of a sandbox: system folders read-only, a generated `/etc`, a small `/dev`, a covered `/proc`, the working
//! directory and `/tmp`; nothing else of the host.
//!
//! The [template](super::template) has the part that is equal for all runs. Its sources are cloned first, while the host's tree is
//! visible; the new root is then built in place and becomes the root, and the old one is released. A run adds its own part to its
//! copy of the template.

use std::{
    ffi::CStr,
    fs::{self, Permissions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::symlink,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::CWD,
    io::Errno,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
        mount_change, mount_remount, move_mount, open_tree, unmount,
    },
    process::{chdir, pivot_root},
};

use super::{Failure, Step};
use crate::{landlock::SYSTEM, sys::set_mount_attributes, types::Limits};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const PASSWD: &str = "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/work:/bin/sh\n\
                      nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 sandbox\n";
const NAME_SERVICES: &str =
    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/// Entries of `/proc` that describe the host, not the sandbox's processes.
const COVERED: &[&str] = &[
    "buddyinfo",
    "cmdline",
    "config.gz",
    "diskstats",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "locks",
    "mdstat",
    "modules",
    "pagetypeinfo",
    "partitions",
    "sched_debug",
    "schedstat",
    "slabinfo",
    "softirqs",
    "swaps",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
    "vmallocinfo",
    "vmcore",
    "vmstat",
    "zoneinfo",
];
/// Folders of `/proc` that do the same.
const COVERED_FOLDERS: &[&str] = &["pressure"];
/// Bounds of the run's user namespace: the events of each instance, and each watched file, take memory of the kernel.
const INOTIFY: [(&str, &str); 2] = [("max_inotify_instances", "16"), ("max_inotify_watches", "32768")];
const READ_ONLY: &[&str] = &["acpi", "bus", "driver", "fs", "irq", "scsi", "sys"];

/// A piece of the host: a clone of a mount, or a file or link to recreate.
enum Piece {
    File {
        at: PathBuf,
        content: Vec<u8>,
        permissions: Permissions,
    },
    Mount {
        at: PathBuf,
        clone: OwnedFd,
        is_dir: bool,
    },
    Link {
        at: PathBuf,
        to: PathBuf,
    },
}

/// Size up to which a single file is copied into the template, in bytes: a separate mount would cost every run more.
const MOST_COPIED_BYTES: u64 = 256 << 10;
const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Builds the template in this mount namespace, and enters it. Nothing of the host's tree is left in the namespace.
pub(super) fn build_template(visible: &[String]) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).step("mount private")?;
    let pieces = collect(visible)?;
    let devices = DEVICES
        .into_iter()
        .filter_map(|name| match clone_of(&format!("/dev/{name}")) {
            // A container may have no terminal.
            Err(Errno::NOENT) if name == "tty" => None,
            clone => Some(clone.map(|clone| (name, clone))),
        })
        .collect::<Result<Vec<_>, Errno>>()
        .step("open devices")?;

    // Any folder will do; this one exists everywhere, and its content was cloned.
    mount(
        "tmpfs",
        "/usr",
        "tmpfs",
        FLAGS,
        c"size=64m,nr_inodes=16384,mode=755",
    )
    .step("mount root")?;
    chdir("/usr").step("enter root")?;
    folders(&[
        "work", "etc", "tmp", "dev", "dev/pts", "dev/shm", "proc", "run", "var", "home",
    ])?;
    for piece in pieces {
        put(piece)?;
    }
    files(&[
        ("etc/passwd", PASSWD),
        ("etc/group", GROUP),
        ("etc/hosts", HOSTS),
        ("etc/hostname", "sandbox\n"),
        ("etc/resolv.conf", ""),
        ("etc/nsswitch.conf", NAME_SERVICES),
    ])?;
    for (name, clone) in &devices {
        let at = Path::new("dev").join(name);
        fs::write(&at, "").step("make device")?;
        attach(clone, &at)?;
    }
    for (to, at) in [
        ("../tmp", "var/tmp"),
        ("pts/ptmx", "dev/ptmx"),
        ("/proc/self/fd", "dev/fd"),
        ("/proc/self/fd/0", "dev/stdin"),
        ("/proc/self/fd/1", "dev/stdout"),
        ("/proc/self/fd/2", "dev/stderr"),
    ] {
        symlink(to, at).step("link")?;
    }
    // The kernel lets a run mount its `/proc` only where another one is visible. This one shows no process.
    mount("proc", "proc", "proc", FLAGS | MountFlags::NOEXEC, c"").step("mount proc")?;
    mount_remount(".", MountFlags::BIND | MountFlags::RDONLY | FLAGS, c"").step("protect root")?;
    pivot_root(".", ".").step("pivot_root")?;
    unmount(".", UnmountFlags::DETACH).step("let the old root go")
}

/// Clones the mount of a run's working directory.
pub(super) fn clone_of_workdir(folder: &OwnedFd) -> Result<OwnedFd, Failure> {
    let flags = CLONE | OpenTreeFlags::AT_EMPTY_PATH;
    let clone = open_tree(folder, "", flags).step("open the working directory")?;
    protect(&clone, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV)
        .step("protect the working directory")?;
    Ok(clone)
}

/// Adds a run's own part to its copy of the template, and enters the working directory.
pub(super) fn complete(limits: &Limits, work: &OwnedFd) -> Result<(), Failure> {
    attach(work, Path::new("/work"))?;
    let size = format!("size={},nr_inodes=65536,mode=1777\0", limits.tmp_bytes.max(4_096));
    let size = CStr::from_bytes_until_nul(size.as_bytes())
        .map_err(|_| Errno::INVAL)
        .step("mount tmp")?;
    mount("tmpfs", "/tmp", "tmpfs", FLAGS, size).step("mount tmp")?;
    mount(
        "devpts",
        "/dev/pts",
        "devpts",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        c"newinstance,ptmxmode=0666,mode=620,max=64",
    )
    .step("mount devpts")?;
    mount(
        "tmpfs",
        "/dev/shm",
        "tmpfs",
        FLAGS | MountFlags::NOEXEC,
        c"size=16m,nr_inodes=4096,mode=1777",
    )
    .step("mount shm")?;
    build_proc()?;
    chdir("/work").step("enter /work")
}

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_RECURSIVE);

fn clone_of(path: &str) -> Result<OwnedFd, Errno> {
    open_tree(CWD, path, CLONE)
}

/// Adds attributes to a clone and to everything mounted in it.
fn protect(clone: &OwnedFd, attributes: u64) -> Result<(), Errno> {
    set_mount_attributes(
        clone.as_fd(),
        c"",
        libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
        attributes,
    )
}

fn collect(visible: &[String]) -> Result<Vec<Piece>, Failure> {
    let mut pieces = Vec::new();
    let visible = visible.iter().map(String::as_str);
    for path in SYSTEM.iter().copied().chain(visible) {
        let Ok(metadata) = fs::symlink_metadata(path) else {
            continue;
        };
        let at = PathBuf::from(path.trim_start_matches('/'));
        if metadata.is_symlink() && SYSTEM.contains(&path) {
            let to = fs::read_link(path).step(path)?;
            pieces.push(Piece::Link { at, to });
            continue;
        }
        // For other paths, use the target of a link; skip a link with a missing target.
        let Ok(metadata) = fs::metadata(path) else {
            continue;
        };
        // A file that the engine may not read is mounted: the users of runs may have the right.
        if metadata.is_file()
            && metadata.len() <= MOST_COPIED_BYTES
            && let Ok(content) = fs::read(path)
        {
            let permissions = metadata.permissions();
            pieces.push(Piece::File {
                at,
                content,
                permissions,
            });
            continue;
        }
        let clone = clone_of(path).step(path)?;
        protect(
            &clone,
            libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        )
        .step(path)?;
        pieces.push(Piece::Mount {
            at,
            clone,
            is_dir: metadata.is_dir(),
        });
    }
    Ok(pieces)
}

fn put(piece: Piece) -> Result<(), Failure> {
    let (Piece::File { at, .. } | Piece::Link { at, .. } | Piece::Mount { at, .. }) = &piece;
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent).step("make folders")?;
    }
    match piece {
        Piece::Link { at, to } => symlink(to, at).step("link"),
        Piece::File {
            at,
            content,
            permissions,
        } => fs::write(&at, content)
            .and_then(|()| fs::set_permissions(&at, permissions))
            .step("make files"),
        Piece::Mount { at, clone, is_dir } => {
            if is_dir {
                fs::create_dir_all(&at)
            } else {
                fs::write(&at, "")
            }
            .step("make mount point")?;
            attach(&clone, &at)
        }
    }
}

fn attach(clone: &OwnedFd, at: &Path) -> Result<(), Failure> {
    move_mount(clone, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).step("move_mount")
}

fn folders(paths: &[&str]) -> Result<(), Failure> {
    paths
        .iter()
        .try_for_each(|path| fs::create_dir(path).step("make folders"))
}

fn files(contents: &[(&str, &str)]) -> Result<(), Failure> {
    contents
        .iter()
        .try_for_each(|(path, content)| fs::write(path, content).step("make files"))
}

fn build_proc() -> Result<(), Failure> {
    let flags = FLAGS | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, c"").step("mount proc")?;
    fs::write("/proc/sys/user/max_user_namespaces", "0").step("forbid nested user namespaces")?;
    for (name, most) in INOTIFY {
        // A kernel without inotify needs no limit.
        match fs::write(Path::new("/proc/sys/user").join(name), most) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).step("bound inotify"),
            _ => {}
        }
    }
    for name in COVERED {
        absent_is_fine(mount_bind("/dev/null", Path::new("/proc").join(name))).step("cover proc")?;
    }
    for name in COVERED_FOLDERS {
        absent_is_fine(mount_bind("/home", Path::new("/proc").join(name))).step("cover proc")?;
    }
    for name in READ_ONLY {
        let at = Path::new("/proc").join(name);
        if absent_is_fine(mount_bind(&at, &at).map(|()| true)).step("protect proc")? {
            mount_remount(&at, MountFlags::BIND | MountFlags::RDONLY | flags, c"").step("protect proc")?;
        }
    }
    Ok(())
}

fn absent_is_fine<T: Default>(result: Result<T, Errno>) -> io::Result<T> {
    match result {
        Err(Errno::NOENT) => Ok(T::default()),
        result => Ok(result?),
    }
}
