//! The blocks of a runbook. A runbook with a mistake is refused as a whole, before any block runs.

use std::{borrow::Cow, time::Duration};

use sortie_api::limits::TIMEOUT_SECONDS_MAX;

use crate::fence::{self, Block, End};

/// A prompt read as a runbook.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Runbook<'a> {
    /// Steps, in order.
    pub(super) steps: Vec<Step<'a>>,
    /// The text of the last `answer` block.
    pub(super) answer: Option<Vec<Piece>>,
}

/// Step of a runbook.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// `sh`: a command line for the shell tool.
    Command(Cow<'a, str>),
    /// `tool NAME`: a call of any tool with these arguments.
    Tool {
        /// The tool.
        name: &'a str,
        /// JSON, verbatim.
        arguments: Cow<'a, str>,
    },
    /// `wait MILLISECONDS`.
    Wait(Duration),
}

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text, verbatim.
    Text(String),
    /// The output of this block, from 1.
    Output(usize),
}

impl<'a> Runbook<'a> {
    /// Parses the blocks of `prompt`. Fenced blocks of any other kind are text.
    pub(super) fn parse(prompt: &'a str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut answer = None;
        for block in fence::blocks(prompt) {
            let Some((kind, argument)) = kind_of(&block) else {
                continue;
            };
            let line = block.line;
            if block.end == End::Open {
                return Err(format!("line {line}: the `{kind}` block is not closed"));
            }
            match kind {
                "sh" => steps.push(Step::Command(block.content)),
                "tool" => steps.push(tool(argument, block).map_err(|why| format!("line {line}: {why}"))?),
                "wait" => steps.push(wait(argument, &block).map_err(|why| format!("line {line}: {why}"))?),
                _ => answer = Some((line, block.content)),
            }
        }
        let outputs = steps.iter().filter(|step| !matches!(step, Step::Wait(_))).count();
        let answer = answer
            .map(|(line, text)| pieces(&text, outputs).map_err(|why| format!("line {line}: {why}")))
            .transpose()?;
        Ok(Self { steps, answer })
    }
}

/// Whether a prompt has a block of a runbook.
pub(super) fn has_blocks(prompt: &str) -> bool {
    fence::blocks(prompt).any(|block| kind_of(&block).is_some())
}

/// Returns the kind of a block and its argument. `None` for a block of any other text.
fn kind_of<'a>(block: &Block<'a>) -> Option<(&'a str, Option<&'a str>)> {
    let mut words = block.info.split_whitespace();
    let kind = words.next()?;
    matches!(kind, "sh" | "tool" | "wait" | "answer").then(|| (kind, words.next()))
}

fn tool<'a>(name: Option<&'a str>, block: Block<'a>) -> Result<Step<'a>, String> {
    let name = name.ok_or("a `tool` block names its tool: ```tool NAME")?;
    Ok(Step::Tool {
        name,
        arguments: block.content,
    })
}

/// The milliseconds follow the word or are in the block.
fn wait<'a>(argument: Option<&str>, block: &Block<'_>) -> Result<Step<'a>, String> {
    let number = argument.unwrap_or(block.content.trim());
    let most = u64::from(TIMEOUT_SECONDS_MAX) * 1_000;
    match number.parse::<u64>() {
        Ok(ms) if ms <= most => Ok(Step::Wait(Duration::from_millis(ms))),
        _ => Err(format!(
            "a `wait` block takes milliseconds, from 0 to {most}: ```wait 500"
        )),
    }
}

/// Splits an answer at `{{1}}`, `{{2}}` …, `{{last}}`; other braces are text.
fn pieces(text: &str, outputs: usize) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let (mut rest, mut begun) = (0, 0);
    while let Some((from, to, name)) = placeholder(text, rest) {
        let number = if name == "last" {
            Some(outputs)
        } else {
            name.parse().ok()
        };
        rest = to;
        let Some(number) = number else { continue };
        if number == 0 || number > outputs {
            return Err(format!("{{{{{name}}}}} names no output: there are {outputs}"));
        }
        push_text(&mut pieces, text.get(begun..from));
        pieces.push(Piece::Output(number));
        begun = to;
    }
    push_text(&mut pieces, text.get(begun..));
    Ok(pieces)
}

/// The next `{{name}}` at or after `at` that has a number or `last` as its name: start, end and name.
fn placeholder(text: &str, at: usize) -> Option<(usize, usize, &str)> {
    let mut at = at;
    loop {
        let from = at + text.get(at..)?.find("{{")?;
        let inner = text.get(from + 2..)?;
        let name = inner.split("}}").next().filter(|name| name.len() < inner.len());
        match name {
            Some(name) if name == "last" || is_number(name) => {
                return Some((from, from + name.len() + 4, name));
            }
            Some(_) | None => at = from + 1,
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.len() <= 6 && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn push_text(pieces: &mut Vec<Piece>, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        pieces.push(Piece::Text(text.to_owned()));
    }
}
