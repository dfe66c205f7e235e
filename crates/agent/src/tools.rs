//! The tools of the agent: what each is told to the model as, and how a call runs.
//!
//! A failed call is one of two things: told to the model, which goes on, or the end of the run.

mod edit_file;
mod files;
mod glob;
mod list_files;
mod read_file;
mod search_files;
mod shell;
mod write_file;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::Mutex;

use crate::{
    Shell,
    content::ToolContent,
    model::ToolDefinition,
    workspace::{Workspace, WorkspaceError},
};

/// Something the model can call.
pub(crate) trait Tool: Send + Sync {
    /// How the model is told of it.
    fn definition(&self) -> ToolDefinition<'_>;

    /// Whether calls may run side by side.
    fn order(&self) -> Order;

    /// Runs one call. `arguments` is a JSON object.
    fn call<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>>;
}

/// Whether calls of one turn may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It changes nothing: beside other calls that change nothing.
    SideBySide,
    /// After all calls before it, before all calls after it.
    OneByOne,
}

/// What a call works with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) workspace: &'a Mutex<&'a mut Workspace>,
    /// What is written to `input.json` when the directory is made.
    pub(crate) input_file: Option<&'a RawValue>,
    /// The longest that one command may run.
    pub(crate) command_timeout: Duration,
    /// How much of an output is kept, in bytes.
    pub(crate) output_bytes: usize,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum ToolError {
    /// The model reads this and goes on.
    ToModel(String),
    /// The run ends with this.
    Fatal(String),
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Sandbox(sortie_sandbox::Error::Lost(_)) => Self::ToModel(format!(
                "{error}; everything that ran in it is gone, the files are kept, the next command gets a new one"
            )),
            WorkspaceError::Sandbox(sortie_sandbox::Error::NotExecutable(_)) => {
                Self::ToModel(error.to_string())
            }
            WorkspaceError::Directory(_)
            | WorkspaceError::Input(_)
            | WorkspaceError::BrokenOff(_)
            | WorkspaceError::Sandbox(_) => Self::Fatal(error.to_string()),
        }
    }
}

/// The tools of a run.
pub(crate) fn toolbox(shell: Shell) -> &'static [&'static dyn Tool] {
    match shell {
        Shell::Allowed => &[
            &shell::Shell,
            &read_file::ReadFile,
            &write_file::WriteFile,
            &edit_file::EditFile,
            &list_files::ListFiles,
            &search_files::SearchFiles,
        ],
        Shell::Denied => &[
            &read_file::ReadFile,
            &list_files::ListFiles,
            &search_files::SearchFiles,
        ],
    }
}

/// The arguments of a call as the tool's own type; the message names the field.
pub(crate) fn arguments<T: DeserializeOwned>(arguments: &RawValue) -> Result<T, ToolError> {
    serde_json::from_str(arguments.get())
        .map_err(|error| ToolError::ToModel(format!("bad arguments: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_schema_that_takes_nothing_else() {
        for tool in toolbox(Shell::Allowed) {
            let ToolDefinition { name, parameters, .. } = tool.definition();
            let schema = crate::schema::Schema::compile(parameters).unwrap();
            assert!(schema.check("input", r#"{"bogus": 1}"#).is_err(), "{name}");
        }
    }

    #[test]
    fn without_shell_nothing_can_be_changed() {
        let names: Vec<&str> = toolbox(Shell::Denied)
            .iter()
            .map(|tool| tool.definition().name)
            .collect();
        assert_eq!(names, ["read_file", "list_files", "search_files"]);
        assert!(
            toolbox(Shell::Denied)
                .iter()
                .all(|tool| tool.order() == Order::SideBySide)
        );
    }
}
