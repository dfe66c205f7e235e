//! Follows a run to its end: for people as a transcript with a status line, for machines as JSON lines.

use std::time::Duration;

use serde::Deserialize;
use sortie_api::{Event, Run, RunId, RunStatus, event::kind, json};

use crate::{
    client::{Followed, Live, waits},
    connect::Connection,
    failure::{Failure, Result},
    interruption::{Interruption, interruption},
    printed::Printed,
    status_line::StatusLine,
    terminal::{self, Terminal},
    transcript::Transcript,
};

/// Format in which a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A transcript on standard error and the answer on standard output.
    Text,
    /// The transcript and the answer on standard output.
    Transcript,
    /// Event objects on standard output, one a line, and the run last.
    JsonLines,
    /// The answer alone on standard output, and on standard error the reason of a failure.
    Quiet,
    /// The output of the run's commands on standard output.
    Logs,
    /// Nothing: the command shows the finished run.
    Nothing,
}

impl Format {
    pub(crate) fn of(is_json: bool) -> Self {
        if is_json { Self::JsonLines } else { Self::Text }
    }
}

/// Effect of an interruption by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// The run is cancelled and followed to its end; a second interruption exits.
    CancelRun,
    /// The command exits; the run continues.
    Leave,
}

/// Interval of checks whether the run was abandoned, if the own engine does not work on runs.
const LOOK: Duration = Duration::from_secs(5);

/// Follows a run and returns it once it has finished. Also returns an abandoned run as it is: the own engine of a
/// command that reads records never runs it. `interrupted` may have been listening before.
pub(crate) async fn follow(
    connection: &mut Connection,
    run: &Run,
    after: i64,
    view: View,
    (on_interrupt, interrupted): (OnInterrupt, Interruption),
) -> Result<Run> {
    let (mut view, mut interrupted) = (view, interrupted);
    view.begin(run);
    let run = run.id;
    let mut following = connection.client.follow(run, after);
    if view.wants_live() {
        following = following.with_live();
    }
    let (mut cancelled, mut look) = (false, tokio::time::interval(LOOK));
    loop {
        let next = following.next();
        tokio::select! {
            message = next => match message? {
                Followed::Event(event) => view.event(&event)?,
                Followed::Live(live) => view.live(&live)?,
                Followed::Done(run) => {
                    view.done(&run)?;
                    return Ok(*run);
                }
                Followed::Away(cause) => {
                    view.away(&cause);
                    if connection.find_again().await? {
                        following.move_to(&connection.client);
                        look.reset_immediately();
                        if connection.own_engine().is_some() && !connection.works_on_nothing() {
                            view.note("the command that had the engine has ended; this one continues the run");
                        }
                    }
                }
                Followed::Back => view.back(),
            },
            _ = look.tick(), if connection.works_on_nothing() => {
                if let Some(left) = left(connection, run).await? {
                    for event in connection.client.recorded_events(run, following.after()).await? {
                        view.event(&event)?;
                    }
                    view.left(&left)?;
                    return Ok(left);
                }
            }
            () = &mut interrupted => {
                if cancelled || on_interrupt == OnInterrupt::Leave {
                    view.close();
                    return Err(Failure::left());
                }
                cancelled = true;
                view.note("cancelling the run; press Ctrl-C again to leave at once");
                interrupted = interruption();
                if !cancel(connection, run, &mut interrupted).await? {
                    view.close();
                    return Err(Failure::left());
                }
            }
        }
    }
}

/// Cancels a run. Returns false if the user wants to exit first: the rate limit may delay the request.
async fn cancel(connection: &Connection, run: RunId, interrupted: &mut Interruption) -> Result<bool> {
    tokio::select! {
        answer = connection.client.cancel_run(run) => answer.map(|_| true).map_err(|failure| {
            Failure::new(failure.exit, format!("{run} is not cancelled: {failure}"))
        }),
        () = interrupted => Ok(false),
    }
}

/// Returns the run if it is abandoned.
async fn left(connection: &Connection, run: RunId) -> Result<Option<Run>> {
    let found = connection.client.look_at_run(run).await?;
    let is_left = !connection.unattended(vec![run]).await?.is_empty();
    Ok(Some(found).filter(|found| is_left && !found.status.is_final()))
}

/// View that shows a followed run.
pub(crate) struct View {
    format: Format,
    terminal: Terminal,
    transcript: Transcript,
    status: Option<StatusLine>,
    printed: Printed,
    /// Answer from the `result` event: the run at the end of a stream lacks it if it has zero data retention.
    answer: Option<String>,
    /// Whether a message has said that the engine is away.
    is_away: bool,
}

impl View {
    pub(crate) fn new(format: Format, terminal: Terminal) -> Self {
        let colours = match format {
            Format::Transcript => terminal.colours_stdout(),
            Format::Text | Format::JsonLines | Format::Quiet | Format::Logs | Format::Nothing => {
                terminal.colours_stderr()
            }
        };
        // A status line among a transcript in a file would be noise.
        let is_watched = match format {
            Format::Text => terminal.stderr_is_terminal(),
            Format::Transcript => terminal.stderr_is_terminal() && terminal.stdout_is_terminal(),
            Format::JsonLines | Format::Quiet | Format::Logs | Format::Nothing => false,
        };
        Self {
            format,
            terminal,
            transcript: Transcript::new(colours),
            status: is_watched.then(|| StatusLine::new(terminal)),
            printed: Printed::default(),
            answer: None,
            is_away: false,
        }
    }

