//! Host users of runs, a separate one for each, if the engine is root.
//!
//! A command must never run as the host's root, even without capabilities: it could read files that only root may read, and the
//! kernel does not count root's processes. Each run gets a user id that no other run of the host has at the same time: a process
//! takes blocks of ids as it needs them (an abstract socket is the lock of one and disappears when the process dies), and a run
//! takes a slot of a block.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::{Arc, OnceLock},
};

use parking_lot::{Mutex, MutexGuard};
use rustix::thread::CapabilitySet;

/// Ids in one block: few enough that many engines find room on one host, many enough that most need one block.
const BLOCK: u32 = 4_096;
/// First ids of blocks, and the number of blocks: above the ids of people and packages, or, in a container that maps only 65,536
/// ids, in their upper part.
const RANGES: [(u32, u32); 2] = [(200_000, 64), (40_000, 6)];

/// The ids that this process may assign to runs.
#[derive(Debug)]
struct Pool {
    /// The first ids of blocks that this host maps, in the order in which they are tried.
    candidates: Vec<u32>,
    /// Blocks taken so far. A block is kept to the end of the process, so that an id is not reused immediately.
    blocks: Mutex<Vec<Arc<Block>>>,
}

/// Ids that belong to this process as long as it holds the lock.
#[derive(Debug)]
struct Block {
    first: u32,
    slots: Mutex<Slots>,
    _lock: OwnedFd,
}

#[derive(Debug, Default)]
struct Slots {
    next: u32,
    used: BTreeSet<u32>,
}

/// The user and group id of one run; released on drop.
#[derive(Debug)]
pub(crate) struct RunUid {
    slot: u32,
    block: Arc<Block>,
}

impl RunUid {
    /// An id for a new run, or `None` if the engine is not root or may not change users.
    pub(crate) fn acquire() -> io::Result<Option<Arc<Self>>> {
        static POOL: OnceLock<Option<Pool>> = OnceLock::new();
        match POOL.get_or_init(Pool::of_host) {
            Some(pool) => pool.acquire().map(|uid| Some(Arc::new(uid))),
            None => Ok(None),
        }
    }

    pub(crate) fn uid(&self) -> u32 {
        self.block.first + self.slot
    }
}

/// Whether a user id may have been assigned to a run by a root engine of this host.
pub(crate) fn is_of_a_run(uid: u32) -> bool {
    RANGES
        .into_iter()
        .any(|(base, blocks)| (base..base + blocks * BLOCK).contains(&uid))
}

impl Drop for RunUid {
    fn drop(&mut self) {
        self.block.slots().used.remove(&self.slot);
    }
}

impl Pool {
    /// The pool of a root engine; `None` if no ids are mapped, or if the engine may not change users.
    fn of_host() -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !may_change_users() {
            return None;
        }
        let maps = [
            fs::read_to_string("/proc/self/uid_map").ok()?,
            fs::read_to_string("/proc/self/gid_map").ok()?,
        ];
        let candidates: Vec<u32> = RANGES
            .into_iter()
            .flat_map(|(base, blocks)| (0..blocks).map(move |block| base + block * BLOCK))
            .filter(|first| maps.iter().all(|map| is_mapped(map, *first, BLOCK)))
            .collect();
        (!candidates.is_empty()).then(|| Self::new(candidates))
    }

    const fn new(candidates: Vec<u32>) -> Self {
        Self {
            candidates,
            blocks: Mutex::new(Vec::new()),
        }
    }

    fn acquire(&self) -> io::Result<RunUid> {
        let mut blocks = self.blocks.lock();
        if let Some(uid) = blocks.iter().find_map(Block::acquire) {
            return Ok(uid);
        }
        // The kernel refuses a block that this process already holds, just as one of another engine.
        for first in &self.candidates {
            if let Ok(lock) = lock(*first) {
                let block = Arc::new(Block {
                    first: *first,
                    slots: Mutex::default(),
                    _lock: lock,
                });
                blocks.push(Arc::clone(&block));
                if let Some(uid) = Block::acquire(&block) {
                    return Ok(uid);
                }
            }
        }
        Err(io::Error::other(
            "all user ids for runs are in use, here and in other engines of this host",
        ))
    }
}

impl Block {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock()
    }

    /// A free id, round robin, so that it is reused as late as possible.
    fn acquire(self: &Arc<Self>) -> Option<RunUid> {
        let mut slots = self.slots();
        if slots.used.len() >= usize::try_from(BLOCK).unwrap_or(0) {
            return None;
        }
        let next = slots.next;
        let slot = (next..BLOCK)
            .chain(0..next)
            .find(|slot| !slots.used.contains(slot))?;
        slots.used.insert(slot);
        slots.next = (slot + 1) % BLOCK;
        Some(RunUid {
            slot,
            block: Arc::clone(self),
        })
    }
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

/// Whether a user namespace's map contains all of `first..first + count`.
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
    fn the_ids_of_runs_are_told_from_those_of_people_and_of_root() {
        assert!(
            [200_000, 200_000 + 64 * BLOCK - 1, 40_000]
                .into_iter()
                .all(is_of_a_run)
        );
        assert!(
            ![0, 1_000, 65_534, 199_999, 200_000 + 64 * BLOCK]
                .into_iter()
                .any(is_of_a_run)
        );
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

    #[test]
    fn further_blocks_are_taken_when_one_is_full_and_an_error_says_when_all_are() {
        // Above every range that an engine uses, and different from those of this test in another process.
        let base = 3_000_000_000 + std::process::id() % 50_000 * 4 * BLOCK % 1_000_000_000;
        let candidates: Vec<u32> = (0..3).map(|block| base + block * BLOCK).collect();
        let pool = Pool::new(candidates.clone());
        let mut held: Vec<_> = (0..=BLOCK).map(|_| pool.acquire().unwrap()).collect();
        let distinct: BTreeSet<_> = held.iter().map(RunUid::uid).collect();
        assert_eq!(distinct.len(), held.len());
        assert_eq!(pool.blocks.lock().len(), 2);

        let other = Pool::new(candidates);
        let theirs = other.acquire().unwrap();
        assert!(
            theirs.uid() >= 3_000_000_000 + 2 * BLOCK,
            "each block has one owner"
        );
        held.extend((1..BLOCK).map(|_| pool.acquire().unwrap()));
        assert!(pool.acquire().unwrap_err().to_string().contains("all user ids"));

        let freed = held.pop().map(|uid| uid.uid());
        assert_eq!(pool.acquire().map(|uid| uid.uid()).ok(), freed);
    }
}
