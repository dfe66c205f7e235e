//! Limits on attempts: exact over all nodes, in windows that begin with each hour or each day (UTC).

use std::time::Duration;

use sortie_api::Timestamp;
use sortie_store::Attempt;

use crate::{Error, Parts, Result};

/// Window of most limits.
pub(crate) const HOUR: Duration = Duration::from_hours(1);
/// Window of the limits on mails.
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Maximum number of attempts of a subject in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<'a> {
    /// Name of the action, such as `login`.
    pub(crate) action: &'a str,
    /// Person, address or network that tries it.
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
    /// Counts an attempt of `subject` in this hour. `TooManyAttempts` where there were `most` of them already.
    pub(crate) async fn attempt(&self, action: &str, subject: &str, most: u32) -> Result<()> {
        let limit = Limit {
            action,
            subject,
            most,
            window: HOUR,
        };
        self.attempts(&[limit]).await.map(drop)
    }

    /// Counts an attempt under several limits, or under none of them: `TooManyAttempts` where one is reached.
    pub(crate) async fn attempts(&self, limits: &[Limit<'_>]) -> Result<CountedAttempts> {
        let now = self.options.clock.now();
        let counted: Vec<_> = limits.iter().map(|of| of.attempt(now)).collect();
        let limited = counted.iter().cloned().zip(limits.iter().map(|of| of.most));
        if self.store.count_attempts(limited.collect()).await? {
            return Ok(CountedAttempts(counted));
        }
        // The longest window that may be the reached one: a retry at its end is accepted.
        let longest = limits.iter().map(|of| of.window).max().unwrap_or(HOUR);
        Err(Error::TooManyAttempts(rest(now, longest)))
    }

    /// Takes attempts back, which were no failures.
    pub(crate) async fn refund(&self, counted: CountedAttempts) -> Result<()> {
        Ok(self.store.refund_attempts(counted.0).await?)
    }
}

impl CountedAttempts {
    /// Returns the attempt of `forgotten` to forget after a success, and the others to take back.
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
        Attempt {
            window: start(now, self.window),
            subject: self.name(),
        }
    }
}

/// Start of the window of this moment.
fn start(now: Timestamp, window: Duration) -> Timestamp {
    let micros = i64::try_from(window.as_micros()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_micros(now.as_micros() - now.as_micros().rem_euclid(micros))
}

/// Time until the next window, in whole seconds, at least one.
fn rest(now: Timestamp, window: Duration) -> Duration {
    let passed = now.as_micros() - start(now, window).as_micros();
    let left = window.saturating_sub(Duration::from_micros(u64::try_from(passed).unwrap_or(0)));
    Duration::from_secs((left + Duration::from_micros(999_999)).as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;

    #[test]
    fn a_window_begins_with_the_hour_and_its_rest_is_rounded_up() {
        const SECOND: i64 = 1_000_000;
        let at = |micros: i64| Timestamp::from_micros(472_222 * 3_600 * SECOND + micros);
        for (micros, seconds) in [(0, 3_600), (1, 3_600), (SECOND, 3_599), (3_599 * SECOND + 1, 1)] {
            assert_eq!(start(at(micros), HOUR), at(0), "{micros}");
            assert_eq!(rest(at(micros), HOUR), Duration::from_secs(seconds), "{micros}");
        }
        assert_eq!(start(at(3_600 * SECOND), HOUR), at(3_600 * SECOND));
    }

    #[tokio::test]
    async fn the_attempt_after_the_last_one_waits_for_the_next_hour() {
        let rig = Rig::new().await;
        let parts = rig.accounts.parts();
        let try_again = async || parts.attempt("test", "ann", 2).await;
        try_again().await.unwrap();
        rig.pass(Duration::from_mins(15));
        try_again().await.unwrap();
        let Err(Error::TooManyAttempts(wait)) = try_again().await else {
            panic!("the third attempt is accepted");
        };
        assert_eq!(wait, Duration::from_mins(45));
        parts.attempt("test", "bob", 2).await.unwrap();
        parts.attempt("other", "ann", 2).await.unwrap();
        rig.pass(wait);
        try_again().await.unwrap();
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
