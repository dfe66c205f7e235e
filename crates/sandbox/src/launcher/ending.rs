//! The end of processes of a sandbox.

use std::{
    collections::{HashMap, HashSet},
    io, thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, wait},
};

use super::{
    priority::{self, Weighed},
    procs::{self, Process},
};

/// The longest pause between two looks for descendants that have not died yet.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Longest time for which processes wait for more weight before they are killed. The kernel changes ten sessions a second.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two tries to change the weight of a session.
const PAUSE: Duration = Duration::from_millis(10);

/// Prepares processes for their end on a busy machine: stops them, and gives their sessions the weight of the engine. A process
/// gives its memory and files back itself, which takes one of the least weight minutes there.
pub(super) fn hasten(ending: &[Process]) {
    if priority::is_machine_busy() {
        for process in ending {
            procs::signal(process, Signal::STOP);
        }
        raise_sessions(&procs::living().unwrap_or_default(), ending);
    }
}

/// Gives the sessions of all processes that `find` finds the weight of the engine, on a busy machine.
pub(super) fn hasten_all(find: impl FnOnce() -> io::Result<Vec<Process>>) {
    if priority::is_machine_busy() {
        let all = find().unwrap_or_default();
        raise_sessions(&all, &all);
    }
}

/// Raises the sessions of which no process of `living` is missing in `ending`. One that goes on keeps its weight.
fn raise_sessions(living: &[Process], ending: &[Process]) {
    let ending: HashSet<&Process> = ending.iter().collect();
    let own = procs::one(getpid()).and_then(|process| process.session());
    let mut sessions: HashMap<Pid, Vec<&Process>> = HashMap::new();
    for process in living {
        if let Some(session) = process.session().filter(|session| Some(*session) != own) {
            sessions.entry(session).or_default().push(process);
        }
    }
    sessions.retain(|_, members| members.iter().all(|member| ending.contains(member)));
    let began = Instant::now();
    for member in sessions.values().filter_map(|members| members.first()) {
        while priority::raise_session(member.pid) == Weighed::Later && began.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
        }
    }
}

/// Kills every descendant and reaps them all; for a subreaper without a pid namespace. Gives up after `limit`.
pub(super) fn end_all_descendants(limit: Duration) {
    let begin = Instant::now();
    let mut stopped = HashSet::new();
    let mut pause = Duration::from_millis(1);
    while begin.elapsed() < limit && !reap_all() {
        let Ok(alive) = procs::living() else {
            thread::sleep(pause);
            continue;
        };
        // All are stopped before any is killed: a fork bomb then runs into its own limit, and stands still.
        let mut fresh = false;
        for process in &alive {
            if stopped.insert(*process) {
                procs::signal(process, Signal::STOP);
                fresh = true;
            }
        }
        if !fresh {
            hasten(&alive);
            for process in &alive {
                procs::signal(process, Signal::KILL);
            }
        }
        thread::sleep(pause);
        // A process may take long to die, for instance to give back much memory.
        pause = if fresh {
            pause
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
    }
}

/// Reaps what has ended; true when no child is left.
fn reap_all() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
