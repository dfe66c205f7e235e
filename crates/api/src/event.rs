//! Recorded events of a run (`docs/RUNS.md#events`), in the form in which they are stored, streamed and replayed.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Discriminator, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema,
        schema::{KnownFormat, SchemaFormat, Type},
    },
};

use crate::{money::Micros, status::RunStatus, time::Timestamp};

/// Recorded event of a run. Its schema is made from [`EventType`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number.
    pub id: i64,
    /// The kind of event.
    #[serde(rename = "type")]
    pub kind: String,
    /// Content of the event; the fields depend on `type`.
    pub data: Box<RawValue>,
    /// Time at which the event was recorded.
    pub created_at: Timestamp,
}

/// The content of an event. It serializes as its data; [`kind`](Self::kind) is its type.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventType {
    /// The run moved to another status.
    Status {
        /// The new status.
        status: RunStatus,
        /// On a final status that is not a success: why.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
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
        #[schema(value_type = Object)]
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
        /// The limit that the run has nearly reached.
        reason: AnswerReason,
        /// The turn of the answer, from 1.
        step: u32,
    },
    /// The run continues from its last completed step after its worker was lost.
    Resumed {
        /// The last completed turn; 0 if the run starts from the beginning.
        step: u32,
        /// Number of this attempt at the run, from 2.
        attempt: u32,
    },
    /// The worker was lost and the run cannot go on, or the node was stopped.
    Interrupted {
        /// `worker_lost`, `shutdown` or `uncertain_call`.
        reason: &'static str,
        /// The turn it was in; 0 if it is not known.
        step: u32,
        /// With `uncertain_call`: the tool that was being called. The call may have had its effect.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        tool: Option<String>,
        /// With `uncertain_call`: the id of that call, as in its `tool_start`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConnectionCall {
    /// The connection's name in the run.
    pub connection: String,
    /// The HTTP method, or the method of the MCP request.
    pub method: String,
    /// The path below the connection's URL without its query, or the name of the MCP tool.
    pub path: String,
    /// The status of the response; absent if none arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<u16>,
    /// Bytes of the answer's body that were read.
    pub bytes: u64,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
}

/// Data of `tool_end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolEnd {
    /// The tool's name.
    pub tool: String,
    /// The call's id.
    pub id: String,
    /// Whether the call failed. The model sees the failure.
    pub is_error: bool,
    /// Output that the model was given, cut at [`TOOL_OUTPUT_BYTES`].
    pub output: String,
    /// The whole output, in bytes.
    pub output_bytes: u64,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// Price of the call; omitted when zero.
    #[serde(skip_serializing_if = "Micros::is_zero")]
    pub cost_micros: Micros,
}

/// Data of `budget_warning` and `budget_reached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Spent {
    /// Spent so far.
    pub spent_micros: Micros,
    /// The run's budget.
    pub limit_micros: Micros,
}

/// The limit for which a model is asked for its final answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
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

/// Names the event types, in the order of the variants.
macro_rules! kinds {
    ($($variant:ident => $name:ident = $kind:literal),+ $(,)?) => {
        /// The names of the event types, on the wire and in the store.
        pub mod kind {
            $(pub const $name: &str = $kind;)+

            /// Every name, in the order of the variants of [`EventType`](super::EventType).
            pub const ALL: &[&str] = &[$($name),+];
        }

        impl EventType {
            /// The `type` on the wire and in the store.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => kind::$name,)+
                }
            }
        }
    };
}

kinds! {
    Status => STATUS = "status",
    WorkerStarted => WORKER_STARTED = "worker_started",
    ModelCall => MODEL_CALL = "model_call",
    Message => MESSAGE = "message",
    ThinkingSummary => THINKING_SUMMARY = "thinking_summary",
    ToolStart => TOOL_START = "tool_start",
    ToolEnd => TOOL_END = "tool_end",
    Retry => RETRY = "retry",
    BudgetWarning => BUDGET_WARNING = "budget_warning",
    BudgetReached => BUDGET_REACHED = "budget_reached",
    ConnectionCall => CONNECTION_CALL = "connection_call",
    ContextCompacted => CONTEXT_COMPACTED = "context_compacted",
    AnswerRequested => ANSWER_REQUESTED = "answer_requested",
    Resumed => RESUMED = "resumed",
    Interrupted => INTERRUPTED = "interrupted",
    OutputRejected => OUTPUT_REJECTED = "output_rejected",
    Artifact => ARTIFACT = "artifact",
    ArtifactSkipped => ARTIFACT_SKIPPED = "artifact_skipped",
    Result => RESULT = "result",
    OutputTruncated => OUTPUT_TRUNCATED = "output_truncated",
}

impl EventType {
    /// A move to `status` without an error.
    pub const fn status(status: RunStatus) -> Self {
        Self::Status { status, error: None }
    }
}

impl PartialSchema for Event {
    fn schema() -> RefOr<Schema> {
        let mut discriminator = Discriminator::new("type");
        let mut events = OneOfBuilder::new().description(Some(
            "Recorded event of a run. New types may be added: ignore those you do not know.",
        ));
        for (kind, name, _) in typed_events() {
            let target = Ref::from_schema_name(name);
            discriminator
                .mapping
                .insert(kind.to_owned(), target.ref_location.clone());
            events = events.item(target);
        }
        events.discriminator(Some(discriminator)).into()
    }
}

impl ToSchema for Event {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        EventType::schemas(schemas);
        schemas.extend(typed_events().into_iter().map(|(_, name, schema)| (name, schema)));
    }
}

/// Returns each `type` with the name and the schema of an event of this type.
fn typed_events() -> Vec<(&'static str, String, RefOr<Schema>)> {
    let RefOr::T(Schema::OneOf(variants)) = EventType::schema() else {
        return Vec::new();
    };
    let kinds = kind::ALL.iter().zip(variants.items);
    kinds
        .map(|(kind, data)| (*kind, schema_name(kind), typed_event(kind, data)))
        .collect()
}

/// Name of the schema of an event: `ToolStartEvent` for `tool_start`.
fn schema_name(kind: &str) -> String {
    let words = kind.split('_').filter_map(|word| word.split_at_checked(1));
    let name: String = words
        .map(|(first, rest)| first.to_ascii_uppercase() + rest)
        .collect();
    name + "Event"
}

/// Returns the schema of an event. The description of a variant becomes that of the event.
fn typed_event(kind: &str, mut data: RefOr<Schema>) -> RefOr<Schema> {
    let description = match &mut data {
        RefOr::Ref(target) => Some(std::mem::take(&mut target.description)),
        RefOr::T(Schema::Object(object)) => object.description.take(),
        RefOr::T(_) => None,
    };
    let id = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .description(Some(
            "Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number.",
        ))
        .minimum(Some(1))
        .examples([1]);
    let kind = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some([kind]))
        .description(Some("Type of the event."));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(description)
        .property("id", id)
        .property("type", kind)
        .property("data", data)
        .property("created_at", Ref::from_schema_name(Timestamp::name()))
        .required("id")
        .required("type")
        .required("data")
        .required("created_at")
        .into()
}
