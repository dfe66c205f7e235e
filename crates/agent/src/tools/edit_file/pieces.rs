//! Finds pieces of text in folded texts, and replaces them while unchanged parts keep the form that they have in the file.

use std::ops::Range;

use super::{
    folded::{Fold, Folded},
    replacement::{self, MOST, Replacement, Wanted},
};

/// Finds the places of `old` in `content`.
pub(super) fn places(
    content: &str,
    (old, new): (&str, &str),
    fold: Fold,
    wanted: Wanted,
) -> Result<Vec<Replacement>, String> {
    let search = Search {
        content,
        new,
        file: Folded::new(content, fold),
        wanted: Folded::new(old, fold),
        given: Folded::new(new, fold),
        windows: all_windows(content),
    };
    if fold != Fold::Exact && search.wanted.text.trim().is_empty() {
        return Ok(Vec::new());
    }
    // White space that was folded away at the end of the old text matches the end of a line.
    let ends_line = fold >= Fold::LineEnds && old.ends_with([' ', '\t']);
    let found = search.found(ends_line, wanted);
    if !found.is_empty() {
        let at = |here: &Range<usize>| search.file.source(here.clone());
        return replacement::filled(&found, wanted, at, |here| search.replaced(here.clone()));
    }
    // The file has no line break at its end, but the old text has one.
    match old.strip_suffix('\n') {
        Some(old) if !content.ends_with('\n') && !old.trim().is_empty() => {
            let old = old.strip_suffix('\r').unwrap_or(old);
            let new = new.strip_suffix('\n').unwrap_or(new);
            let search = Search {
                new,
                wanted: Folded::new(old, fold),
                given: Folded::new(new, fold),
                ..search
            };
            let end = search.file.text.len();
            let place = end
                .checked_sub(search.wanted.text.len())
                .filter(|begin| {
                    search.file.text.ends_with(&search.wanted.text) && search.file.begins_at(*begin)
                })
                .map(|begin| search.replaced(begin..end));
            Ok(place.into_iter().collect())
        }
        Some(_) | None => Ok(Vec::new()),
    }
}

/// A search in folded texts.
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
    /// The matches of the old text in the folded file. If a single one is wanted, overlapping matches count as well.
    fn found(&self, ends_line: bool, wanted: Wanted) -> Vec<Range<usize>> {
        let (file, old) = (&self.file, self.wanted.text.as_str());
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = file.text.get(from..).and_then(|rest| rest.find(old)) {
            let begin = from + at;
            let end = begin + old.len();
            let behind = file.text.get(end..).unwrap_or_default();
            let whole = file.begins_at(begin) && file.begins_at(end);
            if whole && (!ends_line || behind.is_empty() || behind.starts_with('\n')) {
                found.push(begin..end);
                match wanted {
                    Wanted::Single if found.len() == MOST => break,
                    Wanted::Single => {}
                    Wanted::All => {
                        from = end;
                        continue;
                    }
                }
            }
            let next = file.text.get(begin..).and_then(|rest| rest.chars().next());
            from = begin + next.map_or(1, char::len_utf8);
        }
        found
    }

    /// The replacement for one place: parts that are equal in the old and new text keep the form of the file.
    fn replaced(&self, here: Range<usize>) -> Replacement {
        let Self { content, file, .. } = self;
        // White space that was folded away at the end of a line is removed with a change before it.
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
        Replacement { at, with: Some(with) }
    }

    /// Number of bytes that the old and the new text have in common at their beginnings and at their ends. A character
    /// that was folded into several counts whole or not at all.
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
