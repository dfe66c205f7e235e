//! Memory budget of the bodies of all requests and answers together.
//!
//! A body reserves memory from one shared budget for the bytes it has received, and releases it when its request is answered. The
//! announced length reserves nothing: a client could otherwise exhaust the budget with headers alone. A large answer keeps its
//! reservation until it is sent; all answers together get half of the budget, so that clients that do not read leave memory for
//! requests. The first bytes of each body are free, so that ordinary requests proceed while large ones wait.

use std::{sync::Arc, time::Duration};

use sortie_api::{ErrorCode, Refusal};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Budget of all bodies together, in bytes.
const BYTES: usize = 256 * 1024 * 1024;

/// Part of each body that does not count against the budget, in bytes.
pub(super) const FREE_BYTES: usize = 64 * 1024;

/// Time for which a body waits for memory from the budget.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum size of all answers that are already in memory and wait for budget, in bytes.
const WAITING_BYTES: usize = 16 * 1024 * 1024;

/// The memory for the bodies of one server.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    all: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self::of(BYTES)
    }
}

impl BodyBudget {
    pub(crate) fn of(bytes: usize) -> Self {
        let budget = |bytes| Arc::new(Semaphore::new(bytes));
        Self {
            all: budget(bytes),
            answers: budget(bytes / 2),
            waiting: budget(WAITING_BYTES),
        }
    }

    /// Creates an empty reservation for the body of one request.
    pub(crate) fn room(&self) -> Room {
        Room {
            budget: Arc::clone(&self.all),
            taken: None,
        }
    }

    /// Reserves memory for an answer of `length` bytes before it is generated. Returns 503 if no memory becomes free in time.
    pub(crate) async fn answer_room(&self, length: usize) -> Result<AnswerRoom, Refusal> {
        let until = Instant::now() + PATIENCE;
        let bytes = counted(length);
        let share = take(&self.answers, bytes, until).await?;
        let all = take(&self.all, bytes, until).await?;
        Ok(AnswerRoom::of(share, all))
    }

    /// Reserves memory for an answer of `length` bytes if it is free now.
    pub(crate) fn answer_room_now(&self, length: usize) -> Option<AnswerRoom> {
        let bytes = counted(length);
        let share = Arc::clone(&self.answers).try_acquire_many_owned(bytes).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(bytes).ok()?;
        Some(AnswerRoom::of(share, all))
    }

    /// Reserves memory for an answer of `length` bytes that is already generated. Waits only if few other answers wait.
    pub(super) async fn room_of_made(&self, length: usize) -> Result<AnswerRoom, Refusal> {
        if let Some(room) = self.answer_room_now(length) {
            return Ok(room);
        }
        let waiting = Arc::clone(&self.waiting).try_acquire_many_owned(counted(length));
        let _waiting = waiting.map_err(|_| crowded())?;
        self.answer_room(length).await
    }

    /// Reserves as much memory as is free for an answer of `length` bytes that cannot be refused.
    pub(super) fn room_of_unrefused(&self, length: usize) -> AnswerRoom {
        let free = self.answers.available_permits().min(self.all.available_permits());
        let some = length.min(free.saturating_add(FREE_BYTES));
        self.answer_room_now(some).unwrap_or_default()
    }
}

/// Counted part of a body, in permits.
fn counted(length: usize) -> u32 {
    u32::try_from(length.saturating_sub(FREE_BYTES)).unwrap_or(u32::MAX)
}

async fn take(budget: &Arc<Semaphore>, bytes: u32, until: Instant) -> Result<OwnedSemaphorePermit, Refusal> {
    tokio::time::timeout_at(until, Arc::clone(budget).acquire_many_owned(bytes))
        .await
        .map_err(|_| crowded())?
        .map_err(Refusal::internal)
}

/// Refusal of a request for which no memory is free.
pub(crate) fn crowded() -> Refusal {
    ErrorCode::Unavailable
        .because("too many large requests and answers at once, retry in a moment or on another node")
}

/// Memory reservation of the body of a request. Dropping it frees the memory.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Reserves the missing memory for a body of `length` bytes. Returns 503 if no memory becomes free in time.
    pub(crate) async fn grow(&mut self, length: usize) -> Result<(), Refusal> {
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = length.saturating_sub(FREE_BYTES).saturating_sub(taken);
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let more = take(&self.budget, missing, Instant::now() + PATIENCE).await?;
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        Ok(())
    }
}

/// Memory reservation of an answer. An extension of the response passes it to the connection, which drops it once the answer is
/// sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerRoom {
    _taken: Option<Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>>,
}

impl AnswerRoom {
    fn of(share: OwnedSemaphorePermit, all: OwnedSemaphorePermit) -> Self {
        Self {
            _taken: Some(Arc::new((share, all))),
        }
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
        assert_eq!(budget.all.available_permits(), 1_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_have_half_of_the_budget_and_count_against_all_of_it() {
        let budget = BodyBudget::of(1_000_000);
        let half = budget.answer_room(FREE_BYTES + 500_000).await.unwrap();
        assert!(budget.answer_room_now(FREE_BYTES + 1).is_none());
        assert!(budget.answer_room(FREE_BYTES + 1).await.is_err());
        let mut request = budget.room();
        request.grow(FREE_BYTES + 500_000).await.unwrap();
        assert!(request.grow(FREE_BYTES + 500_001).await.is_err());
        drop(half);
        request.grow(FREE_BYTES + 900_000).await.unwrap();
        let refused = budget.answer_room_now(FREE_BYTES + 100_001);
        assert!(refused.is_none(), "requests have the rest");
        // An answer that cannot be refused takes the rest.
        let rest = budget.room_of_unrefused(FREE_BYTES + 300_000);
        assert_eq!(budget.all.available_permits(), 0);
        drop((rest, request));
        assert_eq!(budget.all.available_permits(), 1_000_000);
        assert_eq!(budget.answers.available_permits(), 500_000);
    }

    #[tokio::test(start_paused = true)]
    async fn few_answers_that_are_made_wait_for_room() {
        let budget = BodyBudget::of(64 << 20);
        let _full = budget.answer_room(FREE_BYTES + (32 << 20)).await.unwrap();
        let begun = Instant::now();
        let made = || budget.room_of_made(FREE_BYTES + 6 * (1 << 20));
        let (first, second, third) = tokio::join!(made(), made(), async {
            let refused = made().await;
            assert_eq!(begun.elapsed(), Duration::ZERO, "18 MiB do not wait");
            refused
        });
        assert!(first.is_err() && second.is_err() && third.is_err());
        assert_eq!(begun.elapsed(), PATIENCE);
    }
}
