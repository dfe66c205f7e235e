//! Budgets of an organization: what its runs may cost in a day or a month. The store keeps to them; here they are set.

use sortie_api::{Budget, BudgetScope, OrgId, PutBudget, limits};

use crate::{Engine, error::Error, kit::caller::Caller};

impl Engine {
    /// Sets a budget, or changes the one of this scope; whether it is new. A scope may name what is not there (yet).
    pub async fn put_budget(
        &self,
        caller: &Caller,
        scope: BudgetScope,
        put: PutBudget,
    ) -> Result<(Budget, bool), Error> {
        let audit = caller.audit(&self.0.options.clock, "budget.put", scope.to_string())?;
        Ok(self
            .store()
            .put_budget(scope, put, limits::BUDGETS, audit)
            .await?)
    }

    /// A budget with its window now.
    pub async fn get_budget(&self, org: OrgId, scope: BudgetScope) -> Result<Budget, Error> {
        let now = self.0.options.clock.now();
        Ok(self.store().get_budget(org, scope, now).await?)
    }

    /// The organization's budgets with their windows now, by scope.
    pub async fn list_budgets(&self, org: OrgId) -> Result<Vec<Budget>, Error> {
        let now = self.0.options.clock.now();
        Ok(self.store().list_budgets(org, now).await?)
    }

    /// Deletes a budget.
    pub async fn delete_budget(&self, caller: &Caller, scope: BudgetScope) -> Result<(), Error> {
        let audit = caller.audit(&self.0.options.clock, "budget.delete", scope.to_string())?;
        Ok(self.store().delete_budget(scope, audit).await?)
    }
}
