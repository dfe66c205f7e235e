//! `sortie run`: a run from its definition on the command line to its answer.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_api::{
    RunRequest,
    limits::{INLINE_FILES_BYTES, PROMPT_BYTES},
    request::RunFile,
};
use sortie_sandbox::{Capabilities, Level};

use super::Context;
use crate::{
    args::{Attendance, Document, FileArg, RunArgs},
    connect::{Connection, Need},
    failure::{Exit, Failure, Result},
    follow::{self, Format, OnInterrupt, View},
    terminal,
};

pub(super) async fn run(context: &Context, args: RunArgs) -> Result<Exit> {
    let mut flags = context.flags.clone();
    args.node.add_to(&mut flags);
    let config = context.client_config(&flags)?;
    let request = request(&args)?;
    let need = need(args.attendance);
    let connection = Connection::open(&args.engine, &config, &context.environment, need).await?;
    let done = on(&connection, context, &args, &request).await;
    connection.close().await;
    done
}

/// What a command wants of the engine that it starts a run on.
pub(super) fn need(attendance: Attendance) -> Need {
    if attendance.detach { Need::Keep } else { Need::Work }
}

async fn on(
    connection: &Connection,
    context: &Context,
    args: &RunArgs,
    request: &RunRequest,
) -> Result<Exit> {
    match connection.own_sandbox().filter(|_| !args.no_shell) {
        // Whether a workflow needs commands is for the engine to say.
        Some(Err(_)) if args.workflow.is_some() => {}
        Some(sandbox) => check_sandbox(sandbox)?,
        None => {}
    }
    let format = if args.json {
        Format::JsonLines
    } else {
        Format::Text
    };
    start(connection, context, request, (args.attendance, format)).await
}

/// Starts a run and stays with it as it is told to. `request` has the form of a `RunRequest`.
pub(super) async fn start(
    connection: &Connection,
    context: &Context,
    request: &(impl Serialize + Sync),
    (attendance, format): (Attendance, Format),
) -> Result<Exit> {
    let run = connection.client.create_run(request).await?;
    if attendance.detach {
        terminal::print_line(&run.id.to_string())?;
        return Ok(Exit::Success);
    }
    let view = View::new(format, context.terminal);
    if format == Format::Text {
        view.note(&format!("{} started", run.id));
    }
    let run = follow::follow(&connection.client, run.id, 0, view, OnInterrupt::CancelRun).await?;
    Ok(run.status.into())
}

/// Says what confines the commands where it is less than the strongest, and stops where nothing does.
pub(super) fn check_sandbox(sandbox: std::result::Result<&Capabilities, &str>) -> Result<()> {
    let capabilities = sandbox.map_err(|reason| {
        Failure::unavailable(format!(
            "no sandbox: {reason} Go on without commands by --no-shell, or let them run as this user, with its files \
             and its network, by --i-understand-commands-run-unsandboxed"
        ))
    })?;
    match capabilities.level {
        Level::Namespaces => {}
        Level::Landlock => terminal::note(
            "note: this host gives no namespaces, so commands are confined by landlock and seccomp only; \
             `sortie doctor` says why",
        ),
        Level::None => terminal::note("warning: commands are not confined: they run as this user"),
    }
    Ok(())
}

fn request(args: &RunArgs) -> Result<RunRequest> {
    Ok(RunRequest {
        prompt: args.prompt.as_deref().map(prompt).transpose()?,
        workflow: args.workflow.as_ref().map(ToString::to_string),
        input: args
            .input
            .as_ref()
            .map(|document| json("--input", document))
            .transpose()?,
        model: args.model.clone(),
        files: Some(files(&args.files)?).filter(|files| !files.is_empty()),
        output_schema: args
            .output_schema
            .as_ref()
            .map(|document| json("--output-schema", document))
            .transpose()?,
        timeout_seconds: args.timeout,
        shell: args.no_shell.then_some(false),
        max_cost_micros: args.max_cost,
        tags: Some(args.tags.clone()).filter(|tags| !tags.is_empty()),
        ..RunRequest::default()
    })
}

fn prompt(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than allowed is enough for the engine to refuse it.
    let limit = u64::try_from(PROMPT_BYTES + 1).unwrap_or(u64::MAX);
    std::io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("the prompt cannot be read from standard input: {error}")))?;
    String::from_utf8(bytes).map_err(|_| Failure::usage("the prompt from standard input is not UTF-8 text"))
}

