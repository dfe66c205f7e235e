//! `edit_file`: one piece of a text file replaced by another.
//!
//! The old text is searched for in passes. The first is exact. The others ignore white space at the ends of lines, then
//! indentation, typography and runs of blank lines. After that the passes are tried without line numbers, fences, doubled escapes
//! and character references of HTML, which models copy along. The first pass that finds the text decides: a single match is
//! replaced, several matches change nothing. Parts of the new text that are equal to the old one keep the form that they have in
//! the file.

mod folded;
mod lines;
mod near;
mod pieces;
mod replacement;
mod variants;

use std::{fmt::Write as _, ops::Range};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::FileError;

use self::{
    folded::Fold,
    lines::Leniency,
    near::{LINE_BYTES, closest},
    replacement::{MOST, Replacement, Wanted},
    variants::variants,
};
use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
};
use crate::{content::ToolContent, model::ToolDefinition, text};

/// The largest file that is edited, in bytes.
const FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Lines that are shown before and after a change.
const LINES_AROUND: usize = 4;
/// Lines that are shown of a change, at each of its ends.
const LINES_SHOWN: usize = 8;

pub(super) struct EditFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFile {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "edit_file",
            description: "Replaces a piece of text in a file of the working directory. Copy old_text from the file, \
                          whole lines without line numbers, and as many as make it unique, unless replace_all is set. \
                          An empty old_text creates a file. The answer shows the lines around the change.",
            parameters: concat!(
                r#"{"type":"object","properties":{"path":{"type":"string"},"#,
                r#""old_text":{"type":"string","description":"Text to replace, as in the file."},"#,
                r#""new_text":{"type":"string","description":"Text that takes its place."},"#,
                r#""replace_all":{"type":"boolean","description":"Replace every occurrence."}},"#,
                r#""required":["path","old_text","new_text"],"additionalProperties":false}"#
            ),
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Directory
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = arguments_of(&self.definition(), &raw)?;
            with_files(context, move |files| edit(files, &arguments)).await
        })
    }
}

fn edit(files: &RunFiles<'_>, arguments: &Arguments) -> Result<ToolContent, ToolError> {
    let path = files.file(&arguments.path)?;
    let told = |what: String| ToolError::ToModel(format!("{path}: {what}; nothing was changed"));
    let content = match files.workdir.read(&path, FILE_BYTES) {
        Err(FileError::NotFound) if arguments.old_text.is_empty() => None,
        read => Some(read.map_err(|error| files.about(&path, &error))?),
    };
    let content = content
        .map(String::from_utf8)
        .transpose()
        .map_err(|_| told("not UTF-8 text".to_owned()))?;
    let Edited { content, how } = edited(content.as_deref(), arguments).map_err(told)?;
    files
        .workdir
        .write(&path, content.as_bytes())
        .map_err(|error| files.about(&path, &error))?;
    Ok(ToolContent::Text(match how {
        None => format!("created {path} ({} bytes)", content.len()),
        Some(how) => format!("edited {path} {how}"),
    }))
}

/// A file after its change.
#[derive(Debug, PartialEq, Eq)]
struct Edited {
    content: String,
    /// Lines of the change and the pass that found it; `None` for a file that was created.
    how: Option<String>,
}

/// The change of a file (`None` if it does not exist yet), or the reason why nothing is changed.
fn edited(content: Option<&str>, arguments: &Arguments) -> Result<Edited, String> {
    let Arguments {
        old_text,
        new_text,
        replace_all,
        ..
    } = arguments;
    if old_text.is_empty() {
        return if content.is_none_or(|content| content.trim().is_empty()) {
            Ok(Edited {
                content: new_text.clone(),
                how: None,
            })
        } else {
            Err(
                "old_text is empty and the file is not: name a piece of it, or replace the whole with \
                 write_file"
                    .to_owned(),
            )
        };
    }
    if old_text == new_text {
        return Err("old_text and new_text are the same".to_owned());
    }
    let content = content.unwrap_or_default();
    if content.contains('\r') && !content.contains('\n') {
        return edited_between_returns(content, arguments);
    }
    let wanted = if *replace_all { Wanted::All } else { Wanted::Single };
    for variant in variants(old_text, new_text) {
        for pass in PASSES {
            let places = pass.places(content, (&variant.old, &variant.new), wanted)?;
            if places.is_empty() {
                continue;
            }
            let numbers = lines_at(content, places.iter().map(|place| place.at.start));
            if places.len() > 1 && wanted == Wanted::Single {
                let more = if places.len() == MOST { "at least " } else { "" };
                return Err(format!(
                    "old_text occurs {more}{} times{}, at {}; take in more lines around the one you mean, or set \
                     replace_all",
                    places.len(),
                    remark(" (", &[variant.remark, pass.remark()], ")"),
                    named(&numbers)
                ));
            }
            return applied(content, places, pass, variant.remark);
        }
    }
    let there = lines_at(
        content,
        content.match_indices(new_text.as_str()).map(|(at, _)| at),
    );
    if new_text.trim().len() > 8
        && let [line] = there[..]
    {
        return Err(format!(
            "old_text does not occur, and new_text is there already, at line {line}"
        ));
    }
    Err(format!("old_text does not occur{}", closest(content, old_text)))
}

