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
    priority::{self, Weighed, Weight},
    procs::{self, Process, ProcessSource},
};

/// Longest pause between two scans for descendants that are still dying.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of processes by which a session is raised: the first may be reaped early.
const MEMBERS: usize = 8;

/// Sessions with processes that are being killed on a busy machine. A killed process frees its memory and files itself, which
/// takes minutes at the lowest weight there, so these sessions are raised to the weight of the engine.
#[derive(Debug, Default)]
pub(super) struct Dying(Vec<Vec<Weight>>);

impl Dying {
    /// Returns the sessions of all processes that `find` finds. These processes are being killed.
    pub(super) fn all(find: impl FnOnce() -> io::Result<Vec<Process>>) -> Self {
        if !priority::is_machine_busy() {
            return Self::default();
        }
        let all = find().unwrap_or_default();
        Self::ending_with(&all, &all)
    }

    /// Returns the sessions that end with these processes, which are being killed.
    pub(super) fn of(ending: &[Process]) -> Self {
        if !priority::is_machine_busy() {
            return Self::default();
        }
        Self::ending_with(
            ending,
            &procs::living_in(ProcessSource::Children).unwrap_or_default(),
        )
    }

    /// A session that has further processes among `living` keeps its weight.
    fn ending_with(ending: &[Process], living: &[Process]) -> Self {
        let ending: HashSet<&Process> = ending.iter().collect();
        let own = procs::one(getpid()).and_then(|process| process.session());
        let mut sessions: HashMap<Pid, Vec<&Process>> = HashMap::new();
        for process in living {
            if let Some(session) = process.session().filter(|session| Some(*session) != own) {
                sessions.entry(session).or_default().push(process);
            }
        }
        sessions.retain(|_, members| members.iter().all(|member| ending.contains(member)));
        let weights = |members: Vec<&Process>| {
            let members = members.iter().take(MEMBERS);
            members.filter_map(|member| Weight::of(member.pid)).collect()
        };
        Self(sessions.into_values().map(weights).collect())
    }

    /// Raises as many sessions as the kernel allows now: one per tenth of a second, for all users together. Call it until all
    /// processes are reaped. Returns whether any is left.
    pub(super) fn raise(&mut self) -> bool {
        while let Some(members) = self.0.last_mut() {
            match members.last_mut().map(Weight::raise) {
                Some(Weighed::Later) => return true,
                Some(Weighed::Refused) => drop(members.pop()),
                Some(Weighed::Done) | None => drop(self.0.pop()),
            }
        }
        false
    }
}

/// Kills all descendants of this process and reaps them, for at most `limit`. This process has to be a subreaper. With a pid
/// namespace the kernel does the same.
pub(super) fn end_all_descendants(limit: Duration) {
    let begin = Instant::now();
    let mut stopped = HashSet::new();
    let mut dying = None;
    let mut pause = Duration::from_millis(1);
    let mut source = ProcessSource::Children;
    while begin.elapsed() < limit && !reap_all() {
        let Ok(alive) = procs::living_in(source) else {
            thread::sleep(pause);
            continue;
        };
        // All are stopped before any is killed: a fork bomb then runs into its process limit and stops growing.
        let mut fresh = false;
        for process in &alive {
            if stopped.insert(*process) {
                procs::signal(process, Signal::STOP);
                fresh = true;
            }
        }
        if !fresh && source == ProcessSource::Children {
            // Every process is looked for before the first is killed.
            source = ProcessSource::All;
            continue;
        }
        if !fresh {
            // They are stopped now and do not end during this.
            dying.get_or_insert_with(|| Dying::of(&alive)).raise();
            for process in &alive {
                procs::signal(process, Signal::KILL);
            }
        }
        thread::sleep(pause);
        // A process may take long to die, for example to free much memory.
        pause = if fresh {
            pause
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
    }
}

/// Reaps ended children; true if no child is left.
fn reap_all() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
