//! Entries of answers that are large as a whole: few of them are in memory at once, however many answers are made of them.
//!
//! A large text in an entry is read by itself (`LargeTexts`). An entry without one is read whole from the store, parsed and
//! serialized, although its answer takes one piece of it.

use std::sync::Arc;

use sortie_engine::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large entries that are in memory at once.
const ENTRIES: usize = 4;

/// Permits for large entries of all answers.
#[derive(Clone, Debug)]
pub(crate) struct LargeEntries(Arc<Semaphore>);

impl Default for LargeEntries {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ENTRIES)))
    }
}

impl LargeEntries {
    /// Reads an entry once there is a permit for it.
    pub(crate) async fn read<T>(
        &self,
        read: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Option<LargeEntry<T>>, Error> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|error| Error::Internal(error.to_string()))?;
        let entry = read.await?;
        Ok(entry.map(|entry| LargeEntry {
            entry,
            _permit: permit,
        }))
    }
}

/// Entry with the permit to be in memory. Another entry is read once this one is dropped.
#[derive(Debug)]
pub(crate) struct LargeEntry<T> {
    entry: T,
    _permit: OwnedSemaphorePermit,
}

impl<T> LargeEntry<T> {
    /// Returns the entry.
    pub(crate) fn entry(&self) -> &T {
        &self.entry
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, task::Poll};

    use super::*;

    #[tokio::test]
    async fn few_large_entries_are_in_memory_at_once() {
        let entries = LargeEntries::default();
        let mut held = Vec::new();
        for number in 0..ENTRIES {
            held.push(entries.read(ready(Ok(Some(number)))).await.unwrap().unwrap());
        }
        let mut next = Box::pin(entries.read(async { Ok(Some(9)) }));
        assert!(
            futures_util::poll!(&mut next).is_pending(),
            "it waits for a permit"
        );
        drop(held.pop());
        let Poll::Ready(found) = futures_util::poll!(&mut next) else {
            panic!("there is a permit");
        };
        assert_eq!(*found.unwrap().unwrap().entry(), 9);
        drop(next);
        // Nothing that was not found or could not be read keeps a permit.
        for _ in 0..2 * ENTRIES {
            assert!(entries.read(ready(Ok(None::<()>))).await.unwrap().is_none());
            let failed: Result<Option<()>, _> = Err(Error::NotFound);
            assert!(entries.read(ready(failed)).await.is_err());
        }
    }
}
