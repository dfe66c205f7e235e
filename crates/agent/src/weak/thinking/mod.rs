//! Splits off thinking between tags at the beginning of an answer, for servers that do not remove it.
//!
//! Some chat templates write the opening tag themselves, so that the answer has only the closing one. Tags that the task itself
//! mentions belong to the answer. Tags are matched without regard to case.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::fence;

/// The closing tag of gpt-oss. Other models end their answers with it, so without an opening tag it ends no thinking.
const END: &str = "<|end|>";
/// Opening and closing tags of chat templates and of prompts. Without a closing one, a tag introduces the answer.
const TAGS: [(&str, &str); 13] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<reason>", "</reason>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", END),
    ("<|start|>assistant", ""),
    ("<|channel|>final<|message|>", ""),
];

/// More bytes than a tag has.
const LONGEST_TAG: usize = 32;
/// Maximum number of blanks before an opening tag, in bytes.
const MOST_HELD: usize = 256;
/// Maximum number of closing tags within sentences; after that, text is not held back.
const TRIES: u32 = 16;

/// The tags that mean thinking in the answers of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    pairs: Vec<(&'static str, &'static str)>,
    /// Whether the model has written a closing tag alone, as it then does each time.
    is_closed_only: Arc<AtomicBool>,
}

/// An answer without its thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split<'t> {
    /// The thinking, without its tags; empty if there is none.
    pub(crate) thinking: &'t str,
    pub(crate) answer: &'t str,
}

impl Tags {
    /// The tags in the answers to `prompt`.
    pub(crate) fn of(prompt: &str) -> Self {
        let named = |tag: &str| find(prompt, tag).is_some();
        let all = TAGS.iter().copied();
        Self {
            pairs: all
                .filter(|(open, close)| !named(open) && !named(close))
                .collect(),
            is_closed_only: Arc::default(),
        }
    }

    /// Separates the thinking at the beginning of `text` from the answer.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Split<'t> {
        let (mut answer, mut from, mut to) = (text, None, 0);
        while let Some((open, close)) = self.opening(answer) {
            let body = answer.trim_start().get(open.len()..).unwrap_or_default();
            if close.is_empty() {
                answer = body.trim_start();
                continue;
            }
            from.get_or_insert(text.len() - body.len());
            if let Some(at) = find(body, close) {
                to = text.len() - body.len() + at;
                answer = body.get(at + close.len()..).unwrap_or_default().trim_start();
                continue;
            }
            // Without a closing tag, an opening tag alone on its line begins thinking; any other one is a word of the answer.
            if body.is_empty() || body.starts_with(['\n', '\r']) {
                to = text.len();
                answer = "";
            } else if to == 0 {
                from = None;
            }
            break;
        }
        if let Some(from) = from {
            return Split {
                thinking: text.get(from..to).unwrap_or_default().trim(),
                answer,
            };
        }
        match self.closing(answer) {
            Some((at, close)) => {
                self.is_closed_only.store(true, Ordering::Relaxed);
                Split {
                    thinking: answer.get(..at).unwrap_or_default().trim(),
                    answer: answer.get(at + close.len()..).unwrap_or_default().trim_start(),
                }
            }
            None => Split { thinking: "", answer },
        }
    }

    /// The pair of tags with the opening tag that begins the text.
    fn opening(&self, text: &str) -> Option<(&'static str, &'static str)> {
        let text = text.trim_start();
        self.pairs.iter().copied().find(|(open, _)| begins(text, open))
    }

    /// Whether the text can still begin with an opening tag, once more of it is there.
    fn may_open(&self, text: &str) -> bool {
        let text = text.trim_start();
        self.pairs.iter().any(|(open, _)| begins(open, text))
    }

    /// The pairs with a closing tag that ends thinking even without the opening one.
    fn lone(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let pairs = self.pairs.iter().copied();
        pairs.filter(|(_, close)| !close.is_empty() && *close != END)
    }

    /// The one closing tag without its opening tag in the text. A tag that is quoted, in code or between the words of a sentence
    /// is a word of the answer.
    fn closing(&self, text: &str) -> Option<(usize, &'static str)> {
        if !self.lone().any(|(_, close)| find(text, close).is_some()) {
            return None;
        }
        let mut found = None;
        for (from, line) in fence::lines_outside(text) {
            if self.pairs.iter().any(|(open, _)| find(line, open).is_some()) {
                return None;
            }
            for (_, close) in self.lone() {
                let (mut ticks, mut counted) = (0, 0);
                for at in places(line, close) {
                    let before = line.get(..at).unwrap_or_default();
                    let behind = line.get(at + close.len()..).unwrap_or_default();
                    ticks += before.get(counted..).unwrap_or_default().matches('`').count();
                    counted = at;
                    if ticks % 2 == 1 || is_quoted(before, behind) {
                        continue;
                    }
                    let rest = text.get(from + at + close.len()..).unwrap_or_default();
                    if found.is_some() || !ends_thinking(before, rest) {
                        return None;
                    }
                    found = Some((from + at, close));
                }
            }
        }
        found
    }
}

/// Whether `text` begins with `tag`, whatever the case of letters.
fn begins(text: &str, tag: &str) -> bool {
    text.get(..tag.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(tag))
}

