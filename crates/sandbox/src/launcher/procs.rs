//! The processes of a sandbox as `/proc` shows them.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal},
};

/// Process, or the rest of one that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) pid: Pid,
    parent: i32,
    session: i32,
    /// In clock ticks since the machine started.
    started: u64,
    /// Whether all of its threads have ended. A process with an ended first thread runs on in the others.
    ended: bool,
}

/// Source of a list of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessSource {
    /// The processes in `/proc`. Without a pid namespace these are all processes of the host.
    All,
    /// The kernel's lists of children, from this process on. Takes a fraction of the time on a host with thousands of processes,
    /// and may miss a process while others end. To see that none is left, look at [`All`](Self::All).
    Children,
}

impl ProcessSource {
    fn read(self) -> io::Result<Vec<Process>> {
        match self {
            // Not every kernel has the lists.
            Self::Children if Path::new("/proc/thread-self/children").exists() => family(),
            Self::Children | Self::All => all(),
        }
    }
}

/// This process and its descendants, by the lists of children.
fn family() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    let mut pending = vec![getpid()];
    while let Some(pid) = pending.pop() {
        found.extend(look_at(pid)?);
        pending.extend(children(pid)?);
    }
    Ok(found)
}

/// The children of all threads of a process. None if it is gone.
fn children(parent: Pid) -> io::Result<Vec<Pid>> {
    let threads = match fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) {
        Err(error) if means_gone(&error) => return Ok(Vec::new()),
        threads => threads?,
    };
    let mut found = Vec::new();
    for thread in threads {
        match thread.and_then(|thread| fs::read_to_string(thread.path().join("children"))) {
            Err(error) if means_gone(&error) => {}
            children => found.extend(
                children?
                    .split_ascii_whitespace()
                    .filter_map(|number| Pid::from_raw(number.parse().ok()?)),
            ),
        }
    }
    Ok(found)
}

/// Every process in view. Fails if `/proc` cannot be read, for example because the host is out of descriptors.
pub(super) fn all() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw) {
            found.extend(look_at(pid)?);
        }
    }
    Ok(found)
}

/// Returns a process, if it is still there and can be seen.
pub(super) fn one(pid: Pid) -> Option<Process> {
    look_at(pid).ok().flatten()
}

/// Returns the process that a thread belongs to.
pub(super) fn of_thread(thread: Pid) -> Option<Pid> {
    let text = read_text(format!("/proc/{}/status", thread.as_raw_nonzero())).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(number.trim().parse().ok()?)
}

/// Returns a process, if it is still there.
fn look_at(pid: Pid) -> io::Result<Option<Process>> {
    match read_text(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
        Ok(stat) => Ok(parse(pid, &stat)),
        Err(error) if means_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file that holds the name of a process, which may be any bytes.
pub(super) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether an error means that the process is gone or hidden from this one.
fn means_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM)
    )
}

/// The name is in parentheses and may contain anything, even parentheses: the fields start after the last one.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let first_thread_ended = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    // An ended first thread counts until the process is reaped.
    let threads: u64 = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
        started,
        ended: first_thread_ended && threads <= 1,
    })
}

impl Process {
    /// The leader of its session. None for a session of outside.
    pub(super) const fn session(&self) -> Option<Pid> {
        Pid::from_raw(self.session)
    }

    /// Whether any of its threads runs.
    pub(super) const fn is_alive(&self) -> bool {
        !self.ended
    }
}

/// The living processes of this sandbox, without this one.
pub(super) fn living() -> io::Result<Vec<Process>> {
    living_in(ProcessSource::All)
}

/// The living processes of this sandbox in a source, without this one.
pub(super) fn living_in(source: ProcessSource) -> io::Result<Vec<Process>> {
    let mut found = descendants(&source.read()?, getpid());
    found.retain(Process::is_alive);
    Ok(found)
}

/// Returns the descendants of `ancestor`, without itself, ended ones included.
pub(super) fn descendants(all: &[Process], ancestor: Pid) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut pending = vec![ancestor.as_raw_nonzero().get()];
    while let Some(parent) = pending.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            pending.push(child.pid.as_raw_nonzero().get());
            found.push(child);
        }
    }
    found
}

/// Returns the processes of a command: every living process of ours except those that existed before it started, their
/// descendants, and those of the processes in `piped`.
pub(super) fn of_command(
    command: &Process,
    piped: &[Pid],
    source: ProcessSource,
) -> io::Result<Vec<Process>> {
    let all = source.read()?;
    let ours = descendants(&all, getpid());
    let mut older: HashSet<Pid> = piped
        .iter()
        .flat_map(|leader| of_session(&all, &ours, *leader))
        .map(|process| process.pid)
        .collect();
    for process in ours.iter().filter(|process| process.started < command.started) {
        older.insert(process.pid);
        older.extend(
            descendants(&all, process.pid)
                .into_iter()
                .map(|process| process.pid),
        );
    }
    Ok(ours
        .into_iter()
        .filter(|process| !process.ended && !older.contains(&process.pid))
        .collect())
}

