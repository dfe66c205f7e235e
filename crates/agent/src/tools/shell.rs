//! `shell`: one command line in the run's sandbox.
//!
//! A command of a language model gets two minutes unless it sets a timeout; one that takes longer, or is started in the
//! background, continues as a job. Output that does not fit into the result is kept in files of the run. A command of a program,
//! such as a runbook, may take the whole time of the run, and its output stays byte for byte.

use std::{fs::File, time::Duration};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::{AtTimeout, Command, Error, ExitKind, Finished, OutputWatch, StreamOutput};
use tokio::time::Instant;

use super::{Context, Effect, Order, Tool, ToolError, arguments_of, jobs, live_output::LiveOutput};
use crate::{
    content::{CommandOutput, Extent, Kept, ToolContent, View, stream_text},
    model::{Kind, ToolDefinition},
    workspace::{Jobs, SoFar, Source, Workspace, WorkspaceError},
};

/// The longest command line, in bytes: what Linux takes for one argument.
const COMMAND_BYTES: usize = 128 * 1024 - 1;
/// Time before a background command becomes a job: a mistake in its command line ends it earlier.
const BACKGROUND: Duration = Duration::from_secs(1);
/// Bytes of a stream that are kept for each byte that is shown, because control sequences and progress bars are removed.
const KEPT_FOR_SHOWN: usize = 4;
/// Length of the beginning of a long stream that is kept in a file of the run, in bytes.
const FILE_BYTES: u64 = 8 << 20;

pub(super) struct Shell {
    /// The effect of a command: on the working directory, or also outside.
    effect: Effect,
}

/// For runs without network in their commands.
pub(super) const CONFINED: Shell = Shell {
    effect: Effect::Directory,
};

/// For runs with network in their commands.
pub(super) const NETWORKED: Shell = Shell {
    effect: Effect::DirectoryAndOutside,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    timeout_seconds: Option<u64>,
    background: Option<bool>,
}

impl Tool for Shell {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "shell",
            description: "Runs a command line with bash (or sh, where there is no bash) in the working directory and \
                          returns its exit status, stdout and stderr. Each call is a new shell: files and background \
                          processes stay, the current folder and variables do not. There is no terminal and no input: \
                          use flags such as -y. A command that outlasts its time goes on as a job (see `jobs`). The \
                          middle of long output goes to a file that the result names.",
            parameters: concat!(
                r#"{"type":"object","properties":{"command":{"type":"string"},"#,
                r#""timeout_seconds":{"type":"integer","minimum":1,"description":"Seconds until it goes on as a job. Default: 120."},"#,
                r#""background":{"type":"boolean","description":"Make it a job at once: for servers and the like."}},"#,
                r#""required":["command"],"additionalProperties":false}"#
            ),
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
            let arguments: Arguments = arguments_of(&self.definition(), &raw)?;
            check(&arguments.command)?;
            let files = context.files()?;
            let mut workspace = files.workspace.lock().await;
            let output = match files.command_time.kind {
                Kind::Program => as_a_program(&arguments, context, &mut workspace).await?,
                Kind::Language => as_a_model(&arguments, context, &mut workspace).await?,
            };
            Ok(ToolContent::Command(output))
        })
    }
}

fn check(command: &str) -> Result<(), ToolError> {
    let refused = if command.len() > COMMAND_BYTES {
        "command: longer than 131071 bytes; write it to a file and run that"
    } else if command.contains('\0') {
        "command: must not contain U+0000"
    } else {
        return Ok(());
    };
    Err(ToolError::ToModel(refused.to_owned()))
}

/// Runs a command for a program: it is killed at its timeout, and its output stays as it came.
async fn as_a_program(
    arguments: &Arguments,
    context: Context<'_>,
    workspace: &mut Workspace,
) -> Result<CommandOutput, ToolError> {
    let most = context.files()?.command_time.most();
    let asked = arguments.timeout_seconds.map(Duration::from_secs);
    let timeout = asked.map_or(most, |asked| asked.min(most));
    let command = Command {
        argv: argv(&arguments.command, workspace),
        timeout,
        at_timeout: AtTimeout::Kill,
        keep_bytes: context.output_bytes,
        store_bytes: 0,
        watch: None,
    };
    let finished = exec(command, context, workspace).await?;
    Ok(CommandOutput {
        exit: finished.exit,
        stdout: stream_text(finished.stdout),
        stderr: stream_text(finished.stderr),
        timeout,
        notes: Vec::new(),
    })
}

