//! Time and randomness, which are injected so that tests can control both.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sortie_api::{Refusal, Timestamp};
use tokio::time::Instant;

/// Maximum distance of two clock readings that count as simultaneous.
const ONE_MOMENT: Duration = Duration::from_micros(100);
/// Maximum number of attempts to read two clocks within [`ONE_MOMENT`].
const READINGS: usize = 5;

/// Time for which a node caches the lookup of a credential. Another node may have revoked the credential since.
pub const CREDENTIAL_LOOKUP: Duration = Duration::from_secs(5);

/// Maximum tolerated difference of the machine's clock from the database's.
const MOST_OFF: Duration = Duration::from_mins(1);

/// Source of the time of a node. With a database server, all nodes use that server's time: a node with a wrong clock would delete
/// data that other nodes still need. Between two responses of the server the time advances with the monotonic clock, so steps of
/// the machine's clock have no effect.
///
/// Clones share one clock.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    database: Arc<DatabaseTime>,
}

/// Time of the database server, extrapolated with the monotonic clock.
struct DatabaseTime {
    began: Instant,
    /// The server's time at `began`, in microseconds, or [`UNKNOWN`].
    at_began: AtomicI64,
}

/// No server has reported its time.
const UNKNOWN: i64 = i64::MIN;

impl DatabaseTime {
    fn unknown() -> Self {
        Self {
            began: Instant::now(),
            at_began: AtomicI64::new(UNKNOWN),
        }
    }

    fn now(&self) -> Option<Timestamp> {
        let at_began = self.at_began.load(Ordering::SeqCst);
        (at_began != UNKNOWN).then(|| Timestamp::from_micros(at_began) + self.began.elapsed())
    }
}

/// Difference between the clocks of the machine and of the database that is too large to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockFault {
    /// Time by the machine's clock.
    pub own: Timestamp,
    /// Time by the database's clock.
    pub database: Timestamp,
}

impl fmt::Display for ClockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, database } = self;
        let (apart, side) = if own > database {
            (own.since(*database), "ahead of")
        } else {
            (database.since(*own), "behind")
        };
        write!(
            f,
            "this machine's clock is {} s {side} the database's ({own} and {database}); set the wrong one of them by NTP",
            apart.as_secs()
        )
    }
}

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
    /// A clock that advances with the time of the runtime.
    #[cfg(any(test, feature = "simulation"))]
    Going(Arc<AtomicI64>, Instant),
}

