//! The turn loop: a model call, its tool calls, their results, and again, until the model gives its final answer.
//!
//! Everything that happens is recorded before the loop goes on, and journaled where there is something to lose: a run
//! without tools has no journal. Nothing here waits without the meter's eye on it, so that a used-up budget ends the run
//! even in the middle of a model call or a tool.

mod room;
mod start;

use sortie_api::{EventType, limits::OUTPUT_BYTES};

use crate::{
    Outcome, RunSpec, Sink, Stopped, Workspace,
    answer::{Answer, Rejected, Verdict},
    budget::Cut,
    conversation::Conversation,
    journal::What,
    meter::Meter,
    model::{Content, Kind, Model, Reply, StopReason},
    model_call::{Caller, Limit},
    reply,
    resume::{Open, OpenCalls},
    scribe::Scribe,
    shown::Shown,
    text,
    tool_call::ToolRunner,
};

/// How long the reason of a failed run is, in bytes: a provider may send a whole page.
const REASON_BYTES: usize = 4 * 1024;
/// Turns in a row of which no call could be made; one more ends the run.
const BROKEN_TURNS: u32 = 3;
/// What the model is told that has said nothing and called nothing.
pub(crate) const NOTHING_SAID: &str =
    "Your last message was empty. Give the answer as text, or call a tool if there is something left to do.";
const STOPPED: &str = "the run is no longer this worker's";

/// Why the loop ended without an answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Compute has used the budget up.
    Exhausted,
    /// Too little is left for another model call, or the answer was cut because of it.
    NoRoom(&'static str),
    /// Nobody takes events any more.
    Stopped,
    /// The run cannot go on.
    Failed(String),
}

impl From<Stopped> for Stop {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

/// Runs the agent to its end.
pub(crate) async fn run(
    mut spec: RunSpec,
    model: &dyn Model,
    workspace: &mut Workspace,
    sink: &dyn Sink,
) -> Outcome {
    let journal = spec.resume.take();
    if let Some(journal) = &journal {
        spec.budget.spent = spec.budget.spent.max(journal.spent());
    }
    let sink = Shown::new(sink, &spec.redactor);
    let meter = Meter::new(&spec.budget, &sink);
    let parts = start::Parts {
        spec: &spec,
        model,
        sink: &sink,
        meter: &meter,
    };
    let ended = Box::pin(parts.run(workspace, journal)).await;
    meter.tell();
    match ended {
        Ok(output) => Outcome::Succeeded(output),
        Err(stop) => {
            let reason = reason(stop, &meter).await;
            // Before it is cut: a cut could tear a credential.
            let reason = spec.redactor.redact_owned(text::clean(reason));
            Outcome::Failed(text::bounded_owned(reason, REASON_BYTES))
        }
    }
}

async fn reason(stop: Stop, meter: &Meter<'_>) -> String {
    let why = match stop {
        Stop::Exhausted => "",
        Stop::NoRoom(why) => why,
        Stop::Stopped => return STOPPED.to_owned(),
        Stop::Failed(reason) => return reason,
    };
    meter.reached(why).await.unwrap_or_else(|_| STOPPED.to_owned())
}

/// A run at work.
struct Agent<'a> {
    spec: &'a RunSpec,
    sink: &'a dyn Sink,
    caller: Caller<'a>,
    tools: ToolRunner<'a>,
    scribe: &'a Scribe<'a>,
    answer: Answer,
    conversation: Conversation,
    /// The turn it is in, from 1.
    step: u32,
    /// Turns in a row of which no call could be made.
    broken: u32,
    /// Whether an earlier attempt has begun to shorten the conversation.
    shortening: bool,
}

/// Whether the run has its output.
enum Progress {
    GoOn,
    Done(String),
}

