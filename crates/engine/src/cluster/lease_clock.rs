//! The clock of leases. A node must not be declared lost because the clock of one machine is wrong.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::Timestamp;
use sortie_store::{Result, Store};
use tokio::time::Instant;

use sortie_base::Clock;

/// The database's clock, which its nodes share. Between two reads it advances with the monotonic clock. A database
/// without a clock has a single node, whose own clock is used.
#[derive(Clone)]
pub(crate) struct LeaseClock {
    own: Clock,
    read: Arc<Mutex<Option<Reading>>>,
}

/// A time, and the moment at which it was received. The clock is slow by the time that the answer took. No node is
/// declared lost early by that. A lease may be shorter by as much, at most by the two seconds that a heartbeat may
/// take.
#[derive(Clone, Copy)]
struct Reading {
    time: Timestamp,
    at: Instant,
}

impl Reading {
    fn carried_on(self) -> Timestamp {
        self.time + self.at.elapsed()
    }
}

impl LeaseClock {
    /// Reads the database's clock for the first time.
    pub(crate) async fn begin(store: &Store, own: Clock) -> Result<Self> {
        let clock = Self {
            own,
            read: Arc::default(),
        };
        clock.set(store.clock().await?);
        Ok(clock)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.reading().map_or_else(|| self.own.now(), Reading::carried_on)
    }

    /// Sets the clock to the database's time. Returns the difference from the expected time: a large one means another
    /// database, or a database whose clock was set.
    pub(crate) fn set(&self, database: Option<Timestamp>) -> Duration {
        let mut read = self.reading();
        let Some(time) = database else {
            return Duration::ZERO;
        };
        let expected = read.replace(Reading {
            time,
            at: Instant::now(),
        });
        expected.map_or(Duration::ZERO, |expected| {
            let expected = expected.carried_on();
            // `since` is zero if the other time is later, so one of the two is zero.
            time.since(expected) + expected.since(time)
        })
    }

    fn reading(&self) -> MutexGuard<'_, Option<Reading>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn over(own: &Clock) -> LeaseClock {
        LeaseClock {
            own: own.clone(),
            read: Arc::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_the_databases_clock_carried_on_whatever_the_nodes_own_does() {
        let own = Clock::manual(seconds(1_000));
        let clock = over(&own);
        assert_eq!(clock.set(Some(seconds(5_000))), Duration::ZERO);
        assert_eq!(clock.now(), seconds(5_000));
        own.set(seconds(90_000));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), seconds(5_003));
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_databases_clock_is_told_and_followed() {
        let clock = over(&Clock::manual(seconds(0)));
        clock.set(Some(seconds(100)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.set(Some(seconds(103))), Duration::ZERO);
        assert_eq!(clock.set(Some(seconds(163))), Duration::from_mins(1));
        assert_eq!(clock.set(Some(seconds(133))), Duration::from_secs(30));
        assert_eq!(clock.now(), seconds(133));
    }

    #[test]
    fn without_a_clock_of_the_database_it_is_the_nodes_own() {
        let own = Clock::manual(seconds(7));
        let clock = over(&own);
        assert_eq!(clock.set(None), Duration::ZERO);
        own.set(seconds(8));
        assert_eq!(clock.now(), seconds(8));
    }
}
