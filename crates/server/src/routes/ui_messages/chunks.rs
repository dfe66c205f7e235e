//! Chunks of a UI message stream, made from the recorded events of a run.
//!
//! The chunks of an event depend on this event and on those back to the last model call: a `model_call` closes the step and the
//! tool calls that are open. A reader that continues at an event therefore begins with the last model call before it, and makes
//! the same chunks as a reader that began with the first event.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sortie_api::{Refusal, Run, RunId, RunStatus, event::kind};
use sortie_engine::Delta;

/// Error of a tool call that the next model call finds open. The worker was lost during the call.
const CALL_LOST: &str = "the worker was lost during this call";

/// Error of a tool call that the end of the run finds open.
const CALL_ENDED: &str = "the run ended during this call";

/// Chunk of a UI message stream, version 1. The AI SDK has the names of the fields.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Chunk {
    Start {
        message_id: RunId,
    },
    StartStep,
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        delta: String,
    },
    ReasoningEnd {
        id: String,
    },
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ToolInputAvailable {
        tool_call_id: String,
        tool_name: String,
        input: Box<RawValue>,
        #[serde(flatten)]
        tool: EngineTool,
    },
    ToolOutputAvailable {
        tool_call_id: String,
        output: String,
        #[serde(flatten)]
        tool: EngineTool,
    },
    ToolOutputError {
        tool_call_id: String,
        error_text: String,
        #[serde(flatten)]
        tool: EngineTool,
    },
    FinishStep,
    Abort {
        reason: String,
    },
    Error {
        error_text: String,
    },
    Finish {
        finish_reason: &'static str,
    },
    #[serde(untagged)]
    Data(DataPart),
}

/// Fields of each chunk of a tool call: pages do not know the tools of a run (`dynamic`), and do not execute them.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EngineTool {
    dynamic: bool,
    provider_executed: bool,
}

const ENGINE_TOOL: EngineTool = EngineTool {
    dynamic: true,
    provider_executed: true,
};

/// Part with data of the engine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DataPart {
    #[serde(rename = "type")]
    name: String,
    /// A later part with the same name and ID replaces this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    data: Box<RawValue>,
    /// Whether the page gets the part once and the message does not keep it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    transient: bool,
}

impl Chunk {
    /// A part that the message keeps.
    fn kept(kind: &str, id: String, data: Box<RawValue>) -> Self {
        Self::Data(DataPart {
            name: part_name(kind),
            id: Some(id),
            data,
            transient: false,
        })
    }

    fn transient(kind: &str, data: Box<RawValue>) -> Self {
        Self::Data(DataPart {
            name: part_name(kind),
            id: None,
            data,
            transient: true,
        })
    }

    /// Returns the chunk of a live message.
    pub(super) fn live(delta: &Delta) -> Result<Self, Refusal> {
        let (kind, data) = match delta {
            Delta::ModelStart(start) => ("message_start", raw(start)?),
            Delta::Text(delta) => ("message_delta", raw(delta)?),
            Delta::Output(output) => ("tool_output", raw(output)?),
        };
        Ok(Self::transient(kind, data))
    }
}

/// Name of the part with the data of an event: `data-model-call` for `model_call`.
fn part_name(kind: &str) -> String {
    format!("data-{}", kind.replace('_', "-"))
}

fn raw<T: Serialize>(data: &T) -> Result<Box<RawValue>, Refusal> {
    serde_json::value::to_raw_value(data).map_err(Refusal::internal)
}

/// Reads the data of a recorded event.
fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Refusal> {
    serde_json::from_str(data).map_err(Refusal::internal)
}

/// The message of a run, at an event.
#[derive(Clone, Debug)]
pub(super) struct RunMessage {
    run: RunId,
    has_open_step: bool,
    /// IDs of the tool calls without a result, in order.
    open_calls: Vec<String>,
}

#[derive(Deserialize)]
struct StatusData {
    status: RunStatus,
}

#[derive(Deserialize)]
struct TextData {
    text: String,
    step: u32,
}

#[derive(Deserialize)]
struct ToolStartData {
    tool: String,
    id: String,
    arguments: Box<RawValue>,
}

#[derive(Deserialize)]
struct ToolEndData {
    id: String,
    is_error: bool,
    output: String,
}

#[derive(Deserialize)]
struct ArtifactData {
    path: String,
}

impl RunMessage {
    /// The message before the first event, or after a model call.
    pub(super) const fn new(run: RunId) -> Self {
        Self {
            run,
            has_open_step: false,
            open_calls: Vec::new(),
        }
    }

