//! One host user per run, where the engine is root.
//!
//! A command must never run as the host's root, even without capabilities: it could read what only root may
//! read, and the kernel does not count root's processes. Each run gets a user id that no other run of the host
//! has at the same time: a process takes a block of ids (an abstract socket is the lock; it goes when the process
//! dies), and a run takes a slot of the block.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use rustix::thread::CapabilitySet;

/// Ids in one block, hence runs of one process at once.
const BLOCK: u32 = 4_096;
/// Where blocks start, and how many there are: beyond the ids of people and packages, or, in a container that maps
/// only 65,536 ids, in their upper part.
const RANGES: [(u32, u32); 2] = [(200_000, 64), (40_000, 6)];

struct Block {
    first: u32,
    slots: Mutex<Slots>,
    _lock: OwnedFd,
}

#[derive(Default)]
struct Slots {
    next: u32,
    used: BTreeSet<u32>,
}

static TAKEN: OnceLock<Option<Block>> = OnceLock::new();

/// The user and group id of one run; free again when dropped.
#[derive(Debug)]
pub(crate) struct RunUid(u32);

impl RunUid {
    /// An id for a new run, or none where the engine is not root or may not change users.
    pub(crate) fn acquire() -> io::Result<Option<Arc<Self>>> {
        let Some(block) = TAKEN.get_or_init(take_block) else {
            return Ok(None);
        };
        let mut slots = block.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Round robin: an id rests as long as possible before another run gets it.
        for step in 0..BLOCK {
            let slot = (slots.next + step) % BLOCK;
            if slots.used.insert(slot) {
                slots.next = slot + 1;
                return Ok(Some(Arc::new(Self(block.first + slot))));
            }
        }
        Err(io::Error::other("all user ids for runs are in use"))
    }

    pub(crate) fn uid(&self) -> u32 {
        self.0
    }
}

impl Drop for RunUid {
    fn drop(&mut self) {
        if let Some(Some(block)) = TAKEN.get() {
            let mut slots = block.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.used.remove(&(self.0 - block.first));
        }
    }
}

fn take_block() -> Option<Block> {
    if !rustix::process::geteuid().is_root() || !may_change_users() {
        return None;
    }
    let maps = [
        fs::read_to_string("/proc/self/uid_map").ok()?,
        fs::read_to_string("/proc/self/gid_map").ok()?,
    ];
    for (base, blocks) in RANGES {
        for first in (0..blocks).map(|block| base + block * BLOCK) {
            if maps.iter().all(|map| is_mapped(map, first, BLOCK))
                && let Ok(lock) = lock(first)
            {
                return Some(Block {
                    first,
                    slots: Mutex::default(),
                    _lock: lock,
                });
            }
        }
    }
    None
}

fn may_change_users() -> bool {
    let needed = CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::CHOWN
        | CapabilitySet::FOWNER
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::KILL;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn lock(first: u32) -> io::Result<OwnedFd> {
    let address = SocketAddr::from_abstract_name(format!("sortie-run-uids-{first}"))?;
    Ok(UnixListener::bind_addr(&address)?.into())
}

/// Whether a user namespace's map has all of `first..first + count`.
fn is_mapped(map: &str, first: u32, count: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line
            .split_whitespace()
            .map(|number| number.parse::<u64>().unwrap_or(0));
        let (start, _outside, length) = (numbers.next(), numbers.next(), numbers.next());
        let (start, length) = (start.unwrap_or(0), length.unwrap_or(0));
        start <= u64::from(first) && u64::from(first) + u64::from(count) <= start + length
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_mapped_only_when_all_of_it_is() {
        assert!(is_mapped("         0          0 4294967295\n", 200_000, BLOCK));
        assert!(!is_mapped("         0     100000      65536\n", 200_000, BLOCK));
        assert!(is_mapped("         0     100000      65536\n", 40_000, BLOCK));
        assert!(!is_mapped("         0       1000          1\n", 40_000, BLOCK));
        assert!(!is_mapped("0 0 200001\n", 200_000, BLOCK));
    }

    #[test]
    fn two_runs_at_once_never_share_a_user() {
        let held: Vec<_> = (0..64).map(|_| RunUid::acquire().unwrap()).collect();
        if !rustix::process::geteuid().is_root() {
            assert!(held.iter().all(Option::is_none), "only root has users to give");
            return;
        }
        let distinct: BTreeSet<_> = held.iter().flatten().map(|uid| uid.uid()).collect();
        assert_eq!(distinct.len(), 64);
        assert!(!distinct.contains(&0));
    }
}
