//! Repetition of reads while the database is temporarily unavailable.

use std::time::Duration;

use sortie_store::Error;

/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Pauses between attempts. Each is twice as long as the one before, up to a longest one.
pub(crate) struct Pauses {
    next: Duration,
    last: Duration,
}

/// Pauses up to [`LAST_PAUSE`].
impl Default for Pauses {
    fn default() -> Self {
        Self::up_to(LAST_PAUSE)
    }
}

impl Pauses {
    /// Creates pauses up to a longest one.
    pub(crate) const fn up_to(last: Duration) -> Self {
        Self {
            next: FIRST_PAUSE,
            last,
        }
    }

    /// Returns the next pause.
    pub(crate) fn longer(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.last);
        pause
    }
}

/// Repeats a read for as long as the database is unavailable.
pub(crate) async fn until_read<T, F>(read: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pauses = Pauses::default();
    loop {
        match read().await {
            Err(Error::Unavailable(error)) => {
                tracing::debug!(%error, "repeating a read");
                tokio::time::sleep(pauses.longer()).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut pauses = Pauses::up_to(Duration::from_mins(1));
        let all: Vec<Duration> = (0..20).map(|_| pauses.longer()).collect();
        assert_eq!(all[..2], [FIRST_PAUSE, FIRST_PAUSE * 2]);
        assert!(all.iter().all(|pause| *pause <= Duration::from_mins(1)));
        // An hour has at most 75 attempts.
        assert_eq!(all[11..], [Duration::from_mins(1); 9]);
    }
}
