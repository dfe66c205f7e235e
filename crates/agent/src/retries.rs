//! Retries of failed model calls: the number of attempts, and the waits between them.
//!
//! A provider that accepts no calls costs only time, so retries continue for minutes. Calls that it began to answer may each cost
//! money, and may fail the same way again: those are retried a few times.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use tokio::time::Instant;

use crate::model::{ErrorKind, ModelError, Usage};

/// Maximum attempts of one call that the provider began to answer, or that may fail the same way again.
const ATTEMPTS: u32 = 5;
/// Total of the waits for a provider that accepts no calls.
const PATIENCE: Duration = Duration::from_mins(5);
/// Total of these waits if another model can answer instead.
const PATIENCE_BEFORE_FALLBACK: Duration = Duration::from_mins(1);
/// The wait before the second attempt; it doubles from attempt to attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest wait that the provider did not ask for.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// Waits above this that the provider asks for must leave time for the answer.
const LONG_WAIT: Duration = Duration::from_mins(1);
/// Minimum remaining time of the run after such a wait.
const LEFT_AFTER_LONG_WAIT: Duration = Duration::from_secs(30);

/// The attempts at one model call so far.
pub(crate) struct Retries {
    deadline: Option<Instant>,
    has_fallback: bool,
    attempts: u32,
    /// Attempts that count towards [`ATTEMPTS`].
    answered: u32,
    waited: Duration,
}

impl Retries {
    /// Starts without a failure. `deadline` is the time at which the run times out.
    pub(crate) fn new(deadline: Option<Instant>, has_fallback: bool) -> Self {
        Self {
            deadline,
            has_fallback,
            attempts: 0,
            answered: 0,
            waited: Duration::ZERO,
        }
    }

    /// The attempts that have failed.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The total of the waits.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Records a failed attempt. Returns the wait before the next one, or the reason why there is none. `asked` is the wait that
    /// the provider asks for.
    pub(crate) fn next_wait(
        &mut self,
        error: &ModelError,
        asked: Option<Duration>,
    ) -> Result<Duration, String> {
        self.attempts += 1;
        if let Some(asked) = asked.filter(|asked| !self.has_time_for(*asked)) {
            let why = if self.has_fallback {
                ""
            } else {
                ", longer than the run has time"
            };
            return Err(format!(
                "{}; it asks to wait {} s{why}",
                error.message,
                asked.as_secs()
            ));
        }
        let is_over = if takes_no_calls(error) {
            self.waited >= self.patience()
        } else {
            self.answered += 1;
            self.answered >= ATTEMPTS
        };
        if is_over {
            return Err(format!(
                "the model failed {} times, last with: {}",
                self.attempts, error.message
            ));
        }
        let wait = self
            .within_time(delay(self.attempts))
            .max(asked.unwrap_or_default());
        self.waited += wait;
        Ok(wait)
    }

    fn patience(&self) -> Duration {
        if self.has_fallback {
            PATIENCE_BEFORE_FALLBACK
        } else {
            PATIENCE
        }
    }

    fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Whether the run has time for a wait that the provider asks for. A short one is always honoured, unless another model can
    /// answer instead.
    fn has_time_for(&self, asked: Duration) -> bool {
        let left = self.time_left().unwrap_or(Duration::MAX);
        if self.has_fallback {
            return asked <= PATIENCE_BEFORE_FALLBACK && asked < left;
        }
        asked <= LONG_WAIT || asked.saturating_add(LEFT_AFTER_LONG_WAIT) < left
    }

    /// Limits a wait of our choice to half of the run's remaining time: a provider that has recovered by then can still answer.
    fn within_time(&self, wait: Duration) -> Duration {
        let half = self.time_left().map_or(wait, |left| left / 2);
        wait.min(half.max(FIRST_DELAY))
    }
}

/// Whether the provider did not accept the call, so that another attempt costs nothing.
fn takes_no_calls(error: &ModelError) -> bool {
    let kind = match error.kind {
        ErrorKind::RateLimit | ErrorKind::Server | ErrorKind::Timeout | ErrorKind::Connection => true,
        ErrorKind::Credential | ErrorKind::TooLarge | ErrorKind::Request | ErrorKind::Answer => false,
    };
    kind && error.usage == Usage::default()
}

