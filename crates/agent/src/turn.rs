//! The turn loop: a model call, its tool calls, their results, and again, until the model gives its final answer.
//!
//! Everything that happens is recorded before the loop goes on. Nothing here waits without the meter's eye on it, so
//! that a used-up budget ends the run even in the middle of a model call or a tool.

use serde_json::value::RawValue;
use sortie_api::{EventType, limits::OUTPUT_BYTES, model::ModelInfo};
use tokio::sync::Mutex;

use crate::{
    Outcome, RunSpec, Shell, Sink, Stopped, Workspace,
    answer::{Answer, Verdict},
    budget::Cut,
    content::ToolContent,
    meter::Meter,
    model::{Content, Model, StopReason, Task, ToolCall, ToolResult, Turn},
    model_call::Caller,
    schema::Schema,
    text,
    tool::{Context, Files, Tool},
    tool_call::ToolRunner,
    tools,
    workspace::INPUT_FILE,
};

/// `input` that is larger is laid as a file even where the agent has no shell.
const INPUT_FILE_FROM_BYTES: usize = 8 * 1024;
/// Tool outputs that the transcript holds together; the oldest are dropped beyond.
const TRANSCRIPT_BYTES: usize = 32 * 1024 * 1024;

/// How long the reason of a failed run is, in bytes: a provider may send a whole page.
const REASON_BYTES: usize = 4 * 1024;

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
    spec: RunSpec,
    model: &dyn Model,
    workspace: &mut Workspace,
    sink: &dyn Sink,
) -> Outcome {
    let meter = Meter::new(&spec.budget, sink);
    let ended = Box::pin(turns(&spec, model, workspace, sink, &meter)).await;
    meter.tell();
    match ended {
        Ok(output) => Outcome::Succeeded(output),
        Err(stop) => Outcome::Failed(reason(stop, &meter).await),
    }
}

async fn reason(stop: Stop, meter: &Meter<'_>) -> String {
    let why = match stop {
        Stop::Exhausted => "",
        Stop::NoRoom(why) => why,
        Stop::Stopped => return STOPPED.to_owned(),
        Stop::Failed(reason) => return text::clean(text::bounded(&reason, REASON_BYTES).into_owned()),
    };
    meter.reached(why).await.unwrap_or_else(|_| STOPPED.to_owned())
}

const STOPPED: &str = "the run is no longer this worker's";

async fn turns(
    spec: &RunSpec,
    model: &dyn Model,
    workspace: &mut Workspace,
    sink: &dyn Sink,
    meter: &Meter<'_>,
) -> Result<String, Stop> {
    let input_file = input_file(spec, workspace);
    let extra = spec.tools.iter().map(|tool| &**tool as &dyn Tool);
    let toolbox: Vec<&dyn Tool> = tools::toolbox(spec.shell)
        .iter()
        .copied()
        .map(|tool| tool as &dyn Tool)
        .chain(extra)
        .collect();
    let definitions: Vec<_> = toolbox.iter().map(|tool| tool.definition()).collect();
    let workspace = Mutex::new(workspace);
    let context = Context {
        sink,
        output_bytes: model.tool_output_bytes(),
        files: Some(Files {
            workspace: &workspace,
            input_file,
            command_timeout: spec.command_timeout,
        }),
    };
    let tools = ToolRunner {
        toolbox: &toolbox,
        context,
        sink,
        meter,
    };
    let task = Task {
        prompt: &spec.prompt,
        input: spec.input.as_deref(),
        input_file: input_file.map(|_| INPUT_FILE),
        output_schema: spec.output_schema.as_deref().map(Schema::text),
    };
    let caller = Caller {
        model,
        task,
        tools: &definitions,
        sink,
        meter,
    };
    let mut answer = Answer::new(spec.output_schema.clone());
    let mut transcript = Vec::new();
    let mut step = 0;
    loop {
        step += 1;
        let (reply, cut) = caller.call(step, &transcript).await?;
        let said = said(&reply.content);
        if !said.is_empty() {
            let text = text::head(&said, OUTPUT_BYTES).to_owned();
            sink.record(EventType::Message { text, step }).await?;
        }
        let calls = tool_calls(&reply.content);
        let stop_reason = reply.stop_reason;
        transcript.push(Turn::Assistant(reply.content));
        if calls.is_empty() {
            check_whole(stop_reason, cut, model.info())?;
            match answer.judge(said, sink).await? {
                Verdict::Final(output) => return Ok(output),
                Verdict::Again(correction) => transcript.push(Turn::User(correction)),
            }
        } else {
            let results = Box::pin(tools.run(&calls)).await?;
            transcript.push(Turn::ToolResults(results));
            drop_oldest(&mut transcript);
        }
    }
}