impl Agent<'_> {
    /// Goes on, from what an earlier attempt left `open` in its last turn, to the run's output.
    async fn work(&mut self, open: Option<Open>) -> Result<String, Stop> {
        let mut progress = match open {
            None => Progress::GoOn,
            Some(Open::Calls(calls)) => Box::pin(self.call_tools(calls)).await?,
            Some(Open::Answer(said)) => match self.answer.judge(said).await? {
                Verdict::Final(output) => Progress::Done(output),
                Verdict::Rejected(rejected) => self.correct(rejected.correction()?).await?,
            },
        };
        loop {
            if let Progress::Done(output) = progress {
                return Ok(output);
            }
            self.step += 1;
            let (reply, limit) = self.ask().await?;
            // Boxed, as all that a run which waits for its model is not in.
            progress = Box::pin(self.take(reply, limit)).await?;
        }
    }

    async fn take(&mut self, reply: Reply, limit: Limit) -> Result<Progress, Stop> {
        let Reply {
            content,
            thinking,
            stop_reason,
            ..
        } = reply;
        if !thinking.trim().is_empty() {
            let text = text::head(thinking.trim(), OUTPUT_BYTES).to_owned();
            let step = self.step;
            self.sink
                .record(EventType::ThinkingSummary { text, step })
                .await?;
        }
        let content = reply::tidied(content, stop_reason, &self.spec.redactor);
        let said = reply::said(&content, &self.spec.redactor);
        if !said.is_empty() {
            let text = text::head(&said, OUTPUT_BYTES).to_owned();
            let step = self.step;
            self.sink.record(EventType::Message { text, step }).await?;
        }
        let calls = reply::tool_calls(&content);
        if calls.is_empty() || stop_reason == StopReason::Refusal {
            check_whole(stop_reason, limit)?;
            return self.answered(content, said).await;
        }
        if calls.iter().all(|call| self.tools.is_broken(call)) {
            self.broken += 1;
            self.check_broken(stop_reason, limit.cut)?;
        } else {
            self.broken = 0;
        }
        self.keep(content).await?;
        self.call_tools(OpenCalls::new(calls)).await
    }

    /// A reply without tool calls: the answer, unless it is handed back.
    async fn answered(&mut self, content: Vec<Content>, said: String) -> Result<Progress, Stop> {
        // A language model that says nothing has slipped; what a program answers is meant.
        if said.trim().is_empty() && self.caller.model.kind() == Kind::Language {
            if self.conversation.last_told() == Some(NOTHING_SAID) {
                return Err(Stop::Failed(
                    "the model gave no answer, twice in a row".to_owned(),
                ));
            }
            return self.correct(NOTHING_SAID.to_owned()).await;
        }
        let Rejected { errors, attempt } = match self.answer.judge(said).await? {
            Verdict::Final(output) => return Ok(Progress::Done(output)),
            Verdict::Rejected(rejected) => rejected,
        };
        let rejected = EventType::OutputRejected {
            errors: errors.clone(),
            attempt,
        };
        self.sink.record(rejected).await?;
        let correction = Rejected { errors, attempt }.correction()?;
        self.keep(content).await?;
        self.correct(correction).await
    }

    /// Keeps what the model said.
    async fn keep(&mut self, content: Vec<Content>) -> Result<(), Stop> {
        let said = What::Reply {
            content: content.clone(),
        };
        self.scribe.write(self.step, said).await?;
        self.conversation.said(content);
        Ok(())
    }

    /// Hands an answer back.
    async fn correct(&mut self, text: String) -> Result<Progress, Stop> {
        let correction = What::Correction { text: text.clone() };
        self.scribe.write(self.step, correction).await?;
        self.conversation.told(text);
        Ok(Progress::GoOn)
    }

    async fn call_tools(&mut self, open: OpenCalls) -> Result<Progress, Stop> {
        let fixed = self.fixed_tokens();
        let share = self.caller.window.output_share(fixed, open.calls.len());
        let results = self.tools.run(self.step, open, share).await?;
        self.conversation.did(results);
        Ok(Progress::GoOn)
    }

    /// Ends a run whose model does not get a call right, over and over.
    fn check_broken(&self, stop_reason: StopReason, cut: Cut) -> Result<(), Stop> {
        if stop_reason == StopReason::MaxTokens && cut == Cut::Shortened {
            return Err(Stop::NoRoom(", a tool call did not fit into what was left"));
        }
        if self.broken > BROKEN_TURNS {
            return Err(Stop::Failed(format!(
                "the model wrote no tool call that could be made, {} times in a row",
                self.broken
            )));
        }
        Ok(())
    }
}

/// An answer that was cut off or refused is none.
fn check_whole(stop_reason: StopReason, limit: Limit) -> Result<(), Stop> {
    match (stop_reason, limit.cut) {
        (StopReason::EndTurn | StopReason::ToolUse, _) => Ok(()),
        (StopReason::MaxTokens, Cut::Shortened) => {
            Err(Stop::NoRoom(", the answer did not fit into what was left"))
        }
        (StopReason::MaxTokens, Cut::Whole) => Err(Stop::Failed(format!(
            "the model's answer was cut off at its limit of {} tokens",
            limit.max_tokens
        ))),
        (StopReason::Refusal, _) => Err(Stop::Failed("the model refused to answer".to_owned())),
    }
}
