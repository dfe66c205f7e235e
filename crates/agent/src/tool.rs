//! Tools that the model can call: the trait of every tool, built in or added by the run.
//!
//! A failed call is either reported to the model, which continues, or ends the run.

mod arguments;
mod fitting;
pub(crate) mod names;
mod result_media;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sortie_api::Micros;
use tokio::sync::Mutex;

pub use self::{
    arguments::arguments_of, fitting::fitted_arguments, names::tool_named, result_media::ResultMedia,
};
use crate::{
    Redactor, Sink,
    content::{Media, ToolContent},
    model::{Model, ToolDefinition},
    text,
    tools::CommandTime,
    workspace::Workspace,
};

/// Something the model can call.
pub trait Tool: Send + Sync {
    /// Returns the definition of the tool for the model.
    fn definition(&self) -> ToolDefinition<'_>;

    /// Returns the order of calls: concurrent, or alone.
    fn order(&self) -> Order;

    /// Returns the possible effect of a call with these arguments. After the death of a worker it determines what may be
    /// repeated.
    fn effect(&self, arguments: &RawValue) -> Effect;

    /// Returns the price of a call. It is reserved before the call and due once the call begins, even if the call fails or is
    /// abandoned, because the server bills it. Only [`ToolError::NotSent`] releases it.
    fn price(&self) -> Micros {
        Micros::ZERO
    }

    /// Runs one call. `arguments` is a JSON object. The result is bounded by [`Context::output_bytes`].
    fn call<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>>;

    /// Runs one call like [`call`](Self::call), but does not wait if a server works on it as a task. The caller journals the task
    /// and then calls [`wait`](Self::wait), in this attempt at the run or in the next one. A tool with a price has no tasks,
    /// because the next attempt does not charge it.
    fn begin<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<Begun, ToolError>> {
        Box::pin(async move { self.call(arguments, context).await.map(Begun::Ended) })
    }

    /// Waits for the result of a call with this task. A later attempt at the run calls this with a new tool of the same name, so
    /// the tool may not know the task.
    fn wait<'a>(
        &'a self,
        _task: String,
        _context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, TaskError>> {
        Box::pin(async { Err(TaskError::Unknown("the tool has no tasks".to_owned())) })
    }
}

/// Progress of a call that was begun.
#[derive(Debug)]
pub enum Begun {
    /// The call has ended with this content.
    Ended(ToolContent),
    /// A server works on the call as the task with this id.
    Task(String),
}

/// Order of the calls of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Concurrently with other read-only calls: the call changes nothing.
    SideBySide,
    /// After all calls before it, before all calls after it.
    OneByOne,
}

/// Possible effect of a call besides its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// None that matters if it happens twice: a GET, or a call that is marked idempotent.
    Nothing,
    /// The call reads or changes the working directory: it can be repeated as long as the directory exists.
    Directory,
    /// The call may have an effect outside of the run: it must not be repeated.
    Outside,
    /// Both, as a command with network: it must not be repeated, and later calls need the working directory.
    DirectoryAndOutside,
}

impl Effect {
    /// Whether it may have an effect outside of the run, so that it must not be repeated.
    pub const fn is_outside(self) -> bool {
        match self {
            Self::Outside | Self::DirectoryAndOutside => true,
            Self::Nothing | Self::Directory => false,
        }
    }

    /// Whether it reads or changes the working directory, so that a run with its result depends on the directory.
    pub const fn touches_directory(self) -> bool {
        match self {
            Self::Directory | Self::DirectoryAndOutside => true,
            Self::Nothing | Self::Outside => false,
        }
    }
}

/// Context of a call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Receiver of the call's events.
    pub sink: &'a dyn Sink,
    /// Maximum part of an output that is kept, in bytes.
    pub output_bytes: usize,
    /// The most tokens that a picture or a document in a result may count for.
    pub(crate) media_tokens: u64,
    /// The model of the run, which determines the accepted pictures and documents.
    pub(crate) model: Option<&'a dyn Model>,
    /// The run's files, for the built-in tools.
    pub(crate) files: Option<Files<'a>>,
    /// The credentials that are removed from the call's result.
    pub(crate) redactor: Option<&'a Redactor>,
}

impl<'a> Context<'a> {
    /// Returns the context of a tool that touches no files.
    pub fn new(sink: &'a dyn Sink, output_bytes: usize) -> Self {
        Self {
            sink,
            output_bytes,
            media_tokens: u64::MAX,
            model: None,
            files: None,
            redactor: None,
        }
    }

    /// External text for the call's result: redacted, then cut to [`output_bytes`](Self::output_bytes) with its head and its tail
    /// kept. A tool that cuts text itself could split a credential, and a part of it would stay.
    pub fn bounded(&self, text: &str) -> String {
        let shown = match self.redactor {
            Some(redactor) => redactor.redact(text),
            None => text.into(),
        };
        text::bounded(&shown, self.output_bytes).into_owned()
    }

    /// The picture or document with its token count; or its label with the reason why the run's model cannot see it. `kind` names
    /// it in the plural.
    pub(crate) fn counted(&self, media: Media, kind: &str) -> Result<Media, String> {
        match self.model.and_then(|model| model.media_tokens(&media)) {
            Some(tokens) if tokens <= self.media_tokens => Ok(Media { tokens, ..media }),
            Some(tokens) => Err(format!(
                "{}; it can count for {} tokens, and the run has room for {}",
                media.label,
                text::grouped(tokens),
                text::grouped(self.media_tokens)
            )),
            None => Err(format!("{}; this model cannot see {kind}", media.label)),
        }
    }

    /// Returns the collector for the pictures and documents of the call's result.
    pub fn result_media(&self) -> ResultMedia<'a> {
        ResultMedia::new(*self)
    }

    pub(crate) fn files(&self) -> Result<Files<'a>, ToolError> {
        self.files
            .ok_or_else(|| ToolError::Fatal("the run has no working directory".to_owned()))
    }
}

/// The run's files and the commands on them.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) workspace: &'a Mutex<&'a mut Workspace>,
    /// Content of `input.json`, written when the directory is created.
    pub(crate) input_file: Option<&'a RawValue>,
    /// The times of commands.
    pub(crate) command_time: CommandTime,
}

/// Reason why a call failed.
#[derive(Debug)]
pub enum ToolError {
    /// The model reads this and continues.
    ToModel(String),
    /// The model reads this and continues. No billable request was sent: refused arguments, no connection.
    NotSent(String),
    /// The run ends with this.
    Fatal(String),
}

/// Reason why a task has no content.
#[derive(Debug)]
pub enum TaskError {
    /// The call has ended with this error.
    Ended(ToolError),
    /// The task does not tell whether the call took place, for example because the server does not know the task. The text is
    /// for the model.
    Unknown(String),
}

impl From<ToolError> for TaskError {
    fn from(error: ToolError) -> Self {
        Self::Ended(error)
    }
}

impl From<TaskError> for ToolError {
    /// Returns the error of a call that this attempt at the run has begun: the model reads that the result is unknown.
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Ended(error) => error,
            TaskError::Unknown(told) => Self::ToModel(told),
        }
    }
}
