//! The turn loop: a model call, its tool calls, their results, and again, until the model gives its final answer.
//!
//! Every step is recorded before the loop continues, and journaled if there is something to lose: a run without tools has no
//! journal. Every wait is metered, so that an exhausted budget ends the run even in the middle of a model call or a tool.

mod answers;
mod limits;
mod repetition;
mod room;
mod start;
mod understood;

use sortie_api::{EventType, event::AnswerReason, limits::OUTPUT_BYTES};

use crate::{
    Outcome, Redactor, RunSpec, Sink, Stopped, Workspace,
    answer::{Answer, Verdict},
    budget::Cut,
    content::ToolContent,
    conversation::Conversation,
    counts::Count,
    journal::{NoteKind, What},
    journal_writer::JournalWriter,
    meter::Meter,
    model::{Content, Kind, Model, Reply, StopReason, ToolResult, Turn},
    model_call::{Caller, Limit, Replied},
    redacting_sink::RedactingSink,
    reply,
    resume::{CallState, Open, OpenCalls},
    stop::{CUT_OFF, Stop},
    text,
    tool_call::{Share, ToolRunner},
    weak::thinking::Tags,
};

/// Maximum length of the reason of a failed run, in bytes: a provider may send a whole page.
const REASON_BYTES: usize = 4 * 1024;
/// Consecutive turns in which no call could be made; one more ends the run.
const BROKEN_TURNS: u32 = 3;

/// The result of a call that is refused, because the final answer was requested.
const CALL_REFUSED: &str = "not made: no tool is called any more. Answer now with what you have.";
const STOPPED: &str = "the run was taken over by another worker";

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
    let tags = match model.kind() {
        Kind::Language => Tags::of(&spec.prompt),
        Kind::Program => Tags::default(),
    };
    let sink = RedactingSink::new(sink, &spec.redactor, tags.clone());
    let meter = Meter::new(&spec.budget, &sink);
    let parts = start::Parts {
        spec: &spec,
        model,
        sink: &sink,
        meter: &meter,
        tags,
    };
    let ended = Box::pin(parts.run(workspace, journal)).await;
    meter.update_sink();
    match ended {
        Ok(output) => Outcome::Succeeded(output),
        Err(stop) => stopped(stop, &meter, &spec.redactor).await,
    }
}

/// The outcome of a run without an answer.
async fn stopped(stop: Stop, meter: &Meter<'_>, redactor: &Redactor) -> Outcome {
    let reason = match stop {
        Stop::Exhausted => meter.reached("").await,
        Stop::NoRoom(why) => meter.reached(why).await,
        Stop::Stopped => Err(Stopped),
        Stop::Failed(reason) => Ok(reason),
        Stop::Uncertain(call) => return Outcome::Uncertain(call),
    };
    let reason = reason.unwrap_or_else(|Stopped| STOPPED.to_owned());
    // Before it is cut: a cut could split a credential.
    let reason = redactor.redact_owned(text::clean(reason));
    Outcome::Failed(text::bounded_owned(reason, REASON_BYTES))
}

/// A run in progress.
struct Agent<'a> {
    spec: &'a RunSpec,
    sink: &'a dyn Sink,
    caller: Caller<'a>,
    tools: ToolRunner<'a>,
    journal_writer: &'a JournalWriter<'a>,
    answer: Answer,
    conversation: Conversation,
    /// The tags of thinking in the model's text.
    tags: Tags,
    /// The turn it is in, from 1.
    step: u32,
    /// Consecutive turns in which no call could be made.
    broken: u32,
    /// The reason to ask for the final answer before the next call. The request follows results that were not sent yet.
    answer_wanted: Option<AnswerReason>,
    /// Subjects of notes that the model has received.
    noted: Vec<NoteKind>,
    /// The pieces so far of an answer that was cut off.
    cut: Vec<String>,
    /// The model that answers if the run's model refuses; `None` once it was needed.
    fallback: Option<&'a dyn Model>,
    /// The fixed part of every request, which must be in the journal before the next reply.
    began: Option<What>,
}

/// Progress of the run towards its output.
enum Progress {
    GoOn,
    Done(String),
}

