//! Matches whole lines regardless of indentation, and indents new lines like those of the file.

use std::collections::HashMap;

use super::{
    folded::plain_line,
    replacement::{self, MOST, Replacement, Wanted},
};

/// Maximum number of lines of the file that are tried as a part of a match.
const ANCHORS: usize = 10_000;

/// Differences that are ignored when lines are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leniency {
    /// Indentation.
    Indentation,
    /// Indentation and typography.
    Typography,
    /// Indentation, typography and the number of consecutive blank lines.
    BlankLines,
}

/// A line, or several blank ones that count as one.
struct Item<'t> {
    /// The lines, without their surroundings.
    lines: &'t [Line<'t>],
    key: String,
}

#[derive(Clone, Copy)]
struct Line<'t> {
    text: &'t str,
    /// First byte of the line in its text.
    at: usize,
}

impl<'t> Line<'t> {
    fn indent(&self) -> &'t str {
        let bare = self.text.trim_start_matches([' ', '\t']);
        self.text.get(..self.text.len() - bare.len()).unwrap_or_default()
    }

    fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Finds the places of the lines of `old` in `content`.
pub(super) fn places(
    content: &str,
    (old, new): (&str, &str),
    leniency: Leniency,
    wanted: Wanted,
) -> Result<Vec<Replacement>, String> {
    let (file, old_lines, new_lines) = (lines_of(content), lines_of(old), lines_of(new));
    let (file, mut old_items) = (items(&file, leniency), items(&old_lines, leniency));
    let mut new_items = items(&new_lines, leniency);
    if leniency == Leniency::BlankLines {
        trim_blank(&mut old_items, &mut new_items);
    }
    let found = found(&file, &old_items, wanted);
    let here = |begin: &usize| file.get(*begin..begin + old_items.len()).unwrap_or_default();
    let at = |begin: &usize| {
        let (first, last) = ends(here(begin));
        first..last
    };
    replacement::filled(&found, wanted, at, |begin| {
        let range = at(begin);
        let rest = content.get(range.end..).unwrap_or_default();
        let line_break = ["\r\n", "\n"]
            .into_iter()
            .find(|line_break| rest.starts_with(line_break));
        // Whole lines: the line break after them stays, unless the lines are removed.
        let takes_break = old.ends_with('\n') && new.is_empty();
        let adds_break = !old.ends_with('\n') && new.ends_with('\n') && leniency != Leniency::BlankLines;
        let taken = line_break.filter(|_| takes_break).map_or(0, str::len);
        let line_break = if content.contains("\r\n") { "\r\n" } else { "\n" };
        let with = replaced(here(begin), &old_items, &new_items).map(|lines| {
            let mut with = lines.join(line_break);
            if adds_break {
                with.push_str(line_break);
            }
            with
        });
        Replacement {
            at: range.start..range.end + taken,
            with,
        }
    })
}

/// The first item of each match of the old items. The search starts at the rarest of the old items.
fn found(file: &[Item<'_>], old: &[Item<'_>], wanted: Wanted) -> Vec<usize> {
    let mut counts: HashMap<&str, usize> = old.iter().map(|item| (item.key.as_str(), 0)).collect();
    for item in file {
        if let Some(count) = counts.get_mut(item.key.as_str()) {
            *count += 1;
        }
    }
    let rarest = old
        .iter()
        .enumerate()
        .filter(|(_, item)| !item.key.is_empty())
        .min_by_key(|(_, item)| counts.get(item.key.as_str()));
    let Some((offset, rarest)) = rarest else {
        return Vec::new();
    };
    let mut found: Vec<usize> = Vec::new();
    let anchors = file
        .iter()
        .enumerate()
        .filter(|(_, item)| item.key == rarest.key)
        .take(ANCHORS);
    for (index, _) in anchors {
        let Some(begin) = index.checked_sub(offset) else {
            continue;
        };
        let overlaps = found.last().is_some_and(|last| begin < last + old.len());
        if wanted == Wanted::All && overlaps {
            continue;
        }
        let here = file.get(begin..begin + old.len()).unwrap_or_default();
        if here.len() == old.len() && here.iter().zip(old).all(|(a, b)| a.key == b.key) {
            found.push(begin);
            if wanted == Wanted::Single && found.len() == MOST {
                break;
            }
        }
    }
    found
}

