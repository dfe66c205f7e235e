//! Budgets and credits that have refused a run recently.
//!
//! A refusal ends the shared transaction of a group of commands. If a budget or the credits of an organization have
//! just refused a run, the next run of the same cost first reads them, and is written in a separate transaction.

use std::{collections::HashMap, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::{BudgetScope, Micros, OrgId, Timestamp};

use super::{holds::scopes, payment::Payment};
use crate::runs::NewRun;

/// Time that a refusal is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Limit that refuses runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// Budget of this scope.
    Budget(BudgetScope),
    /// Credits of the organization.
    Credit,
}

/// Refusals of the last seconds, by limit. Times are creation times of runs.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<(OrgId, Limit), Refused>>);

/// Refusals of one limit.
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// Creation time of the latest run that was refused.
    at: Timestamp,
    /// Least amount that was refused. Smaller runs may fit.
    least: Micros,
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<(OrgId, Limit), Refused>> {
        self.0.lock()
    }

    /// Remembers the refusal of a run that was created at `at`. Refusals may arrive in another order than the runs.
    pub(crate) fn add(&self, org: OrgId, limit: Limit, max_cost: Micros, at: Timestamp) {
        let mut recent = self.lock();
        recent.retain(|_, entry| at < entry.at + REMEMBERED);
        let new = Refused { at, least: max_cost };
        recent
            .entry((org, limit))
            .and_modify(|entry| {
                entry.at = entry.at.max(new.at);
                entry.least = entry.least.min(new.least);
            })
            .or_insert(new);
    }

    /// Whether one of the run's budgets, or the credits for it, have recently refused this amount or less.
    pub(crate) fn concern(&self, run: &NewRun) -> bool {
        let recent = self.lock();
        !recent.is_empty()
            && scopes(run)
                .into_iter()
                .flatten()
                .map(Limit::Budget)
                .chain((run.payment == Payment::Credit).then_some(Limit::Credit))
                .filter_map(|limit| recent.get(&(run.org, limit)))
                .any(|entry| run.max_cost >= entry.least && is_recent(entry.at, run.created_at))
    }
}

/// Whether two times are less than [`REMEMBERED`] apart, in either order.
pub(super) fn is_recent(refused_at: Timestamp, created_at: Timestamp) -> bool {
    created_at < refused_at + REMEMBERED && refused_at < created_at + REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{Definition, Labels};

    const fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + seconds * 1_000_000)
    }

    fn micros(amount: u64) -> Micros {
        Micros::new(amount).unwrap()
    }

    fn run(org: OrgId, max_cost: u64, created_at: Timestamp) -> NewRun {
        NewRun {
            id: sortie_api::RunId::new(created_at, [0; 10]),
            org,
            idempotency_key: None,
            definition: Definition::Stored("{}".into()),
            inline: None,
            callback: None,
            max_cost: micros(max_cost),
            payment: Payment::Free,
            timeout_seconds: 60,
            labels: Labels {
                workflow: Some("w".to_owned()),
                ..Labels::default()
            },
            created_at,
            trace: None,
            allowance: None,
        }
    }

    #[test]
    fn refusals_that_arrive_out_of_order_forget_no_other_budget() {
        let refusals = Refusals::default();
        let (a, b) = (OrgId::new(seconds(0), [1; 10]), OrgId::new(seconds(0), [2; 10]));
        refusals.add(
            a,
            Limit::Budget(BudgetScope::Organization),
            micros(10),
            seconds(4),
        );
        refusals.add(
            b,
            Limit::Budget(BudgetScope::Organization),
            micros(10),
            seconds(1),
        );
        refusals.add(
            a,
            Limit::Budget(BudgetScope::Organization),
            micros(10),
            seconds(2),
        );
        assert!(
            refusals.concern(&run(a, 10, seconds(8))),
            "four seconds after the latest"
        );
        assert!(refusals.concern(&run(a, 10, seconds(3))), "before the latest");
        assert!(refusals.concern(&run(b, 10, seconds(5))));
        assert!(!refusals.concern(&run(b, 10, seconds(6))));
        assert!(!refusals.concern(&run(a, 10, seconds(9))));
    }

    #[test]
    fn a_refusal_concerns_runs_of_the_same_budget_that_cost_as_much() {
        let refusals = Refusals::default();
        let org = OrgId::new(seconds(0), [1; 10]);
        let workflow = BudgetScope::Workflow("w".to_owned());
        refusals.add(org, Limit::Budget(workflow.clone()), micros(100), seconds(0));
        assert!(refusals.concern(&run(org, 100, seconds(1))));
        assert!(!refusals.concern(&run(org, 99, seconds(1))), "it may fit");
        refusals.add(org, Limit::Budget(workflow), micros(50), seconds(1));
        assert!(refusals.concern(&run(org, 99, seconds(1))));
        let mut other = run(org, 100, seconds(1));
        other.labels.workflow = Some("x".to_owned());
        assert!(!refusals.concern(&other));
    }

    #[test]
    fn a_refusal_of_credits_concerns_runs_that_are_paid_with_credits() {
        let refusals = Refusals::default();
        let org = OrgId::new(seconds(0), [1; 10]);
        refusals.add(org, Limit::Credit, micros(100), seconds(0));
        let paid = |max_cost| NewRun {
            payment: Payment::Credit,
            ..run(org, max_cost, seconds(1))
        };
        assert!(refusals.concern(&paid(100)));
        assert!(!refusals.concern(&paid(99)), "it may be covered");
        assert!(!refusals.concern(&run(org, 100, seconds(1))), "it is free");
    }

    #[test]
    fn old_refusals_take_no_memory() {
        let refusals = Refusals::default();
        for second in 0..100 {
            let org = OrgId::new(seconds(second), [3; 10]);
            refusals.add(
                org,
                Limit::Budget(BudgetScope::Organization),
                micros(1),
                seconds(second),
            );
        }
        assert_eq!(refusals.lock().len(), 5);
    }
}
