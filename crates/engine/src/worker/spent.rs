//! What a run has spent between two tellings of its agent.

use sortie_agent::BudgetSpec;
use sortie_api::Micros;
use tokio::time::Instant;

/// What the agent has spent, compute included, as last told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(super) cost: Micros,
    at: Option<Instant>,
}

impl Spent {
    /// `cost` at `at`, compute included.
    pub(crate) fn told(cost: Micros, at: Instant) -> Self {
        Self { cost, at: Some(at) }
    }

    /// The cost at `end`: what was told, and the compute time since. Never above the budget.
    pub(crate) fn until(self, end: Instant, budget: &BudgetSpec) -> Micros {
        let told = self.at.map_or(Micros::ZERO, |at| budget.compute(at));
        let since = budget.compute(end).saturating_sub(told);
        self.cost
            .checked_add(since)
            .unwrap_or(budget.max_cost)
            .min(budget.max_cost)
    }
}
