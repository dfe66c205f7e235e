//! Organizations with available credits below the threshold of their automatic purchases.
//!
//! The transaction that moves credits detects this when it writes the row, and the organization is noted after the commit,
//! without a further read. A note is a hint: it is lost when the process ends, and the credits may have grown since.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use sortie_api::OrgId;
use tokio::sync::Notify;

use crate::Store;

/// Notes of one open database.
#[derive(Debug, Default)]
pub(crate) struct LowCredits {
    organizations: Mutex<BTreeSet<OrgId>>,
    added: Notify,
}

impl LowCredits {
    /// Notes organizations, each once until it is processed.
    pub(crate) fn note(&self, organizations: Vec<OrgId>) {
        if organizations.is_empty() {
            return;
        }
        self.organizations.lock().extend(organizations);
        self.added.notify_one();
    }

    fn take(&self) -> BTreeSet<OrgId> {
        std::mem::take(&mut *self.organizations.lock())
    }
}

impl Store {
    /// System: waits until this node has left credits of organizations below their thresholds, and returns these.
    pub async fn low_credits(&self) -> BTreeSet<OrgId> {
        let notes = &self.money.low;
        loop {
            let low = notes.take();
            if !low.is_empty() {
                return low;
            }
            notes.added.notified().await;
        }
    }
}
