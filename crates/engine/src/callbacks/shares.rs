//! How many of some places each organization has, and who has had its share: however many receivers of one organization are
//! dead or slow, places are left for those of the others.
//!
//! An organization may have three times as many as are free just then: dynamic thresholds (Choudhury and Hahne, 1998). One alone
//! gets about three quarters of the places, two get three sevenths each, and some are always left for who comes next.

use std::collections::HashMap;

use sortie_api::OrgId;

/// What an organization may have for each place that is free.
const FOR_EACH_FREE: u32 = 3;

/// Places by organization.
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

    /// Who is to get no more while so many places are free.
    pub(super) fn exhausted(&self, free: u32) -> impl Iterator<Item = OrgId> + '_ {
        let most = free.saturating_mul(FOR_EACH_FREE);
        let over = self.0.iter().filter(move |(_, taken)| **taken >= most);
        over.map(|(org, _)| *org)
    }
}
