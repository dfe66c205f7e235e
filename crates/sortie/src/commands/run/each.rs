//! `sortie run --each`: one run for each of several files, a few at once.
//!
//! Each job has a connection, because a connection follows one run at a time and finds its run again if the engine of another
//! command ends. Jobs wait while the rate limit refuses them, as every command does.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde::Serialize;
use sortie_api::{Micros, Run, RunStatus};

use super::{Draft, check_own_sandbox, clean_up, create_and_follow, is_unknown, need, upload};
use crate::{
    args::{FileArg, RunArgs},
    commands::Context,
    config::Config,
    connect::Connection,
    failure::{Exit, Failure, Result},
    follow::{Format, View, print_json_line},
    interruption::interruption,
    terminal::{self, Style, harmless, styled},
    transcript::milliseconds,
};

/// Returns the files of `--each`. Without another prompt, the last of several values is the prompt if it names no file.
pub(super) fn files(args: &mut RunArgs) -> Result<Vec<FileArg>> {
    if args.batch.each.is_empty() {
        return Ok(Vec::new());
    }
    let is_defined =
        args.prompt.is_some() || args.literal.is_some() || args.workflow.is_some() || args.request.is_some();
    if !is_defined {
        let last = args.batch.each.pop().filter(|_| !args.batch.each.is_empty());
        let last = last.ok_or_else(no_prompt)?;
        // A prompt is seldom a valid pattern.
        if matches(&last).is_ok_and(|files| !files.is_empty()) {
            return Err(no_prompt());
        }
        args.literal = Some(last);
    }
    let mut files = Vec::new();
    for pattern in &args.batch.each {
        let paths = matches(pattern)?;
        if paths.is_empty() {
            return Err(Failure::usage(format!("--each {pattern}: no file matches")));
        }
        for path in paths {
            let file = file_arg(path)?;
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn no_prompt() -> Failure {
    Failure::usage(
        "--each: the prompt is missing: write it before --each, as in `sortie run 'Summarise the file.' --each 'docs/*.txt'`",
    )
}

/// Returns the files that a path or a pattern names, in alphabetical order.
fn matches(pattern: &str) -> Result<Vec<PathBuf>> {
    if Path::new(pattern).is_file() {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let wrong = |rule: &dyn std::fmt::Display| Failure::usage(format!("--each {pattern}: {rule}"));
    let paths = glob::glob(pattern).map_err(|error| wrong(&error.msg))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| wrong(&format!("cannot read {}", error.path().display())))?;
        if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn file_arg(path: PathBuf) -> Result<FileArg> {
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = name.ok_or_else(|| {
        Failure::usage(format!(
            "--each {}: the file name must be UTF-8 text; rename the file",
            path.display()
        ))
    })?;
    Ok(FileArg { path, name })
}

/// Runs that differ in one file.
struct Batch<'a> {
    context: &'a Context,
    args: &'a RunArgs,
    draft: &'a Draft,
    left: Mutex<VecDeque<FileArg>>,
    /// Whether no more runs are started.
    is_stopped: AtomicBool,
    totals: Mutex<Totals>,
    progress: Option<ProgressBar>,
}

/// Outcome of the runs so far.
#[derive(Debug)]
struct Totals {
    files: usize,
    statuses: BTreeMap<&'static str, usize>,
    /// Files for which no run was started, or for which the outcome of the run is unknown.
    failures: usize,
    spent: Micros,
    worst: Exit,
}

/// Line of a finished run with `--json`.
#[derive(Serialize)]
struct Line<'a> {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a Run>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Starts a run for each file, and prints a line for each finished one. Returns the highest exit code of the runs.
pub(super) async fn run(
    first: Connection,
    context: &Context,
    (config, args): (&Config, &RunArgs),
    (draft, files): (&Draft, Vec<FileArg>),
) -> Result<Exit> {
    let begun = Instant::now();
    let mut connections = vec![first];
    let jobs = usize::try_from(args.batch.jobs).unwrap_or(1).min(files.len());
    let batch = Batch::new(context, args, (draft, files));
    let done = match open(&mut connections, context, (config, args), (draft, jobs)).await {
        Ok(()) => batch.run(&mut connections).await,
        Err(failure) => Err(failure),
    };
    if let Some(progress) = &batch.progress {
        progress.finish_and_clear();
    }
    let has_left = matches!(&done, Err(failure) if failure.exit == Exit::Left);
    // An engine of this process waits for the connections that share it.
    connections.sort_by_key(|connection| connection.own_engine().is_some());
    for connection in connections {
        let end = async |_: &mut Connection| if has_left { Err(Failure::left()) } else { Ok(()) };
        // Leaving is the only failure here, and `done` has it.
        let _closed = connection.during(end).await;
    }
    done?;
    let totals = batch.totals.lock();
    let took = milliseconds(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    terminal::note(&format!("{} · {took}", totals.summary()));
    Ok(totals.worst)
}

/// Checks the sandbox of an engine of this process, and opens connections until each job has one.
async fn open(
    connections: &mut Vec<Connection>,
    context: &Context,
    (config, args): (&Config, &RunArgs),
    (draft, jobs): (&Draft, usize),
) -> Result<()> {
    for connection in connections.iter() {
        check_own_sandbox(connection, draft)?;
    }
    while connections.len() < jobs {
        let more = Connection::open(
            context.named_engine(),
            config,
            &context.environment,
            need(args.attendance),
        );
        connections.push(more.await?);
    }
    Ok(())
}

impl<'a> Batch<'a> {
    fn new(context: &'a Context, args: &'a RunArgs, (draft, files): (&'a Draft, Vec<FileArg>)) -> Self {
        let is_watched = context.terminal.stderr_is_terminal() && !args.output.quiet;
        let batch = Self {
            context,
            args,
            draft,
            totals: Mutex::new(Totals::new(files.len())),
            left: Mutex::new(files.into()),
            is_stopped: AtomicBool::new(false),
            progress: is_watched.then(progress_bar),
        };
        batch.show_progress();
        batch
    }

    /// Works on all files. On the first interruption the runs in progress are cancelled and no more are started.
    async fn run(&self, connections: &mut [Connection]) -> Result<()> {
        let mut interrupted = interruption();
        let mut jobs = pin!(join_all(
            connections.iter_mut().map(|connection| self.work(connection))
        ));
        let done = tokio::select! {
            biased;
            () = &mut interrupted => {
                self.is_stopped.store(true, Ordering::Relaxed);
                self.print(|| {
                    terminal::note("cancelling the runs in progress; press Ctrl-C again to leave at once");
                    Ok(())
                })?;
                jobs.await
            }
            done = &mut jobs => done,
        };
        done.into_iter().collect()
    }

    /// Works on one file after another.
    async fn work(&self, connection: &mut Connection) -> Result<()> {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let Some(file) = self.left.lock().pop_front() else {
                break;
            };
            match self.one(connection, &file).await {
                Ok(run) => self.finished(&file, &run)?,
                Err(failure) if failure.exit == Exit::Left => return Err(failure),
                Err(failure) => self.failed(&file, &failure)?,
            }
            self.show_progress();
        }
        Ok(())
    }

    /// Starts the run of a file and follows it to its end.
    async fn one(&self, connection: &mut Connection, file: &FileArg) -> Result<Run> {
        let mut draft = self.draft.clone();
        draft.add_file("--each", file)?;
        let uploaded = upload(connection, &mut draft).await?;
        let request = draft.fields()?;
        let is_detached = self.args.attendance.detach;
        let done = if is_detached {
            connection.create_run(&request, None).await
        } else {
            let view = View::new(Format::Nothing, self.context.terminal);
            create_and_follow(connection, (&request, None), view).await
        };
        let may_need_files = is_detached || is_unknown(&done);
        clean_up(connection, &uploaded, may_need_files).await;
        done
    }

    fn finished(&self, file: &FileArg, run: &Run) -> Result<()> {
        self.totals.lock().add(run, self.args.attendance.detach);
        self.print(|| {
            if self.args.output.json {
                return print_json_line(&Line {
                    file: file.path.display().to_string(),
                    run: Some(run),
                    error: None,
                });
            }
            let style = match run.status {
                RunStatus::Succeeded => Style::Good,
                RunStatus::Failed | RunStatus::Cancelled | RunStatus::TimedOut | RunStatus::Interrupted => {
                    Style::Bad
                }
                RunStatus::Reserving | RunStatus::Queued | RunStatus::Starting | RunStatus::Running => {
                    Style::Dim
                }
            };
            self.print_line(run.status.as_str(), style, &text_of(file, run))
        })
    }

    fn failed(&self, file: &FileArg, failure: &Failure) -> Result<()> {
        self.totals.lock().add_failure(failure);
        if matches!(
            failure.exit,
            Exit::Unavailable | Exit::Denied | Exit::Forbidden | Exit::Unpaid
        ) {
            // The next run would fail in the same way.
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        self.print(|| {
            if self.args.output.json {
                return print_json_line(&Line {
                    file: file.path.display().to_string(),
                    run: None,
                    error: Some(failure.to_string()),
                });
            }
            let text = format!("{}  {failure}", file.path.display());
            self.print_line("not started", Style::Bad, &text)
        })
    }

    fn print_line(&self, status: &str, style: Style, text: &str) -> Result<()> {
        let status = format!("{:<11}", status.replace('_', " "));
        let text = harmless(text).replace('\n', " ");
        let columns = self.context.terminal.stdout_columns();
        let text = match columns {
            Some(columns) => cut(&text, columns.saturating_sub(13)),
            None => text,
        };
        let status = styled(&status, style, self.context.terminal.colours_stdout());
        Ok(terminal::print_line(&format!("{status}  {text}"))?)
    }

    fn print(&self, print: impl FnOnce() -> Result<()>) -> Result<()> {
        match &self.progress {
            Some(progress) => progress.suspend(print),
            None => print(),
        }
    }

    fn show_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.set_message(self.totals.lock().progress());
        }
    }
}

impl Totals {
    fn new(files: usize) -> Self {
        Self {
            files,
            statuses: BTreeMap::new(),
            failures: 0,
            spent: Micros::ZERO,
            worst: Exit::Success,
        }
    }

    fn add(&mut self, run: &Run, is_detached: bool) {
        *self.statuses.entry(run.status.as_str()).or_default() += 1;
        self.spent = self.spent.checked_add(run.cost_micros).unwrap_or(self.spent);
        if !is_detached {
            self.worsen(run.status.into());
        }
    }

    fn add_failure(&mut self, failure: &Failure) {
        self.failures += 1;
        self.worsen(failure.exit);
    }

    fn worsen(&mut self, exit: Exit) {
        if exit as u8 > self.worst as u8 {
            self.worst = exit;
        }
    }

    fn done(&self) -> usize {
        self.statuses.values().sum::<usize>() + self.failures
    }

    fn progress(&self) -> String {
        format!("{} of {} · {}", self.done(), self.files, self.spent)
    }

    fn summary(&self) -> String {
        let mut parts: Vec<String> = self
            .statuses
            .iter()
            .map(|(status, count)| format!("{count} {}", status.replace('_', " ")))
            .collect();
        let unstarted = self.files - self.done() + self.failures;
        if unstarted > 0 {
            parts.push(format!("{unstarted} not started"));
        }
        format!(
            "{} of {} files: {} · {}",
            self.done(),
            self.files,
            parts.join(", "),
            self.spent
        )
    }
}

/// Returns the file, the ID, the duration, the cost, and the first line of the answer or the reason of the failure.
fn text_of(file: &FileArg, run: &Run) -> String {
    let mut parts = vec![file.path.display().to_string(), run.id.to_string()];
    if let (Some(started), Some(finished)) = (run.started_at, run.finished_at) {
        let took = finished.since(started).as_millis();
        parts.push(milliseconds(u64::try_from(took).unwrap_or(u64::MAX)));
        parts.push(run.cost_micros.to_string());
    }
    let said = run.error.as_ref().or(run.output.as_ref());
    parts.extend(said.and_then(|text| text.lines().next()).map(str::to_owned));
    parts.join("  ")
}

/// Cuts a text at a display width.
fn cut(text: &str, columns: usize) -> String {
    if textwrap::core::display_width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if textwrap::core::display_width(&cut) + textwrap::core::display_width(c.encode_utf8(&mut [0; 4]))
            >= columns
        {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

fn progress_bar() -> ProgressBar {
    // The template is constant; an invalid one would only change the look.
    let style = ProgressStyle::with_template("{spinner} {elapsed} · {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(arguments: &[&str]) -> RunArgs {
        let cli = Cli::try_parse_from(["sortie", "run"].iter().chain(arguments)).unwrap();
        let Command::Run(args) = cli.command else {
            unreachable!("asked for run");
        };
        *args
    }

    #[test]
    fn patterns_paths_and_a_prompt_behind_them_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.txt", "c.csv"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("d.txt")).unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (pattern, first) = (path("*.txt"), path("b.txt"));
        let names = |args: &mut RunArgs| -> Vec<String> {
            files(args).unwrap().into_iter().map(|file| file.name).collect()
        };
        let mut args = parsed(&["sum", "--each", &first, &pattern]);
        assert_eq!(names(&mut args), ["b.txt", "a.txt"]);
        assert_eq!((args.batch.jobs, args.literal), (4, None));
        let mut args = parsed(&["--jobs", "2", "--each", &pattern, "sum it"]);
        assert_eq!(names(&mut args), ["a.txt", "b.txt"]);
        assert_eq!((args.batch.jobs, args.literal.as_deref()), (2, Some("sum it")));
        let mut args = parsed(&["--each", &pattern, "--", "sum it"]);
        assert_eq!(names(&mut args).len(), 2);

        let refusal = |arguments: &[&str]| files(&mut parsed(arguments)).unwrap_err().to_string();
        assert!(refusal(&["--each", &pattern]).contains("the prompt is missing"));
        assert!(refusal(&["--each", &pattern, &first]).contains("the prompt is missing"));
        let nothing = path("*.nothing");
        assert_eq!(
            refusal(&["x", "--each", &nothing]),
            format!("--each {nothing}: no file matches")
        );
        assert!(refusal(&["x", "--each", "a**b"]).starts_with("--each a**b: "));
    }

    #[test]
    fn the_highest_exit_code_is_that_of_the_batch() {
        let mut totals = Totals::new(4);
        let run = |status: &str| -> Run {
            serde_json::from_value(serde_json::json!({
                "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": status, "created_at": "2026-11-20T21:30:00.000Z",
                "max_cost_micros": 1_000_000, "cost_micros": 500_000, "billing_pending": false,
                "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
            }))
            .unwrap()
        };
        totals.add(&run("timed_out"), false);
        totals.add(&run("failed"), false);
        totals.add(&run("succeeded"), false);
        assert_eq!(totals.worst, Exit::TimedOut);
        assert_eq!(
            totals.summary(),
            "3 of 4 files: 1 failed, 1 succeeded, 1 timed out, 1 not started · $1.50"
        );
        totals.add_failure(&Failure::usage("x"));
        assert_eq!(totals.worst, Exit::Usage);
    }

    #[test]
    fn a_line_is_cut_at_its_display_width() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("大きい", 5), "大き…");
    }
}