impl Clock {
    /// Uses the machine's clock until a database server has reported its time.
    pub fn system() -> Self {
        Self::of(Source::System)
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            database: Arc::new(DatabaseTime::unknown()),
        }
    }

    /// Creates a clock that stays at `at` until [`set`](Self::set) moves it.
    pub fn manual(at: Timestamp) -> Self {
        Self::of(Source::Manual(Arc::new(AtomicI64::new(at.as_micros()))))
    }

    /// Creates a clock that starts at `at` and advances with the time of the runtime.
    #[cfg(any(test, feature = "simulation"))]
    pub fn going(at: Timestamp) -> Self {
        Self::of(Source::Going(
            Arc::new(AtomicI64::new(at.as_micros())),
            Instant::now(),
        ))
    }

    /// Moves a clock that advances with the runtime, forward or back.
    #[cfg(any(test, feature = "simulation"))]
    pub fn step(&self, by: i64) {
        if let Source::Going(micros, _) = &self.source {
            micros.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Moves a manual clock; the machine's clock cannot be moved.
    pub fn set(&self, at: Timestamp) {
        if let Source::Manual(micros) = &self.source {
            micros.store(at.as_micros(), Ordering::SeqCst);
        }
    }

    /// The current time: the database server's if it has reported one, otherwise the machine's. A manual clock has its own time.
    pub fn now(&self) -> Timestamp {
        let database = match self.source {
            Source::Manual(_) => None,
            Source::System => self.database.now(),
            #[cfg(any(test, feature = "simulation"))]
            Source::Going(..) => self.database.now(),
        };
        database.unwrap_or_else(|| self.own())
    }

    /// The current time of the database server. `None` if no server has reported it.
    pub fn database(&self) -> Option<Timestamp> {
        self.database.now()
    }

    /// Adopts the time that the database server has returned for a request sent at `sent`. Returns the difference from the
    /// expected time. A large one means that the server changed, or its clock was set.
    ///
    /// The server read its clock after `sent`, so this clock can be slow by up to the round-trip time, and is never fast. A time
    /// that is consistent with the response is kept: a late response moves nothing.
    pub fn follow(&self, told: Timestamp, sent: Instant) -> Duration {
        let (answered_in, now) = (sent.elapsed(), self.database.now());
        let step = now.map_or(Duration::ZERO, |now| apart(now, told));
        if now.is_none_or(|now| now < told || now > told + answered_in) {
            let began = i64::try_from(self.database.began.elapsed().as_micros()).unwrap_or(i64::MAX);
            let at_began = told.as_micros().saturating_sub(began);
            self.database.at_began.store(at_began, Ordering::SeqCst);
        }
        step
    }

    /// Returns the offset of the machine's clock from the database's, in microseconds, positive if it is ahead. Zero if no server
    /// has reported its time.
    pub fn offset(&self) -> i64 {
        let (own, database) = (self.own(), self.database.now());
        database.map_or(0, |database| own.as_micros().saturating_sub(database.as_micros()))
    }

    /// Returns the fault if the clocks of the machine and of the database differ by more than a minute. We do not know which one
    /// is wrong, so the caller must not delete or start anything by the clock.
    pub fn fault(&self) -> Option<ClockFault> {
        let (own, database) = match self.source {
            Source::Manual(_) => return None,
            Source::System => (self.own(), self.database.now()?),
            #[cfg(any(test, feature = "simulation"))]
            Source::Going(..) => (self.own(), self.database.now()?),
        };
        (apart(own, database) > MOST_OFF).then_some(ClockFault { own, database })
    }

    /// The time by the machine's clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the machine's clock is read"
    )]
    fn own(&self) -> Timestamp {
        match &self.source {
            Source::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
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

/// Returns the distance of two times.
fn apart(one: Timestamp, other: Timestamp) -> Duration {
    // `since` is zero if the other time is later, so one of the two is zero.
    one.since(other) + other.since(one)
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
        f.write_str(match self.source {
            Source::System => "Clock(system)",
            Source::Manual(_) => "Clock(manual)",
            #[cfg(any(test, feature = "simulation"))]
            Source::Going(..) => "Clock(going)",
        })
    }
}

/// The kernel returned no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel gives no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

impl From<NoRandomness> for Refusal {
    fn from(error: NoRandomness) -> Self {
        Self::internal(error)
    }
}

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
        // If no two readings are close enough, the closest pair counts.
        assert_eq!(closest_of(&[900, 500, 101, 700, 800]), (3, 5));
    }

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_the_databases_time_carried_on_whatever_the_machines_clock_does() {
        let clock = Clock::going(seconds(1_000));
        assert_eq!((clock.now(), clock.database()), (seconds(1_000), None));
        assert_eq!(clock.follow(seconds(5_000), Instant::now()), Duration::ZERO);
        assert_eq!(clock.clone().now(), seconds(5_000));
        clock.step(90_000_000_000);
        pass(3).await;
        assert_eq!(clock.now(), seconds(5_003));
        let manual = Clock::manual(seconds(7));
        manual.follow(seconds(5_000), Instant::now());
        assert_eq!((manual.now(), manual.fault()), (seconds(7), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_databases_clock_is_returned_and_followed() {
        let clock = Clock::going(seconds(0));
        clock.follow(seconds(100), Instant::now());
        pass(3).await;
        assert_eq!(clock.follow(seconds(103), Instant::now()), Duration::ZERO);
        assert_eq!(clock.follow(seconds(163), Instant::now()), Duration::from_mins(1));
        assert_eq!(
            clock.follow(seconds(133), Instant::now()),
            Duration::from_secs(30)
        );
        assert_eq!(clock.now(), seconds(133));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_does_not_set_the_clock_back() {
        let clock = Clock::going(seconds(0));
        clock.follow(seconds(100), Instant::now());
        let sent = Instant::now();
        pass(2).await;
        // The server read its clock immediately, or just before the response arrived.
        for told in [100, 102] {
            clock.follow(seconds(told), sent);
            assert_eq!(clock.now(), seconds(102));
        }
        clock.follow(seconds(99), sent);
        assert_eq!(clock.now(), seconds(99));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_off_by_more_than_a_minute_is_a_fault() {
        let clock = Clock::going(seconds(1_000));
        assert_eq!((clock.fault(), clock.offset()), (None, 0));
        clock.follow(seconds(1_060), Instant::now());
        assert_eq!((clock.fault(), clock.offset()), (None, -60_000_000));
        clock.follow(seconds(1_061), Instant::now());
        assert!(
            clock
                .fault()
                .unwrap()
                .to_string()
                .contains("61 s behind the database's")
        );
        clock.step(122_000_000);
        assert!(
            clock
                .fault()
                .unwrap()
                .to_string()
                .contains("61 s ahead of the database's")
        );
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
