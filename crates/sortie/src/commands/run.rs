//! `sortie run`: a run from its definition on the command line to its answer.

use std::{
    future::ready,
    io::Read as _,
    path::{Path, PathBuf},
    pin::pin,
};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sortie_api::{
    Micros, Run, RunRequest,
    limits::{INLINE_FILES_BYTES, PROMPT_BYTES},
    plain,
    request::RunFile,
};
use sortie_engine::refuses_prompt;
use sortie_sandbox::{Capabilities, Level};

use super::Context;
use crate::{
    args::{Attendance, Document, FileArg, RunArgs},
    client::{passing_name, refs},
    config::Config,
    connect::{Connection, Need},
    failure::{Exit, Failure, Result},
    follow::{self, Format, OnInterrupt, View},
    interruption::{Interruption, interruption},
    piped, terminal,
};

pub(super) async fn run(context: &Context, args: RunArgs) -> Result<Exit> {
    let config = context.node_config(&args.node)?;
    let mut request = request(&args)?;
    if args.prompt.as_deref() != Some("-") {
        add_piped(&mut request, piped::text()?)?;
    }
    let need = need(args.attendance);
    let refusal = refusal(&request, &config);
    let opened = Connection::open_unless(
        refusal,
        context.named_engine(),
        &config,
        &context.environment,
        need,
    );
    let connection = opened.await?;
    let work = async |connection: &mut Connection| with_files(connection, context, &args, &mut request).await;
    connection.during(work).await
}

/// Returns the message with which an engine of this configuration would refuse the request because it lacks a language
/// model. A workflow may name one.
fn refusal(request: &RunRequest, config: &Config) -> Option<String> {
    if request.model.is_some() || request.workflow.is_some() {
        return None;
    }
    let prompt = request.prompt.as_deref().unwrap_or_default();
    refuses_prompt(&config.models, prompt).map(|rule| format!("model: {rule}"))
}

/// Returns the kind of engine that a command needs to start a run.
pub(super) fn need(attendance: Attendance) -> Need {
    if attendance.detach { Need::Keep } else { Need::Work }
}

/// Uploads files that are too large for the request, and deletes them after the run.
async fn with_files(
    connection: &mut Connection,
    context: &Context,
    args: &RunArgs,
    request: &mut RunRequest,
) -> Result<Exit> {
    let mut uploaded = Vec::new();
    let files = request.files.iter_mut().flatten().zip(&args.files);
    for (file, arg) in files.filter(|(file, _)| file.content.is_none()) {
        let saved = connection
            .client
            .upload(&arg.path, &passing_name(&arg.path)?)
            .await?;
        file.file = Some(saved.id.to_string());
        uploaded.push(saved.id);
    }
    let done = on(connection, context, args, request).await;
    let is_over =
        !args.attendance.detach && !matches!(&done, Err(failure) if failure.exit == Exit::Unavailable);
    for file in refs(&uploaded) {
        if !is_over {
            terminal::note(&format!(
                "{file} stays, for the run may still need it; `sortie files delete` removes it"
            ));
        } else if let Err(failure) = connection.client.delete_file(&file).await {
            terminal::note(&format!("{file} could not be deleted: {failure}"));
        }
    }
    done
}

async fn on(
    connection: &mut Connection,
    context: &Context,
    args: &RunArgs,
    request: &RunRequest,
) -> Result<Exit> {
    match connection.own_sandbox().filter(|_| !args.no_shell) {
        // The engine checks whether a workflow needs commands.
        Some(Err(_)) if args.workflow.is_some() => {}
        Some(sandbox) => check_sandbox(sandbox)?,
        None => {}
    }
    let form = (args.attendance, Format::of(args.json));
    start(connection, context, request, form).await
}

/// Starts a run, and follows it unless the flags say otherwise. `request` has the form of a `RunRequest`.
pub(super) async fn start(
    connection: &mut Connection,
    context: &Context,
    request: &(impl Serialize + Sync),
    (attendance, format): (Attendance, Format),
) -> Result<Exit> {
    if attendance.detach {
        let run = connection.create_run(request).await?;
        terminal::print_line(&run.id.to_string())?;
        return Ok(Exit::Success);
    }
    // Catch interruptions before the run exists: otherwise one could leave a run that is never cancelled.
    let mut interrupted = interruption();
    let run = create(connection, request, &mut interrupted).await?;
    let view = View::new(format, context.terminal);
    if format == Format::Text {
        view.note(&format!("{} started", run.id));
    }
    let on_interrupt = (OnInterrupt::CancelRun, interrupted);
    let run = follow::follow(connection, run.id, 0, view, on_interrupt).await?;
    Ok(run.status.into())
}

/// Creates a run. On an interruption it still waits for the engine's answer, because only that names the run to cancel;
/// the caller then cancels it. A second interruption exits at once.
async fn create(
    connection: &mut Connection,
    request: &(impl Serialize + Sync),
    interrupted: &mut Interruption,
) -> Result<Run> {
    let mut creating = pin!(connection.create_run(request));
    tokio::select! {
        run = &mut creating => return run,
        () = &mut *interrupted => {}
    }
    *interrupted = Box::pin(ready(()));
    terminal::note("the run is cancelled once it is created; press Ctrl-C again to leave at once");
    tokio::select! {
        run = creating => run,
        () = interruption() => Err(Failure::left()),
    }
}

