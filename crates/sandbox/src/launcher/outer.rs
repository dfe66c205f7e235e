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
    fs::{Mode, OFlags, open as open_file, openat},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper, waitpid,
    },
    thread::{UnshareFlags, set_name},
};

use super::{
    Failure, Step,
    ending::{self, Dying},
    identity, init, priority,
    procs::{self, Process},
    state::Inherited,
    template::Template,
};
use crate::{
    sys,
    types::Level,
    wire::{self, Open, Request},
};

/// Pause between two attempts to raise the sessions of dying processes.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn run(socket: &OwnedFd, template: Option<Template>) -> Result<(), Failure> {
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
    let work = if open.level == Level::Namespaces {
        let template = template.ok_or(Errno::PROTO).step("template")?;
        Some(enter_namespaces(&open, &inherited, template)?)
    } else {
        // Orphans are reparented to us, so that we can end them.
        set_child_subreaper(Some(getpid())).step("subreaper")?;
        None
    };
    let Some(init) = sys::fork().step("fork")? else {
        let ended = init::run(socket, &open, inherited, work);
        if let Err(failure) = ended {
            super::report(socket, &failure);
        }
        sys::exit_now(0);
    };
    drop((inherited, work));
    wait_for(init, socket.as_fd(), open.level)?;
    if open.level != Level::Namespaces {
        ending::end_all_descendants(Duration::MAX);
    }
    Ok(())
}

/// Enters the run's namespaces; returns a clone of the working directory's mount, which its first process attaches.
fn enter_namespaces(open: &Open, inherited: &Inherited, template: Template) -> Result<OwnedFd, Failure> {
    // The template's `/proc` shows no process.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let itself = open_file("/proc/self", flags, Mode::empty()).step("open /proc/self")?;
    let work = template.enter(&inherited.workdir)?;
    // Nothing of a run may lead out of its namespaces.
    drop(template);
    let (uid, gid) = identity::become_run_user(open.uid)?;
    let namespaces = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    unshare(namespaces).step("unshare")?;
    let write = |name: &str, content: &str| {
        let file = openat(&itself, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).step(name)?;
        File::from(file).write_all(content.as_bytes()).step(name)
    };
    write("setgroups", "deny")?;
    write("uid_map", &format!("{INSIDE} {uid} 1"))?;
    write("gid_map", &format!("{INSIDE} {gid} 1"))?;
    Ok(work)
}

/// User and group of every command inside.
pub(super) const INSIDE: u32 = 1_000;

/// Enters new namespaces.
#[expect(
    unsafe_code,
    reason = "unshare may close descriptors, which no namespace does"
)]
pub(super) fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: without this flag the descriptors stay those of all threads.
    unsafe { rustix::thread::unshare_unsafe(namespaces.difference(UnshareFlags::FILES)) }
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
