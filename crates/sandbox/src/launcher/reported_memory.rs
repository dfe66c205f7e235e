//! Answers to `sysinfo`: the run's memory limit as the memory of the machine.
//!
//! Runtimes size their heaps by it. Otherwise the Java virtual machine would size its heap at a quarter of the host's memory, not
//! collect before that, and be killed at the limit.

use std::{fs::OpenOptions, os::unix::fs::FileExt};

use rustix::{
    process::Pid,
    system::sysinfo,
    time::{ClockId, clock_gettime},
};

/// Size of the kernel's `struct sysinfo` on 64-bit architectures.
const BYTES: usize = 112;

/// The machine as reported to the processes of a run.
pub(super) struct ReportedMemory {
    /// Load averages, as the kernel writes them.
    loads: [u64; 3],
    total: u64,
    free: u64,
    processes: u16,
}

impl ReportedMemory {
    /// Reads the figures of the host. Call it before the filter is installed that asks about `sysinfo`.
    pub(super) fn limited_to(limit: u64) -> Self {
        let host = sysinfo();
        let unit = u64::from(host.mem_unit);
        let bytes = |count: u64| count.saturating_mul(unit).min(limit);
        Self {
            loads: host.loads,
            total: bytes(host.totalram),
            free: bytes(host.freeram),
            processes: host.procs,
        }
    }

    /// Writes the answer into the memory of the asking thread. `is_asking` returns whether that is still the same thread.
    pub(super) fn tell(
        &self,
        thread: Pid,
        address: u64,
        is_asking: impl FnOnce() -> bool,
    ) -> std::io::Result<()> {
        let memory = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{}/mem", thread.as_raw_nonzero()))?;
        if !is_asking() {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        memory.write_all_at(&self.answer(), address)
    }

    /// The structure in the kernel's layout: 64-bit numbers, except for the processes and the unit.
    fn answer(&self) -> Vec<u8> {
        let uptime = u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).unwrap_or(0);
        let [one, five, fifteen] = self.loads;
        // Shared and buffered memory and swap follow the free memory.
        let numbers = [uptime, one, five, fifteen, self.total, self.free, 0, 0, 0, 0];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(u64::from(self.processes).to_le_bytes());
        // High memory, which 64-bit architectures do not have, and the unit of all sizes.
        bytes.extend([0, 0, 1].into_iter().flat_map(u64::to_le_bytes));
        bytes.resize(BYTES, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use libc::sysinfo as Layout;

    use super::*;

    #[test]
    fn the_answer_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<rustix::system::Sysinfo>(), BYTES);
        let reported = ReportedMemory {
            loads: [1, 2, 3],
            total: 1 << 30,
            free: 1 << 29,
            processes: 7,
        };
        let bytes = reported.answer();
        assert_eq!(bytes.len(), BYTES);
        let number = |at: usize| u64::from_ne_bytes(bytes.get(at..at + 8).unwrap().try_into().unwrap());
        assert!(number(offset_of!(Layout, uptime)) > 0);
        assert_eq!(number(offset_of!(Layout, loads) + 16), 3);
        assert_eq!(number(offset_of!(Layout, totalram)), 1 << 30);
        assert_eq!(number(offset_of!(Layout, freeram)), 1 << 29);
        assert_eq!(number(offset_of!(Layout, freeswap)), 0);
        assert_eq!(bytes.get(offset_of!(Layout, procs)), Some(&7));
        assert_eq!(number(offset_of!(Layout, freehigh)), 0);
        assert_eq!(bytes.get(offset_of!(Layout, mem_unit)), Some(&1));
    }

    #[test]
    fn a_limit_above_the_memory_of_the_host_changes_nothing() {
        let host = sysinfo();
        let total = host.totalram * u64::from(host.mem_unit);
        assert_eq!(ReportedMemory::limited_to(u64::MAX).total, total);
        assert_eq!(ReportedMemory::limited_to(1 << 20).total, 1 << 20);
    }
}
