//! Memory budget of the bodies of all requests and answers together.
//!
//! A body takes what it has sent from one budget, as it comes, and gives it back when its request is answered. What it
//! announces takes nothing: a client could otherwise use the budget up with headers alone. A large answer has room until
//! it is sent. The first bytes of each body are free, so that ordinary requests go on while large ones wait.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ApiError, ApiResult};

/// Budget of all bodies together, in bytes.
const BYTES: usize = 256 * 1024 * 1024;

/// Part of each body that does not count against the budget, in bytes.
const FREE_BYTES: usize = 64 * 1024;

/// Time for which a body waits for budget.
const PATIENCE: Duration = Duration::from_secs(2);

/// The memory for the bodies of one server.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget(Arc<Semaphore>);

impl Default for BodyBudget {
    fn default() -> Self {
        Self::of(BYTES)
    }
}

impl BodyBudget {
    pub(crate) fn of(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Room for one body, without any yet.
    pub(crate) fn room(&self) -> Room {
        Room {
            budget: Arc::clone(&self.0),
            taken: None,
        }
    }
}

/// The room that one body has; free again when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Returns true while nothing is taken.
    pub(super) fn is_free(&self) -> bool {
        self.taken.is_none()
    }

    /// Takes what is missing for a body of `length` bytes; 503 when there is none for too long.
    pub(crate) async fn grow(&mut self, length: usize) -> ApiResult<()> {
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = length.saturating_sub(FREE_BYTES).saturating_sub(taken);
        if missing == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.budget).acquire_many_owned(u32::try_from(missing).unwrap_or(u32::MAX));
        let more = tokio::time::timeout(PATIENCE, more)
            .await
            .map_err(|_| {
                ApiError::unavailable(
                    "too many large requests and answers at once, retry in a moment or on another node",
                )
            })?
            .map_err(ApiError::internal)?;
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_without_room_waits_briefly_and_goes_on_when_another_is_done() {
        let budget = BodyBudget::of(1_000_000);
        let mut first = budget.room();
        first.grow(500_000).await.unwrap();
        first.grow(FREE_BYTES + 900_000).await.unwrap();
        let mut second = budget.room();
        second.grow(FREE_BYTES).await.unwrap();
        assert!(second.grow(FREE_BYTES + 200_000).await.is_err());

        let (grown, ()) = tokio::join!(second.grow(FREE_BYTES + 200_000), async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(first);
        });
        grown.unwrap();
        drop(second);
        assert_eq!(budget.0.available_permits(), 1_000_000);
    }
}
