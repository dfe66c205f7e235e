//! Budgets that have refused a run a moment ago.
//!
//! A refusal ends the shared transaction of a group of commands. Runs under a budget that has just refused one are therefore
//! compared with it by a read first, and written in a transaction of their own.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::{BudgetScope, OrgId, Timestamp};

use super::holds::scopes;
use crate::types::{NewRun, OverBudget};

/// Time that a refusal is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Budgets of the last refusals, with the creation time of the run that was refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<(OrgId, BudgetScope), Timestamp>>);

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<(OrgId, BudgetScope), Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a refusal.
    pub(crate) fn add(&self, org: OrgId, refused: &OverBudget, at: Timestamp) {
        let mut recent = self.lock();
        recent.retain(|_, refused_at| is_recent(*refused_at, at));
        recent.insert((org, refused.scope.clone()), at);
    }

    /// Whether one of the run's budgets has refused another run a moment ago.
    pub(crate) fn concern(&self, run: &NewRun) -> bool {
        let recent = self.lock();
        !recent.is_empty()
            && scopes(run)
                .into_iter()
                .flatten()
                .filter_map(|scope| recent.get(&(run.org, scope)))
                .any(|refused_at| is_recent(*refused_at, run.created_at))
    }
}

fn is_recent(refused_at: Timestamp, now: Timestamp) -> bool {
    refused_at <= now && now < refused_at + REMEMBERED
}