impl<'a> Agent<'a> {
    /// Continues, from the last turn that an earlier attempt left `open`, to the run's output.
    async fn work(&mut self, open: Option<Open>) -> Result<String, Stop> {
        let mut progress = match open {
            None => Progress::GoOn,
            Some(Open::Calls(calls)) => Box::pin(self.call_tools(calls)).await?,
            Some(Open::Answer(said)) => match self.answer.judge(self.tags.split(&said).answer).await? {
                Verdict::Final(output) => Progress::Done(output),
                Verdict::Rejected(rejected) => self.correct(rejected.correction()?).await?,
            },
            Some(Open::Cut) => self.correct(CUT_OFF.to_owned()).await?,
        };
        loop {
            if let Progress::Done(output) = progress {
                return Ok(output);
            }
            self.check_steps()?;
            self.step += 1;
            let replied = self.ask().await?;
            // Boxed, as is all code that is not needed while a run waits for its model.
            progress = Box::pin(self.take(replied)).await?;
        }
    }

    /// Ends a model that loops, even for free or at a low price.
    fn check_steps(&self) -> Result<(), Stop> {
        let most = self.spec.max_steps;
        if self.step < most {
            return Ok(());
        }
        Err(Stop::Failed(format!(
            "step limit reached: the run has made {most} model calls, its max_steps, and has no answer"
        )))
    }

    async fn take(&mut self, replied: Replied) -> Result<Progress, Stop> {
        let Replied {
            mut reply,
            limit,
            mut count,
        } = replied;
        if self.caller.model.kind() == Kind::Language && self.understand(&mut reply) {
            count.reply = None;
            self.caller.window.counts.reply_rewritten();
        }
        let Reply {
            content,
            thinking,
            stop_reason,
            ..
        } = reply;
        let mut content = self.tidied(content, stop_reason);
        let text = reply::redacted_text(&content, &self.spec.redactor);
        let said = self.record_said(thinking, &text).await?;
        if self.is_ending() && self.has_refused_calls() {
            content.retain(|piece| !matches!(piece, Content::ToolCall(_)));
        }
        let calls = reply::tool_calls(&content);
        if calls.is_empty() || stop_reason == StopReason::Refusal {
            let reply = answers::TextReply {
                content,
                text,
                said,
                stop_reason,
                limit,
                count,
            };
            return self.answered(reply).await;
        }
        self.cut.clear();
        if calls.iter().all(|call| self.tools.is_broken(call)) {
            self.broken += 1;
            self.check_broken(stop_reason, limit)?;
        } else {
            self.broken = 0;
        }
        self.keep(content, count, false).await?;
        self.call_tools(OpenCalls::new(calls)).await
    }

    /// The pieces of a reply as they enter the run.
    fn tidied(&self, content: Vec<Content>, stop_reason: StopReason) -> Vec<Content> {
        let rules = reply::ReplyRules {
            redactor: &self.spec.redactor,
            is_bound: self.caller.model.binds_thinking(),
            call_ids: self.conversation.call_ids(),
            name_of_call: &|name| self.tools.name_of_call(name),
        };
        rules.tidied(content, stop_reason)
    }

    /// Records the thinking and the answer in a reply's `text`, and the thinking that the provider returns. Returns the answer.
    async fn record_said(&self, thinking: String, text: &str) -> Result<String, Stop> {
        let step = self.step;
        let split = self.tags.split(text);
        let shown = self.spec.redactor.redact_owned(text::clean(thinking));
        let thinking = [shown.trim(), split.thinking].join("\n\n");
        if !thinking.trim().is_empty() {
            let text = text::head(thinking.trim(), OUTPUT_BYTES).to_owned();
            self.sink
                .record(EventType::ThinkingSummary { text, step })
                .await?;
        }
        if !split.answer.is_empty() {
            let text = text::head(split.answer, OUTPUT_BYTES).to_owned();
            self.sink.record(EventType::Message { text, step }).await?;
        }
        Ok(split.answer.to_owned())
    }

    /// Whether the model has called tools when it was asked for its answer, which some servers allow, and was refused. The next
    /// time its calls are dropped.
    fn has_refused_calls(&self) -> bool {
        match self.conversation.turns().last() {
            Some(Turn::ToolResults(results)) => results.iter().any(|result| is_refused(&result.content)),
            Some(Turn::Assistant(_) | Turn::User(_)) | None => false,
        }
    }

