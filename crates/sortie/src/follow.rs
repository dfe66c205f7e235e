//! Follows a run to its end: for people as a transcript with a progress display, for machines as JSON lines.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use sortie_api::{Event, Run, RunId, event::kind, json};

use crate::{
    client::{Followed, waits},
    connect::Connection,
    failure::{Failure, Result},
    interruption::{Interruption, interruption},
    terminal::{self, Terminal},
    transcript::Transcript,
};

/// Format in which a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A transcript on standard error and the answer on standard output.
    Text,
    /// Event objects on standard output, one a line, and the run last.
    JsonLines,
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
    run: RunId,
    after: i64,
    view: View,
    (on_interrupt, interrupted): (OnInterrupt, Interruption),
) -> Result<Run> {
    let (mut view, mut interrupted) = (view, interrupted);
    let mut following = connection.client.follow(run, after);
    let (mut cancelled, mut look) = (false, tokio::time::interval(LOOK));
    loop {
        let next = following.next();
        tokio::select! {
            message = next => match message? {
                Followed::Event(event) => view.event(&event)?,
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
                            view.note("the command that had the engine is gone; this one goes on with the run");
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
    transcript: Transcript,
    spinner: Option<ProgressBar>,
    /// Answer from the `result` event: the run at the end of a stream lacks it if it has zero data retention.
    answer: Option<String>,
    /// Whether a message has said that the engine is away.
    is_away: bool,
}

impl View {
    pub(crate) fn new(format: Format, terminal: Terminal) -> Self {
        let watched = format == Format::Text && terminal.stderr_is_terminal();
        Self {
            format,
            transcript: Transcript::new(terminal.colours_stderr()),
            spinner: watched.then(spinner),
            answer: None,
            is_away: false,
        }
    }

    /// Reports once that the engine does not answer, and every time that its rate limit is reached.
    fn away(&mut self, cause: &Failure) {
        if let Some(wait) = cause.retry_after {
            return self.note(&waits(wait));
        }
        if !std::mem::replace(&mut self.is_away, true) {
            self.note(&format!(
                "the engine does not answer; trying again for some minutes, and the run goes on meanwhile: {cause}"
            ));
        }
        if let Some(spinner) = &self.spinner {
            spinner.set_message("the engine is away");
        }
    }

    fn back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            self.note("the engine answers again");
        }
        if let Some(spinner) = &self.spinner {
            spinner.set_message(self.transcript.activity().to_owned());
        }
    }

    /// Prints a note that is not part of the transcript.
    pub(crate) fn note(&self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| terminal::note(text)),
            None => terminal::note(text),
        }
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        match self.format {
            Format::JsonLines => print_json_line(event)?,
            Format::Text => {
                if event.kind == kind::RESULT {
                    self.answer = result_of(event);
                }
                let lines = self.transcript.event(event);
                if let Some(spinner) = &self.spinner {
                    spinner.set_message(self.transcript.activity().to_owned());
                }
                if !lines.is_empty() {
                    self.note(lines.trim_end_matches('\n'));
                }
            }
        }
        Ok(())
    }

    fn done(&mut self, run: &Run) -> Result<()> {
        self.close();
        match self.format {
            Format::JsonLines => print_json_line(run),
            Format::Text => {
                let output = run.output.as_ref().or(self.answer.as_ref());
                if let Some(output) = output {
                    terminal::print(&answer(output))?;
                } else if let (Some(true), Some(until)) = (run.output_available, run.output_expires_at) {
                    terminal::note(&format!(
                        "the answer is held until {until}, to be read once: `sortie runs get {}` prints it",
                        run.id
                    ));
                }
                terminal::note(self.transcript.done(run).trim_end_matches('\n'));
                Ok(())
            }
        }
    }

    /// Shows a run that the user has left before its end.
    fn left(&mut self, run: &Run) -> Result<()> {
        self.close();
        match self.format {
            Format::JsonLines => print_json_line(run),
            Format::Text => {
                let unsaid = self.transcript.unsaid();
                if !unsaid.is_empty() {
                    terminal::note(unsaid.trim_end_matches('\n'));
                }
                Ok(())
            }
        }
    }

    fn close(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
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

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message("waiting");
    // The template is constant; an invalid one would only change the look.
    let style = ProgressStyle::with_template("{spinner} {msg} · {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    spinner.set_style(style);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

fn print_json_line<T: serde::Serialize>(value: &T) -> Result<()> {
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
