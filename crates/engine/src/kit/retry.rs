//! Repetition of reads while the database is temporarily unavailable.

use std::time::Duration;

use sortie_store::Error;

/// The first pause between two attempts. Every further pause is twice as long.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two attempts.
pub(crate) const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Repeats a read for as long as the database is unavailable.
pub(crate) async fn until_read<T, F>(read: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match read().await {
            Err(Error::Unavailable(error)) => {
                tracing::debug!(%error, "repeating a read");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            answer => return answer,
        }
    }
}
