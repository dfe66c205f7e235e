//! The agent: a turn loop between a model and tools, within a budget. No SQL, no HTTP server, no clock of its own
//! but the runtime's.
//!
//! [`run`] knows a [`RunSpec`], a [`Model`], a [`Workspace`] and a [`Sink`], and returns an [`Outcome`]. Cancelling
//! and timing out are the caller's: it drops the future, then closes the workspace, which kills what still runs.

pub mod schema;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use sortie_api::{Micros, event::EventType, model::ModelInfo};
use sortie_sandbox::{Backend, Limits, RelPath};

/// What one run of the agent is about.
pub struct RunSpec {
    /// The task.
    pub prompt: String,
    /// Task data, JSON as sent.
    pub input: Option<Box<RawValue>>,
    /// What the answer must match.
    pub output_schema: Option<Arc<schema::Schema>>,
    /// Whether it may run commands and write files.
    pub shell: Shell,
    /// What it may spend.
    pub budget: BudgetSpec,
    /// Longest a single command may run.
    pub command_timeout: Duration,
}

/// Whether the agent may run shell commands and write files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// It may.
    Allowed,
    /// It may only read its files.
    Denied,
}

/// The run's budget and the price of its time.
#[derive(Clone, Copy, Debug)]
pub struct BudgetSpec {
    /// Never spend more than this.
    pub max_cost: Micros,
    /// Price of a second from `started`.
    pub compute_micros_per_second: Micros,
    /// From when compute is charged.
    pub started: tokio::time::Instant,
}

/// How the agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The final answer, matching `output_schema`. Not yet cut, without U+0000.
    Succeeded(String),
    /// Why it gave up, for people.
    Failed(String),
}

/// Nobody takes events any more: the run is no longer this worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Where the agent reports what happens.
pub trait Sink: Send + Sync {
    /// Records an event; waits while the recorder is behind.
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>>;

    /// Tells the whole cost so far, compute included.
    fn spent(&self, cost: Micros);
}

/// A model, behind whatever provider.
pub trait Model: Send + Sync {
    /// Its entry in the catalog.
    fn info(&self) -> &ModelInfo;
}

/// The offline model `runbook`.
pub fn runbook() -> Arc<dyn Model> {
    unimplemented!()
}

/// The working directory and the sandbox of one run, each made when first needed.
pub struct Workspace {}

impl Workspace {
    /// A workspace that would live in the folder `name` below `root`, with sandboxes by `backend`.
    pub fn new(_root: PathBuf, _name: String, _backend: Arc<dyn Backend>, _limits: Limits) -> Self {
        unimplemented!()
    }

    /// Lays files before the agent begins; makes the directory.
    pub async fn lay(&mut self, _files: Vec<(RelPath, Vec<u8>)>) -> Result<(), sortie_sandbox::FileError> {
        unimplemented!()
    }

    /// Kills what still runs and deletes the directory. Returns when nothing is left. Cheap when nothing was opened.
    pub async fn close(self) -> Result<(), String> {
        unimplemented!()
    }
}

/// Runs the agent to its end: the turn loop.
pub async fn run(
    _spec: RunSpec,
    _model: &dyn Model,
    _workspace: &mut Workspace,
    _sink: &dyn Sink,
) -> Outcome {
    unimplemented!()
}
