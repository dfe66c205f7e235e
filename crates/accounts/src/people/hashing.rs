//! Password hashing: Argon2id on a few blocking threads.
//!
//! A hash takes 19 MiB and about 50 ms of CPU time. Slots bound both: the number of concurrent hashes is the number of cores, at
//! most four. A bounded number of callers wait for a slot, and further ones are refused.

use std::{
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use super::{metrics::Metrics, rules};
use crate::Result;
use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use sortie_api::{Credential, ErrorCode, Refusal};
use sortie_base::random;
use tokio::sync::Semaphore;

/// Maximum number of concurrent hashes.
const MOST_SLOTS: usize = 4;

/// Maximum number of callers that wait for a slot.
const MOST_WAITING: usize = 64;

/// Memory of a hash, in KiB.
const MEMORY: u32 = 19 * 1024;
/// Passes over the memory.
const PASSES: u32 = 2;
/// Lanes of the memory.
const LANES: u32 = 1;

/// Hash that matches no password. A sign-in to an unknown address is compared with it, so that it takes as long as any other.
pub(crate) const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c29ydGllLW5vYm9keS1hdC1hbGw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Slots for work on blocking threads, with a bounded queue before them.
#[derive(Clone)]
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
    metrics: Metrics,
}

/// Caller that waits for a slot. Dropping it leaves the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slots {
    /// Slots of this machine.
    pub(crate) fn of_machine(metrics: Metrics) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::new(cores.min(MOST_SLOTS), MOST_WAITING, metrics)
    }

    fn new(slots: usize, most_waiting: usize, metrics: Metrics) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(slots)),
            waiting: Arc::default(),
            most_waiting,
            metrics,
        }
    }

    /// Runs `work` on a blocking thread once a slot is free. Returns `Unavailable` if the queue is full.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let began = Instant::now();
        let slot = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => self.wait().await?,
        };
        self.metrics.hash_began(began.elapsed());
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // Keep the slot until the work is done, even if the caller is gone.
            drop(slot);
            done
        });
        done.await.map_err(Refusal::internal)?
    }

    async fn wait(&self) -> Result<tokio::sync::OwnedSemaphorePermit> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.most_waiting {
            self.metrics.hash_refused();
            return Err(ErrorCode::Unavailable.because("too many sign-ins at once, retry later"));
        }
        let slot = Arc::clone(&self.permits).acquire_owned().await;
        slot.map_err(Refusal::internal)
    }

    /// Hashes a password. Returns a PHC string.
    pub(crate) async fn hash(&self, password: Credential) -> Result<String> {
        let salt = random()?;
        self.run(move || hash(password.expose(), salt)).await
    }

    /// Checks the new password in a field of a person with this address and name, and hashes it. Returns a PHC string.
    pub(crate) async fn hash_new(
        &self,
        field: &'static str,
        password: Credential,
        person: [String; 2],
    ) -> Result<String> {
        rules::password_length(field, password.expose())?;
        let salt = random()?;
        self.run(move || {
            rules::password_strength(field, password.expose(), &person.each_ref().map(String::as_str))?;
            hash(password.expose(), salt)
        })
        .await
    }

    /// Compares a password with a hash, given as a PHC string.
    pub(crate) async fn matches(&self, password: Credential, expected: String) -> Result<bool> {
        self.run(move || matches(password.expose(), &expected)).await
    }
}

fn argon2() -> Result<Argon2<'static>> {
    let params = Params::new(MEMORY, PASSES, LANES, None).map_err(internal)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash(password: &str, salt: [u8; 16]) -> Result<String> {
    let hashed = argon2()?.hash_password_with_salt(password.as_bytes(), &salt);
    Ok(hashed.map_err(internal)?.to_string())
}

fn matches(password: &str, expected: &str) -> Result<bool> {
    // An account that the operator created has no password yet.
    let expected = if expected.is_empty() { NOBODYS } else { expected };
    match argon2()?.verify_password(password.as_bytes(), expected) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(internal(error)),
    }
}

/// Whether a hash has other parameters than new hashes: the next sign-in replaces it then.
pub(crate) fn is_outdated(hash: &str) -> bool {
    let current = |hash: PasswordHash| {
        let params = Params::try_from(&hash).ok()?;
        let same = (params.m_cost(), params.t_cost(), params.p_cost()) == (MEMORY, PASSES, LANES);
        Some(same && hash.algorithm == Algorithm::Argon2id.ident() && hash.version == Some(19))
    };
    PasswordHash::new(hash).ok().and_then(current) != Some(true)
}

fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::internal(format!("cannot compute the hash of a password: {error}"))
}

/// Hash of a password with weaker parameters than new hashes have.
#[cfg(test)]
pub(crate) fn weaker(password: &str) -> String {
    let params = Params::new(8 * 1024, 1, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hashed = argon2.hash_password_with_salt(password.as_bytes(), &[7; 16]);
    hashed.unwrap().to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::future::join_all;

    use super::*;

    fn slots(slots: usize, waiting: usize) -> Slots {
        Slots::new(slots, waiting, Metrics::default())
    }

    #[test]
    fn a_password_has_its_hash_and_no_other_one_has_it() {
        let hashed = hash("correct horse battery", [7; 16]).unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hashed}");
        assert!(matches("correct horse battery", &hashed).unwrap());
        assert!(!matches("correct horse batterY", &hashed).unwrap());
        assert!(!matches("", NOBODYS).unwrap() && !matches("", "").unwrap());
        assert!(matches("x", "no hash").is_err());
        assert!(!is_outdated(&hashed) && !is_outdated(NOBODYS));
        let weaker = weaker("x");
        assert!(is_outdated(&weaker) && is_outdated("no hash"));
        assert!(matches("x", &weaker).unwrap());
    }

    #[tokio::test]
    async fn as_many_run_as_there_are_slots_and_more_than_the_queue_are_refused() {
        let slots = slots(2, 3);
        let running = Arc::new(AtomicUsize::new(0));
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Arc::new(parking_lot::Mutex::new(blocked));
        let work = || {
            let (running, blocked) = (Arc::clone(&running), Arc::clone(&blocked));
            slots.run(move || {
                let most = running.fetch_add(1, Ordering::SeqCst) + 1;
                blocked.lock().recv().unwrap();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(most)
            })
        };
        // Each future of the list is polled once, in order, before the first one is released.
        let releases = async {
            for _ in 0..5 {
                release.send(()).unwrap();
            }
        };
        let (done, ()) = tokio::join!(join_all((0..7).map(|_| work())), releases);
        let refused = done.iter().filter(|done| done.is_err()).count();
        assert_eq!(refused, 2, "{done:?}");
        assert!(
            matches!(&done[5], Err(refused) if refused.code == ErrorCode::Unavailable),
            "{done:?}"
        );
        assert!(done.iter().flatten().all(|most| *most <= 2), "{done:?}");
        assert_eq!(slots.waiting.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_caller_that_goes_leaves_the_queue_and_its_slot_when_the_work_is_done() {
        let slots = slots(1, 1);
        let (release, blocked) = mpsc::channel::<()>();
        let first = slots.run(move || {
            blocked.recv().unwrap();
            Ok(())
        });
        let first = Box::pin(first);
        let mut gone = Box::pin(slots.run(|| Ok(())));
        let pending = futures_util::future::select(first, &mut gone);
        assert!(futures_util::FutureExt::now_or_never(pending).is_none());
        // The waiting caller occupies the queue until it is dropped.
        assert!(slots.run(|| Ok(())).await.is_err());
        drop(gone);
        release.send(()).unwrap();
        slots.run(|| Ok(())).await.unwrap();
    }
}
