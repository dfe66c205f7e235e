//! Repetition of reads while the database is temporarily unavailable.

use std::time::Duration;

use sortie_store::Error;

/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Pauses between attempts. Each is twice as long as the one before, up to [`LAST_PAUSE`].
pub(crate) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// Returns the next pause.
    pub(crate) fn longer(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LAST_PAUSE);
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
