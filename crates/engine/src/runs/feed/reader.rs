//! A reader of a feed.

use std::{collections::BTreeSet, sync::Arc, vec};

use sortie_api::{Refusal, RunId};
use sortie_store::{Store, runs::RunFilter};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Followed,
    log::{Change, Later},
};
use crate::runs::hub::Batch;

pub(super) struct Reader {
    pub(super) store: Store,
    pub(super) stop: CancellationToken,
    pub(super) followed: Arc<Followed>,
    pub(super) changed: watch::Receiver<()>,
    pub(super) filter: RunFilter,
    /// Number of the last change that was read. `None` until the reader has a position.
    pub(super) position: Option<u64>,
    /// Messages that were read and not sent yet.
    pub(super) ready: vec::IntoIter<Arc<Batch>>,
}

impl Reader {
    /// Waits for the next message. Returns `None` once the node stops.
    pub(super) async fn next(mut self) -> Option<(Result<Arc<Batch>, Refusal>, Self)> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Some((Ok(batch), self));
            }
            self.changed.mark_unchanged();
            let later = {
                let log = self.followed.log();
                if log.is_begun() {
                    log.after(self.position)
                } else {
                    Later::Nothing
                }
            };
            match later {
                Later::Changes(changes, last) => {
                    match self.admitted(&changes).await {
                        Ok(batches) => self.ready = batches.into_iter(),
                        Err(error) => return Some((Err(error), self)),
                    }
                    self.position = Some(last);
                }
                Later::Reset(message, last) => {
                    self.position = Some(last);
                    return Some((Ok(message), self));
                }
                Later::Nothing => tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return None,
                    // The sender lives as long as `followed`.
                    _ = self.changed.changed() => {}
                },
            }
        }
    }

    /// Returns the messages of the changes that the filter admits.
    async fn admitted(&self, changes: &[Arc<Change>]) -> Result<Vec<Arc<Batch>>, Refusal> {
        let mut admitted: Vec<_> = changes
            .iter()
            .filter(|change| self.filter.admits(&change.run))
            .collect();
        if self.filter.text.is_some() && !admitted.is_empty() {
            let ids: BTreeSet<RunId> = admitted.iter().map(|change| change.run.id).collect();
            let filter = RunFilter {
                limit: u32::try_from(ids.len()).unwrap_or(u32::MAX),
                ids: ids.into_iter().collect(),
                text: self.filter.text.clone(),
                ..RunFilter::default()
            };
            let found = self.store.list_runs(self.followed.org, filter).await?;
            let found: BTreeSet<RunId> = found.items.iter().map(|listed| listed.run.id).collect();
            admitted.retain(|change| found.contains(&change.run.id));
        }
        Ok(admitted
            .into_iter()
            .map(|change| Arc::clone(&change.batch))
            .collect())
    }
}
