//! Organizations whose available credits have fallen below the threshold of their automatic purchases.
//!
//! The transaction that moves credits finds out as it writes the row, and the organization is noted after the commit. Nobody
//! reads for it. A note is a hint: it is lost with the process, and the credits may have grown meanwhile.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use sortie_api::OrgId;
use tokio::sync::Notify;

use crate::Store;

/// Notes of one open database. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LowCredits(Arc<Notes>);

#[derive(Debug, Default)]
struct Notes {
    organizations: Mutex<BTreeSet<OrgId>>,
    added: Notify,
}

impl LowCredits {
    /// Notes organizations, each once until it is taken.
    pub(crate) fn notify(&self, organizations: impl IntoIterator<Item = OrgId>) {
        let mut organizations = organizations.into_iter().peekable();
        if organizations.peek().is_none() {
            return;
        }
        let mut noted = self.0.organizations.lock();
        noted.extend(organizations);
        self.0.added.notify_one();
    }

    fn take(&self) -> BTreeSet<OrgId> {
        std::mem::take(&mut *self.0.organizations.lock())
    }
}

impl Store {
    /// System: waits until this node has left credits of organizations below their thresholds, and returns these.
    pub async fn low_credits(&self) -> BTreeSet<OrgId> {
        let notes = self.db.low_credits();
        loop {
            let low = notes.take();
            if !low.is_empty() {
                return low;
            }
            notes.0.added.notified().await;
        }
    }
}
