//! The forms in which a secret could come back, and their positions in a text.
//!
//! The search covers the secret itself, its base64 at each of the three offsets it can have within a longer one, its hexadecimal
//! and its form encoding; and all of these where the text escapes them, up to twice: in a URL, in JSON, in HTML, wrapped into
//! lines.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use aho_corasick::{
    AhoCorasick, Anchored, BuildError, MatchError,
    automaton::{Automaton, StateID},
    nfa::contiguous::NFA,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::decode::{Decoded, MARKS, Tail, Unit, plain, undone};

/// A secret of fewer bytes is searched for verbatim and not encoded: three bytes or fewer are four characters of base64 or six of
/// hexadecimal, which ordinary text contains by chance.
const ENCODED_FROM_BYTES: usize = 4;

/// Automatons that find every form.
pub(super) struct Forms {
    /// Checks quickly whether there is one.
    quick: AhoCorasick,
    /// Finds the position, byte by byte.
    automaton: NFA,
    start: StateID,
    /// Number of bytes of a form that the automaton has matched in each of its states.
    depth: HashMap<StateID, usize>,
    longest: usize,
}

/// Failure to search for the forms: there are more of them than an automaton takes.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsearchable {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Start(#[from] MatchError),
}

/// Findings in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Ranges of forms, in order, without overlap.
    pub(super) ranges: Vec<Range<usize>>,
    /// Start of a possible beginning of a form at the end of the text; the length of the text if there is none.
    pub(super) open: usize,
}

impl Forms {
    pub(super) fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Result<Self, Unsearchable> {
        let forms: BTreeSet<Vec<u8>> = secrets.into_iter().flat_map(forms).collect();
        let automaton = NFA::new(&forms)?;
        let quick = AhoCorasick::new(&forms)?;
        let start = automaton.start_state(Anchored::No)?;
        let mut depth = HashMap::new();
        for form in &forms {
            let mut state = start;
            for (index, byte) in form.iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, *byte);
                depth.insert(state, index + 1);
            }
        }
        Ok(Self {
            longest: automaton.max_pattern_len().max(1),
            quick,
            automaton,
            start,
            depth,
        })
    }

    /// Finds the forms in `text`.
    pub(super) fn find(&self, text: &str, tail: Tail) -> Found {
        if tail == Tail::Complete && !self.are_in(text.as_bytes()) {
            return Found {
                ranges: Vec::new(),
                open: text.len(),
            };
        }
        let mut ranges = Vec::new();
        let length = text.len();
        let text = text.as_bytes();
        let mut open = self.scan(&mut plain(text), &mut ranges, length);
        let marks = MARKS.iter().copied().filter(|mark| text.contains(mark));
        for mark in marks.clone() {
            let mut once = Decoded::new(plain(text), mark, tail);
            open = open.min(self.scan(&mut once, &mut ranges, length));
            open = open.min(once.open().unwrap_or(open));
            for inner in MARKS {
                let mut twice = Decoded::new(Decoded::new(plain(text), mark, tail), inner, tail);
                open = open.min(self.scan(&mut twice, &mut ranges, length));
                open = open.min(twice.open().unwrap_or(open));
            }
        }
        if marks.clone().next().is_none() && text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            let [any, ..] = MARKS;
            let mut joined = Decoded::new(plain(text), any, tail);
            open = open.min(self.scan(&mut joined, &mut ranges, length));
        }
        let ranges = merged(ranges);
        // A form that overlaps the possible beginning of another is not split.
        while let Some(torn) = ranges.iter().find(|range| range.start < open && open < range.end) {
            open = torn.start;
        }
        Found { ranges, open }
    }

    /// Whether there is a form in `text`.
    fn are_in(&self, text: &[u8]) -> bool {
        let marks = || MARKS.into_iter().filter(|mark| text.contains(mark));
        let once = |mark| {
            let once = undone(text, mark);
            let twice = |inner: &u8| once.contains(inner) && self.quick.is_match(&undone(&once, *inner));
            self.quick.is_match(&once) || MARKS.iter().any(twice)
        };
        let [any, ..] = MARKS;
        self.quick.is_match(text) || marks().any(once) || (marks().next().is_none() && once(any))
    }

    /// Scans one view; returns the start of a possible beginning of a form at its end.
    fn scan(
        &self,
        view: &mut impl Iterator<Item = Unit>,
        ranges: &mut Vec<Range<usize>>,
        length: usize,
    ) -> usize {
        // Start offsets of the last units, as many as the longest form has.
        let mut starts = vec![0; self.longest];
        let began = |starts: &[usize], count: usize, back: usize| {
            let index = count.checked_sub(back).map(|first| first % self.longest);
            index.and_then(|index| starts.get(index)).copied()
        };
        let (mut state, mut count) = (self.start, 0_usize);
        for unit in view {
            if let Some(slot) = starts.get_mut(count % self.longest) {
                *slot = unit.start;
            }
            count += 1;
            state = self.automaton.next_state(Anchored::No, state, unit.byte);
            if self.automaton.is_match(state) {
                let ended = 0..self.automaton.match_len(state);
                let longest = ended
                    .map(|index| {
                        let form = self.automaton.match_pattern(state, index);
                        self.automaton.pattern_len(form)
                    })
                    .max();
                let start = longest.and_then(|longest| began(&starts, count, longest));
                ranges.extend(start.map(|start| start..unit.end));
            }
        }
        self.depth
            .get(&state)
            .and_then(|depth| began(&starts, count, *depth))
            .unwrap_or(length)
    }
}

/// The ranges in order, those that overlap made one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// A secret in all its forms but the escaped ones.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    if secret.is_empty() {
        return Vec::new();
    }
    let mut forms = vec![secret.as_bytes().to_vec()];
    // Views that undo escapes have no line breaks.
    let joined = secret.replace(['\r', '\n'], "");
    if joined.len() >= ENCODED_FROM_BYTES {
        forms.push(joined.replace(' ', "+").into_bytes());
        forms.push(joined.into_bytes());
    }
    if secret.len() >= ENCODED_FROM_BYTES {
        forms.extend((0..3).flat_map(|before| base64_within(secret.as_bytes(), before)));
        forms.push(hex(secret, |byte| format!("{byte:02x}")));
        forms.push(hex(secret, |byte| format!("{byte:02X}")));
    }
    forms
}

/// The characters that encode only `secret` if `before` bytes, up to a multiple of three, precede it.
fn base64_within(secret: &[u8], before: usize) -> [Vec<u8>; 2] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret);
    let own = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
    [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD].map(|alphabet| {
        let whole = alphabet.encode(&bytes);
        whole.as_bytes().get(own.clone()).unwrap_or_default().to_vec()
    })
}

fn hex(secret: &str, byte: impl Fn(u8) -> String) -> Vec<u8> {
    secret.bytes().map(byte).collect::<String>().into_bytes()
}