/// Returns the processes of a piped process: every living process of ours in its session, and their descendants. A process that
/// has left the session and lost its parent belongs to the sandbox. The piped process itself comes first, so that it does not see
/// the others end.
pub(super) fn of_piped(leader: Pid, source: ProcessSource) -> io::Result<Vec<Process>> {
    let all = source.read()?;
    let ours = descendants(&all, getpid());
    let mut found: Vec<_> = of_session(&all, &ours, leader)
        .into_iter()
        .filter(|process| !process.ended)
        .collect();
    found.sort_unstable_by_key(|process| process.pid != leader);
    Ok(found)
}

/// Whether a process of ours is alive in the session of an ended leader, or descends from one that is. True if that cannot be
/// determined.
pub(super) fn session_lives(leader: Pid) -> bool {
    let lives = || of_piped(leader, ProcessSource::All).map_or(true, |found| !found.is_empty());
    // A process with a parent that ended during the first scan is found by the second.
    lives() || lives()
}

/// The leader, the others in its session, and all that descend from one of them.
fn of_session(all: &[Process], ours: &[Process], leader: Pid) -> HashSet<Process> {
    let number = leader.as_raw_nonzero().get();
    ours.iter()
        .filter(|process| process.pid == leader || process.session == number)
        .flat_map(|process| std::iter::once(*process).chain(descendants(all, process.pid)))
        .collect()
}

/// Signals exactly this process: its process id may have been reused.
pub(super) fn signal(process: &Process, signal: Signal) {
    let Ok(handle) = pidfd_open(process.pid, PidfdFlags::empty()) else {
        return;
    };
    if one(process.pid).is_some_and(|now| now.started == process.started) {
        // It may have ended already, which is the goal.
        let _already_ended = pidfd_send_signal(handle, signal);
    }
}

/// Processes and threads of a user in view.
pub(super) fn tasks_of_user(uid: u32) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == uid))
        .filter_map(|entry| fs::read_dir(entry.path().join("task")).ok())
        .map(Iterator::count)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn a_hostile_process_name_does_not_confuse_the_reader() {
        let rest = "Z 7 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 2 0 4242 1 1";
        let stat = format!("12 (a) Z 1 (b\n) {rest}");
        let process = parse(pid(12), &stat).unwrap();
        assert_eq!(
            (process.parent, process.session, process.started, process.ended),
            (7, 3, 4_242, false),
            "a second thread runs"
        );
        assert!(parse(pid(12), "12 (a").is_none());
        let last = stat.replace("20 0 2 0", "20 0 1 0");
        assert!(parse(pid(12), &last).unwrap().ended);
    }

    /// Ends the process when dropped.
    struct Ending(std::process::Child);

    impl Drop for Ending {
        fn drop(&mut self) {
            let _ended = self.0.kill();
            let _reaped = self.0.wait();
        }
    }

    #[test]
    fn the_lists_of_children_have_the_same_family_as_proc() {
        // A program that has two generations below it, and ends with its standard input.
        #[expect(clippy::disallowed_methods, reason = "a process to be looked at")]
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "exec 3<&0; (cat <&3 >/dev/null & echo; wait) & wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .map(Ending)
            .unwrap();
        let out = shell.0.stdout.as_mut().unwrap();
        std::io::Read::read_exact(out, &mut [0]).unwrap();
        let leader = pid(i32::try_from(shell.0.id()).unwrap());
        let family = |source: ProcessSource| {
            let mut found = descendants(&source.read().unwrap(), leader);
            found.sort_unstable_by_key(|process| process.pid.as_raw_nonzero());
            found
        };
        let found = family(ProcessSource::All);
        assert_eq!(found.len(), 2, "{found:?}");
        // On a kernel without the lists both are the same scan.
        assert_eq!(family(ProcessSource::Children), found);
    }

    #[test]
    fn descendants_are_found_through_all_generations_and_not_beyond() {
        let process = |number, parent| Process {
            pid: pid(number),
            parent,
            session: parent,
            started: 0,
            ended: false,
        };
        let all = [
            process(1, 0),
            process(2, 1),
            process(3, 2),
            process(4, 3),
            process(5, 1),
        ];
        let mut found: Vec<_> = descendants(&all, pid(2))
            .iter()
            .map(|p| p.pid.as_raw_nonzero().get())
            .collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
    }

    #[test]
    fn a_session_has_its_leader_its_orphans_and_what_any_of_them_started() {
        let process = |number, parent, session| Process {
            pid: pid(number),
            parent,
            session,
            started: 0,
            ended: false,
        };
        let all = [
            process(1, 0, 1),
            process(2, 1, 2),
            process(3, 2, 2),
            // Its parent has ended.
            process(4, 1, 2),
            // In a separate session below an orphan.
            process(5, 4, 5),
            process(6, 1, 6),
            process(7, 6, 6),
        ];
        let ours = descendants(&all, pid(1));
        let mut found: Vec<_> = of_session(&all, &ours, pid(2))
            .iter()
            .map(|p| p.pid.as_raw_nonzero().get())
            .collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4, 5]);
    }
}
