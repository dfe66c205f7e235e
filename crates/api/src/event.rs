//! Recorded events of a run (`docs/RUNS.md#events`), in the form in which they are stored, streamed and replayed.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{money::Micros, status::RunStatus, time::Timestamp};

/// Recorded event of a run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number.
    #[schema(minimum = 1, example = 1)]
    pub id: i64,
    /// The kind of event. New kinds may be added: ignore those you do not know.
    #[serde(rename = "type")]
    #[schema(example = "status")]
    pub kind: String,
    /// Content of the event; the fields depend on `type`.
    #[schema(value_type = Object)]
    pub data: Box<RawValue>,
    /// Time at which the event was recorded.
    pub created_at: Timestamp,
}

/// The content of an event. It serializes as its data; [`kind`](Self::kind) is its type.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum EventType {
    /// The run moved to another status.
    Status {
        /// The new status.
        status: RunStatus,
        /// On a final status that is not a success: why.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A worker has the run and its agent begins.
    WorkerStarted {
        /// The isolation level in use: `namespaces`, `landlock`, `none`.
        runtime: &'static str,
        /// The deployment mode.
        mode: crate::Mode,
        /// Whether the agent may run shell commands.
        shell: bool,
    },
    /// A model call has ended.
    ModelCall(ModelCall),
    /// Text of the assistant in one turn.
    Message {
        /// The text.
        text: String,
        /// The turn, from 1.
        step: u32,
    },
    /// A readable summary of what the model thought in one turn, where its provider gives one.
    ThinkingSummary {
        /// The text.
        text: String,
        /// The turn, from 1.
        step: u32,
    },
    /// A tool begins.
    ToolStart {
        /// The tool's name.
        tool: String,
        /// The call's id, the same in `tool_end`.
        id: String,
        /// The arguments, a JSON object.
        arguments: Box<RawValue>,
    },
    /// A tool has ended.
    ToolEnd(ToolEnd),
    /// Something is tried again.
    Retry {
        /// Operation that is tried again.
        what: String,
        /// The attempt that comes next, from 2.
        attempt: u32,
        /// Wait before the next attempt, in milliseconds.
        delay_ms: u64,
        /// Reason why the last attempt failed.
        reason: String,
    },
    /// 80 % of the budget is spent.
    BudgetWarning(Spent),
    /// The budget is spent, or its rest does not pay for another call.
    BudgetReached(Spent),
    /// A call through a connection has ended.
    ConnectionCall(ConnectionCall),
    /// The conversation came near the model's window and was shortened.
    ContextCompacted {
        /// Estimated tokens of the conversation before.
        before_tokens: u64,
        /// Estimated tokens of the conversation afterwards.
        after_tokens: u64,
    },
    /// The model was asked for its final answer, and calls no more tools.
    AnswerRequested {
        /// The limit that the run came near to.
        reason: AnswerReason,
        /// The turn of the answer, from 1.
        step: u32,
    },
    /// The run goes on from its last completed step after its worker was lost.
    Resumed {
        /// The last turn that was completed; 0 where it begins again.
        step: u32,
        /// Number of this attempt at the run, from 2.
        attempt: u32,
    },
    /// The worker was lost and the run cannot go on, or the node was stopped.
    Interrupted {
        /// `worker_lost`, `shutdown` or `uncertain_call`.
        reason: &'static str,
        /// The turn it was in; 0 where nobody is left to tell.
        step: u32,
        /// With `uncertain_call`: the tool whose call was under way and may have had its effect.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// With `uncertain_call`: the id of that call, as in its `tool_start`.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// An answer did not match `output_schema`.
    OutputRejected {
        /// Mismatches, as in the error message.
        errors: Vec<String>,
        /// Number of the answer, from 1.
        attempt: u32,
    },
    /// A file under `outputs/` was kept.
    Artifact(crate::Artifact),
    /// A file under `outputs/` was not kept.
    ArtifactSkipped {
        /// Path below `outputs/`.
        path: String,
        /// Reason why the file was not kept.
        reason: String,
    },
    /// The final answer.
    Result {
        /// The answer, cut at 1 MiB.
        output: String,
    },
    /// The final answer was longer than the limit.
    OutputTruncated {
        /// The limit, in bytes.
        limit_bytes: u64,
        /// The whole answer, in bytes.
        output_bytes: u64,
    },
}

/// Data of `model_call`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelCall {
    /// The model's id.
    pub model: String,
    /// The turn, from 1.
    pub step: u32,
    /// Tokens read, without those from a cache.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Cost of the call.
    pub cost_micros: Micros,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// Reason why the model stopped: `end_turn`, `tool_use`, `max_tokens`, `refusal`; `error` where the call failed, and
    /// `given_up` where the run did not wait for its end: the figures are then estimated.
    pub stop_reason: &'static str,
}

