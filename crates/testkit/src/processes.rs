//! Facts of `/proc` about processes: the descendants of a node, and the resources in use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};

/// A process. It differs from a later one with the same process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// ID of the process.
    pub pid: u32,
    /// Time at which the process was started, in ticks since the start of the machine.
    pub started: u64,
}

/// Facts of a process from its `stat`.
struct Stat {
    parent: u32,
    is_dead: bool,
    started: u64,
}

/// `None` if the process has ended.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may contain any characters, brackets as well.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat {
        parent,
        is_dead: matches!(state, "Z" | "X"),
        started,
    })
}

fn all() -> BTreeMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

/// Returns all living descendants of these processes, without the processes themselves.
pub fn descendants(of: &[u32]) -> BTreeSet<Process> {
    let all = all();
    let descends = |pid: u32| {
        let mut at = pid;
        // There are at most as many generations as processes.
        for _ in 0..all.len() {
            match all.get(&at) {
                Some(stat) if of.contains(&stat.parent) => return true,
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    };
    all.iter()
        .filter(|(pid, stat)| !stat.is_dead && descends(**pid))
        .map(|(pid, stat)| Process {
            pid: *pid,
            started: stat.started,
        })
        .collect()
}

/// Whether the process still exists and is not a zombie.
pub fn is_alive(process: Process) -> bool {
    stat(process.pid).is_some_and(|stat| stat.started == process.started && !stat.is_dead)
}

/// Every process that has this text in its command line.
pub fn saying(text: &str) -> BTreeSet<Process> {
    all()
        .into_iter()
        .filter(|(pid, stat)| {
            !stat.is_dead
                && fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
        })
        .map(|(pid, stat)| Process {
            pid,
            started: stat.started,
        })
        .collect()
}

/// The process of a node that forks launchers; there is one for as long as the node is up.
pub fn forks_for(process: Process) -> Option<u32> {
    let name = fs::read_to_string(format!("/proc/{}/comm", process.pid)).ok()?;
    let stat = stat(process.pid).filter(|stat| stat.started == process.started)?;
    (name.trim_end() == "sortie-forks").then_some(stat.parent)
}

/// The command line of a process, for a message.
pub fn command_line(process: Process) -> String {
    let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Resources that a process has in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Memory that is resident, in bytes.
    pub memory: u64,
    /// The most it ever was, in bytes.
    pub peak: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: u64,
}

/// Returns the resources that the process has in use now.
pub fn in_use(pid: u32) -> Result<InUse> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let number = |name: &str| -> Result<u64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("no {name} in the status of a process"))?;
        Ok(line
            .trim_start_matches(':')
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .parse()?)
    };
    Ok(InUse {
        memory: number("VmRSS")? << 10,
        peak: number("VmHWM")? << 10,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
        threads: number("Threads")?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command, Stdio};

    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test looks at a process that it makes"
    )]
    fn a_child_of_a_child_descends_until_it_is_dead() -> Result<()> {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 100 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().context("no output")?),
            &mut said,
        )?;
        let grandchild: u32 = said.trim().parse()?;
        let found = descendants(&[process::id()]);
        let sleep = *found
            .iter()
            .find(|found| found.pid == grandchild)
            .context("not found")?;
        assert!(found.iter().any(|found| found.pid == child.id()));
        // Forked is not yet executed.
        while !saying("sleep\u{0}100").contains(&sleep) {
            assert!(is_alive(sleep));
            std::thread::yield_now();
        }
        child.kill()?;
        child.wait()?;
        // The process is orphaned now, and alive.
        assert!(is_alive(sleep));
        let pid = rustix::process::Pid::from_raw(i32::try_from(grandchild)?).context("no pid")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        while is_alive(sleep) {
            std::thread::yield_now();
        }
        assert!(in_use(process::id())?.descriptors > 2);
        Ok(())
    }
}
