//! The run object, pages of it, and the definition a run used (contract 2.2, 2.3, 2.5).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{RunId, ScheduleId},
    money::Micros,
    request::RunRequest,
    status::RunStatus,
    time::Timestamp,
};

/// A run as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The run's id.
    pub id: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// The agent's final answer, at most 1 MiB. Absent until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output: Option<String>,
    /// Why the run did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it left the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub started_at: Option<Timestamp>,
    /// When it became final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finished_at: Option<Timestamp>,
    /// The budget.
    pub max_cost_micros: Micros,
    /// Cost so far; omitted when zero. Provisional until `billing_pending` is false on a finished run.
    #[serde(default, skip_serializing_if = "Micros::is_zero")]
    pub cost_micros: Micros,
    /// Whether the cost is still to be settled.
    pub billing_pending: bool,
    /// The schedule that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub schedule_id: Option<ScheduleId>,
    /// Whether nothing of its content is stored.
    pub zero_data_retention: bool,
}

/// One page of runs, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// The runs.
    pub items: Vec<Run>,
    /// What `cursor` takes for the next page; empty on the last one.
    pub next_cursor: String,
}

/// What a run really used.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunDefinition {
    /// The resolved request: defaults filled in, workflow name and callback removed.
    pub request: RunRequest,
    /// Inline connections whose credentials were not kept.
    pub requires_credentials: Vec<String>,
}
