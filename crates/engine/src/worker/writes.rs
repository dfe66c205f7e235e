//! A worker's writes through a database that comes and goes.
//!
//! A connection lost in the middle of a commit leaves open whether the write took place. The run's position in the
//! store tells: a write with events moves it, and one without may be repeated. So a write is tried again only where it
//! did not happen or does no harm, and a worker gives a run up only when the store says that the run is no longer its
//! own.

use std::time::Duration;

use sortie_store::{Error, Fence, Store};

/// Pauses between attempts, doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Reads with `read`, again for as long as the database is away.
pub(crate) async fn until_read<T, F>(read: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match read().await {
            Err(Error::Unavailable(error)) => {
                tracing::debug!(%error, "a read is tried again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            answer => return answer,
        }
    }
}

/// Writes with `write`, which adds `added` events, until it is stored. `None`: it is stored, but its answer was lost.
/// An error is final: `Fenced`, or something that trying again would not mend.
pub(crate) async fn until_stored<T, F, W>(
    store: &Store,
    fence: Fence,
    added: usize,
    write: W,
) -> Result<Option<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
    W: Fn() -> F,
{
    let target = fence
        .last_event
        .saturating_add(i64::try_from(added).unwrap_or(i64::MAX));
    let mut pause = FIRST_PAUSE;
    let mut in_doubt = false;
    loop {
        let error = match write().await {
            Ok(answer) => return Ok(Some(answer)),
            // An earlier attempt may have come through after all: then this one was fenced off by ourselves.
            Err(Error::Fenced) if in_doubt => return settled(store, fence, target).await,
            Err(Error::Unavailable(error)) => error,
            Err(error) => return Err(error),
        };
        in_doubt = true;
        tracing::debug!(%error, "a write is tried again");
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
            match store.position(fence.run, fence.attempt).await {
                Ok(position) if position == fence.last_event => break,
                Ok(position) if position == target => return Ok(None),
                Ok(_) => return Err(Error::Fenced),
                Err(Error::Unavailable(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a write that is in doubt took place.
async fn settled<T>(store: &Store, fence: Fence, target: i64) -> Result<Option<T>, Error> {
    if store.position(fence.run, fence.attempt).await? == target {
        Ok(None)
    } else {
        Err(Error::Fenced)
    }
}
