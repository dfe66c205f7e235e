//! Control group of each run, if the host provides one: memory and process limits that the kernel enforces, and a share of the
//! processor below the engine's.
//!
//! Version 2 is tried first, then version 1. The launcher joins the group before it confines itself, through descriptors that the
//! engine opened; everything it starts inherits the group.

mod v1;
mod v2;

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    process::{Pid, Signal, kill_process},
};

use crate::{hosts, types::Limits};

/// Prefix of the names of our groups, followed by the engine's process id and a number.
const PREFIX: &str = "sortie-run-";

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Hierarchy in which groups for runs can be created.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    kind: Kind,
    /// Groups that still contained a dying process at the end of their run.
    left: Mutex<Vec<PathBuf>>,
}

#[derive(Debug)]
enum Kind {
    V2(v2::Base),
    V1(v1::Bases),
}

/// The group of one run; removed on drop.
#[derive(Debug)]
pub(crate) struct RunGroup {
    hierarchy: Arc<Hierarchy>,
    memory: PathBuf,
    /// Groups of the same run in other hierarchies.
    others: Vec<PathBuf>,
}

impl Hierarchy {
    /// Finds where groups can be created, or returns the reason why none can.
    pub(crate) fn find() -> Result<Arc<Self>, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let kind = match v2::find(&mounts, &own) {
            Ok(base) => Kind::V2(base),
            Err(no_v2) => Kind::V1(v1::find(&mounts, &own).ok_or(no_v2)?),
        };
        let hierarchy = Arc::new(Self {
            kind,
            left: Mutex::default(),
        });
        hierarchy.sweep();
        let limits = Limits::default();
        match hierarchy.create(&limits) {
            Ok(_group) => {}
            Err(error) => {
                return Err(format!(
                    "a memory cgroup cannot be made here ({})",
                    hosts::words(&error)
                ));
            }
        }
        Ok(hierarchy)
    }

    /// Whether the kernel gives each run a share of the processor below the engine's.
    pub(crate) fn weighs(&self) -> bool {
        match &self.kind {
            Kind::V2(base) => base.weighs,
            Kind::V1(bases) => bases.cpu.is_some(),
        }
    }

    /// Creates the group of a run.
    pub(crate) fn create(self: &Arc<Self>, limits: &Limits) -> io::Result<RunGroup> {
        self.retry_removals();
        let name = format!(
            "{PREFIX}{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        // Init and outer are in the group, too.
        let processes = u64::from(limits.processes) + 2;
        let base = match &self.kind {
            Kind::V2(base) => &base.folder,
            Kind::V1(bases) => &bases.memory,
        };
        let mut group = RunGroup {
            hierarchy: Arc::clone(self),
            memory: make(base, &name)?,
            others: Vec::new(),
        };
        match &self.kind {
            Kind::V2(base) => {
                v2::limit(&group.memory, limits.memory_bytes, processes)?;
                if base.weighs {
                    write(&group.memory, "cpu.weight", v2::WEIGHT)?;
                }
            }
            Kind::V1(bases) => {
                v1::limit_memory(&group.memory, limits.memory_bytes)?;
                if let Some(pids) = &bases.pids {
                    group.others.push(make(pids, &name)?);
                    write(&pids.join(&name), "pids.max", processes)?;
                }
                if let Some(cpu) = &bases.cpu {
                    group.others.push(make(cpu, &name)?);
                    write(&cpu.join(&name), "cpu.shares", v1::SHARES)?;
                }
            }
        }
        Ok(group)
    }

    /// Removes the groups of engines that have exited.
    fn sweep(&self) {
        let bases: Vec<&Path> = match &self.kind {
            Kind::V2(base) => vec![&base.folder],
            Kind::V1(bases) => std::iter::once(&bases.memory)
                .chain(&bases.pids)
                .chain(&bases.cpu)
                .map(PathBuf::as_path)
                .collect(),
        };
        for entry in bases
            .iter()
            .filter_map(|base| fs::read_dir(base).ok())
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let engine = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            if engine.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                self.remove(&entry.path());
            }
        }
    }

    fn retry_removals(&self) {
        let left = std::mem::take(&mut *self.left.lock());
        for group in &left {
            self.remove(group);
        }
    }

    /// Removes a group and kills its remaining processes. The kernel may need a moment; the removal is then retried later.
    fn remove(&self, group: &Path) {
        match fs::remove_dir(group) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_busy) => {
                kill_members(group);
                self.left.lock().push(group.to_owned());
            }
        }
    }
}

impl RunGroup {
    /// Opens the files that a process writes "0" to in order to join.
    pub(crate) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        std::iter::once(&self.memory)
            .chain(&self.others)
            .map(|group| {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                Ok(openat(CWD, group.join("cgroup.procs"), flags, Mode::empty())?)
            })
            .collect()
    }

    /// Returns the number of times that the kernel has killed because of the memory limit.
    pub(crate) fn memory_kills(&self) -> u64 {
        let file = if self.is_v2() {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        fs::read_to_string(self.memory.join(file)).map_or(0, |text| counter(&text, "oom_kill"))
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        let file = if self.is_v2() {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        };
        fs::read_to_string(self.memory.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    fn is_v2(&self) -> bool {
        matches!(self.hierarchy.kind, Kind::V2(_))
    }
}

impl Drop for RunGroup {
    fn drop(&mut self) {
        self.hierarchy.remove(&self.memory);
        for group in &self.others {
            self.hierarchy.remove(group);
        }
    }
}

fn make(base: &Path, name: &str) -> io::Result<PathBuf> {
    let group = base.join(name);
    fs::create_dir(&group)?;
    Ok(group)
}

/// Creates the common group of all runs, unless it exists.
fn make_common(base: &Path, name: &str) -> io::Result<PathBuf> {
    match make(base, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(base.join(name)),
        made => made,
    }
}

fn write(group: &Path, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
    fs::write(group.join(file), value.to_string())
}

/// Normally empty by now: the launcher is awaited first.
fn kill_members(group: &Path) {
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in fs::read_to_string(group.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
    {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _already_ended = kill_process(pid, Signal::KILL);
        }
    }
}

/// The value of a line "name value".
fn counter(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .map_or(0, |(_, value)| value.trim().parse().unwrap_or(0))
}

/// Mount from a line of `mountinfo`: mount point, root of the mount, and superblock options.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
        Some(Mount {
            root,
            point,
            kind,
            options,
        })
    })
}

/// The directory of our own group: the path `own` from `/proc/self/cgroup`, below the mount.
fn directory(mount: &Mount<'_>, own: &str) -> PathBuf {
    let inside = own.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(own);
    Path::new(mount.point).join(inside.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_group_is_found_below_what_is_mounted() {
        let line = "35 24 0:30 /outer /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
        let mount = mounts(line).next().unwrap();
        assert_eq!((mount.kind, mount.options), ("cgroup", "rw,memory"));
        assert_eq!(
            directory(&mount, "/outer/inner"),
            Path::new("/sys/fs/cgroup/memory/inner")
        );
        assert_eq!(directory(&mount, "/outer"), Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn a_counter_is_read_by_its_whole_name() {
        assert_eq!(counter("oom 7\noom_kill 3\noom_group_kill 1\n", "oom_kill"), 3);
        assert_eq!(counter("low 0\n", "oom_kill"), 0);
    }
}