/// The offsets of `tag` in `text`, whatever the case of letters. No tag begins with a letter.
fn places<'t>(text: &'t str, tag: &'t str) -> impl Iterator<Item = usize> + 't {
    let first = tag.chars().next().unwrap_or_default();
    let found = text.match_indices(first).map(|(at, _)| at);
    found.filter(move |at| begins(text.get(*at..).unwrap_or_default(), tag))
}

/// The first offset of `tag` in `text`, whatever the case of letters.
fn find(text: &str, tag: &str) -> Option<usize> {
    places(text, tag).next()
}

/// Whether a tag between these parts of its line is quoted.
fn is_quoted(before: &str, behind: &str) -> bool {
    before.ends_with(['"', '\'', '\u{201c}', '(']) && behind.starts_with(['"', '\'', '\u{201d}', ')'])
}

/// Whether a tag between the part of its line before it and the `rest` of the text ends the thinking: it begins its line, an
/// empty line follows, or it joins two texts without a blank.
fn ends_thinking(before: &str, rest: &str) -> bool {
    if before.trim().is_empty() {
        return true;
    }
    let is_joined = !before.ends_with(char::is_whitespace);
    match rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n') {
        Some(next) => is_joined || next.trim_start_matches([' ', '\t', '\r']).starts_with('\n'),
        None if rest.trim().is_empty() => true,
        None => is_joined && !rest.starts_with(char::is_whitespace),
    }
}

/// The text of an answer as it is written, without its thinking.
#[derive(Debug, Default)]
pub(crate) struct AnswerText {
    tags: Tags,
    /// Text that was written and is not shown yet.
    held: String,
    /// Whether the answer begins with the next character that is no blank: thinking was before it.
    is_behind: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// An opening tag may still come.
    #[default]
    Before,
    /// The text up to a closing tag is thinking, by what the model has written before. The offset up to which a tag was
    /// looked for, and the number of tags that did not close it.
    Unopened {
        searched: usize,
        tries: u32,
    },
    /// Between the tags. The offset up to which the closing one was looked for.
    Thinking {
        searched: usize,
        close: &'static str,
    },
    Answer,
}

impl AnswerText {
    /// The next answer with thinking between these tags.
    pub(crate) fn new(tags: Tags) -> Self {
        Self {
            state: if tags.is_closed_only.load(Ordering::Relaxed) {
                State::Unopened {
                    searched: 0,
                    tries: 0,
                }
            } else {
                State::Before
            },
            tags,
            held: String::new(),
            is_behind: false,
        }
    }

    /// The part of the answer that `piece` brings.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.state == State::Answer {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        loop {
            if self.is_behind && self.state == State::Before {
                self.held = self.held.trim_start().to_owned();
            }
            self.state = match self.state {
                State::Before => match self.tags.opening(&self.held) {
                    Some((open, "")) => {
                        let behind = self.held.trim_start().get(open.len()..);
                        self.held = behind.unwrap_or_default().to_owned();
                        self.is_behind = true;
                        State::Before
                    }
                    Some((open, close)) => {
                        let white = self.held.len() - self.held.trim_start().len();
                        State::Thinking {
                            searched: white + open.len(),
                            close,
                        }
                    }
                    None if self.held.len() < MOST_HELD && self.tags.may_open(&self.held) => {
                        return String::new();
                    }
                    None => return self.rest(),
                },
                State::Thinking { searched, close } => {
                    let rest = self.held.get(searched..).unwrap_or_default();
                    let Some(at) = find(rest, close) else {
                        let last = self.held.len().saturating_sub(close.len());
                        self.state = State::Thinking {
                            searched: self.held.floor_char_boundary(last).max(searched),
                            close,
                        };
                        return String::new();
                    };
                    let behind = searched + at + close.len();
                    self.held = self.held.get(behind..).unwrap_or_default().to_owned();
                    self.is_behind = true;
                    State::Before
                }
                State::Unopened { .. } if self.tags.opening(&self.held).is_some() => State::Before,
                State::Unopened { searched, tries } => {
                    let rest = self.held.get(searched..).unwrap_or_default();
                    let tags = self.tags.lone();
                    let found = tags.filter_map(|(_, close)| Some((find(rest, close)?, close.len())));
                    let Some((at, length)) = found.min() else {
                        let last = self.held.len().saturating_sub(LONGEST_TAG);
                        self.state = State::Unopened {
                            searched: self.held.floor_char_boundary(last).max(searched),
                            tries,
                        };
                        return String::new();
                    };
                    // The text after a tag decides whether it is a word of a sentence.
                    let behind = rest.get(at + length..).unwrap_or_default();
                    if behind.trim_start().is_empty() {
                        return String::new();
                    }
                    let answer = self.tags.split(&self.held).answer;
                    if answer.len() < self.held.len() {
                        self.held = answer.to_owned();
                        self.is_behind = true;
                        State::Before
                    } else if tries == TRIES {
                        return self.rest();
                    } else {
                        State::Unopened {
                            searched: searched + at + length,
                            tries: tries + 1,
                        }
                    }
                }
                State::Answer => return String::new(),
            };
        }
    }

    /// The end of the answer: the held-back text without thinking.
    pub(crate) fn finish(&mut self) -> String {
        let whole = self.rest();
        self.tags.split(&whole).answer.to_owned()
    }

    fn rest(&mut self) -> String {
        self.state = State::Answer;
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests;