/// Runs a command for a language model: it continues as a job at its timeout, and long output is kept in files.
async fn as_a_model(
    arguments: &Arguments,
    context: Context<'_>,
    workspace: &mut Workspace,
) -> Result<CommandOutput, ToolError> {
    let mut notes = Vec::new();
    let timeout = timeout(arguments, context, &mut notes)?;
    let at_timeout = if workspace.jobs().is_none_or(Jobs::have_room) {
        AtTimeout::Release
    } else {
        AtTimeout::Kill
    };
    let command = Command {
        argv: argv(&arguments.command, workspace),
        timeout,
        at_timeout,
        keep_bytes: context.output_bytes.saturating_mul(KEPT_FOR_SHOWN),
        store_bytes: FILE_BYTES,
        watch: None,
    };
    let began = Instant::now();
    let Finished {
        exit,
        stdout,
        stderr,
        stored,
        released,
        ..
    } = exec(command, context, workspace).await?;
    notes.extend(ended_jobs(workspace));
    let mut streams = Streams::new([stdout, stderr], stored, context);
    match released {
        Some(released) => {
            let command = (arguments.command.clone(), began);
            let (job, log) = workspace.adopt(command, released, streams.so_far()).await?;
            notes.push(goes_on(job, log.as_deref()));
            streams.are_among(log.as_deref());
        }
        None => streams.keep(workspace).await,
    }
    if exit == ExitKind::TimedOut {
        let why = match at_timeout {
            AtTimeout::Kill => "it was not made a job, because too many run: end one with `jobs`",
            AtTimeout::Release => "it could not be made a job",
        };
        notes.push(why.to_owned());
    }
    let [stdout, stderr] = streams.texts();
    Ok(CommandOutput {
        exit,
        stdout,
        stderr,
        timeout,
        notes,
    })
}

/// Notes on jobs that have ended since the last report to the model.
fn ended_jobs(workspace: &Workspace) -> Vec<String> {
    let ended = workspace.jobs().map(Jobs::take_ended).unwrap_or_default();
    ended
        .into_iter()
        .map(|(number, end)| format!("job {number} {}: `jobs` has its output", jobs::how(&end)))
        .collect()
}

/// The timeout of a command. If it is shorter than requested, a note says so.
fn timeout(
    arguments: &Arguments,
    context: Context<'_>,
    notes: &mut Vec<String>,
) -> Result<Duration, ToolError> {
    let time = context.files()?.command_time;
    if arguments.background == Some(true) {
        return Ok(BACKGROUND.min(time.most()));
    }
    let Some(asked) = arguments.timeout_seconds else {
        return Ok(whole_seconds(time.default()));
    };
    let most = whole_seconds(time.most());
    if asked > most.as_secs() {
        notes.push(format!(
            "timeout_seconds was cut to {}: the run ends in {} s",
            most.as_secs(),
            time.left().as_secs()
        ));
    }
    Ok(Duration::from_secs(asked).min(most))
}

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().max(1))
}

fn goes_on(job: u32, log: Option<&str>) -> String {
    let log = log.map_or_else(String::new, |log| format!("; its output goes to {log}"));
    format!(
        "it goes on as job {job}{log}. `jobs` with {{\"job\": {job}}} returns new output, with \"wait_seconds\" waits for \
         its end, with \"kill\": true ends it"
    )
}

fn argv(line: &str, workspace: &Workspace) -> Vec<String> {
    [workspace.shell(), "-c", line].map(str::to_owned).to_vec()
}