/// Data of `connection_call`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionCall {
    /// The connection's name in the run.
    pub connection: String,
    /// The HTTP method, or the method of the MCP request.
    pub method: String,
    /// The path below the connection's URL without its query, or the name of the MCP tool.
    pub path: String,
    /// The status of the answer; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the answer's body that were read.
    pub bytes: u64,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
}

/// Data of `tool_end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolEnd {
    /// The tool's name.
    pub tool: String,
    /// The call's id.
    pub id: String,
    /// Whether the model was told of a failure.
    pub is_error: bool,
    /// Output that the model was given, cut at [`TOOL_OUTPUT_BYTES`].
    pub output: String,
    /// The whole output, in bytes.
    pub output_bytes: u64,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// Price of the call; left out where it is zero.
    #[serde(skip_serializing_if = "Micros::is_zero")]
    pub cost_micros: Micros,
}

/// Data of `budget_warning` and `budget_reached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Spent so far.
    pub spent_micros: Micros,
    /// The run's budget.
    pub limit_micros: Micros,
}

/// The limit for which a model is asked for its final answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerReason {
    /// The budget does not pay for more work.
    Budget,
    /// 90 % of the run's time are over.
    Time,
    /// Equal tool calls had equal results six times in a row.
    Repetition,
}

/// Maximum output of a tool in an event, in bytes.
pub const TOOL_OUTPUT_BYTES: usize = 16 * 1024;

/// The names of the event types, on the wire and in the store.
pub mod kind {
    pub const STATUS: &str = "status";
    pub const WORKER_STARTED: &str = "worker_started";
    pub const MODEL_CALL: &str = "model_call";
    pub const MESSAGE: &str = "message";
    pub const THINKING_SUMMARY: &str = "thinking_summary";
    pub const TOOL_START: &str = "tool_start";
    pub const TOOL_END: &str = "tool_end";
    pub const CONNECTION_CALL: &str = "connection_call";
    pub const RETRY: &str = "retry";
    pub const BUDGET_WARNING: &str = "budget_warning";
    pub const BUDGET_REACHED: &str = "budget_reached";
    pub const CONTEXT_COMPACTED: &str = "context_compacted";
    pub const ANSWER_REQUESTED: &str = "answer_requested";
    pub const RESUMED: &str = "resumed";
    pub const INTERRUPTED: &str = "interrupted";
    pub const OUTPUT_REJECTED: &str = "output_rejected";
    pub const ARTIFACT: &str = "artifact";
    pub const ARTIFACT_SKIPPED: &str = "artifact_skipped";
    pub const RESULT: &str = "result";
    pub const OUTPUT_TRUNCATED: &str = "output_truncated";
}

impl EventType {
    /// The `type` on the wire and in the store.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Status { .. } => kind::STATUS,
            Self::WorkerStarted { .. } => kind::WORKER_STARTED,
            Self::ModelCall(_) => kind::MODEL_CALL,
            Self::Message { .. } => kind::MESSAGE,
            Self::ThinkingSummary { .. } => kind::THINKING_SUMMARY,
            Self::ToolStart { .. } => kind::TOOL_START,
            Self::ToolEnd(_) => kind::TOOL_END,
            Self::Retry { .. } => kind::RETRY,
            Self::BudgetWarning(_) => kind::BUDGET_WARNING,
            Self::BudgetReached(_) => kind::BUDGET_REACHED,
            Self::ConnectionCall(_) => kind::CONNECTION_CALL,
            Self::ContextCompacted { .. } => kind::CONTEXT_COMPACTED,
            Self::AnswerRequested { .. } => kind::ANSWER_REQUESTED,
            Self::Resumed { .. } => kind::RESUMED,
            Self::Interrupted { .. } => kind::INTERRUPTED,
            Self::OutputRejected { .. } => kind::OUTPUT_REJECTED,
            Self::Artifact(_) => kind::ARTIFACT,
            Self::ArtifactSkipped { .. } => kind::ARTIFACT_SKIPPED,
            Self::Result { .. } => kind::RESULT,
            Self::OutputTruncated { .. } => kind::OUTPUT_TRUNCATED,
        }
    }

    /// A move to `status` without an error.
    pub const fn status(status: RunStatus) -> Self {
        Self::Status { status, error: None }
    }
}
