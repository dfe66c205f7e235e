//! Figures of the kernel about a node's process.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use sortie_testkit::Node;

/// A line of `/proc/PID/status` in KiB, as bytes.
fn status(node: &Node, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .with_context(|| format!("no {name}"))?;
    let kib: u64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
    Ok(kib * 1024)
}

/// Resident memory, in bytes.
pub(crate) fn resident(node: &Node) -> Result<u64> {
    status(node, "VmRSS:")
}

/// Resident memory that is the process's own, without what is mapped from files, in bytes.
pub(crate) fn private(node: &Node) -> Result<u64> {
    status(node, "RssAnon:")
}

/// The most resident memory that it ever had, in bytes.
pub(crate) fn highest(node: &Node) -> Result<u64> {
    status(node, "VmHWM:")
}

/// Open files, sockets among them.
pub(crate) fn open_files(node: &Node) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", node.pid()?))?.count())
}

/// CPU time that it has used, its threads together.
pub(crate) fn cpu(node: &Node) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.pid()?))?;
    time_in(&stat, 2)
}

/// CPU time that all processes of this name have used, with that of their children that have ended.
pub(crate) fn cpu_of_all(name: &str) -> Result<Duration> {
    let mut all = Duration::ZERO;
    for process in fs::read_dir("/proc")? {
        // Other entries have no such file, and a process may end.
        if let Ok(stat) = fs::read_to_string(process?.path().join("stat"))
            && stat.contains(&format!("({name})"))
        {
            all += time_in(&stat, 4)?;
        }
    }
    Ok(all)
}

/// Sum of the first of utime, stime, cutime and cstime in `/proc/PID/stat`.
fn time_in(stat: &str, times: usize) -> Result<Duration> {
    let (_, fields) = stat.rsplit_once(')').context("no stat")?;
    let mut all = Duration::ZERO;
    for ticks in fields.split_whitespace().skip(11).take(times) {
        // Hundredths of a second on every Linux there is.
        all += Duration::from_millis(10) * ticks.parse::<u32>()?;
    }
    Ok(all)
}

/// CPU time since `before` by each of `runs` that ended in `seconds`. The second of the warm-up is in the CPU time and
/// not in the count: it is taken for one like the others.
pub(crate) fn cpu_each(node: &Node, before: Duration, runs: usize, seconds: u64) -> Result<Duration> {
    let used = cpu(node)?.saturating_sub(before);
    let (runs, seconds) = (u32::try_from(runs)?, u32::try_from(seconds)?);
    Ok((used * seconds / (seconds + 1)) / runs.max(1))
}

/// Runs a program to its end.
#[expect(
    clippy::disallowed_methods,
    reason = "the bare spawn is what the sandbox is compared with"
)]
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    Ok(())
}
