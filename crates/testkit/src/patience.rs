//! Waiting for a state that must come and that nothing reports.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

/// Longest time that a healthy node needs for anything a test waits for, on a starved machine as well. What a test asserts
/// about time has its own bound.
pub const PATIENCE: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(10);

/// Looks until `is_wanted` holds for what was seen, and returns that. A look that fails ends the wait.
///
/// After [`PATIENCE`] the error says what the test waited for, and what the last look saw.
pub async fn until<Seen: Debug>(
    what: &str,
    look: impl AsyncFnMut() -> Result<Seen>,
    is_wanted: impl Fn(&Seen) -> bool,
) -> Result<Seen> {
    until_within(PATIENCE, what, look, is_wanted).await
}

/// Waits like [`until`], for as long as `limit`: for what takes a healthy node minutes, or must come before something else
/// would end the wait as well.
pub async fn until_within<Seen: Debug>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Seen>,
    is_wanted: impl Fn(&Seen) -> bool,
) -> Result<Seen> {
    let begun = Instant::now();
    loop {
        let looked = Instant::now();
        let seen = look().await?;
        if is_wanted(&seen) {
            return Ok(seen);
        }
        ensure!(
            begun.elapsed() < limit,
            "waited {limit:?} for {what}, saw {seen:?}"
        );
        // Long looks would otherwise take the processor from what they wait for.
        tokio::time::sleep(PAUSE.max(looked.elapsed())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_seen_is_returned_once_it_is_wanted() -> Result<()> {
        let mut looks = 0;
        let look = async || {
            looks += 1;
            Ok(looks)
        };
        assert_eq!(until("three looks", look, |looks| *looks == 3).await?, 3);
        Ok(())
    }

    #[tokio::test]
    async fn the_error_says_what_did_not_come_and_what_was_seen() {
        let never = until_within(Duration::ZERO, "the end", async || Ok("a start"), |_| false).await;
        assert_eq!(
            never.map_err(|error| error.to_string()),
            Err("waited 0ns for the end, saw \"a start\"".to_owned())
        );
    }

    #[tokio::test]
    async fn a_look_that_fails_ends_the_wait() {
        let broken = until("anything", async || anyhow::bail!("broken"), |(): &()| true).await;
        assert_eq!(
            broken.map_err(|error| error.to_string()),
            Err("broken".to_owned())
        );
    }
}