fn files(args: &[FileArg]) -> Result<Vec<RunFile>> {
    let mut left = INLINE_FILES_BYTES;
    args.iter()
        .map(|file| {
            let content = read_text("--file", &file.path, left)?;
            left -= content.len();
            Ok(RunFile {
                path: file.name.clone(),
                file: None,
                content: Some(content),
            })
        })
        .collect()
}

/// Reads a text file that a flag names, of at most `limit` bytes.
fn read_text(flag: &str, path: &Path, limit: usize) -> Result<String> {
    let wrong = |what: &str| Failure::usage(format!("{flag} {}: {what}", path.display()));
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| {
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            file.take(limit.saturating_add(1)).read_to_end(&mut bytes)
        })
        .map_err(|error| wrong(&error.to_string()))?;
    if bytes.len() > limit {
        return Err(wrong("more than 8 MiB of files; a run takes no more"));
    }
    String::from_utf8(bytes).map_err(|_| wrong("not UTF-8 text, which is all that can be sent with a run"))
}

pub(super) fn json(flag: &str, document: &Document) -> Result<Box<RawValue>> {
    let (text, place) = match document {
        Document::Inline(text) => (text.clone(), String::new()),
        Document::File(path) => (
            read_text(flag, &PathBuf::from(path), INLINE_FILES_BYTES)?,
            format!(" {}", path.display()),
        ),
    };
    RawValue::from_string(text.trim().to_owned())
        .map_err(|error| Failure::usage(format!("{flag}{place}: not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn request_of(arguments: &[&str]) -> Result<serde_json::Value> {
        let cli = Cli::try_parse_from(["sortie", "run"].iter().chain(arguments)).unwrap();
        let Command::Run(args) = cli.command else {
            unreachable!("asked for run");
        };
        request(&args).map(|request| serde_json::to_value(request).unwrap())
    }

    fn refusal(arguments: &[&str]) -> String {
        let failure = request_of(arguments).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        failure.to_string()
    }

    #[test]
    fn only_what_is_given_is_sent() {
        assert_eq!(
            request_of(&["hello"]).unwrap(),
            serde_json::json!({"prompt": "hello"})
        );
        assert_eq!(
            request_of(&["--workflow", "daily"]).unwrap(),
            serde_json::json!({"workflow": "daily"})
        );
    }

    #[test]
    fn every_flag_becomes_its_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let data = path("orders.csv", "a,b\n");
        let schema = format!("@{}", path("schema.json", "{\"type\": \"object\"}\n"));
        let renamed = format!("{data}=in/orders.csv");
        let arguments = [
            "hello",
            "--file",
            &data,
            "--file",
            &renamed,
            "--input",
            "{\"n\": 12345678901234567890123}",
            "--model",
            "runbook",
            "--timeout",
            "60",
            "--max-cost",
            "5",
            "--workflow",
            "daily",
            "--no-shell",
            "--output-schema",
            &schema,
        ];
        let sent = request_of(&arguments).unwrap();
        assert_eq!(
            sent,
            serde_json::json!({
                "prompt": "hello", "workflow": "daily", "model": "runbook", "timeout_seconds": 60, "max_cost_micros": 5, "shell": false,
                "files": [{"path": "orders.csv", "content": "a,b\n"}, {"path": "in/orders.csv", "content": "a,b\n"}],
                "output_schema": {"type": "object"}, "input": sent["input"]
            })
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_flag() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("x.bin");
        std::fs::write(&binary, [0xff, 0xfe]).unwrap();
        let large = folder.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(9 << 20).unwrap();
        let (binary, large) = (binary.display().to_string(), large.display().to_string());
        assert!(refusal(&["x", "--file", "/nowhere/x"]).starts_with("--file /nowhere/x: No such file"));
        assert!(refusal(&["x", "--file", &binary]).contains("not UTF-8 text"));
        assert!(refusal(&["x", "--file", &large]).contains("more than 8 MiB"));
        assert!(refusal(&["x", "--input", "{"]).starts_with("--input: not JSON: "));
        assert!(refusal(&["x", "--output-schema", "@/nowhere"]).starts_with("--output-schema /nowhere: "));
    }
}
