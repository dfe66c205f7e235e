//! Tools that the model can call: the trait of every tool, built in or brought along by the run.
//!
//! A failed call is one of two things: told to the model, which goes on, or the end of the run.

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

    /// Returns the order of calls: side by side, or alone.
    fn order(&self) -> Order;

    /// Returns the possible effect of a call with these arguments. After the death of a worker it decides what may be
    /// repeated.
    fn effect(&self, arguments: &RawValue) -> Effect;

    /// Returns the price of a call. It is held before the call and due from its beginning, also where the call fails or
    /// is abandoned, since the server bills it. Only [`ToolError::NotSent`] releases it.
    fn price(&self) -> Micros {
        Micros::ZERO
    }

    /// Runs one call. `arguments` is a JSON object. What it returns is bounded by [`Context::output_bytes`].
    fn call<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>>;
}

/// Order of the calls of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Beside other calls that change nothing: the call changes nothing itself.
    SideBySide,
    /// After all calls before it, before all calls after it.
    OneByOne,
}

/// Possible effect of a call besides its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing that matters when it happens twice: a GET, or a call that is marked idempotent.
    Nothing,
    /// The call reads or changes the working directory: it can be repeated as long as that exists.
    Directory,
    /// The call may change something outside of the run: it must not be made twice.
    Outside,
    /// Both, as a command with network: it must not be made twice, and what comes after it needs the working directory.
    DirectoryAndOutside,
}

impl Effect {
    /// Whether it may change something outside of the run, so that it must not be made twice.
    pub const fn is_outside(self) -> bool {
        match self {
            Self::Outside | Self::DirectoryAndOutside => true,
            Self::Nothing | Self::Directory => false,
        }
    }

    /// Whether it reads or changes the working directory, so that a run that has its result is bound to that.
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
    /// The model of the run, which says which pictures and documents it takes.
    pub(crate) model: Option<&'a dyn Model>,
    /// The run's files, for the built-in tools.
    pub(crate) files: Option<Files<'a>>,
    /// The credentials that are taken out of what the call returns.
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

    /// Text from outside as the call may return it: without credentials, then cut to
    /// [`output_bytes`](Self::output_bytes) with its head and its tail kept. A tool that cuts text itself could tear a
    /// credential, of which then a part stays.
    pub fn bounded(&self, text: &str) -> String {
        let shown = match self.redactor {
            Some(redactor) => redactor.redact(text),
            None => text.into(),
        };
        text::bounded(&shown, self.output_bytes).into_owned()
    }

    /// The picture or document with the tokens that it counts for; or its label with the reason why the run's model
    /// cannot be shown it. `kind` names it in the plural.
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

    /// Returns what takes the pictures and documents of the call's result.
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
    /// Content of `input.json`, written when the directory is made.
    pub(crate) input_file: Option<&'a RawValue>,
    /// The times of commands.
    pub(crate) command_time: CommandTime,
}

/// Reason why a call failed.
#[derive(Debug)]
pub enum ToolError {
    /// The model reads this and goes on.
    ToModel(String),
    /// The model reads this and goes on. Nothing was sent that would have to be paid: refused arguments, no connection.
    NotSent(String),
    /// The run ends with this.
    Fatal(String),
}
