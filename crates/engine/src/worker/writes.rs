//! Writes of a worker to a database that may be temporarily unavailable.
//!
//! If the connection is lost during a commit, the worker does not know whether the write was stored. The run's position and
//! status in the store decide that: a write with events moves the position, and a write without events may be repeated. A write
//! is therefore repeated only if it was not stored or can safely be repeated, and a worker abandons a run only if the store says
//! that the run belongs to another worker.

use sortie_api::RunStatus;
use sortie_store::{
    Error, Store,
    runs::{Fence, Position},
};

use crate::kit::retry::{Pauses, until_read};

/// Writes with `write`, which adds `added` events and leaves the run in `status`. If `status` is not terminal, any status that is
/// not terminal matches. `None`: the write is stored, but its answer was lost. An error means `Fenced`, or a failure that another
/// try would not fix.
pub(crate) async fn until_stored<T, F, W>(
    store: &Store,
    fence: Fence,
    (added, status): (usize, RunStatus),
    write: W,
) -> Result<Option<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
    W: Fn() -> F,
{
    let target = Target {
        fence,
        last_event: fence
            .last_event
            .saturating_add(i64::try_from(added).unwrap_or(i64::MAX)),
        status,
    };
    let mut pauses = Pauses::default();
    let mut in_doubt = false;
    loop {
        let error = match write().await {
            Ok(answer) => return Ok(Some(answer)),
            // An earlier try may have been stored after all and have fenced this one.
            Err(Error::Fenced) if in_doubt => return settled(store, &target).await,
            Err(Error::Unavailable(error)) => error,
            Err(error) => return Err(error),
        };
        in_doubt = true;
        tracing::debug!(%error, "repeating a write");
        tokio::time::sleep(pauses.longer()).await;
        match target.look(store).await? {
            Look::Unchanged => {}
            Look::Stored => return Ok(None),
            Look::Other => return Err(Error::Fenced),
        }
    }
}

/// Reports the cost of a cancelled run with `settle`. The first report counts: if its answer was lost and the next report is
/// refused, the run is settled, and the result is `None`.
pub(crate) async fn until_settled<T, F>(settle: impl Fn() -> F) -> Result<Option<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pauses = Pauses::default();
    let mut in_doubt = false;
    loop {
        match settle().await {
            Err(Error::Fenced) if in_doubt => return Ok(None),
            Err(Error::Unavailable(error)) => {
                in_doubt = true;
                tracing::debug!(%error, "repeating the report of a cancelled run's cost");
                tokio::time::sleep(pauses.longer()).await;
            }
            answer => return answer.map(Some),
        }
    }
}

/// Position of a run after a write.
struct Target {
    fence: Fence,
    last_event: i64,
    status: RunStatus,
}

/// The store's answer about a write that is in doubt.
enum Look {
    /// The write was not stored: the run has the position from before.
    Unchanged,
    /// The write was stored.
    Stored,
    /// Another writer has moved the run.
    Other,
}

impl Target {
    async fn look(&self, store: &Store) -> Result<Look, Error> {
        match until_read(|| store.position(self.fence.run)).await {
            Ok(position) => Ok(self.compare(position)),
            // The run was deleted, so it had ended.
            Err(Error::NotFound) => Ok(Look::Other),
            Err(error) => Err(error),
        }
    }

    fn compare(&self, position: Position) -> Look {
        let is_ours = position.attempt == self.fence.attempt;
        // A cancel adds an event as well: the number alone does not identify the write.
        let has_status = if self.status.is_final() {
            position.status == self.status
        } else {
            !position.status.is_final()
        };
        // No event follows a cancellation before the run is settled.
        let is_before_cancel = !self.status.is_final()
            && position.status == RunStatus::Cancelled
            && position.is_billing_pending
            && position.last_event == self.last_event.saturating_add(1);
        if is_ours && position.last_event == self.fence.last_event && !position.status.is_final() {
            Look::Unchanged
        } else if is_ours && (is_before_cancel || position.last_event == self.last_event && has_status) {
            Look::Stored
        } else {
            Look::Other
        }
    }
}

