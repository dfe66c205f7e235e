//! The run object, pages of it, and the definition a run used (`docs/RUNS.md#fields-of-a-run`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    digest::Sha256,
    id::{KeyId, RunId, ScheduleId},
    metadata::Metadata,
    money::Micros,
    request::RunRequest,
    status::RunStatus,
    time::Timestamp,
};

/// A run as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// ID of the run.
    pub id: RunId,
    /// Current status of the run.
    pub status: RunStatus,
    /// The agent's final answer, at most 1 MiB. Absent until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output: Option<String>,
    /// Reason why the run did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// First line of the description, or else of the prompt, at most 120 characters. Absent with zero data retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "Summarise sales.csv by region.")]
    pub title: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which the run left the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub started_at: Option<Timestamp>,
    /// Time at which the run reached a final status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finished_at: Option<Timestamp>,
    /// Budget of the run, in micros.
    pub max_cost_micros: Micros,
    /// Cost so far, in micros; omitted when zero. Provisional until `billing_pending` is false on a finished run.
    #[serde(default, skip_serializing_if = "Micros::is_zero")]
    pub cost_micros: Micros,
    /// Whether the cost is still to be settled.
    pub billing_pending: bool,
    /// ID of the schedule that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub schedule_id: Option<ScheduleId>,
    /// Whether the run stores nothing of its content.
    pub zero_data_retention: bool,
    /// Zero-data-retention runs on the hosted service: surcharge in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub surcharge_percent: Option<u32>,
    /// Part of `cost_micros` that the surcharge added; omitted when zero.
    #[serde(default, skip_serializing_if = "Micros::is_zero")]
    pub surcharge_micros: Micros,
    /// Zero-data-retention runs: whether the output is still held for retrieval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_available: Option<bool>,
    /// Zero-data-retention runs: time at which an unread output is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_expires_at: Option<Timestamp>,
    /// Zero-data-retention runs: time at which the output was read, or delivered to the callback. Absent if the output was
    /// deleted unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_read_at: Option<Timestamp>,
    /// Name of the saved workflow that the run was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub workflow: Option<String>,
    /// ID of the model that the run uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "runbook")]
    pub model: Option<String>,
    /// ID of the API key that started the run. Absent if a person, an application or a schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<KeyId>,
    /// ID of the run that this one repeats, as sent. That run may be deleted by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub replay_of: Option<RunId>,
    /// Time limit from `started_at`, in seconds.
    pub timeout_seconds: u32,
    /// ID of the last recorded event.
    #[schema(minimum = 0)]
    pub last_event_id: i64,
    /// Tags of the run, as sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false)]
    pub tags: Vec<String>,
    /// Metadata of the run: the pairs sent and those of its workflow.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[schema(nullable = false, value_type = BTreeMap<String, String>, example = json!({"customer": "c-1042"}))]
    pub metadata: Metadata,
    /// Trace that the run belongs to, as W3C Trace Context has it: 32 hexadecimal digits. Absent if the request that started the
    /// run had no `traceparent` and the engine exports no traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "4bf92f3577b34da6a3ce929d0e0e4736")]
    pub trace_id: Option<String>,
    /// Tokens and calls that the run used so far; absent until it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub usage: Option<RunUsage>,
    /// Files that the run left under `outputs/`, by path; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false)]
    pub artifacts: Vec<Artifact>,
}

/// Tokens and calls that a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunUsage {
    /// Tokens read, without those from a cache.
    #[schema(minimum = 0)]
    pub input_tokens: i64,
    /// Tokens written.
    #[schema(minimum = 0)]
    pub output_tokens: i64,
    /// Tokens read from the provider's cache.
    #[schema(minimum = 0)]
    pub cache_read_tokens: i64,
    /// Tokens written to the provider's cache.
    #[schema(minimum = 0)]
    pub cache_write_tokens: i64,
    /// Calls of a model that have ended.
    #[schema(minimum = 0)]
    pub model_calls: i64,
    /// Calls of tools that have ended.
    #[schema(minimum = 0)]
    pub tool_calls: i64,
}

impl RunUsage {
    /// Adds both, field by field.
    #[must_use]
    pub const fn saturating_add(self, more: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(more.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(more.cache_write_tokens),
            model_calls: self.model_calls.saturating_add(more.model_calls),
            tool_calls: self.tool_calls.saturating_add(more.tool_calls),
        }
    }
}

/// A file that a run left under `outputs/` in its working directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// Path below `outputs/`, `/`-separated.
    #[schema(example = "report.md")]
    pub path: String,
    /// Size in bytes.
    #[schema(minimum = 0)]
    pub size: i64,
    /// SHA-256 of the content.
    pub sha256: Sha256,
    /// Media type, from the name.
    #[schema(example = "text/markdown")]
    pub content_type: String,
}

/// Page of runs, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// The runs.
    pub items: Vec<Run>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Answer of `POST /v1/runs/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelledRuns {
    /// Number of open runs that matched the filters.
    #[schema(minimum = 0)]
    pub matched: u32,
    /// Number of runs that are cancelled now. The others ended before, or it was a dry run.
    #[schema(minimum = 0)]
    pub cancelled: u32,
    /// Value for `cursor` to continue; empty if every open run was looked at.
    pub next_cursor: String,
}

/// Definition that a run used.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunDefinition {
    /// The resolved request: defaults filled in, workflow name and callback removed.
    pub request: RunRequest,
    /// Inline connections whose credentials were not kept.
    pub requires_credentials: Vec<String>,
}
