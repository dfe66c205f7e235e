//! Cached documents of an identity provider: its metadata and its keys.
//!
//! A request that finds a recent document uses it at once. If the document is missing, one request fetches it, and all requests
//! that wait for it get its result. A failure is kept for a few seconds, so an unresponsive provider delays each sign-in once.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sortie_api::Timestamp;
use sortie_base::Clock;

use super::failure::{Failure, Fetched};

/// Time for which a failure is cached.
const FAILED: Duration = Duration::from_secs(5);

/// Document with the times of its last fetches.
pub(super) struct KeptDocument<T> {
    last: Mutex<Last<T>>,
    /// Locked by the request that fetches.
    fetching: tokio::sync::Mutex<()>,
}

/// Results of the last fetches.
struct Last<T> {
    document: Option<(T, Timestamp)>,
    failure: Option<(Failure, Timestamp)>,
}

impl<T> Default for KeptDocument<T> {
    fn default() -> Self {
        let last = Last {
            document: None,
            failure: None,
        };
        Self {
            last: Mutex::new(last),
            fetching: tokio::sync::Mutex::default(),
        }
    }
}

impl<T: Clone> KeptDocument<T> {
    /// Returns the document if it is at most `lifetime` old, and otherwise calls `fetch`.
    pub(super) async fn get(
        &self,
        clock: &Clock,
        lifetime: Duration,
        fetch: impl Future<Output = Fetched<T>>,
    ) -> Fetched<T> {
        if let Some(document) = self.fresh(clock.now(), lifetime) {
            return Ok(document);
        }
        let _fetching = self.fetching.lock().await;
        let now = clock.now();
        if let Some(document) = self.fresh(now, lifetime) {
            return Ok(document);
        }
        if let Some((failure, _)) = self.last().failure.as_ref().filter(|(_, at)| now < *at + FAILED) {
            return Err(failure.clone());
        }
        let fetched = fetch.await;
        // A failure is kept from the time it occurred: requests that waited for the fetch have not seen it yet.
        let now = clock.now();
        let mut last = self.last();
        match &fetched {
            Ok(document) => {
                last.document = Some((document.clone(), now));
                last.failure = None;
            }
            Err(failure) => last.failure = Some((failure.clone(), now)),
        }
        fetched
    }

    fn fresh(&self, now: Timestamp, lifetime: Duration) -> Option<T> {
        let last = self.last();
        let known = last.document.as_ref().filter(|(_, at)| now < *at + lifetime);
        known.map(|(document, _)| document.clone())
    }

    fn last(&self) -> MutexGuard<'_, Last<T>> {
        self.last.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn everybody_who_waits_gets_the_result_of_one_fetch_and_a_failure_counts_for_five_seconds() {
        let (clock, document, fetches) = (Clock::manual(AT), KeptDocument::default(), AtomicU32::new(0));
        let answer = Notify::new();
        let fetch = async |result: Fetched<u32>| {
            fetches.fetch_add(1, Ordering::Relaxed);
            answer.notified().await;
            result
        };
        let away = || Err(Failure::Away("silent".to_owned()));
        let all = join_all((0..8).map(|_| document.get(&clock, HOUR, fetch(away()))));
        let (all, ()) = tokio::join!(all, async { answer.notify_one() });
        assert!(all.iter().all(Result::is_err));
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
        let early = document.get(&clock, HOUR, fetch(Ok(1))).await;
        assert!(early.is_err(), "the failure still counts");

        clock.set(AT + FAILED);
        answer.notify_one();
        assert_eq!(document.get(&clock, HOUR, fetch(Ok(1))).await.unwrap(), 1);
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
        // A request that finds a usable document does not wait for the fetch.
        clock.set(AT + FAILED + Duration::from_mins(1));
        let newer = document.get(&clock, Duration::from_mins(1), fetch(Ok(2)));
        let older = async {
            let known = document.get(&clock, HOUR, fetch(Ok(3))).await;
            answer.notify_one();
            known
        };
        let (newer, older) = tokio::join!(newer, older);
        assert_eq!((newer.unwrap(), older.unwrap()), (2, 1));
    }
}