/// The first byte of some items, and the end of the last.
fn ends(items: &[Item<'_>]) -> (usize, usize) {
    let first = items.first().and_then(|item| item.lines.first());
    let last = items.last().and_then(|item| item.lines.last());
    (first.map_or(0, |line| line.at), last.map_or(0, Line::end))
}

/// The lines of a text without their line breaks. A trailing line break starts no line.
fn lines_of(text: &str) -> Vec<Line<'_>> {
    let mut at = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let begun = at;
            at += line.len();
            let bare = line.strip_suffix('\n').unwrap_or(line);
            Line {
                text: bare.strip_suffix('\r').unwrap_or(bare),
                at: begun,
            }
        })
        .collect()
}

fn items<'t>(lines: &'t [Line<'t>], leniency: Leniency) -> Vec<Item<'t>> {
    let blank = |line: &Line<'_>| line.text.trim().is_empty();
    let one = |a: &Line<'_>, b: &Line<'_>| leniency == Leniency::BlankLines && blank(a) && blank(b);
    lines
        .chunk_by(one)
        .map(|lines| {
            let text = lines.first().map_or("", |line| line.text);
            let key = match leniency {
                Leniency::Indentation => text.trim().to_owned(),
                Leniency::Typography | Leniency::BlankLines => plain_line(text).trim().to_owned(),
            };
            Item { lines, key }
        })
        .collect()
}

/// Removes blank lines from both ends of the old lines, and as many from the new ones.
fn trim_blank(wanted: &mut Vec<Item<'_>>, given: &mut Vec<Item<'_>>) {
    let blank = |item: Option<&Item<'_>>| item.is_some_and(|item| item.key.is_empty());
    if blank(wanted.first()) {
        wanted.remove(0);
        if blank(given.first()) {
            given.remove(0);
        }
    }
    if blank(wanted.last()) {
        wanted.pop();
        if blank(given.last()) {
            given.pop();
        }
    }
}

/// The new lines for one match. Unchanged lines at both ends stay as in the file.
fn replaced(here: &[Item<'_>], old: &[Item<'_>], new: &[Item<'_>]) -> Option<Vec<String>> {
    let same = |a: &Item<'_>, b: &Item<'_>| a.key == b.key && relative(a, old) == relative(b, new);
    let before = old.iter().zip(new).take_while(|(a, b)| same(a, b)).count();
    let most = old.len().min(new.len()) - before;
    let pairs = old.iter().rev().zip(new.iter().rev());
    let behind = pairs.take(most).take_while(|(a, b)| same(a, b)).count();
    let texts = |items: &[Item<'_>]| -> Vec<String> {
        let lines = items.iter().flat_map(|item| item.lines);
        lines.map(|line| line.text.to_owned()).collect()
    };
    let (old_here, file_here) = (
        old.get(before..old.len() - behind)?,
        here.get(before..here.len() - behind)?,
    );
    let new_here = new.get(before..new.len() - behind)?;
    let indents = Indents::of(here, old);
    let mut lines = texts(here.get(..before)?);
    for (index, item) in new_here.iter().enumerate() {
        for line in item.lines {
            if line.text.trim().is_empty() {
                lines.push(String::new());
                continue;
            }
            // A line that replaces one with the same indentation gets the indentation of that line.
            let twin = (old_here.len() == new_here.len())
                .then(|| old_here.get(index).zip(file_here.get(index)))
                .flatten()
                .and_then(|(old, file)| old.lines.first().zip(file.lines.first()))
                .filter(|(old, _)| !old.text.trim().is_empty() && old.indent() == line.indent())
                .map(|(_, file)| file.indent().to_owned());
            let indent = match twin {
                Some(indent) => indent,
                None => indents.of_file(line.indent())?,
            };
            lines.push(indent + line.text.trim_start_matches([' ', '\t']));
        }
    }
    lines.extend(texts(here.get(here.len() - behind..)?));
    Some(lines)
}

/// Indentation of the first line with text, and of this item. If they differ between old and new, the line has moved.
fn relative<'t>(item: &Item<'t>, all: &[Item<'t>]) -> Option<(&'t str, &'t str)> {
    let line = item.lines.first().filter(|line| !line.text.trim().is_empty())?;
    let first = all
        .iter()
        .filter_map(|item| item.lines.first())
        .find(|line| !line.text.trim().is_empty())?;
    Some((first.indent(), line.indent()))
}

/// Translation of the indentation of the old lines to that of the file.
struct Indents<'t> {
    /// Old indentation and that of the file, for each line with text.
    pairs: Vec<(&'t str, &'t str)>,
}

/// Width of a tab if nothing determines it.
const TAB_COLUMNS: i64 = 4;

impl<'t> Indents<'t> {
    fn of(here: &[Item<'t>], old: &[Item<'t>]) -> Self {
        let lines = old.iter().zip(here).filter_map(|(old, file)| {
            let (old, file) = (old.lines.first()?, file.lines.first()?);
            (!old.text.trim().is_empty()).then(|| (old.indent(), file.indent()))
        });
        let mut pairs: Vec<_> = lines.collect();
        pairs.sort_unstable();
        pairs.dedup();
        Self { pairs }
    }

    /// The file's indentation for a new line; `None` if it is ambiguous.
    fn of_file(&self, indent: &str) -> Option<String> {
        let mut known = self.pairs.iter().filter(|(old, _)| *old == indent);
        if let Some((_, file)) = known.next() {
            // Two different answers are ambiguous.
            return known.next().is_none().then(|| (*file).to_owned());
        }
        let kinds = |of: fn(&(&'t str, &'t str)) -> &'t str| kind(self.pairs.iter().map(of));
        let (old_kind, file_kind) = (kinds(|pair| pair.0), kinds(|pair| pair.1));
        // Already indented like the file, unlike the old text.
        if let (Some(Some(old)), Some(Some(file)), Some(Some(own))) =
            (old_kind, file_kind, kind([indent].into_iter()))
            && own == file
            && own != old
        {
            return Some(indent.to_owned());
        }
        self.moved(indent)
            .or_else(|| self.scaled(indent, old_kind?, file_kind?))
    }

    /// Translates if every line of the file is indented by the same amount more, or less.
    fn moved(&self, indent: &str) -> Option<String> {
        let (first_old, first_file) = self.pairs.first()?;
        if self.pairs.len() == 1 && self.differ_in_kind(indent) {
            return None;
        }
        if let Some(more) = first_file.strip_suffix(first_old)
            && self
                .pairs
                .iter()
                .all(|(old, file)| file.strip_prefix(more) == Some(old))
        {
            return Some(format!("{more}{indent}"));
        }
        if let Some(less) = first_old.strip_suffix(first_file)
            && self
                .pairs
                .iter()
                .all(|(old, file)| old.strip_prefix(less) == Some(file))
        {
            return indent.strip_prefix(less).map(str::to_owned);
        }
        None
    }

    /// Whether a single pair does not determine the depth of this indentation in the file, because the characters differ.
    fn differ_in_kind(&self, indent: &str) -> bool {
        let file = self.pairs.iter().map(|(_, file)| *file).chain([indent]);
        kind(file).is_none()
    }

    /// Translates if a level has other characters in the file, or more of them.
    fn scaled(&self, indent: &str, old_kind: Option<char>, file_kind: Option<char>) -> Option<String> {
        let old_kind = match (old_kind, kind([indent].into_iter())?) {
            (Some(old), Some(own)) if old != own => return None,
            (old, own) => old.or(own),
        };
        let length = |indent: &str| i64::try_from(indent.len()).ok();
        let (old_first, file_first) = self.pairs.iter().min_by_key(|(old, _)| old.len())?;
        let (old_last, file_last) = self.pairs.iter().max_by_key(|(old, _)| old.len())?;
        let (from, to) = (length(old_first)?, length(file_first)?);
        let (mut old_step, mut file_step) = (length(old_last)? - from, length(file_last)? - to);
        if old_step == 0 {
            (old_step, file_step) = match (from, to, old_kind, file_kind) {
                (1.., 1.., _, _) => (from, to),
                (_, _, Some(' '), Some('\t')) => (TAB_COLUMNS, 1),
                (_, _, Some('\t'), Some(' ')) => (1, TAB_COLUMNS),
                _ => return None,
            };
        }
        let of_file = |old: i64| {
            let columns = (old - from).checked_mul(file_step)?;
            (columns % old_step == 0).then_some(to + columns / old_step)
        };
        for (old, file) in &self.pairs {
            if of_file(length(old)?)? != length(file)? {
                return None;
            }
        }
        let columns = usize::try_from(of_file(length(indent)?)?).ok()?;
        let c = file_kind.or(old_kind)?;
        Some(std::iter::repeat_n(c, columns).collect())
    }
}

/// The single character that indentations are made of; `Some(None)` if all are empty, `None` if there are two.
#[expect(clippy::option_option, reason = "no character and two are different answers")]
fn kind<'i>(indents: impl Iterator<Item = &'i str>) -> Option<Option<char>> {
    let mut kind = None;
    for c in indents.flat_map(str::chars) {
        match kind {
            None => kind = Some(c),
            Some(known) if known != c => return None,
            Some(_) => {}
        }
    }
    Some(kind)
}
