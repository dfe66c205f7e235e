//! Waits for a state that must be reached and that has no notification.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

/// Maximum time that a healthy node needs for anything that a test waits for, even on a busy machine. Assertions about
/// time have separate bounds.
pub const PATIENCE: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(10);

/// Looks until `is_wanted` accepts the result, and returns that. A look that fails ends the wait.
///
/// After [`PATIENCE`] the error names the goal of the wait and the result of the last look.
pub async fn until<Seen: Debug>(
    what: &str,
    look: impl AsyncFnMut() -> Result<Seen>,
    is_wanted: impl Fn(&Seen) -> bool,
) -> Result<Seen> {
    until_within(PATIENCE, what, look, is_wanted).await
}

/// Waits like [`until`], for at most `limit`: for states that take a healthy node minutes, or that must come before
/// something else would also end the wait.
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
        // If looks take long, pause as long: they would otherwise take the processor from the awaited work.
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