/// Runs a command of bash, or of sh if bash is missing.
async fn exec(
    mut command: Command,
    context: Context<'_>,
    workspace: &mut Workspace,
) -> Result<Finished, ToolError> {
    let input = context.files()?.input_file;
    loop {
        let (watch, mut pieces) = OutputWatch::new();
        command.watch = Some(watch);
        let mut live = LiveOutput::new(context.sink, context.redactor);
        let ran = {
            let running = workspace.exec(input, command.clone());
            tokio::pin!(running);
            loop {
                tokio::select! {
                    biased;
                    Some(piece) = pieces.recv() => live.take(&piece),
                    ran = &mut running => break ran,
                }
            }
        };
        while let Ok(piece) = pieces.try_recv() {
            live.take(&piece);
        }
        live.finish();
        match (ran, command.argv.first_mut()) {
            (Err(WorkspaceError::Sandbox(Error::NotExecutable(_))), Some(shell)) if shell == "bash" => {
                workspace.use_sh();
                workspace.shell().clone_into(shell);
            }
            (finished, _) => return Ok(finished?),
        }
    }
}

/// The two streams of a command.
struct Streams([One; 2]);

struct One {
    view: View,
    name: &'static str,
    /// The whole stream, or its beginning.
    source: Option<Source>,
    /// The end of a stream with an incomplete source.
    tail: Vec<u8>,
    bytes: u64,
    kept: Option<Kept>,
}

impl Streams {
    fn new(outputs: [StreamOutput; 2], stored: [Option<File>; 2], context: Context<'_>) -> Self {
        let [stdout, stderr] = outputs;
        let [stored_stdout, stored_stderr] = stored;
        let one = |name, output: StreamOutput, stored: Option<File>| {
            let bytes = output.total_bytes;
            let source = match stored {
                Some(file) => Some(Source::File(file)),
                None if output.total_bytes == (output.head.len() + output.tail.len()) as u64 => {
                    Some(Source::Bytes([&output.head[..], &output.tail].concat()))
                }
                None => None,
            };
            let tail = match &source {
                Some(Source::File(_)) if bytes <= FILE_BYTES => Vec::new(),
                Some(Source::Bytes(_)) => Vec::new(),
                Some(Source::File(_)) | None => output.tail.clone(),
            };
            One {
                view: View::of(output, context.output_bytes, context.redactor),
                name,
                source,
                tail,
                bytes,
                kept: None,
            }
        };
        Self([
            one("stdout", stdout, stored_stdout),
            one("stderr", stderr, stored_stderr),
        ])
    }

    /// The output of both so far, for the log of a job. If a stream was not kept in full, the log gets the end, because the next
    /// output follows it.
    fn so_far(&mut self) -> SoFar {
        let mut so_far = SoFar::default();
        for one in &mut self.0 {
            if one.tail.is_empty() {
                so_far.sources.extend(one.source.take());
            } else {
                so_far.left_out += one.bytes.saturating_sub(one.tail.len() as u64);
                so_far.sources.push(Source::Bytes(std::mem::take(&mut one.tail)));
            }
        }
        so_far
    }

    /// Names the log of a job as the location of output that is not shown.
    fn are_among(&mut self, log: Option<&str>) {
        for one in &mut self.0 {
            one.kept = log.map(|path| Kept {
                path: path.to_owned(),
                extent: Extent::Log,
            });
        }
    }

    /// Keeps streams that are not shown in full in files of the run.
    async fn keep(&mut self, workspace: &mut Workspace) {
        for one in self.0.iter_mut().filter(|one| one.view.is_partial()) {
            let Some(source) = one.source.take() else {
                continue;
            };
            let bytes = match &source {
                Source::Bytes(_) => one.bytes,
                Source::File(_) => one.bytes.min(FILE_BYTES),
            };
            let path = workspace.keep_output(one.name, source, bytes).await;
            one.kept = path.map(|path| Kept {
                path,
                extent: if bytes < one.bytes {
                    Extent::First(bytes)
                } else {
                    Extent::Whole
                },
            });
        }
    }

    fn texts(self) -> [String; 2] {
        self.0.map(|one| one.view.text(one.kept.as_ref()))
    }
}
