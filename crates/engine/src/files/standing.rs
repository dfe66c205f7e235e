//! State of the storage as this node sees it: one task asks the storage regularly, and whatever depends on it reads the
//! answer here.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// State of the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The storage answers, or was not asked yet.
    #[default]
    Up,
    /// The storage does not do its work.
    Away,
}

/// Latest state of the storage. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestStanding(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    latest: watch::Sender<Standing>,
    suspected: Notify,
}

impl LatestStanding {
    /// Returns the latest state.
    pub(crate) fn get(&self) -> Standing {
        *self.0.latest.borrow()
    }

    /// Sets the state. Returns whether it is another one than before.
    pub(crate) fn set(&self, standing: Standing) -> bool {
        self.0.latest.send_if_modified(|latest| {
            let is_new = *latest != standing;
            *latest = standing;
            is_new
        })
    }

    /// Has the storage asked at once, because it has failed.
    pub(crate) fn suspect(&self) {
        self.0.suspected.notify_one();
    }

    /// Waits for a failure of the storage.
    pub(crate) async fn suspected(&self) {
        self.0.suspected.notified().await;
    }

    /// Waits until the storage answers.
    pub(crate) async fn up(&self) {
        let mut latest = self.0.latest.subscribe();
        // The sender lives as long as `self`.
        let _up = latest.wait_for(|latest| *latest == Standing::Up).await;
    }
}
