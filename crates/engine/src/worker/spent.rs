//! Cost of a run between two reports of its agent.

use serde::Deserialize;
use sortie_agent::BudgetSpec;
use sortie_api::{Micros, OrgId, RunId, event::kind};
use sortie_store::{Error as StoreError, Store, runs::EventRow};
use tokio::time::Instant;

/// Events in one query.
const PAGE: u32 = 500;

/// Returns the cost of the calls of models and priced tools that the events of a run show.
pub(crate) async fn charged_calls(store: &Store, org: OrgId, run: RunId) -> Result<Micros, StoreError> {
    #[derive(Deserialize)]
    struct Charged {
        #[serde(default)]
        cost_micros: Micros,
    }
    let (mut sum, mut after) = (Micros::ZERO, 0);
    loop {
        let events = store.events_after(org, run, after, PAGE).await?;
        let is_call = |event: &&EventRow| matches!(event.kind.as_str(), kind::MODEL_CALL | kind::TOOL_END);
        for event in events.iter().filter(is_call) {
            let charged: Charged =
                serde_json::from_str(&event.data).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            sum = sum.checked_add(charged.cost_micros).unwrap_or(sum);
        }
        match events.last() {
            Some(last) if events.len() == PAGE as usize => after = last.seq,
            Some(_) | None => return Ok(sum),
        }
    }
}

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

    /// Adds the cost of a call.
    pub(crate) fn and(self, cost: Micros) -> Self {
        Self {
            cost: self.cost.checked_add(cost).unwrap_or(self.cost),
            ..self
        }
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
