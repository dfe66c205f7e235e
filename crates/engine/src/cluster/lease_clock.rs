//! The clock of leases. A node must not be declared lost because the clock of one machine is wrong.

use std::time::Duration;

use sortie_api::Timestamp;
use sortie_base::Clock;
use sortie_store::{Result, Store};
use tokio::time::Instant;

/// Maximum number of readings at the start of a node.
const READINGS: usize = 5;

/// Time of an answer that is short enough to end these readings.
const CLOSE: Duration = Duration::from_millis(2);

/// The database's clock, which its nodes share. A database without a clock has a single node, and that node uses its own clock.
///
/// This clock lags the database's by the latency of an answer, which is at most the two seconds of a heartbeat. A lease may be
/// shorter by as much, but no node is declared lost early.
#[derive(Clone)]
pub(crate) struct LeaseClock(Clock);

impl LeaseClock {
    /// Reads the database's clock for the first time. From then on `own` and its clones have the database's time.
    pub(crate) async fn begin(store: &Store, own: Clock) -> Result<Self> {
        let clock = Self(own);
        // The first answer waits for a connection. If its time were used, the clock would lag by that wait and jump forward with
        // a later answer. Runs would then seem to take longer than they are charged for.
        clock.read(store).await?;
        for _ in 1..READINGS {
            let sent_at = Instant::now();
            // The clock is set already, so a failure only ends these readings.
            if clock.read(store).await.is_err() || sent_at.elapsed() <= CLOSE {
                break;
            }
        }
        Ok(clock)
    }

    /// Reads the database's clock.
    pub(crate) async fn read(&self, store: &Store) -> Result<()> {
        let sent_at = Instant::now();
        self.set(store.clock().await?, sent_at);
        Ok(())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.database().unwrap_or_else(|| self.0.now())
    }

    /// Sets the clock to the time in the database's answer to a request sent at `sent_at`. Returns the difference from the
    /// expected time. A large difference means that this is another database, or that the database's clock was set. Logs an error
    /// if the machine's clock is wrong.
    pub(crate) fn set(&self, database: Option<Timestamp>, sent_at: Instant) -> Duration {
        let step = database.map_or(Duration::ZERO, |told| self.0.follow(told, sent_at));
        if let Some(fault) = self.0.fault() {
            tracing::error!(
                %fault,
                "the node is not ready, and deletes, counts and starts nothing by the clock"
            );
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_the_databases_clock_whatever_the_nodes_own_does() {
        let own = Clock::manual(seconds(1_000));
        let clock = LeaseClock(own.clone());
        assert_eq!(clock.set(Some(seconds(5_000)), Instant::now()), Duration::ZERO);
        own.set(seconds(90_000));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), seconds(5_003));
    }

    #[test]
    fn without_a_clock_of_the_database_it_is_the_nodes_own() {
        let own = Clock::manual(seconds(7));
        let clock = LeaseClock(own.clone());
        assert_eq!(clock.set(None, Instant::now()), Duration::ZERO);
        own.set(seconds(8));
        assert_eq!(clock.now(), seconds(8));
    }
}