/// The wait after so many attempts: exponential, with up to a quarter of jitter so that runs that failed together do not retry
/// together.
fn delay(attempts: u32) -> Duration {
    let base = FIRST_DELAY.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    let base = base.min(LONGEST_DELAY);
    let chance = u32::try_from(RandomState::new().hash_one(attempts) % 256).unwrap_or_default();
    base + base.saturating_mul(chance) / 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> ModelError {
        ModelError {
            kind,
            ..ModelError::retryable("overloaded", None)
        }
    }

    /// The waits until there is no further one, and the reason for that.
    fn waits(mut retries: Retries, error: &ModelError, asked: Option<u64>) -> (Vec<u64>, String) {
        let mut waits = Vec::new();
        loop {
            match retries.next_wait(error, asked.map(Duration::from_secs)) {
                Ok(wait) => waits.push(wait.as_secs()),
                Err(why) => return (waits, why),
            }
            assert!(waits.len() < 100, "it never gives up");
        }
    }

    #[test]
    fn waits_double_and_have_a_limit() {
        for (attempts, least) in [(1, 500), (2, 1_000), (4, 4_000), (20, 30_000)] {
            let delay = delay(attempts).as_millis();
            assert!(
                (least..=least + least / 4).contains(&delay),
                "{attempts}: {delay}"
            );
        }
    }

    #[test]
    fn a_provider_that_takes_no_calls_is_waited_for_by_the_minute_and_a_bad_answer_is_not() {
        let total = |retries, error: &ModelError, asked| {
            let (waits, why) = waits(retries, error, asked);
            assert!(why.ends_with("last with: overloaded"), "{why}");
            (waits.len(), waits.iter().sum::<u64>())
        };
        for kind in [
            ErrorKind::RateLimit,
            ErrorKind::Server,
            ErrorKind::Timeout,
            ErrorKind::Connection,
        ] {
            let (count, seconds) = total(Retries::new(None, false), &failed(kind), None);
            assert!(
                (12..=16).contains(&count) && (290..=345).contains(&seconds),
                "{count} {seconds}"
            );
            let (_, seconds) = total(Retries::new(None, true), &failed(kind), None);
            assert!((50..=100).contains(&seconds), "{seconds}");
            let charged = ModelError {
                usage: Usage {
                    input_tokens: 1,
                    ..Usage::default()
                },
                ..failed(kind)
            };
            assert_eq!(total(Retries::new(None, false), &charged, None).0, 4, "{kind:?}");
        }
        for kind in [ErrorKind::Answer, ErrorKind::Request] {
            assert_eq!(
                total(Retries::new(None, false), &failed(kind), None).0,
                4,
                "{kind:?}"
            );
        }
        // A provider that keeps asking for the same wait.
        assert_eq!(
            total(Retries::new(None, false), &failed(ErrorKind::RateLimit), Some(60)).0,
            5
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_asked_for_is_kept_where_the_run_has_time_and_no_other_model() {
        let limited = failed(ErrorKind::RateLimit);
        for (left, has_fallback, asked, is_kept) in [
            (None, false, 3_600, true),
            (Some(600), false, 300, true),
            (Some(600), false, 580, false),
            (Some(20), false, 40, true),
            (Some(600), true, 20, true),
            (Some(600), true, 90, false),
            (Some(20), true, 40, false),
        ] {
            let deadline = left.map(|left| Instant::now() + Duration::from_secs(left));
            let mut retries = Retries::new(deadline, has_fallback);
            let asked = Duration::from_secs(asked);
            let wait = retries.next_wait(&limited, Some(asked));
            assert_eq!(
                wait.as_ref().is_ok_and(|wait| *wait >= asked),
                is_kept,
                "{asked:?}: {wait:?}"
            );
            assert_eq!(wait.is_err(), !is_kept);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_of_our_own_leave_time_for_another_attempt() {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut retries = Retries::new(Some(deadline), false);
        for _ in 0..8 {
            let left = deadline - Instant::now();
            let wait = retries.next_wait(&failed(ErrorKind::Server), None).unwrap();
            assert!(wait <= (left / 2).max(FIRST_DELAY), "{wait:?} of {left:?}");
            tokio::time::advance(wait).await;
        }
    }
}
