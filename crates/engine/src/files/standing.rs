//! State of the storage as this node sees it: one task checks the storage regularly, and every other task reads the result here.

use std::sync::Arc;

use sortie_api::OrgId;
use tokio::sync::{Notify, watch};

/// State of the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The storage answers, or was not checked yet.
    #[default]
    Up,
    /// The storage does not answer, or refuses requests.
    Away,
}

/// Latest state of the storage. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestStanding(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    latest: watch::Sender<Latest>,
    suspected: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    standing: Standing,
    /// Organization for which the storage has refused content, until it accepts content of that organization.
    refused: Option<OrgId>,
}

impl LatestStanding {
    /// Returns the latest state.
    pub(crate) fn get(&self) -> Standing {
        self.0.latest.borrow().standing
    }

    /// Returns the organization for which the storage has refused content, until the storage is shown to accept it.
    pub(crate) fn refused(&self) -> Option<OrgId> {
        self.0.latest.borrow().refused
    }

    /// Sets the state. `Up` clears a refusal of `proven`, the organization for which the storage was just tested. Returns whether
    /// the state has changed.
    pub(crate) fn set(&self, standing: Standing, proven: Option<OrgId>) -> bool {
        let mut is_new = false;
        self.0.latest.send_modify(|latest| {
            is_new = latest.standing != standing;
            latest.standing = standing;
            if standing == Standing::Up && latest.refused == proven {
                latest.refused = None;
            }
        });
        is_new
    }

    /// Requests a check of the storage, because it has refused content of this organization. Returns whether this is the first
    /// refusal since the storage was shown to accept content.
    pub(crate) fn suspect(&self, org: OrgId) -> bool {
        let mut is_first = false;
        self.0.latest.send_modify(|latest| {
            is_first = latest.refused.is_none();
            latest.refused = Some(org);
        });
        self.0.suspected.notify_one();
        is_first
    }

    /// Waits for a failure of the storage.
    pub(crate) async fn suspected(&self) {
        self.0.suspected.notified().await;
    }

    /// Waits until the storage answers and no refusal is left to be checked.
    pub(crate) async fn up(&self) {
        let mut latest = self.0.latest.subscribe();
        // The sender lives as long as `self`.
        let _up = latest
            .wait_for(|latest| latest.standing == Standing::Up && latest.refused.is_none())
            .await;
    }
}
