//! The outer process: the sandbox lives as long as it does, and its end signals to the engine that everything is dead.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, fchdir, getpid, kill_process, pidfd_open, set_child_subreaper,
        waitpid,
    },
    thread::{UnshareFlags, set_name},
};

use super::{
    Failure, Step,
    ending::{self, Dying},
    identity, init, priority,
    procs::{self, Process},
    state::Inherited,
};
use crate::{
    sys,
    types::Level,
    wire::{self, Open, Request},
};

/// Pause between two attempts to raise the sessions of dying processes.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn run(socket: &OwnedFd) -> Result<(), Failure> {
    let _only_a_name = set_name(c"sortie-sandbox");
    let Some((request, fds)) = wire::receive::<Request>(socket.as_fd()).step("receive")? else {
        return Ok(());
    };
    let Request::Open(open) = request else {
        return Err(Errno::PROTO).step("first message");
    };
    // Control groups accept no real-time process. An engine under `SCHED_IDLE` stays idle.
    let _idle_stays_idle = sys::be_scheduled_ordinarily();
    priority::raise_watch();
    let mut fds = fds.into_iter();
    let inherited = Inherited {
        outer: pidfd_open(getpid(), PidfdFlags::empty()).step("pidfd_open")?,
        workdir: fds.next().ok_or(Errno::PROTO).step("first message")?,
        scratch: if open.scratch { fds.next() } else { None },
    };
    for cgroup in fds {
        // "0" is the writing process.
        File::from(cgroup).write_all(b"0").step("join cgroup")?;
    }
    if open.level == Level::Namespaces {
        enter_namespaces(&open, &inherited)?;
    } else {
        // Orphans are reparented to us, so that we can end them.
        set_child_subreaper(Some(getpid())).step("subreaper")?;
    }
    let Some(init) = sys::fork().step("fork")? else {
        let ended = init::run(socket, &open, inherited);
        if let Err(failure) = ended {
            super::report(socket, &failure);
        }
        sys::exit_now(0);
    };
    drop(inherited);
    wait_for(init, socket.as_fd(), open.level)?;
    if open.level != Level::Namespaces {
        ending::end_all_descendants(Duration::MAX);
    }
    Ok(())
}

fn enter_namespaces(open: &Open, inherited: &Inherited) -> Result<(), Failure> {
    let (uid, gid) = identity::become_run_user(open.uid)?;
    // The kernel carries the current directory over into the new mount namespace; neither a path nor a descriptor would lead
    // there.
    fchdir(&inherited.workdir).step("enter the working directory")?;
    unshare_all().step("unshare")?;
    fs::write("/proc/self/setgroups", "deny").step("setgroups")?;
    fs::write("/proc/self/uid_map", format!("{INSIDE} {uid} 1")).step("uid_map")?;
    fs::write("/proc/self/gid_map", format!("{INSIDE} {gid} 1")).step("gid_map")
}

/// User and group of every command inside.
pub(super) const INSIDE: u32 = 1_000;

#[expect(
    unsafe_code,
    reason = "unshare may close descriptors, which this set of flags does not"
)]
fn unshare_all() -> Result<(), Errno> {
    let flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    // SAFETY: `CLONE_FILES` is not among the flags.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Returns the processes below init.
fn below(init: Pid) -> io::Result<Vec<Process>> {
    // The `/proc` mounted here shows either this process, or only the sandbox, with init as its first process.
    let is_outside = fs::read_link("/proc/self").is_ok();
    let first = if is_outside { init } else { Pid::INIT };
    Ok(procs::descendants(&procs::all()?, first))
}

/// Waits for init to end, and ends it when the engine hangs up.
fn wait_for(init: Pid, socket: BorrowedFd<'_>, level: Level) -> Result<(), Failure> {
    let ended = pidfd_open(init, PidfdFlags::empty()).step("pidfd_open")?;
    loop {
        // Only the hang-up matters: messages are for init.
        let mut fds = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::from_borrowed_fd(socket, PollFlags::empty()),
        ];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            result => result.step("poll")?,
        };
        let [ended, engine] = fds.map(|fd| fd.revents());
        if ended.is_empty() && engine.is_empty() {
            continue;
        }
        if ended.is_empty() {
            // It may just have ended.
            let _already_ended = kill_process(init, Signal::KILL);
            // Without a pid namespace the others are killed later.
            if level == Level::Namespaces {
                let mut dying = Dying::all(|| below(init));
                while dying.raise() {
                    thread::sleep(PAUSE);
                }
            }
        }
        // With a pid namespace this returns only when everything in it is dead.
        loop {
            match waitpid(Some(init), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                result => return result.map(drop).step("wait"),
            }
        }
    }
}