/// Returns the outcome of a write that was refused after a try in doubt.
async fn settled<T>(store: &Store, target: &Target) -> Result<Option<T>, Error> {
    match target.look(store).await? {
        Look::Stored => Ok(None),
        Look::Unchanged | Look::Other => Err(Error::Fenced),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sortie_api::{Micros, RunId, RunUsage, Timestamp};
    use sortie_store::runs::{FinalCost, Finish, Journal, NewEvent, Receiver, StoredCredentials};

    use super::*;
    use crate::testing::{Held, held};

    /// The end of a run, with one event.
    fn finish() -> Finish {
        let at = Timestamp::from_micros(1);
        let ended = sortie_api::event::EventType::status(RunStatus::Failed);
        Finish {
            status: RunStatus::Failed,
            output: None,
            error: Some("x".to_owned()),
            cost: Micros::ZERO,
            usage: RunUsage::default(),
            events: vec![NewEvent::new(&ended, at).unwrap()],
            journal: Journal::Empty,
            stored_credentials: StoredCredentials::Absent,
            receiver: Receiver::Nobody,
            artifacts: None,
            at,
        }
    }

    fn lost() -> Error {
        Error::Unavailable("the answer is lost".to_owned())
    }

    #[tokio::test]
    async fn a_finish_whose_answer_is_lost_is_known_to_be_stored() {
        let Held { store, claim, .. } = &held().await;
        let lose = async || {
            store.finish_run(claim.fence, finish()).await?;
            Err::<(), Error>(lost())
        };
        let stored = until_stored(store, claim.fence, (1, RunStatus::Failed), lose).await;
        assert_eq!(stored, Ok(None));
    }

    #[tokio::test]
    async fn a_finish_in_doubt_is_refused_where_the_run_was_cancelled() {
        let Held { store, claim, .. } = &held().await;
        let cancelled = async || {
            store
                .cancel_run(claim.org, claim.fence.run, Timestamp::from_micros(1))
                .await?;
            Err::<(), Error>(lost())
        };
        let refused = until_stored(store, claim.fence, (1, RunStatus::Failed), cancelled).await;
        assert_eq!(refused, Err(Error::Fenced));
    }

    #[tokio::test]
    async fn the_cost_of_a_cancelled_run_is_reported_until_the_store_has_it() {
        let Held { store, claim, .. } = &held().await;
        let (run, attempt) = (claim.fence.run, claim.fence.attempt);
        let settle = async || {
            let settled = store.settle_run(run, attempt, FinalCost::default(), Vec::new());
            settled.await.map(drop)
        };
        // Refused at once: the run is not cancelled.
        assert_eq!(until_settled(settle).await, Err(Error::Fenced));
        store
            .cancel_run(claim.org, run, Timestamp::from_micros(1))
            .await
            .unwrap();
        let tries = Cell::new(0);
        let flaky = async || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => Err(lost()),
                2 => settle().await.and(Err(lost())),
                _ => settle().await,
            }
        };
        assert_eq!(until_settled(flaky).await, Ok(None));
        assert_eq!(tries.get(), 3);
        assert!(!store.get_run(claim.org, run).await.unwrap().billing_pending);
    }

    fn target(status: RunStatus) -> Target {
        let fence = Fence {
            run: RunId::new(Timestamp::from_micros(0), [1; 10]),
            attempt: 2,
            last_event: 5,
        };
        Target {
            fence,
            last_event: 7,
            status,
        }
    }

    fn look(target: &Target, (attempt, status, last_event): (i64, RunStatus, i64)) -> &'static str {
        match target.compare(Position {
            attempt,
            status,
            last_event,
            is_billing_pending: true,
        }) {
            Look::Unchanged => "unchanged",
            Look::Stored => "stored",
            Look::Other => "other",
        }
    }

    #[test]
    fn a_write_in_doubt_took_place_where_attempt_last_event_and_status_are_its_own() {
        use RunStatus::{Cancelled, Interrupted, Running, Starting, Succeeded};
        let (finish, append) = (target(Succeeded), target(Running));
        assert_eq!(look(&finish, (2, Succeeded, 7)), "stored");
        assert_eq!(look(&finish, (2, Running, 5)), "unchanged");
        for other in [
            (2, Cancelled, 7),
            (2, Interrupted, 7),
            (2, Running, 7),
            (2, Cancelled, 6),
            (2, Cancelled, 8),
            (3, Running, 5),
            (3, Succeeded, 7),
        ] {
            assert_eq!(look(&finish, other), "other", "{other:?}");
        }
        assert_eq!(look(&append, (2, Running, 7)), "stored");
        assert_eq!(look(&append, (2, Starting, 5)), "unchanged");
        assert_eq!(look(&append, (2, Cancelled, 8)), "stored", "and then cancelled");
        let settled = Position {
            attempt: 2,
            status: Cancelled,
            last_event: 8,
            is_billing_pending: false,
        };
        assert!(
            matches!(append.compare(settled), Look::Other),
            "the report may have added events"
        );
        for other in [
            (2, Cancelled, 7),
            (2, Cancelled, 6),
            (2, Succeeded, 7),
            (3, Running, 7),
        ] {
            assert_eq!(look(&append, other), "other", "{other:?}");
        }
    }
}
