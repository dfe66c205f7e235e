//! The agent: a turn loop between a model and tools, within a budget. No SQL, no HTTP server, no clock except the runtime's.
//!
//! [`run`] takes a [`RunSpec`], a [`Model`], a [`Workspace`] and a [`Sink`], and returns an [`Outcome`]. Cancelling and timing
//! out are the caller's job: it drops the future, then closes the workspace, which kills all running processes.

mod answer;
mod budget;
mod compact;
mod content;
mod conversation;
mod counts;
mod fence;
pub mod journal;
mod journal_writer;
mod media;
mod meter;
pub mod model;
mod model_call;
mod models;
mod patience;
mod possible;
mod programs;
mod prompt;
mod redact;
mod redacting_sink;
mod reply;
mod resume;
mod retries;
pub mod schema;
mod spans;
mod stop;
mod summary;
pub mod surrogates;
mod text;
pub mod tool;
mod tool_call;
mod tools;
mod turn;
mod weak;
mod window;
mod workspace;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use sortie_api::{Effort, Micros, OrgId, RunId, event::EventType};

pub use self::{
    content::{CommandOutput, Media, ToolContent},
    counts::Count,
    media::media_of,
    model::Model,
    models::runbook::{is_runbook, runbook},
    patience::open_sandbox,
    programs::list_programs,
    redact::Redactor,
    spans::provider_name,
    tool::Tool,
    workspace::{Gateway, Source, StoppedWorkspace, Workspace},
};

/// Specification of a run of the agent.
pub struct RunSpec {
    /// Run and organization, for spans.
    pub owner: Owner,
    /// The task.
    pub prompt: String,
    /// Instructions of the caller, which follow the system prompt. Blank for none.
    pub instructions: String,
    /// Data of the task: JSON, verbatim.
    pub input: Option<Box<RawValue>>,
    /// Schema that the answer must match.
    pub output_schema: Option<Arc<schema::Schema>>,
    /// Permission to run commands and write files.
    pub shell: Shell,
    /// Access of commands to the network. With it, the effect of a command outside of the run is unknown.
    pub egress: Egress,
    /// Budget of the run.
    pub budget: BudgetSpec,
    /// Time at which the run times out.
    pub deadline: Option<tokio::time::Instant>,
    /// Maximum number of the model's turns; a run that needs another one fails.
    pub max_steps: u32,
    /// Effort of the model's thinking; `None` leaves it to the provider.
    pub effort: Option<Effort>,
    /// Model that takes over if the run's model refuses; used at most once.
    pub fallback: Option<Arc<dyn Model>>,
    /// The run's own files: path from the working directory, and size in bytes.
    pub files: Vec<(String, u64)>,
    /// Facts about the environment of the run, for the first message.
    pub environment: Environment,
    /// Pictures among its files, shown with the first message.
    pub media: Vec<Media>,
    /// Longest a single command may run.
    pub command_timeout: Duration,
    /// Additional tools: the web, the run's connections. Their names differ from those of built-in tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The credentials that are removed from all output of the run.
    pub redactor: Arc<Redactor>,
    /// Journal of an earlier attempt, from which the run resumes.
    pub resume: Option<journal::Journal>,
}

/// Run and organization that the spans of calls carry.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The run.
    pub run: RunId,
    /// Organization of the run.
    pub org: OrgId,
}

/// Facts about the environment of a run. Empty ones are omitted.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The day on which the run began, such as `2026-11-22 (UTC)`.
    pub date: String,
    /// The operating system that commands see.
    pub system: String,
    /// Programs that commands find, with their versions, and those that are missing.
    pub programs: String,
}

/// Permission of the agent to run shell commands and write files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// Commands and writing are allowed.
    Allowed,
    /// The agent may only read its files.
    Denied,
}

/// Access of a run's commands to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// They have no network.
    #[default]
    Closed,
    /// They have, if only through the engine's proxy: a command may have an effect outside of the run, and is never repeated.
    Open,
}

/// The run's budget and the price of its time.
#[derive(Clone, Copy, Debug)]
pub struct BudgetSpec {
    /// Maximum cost of the run.
    pub max_cost: Micros,
    /// Price of a second from `started`.
    pub compute_micros_per_second: Micros,
    /// Start of the compute charge.
    pub started: tokio::time::Instant,
    /// Cost of models and priced tools in earlier attempts.
    pub spent: Micros,
}

/// End of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The final answer, matching `output_schema`. Not cut to a maximum length yet, without U+0000.
    Succeeded(String),
    /// Reason of the failure, for people.
    Failed(String),
    /// An earlier attempt was lost during this call, which may have had its effect outside of the run.
    Uncertain(journal::OpenCall),
}

/// The recorder accepts no events, because this worker has lost the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Receiver of the agent's events.
pub trait Sink: Send + Sync {
    /// Records an event; waits while the recorder lags.
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>>;

    /// Writes an entry into the run's journal, after everything recorded before it; waits while the recorder lags.
    fn journal(&self, entry: journal::Entry) -> BoxFuture<'_, Result<(), Stopped>>;

    /// Returns when everything recorded and journaled so far is durable.
    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>>;

    /// Reports the total cost up to the moment `at`, compute included: later charges start there.
    fn spent(&self, cost: Micros, at: tokio::time::Instant);

    /// Records the event of a call together with its cost, which is charged at this moment. The caller may be gone: nothing waits
    /// here.
    fn charged(&self, _call: EventType) {}

    /// Reports that a provider's usage of a call of this model was clamped to what the call can have used.
    fn usage_clamped(&self, _model: &str) {}

    /// A piece of the text that the model is writing in turn `step`. It is not recorded; the complete text follows as a
    /// `message`. After a `retry` the text restarts.
    fn message_delta(&self, _step: u32, _text: &str) {}

    /// A call of this model begins in turn `step`. It is not recorded; the end of the call is, as `model_call`.
    fn model_started(&self, _step: u32, _model: &str) {}

    /// Whether a client follows the output of commands while they run.
    fn wants_output(&self) -> bool {
        false
    }

    /// A piece of the output of the running command, without credentials. Its tool call is the one that was started last. It is
    /// not recorded; the output follows with the end of the call.
    fn command_output(&self, _text: &str) {}
}

/// Runs the agent to its end: the turn loop.
///
/// Dropping the future stops it immediately; the last call of [`Sink::spent`] then includes an estimate of a model call that was
/// under way. The caller closes the workspace.
pub async fn run(spec: RunSpec, model: &dyn Model, workspace: &mut Workspace, sink: &dyn Sink) -> Outcome {
    // Boxed, so that thousands of callers do not each hold the whole loop in their own future.
    Box::pin(turn::run(spec, model, workspace, sink)).await
}