/// Prints the isolation of commands if it is less than the strongest, and fails if there is none.
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
        fallback_model: args.fallback_model.clone(),
        effort: args.effort,
        files: Some(files(&args.files)?).filter(|files| !files.is_empty()),
        output_schema: args
            .output_schema
            .as_ref()
            .map(|document| json("--output-schema", document))
            .transpose()?,
        timeout_seconds: args.timeout,
        shell: args.no_shell.then_some(false),
        max_cost_micros: args.max_cost.map(Micros::get),
        max_steps: args.max_steps,
        tags: Some(args.tags.clone()).filter(|tags| !tags.is_empty()),
        ..RunRequest::default()
    })
}

/// Makes the text on standard input the input of the run.
fn add_piped(request: &mut RunRequest, piped: Option<String>) -> Result<()> {
    let Some(text) = piped else {
        return Ok(());
    };
    if request.input.is_some() {
        return Err(Failure::usage(
            "--input and text on standard input: a run has one input; leave one of them out, or send it as a file by --file",
        ));
    }
    let input = to_raw_value(&text).map_err(|error| {
        Failure::internal(format!("standard input cannot be sent: {}", plain::json(&error)))
    })?;
    request.input = Some(input);
    terminal::note(&format!(
        "the input of the run is standard input ({} bytes)",
        text.len()
    ));
    Ok(())
}

fn prompt(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to make the engine refuse it.
    let limit = u64::try_from(PROMPT_BYTES + 1).unwrap_or(u64::MAX);
    std::io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            Failure::usage(format!(
                "the prompt cannot be read from standard input: {}",
                plain::io(&error)
            ))
        })?;
    String::from_utf8(bytes).map_err(|_| Failure::usage("the prompt from standard input is not UTF-8 text"))
}

/// Returns the files of the run. Those without content are uploaded later.
fn files(args: &[FileArg]) -> Result<Vec<RunFile>> {
    let mut left = INLINE_FILES_BYTES;
    args.iter()
        .map(|file| {
            let content = read_inline(&file.path, left)?;
            left -= content.as_ref().map_or(0, String::len);
            Ok(RunFile {
                path: file.name.clone(),
                file: None,
                content,
            })
        })
        .collect()
}

/// The text of a file that can be sent along with a run; `None` if it is more than `limit` bytes, or not text.
fn read_inline(path: &Path, limit: usize) -> Result<Option<String>> {
    let bytes = read_at_most("--file", path, limit)?;
    // JSON takes every text but one with U+0000, which the engine refuses.
    Ok(bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|text| !text.contains('\0')))
}

/// Reads a file that a flag names; `None` if it is more than `limit` bytes.
fn read_at_most(flag: &str, path: &Path, limit: usize) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| {
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            file.take(limit.saturating_add(1)).read_to_end(&mut bytes)
        })
        .map_err(|error| Failure::usage(format!("{flag} {}: {}", path.display(), plain::io(&error))))?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

/// Reads a text file that a flag names.
fn read_text(flag: &str, path: &Path) -> Result<String> {
    let wrong = |what: &str| Failure::usage(format!("{flag} {}: {what}", path.display()));
    let bytes = read_at_most(flag, path, INLINE_FILES_BYTES)?
        .ok_or_else(|| wrong("more than 8 MiB; a run takes no more"))?;
    String::from_utf8(bytes).map_err(|_| wrong("not UTF-8 text"))
}

pub(super) fn json(flag: &str, document: &Document) -> Result<Box<RawValue>> {
    let (text, place) = match document {
        Document::Inline(text) => (text.clone(), String::new()),
        Document::File(path) => (
            read_text(flag, &PathBuf::from(path))?,
            format!(" {}", path.display()),
        ),
    };
    RawValue::from_string(text.trim().to_owned())
        .map_err(|error| Failure::usage(format!("{flag}{place}: not JSON: {}", plain::json(&error))))
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
            "--fallback-model",
            "spare",
            "--effort",
            "xhigh",
            "--timeout",
            "60",
            "--max-cost",
            "$0.000005",
            "--workflow",
            "daily",
            "--max-steps",
            "7",
            "--no-shell",
            "--output-schema",
            &schema,
        ];
        let sent = request_of(&arguments).unwrap();
        assert_eq!(
            sent,
            serde_json::json!({
                "prompt": "hello", "workflow": "daily", "model": "runbook", "timeout_seconds": 60,
                "fallback_model": "spare", "effort": "xhigh", "max_cost_micros": 5, "max_steps": 7, "shell": false,
                "files": [{"path": "orders.csv", "content": "a,b\n"}, {"path": "in/orders.csv", "content": "a,b\n"}],
                "output_schema": {"type": "object"}, "input": sent["input"]
            })
        );
    }

    #[test]
    fn what_is_no_text_or_too_large_is_left_to_be_uploaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let (binary, zero) = (path("x.bin", &[0xff, 0xfe]), path("zero", b"a\0b"));
        let (large, small) = (path("large", &vec![b'x'; 8 << 20]), path("small", b"y"));
        let arguments = [
            "x", "--file", &binary, "--file", &zero, "--file", &large, "--file", &small,
        ];
        let files = request_of(&arguments).unwrap()["files"].clone();
        let inline: Vec<bool> = files
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["content"].is_string())
            .collect();
        assert_eq!(inline, [false, false, true, false]);
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
        assert!(refusal(&["x", "--output-schema", &format!("@{binary}")]).contains("not UTF-8 text"));
        assert!(refusal(&["x", "--output-schema", &format!("@{large}")]).contains("more than 8 MiB"));
        assert!(refusal(&["x", "--input", "{"]).starts_with("--input: not JSON: "));
        assert!(refusal(&["x", "--output-schema", "@/nowhere"]).starts_with("--output-schema /nowhere: "));
    }
}
