//! Runs the tool calls of one turn: in order, read-only ones concurrently; each recorded and journaled before and after.
//!
//! A call with an effect outside of the run begins only once its intent is durable, and one that changes the directory only once
//! the change before it is. The result of a call is redacted and bounded before it is used.

use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use serde_json::value::{RawValue, to_raw_value};
use sortie_api::{
    EventType, Micros,
    event::{TOOL_OUTPUT_BYTES, ToolEnd},
};
use sortie_sandbox::StreamOutput;
use tokio::time::Instant;
use tracing::Instrument;

use crate::{
    Owner, Redactor, Sink,
    compact::{BadObject, compact_object},
    content::{Extent, Kept, ToolContent, View},
    journal::{OpenCall, What},
    journal_writer::JournalWriter,
    meter::{HeldPrice, Meter},
    model::{Kind, ToolCall, ToolResult},
    resume::{CallState, KeptTask, OpenCalls},
    spans,
    stop::{Stop, millis},
    text,
    tool::{
        Begun, Context, Effect, Order, TaskError, Tool, ToolError,
        names::{plain, readings, tool_named},
    },
    workspace::Source,
};

/// Maximum number of concurrent calls.
const SIDE_BY_SIDE: usize = 8;
/// Maximum number of calls per turn: a model that repeats itself may write thousands.
const CALLS: usize = 64;
/// Maximum length of a text that a tool outside of the working directory may return if it is kept, in bytes.
const WHOLE_BYTES: usize = 1024 * 1024;
/// Most bytes of the line that names the file of a whole output.
const KEPT_LINE_BYTES: usize = 512;
/// Minimum part of a failure that the model reads, in bytes, even if its limit for outputs is lower.
const LEAST_FAILURE_BYTES: usize = 2 * 1024;

/// Runs tool calls.
pub(crate) struct ToolRunner<'a> {
    pub(crate) owner: Owner,
    pub(crate) toolbox: &'a [&'a dyn Tool],
    pub(crate) context: Context<'a>,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) meter: &'a Meter<'a>,
    pub(crate) journal_writer: &'a JournalWriter<'a>,
    pub(crate) redactor: &'a Redactor,
}

/// The share of each call of a turn in the amount that the model can read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Bytes of text.
    pub(crate) bytes: usize,
    /// Tokens of a picture or a document.
    pub(crate) media_tokens: u64,
}

/// A call of a turn, with the limits of its result.
#[derive(Clone, Copy)]
struct TurnCall<'c> {
    call: &'c ToolCall,
    /// Number of the call in the turn, from 0.
    index: usize,
    step: u32,
    /// Maximum part of the output that is kept, in bytes.
    output_bytes: usize,
    /// The most tokens that a picture or a document in its result may count for.
    media_tokens: u64,
}

impl<'a> ToolRunner<'a> {
    /// Runs the calls of turn `step` that have no result yet; the results are in the order of the calls. At most `share` of each
    /// output is kept.
    pub(crate) async fn run(
        &self,
        step: u32,
        open: OpenCalls,
        share: Share,
    ) -> Result<Vec<ToolResult>, Stop> {
        let OpenCalls { calls, states } = open;
        let output_bytes = share.bytes.min(self.context.output_bytes);
        let turn_calls: Vec<TurnCall<'_>> = calls
            .iter()
            .enumerate()
            .map(|(index, call)| TurnCall {
                call,
                index,
                step,
                output_bytes,
                media_tokens: share.media_tokens,
            })
            .collect();
        let mut states = states.into_iter();
        let mut results = Vec::with_capacity(calls.len());
        for group in turn_calls.chunk_by(|a, b| self.is_free(a.call) && self.is_free(b.call)) {
            // Boxed with a named type: the compiler does not infer `Send` through a stream of borrowing closures.
            let group: Vec<BoxFuture<'_, _>> = group
                .iter()
                .map(|turn_call| match states.next() {
                    Some(CallState::Ended(result)) => async { Ok(result) }.boxed(),
                    Some(CallState::Task(task)) => self.call(*turn_call, Some(task)).boxed(),
                    Some(CallState::Planned | CallState::Begun(_)) | None => {
                        self.call(*turn_call, None).boxed()
                    }
                })
                .collect();
            let ended = stream::iter(group).buffered(SIDE_BY_SIDE).try_collect::<Vec<_>>();
            results.extend(self.meter.while_funded(ended).await??);
            self.meter.report().await?;
        }
        Ok(results)
    }

