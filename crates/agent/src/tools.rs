//! The built-in tools: commands and files of the run's working directory.

mod edit_file;
mod files;
mod glob;
mod ignored;
mod jobs;
mod list_files;
mod live_output;
mod read_file;
mod search_files;
mod shell;
mod time;
mod write_file;

pub(crate) use self::time::CommandTime;
pub(crate) use crate::tool::{Context, Effect, Order, Tool, ToolError, arguments_of};
use crate::{Egress, Shell, workspace::WorkspaceError};

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Sandbox(sortie_sandbox::Error::Lost(_)) => Self::ToModel(format!(
                "{error}; everything that ran in it has ended, jobs too; the files are kept, and the next command gets \
                 a new one"
            )),
            WorkspaceError::Sandbox(sortie_sandbox::Error::NotExecutable(_)) => {
                Self::ToModel(error.to_string())
            }
            WorkspaceError::Directory(_)
            | WorkspaceError::Input(_)
            | WorkspaceError::BrokenOff(_)
            | WorkspaceError::Outputs(_)
            | WorkspaceError::Sandbox(_) => Self::Fatal(error.to_string()),
        }
    }
}

/// The built-in tools of a run.
pub(crate) fn toolbox(shell: Shell, egress: Egress) -> &'static [&'static dyn Tool] {
    match (shell, egress) {
        (Shell::Allowed, Egress::Closed) => &[
            &shell::CONFINED,
            &jobs::Jobs,
            &read_file::ReadFile,
            &write_file::WriteFile,
            &edit_file::EditFile,
            &list_files::ListFiles,
            &search_files::SearchFiles,
        ],
        (Shell::Allowed, Egress::Open) => &[
            &shell::NETWORKED,
            &jobs::Jobs,
            &read_file::ReadFile,
            &write_file::WriteFile,
            &edit_file::EditFile,
            &list_files::ListFiles,
            &search_files::SearchFiles,
        ],
        (Shell::Denied, _) => &[
            &read_file::ReadFile,
            &list_files::ListFiles,
            &search_files::SearchFiles,
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compact::compact_object, model::ToolDefinition};

    #[test]
    fn every_tool_has_a_schema_without_white_space_that_takes_nothing_else() {
        for tool in toolbox(Shell::Allowed, Egress::Closed) {
            let ToolDefinition { name, parameters, .. } = tool.definition();
            let schema = crate::schema::Schema::compile(parameters).unwrap();
            assert!(schema.check("input", r#"{"bogus": 1}"#).is_err(), "{name}");
            assert_eq!(compact_object(parameters).unwrap().get(), parameters, "{name}");
        }
    }

    #[test]
    fn a_command_is_an_effect_outside_only_where_it_has_network() {
        let arguments = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
        let effect = |egress| toolbox(Shell::Allowed, egress)[0].effect(&arguments);
        assert_eq!(effect(Egress::Closed), Effect::Directory);
        assert_eq!(effect(Egress::Open), Effect::DirectoryAndOutside);
        let files = &toolbox(Shell::Allowed, Egress::Open)[1..];
        assert!(
            files
                .iter()
                .all(|tool| tool.effect(&arguments) == Effect::Directory)
        );
    }

    #[test]
    fn without_shell_nothing_can_be_changed() {
        let names: Vec<&str> = toolbox(Shell::Denied, Egress::Open)
            .iter()
            .map(|tool| tool.definition().name)
            .collect();
        assert_eq!(names, ["read_file", "list_files", "search_files"]);
        assert!(
            toolbox(Shell::Denied, Egress::Open)
                .iter()
                .all(|tool| tool.order() == Order::SideBySide)
        );
    }
}
