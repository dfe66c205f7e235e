//! The offline model `runbook`: no language model, but a deterministic interpreter of the prompt's fenced blocks. It costs
//! nothing and needs no network.
//!
//! The runbook is stateless: the tool results in the transcript determine the next block.

mod parse;

use std::{borrow::Cow, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sortie_api::{limits::OUTPUT_BYTES, model::ModelInfo, model::ModelPrices};
use tokio::time::sleep;

use self::parse::{Piece, Runbook, Step};
use crate::{
    content::ToolContent,
    model::{
        Content, Deltas, Kind, Model, ModelError, Reply, Request, StopReason, ToolCall, ToolResult, Turn,
        Usage,
    },
    text,
};

/// Kept part of a block's output, in bytes: enough for an answer of up to four times the limit.
const KEPT_BYTES: usize = 4 * OUTPUT_BYTES;
/// The longest answer that an `answer` block may make.
const ANSWER_BYTES: usize = 8 * OUTPUT_BYTES;
/// Maximum part of a failed block's output in an error, in bytes.
const QUOTED_BYTES: usize = 500;

/// The offline model `runbook`.
pub fn runbook() -> Arc<dyn Model> {
    Arc::new(Interpreter {
        info: ModelInfo {
            id: "runbook".to_owned(),
            provider: "sortie".to_owned(),
            name: "Runbook (offline)".to_owned(),
            context_window: 1 << 20,
            max_output_tokens: 1 << 20,
            prices: ModelPrices::default(),
            capabilities: vec!["tools".to_owned(), "offline".to_owned()],
        },
    })
}

/// Whether a prompt has a block that the offline model would run or answer with, even one with a mistake.
pub fn is_runbook(prompt: &str) -> bool {
    parse::has_blocks(prompt)
}

struct Interpreter {
    info: ModelInfo,
}

impl Model for Interpreter {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn kind(&self) -> Kind {
        Kind::Program
    }

    fn tool_output_bytes(&self) -> usize {
        KEPT_BYTES
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let (wait, reply) = next(&request).map_err(ModelError::fatal)?;
            if !wait.is_zero() {
                sleep(wait).await;
            }
            if let [Content::Text(text)] = reply.content.as_slice() {
                deltas.text(text);
            }
            Ok(reply)
        })
    }
}

/// Returns the next reply, and the wait before it.
fn next(request: &Request<'_>) -> Result<(Duration, Reply), String> {
    let runbook = Runbook::parse(request.task.prompt)?;
    let outputs: Vec<&ToolResult> = outputs(request.transcript).collect();
    if let Some(failure) = failure(&outputs) {
        return Err(failure);
    }
    let mut wait = Duration::ZERO;
    let mut number = 0;
    for step in &runbook.steps {
        match step {
            Step::Wait(time) if number == outputs.len() => wait += *time,
            Step::Wait(_) => {}
            Step::Command(_) | Step::Tool { .. } if number < outputs.len() => number += 1,
            Step::Command(command) => {
                if request.tools.iter().all(|tool| tool.name != "shell") {
                    let number = number + 1;
                    return Err(format!(
                        "block {number} needs the shell, which is off for this run (shell: false)"
                    ));
                }
                let arguments = serde_json::json!({ "command": command }).to_string();
                return Ok((wait, call(number + 1, "shell", arguments)));
            }
            Step::Tool { name, arguments } => {
                return Ok((wait, call(number + 1, name, arguments.clone().into_owned())));
            }
        }
    }
    // If the answer did not match the output schema and is requested again, return the same one immediately.
    let asked_again = matches!(request.transcript.last(), Some(Turn::User(_)));
    let wait = if asked_again { Duration::ZERO } else { wait };
    Ok((
        wait,
        reply(
            Content::Text(answer(&runbook, request.task.prompt, &outputs)?),
            StopReason::EndTurn,
        ),
    ))
}

fn outputs(transcript: &[Turn]) -> impl Iterator<Item = &ToolResult> {
    transcript.iter().flat_map(|turn| match turn {
        Turn::ToolResults(results) => results.as_slice(),
        Turn::Assistant(_) | Turn::User(_) => &[],
    })
}

/// Returns the reason why the last block failed, if it did.
fn failure(outputs: &[&ToolResult]) -> Option<String> {
    let last = outputs.last().filter(|last| last.is_error)?;
    let (how, quoted) = match &last.content {
        ToolContent::Command(command) => (command.how(), last_line(&command.stderr).to_owned()),
        content @ (ToolContent::Text(_)
        | ToolContent::Media(_)
        | ToolContent::TextWithMedia { .. }
        | ToolContent::Dropped { .. }) => ("failed".to_owned(), content.text().into_owned()),
    };
    let quoted = text::bounded(quoted.trim(), QUOTED_BYTES);
    let colon = if quoted.is_empty() { "" } else { ": " };
    Some(format!("block {} {how}{colon}{quoted}", outputs.len()))
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

fn call(number: usize, name: &str, arguments: String) -> Reply {
    let call = ToolCall {
        id: format!("block_{number}"),
        name: name.to_owned(),
        arguments,
    };
    reply(Content::ToolCall(call), StopReason::ToolUse)
}

fn reply(content: Content, stop_reason: StopReason) -> Reply {
    Reply {
        content: vec![content],
        thinking: String::new(),
        stop_reason,
        usage: Usage::default(),
    }
}

/// The text of the `answer` block, else the last output, else the prompt.
fn answer(runbook: &Runbook<'_>, prompt: &str, outputs: &[&ToolResult]) -> Result<String, String> {
    let Some(pieces) = &runbook.answer else {
        return match outputs.len() {
            0 => Ok(prompt.to_owned()),
            number => output(outputs, number).map(Cow::into_owned),
        };
    };
    let mut answer = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => answer.push_str(text),
            Piece::Output(number) => answer.push_str(&output(outputs, *number)?),
        }
        if answer.len() > ANSWER_BYTES {
            return Err(format!(
                "the answer block makes an answer of more than {ANSWER_BYTES} bytes"
            ));
        }
    }
    Ok(answer)
}

/// Returns the output of block `number`, from 1: for a command its standard output.
fn output<'a>(outputs: &[&'a ToolResult], number: usize) -> Result<Cow<'a, str>, String> {
    let result = number.checked_sub(1).and_then(|index| outputs.get(index));
    match result.map(|result| &result.content) {
        Some(ToolContent::Command(command)) => Ok(Cow::Borrowed(&command.stdout)),
        Some(ToolContent::Text(text) | ToolContent::TextWithMedia { text, .. }) => Ok(Cow::Borrowed(text)),
        Some(ToolContent::Media(media)) => Ok(Cow::Borrowed(&media.label)),
        Some(ToolContent::Dropped { bytes }) => Err(format!(
            "the output of block {number} ({bytes} bytes) was dropped: the outputs are too large"
        )),
        None => Err(format!("block {number} has no output")),
    }
}

#[cfg(test)]
mod tests;
