//! `sortie run`: a run from its definition on the command line to its answer, and batches of runs.

mod draft;
mod each;
mod mistaken;

use std::{future::ready, path::Path, pin::pin};

use serde::Serialize;
use sortie_api::{FileId, Run};
use sortie_engine::refuses_prompt;
use sortie_sandbox::{Capabilities, Level};

pub(super) use self::draft::json;
use self::draft::{Draft, STDIN};
use super::Context;
use crate::{
    args::{Attendance, RunArgs},
    client::{passing_name, refs},
    config::Config,
    connect::{Connection, Need},
    failure::{Exit, Failure, Result},
    follow::{self, Format, OnInterrupt, View},
    interruption::{Interruption, interruption},
    piped, terminal,
};

pub(super) async fn run(context: &Context, mut args: RunArgs) -> Result<Exit> {
    if args.output.quiet {
        terminal::be_quiet();
    }
    if args.continued.is_some() {
        return Err(Failure::usage(
            "--continue is reserved: a run cannot continue an earlier one yet. Start a new run and pipe it the earlier \
             answer: `sortie runs get RUN | sortie run PROMPT`",
        ));
    }
    mistaken::check(&args)?;
    let config = context.node_config(&args.node)?;
    let files = each::files(&mut args)?;
    let prompt = args.prompt.as_deref().or(args.literal.as_deref());
    let mut draft = Draft::of(&args, prompt, &context.environment)?;
    let reads_stdin = prompt == Some(STDIN) || args.request.as_deref() == Some(Path::new(STDIN));
    if !reads_stdin {
        draft.add_piped(piped::text()?)?;
    }
    let opened = Connection::open_unless(
        refusal(&draft, &config),
        context.named_engine(),
        &config,
        &context.environment,
        need(args.attendance),
    );
    let connection = opened.await?;
    if !files.is_empty() {
        return each::run(connection, context, (&config, &args), (&draft, files)).await;
    }
    let work = async |connection: &mut Connection| {
        check_own_sandbox(connection, &draft)?;
        one(connection, context, &args, &mut draft).await
    };
    connection.during(work).await
}

/// Returns the message with which an engine of this configuration would refuse the request because it lacks a language
/// model. A workflow may name one.
fn refusal(draft: &Draft, config: &Config) -> Option<String> {
    if draft.has("model") || draft.has("workflow") {
        return None;
    }
    let prompt = draft.text("prompt").unwrap_or_default();
    refuses_prompt(&config.models, &prompt).map(|rule| format!("model: {rule}"))
}

/// Returns the kind of engine that a command needs to start a run.
pub(super) fn need(attendance: Attendance) -> Need {
    if attendance.detach { Need::Keep } else { Need::Work }
}

fn check_own_sandbox(connection: &Connection, draft: &Draft) -> Result<()> {
    match connection.own_sandbox().filter(|_| draft.uses_commands()) {
        // The engine checks whether a workflow needs commands.
        Some(Err(_)) if draft.has("workflow") => Ok(()),
        Some(sandbox) => check_sandbox(sandbox),
        None => Ok(()),
    }
}

/// Starts one run, and follows it unless the flags say otherwise.
async fn one(
    connection: &mut Connection,
    context: &Context,
    args: &RunArgs,
    draft: &mut Draft,
) -> Result<Exit> {
    let uploaded = upload(connection, draft).await?;
    let start_options = StartOptions {
        attendance: args.attendance,
        format: match (args.output.json, args.output.quiet) {
            (true, _) => Format::JsonLines,
            (false, true) => Format::Quiet,
            (false, false) => Format::Text,
        },
        idempotency_key: args.idempotency_key.as_deref(),
    };
    let done = match draft.fields() {
        Ok(fields) => start(connection, context, &fields, start_options).await,
        Err(failure) => Err(failure),
    };
    let may_need_files = args.attendance.detach || is_unknown(&done);
    clean_up(connection, &uploaded, may_need_files).await;
    done
}

/// Whether the run may still be in progress after the command.
fn is_unknown<T>(done: &Result<T>) -> bool {
    matches!(done, Err(failure) if failure.exit == Exit::Unavailable)
}

