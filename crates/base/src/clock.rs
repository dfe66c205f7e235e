//! Time and randomness, injected, so that tests can move the one and fix the other.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sortie_api::Timestamp;
use tokio::time::Instant;

/// Maximum distance of two clock readings that count as one moment.
const ONE_MOMENT: Duration = Duration::from_micros(100);
/// Maximum number of attempts to read two clocks within [`ONE_MOMENT`].
const READINGS: usize = 5;

/// Time for which a node uses a look-up of a credential again. Another node may have ended the credential since.
pub const CREDENTIAL_LOOKUP: Duration = Duration::from_secs(5);

/// Source of the time of a node.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
    /// A clock that several nodes share.
    Shared(Arc<dyn Fn() -> Timestamp + Send + Sync>),
    /// A clock that advances with the time of the runtime.
    #[cfg(any(test, feature = "simulation"))]
    Going(Arc<AtomicI64>, Instant),
}

impl Clock {
    /// The machine's clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `at` until [`set`](Self::set) moves it.
    pub fn manual(at: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(at.as_micros()))))
    }

    /// A clock that several nodes share, which `now` reads.
    pub fn shared(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Shared(Arc::new(now)))
    }

    /// A clock that stands at `at` now, and goes on evenly with the time of the runtime.
    #[cfg(any(test, feature = "simulation"))]
    pub fn going(at: Timestamp) -> Self {
        Self(Source::Going(
            Arc::new(AtomicI64::new(at.as_micros())),
            Instant::now(),
        ))
    }

    /// Moves a clock that goes on by itself, forward or back.
    #[cfg(any(test, feature = "simulation"))]
    pub fn step(&self, by: i64) {
        if let Source::Going(micros, _) = &self.0 {
            micros.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Moves a manual clock; the machine's clock cannot be moved.
    pub fn set(&self, at: Timestamp) {
        if let Source::Manual(micros) = &self.0 {
            micros.store(at.as_micros(), Ordering::SeqCst);
        }
    }

    /// The time now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the machine's clock is read"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
            Source::Shared(now) => now(),
            #[cfg(any(test, feature = "simulation"))]
            Source::Going(micros, began) => {
                Timestamp::from_micros(micros.load(Ordering::SeqCst)) + began.elapsed()
            }
        }
    }

    /// Returns the time now, and the same moment on the monotonic clock. Displayed times come from the one and charges
    /// from the other, so the two must not drift apart when a thread loses its core between the readings.
    pub fn moment(&self) -> (Timestamp, Instant) {
        closest(|| {
            let at = Instant::now();
            let now = self.now();
            (at.elapsed(), (now, at))
        })
    }
}

/// Reads up to [`READINGS`] times and returns the value with the smallest distance. Each reading returns its distance.
fn closest<T>(mut read: impl FnMut() -> (Duration, T)) -> T {
    let mut best = read();
    for _ in 1..READINGS {
        if best.0 <= ONE_MOMENT {
            break;
        }
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock(system)",
            Source::Manual(_) => "Clock(manual)",
            Source::Shared(_) => "Clock(shared)",
            #[cfg(any(test, feature = "simulation"))]
            Source::Going(..) => "Clock(going)",
        })
    }
}

/// Error of a kernel that gives no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel gives no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

/// Returns `N` unpredictable bytes from the kernel.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closest_of(micros: &[u64]) -> (usize, usize) {
        let mut reads = 0;
        let nth = closest(|| {
            reads += 1;
            (Duration::from_micros(micros[reads - 1]), reads)
        });
        (nth, reads)
    }

    #[test]
    fn readings_that_were_torn_apart_are_made_again() {
        assert_eq!(closest_of(&[1]), (1, 1));
        assert_eq!(closest_of(&[100]), (1, 1));
        assert_eq!(closest_of(&[55_000, 2]), (2, 2));
        // Where the machine gives no closer ones, the closest count.
        assert_eq!(closest_of(&[900, 500, 101, 700, 800]), (3, 5));
    }

    #[test]
    fn a_moment_is_the_clocks_time() {
        let clock = Clock::manual(Timestamp::from_micros(7));
        let before = Instant::now();
        let (now, at) = clock.moment();
        assert_eq!(now.as_micros(), 7);
        assert!(before <= at && at <= Instant::now());
    }
}