/// The change of a file with `\r` alone as its line ending. These are invisible in a text that is shown.
fn edited_between_returns(content: &str, arguments: &Arguments) -> Result<Edited, String> {
    let with_newlines = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");
    let arguments = Arguments {
        path: arguments.path.clone(),
        old_text: with_newlines(&arguments.old_text),
        new_text: with_newlines(&arguments.new_text),
        replace_all: arguments.replace_all,
    };
    let edited = edited(Some(&with_newlines(content)), &arguments)?;
    Ok(Edited {
        content: edited.content.replace('\n', "\r"),
        ..edited
    })
}

/// A way to look for the old text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Folded(Fold),
    Lines(Leniency),
}

/// In this order, each ignores more differences.
const PASSES: [Pass; 7] = [
    Pass::Folded(Fold::Exact),
    Pass::Folded(Fold::LineBreaks),
    Pass::Folded(Fold::LineEnds),
    Pass::Lines(Leniency::Indentation),
    Pass::Folded(Fold::Typography),
    Pass::Lines(Leniency::Typography),
    Pass::Lines(Leniency::BlankLines),
];

impl Pass {
    fn places(self, content: &str, texts: (&str, &str), wanted: Wanted) -> Result<Vec<Replacement>, String> {
        match self {
            Self::Folded(fold) => pieces::places(content, texts, fold, wanted),
            Self::Lines(leniency) => lines::places(content, texts, leniency, wanted),
        }
    }

    /// Ignored differences, for the model; empty if they do not matter.
    fn remark(self) -> &'static str {
        match self {
            Self::Folded(Fold::Exact | Fold::LineBreaks) => "",
            Self::Folded(Fold::LineEnds) => "but for white space at the ends of lines",
            Self::Lines(Leniency::Indentation) => "but for indentation",
            Self::Folded(Fold::Typography) => "but for typographic characters",
            Self::Lines(Leniency::Typography) => "but for indentation and typographic characters",
            Self::Lines(Leniency::BlankLines) => "but for indentation and blank lines",
        }
    }
}

/// Applies the replacements to the file.
fn applied(
    content: &str,
    places: Vec<Replacement>,
    pass: Pass,
    variant: &'static str,
) -> Result<Edited, String> {
    let mut out = String::with_capacity(content.len());
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    for Replacement { at, with } in places {
        let Some(with) = with else {
            let lines = lines_at(content, std::iter::once(at.start));
            return Err(format!(
                "old_text stands at {}, but with another indentation, and that of new_text cannot be told from it: copy \
                 the lines exactly",
                named(&lines)
            ));
        };
        out.push_str(content.get(from..at.start).unwrap_or_default());
        let begun = out.len();
        out.push_str(&with);
        pieces.push(begun..out.len());
        from = at.end;
    }
    out.push_str(content.get(from..).unwrap_or_default());
    if out == content {
        return Err("the file has new_text in this place already".to_owned());
    }
    let numbers = lines_at(&out, pieces.iter().map(|piece| piece.start));
    let mut how = format!("at {}", named(&numbers));
    let left_aside = remark("; old_text was found there ", &[variant, pass.remark()], "");
    how.push_str(&left_aside);
    how.push('\n');
    if let Some(piece) = pieces.first() {
        how.push_str(&around(&out, piece));
    }
    Ok(Edited {
        content: out,
        how: Some(how),
    })
}

/// Joins the non-empty remarks between the two given texts; empty if all are empty.
fn remark(before: &str, remarks: &[&str], behind: &str) -> String {
    let said: Vec<&str> = remarks
        .iter()
        .copied()
        .filter(|remark| !remark.is_empty())
        .collect();
    if said.is_empty() {
        String::new()
    } else {
        format!("{before}{}{behind}", said.join(", "))
    }
}

/// The line numbers, from 1, at these offsets, which are in ascending order.
fn lines_at(content: &str, places: impl Iterator<Item = usize>) -> Vec<usize> {
    let (mut line, mut at) = (1, 0);
    let numbers = places.map(|place| {
        let passed = content.get(at..place).unwrap_or_default();
        line += passed.bytes().filter(|byte| *byte == b'\n').count();
        at = place;
        line
    });
    numbers.collect()
}

fn named(lines: &[usize]) -> String {
    let mut lines = lines.to_vec();
    lines.dedup();
    let shown: Vec<String> = lines.iter().take(20).map(usize::to_string).collect();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    let more = if lines.len() > shown.len() { " …" } else { "" };
    format!("{word} {}{more}", shown.join(", "))
}

/// The lines of a change and those around it, with their numbers.
fn around(content: &str, piece: &Range<usize>) -> String {
    let line_of = |at: usize| content.get(..at).unwrap_or_default().matches('\n').count();
    let first = line_of(piece.start);
    let last = line_of(piece.end.max(piece.start + 1) - 1);
    let (from, to) = (first.saturating_sub(LINES_AROUND), last + LINES_AROUND);
    let hidden = first + LINES_SHOWN..(last + 1).saturating_sub(LINES_SHOWN);
    let mut out = String::new();
    for (index, line) in content.lines().enumerate().skip(from).take(to + 1 - from) {
        if hidden.contains(&index) {
            if index == hidden.start {
                let _ = writeln!(out, "[{} more lines of new_text]", hidden.len());
            }
            continue;
        }
        let shown = text::head(line, LINE_BYTES);
        let more = if shown.len() < line.len() { "…" } else { "" };
        let _ = writeln!(out, "{}{shown}{more}", text::line_number(index + 1));
    }
    out
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