    /// Whether a call cannot be made at all: its tool is unknown, or its arguments cannot be read.
    pub(crate) fn is_broken(&self, call: &ToolCall) -> bool {
        self.find(&call.name).is_none() || compact_object(&call.arguments).is_err()
    }

    /// Whether a call may run concurrently with others like it. An unknown tool runs nothing.
    fn is_free(&self, call: &ToolCall) -> bool {
        self.find(&call.name)
            .is_none_or(|tool| tool.order() == Order::SideBySide)
    }

    /// The tool that a call names, even under a name that models know from elsewhere.
    pub(crate) fn find(&self, name: &str) -> Option<&'a dyn Tool> {
        let mut tools = self.toolbox.iter().copied();
        tools.find(|tool| tool.definition().name == name).or_else(|| {
            let meant = tool_named(name)?;
            let mut tools = self.toolbox.iter().copied();
            tools.find(|tool| tool.definition().name == meant)
        })
    }

    /// The name under which a call goes back to the provider: that of the tool that it means, else the original in the letters
    /// that every provider accepts.
    pub(crate) fn name_of_call(&self, name: &str) -> String {
        let tool = readings(name).iter().find_map(|name| self.find(name));
        tool.map_or_else(|| plain(name), |tool| tool.definition().name.to_owned())
    }

    /// Makes a call, or waits for the `task` of a call that an earlier attempt has made.
    async fn call(&self, turn_call: TurnCall<'_>, task: Option<KeptTask>) -> Result<ToolResult, Stop> {
        let TurnCall { call, step, .. } = turn_call;
        let began = Instant::now();
        let tool = self.find(&call.name);
        let known = tool.map(|tool| tool.definition().name);
        let span = spans::tool_call(self.owner, known, &call.id, step);
        let (attempt, held) = async {
            if let Some(task) = task
                && let Some(ended) = self.wait_again(turn_call, task).await?
            {
                return Ok((ended, None));
            }
            self.attempt(turn_call).await
        }
        .instrument(span.clone())
        .await?;
        let error = attempt.as_ref().err();
        let failed = matches!(&attempt, Ok(ToolContent::Command(command)) if !command.succeeded());
        spans::tool_called(&span, error, failed);
        drop(span);
        let (content, is_error, fatal) = match attempt {
            Ok(content) => {
                let content = self.kept(content, turn_call.output_bytes).await;
                (
                    content.shown(
                        self.redactor,
                        turn_call.output_bytes.saturating_add(KEPT_LINE_BYTES),
                    ),
                    failed,
                    None,
                )
            }
            Err(ToolError::ToModel(told) | ToolError::NotSent(told)) => {
                (self.failure(told, turn_call.output_bytes), true, None)
            }
            Err(ToolError::Fatal(why)) => {
                (self.failure(why.clone(), turn_call.output_bytes), true, Some(why))
            }
        };
        self.ended(tool_end(call, &content, is_error, began), held)
            .await?;
        if let Some(why) = fatal {
            return Err(Stop::Failed(why));
        }
        let result = ToolResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content,
            is_error,
            note: None,
        };
        self.journal_writer
            .write(step, What::Result(result.clone()))
            .await?;
        Ok(result)
    }

    /// Records the end of a call, and charges its price at the same moment if it is due.
    async fn ended(&self, end: ToolEnd, held: Option<HeldPrice<'_, '_>>) -> Result<(), Stop> {
        let cost_micros = held.map_or(Micros::ZERO, HeldPrice::settle);
        let event = EventType::ToolEnd(ToolEnd { cost_micros, ..end });
        if cost_micros.is_zero() {
            self.sink.record(event).await?;
        } else {
            self.sink.charged(event);
        }
        Ok(())
    }

    /// Records the start of a call. Returns its arguments.
    async fn started(&self, call: &ToolCall) -> Result<Result<Box<RawValue>, BadObject>, Stop> {
        let arguments = compact_object(&call.arguments);
        let shown = match &arguments {
            Ok(arguments) => arguments.clone(),
            Err(_) => malformed(&call.arguments)?,
        };
        let start = EventType::ToolStart {
            tool: call.name.clone(),
            id: call.id.clone(),
            arguments: shown,
        };
        self.sink.record(start).await?;
        Ok(arguments)
    }

    /// Waits for the task of a call that an earlier attempt has made: that one has recorded the start of the call. `None` if the
    /// task does not tell what became of the call, and the call may be repeated.
    async fn wait_again(
        &self,
        turn_call: TurnCall<'_>,
        KeptTask { id, effect }: KeptTask,
    ) -> Result<Option<Result<ToolContent, ToolError>>, Stop> {
        let TurnCall { call, step, .. } = turn_call;
        let waited = match self.find(&call.name) {
            Some(tool) => tool.wait(id, self.context_of(turn_call, effect)).await,
            None => Err(TaskError::Unknown(self.unknown(&call.name))),
        };
        match waited {
            Ok(content) => Ok(Some(Ok(content))),
            Err(TaskError::Ended(error)) => Ok(Some(Err(error))),
            Err(TaskError::Unknown(_)) if effect.is_outside() => Err(Stop::Uncertain(OpenCall {
                step,
                id: call.id.clone(),
                tool: call.name.clone(),
            })),
            Err(TaskError::Unknown(_)) => Ok(None),
        }
    }

    /// Makes the call, if it is possible and the budget allows it: the intent is written before, and the price is held while it
    /// is under way. Returns the price if it is due.
    async fn attempt<'c>(
        &'c self,
        turn_call: TurnCall<'c>,
    ) -> Result<(Result<ToolContent, ToolError>, Option<HeldPrice<'a, 'c>>), Stop> {
        let TurnCall { call, step, .. } = turn_call;
        let arguments = self.started(call).await?;
        let refused = |why: String| Ok((Err(ToolError::ToModel(why)), None));
        if turn_call.index >= CALLS {
            return refused(format!("not made: at most {CALLS} calls of one message are"));
        }
        let Some(tool) = self.find(&call.name) else {
            return refused(self.unknown(&call.name));
        };
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(why) => return refused(format!("bad arguments: {why}")),
        };
        let price = tool.price();
        let Ok(mut held) = self.meter.hold_price(price, call) else {
            return refused(format!(
                "not made: it costs {price}, and too little of the budget is left"
            ));
        };
        let effect = tool.effect(&arguments);
        let intent = What::Intent {
            id: call.id.clone(),
            tool: call.name.clone(),
            effect,
        };
        self.journal_writer.write(step, intent).await?;
        let changes = effect.touches_directory() && tool.order() == Order::OneByOne;
        if effect.is_outside() {
            self.journal_writer.durable().await?;
        } else if changes {
            self.journal_writer.changes().await?;
        }
        held.begin();
        let called = self.run_call(turn_call, (tool, effect), arguments);
        let ran = if price.is_zero() {
            called.await?
        } else {
            // With its price reserved, the budget lasts less long.
            self.meter.while_funded(called).await??
        };
        let due = if matches!(ran, Err(ToolError::NotSent(_))) {
            held.release();
            None
        } else {
            Some(held)
        };
        if changes {
            self.journal_writer.changed();
        }
        Ok((ran, due))
    }

    /// Runs a call to its end. If a server works on it as a task, the task is durable before the agent waits for it.
    async fn run_call(
        &self,
        turn_call: TurnCall<'_>,
        (tool, effect): (&'a dyn Tool, Effect),
        arguments: Box<RawValue>,
    ) -> Result<Result<ToolContent, ToolError>, Stop> {
        let context = self.context_of(turn_call, effect);
        let task = match tool.begin(arguments, context).await {
            Ok(Begun::Ended(output)) => return Ok(Ok(output)),
            Ok(Begun::Task(task)) => task,
            Err(error) => return Ok(Err(error)),
        };
        let entry = What::CallTask {
            id: turn_call.call.id.clone(),
            task: task.clone(),
        };
        self.journal_writer.write(turn_call.step, entry).await?;
        self.journal_writer.durable().await?;
        Ok(tool.wait(task, context).await.map_err(ToolError::from))
    }

    /// The context of a call with this effect.
    fn context_of(&self, turn_call: TurnCall<'_>, effect: Effect) -> Context<'a> {
        // Output from outside is kept in full in a file if it does not fit into the result.
        let is_kept = !effect.touches_directory() && self.keeps_outputs();
        Context {
            output_bytes: if is_kept {
                turn_call.output_bytes.max(WHOLE_BYTES)
            } else {
                turn_call.output_bytes
            },
            media_tokens: turn_call.media_tokens,
            ..self.context
        }
    }

    /// Whether outputs that do not fit into a result are kept in files: a program cannot use them.
    fn keeps_outputs(&self) -> bool {
        let is_model = self
            .context
            .model
            .is_some_and(|model| model.kind() == Kind::Language);
        is_model && self.context.files.is_some()
    }

    /// Limits the text of a result to so many bytes. Longer text is kept in full, redacted, in a file of the run; the line that
    /// replaces its middle names the file.
    async fn kept(&self, content: ToolContent, limit: usize) -> ToolContent {
        let (text, media) = match content {
            ToolContent::Text(text) if text.len() > limit && self.keeps_outputs() => (text, Vec::new()),
            ToolContent::TextWithMedia { text, media } if text.len() > limit && self.keeps_outputs() => {
                (text, media)
            }
            content @ (ToolContent::Text(_)
            | ToolContent::Command(_)
            | ToolContent::Media(_)
            | ToolContent::TextWithMedia { .. }
            | ToolContent::Dropped { .. }) => return content,
        };
        let text = self.redactor.redact_owned(text);
        let Some(files) = self.context.files.filter(|_| text.len() > limit) else {
            return ToolContent::with_media(text, media);
        };
        let bytes = text.len() as u64;
        let source = Source::Bytes(text.clone().into_bytes());
        let path = files
            .workspace
            .lock()
            .await
            .keep_output("result", source, bytes)
            .await;
        let kept = path.map(|path| Kept {
            path,
            extent: Extent::Whole,
        });
        let stream = StreamOutput {
            total_bytes: bytes,
            total_lines: text.matches('\n').count() as u64,
            head: text.into_bytes(),
            tail: Vec::new(),
        };
        let text = View::of(stream, limit, Some(self.redactor)).text(kept.as_ref());
        ToolContent::with_media(text, media)
    }

    fn failure(&self, told: String, output_bytes: usize) -> ToolContent {
        ToolContent::Text(text::clean(told)).shown(self.redactor, output_bytes.max(LEAST_FAILURE_BYTES))
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.toolbox.iter().map(|tool| tool.definition().name).collect();
        format!("there is no tool `{name}`; there are: {}", names.join(", "))
    }
}

/// Returns the arguments for the event, if they are not a JSON object.
fn malformed(arguments: &str) -> Result<Box<RawValue>, Stop> {
    let shown = serde_json::json!({ "malformed": text::bounded(arguments, TOOL_OUTPUT_BYTES) });
    to_raw_value(&shown).map_err(|error| Stop::Failed(error.to_string()))
}

fn tool_end(call: &ToolCall, content: &ToolContent, is_error: bool, began: Instant) -> ToolEnd {
    let output = content.text();
    ToolEnd {
        tool: call.name.clone(),
        id: call.id.clone(),
        is_error,
        output: text::bounded(&output, TOOL_OUTPUT_BYTES).into_owned(),
        output_bytes: output.len() as u64,
        duration_ms: millis(began.elapsed()),
        cost_micros: Micros::ZERO,
    }
}

#[cfg(test)]
mod tests;
