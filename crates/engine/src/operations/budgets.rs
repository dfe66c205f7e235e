//! Budgets of an organization: limits on the cost of its runs in a day or a month. The store enforces them.

use sortie_api::{Budget, BudgetScope, OrgId, PutBudget, Refusal, limits};
use sortie_store::access::Caller;

use crate::{Engine, kit::random::random};

impl Engine {
    /// Sets a budget, or changes the one of this scope. Returns whether it is new. A scope may name something that does
    /// not exist yet.
    pub async fn put_budget(
        &self,
        caller: &Caller,
        scope: BudgetScope,
        put: PutBudget,
    ) -> Result<(Budget, bool), Refusal> {
        let audit = caller.audit(
            (self.0.options.clock.now(), random()?),
            "budget.put",
            scope.to_string(),
        );
        Ok(self
            .store()
            .put_budget(scope, put, limits::BUDGETS, audit)
            .await?)
    }

    /// Returns a budget with its current window.
    pub async fn get_budget(&self, org: OrgId, scope: BudgetScope) -> Result<Budget, Refusal> {
        let now = self.0.options.clock.now();
        Ok(self.store().get_budget(org, scope, now).await?)
    }

    /// Returns the organization's budgets with their current windows, sorted by scope, at most `limit`. The first has a scope
    /// after `after`.
    pub async fn list_budgets(
        &self,
        org: OrgId,
        after: Option<BudgetScope>,
        limit: u32,
    ) -> Result<Vec<Budget>, Refusal> {
        let now = self.0.options.clock.now();
        let after = after.map(|scope| scope.to_string()).unwrap_or_default();
        Ok(self.store().list_budgets(org, now, (after, limit)).await?)
    }

    /// Deletes a budget.
    pub async fn delete_budget(&self, caller: &Caller, scope: BudgetScope) -> Result<(), Refusal> {
        let audit = caller.audit(
            (self.0.options.clock.now(), random()?),
            "budget.delete",
            scope.to_string(),
        );
        Ok(self.store().delete_budget(scope, audit).await?)
    }
}
