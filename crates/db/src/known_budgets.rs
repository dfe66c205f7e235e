//! Budgets as the writing connection of `SQLite` has read them.
//!
//! No other process writes to the database, so they need not be read again for every run. They are forgotten whenever a
//! budget is changed or a transaction is rolled back.

use std::collections::HashMap;

use sortie_api::{BudgetScope, OrgId, Timestamp};

use super::tail::WindowKey;

/// Most scopes that are known at the same time.
const MOST: usize = 16_384;

/// Budgets that are known, and scopes that are known to have none.
#[derive(Debug, Default)]
pub struct KnownBudgets(HashMap<(OrgId, BudgetScope), Option<KnownBudget>>);

/// A budget with a window that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownBudget {
    /// Limit in micros.
    pub limit: i64,
    pub window: WindowKey,
    /// Start of the next window.
    pub resets_at: Timestamp,
}

impl KnownBudgets {
    /// Budgets of these scopes with their windows at `at`. `None` if one of them must be read.
    pub fn find(
        &self,
        org: OrgId,
        scopes: impl IntoIterator<Item = BudgetScope>,
        at: Timestamp,
    ) -> Option<Vec<KnownBudget>> {
        let mut found = Vec::new();
        for scope in scopes {
            match self.0.get(&(org, scope))? {
                Some(known) if known.window.starts_at <= at && at < known.resets_at => {
                    found.push(known.clone());
                }
                Some(_) => return None,
                None => {}
            }
        }
        Some(found)
    }

    /// Remembers the budget of a scope, or that it has none.
    pub fn insert(&mut self, org: OrgId, scope: BudgetScope, budget: Option<KnownBudget>) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert((org, scope), budget);
    }

    /// Forgets the budget of a scope.
    pub fn remove(&mut self, org: OrgId, scope: BudgetScope) {
        self.0.remove(&(org, scope));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn org(number: u8) -> OrgId {
        OrgId::new(at(1), [number; 10])
    }

    fn known(starts_at: i64, resets_at: i64) -> KnownBudget {
        KnownBudget {
            limit: 5,
            window: WindowKey {
                org: org(1),
                scope: "organization".to_owned(),
                since: 1,
                starts_at: at(starts_at),
            },
            resets_at: at(resets_at),
        }
    }

    #[test]
    fn a_budget_is_known_within_its_window_and_until_it_is_forgotten() {
        let (all, workflow) = (
            BudgetScope::Organization,
            BudgetScope::Workflow("report".to_owned()),
        );
        let mut budgets = KnownBudgets::default();
        let find =
            |budgets: &KnownBudgets, time| budgets.find(org(1), [all.clone(), workflow.clone()], at(time));
        budgets.insert(org(1), all.clone(), Some(known(10, 20)));
        assert_eq!(find(&budgets, 10), None, "nothing is known of the workflow");
        budgets.insert(org(1), workflow.clone(), None);
        assert_eq!(find(&budgets, 9), None);
        assert_eq!(find(&budgets, 10), Some(vec![known(10, 20)]));
        assert_eq!(find(&budgets, 19), Some(vec![known(10, 20)]));
        assert_eq!(find(&budgets, 20), None);
        assert_eq!(
            budgets.find(org(2), [all.clone()], at(10)),
            None,
            "another organization"
        );
        budgets.remove(org(1), all.clone());
        assert_eq!(find(&budgets, 10), None);
        budgets.insert(org(1), all.clone(), None);
        assert_eq!(find(&budgets, 10), Some(Vec::new()));
        budgets.clear();
        assert_eq!(find(&budgets, 10), None);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut budgets = KnownBudgets::default();
        for number in 0..=MOST {
            let scope = BudgetScope::Workflow(number.to_string());
            budgets.insert(org(1), scope, None);
        }
        assert_eq!(budgets.0.len(), 1);
    }
}