/// What is laid as `input.json` once there is a working directory.
fn input_file<'a>(spec: &'a RunSpec, workspace: &Workspace) -> Option<&'a RawValue> {
    let input = spec.input.as_deref()?;
    let wanted = spec.shell == Shell::Allowed || input.get().len() > INPUT_FILE_FROM_BYTES;
    (wanted && workspace.takes_input_file()).then_some(input)
}

/// All text of a reply.
fn said(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|piece| match piece {
        Content::Text(text) => Some(text.as_str()),
        Content::ToolCall(_) | Content::Opaque(_) => None,
    });
    text::clean(texts.collect())
}

fn tool_calls(content: &[Content]) -> Vec<ToolCall> {
    let calls = content.iter().filter_map(|piece| match piece {
        Content::ToolCall(call) => Some(call.clone()),
        Content::Text(_) | Content::Opaque(_) => None,
    });
    calls.collect()
}

/// An answer that was cut off or refused is none.
fn check_whole(stop_reason: StopReason, cut: Cut, model: &ModelInfo) -> Result<(), Stop> {
    match (stop_reason, cut) {
        (StopReason::EndTurn | StopReason::ToolUse, _) => Ok(()),
        (StopReason::MaxTokens, Cut::Shortened) => {
            Err(Stop::NoRoom(", the answer did not fit into what was left"))
        }
        (StopReason::MaxTokens, Cut::Whole) => Err(Stop::Failed(format!(
            "the model's answer was cut off at its limit of {} tokens",
            model.max_output_tokens
        ))),
        (StopReason::Refusal, _) => Err(Stop::Failed("the model refused to answer".to_owned())),
    }
}

/// Bounds what the transcript holds: beyond the limit the oldest tool outputs go.
fn drop_oldest(transcript: &mut [Turn]) {
    let mut held = 0;
    for turn in transcript.iter_mut().rev() {
        let Turn::ToolResults(results) = turn else {
            continue;
        };
        for ToolResult { content, .. } in results.iter_mut().rev() {
            held += content.held_bytes();
            if held > TRANSCRIPT_BYTES {
                *content = ToolContent::Dropped {
                    bytes: content.held_bytes(),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_outputs_are_dropped_when_all_together_are_too_large() {
        let result = |megabytes: usize| ToolResult {
            id: String::new(),
            name: String::new(),
            content: ToolContent::Text("x".repeat(megabytes << 20)),
            is_error: false,
        };
        let mut transcript = vec![
            Turn::ToolResults(vec![result(10), result(10)]),
            Turn::User(String::new()),
            Turn::ToolResults(vec![result(10), result(10)]),
        ];
        drop_oldest(&mut transcript);
        let held: Vec<usize> = transcript
            .iter()
            .flat_map(|turn| match turn {
                Turn::ToolResults(results) => results.iter().map(|r| r.content.held_bytes() >> 20).collect(),
                Turn::Assistant(_) | Turn::User(_) => vec![],
            })
            .collect();
        assert_eq!(held, [0, 10, 10, 10]);
        let Turn::ToolResults(results) = &transcript[0] else {
            panic!()
        };
        assert_eq!(results[0].content, ToolContent::Dropped { bytes: 10 << 20 });
    }
}
