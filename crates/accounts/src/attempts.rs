//! Limits on attempts: exact over all nodes, in any hour or any day.

use std::time::Duration;

use sortie_api::{Refusal, Timestamp};
use sortie_store::people::{Attempt, PARTS};

use crate::{Parts, Result};

/// Window of most limits.
pub(crate) const HOUR: Duration = Duration::from_hours(1);
/// Window of the limits on mails.
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Maximum number of attempts of a subject in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<'a> {
    /// Name of the action, such as `login`.
    pub(crate) action: &'a str,
    /// Person, address or network that makes the attempt.
    pub(crate) subject: &'a str,
    /// Maximum number of attempts.
    pub(crate) most: u32,
    /// Length of the window.
    pub(crate) window: Duration,
}

/// Attempts that were counted.
#[derive(Clone, Debug)]
pub(crate) struct CountedAttempts(Vec<Attempt>);

impl Parts {
    /// Counts an attempt by `subject`. Returns `RateLimited` if the last hour already has `most` attempts.
    pub(crate) async fn attempt(&self, action: &str, subject: &str, most: u32) -> Result<()> {
        let limit = Limit {
            action,
            subject,
            most,
            window: HOUR,
        };
        self.attempts(&[limit]).await.map(drop)
    }

    /// Counts an attempt against several limits, possibly zero. Returns `RateLimited` if one of them is reached.
    pub(crate) async fn attempts(&self, limits: &[Limit<'_>]) -> Result<CountedAttempts> {
        let now = self.options.clock.now();
        let counted: Vec<_> = limits.iter().map(|of| of.attempt(now)).collect();
        let limited = counted.iter().cloned().zip(limits.iter().map(|of| of.most));
        if self.store.count_attempts(limited.collect()).await? {
            return Ok(CountedAttempts(counted));
        }
        let mut wait = Duration::ZERO;
        for (of, most) in counted.into_iter().zip(limits.iter().map(|of| of.most)) {
            let length = of.length;
            let made = self.store.attempts(of).await?;
            wait = wait.max(time_until_fewer(&made, most, (now, length)));
        }
        Err(Refusal::too_many_attempts(whole_seconds(wait)))
    }

    /// Removes attempts from the count that turned out not to be failures.
    pub(crate) async fn refund(&self, counted: CountedAttempts) -> Result<()> {
        Ok(self.store.refund_attempts(counted.0).await?)
    }
}

impl CountedAttempts {
    /// Splits the attempts after a success: returns the one of `forgotten`, which is deleted, and the others, which are refunded.
    pub(crate) fn of_success(self, forgotten: &Limit<'_>) -> (Option<Attempt>, Vec<Attempt>) {
        let subject = forgotten.name();
        let (forgotten, mut refunded): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|of| of.subject == subject);
        refunded.sort();
        (forgotten.into_iter().next(), refunded)
    }
}

impl Limit<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.action, self.subject)
    }

    fn attempt(&self, now: Timestamp) -> Attempt {
        let length = self.window / PARTS;
        Attempt {
            part: start(now, length),
            length,
            subject: self.name(),
        }
    }
}

/// Start of the part of a window that contains `now`.
fn start(now: Timestamp, length: Duration) -> Timestamp {
    let micros = i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_micros(now.as_micros() - now.as_micros().rem_euclid(micros))
}

/// Time until fewer than `most` of these attempts count: each counts until a whole window has passed after the end of its
/// part. `made` has the number of attempts in each part of this length, the earliest first.
fn time_until_fewer(made: &[(Timestamp, i64)], most: u32, (now, length): (Timestamp, Duration)) -> Duration {
    let mut count: i64 = made.iter().map(|(_, count)| count).sum();
    let mut wait = Duration::ZERO;
    for (part, gone) in made {
        if count < i64::from(most) {
            break;
        }
        count -= gone;
        let begun = now.as_micros().saturating_sub(part.as_micros());
        wait =
            (length * (PARTS + 1)).saturating_sub(Duration::from_micros(u64::try_from(begun).unwrap_or(0)));
    }
    wait
}

/// Rounds up to whole seconds, at least one.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs((time + Duration::from_micros(999_999)).as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use sortie_api::ErrorCode;

    use super::*;
    use crate::rig::Rig;

    #[tokio::test]
    async fn no_hour_has_more_attempts_than_the_limit() {
        const MINUTE: Duration = Duration::from_mins(1);
        let rig = Rig::new().await;
        let parts = rig.accounts.parts();
        let try_again = async || parts.attempt("test", "ann", 2).await;
        let wait = async || match try_again().await {
            Err(error) if error.code == ErrorCode::RateLimited => error.retry_after,
            other => panic!("{other:?}"),
        };
        // The clock is set to the start of an hour, and these attempts are made at the end of it.
        rig.pass(58 * MINUTE);
        try_again().await.unwrap();
        rig.pass(MINUTE);
        try_again().await.unwrap();
        parts.attempt("test", "bob", 2).await.unwrap();
        parts.attempt("other", "ann", 2).await.unwrap();
        // The next hour begins.
        rig.pass(MINUTE);
        assert_eq!(wait().await, Some(60 * MINUTE));
        rig.pass(59 * MINUTE + Duration::from_millis(500));
        assert_eq!(wait().await, Some(Duration::from_mins(1)));
        rig.pass(MINUTE);
        try_again().await.unwrap();
        rig.pass(15 * MINUTE);
        try_again().await.unwrap();
        // The first attempt counts until an hour after the end of its ten-minute part.
        assert_eq!(wait().await, Some(55 * MINUTE));
    }

    #[tokio::test]
    async fn attempts_that_are_taken_back_are_accepted_again() {
        let rig = Rig::new().await;
        let parts = rig.accounts.parts();
        let limit = |subject, most| Limit {
            action: "test",
            subject,
            most,
            window: HOUR,
        };
        let (ann, net) = (limit("ann", 1), limit("net", 2));
        let counted = parts.attempts(&[ann, net]).await.unwrap();
        parts.attempts(&[ann, net]).await.unwrap_err();
        parts.refund(counted).await.unwrap();
        parts.attempts(&[ann, net]).await.unwrap();
        parts.attempts(&[net]).await.unwrap();
        parts.attempts(&[net]).await.unwrap_err();
    }
}
