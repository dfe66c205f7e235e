//! The turn loop: a model call, its tool calls, their results, and again, until the model gives its final answer.
//!
//! Everything that happens is recorded before the loop goes on, and journaled where there is something to lose: a run
//! without tools has no journal. Nothing here waits without the meter's eye on it, so that a used-up budget ends the run
//! even in the middle of a model call or a tool.

mod answers;
mod limits;
mod repetition;
mod room;
mod start;

use sortie_api::{EventType, limits::OUTPUT_BYTES};

use crate::{
    Outcome, RunSpec, Sink, Stopped, Workspace,
    answer::{Answer, Verdict},
    conversation::Conversation,
    journal::{NoteKind, What},
    meter::Meter,
    model::{Content, Model, Reply, StopReason},
    model_call::{Caller, Replied},
    reply,
    resume::{Open, OpenCalls},
    scribe::Scribe,
    shown::Shown,
    text,
    tool_call::{Share, ToolRunner},
};

/// How long the reason of a failed run is, in bytes: a provider may send a whole page.
const REASON_BYTES: usize = 4 * 1024;
/// Turns in a row of which no call could be made; one more ends the run.
const BROKEN_TURNS: u32 = 3;
/// What the model is told that has said nothing and called nothing.
pub(crate) const NOTHING_SAID: &str =
    "Your last message was empty. Give the answer as text, or call a tool if there is something left to do.";
/// The request for the final answer, behind its reason.
pub(crate) const ANSWER_NOW: &str = "Answer now with what you have: give the final answer in the form that the task asks \
                                     for, and say what is missing. No tool is called any more.";
/// The request to go on with an answer that was cut off.
const CUT_OFF: &str = "Your answer was cut off at its limit of length. Go on exactly where it ended: repeat nothing, and \
                       add no words about the interruption.";
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
    /// Subjects of which the model was told.
    noted: Vec<NoteKind>,
    /// The pieces so far of an answer that was cut off.
    cut: Vec<String>,
    /// The model that answers where the run's own refuses, as long as it was not needed.
    fallback: Option<&'a dyn Model>,
    /// The fixed part of every request, as the journal has to have it before the next reply.
    began: Option<What>,
}

/// Whether the run has its output.
enum Progress {
    GoOn,
    Done(String),
}

impl<'a> Agent<'a> {
    /// Goes on, from what an earlier attempt left `open` in its last turn, to the run's output.
    async fn work(&mut self, open: Option<Open>) -> Result<String, Stop> {
        let mut progress = match open {
            None => Progress::GoOn,
            Some(Open::Calls(calls)) => Box::pin(self.call_tools(calls)).await?,
            Some(Open::Answer(said)) => match self.answer.judge(said).await? {
                Verdict::Final(output) => Progress::Done(output),
                Verdict::Rejected(rejected) => self.correct(rejected.correction()?).await?,
            },
            Some(Open::Cut) => self.correct(CUT_OFF.to_owned()).await?,
        };
        loop {
            if let Progress::Done(output) = progress {
                return Ok(output);
            }
            self.step += 1;
            let replied = self.ask().await?;
            // Boxed, as all that a run which waits for its model is not in.
            progress = Box::pin(self.take(replied)).await?;
        }
    }

    async fn take(&mut self, replied: Replied) -> Result<Progress, Stop> {
        let Replied { reply, limit, count } = replied;
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
        let is_bound = self.caller.model.binds_thinking();
        let mut content = reply::tidied(content, stop_reason, &self.spec.redactor, is_bound);
        let said = reply::said(&content, &self.spec.redactor);
        if !said.is_empty() {
            let text = text::head(&said, OUTPUT_BYTES).to_owned();
            let step = self.step;
            self.sink.record(EventType::Message { text, step }).await?;
        }
        if self.is_ending() {
            // Some servers let a model call tools all the same.
            content.retain(|piece| !matches!(piece, Content::ToolCall(_)));
        }
        let calls = reply::tool_calls(&content);
        if calls.is_empty() || stop_reason == StopReason::Refusal {
            let reply = answers::Said {
                content,
                text: said,
                stop_reason,
                limit,
                count,
            };
            return self.answered(reply).await;
        }
        self.cut.clear();
        if calls.iter().all(|call| self.tools.is_broken(call)) {
            self.broken += 1;
            self.check_broken()?;
        } else {
            self.broken = 0;
        }
        let kept = What::Reply {
            content,
            count: Some(count),
            is_cut: false,
        };
        self.keep(kept).await?;
        self.call_tools(OpenCalls::new(calls)).await
    }

    /// Keeps what the model said.
    async fn keep(&mut self, reply: What) -> Result<(), Stop> {
        if let Some(began) = self.began.take() {
            self.scribe.write(self.step, began).await?;
        }
        if let What::Reply { content, .. } = &reply {
            self.conversation.said(content.clone());
        }
        self.scribe.write(self.step, reply).await?;
        Ok(())
    }

    /// Lets another model go on. It cannot read the thinking of the first.
    fn fall_back(&mut self, model: &'a dyn Model) {
        self.caller.model = model;
        self.caller.window.replace(model);
        self.conversation.drop_opaque();
        self.cut.clear();
    }

    /// Hands an answer back.
    async fn correct(&mut self, text: String) -> Result<Progress, Stop> {
        let correction = What::Correction { text: text.clone() };
        self.scribe.write(self.step, correction).await?;
        self.conversation.told(text);
        Ok(Progress::GoOn)
    }

    async fn call_tools(&mut self, open: OpenCalls) -> Result<Progress, Stop> {
        let share = self.share(open.calls.len());
        let results = self.tools.run(self.step, open, share).await?;
        let changed = self.conversation.did(results);
        if let Some(index) = changed {
            self.caller.window.changed_from(index);
            if self.caller.model.binds_thinking() {
                self.drop_thinking().await?;
            }
        }
        Ok(Progress::GoOn)
    }

    /// The part of each output of a turn that has so many calls: all together a quarter of the window's room, and no more
    /// than a quarter of what the budget can read.
    fn share(&self, calls: usize) -> Share {
        const LEAST_BYTES: usize = 2 * 1024;
        let calls = calls.max(1);
        let (window, fixed) = (&self.caller.window, self.fixed_tokens());
        let readable = self.caller.readable(self.conversation.turns()) / 4 / calls as u64;
        let room = window.room_beside(fixed).unwrap_or(u64::MAX) / 4 / calls as u64;
        let bytes = usize::try_from(readable).unwrap_or(usize::MAX).max(LEAST_BYTES);
        Share {
            bytes: window.output_share(fixed, calls).min(bytes),
            media_tokens: readable.min(room),
        }
    }

    /// Ends a run whose model does not get a call right, over and over.
    fn check_broken(&self) -> Result<(), Stop> {
        if self.broken > BROKEN_TURNS {
            return Err(Stop::Failed(format!(
                "the model wrote no tool call that could be made, {} times in a row",
                self.broken
            )));
        }
        Ok(())
    }
}
