//! Slots for uploads, shared among organizations and among the credentials of each. A client that holds slots for long leaves
//! some to others.

use std::{pin::pin, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::{ErrorCode, OrgId, Refusal};
use sortie_store::access::{By, Caller};
use tokio::sync::Notify;

/// Maximum concurrent uploads on one node. Each takes about a MiB of memory.
const UPLOADS: usize = 16;

/// Slots that an organization with many credentials leaves to other organizations.
const RESERVED: usize = 4;

/// Time that an upload waits for a slot.
const PATIENCE: Duration = Duration::from_secs(2);

/// Slots for the uploads of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uploads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Organization and credential of each upload.
    held: Mutex<Vec<(OrgId, Option<By>)>>,
    freed: Notify,
}

/// Slot of one upload; free again when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    uploads: Uploads,
    holder: (OrgId, Option<By>),
}

impl Uploads {
    /// Waits briefly for a slot.
    ///
    /// # Errors
    /// `Unavailable` if the caller gets no slot in time.
    pub(crate) async fn slot(&self, caller: &Caller) -> Result<Slot, Refusal> {
        let holder = (caller.org, caller.actor.by);
        tokio::time::timeout(PATIENCE, self.wait(holder))
            .await
            .map_err(|_| {
                ErrorCode::Unavailable
                    .because("too many uploads at once, retry in a moment or on another node")
            })
    }

    async fn wait(&self, holder: (OrgId, Option<By>)) -> Slot {
        loop {
            let mut freed = pin!(self.0.freed.notified());
            freed.as_mut().enable();
            if let Some(slot) = self.take(holder) {
                return slot;
            }
            freed.await;
        }
    }

    fn take(&self, holder: (OrgId, Option<By>)) -> Option<Slot> {
        let mut held = self.held();
        if !is_admitted(&held, holder) {
            return None;
        }
        held.push(holder);
        Some(Slot {
            uploads: self.clone(),
            holder,
        })
    }

    fn held(&self) -> MutexGuard<'_, Vec<(OrgId, Option<By>)>> {
        self.0.held.lock()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.uploads.held();
        if let Some(place) = held.iter().position(|holder| *holder == self.holder) {
            held.swap_remove(place);
        }
        drop(held);
        self.uploads.0.freed.notify_waiters();
    }
}

/// Returns true if there is a slot for this holder. A credential holds at most as many slots as are free, so a single credential
/// gets half of them. An organization holds at most twice as many as are free. Beyond that, a credential without a slot gets one
/// while enough slots are left for organizations that have no slot.
fn is_admitted(held: &[(OrgId, Option<By>)], holder: (OrgId, Option<By>)) -> bool {
    let free = UPLOADS.saturating_sub(held.len());
    let of_credential = held.iter().filter(|other| **other == holder).count();
    let of_org = held.iter().filter(|(org, _)| *org == holder.0).count();
    of_credential < free && (of_org == 0 || of_org < 2 * free || (of_credential == 0 && free > RESERVED))
}

#[cfg(test)]
mod tests {
    use sortie_api::{KeyId, Timestamp};

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

    fn holder(org: u8, key: u8) -> (OrgId, Option<By>) {
        (
            OrgId::new(AT, [org; 10]),
            Some(By::Key(KeyId::new(AT, [key; 10]))),
        )
    }

    /// Takes all slots that a holder gets.
    fn fill(uploads: &Uploads, holder: (OrgId, Option<By>)) -> Vec<Slot> {
        std::iter::from_fn(|| uploads.take(holder)).collect()
    }

    #[test]
    fn one_credential_leaves_half_of_the_slots_to_others() {
        let uploads = Uploads::default();
        let first = fill(&uploads, holder(1, 1));
        assert_eq!(first.len(), 8);
        // Another key of the organization, and then another organization, still get a slot.
        assert!(uploads.take(holder(1, 2)).is_some());
        assert_eq!(fill(&uploads, holder(2, 3)).len(), 4);
        drop(first);
        assert_eq!(uploads.held().len(), 0);
    }

    #[test]
    fn an_organization_with_many_credentials_leaves_slots_to_others() {
        let uploads = Uploads::default();
        let of_one: Vec<Vec<Slot>> = (0..100).map(|key| fill(&uploads, holder(1, key))).collect();
        assert_eq!(of_one.iter().map(Vec::len).sum::<usize>(), UPLOADS - RESERVED);
        for org in 2..6 {
            let slot = uploads.take(holder(org, 1));
            assert!(slot.is_some(), "each of {RESERVED} others gets one");
            std::mem::forget(slot);
        }
        assert!(uploads.take(holder(6, 1)).is_none(), "all of them are held");
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_waits_for_a_slot_for_two_seconds() {
        let uploads = Uploads::default();
        let (org, by) = holder(1, 1);
        let caller = Caller {
            org,
            actor: sortie_store::access::Actor {
                by,
                ..sortie_store::access::Actor::default()
            },
        };
        let mut held = fill(&uploads, (org, by));
        let refused = uploads.slot(&caller).await;
        assert!(
            matches!(&refused, Err(refused) if refused.code == ErrorCode::Unavailable),
            "{refused:?}"
        );
        let (slot, ()) = tokio::join!(uploads.slot(&caller), async {
            tokio::time::sleep(PATIENCE / 2).await;
            held.pop();
        });
        slot.unwrap();
    }
}
