//! Kernel figures of a node's process.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use sortie_testkit::Node;

/// Returns a line of `/proc/PID/status`, converted from KiB to bytes.
fn status(node: &Node, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .with_context(|| format!("no {name}"))?;
    let kib: u64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
    Ok(kib * 1024)
}

/// Returns the resident memory, in bytes.
pub(crate) fn resident(node: &Node) -> Result<u64> {
    status(node, "VmRSS:")
}

/// Returns the anonymous resident memory, without mapped files, in bytes.
pub(crate) fn private(node: &Node) -> Result<u64> {
    status(node, "RssAnon:")
}

/// Returns the maximum resident memory so far, in bytes.
pub(crate) fn highest(node: &Node) -> Result<u64> {
    status(node, "VmHWM:")
}

/// Returns the number of open files, including sockets.
pub(crate) fn open_files(node: &Node) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", node.pid()?))?.count())
}

/// Returns the CPU time of all threads.
pub(crate) fn cpu(node: &Node) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.pid()?))?;
    time_in(&stat, 2)
}

/// Returns the CPU time of all processes with this name, including that of their exited children.
pub(crate) fn cpu_of_all(name: &str) -> Result<Duration> {
    let mut all = Duration::ZERO;
    for process in fs::read_dir("/proc")? {
        // Other entries have no such file, and a process may exit.
        if let Ok(stat) = fs::read_to_string(process?.path().join("stat"))
            && stat.contains(&format!("({name})"))
        {
            all += time_in(&stat, 4)?;
        }
    }
    Ok(all)
}

/// Returns the sum of the first `times` of utime, stime, cutime and cstime in `/proc/PID/stat`.
fn time_in(stat: &str, times: usize) -> Result<Duration> {
    let (_, fields) = stat.rsplit_once(')').context("no stat")?;
    let mut all = Duration::ZERO;
    for ticks in fields.split_whitespace().skip(11).take(times) {
        // Hundredths of a second on every Linux.
        all += Duration::from_millis(10) * ticks.parse::<u32>()?;
    }
    Ok(all)
}

/// Returns the CPU time since `before` for each of `runs` that ended in `seconds`. The CPU time includes the second of the
/// warm-up, but the count does not, so we assume an equal rate in that second.
pub(crate) fn cpu_each(node: &Node, before: Duration, runs: usize, seconds: u64) -> Result<Duration> {
    let used = cpu(node)?.saturating_sub(before);
    let (runs, seconds) = (u32::try_from(runs)?, u32::try_from(seconds)?);
    Ok((used * seconds / (seconds + 1)) / runs.max(1))
}

/// Runs a program until it exits.
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