    fn begin(&mut self, run: &Run) {
        if let Some(status) = &mut self.status {
            status.begin(run);
        }
    }

    /// Whether people read a transcript.
    pub(crate) fn has_transcript(&self) -> bool {
        matches!(self.format, Format::Text | Format::Transcript)
    }

    /// Whether live messages are shown.
    fn wants_live(&self) -> bool {
        self.status.is_some() || self.format == Format::Logs
    }

    /// Reports once that the engine does not answer, and every time that its rate limit is reached.
    fn away(&mut self, cause: &Failure) {
        if let Some(wait) = cause.retry_after {
            return self.note(&waits(wait));
        }
        if !std::mem::replace(&mut self.is_away, true) {
            self.note(&format!(
                "the engine does not answer; retrying for five minutes, while the run continues without this command: \
                 {cause}"
            ));
        }
        if let Some(status) = &self.status {
            status.say("waiting for the engine");
        }
    }

    fn back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            self.note("the engine answers again");
        }
        if let Some(status) = &self.status {
            status.say(self.transcript.activity());
        }
    }

    /// Prints a note that is not part of the transcript.
    pub(crate) fn note(&self, text: &str) {
        if self.format == Format::Nothing {
            return;
        }
        match &self.status {
            Some(status) => status.suspend(|| terminal::note(text)),
            None => terminal::note(text),
        }
    }

    /// Prints lines of the transcript.
    fn print(&self, lines: &str) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.format != Format::Transcript {
            self.note(lines.trim_end_matches('\n'));
            return Ok(());
        }
        let mut printed = Ok(());
        match &self.status {
            Some(status) => status.suspend(|| printed = terminal::print(lines)),
            None => printed = terminal::print(lines),
        }
        Ok(printed?)
    }

    fn columns(&self) -> Option<usize> {
        match self.format {
            Format::Transcript => self.terminal.stdout_columns(),
            Format::Text | Format::JsonLines | Format::Quiet | Format::Logs | Format::Nothing => {
                self.terminal.stderr_columns()
            }
        }
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        if event.kind == kind::RESULT {
            self.answer = result_of(event);
        }
        match self.format {
            Format::JsonLines => print_json_line(event),
            Format::Quiet | Format::Nothing => Ok(()),
            Format::Logs => self.printed.event(event),
            Format::Text | Format::Transcript => {
                self.transcript.columns = self.columns();
                let lines = self.transcript.event(event);
                if let Some(status) = &mut self.status {
                    status.event(event, self.transcript.activity());
                    // A retry starts the text again, and a result ends it.
                    if !lines.is_empty() || matches!(event.kind.as_str(), kind::RETRY | kind::RESULT) {
                        status.end_live();
                    }
                }
                self.print(&lines)
            }
        }
    }

    fn live(&mut self, live: &Live) -> Result<()> {
        if self.format == Format::Logs {
            return self.printed.live(live);
        }
        if let Some(status) = &mut self.status {
            status.live(live);
        }
        Ok(())
    }

    fn done(&mut self, run: &Run) -> Result<()> {
        self.close();
        match self.format {
            Format::JsonLines => return print_json_line(run),
            Format::Logs | Format::Nothing => return Ok(()),
            Format::Text | Format::Transcript | Format::Quiet => {}
        }
        let output = run.output.as_ref().or(self.answer.as_ref());
        if let Some(output) = output {
            terminal::print(&answer(output))?;
        } else if let (Some(true), Some(until)) = (run.output_available, run.output_expires_at) {
            terminal::note(&format!(
                "the answer can be read once until {until}: `sortie runs get {}` prints it",
                run.id
            ));
        }
        if self.format == Format::Quiet {
            if run.status != RunStatus::Succeeded {
                let status = run.status.as_str().replace('_', " ");
                let reason = run.error.as_deref().unwrap_or("no reason is recorded");
                terminal::error(&format!(
                    "sortie: {} {status}: {}",
                    run.id,
                    terminal::harmless(reason)
                ));
            }
            return Ok(());
        }
        self.transcript.columns = self.columns();
        let lines = self.transcript.done(run);
        self.print(&lines)
    }

    /// Shows a run that the user has left before its end.
    fn left(&mut self, run: &Run) -> Result<()> {
        self.close();
        match self.format {
            Format::JsonLines => print_json_line(run),
            Format::Text | Format::Transcript => {
                let unsaid = self.transcript.unsaid();
                self.print(&unsaid)
            }
            Format::Quiet | Format::Logs | Format::Nothing => Ok(()),
        }
    }

    fn close(&mut self) {
        if let Some(status) = self.status.take() {
            status.close();
        }
    }
}

/// Returns the answer in a `result` event.
fn result_of(event: &Event) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        output: String,
    }
    let answer: Answer = serde_json::from_str(event.data.get()).ok()?;
    Some(answer.output)
}

/// Prints a value as one line of JSON.
pub(crate) fn print_json_line<T: serde::Serialize>(value: &T) -> Result<()> {
    let line = json::to_line(value).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(terminal::print_line(&line)?)
}

/// Returns an answer for output: unchanged for a file or a program, harmless for a terminal, and with a final newline.
pub(crate) fn answer(output: &str) -> String {
    use std::io::IsTerminal as _;

    let mut text = if std::io::stdout().is_terminal() {
        terminal::harmless(output).into_owned()
    } else {
        output.to_owned()
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
