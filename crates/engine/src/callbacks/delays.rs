//! Delays between the attempts to deliver a callback.

use std::time::Duration;

/// Delay after the first failure, and the most times that it is doubled.
const FIRST_DELAY: Duration = Duration::from_secs(10);
const DOUBLINGS: i64 = 8;

/// Maximum addition to a delay.
const JITTER: Duration = Duration::from_millis(500);

/// Delay after a failure that follows `failures` others: 10 seconds, doubling up to 2,560 seconds. Up to [`JITTER`] is
/// added at random, so that deliveries that failed together are not retried together.
pub(super) fn delay(failures: i64, [random]: [u8; 1]) -> Duration {
    let doublings = u32::try_from(failures.clamp(0, DOUBLINGS)).unwrap_or(0);
    let delay = FIRST_DELAY.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(1));
    delay + JITTER * u32::from(random) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_begin_at_ten_seconds_and_double_to_43_minutes() {
        let seconds: Vec<u64> = (0..10).map(|failures| delay(failures, [0]).as_secs()).collect();
        assert_eq!(seconds, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 2_560]);
        assert_eq!(delay(0, [255]), Duration::from_millis(10_500));
    }
}
