//! Shares of organizations in a set of slots. Dead or slow receivers of one organization leave slots to the others.
//!
//! An organization may have three times as many slots as are free at that time: dynamic thresholds (Choudhury and
//! Hahne, 1998). A single organization gets about three quarters of the slots, two get three sevenths each, and some
//! slots are always left for the next one.

use std::collections::HashMap;

use sortie_api::OrgId;

/// Slots that an organization may have for each free slot.
const FOR_EACH_FREE: u32 = 3;

/// Number of slots by organization.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shares(HashMap<OrgId, u32>);

impl Shares {
    pub(super) fn take(&mut self, org: OrgId) {
        let taken = self.0.entry(org).or_insert(0);
        *taken = taken.saturating_add(1);
    }

    pub(super) fn give_back(&mut self, org: OrgId) {
        if let Some(taken) = self.0.get_mut(&org) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                self.0.remove(&org);
            }
        }
    }

    /// Returns the organizations that get no more slots while `free` slots are free.
    pub(super) fn exhausted(&self, free: u32) -> impl Iterator<Item = OrgId> + '_ {
        let most = free.saturating_mul(FOR_EACH_FREE);
        let over = self.0.iter().filter(move |(_, taken)| **taken >= most);
        over.map(|(org, _)| *org)
    }
}

#[cfg(test)]
impl FromIterator<(OrgId, u32)> for Shares {
    fn from_iter<T: IntoIterator<Item = (OrgId, u32)>>(counts: T) -> Self {
        Self(counts.into_iter().filter(|(_, taken)| *taken > 0).collect())
    }
}