/// Uploads the files that are too large for the request.
async fn upload(connection: &Connection, draft: &mut Draft) -> Result<Vec<FileId>> {
    let mut uploaded = Vec::new();
    for file in &mut draft.files {
        if file.staged.content.is_none() {
            let name = passing_name(&file.path)?;
            let saved = connection.client.upload(&file.path, &name).await?;
            file.staged.file = Some(saved.id.to_string());
            uploaded.push(saved.id);
        }
    }
    Ok(uploaded)
}

/// Deletes uploaded files after their run, unless the run may still need them.
async fn clean_up(connection: &Connection, uploaded: &[FileId], may_need_files: bool) {
    for file in refs(uploaded) {
        if may_need_files {
            terminal::note(&format!(
                "{file} is kept, because the run may still need it; `sortie files delete {file}` deletes it"
            ));
        } else if let Err(failure) = connection.client.delete_file(&file).await {
            terminal::note(&format!("cannot delete {file}: {failure}"));
        }
    }
}

/// Options of a command that starts a run.
pub(super) struct StartOptions<'a> {
    pub(super) attendance: Attendance,
    pub(super) format: Format,
    /// Key with which the engine creates one run only; a random one by default.
    pub(super) idempotency_key: Option<&'a str>,
}

/// Starts a run, and follows it unless the flags say otherwise. `request` has the form of a `RunRequest`.
pub(super) async fn start(
    connection: &mut Connection,
    context: &Context,
    request: &(impl Serialize + Sync),
    start_options: StartOptions<'_>,
) -> Result<Exit> {
    let StartOptions {
        attendance,
        format,
        idempotency_key,
    } = start_options;
    if attendance.detach {
        let run = connection.create_run(request, idempotency_key).await?;
        terminal::print_line(&run.id.to_string())?;
        return Ok(Exit::Success);
    }
    let view = View::new(format, context.terminal);
    let create = (request, idempotency_key);
    let run = create_and_follow(connection, create, view).await?;
    Ok(run.status.into())
}

/// Creates a run and follows it to its end. `create` is the request and its idempotency key.
async fn create_and_follow(
    connection: &mut Connection,
    create: (&(impl Serialize + Sync), Option<&str>),
    view: View,
) -> Result<Run> {
    // Catch interruptions before the run exists: otherwise one could leave a run that is never cancelled.
    let mut interrupted = interruption();
    let run = self::create(connection, create, &mut interrupted).await?;
    if view.has_transcript() {
        view.note(&format!("{} started", run.id));
    }
    let on_interrupt = (OnInterrupt::CancelRun, interrupted);
    follow::follow(connection, &run, 0, view, on_interrupt).await
}

/// Creates a run. On an interruption it still waits for the engine's answer, because only that names the run to cancel;
/// the caller then cancels it. A second interruption exits at once.
async fn create(
    connection: &mut Connection,
    (request, idempotency_key): (&(impl Serialize + Sync), Option<&str>),
    interrupted: &mut Interruption,
) -> Result<Run> {
    let mut creating = pin!(connection.create_run(request, idempotency_key));
    tokio::select! {
        run = &mut creating => return run,
        () = &mut *interrupted => {}
    }
    *interrupted = Box::pin(ready(()));
    terminal::note("cancelling the run as soon as it is created; press Ctrl-C again to leave at once");
    tokio::select! {
        run = creating => run,
        () = interruption() => Err(Failure::left()),
    }
}

/// Prints the isolation of commands if it is less than the strongest, and fails if there is none.
pub(super) fn check_sandbox(sandbox: std::result::Result<&Capabilities, &str>) -> Result<()> {
    let capabilities = sandbox.map_err(|reason| {
        Failure::unavailable(format!(
            "cannot isolate commands: {reason} Use --no-shell to run without commands, or \
             --i-understand-commands-run-unsandboxed to run them as this user, with its files and its network"
        ))
    })?;
    match capabilities.level {
        Level::Namespaces => {}
        Level::Landlock => terminal::note(
            "note: this machine has no namespaces for sandboxes, so only landlock and seccomp isolate commands; `sortie \
             doctor` says why",
        ),
        Level::None => terminal::note("warning: commands are not isolated: they run as this user"),
    }
    Ok(())
}
