//! `shell`: one command line in the run's sandbox.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::{Command, Error, Finished};

use super::{Context, Effect, Order, Tool, ToolError, arguments};
use crate::{
    content::{CommandOutput, ToolContent, stream_text},
    model::ToolDefinition,
    workspace::WorkspaceError,
};

/// The longest command line, in bytes: what Linux takes for one argument.
const COMMAND_BYTES: usize = 128 * 1024 - 1;

pub(super) struct Shell {
    /// What a command may do.
    effect: Effect,
}

/// For runs whose commands have no network.
pub(super) const CONFINED: Shell = Shell {
    effect: Effect::Directory,
};

/// For runs whose commands have.
pub(super) const NETWORKED: Shell = Shell {
    effect: Effect::DirectoryAndOutside,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    timeout_seconds: Option<u64>,
}

impl Tool for Shell {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "shell",
            description: "Runs a command line with bash (or sh, where there is no bash) in the working directory \
                          and returns its exit status, standard output and standard error. Standard input is empty. \
                          Each call is a new shell: the folder and variables are not kept between calls, files and \
                          background processes are. Very long output loses its middle: send it to a file and look \
                          at parts of it.",
            parameters: r#"{
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command line."},
                    "timeout_seconds": {
                        "type": "integer", "minimum": 1,
                        "description": "The command is killed when it runs longer."
                    }
                },
                "required": ["command"],
                "additionalProperties": false
            }"#,
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        self.effect
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let Arguments {
                command,
                timeout_seconds,
            } = arguments(&raw)?;
            check(&command, timeout_seconds)?;
            let files = context.files()?;
            let timeout = timeout_seconds.map_or(files.command_timeout, Duration::from_secs);
            let timeout = timeout.min(files.command_timeout);
            let finished = exec(&command, timeout, context).await?;
            Ok(ToolContent::Command(CommandOutput {
                exit: finished.exit,
                stdout: stream_text(finished.stdout),
                stderr: stream_text(finished.stderr),
                timeout,
            }))
        })
    }
}

fn check(command: &str, timeout_seconds: Option<u64>) -> Result<(), ToolError> {
    let refused = if command.len() > COMMAND_BYTES {
        "command: longer than 131071 bytes; write it to a file and run that"
    } else if command.contains('\0') {
        "command: must not contain U+0000"
    } else if timeout_seconds == Some(0) {
        "timeout_seconds: must be at least 1"
    } else {
        return Ok(());
    };
    Err(ToolError::ToModel(refused.to_owned()))
}

/// Runs the command with bash, or with sh where there is no bash.
async fn exec(command: &str, timeout: Duration, context: Context<'_>) -> Result<Finished, ToolError> {
    let files = context.files()?;
    let mut workspace = files.workspace.lock().await;
    loop {
        let shell = workspace.shell();
        let argv = vec![shell.to_owned(), "-c".to_owned(), command.to_owned()];
        let command = Command {
            argv,
            timeout,
            keep_bytes: context.output_bytes,
        };
        match workspace.exec(files.input_file, command).await {
            Err(WorkspaceError::Sandbox(Error::NotExecutable(_))) if shell == "bash" => workspace.use_sh(),
            finished => return Ok(finished?),
        }
    }
}
