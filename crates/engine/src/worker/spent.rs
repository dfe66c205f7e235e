//! Cost of a run between two reports of its agent.

use sortie_agent::BudgetSpec;
use sortie_api::Micros;
use tokio::time::Instant;

/// Cost that the agent has last reported, compute included.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(super) cost: Micros,
    at: Option<Instant>,
}

impl Spent {
    /// Creates the cost that was reported at `at`, compute included.
    pub(crate) fn reported(cost: Micros, at: Instant) -> Self {
        Self { cost, at: Some(at) }
    }

    /// Returns the cost at `end`: the reported cost, and the compute time since. Never above the budget.
    pub(crate) fn until(self, end: Instant, budget: &BudgetSpec) -> Micros {
        let reported = self.at.map_or(Micros::ZERO, |at| budget.compute(at));
        let since = budget.compute(end).saturating_sub(reported);
        self.cost
            .checked_add(since)
            .unwrap_or(budget.max_cost)
            .min(budget.max_cost)
    }
}