    /// Returns the chunks of the next recorded event.
    pub(super) fn take(&mut self, seq: i64, kind: &str, data: &str) -> Result<Vec<Chunk>, Refusal> {
        let mut chunks = Vec::new();
        if seq == 1 {
            chunks.push(Chunk::Start { message_id: self.run });
        }
        match kind {
            kind::STATUS => {
                let StatusData { status } = read(data)?;
                if status.is_final() {
                    self.close(CALL_ENDED, &mut chunks);
                }
                chunks.push(Chunk::kept(kind, kind.to_owned(), read(data)?));
            }
            kind::MODEL_CALL => {
                self.close(CALL_LOST, &mut chunks);
                chunks.push(Chunk::transient(kind, read(data)?));
            }
            kind::THINKING_SUMMARY => {
                let TextData { text: delta, step } = read(data)?;
                let id = format!("reasoning-{step}");
                self.open_step(&mut chunks);
                chunks.extend([
                    Chunk::ReasoningStart { id: id.clone() },
                    Chunk::ReasoningDelta {
                        id: id.clone(),
                        delta,
                    },
                    Chunk::ReasoningEnd { id },
                ]);
            }
            kind::MESSAGE => {
                let TextData { text: delta, step } = read(data)?;
                let id = format!("text-{step}");
                self.open_step(&mut chunks);
                chunks.extend([
                    Chunk::TextStart { id: id.clone() },
                    Chunk::TextDelta {
                        id: id.clone(),
                        delta,
                    },
                    Chunk::TextEnd { id },
                ]);
            }
            kind::TOOL_START => self.start_call(read(data)?, &mut chunks),
            kind::TOOL_END => self.end_call(read(data)?, &mut chunks),
            kind::ARTIFACT => {
                let ArtifactData { path } = read(data)?;
                chunks.push(Chunk::kept(kind, path, read(data)?));
            }
            _ => chunks.push(Chunk::transient(kind, read(data)?)),
        }
        Ok(chunks)
    }

    /// Returns the last chunks of a run that has ended.
    pub(super) fn finish(mut run: Run) -> Result<Vec<Chunk>, Refusal> {
        // The message has it as text.
        run.output = None;
        let mut chunks = vec![Chunk::kept("run", "run".to_owned(), raw(&run)?)];
        let status = run.status;
        let reason = run.error.unwrap_or_else(|| status.as_str().replace('_', " "));
        let finish_reason = match status {
            RunStatus::Succeeded => "stop",
            RunStatus::Cancelled => {
                chunks.push(Chunk::Abort { reason });
                "other"
            }
            RunStatus::Failed
            | RunStatus::TimedOut
            | RunStatus::Interrupted
            | RunStatus::Reserving
            | RunStatus::Queued
            | RunStatus::Starting
            | RunStatus::Running => {
                chunks.push(Chunk::Error { error_text: reason });
                "error"
            }
        };
        chunks.push(Chunk::Finish { finish_reason });
        Ok(chunks)
    }

    fn open_step(&mut self, chunks: &mut Vec<Chunk>) {
        if !self.has_open_step {
            self.has_open_step = true;
            chunks.push(Chunk::StartStep);
        }
    }

    fn start_call(&mut self, start: ToolStartData, chunks: &mut Vec<Chunk>) {
        let ToolStartData { tool, id, arguments } = start;
        self.open_step(chunks);
        // A run that is resumed may start a call again.
        if !self.open_calls.contains(&id) {
            self.open_calls.push(id.clone());
        }
        chunks.push(Chunk::ToolInputAvailable {
            tool_call_id: id,
            tool_name: tool,
            input: arguments,
            tool: ENGINE_TOOL,
        });
    }

    fn end_call(&mut self, end: ToolEndData, chunks: &mut Vec<Chunk>) {
        let ToolEndData { id, is_error, output } = end;
        // Calls that a cancelled run pays for are recorded after its end, in part without their start.
        let Some(position) = self.open_calls.iter().position(|open| *open == id) else {
            return;
        };
        self.open_calls.remove(position);
        chunks.push(if is_error {
            failed_call(id, output)
        } else {
            Chunk::ToolOutputAvailable {
                tool_call_id: id,
                output,
                tool: ENGINE_TOOL,
            }
        });
    }

    /// Closes the open tool calls and the open step.
    fn close(&mut self, why: &str, chunks: &mut Vec<Chunk>) {
        let open = self.open_calls.drain(..);
        chunks.extend(open.map(|id| failed_call(id, why.to_owned())));
        if std::mem::take(&mut self.has_open_step) {
            chunks.push(Chunk::FinishStep);
        }
    }
}

fn failed_call(tool_call_id: String, error_text: String) -> Chunk {
    Chunk::ToolOutputError {
        tool_call_id,
        error_text,
        tool: ENGINE_TOOL,
    }
}

#[cfg(test)]
mod tests;
