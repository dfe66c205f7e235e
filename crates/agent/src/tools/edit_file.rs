//! `edit_file`: one piece of a text file replaced by another.
//!
//! The old text is looked for in passes, each of which leaves more aside: nothing, white space at the ends of lines,
//! indentation, typography, runs of blank lines; then the same without what models put around a piece that they copy. The
//! first pass that finds it decides: at one place it is replaced, at several nothing is changed. Parts of the new text that
//! are as in the old one stay as the file has them.

mod folded;
mod lines;
mod near;
mod variants;

use std::{fmt::Write as _, ops::Range};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::FileError;

use self::{
    folded::{Fold, Folded},
    lines::{Leniency, Place, places},
    near::{LINE_BYTES, closest},
    variants::variants,
};
use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
};
use crate::{content::ToolContent, model::ToolDefinition, text};

/// The largest file that is edited, in bytes.
const FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Lines that are shown before and behind a change.
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
    /// Where and how it was changed; `None` for a file that was created.
    how: Option<String>,
}

/// The change of a file, `None` where there is none yet, or why nothing is changed.
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
    for variant in variants(old_text, new_text) {
        for pass in PASSES {
            let places = pass.places(content, &variant.old, &variant.new);
            if places.is_empty() {
                continue;
            }
            let numbers = lines_at(content, places.iter().map(|place| place.at.start));
            if places.len() > 1 && !replace_all {
                return Err(format!(
                    "old_text occurs {} times{}, at {}; take in more lines around the one you mean, or set replace_all",
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

/// One way to look for the old text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Folded(Fold),
    Lines(Leniency),
}

/// In this order, each leaves more aside.
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
    fn places(self, content: &str, old: &str, new: &str) -> Vec<Place> {
        match self {
            Self::Folded(fold) => folded_places(content, old, new, fold),
            Self::Lines(leniency) => places(content, old, new, leniency),
        }
    }

    /// What was left aside; empty where that does not matter.
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

/// All places of `old`, also those that overlap.
fn folded_places(content: &str, old: &str, new: &str, fold: Fold) -> Vec<Place> {
    let search = Search {
        content,
        new,
        file: Folded::new(content, fold),
        wanted: Folded::new(old, fold),
        given: Folded::new(new, fold),
        windows: all_windows(content),
    };
    if fold != Fold::Exact && search.wanted.text.trim().is_empty() {
        return Vec::new();
    }
    // White space that was folded away at the end of the old text stands for the end of a line.
    let ends_line = fold >= Fold::LineEnds && old.ends_with([' ', '\t']);
    let found = search.found(ends_line);
    if !found.is_empty() {
        return found.into_iter().map(|here| search.replaced(here)).collect();
    }
    // The file has no line break at its end, and the old text has one.
    match old.strip_suffix('\n') {
        Some(wanted) if !content.ends_with('\n') && !wanted.trim().is_empty() => {
            let wanted = wanted.strip_suffix('\r').unwrap_or(wanted);
            let new = new.strip_suffix('\n').unwrap_or(new);
            let mut places = folded_places(content, wanted, new, fold);
            places.retain(|place| place.at.end == content.len());
            places
        }
        Some(_) | None => Vec::new(),
    }
}

/// One folded search.
struct Search<'t> {
    content: &'t str,
    new: &'t str,
    file: Folded,
    wanted: Folded,
    given: Folded,
    /// Whether all line breaks of the file are those of Windows.
    windows: bool,
}

impl Search<'_> {
    /// The places of the old text in the folded file, also those that overlap.
    fn found(&self, ends_line: bool) -> Vec<Range<usize>> {
        let (file, wanted) = (&self.file, self.wanted.text.as_str());
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = file.text.get(from..).and_then(|rest| rest.find(wanted)) {
            let begin = from + at;
            let end = begin + wanted.len();
            let behind = file.text.get(end..).unwrap_or_default();
            let whole = file.begins_at(begin) && file.begins_at(end);
            if whole && (!ends_line || behind.is_empty() || behind.starts_with('\n')) {
                found.push(begin..end);
            }
            let next = file.text.get(begin..).and_then(|rest| rest.chars().next());
            from = begin + next.map_or(1, char::len_utf8);
        }
        found
    }

    /// The text for one place: what the new text has as the old one stays as the file has it.
    fn replaced(&self, here: Range<usize>) -> Place {
        let Self { content, file, .. } = self;
        // White space that was folded away at the end of a line goes with a change before it.
        let end_of = |end: usize| {
            let at = file.source(end..end).end;
            let rest = content.get(at..).unwrap_or_default();
            match file.text.get(end..).unwrap_or_default().as_bytes().first() {
                Some(b'\n') if !file.is_exact() => {
                    at + rest.len() - rest.trim_start_matches([' ', '\t']).len()
                }
                Some(_) | None => at,
            }
        };
        let at = file.source(here.clone()).start..end_of(here.end);
        let windows = self.windows || content.get(at.clone()).is_some_and(|here| here.contains("\r\n"));
        let (before, behind) = if file.is_exact() {
            (0, 0)
        } else {
            self.common(&here)
        };
        let changed = file.source(here.start + before..here.end).start..end_of(here.end - behind);
        let middle = self.given.source(before..self.given.text.len() - behind);
        let middle = self.new.get(middle).unwrap_or_default();
        let mut with = content
            .get(at.start..changed.start)
            .unwrap_or_default()
            .to_owned();
        if windows {
            with.push_str(&middle.replace("\r\n", "\n").replace('\n', "\r\n"));
        } else {
            with.push_str(middle);
        }
        with.push_str(content.get(changed.end..at.end).unwrap_or_default());
        Place { at, with: Some(with) }
    }

    /// How many bytes the old and the new text have in common at their beginnings and at their ends. A character that was
    /// folded into several counts whole or not at all.
    fn common(&self, here: &Range<usize>) -> (usize, usize) {
        let (old, new) = (&self.wanted, &self.given);
        let same = |(a, b): (char, char)| (a == b).then(|| a.len_utf8());
        let longest = |lengths: Vec<usize>, whole: &dyn Fn(usize) -> bool| {
            let mut length: usize = lengths.iter().sum();
            for last in lengths.into_iter().rev() {
                if whole(length) {
                    break;
                }
                length -= last;
            }
            length
        };
        let lengths = old.text.chars().zip(new.text.chars()).map_while(same).collect();
        let before = longest(lengths, &|at| {
            old.begins_at(at) && new.begins_at(at) && self.file.begins_at(here.start + at)
        });
        let (old_rest, new_rest) = (
            old.text.get(before..).unwrap_or_default(),
            new.text.get(before..).unwrap_or_default(),
        );
        let lengths = old_rest
            .chars()
            .rev()
            .zip(new_rest.chars().rev())
            .map_while(same)
            .collect();
        let behind = longest(lengths, &|at| {
            old.begins_at(old.text.len() - at)
                && new.begins_at(new.text.len() - at)
                && self.file.begins_at(here.end - at)
        });
        (before, behind)
    }
}

/// Whether all line breaks are those of Windows.
fn all_windows(content: &str) -> bool {
    content.contains("\r\n") && !content.replace("\r\n", "").contains('\n')
}

/// The file with all places replaced.
fn applied(content: &str, places: Vec<Place>, pass: Pass, variant: &'static str) -> Result<Edited, String> {
    let mut out = String::with_capacity(content.len());
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    for Place { at, with } in places {
        // Of places that overlap, the first counts.
        if at.start < from {
            continue;
        }
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

/// The remarks that are not empty, between `before` and `behind`; nothing where all are.
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

/// The numbers, from 1, of the lines at these places, which rise.
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
