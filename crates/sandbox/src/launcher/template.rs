//! The part of the root file system that is equal for all runs, built once by the fork server.
//!
//! The template is the only content of its mount namespace. A run copies that namespace, so the kernel copies the mounts of the
//! template and no mount of the host. The namespace belongs to a child of the engine's user namespace: in the copy that the user
//! namespace of a run gets, every mount is locked and stays read-only.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, fstat, open, openat2, readlinkat},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{Pid, WaitOptions, umask, waitpid},
    thread::{
        CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space, set_name,
    },
};
use serde::{Deserialize, Serialize};

use super::{Failure, Step, outer::unshare, rootfs};
use crate::{sys, wire};

/// The namespaces of the template.
pub(super) struct Template {
    /// Owner of the two others. It has all users of the engine's user namespace that the engine can map.
    users: OwnedFd,
    /// The mounts of the host, where working directories are found.
    host: OwnedFd,
    /// The template alone.
    root: OwnedFd,
}

/// Between the fork server and the process that builds the template.
#[derive(Serialize, Deserialize)]
enum Progress {
    /// The builder has a user namespace, and needs users in it.
    Unshared,
    /// The fork server has mapped the users.
    Mapped,
    /// The template is built. Descriptors: the namespaces, in the order of [`Template`].
    Built,
    Failed {
        step: String,
        errno: i32,
    },
}

impl Template {
    /// Builds the template, with these paths of the host next to the system folders.
    pub(super) fn build(visible: &[String]) -> Result<Self, Failure> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .step("socketpair")?;
        let Some(builder) = sys::fork().step("fork")? else {
            drop(ours);
            let _only_a_name = set_name(c"sortie-template");
            if let Err(Failure { step, errno }) = build_apart(&theirs, visible) {
                let errno = errno.raw_os_error();
                let _fork_server_may_be_gone =
                    wire::send(theirs.as_fd(), &Progress::Failed { step, errno }, &[]);
            }
            sys::exit_now(0);
        };
        drop(theirs);
        let built = follow(&ours, builder);
        // A builder that still waits finds its socket closed.
        drop(ours);
        // The kernel reaps it, so this waits for its end and then fails.
        let _no_children = waitpid(Some(builder), WaitOptions::empty());
        built
    }

    /// Moves this process from the host into the template's namespaces. Returns a clone of a working directory's mount, to be
    /// attached to the run's copy of the template.
    pub(super) fn enter(&self, workdir: &OwnedFd) -> Result<OwnedFd, Failure> {
        let link = format!("/proc/self/fd/{}", workdir.as_raw_fd());
        let path = readlinkat(CWD, link, Vec::new()).step("find the working directory")?;
        let path = OsString::from_vec(path.into_bytes());
        move_into_link_name_space(self.users.as_fd(), Some(LinkNameSpaceType::User)).step("setns")?;
        move_into_link_name_space(self.host.as_fd(), Some(LinkNameSpaceType::Mount)).step("setns")?;
        // The kernel clones only mounts of the process's own namespace, which the descriptor does not belong to.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .step("find the working directory")?;
        let [found_at, expected] =
            [&found, workdir].map(|folder| fstat(folder).map(|stat| (stat.st_dev, stat.st_ino)));
        if found_at.step("stat")? != expected.step("stat")? {
            return Err(Errno::STALE).step("find the working directory");
        }
        let clone = rootfs::clone_of_workdir(&found)?;
        move_into_link_name_space(self.root.as_fd(), Some(LinkNameSpaceType::Mount)).step("setns")?;
        Ok(clone)
    }
}

/// Serves the builder until the template is built.
fn follow(socket: &OwnedFd, builder: Pid) -> Result<Template, Failure> {
    loop {
        match wire::receive(socket.as_fd()).step("receive")? {
            Some((Progress::Unshared, _)) => {
                map_users(builder)?;
                wire::send(socket.as_fd(), &Progress::Mapped, &[]).step("send")?;
            }
            Some((Progress::Built, namespaces)) => {
                let Ok([users, host, root]) = <[OwnedFd; 3]>::try_from(namespaces) else {
                    return Err(Errno::PROTO).step("template");
                };
                return Ok(Template { users, host, root });
            }
            Some((Progress::Failed { step, errno }, _)) => {
                let errno = Errno::from_raw_os_error(errno);
                return Err(Failure { step, errno });
            }
            Some((Progress::Mapped, _)) | None => return Err(Errno::PROTO).step("template"),
        }
    }
}

/// Gives the builder's user namespace the users of this one, each under its own number: all, or this process's own alone if it
/// may not map others.
fn map_users(builder: Pid) -> Result<(), Failure> {
    let of_builder = |name: &str| format!("/proc/{}/{name}", builder.as_raw_pid());
    let may_map = CapabilitySet::SETUID | CapabilitySet::SETGID;
    if capabilities(None).step("capget")?.effective.contains(may_map) {
        for name in ["uid_map", "gid_map"] {
            let own = fs::read_to_string(format!("/proc/self/{name}")).step(name)?;
            fs::write(of_builder(name), identity(&own)).step(name)?;
        }
        return Ok(());
    }
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    fs::write(of_builder("setgroups"), "deny").step("setgroups")?;
    fs::write(of_builder("uid_map"), format!("{uid} {uid} 1")).step("uid_map")?;
    fs::write(of_builder("gid_map"), format!("{gid} {gid} 1")).step("gid_map")
}

/// The map that shows the users of a namespace with this map to its child by the same numbers.
fn identity(map: &str) -> String {
    map.lines()
        .filter_map(|line| {
            let mut columns = line.split_ascii_whitespace();
            let (first, count) = (columns.next()?, columns.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        })
        .collect()
}

/// Builds the template in namespaces of this process and its child, and sends them.
fn build_apart(socket: &OwnedFd, visible: &[String]) -> Result<(), Failure> {
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID).step("unshare")?;
    wire::send(socket.as_fd(), &Progress::Unshared, &[]).step("send")?;
    let Some((Progress::Mapped, _)) = wire::receive(socket.as_fd()).step("receive")? else {
        // The fork server failed to map the users, and reports that.
        return Ok(());
    };
    let namespace = |name: &str| {
        let path = format!("/proc/self/ns/{name}");
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).step("open a namespace")
    };
    // The first process of its pid namespace: the `/proc` that it mounts is empty once it has ended.
    let Some(first) = sys::fork().step("fork")? else {
        let built = || {
            let (users, host) = (namespace("user")?, namespace("mnt")?);
            unshare(UnshareFlags::NEWNS).step("unshare mounts")?;
            let root = namespace("mnt")?;
            umask(Mode::from_raw_mode(0o022));
            rootfs::build_template(visible)?;
            let namespaces = [users.as_fd(), host.as_fd(), root.as_fd()];
            wire::send(socket.as_fd(), &Progress::Built, &namespaces).step("send")
        };
        if let Err(Failure { step, errno }) = built() {
            let errno = errno.raw_os_error();
            let _fork_server_may_be_gone = wire::send(socket.as_fd(), &Progress::Failed { step, errno }, &[]);
        }
        sys::exit_now(0);
    };
    // As above.
    let _no_children = waitpid(Some(first), WaitOptions::empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_namespace_keep_their_numbers_in_its_child() {
        assert_eq!(
            identity("         0     100000      65536\n     70000          5          1\n"),
            "0 0 65536\n70000 70000 1\n"
        );
    }
}