    /// Refuses the calls of a model that was asked for its answer.
    async fn refuse_calls(&mut self, open: OpenCalls) -> Result<Vec<ToolResult>, Stop> {
        let mut results = Vec::with_capacity(open.calls.len());
        for (call, state) in std::iter::zip(open.calls, open.states) {
            if let CallState::Ended(result) = state {
                results.push(result);
                continue;
            }
            let result = ToolResult {
                id: call.id,
                name: call.name,
                content: ToolContent::Text(CALL_REFUSED.to_owned()),
                is_error: true,
                note: None,
            };
            self.journal_writer
                .write(self.step, What::Result(result.clone()))
                .await?;
            results.push(result);
        }
        Ok(results)
    }

    /// Keeps the model's message; `is_cut` for a part of an answer that was cut off.
    async fn keep(&mut self, content: Vec<Content>, count: Count, is_cut: bool) -> Result<(), Stop> {
        if let Some(began) = self.began.take() {
            self.journal_writer.write(self.step, began).await?;
        }
        self.conversation.push_reply(content.clone());
        let reply = What::Reply {
            content,
            count: Some(count),
            is_cut,
        };
        self.journal_writer.write(self.step, reply).await?;
        Ok(())
    }

    /// Continues the run with another model.
    fn go_on_with(&mut self, model: &'a dyn Model) {
        self.caller.model = model;
        self.caller.has_fallback = false;
        self.caller.window.replace(model);
        self.tools.context.model = Some(model);
        self.tools.context.output_bytes = model.tool_output_bytes();
    }

    /// Sends the model a correction of its answer.
    async fn correct(&mut self, text: String) -> Result<Progress, Stop> {
        let correction = What::Correction { text: text.clone() };
        self.journal_writer.write(self.step, correction).await?;
        self.conversation.push_message(text);
        Ok(Progress::GoOn)
    }

    async fn call_tools(&mut self, open: OpenCalls) -> Result<Progress, Stop> {
        let results = if self.is_ending() {
            self.refuse_calls(open).await?
        } else {
            let share = self.share(open.calls.len());
            self.tools.run(self.step, open, share).await?
        };
        if self.conversation.did(results) {
            self.caller
                .window
                .counts
                .outputs_dropped(self.conversation.outputs());
            if self.caller.model.binds_thinking() {
                self.drop_thinking().await?;
            }
        }
        Ok(Progress::GoOn)
    }

    /// The share of each output of a turn with so many calls: all together a quarter of the window's room, and at most a quarter
    /// of the input that the budget can pay for.
    fn share(&self, calls: usize) -> Share {
        const LEAST_BYTES: usize = 2 * 1024;
        const LEAST_OF_ONE: usize = 128;
        let calls = calls.max(1);
        let (window, fixed) = (&self.caller.window, self.fixed_tokens());
        let readable = self.caller.readable(self.conversation.turns()) / 4 / calls as u64;
        let room = window.room_beside(fixed).unwrap_or(u64::MAX) / 4 / calls as u64;
        let least = (LEAST_BYTES / calls).max(LEAST_OF_ONE);
        let bytes = usize::try_from(readable).unwrap_or(usize::MAX).max(least);
        Share {
            bytes: window.output_share(fixed, calls).min(bytes),
            media_tokens: readable.min(room),
        }
    }

    /// Ends a run with a model that repeatedly fails to make a valid call. Calls that the budget cuts off lead to the answer.
    fn check_broken(&mut self, stop_reason: StopReason, limit: Limit) -> Result<(), Stop> {
        if self.broken <= BROKEN_TURNS {
            return Ok(());
        }
        if stop_reason == StopReason::MaxTokens && limit.cut == Cut::Shortened {
            self.answer_wanted = Some(AnswerReason::Budget);
            return Ok(());
        }
        Err(Stop::Failed(format!(
            "the model wrote no tool call that could be made, {} times in a row",
            self.broken
        )))
    }
}

fn is_refused(content: &ToolContent) -> bool {
    matches!(content, ToolContent::Text(text) if text == CALL_REFUSED)
}
