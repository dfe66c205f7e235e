//! The rules that providers check conversations by, and the way they count tokens. A request that breaks a rule is
//! answered with 400 and the provider's message, and fails the test when its server is dropped.
//!
//! Each rule names its source: a page of the provider's documentation, or a public thread as `owner/repository#number`.
//! A rule that only some servers of a protocol have is checked for all of them, because a client cannot know which one
//! it talks to. [`ChatProvider`](chat::ChatProvider) has the rules that contradict each other or need answers of a
//! certain form.

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
mod pictures;
pub(crate) mod responses;
mod tools;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::{Map, Value};

use crate::turn::Turn;

/// Number of bytes of a request that count as ten tokens.
const BYTES_PER_TEN_TOKENS: u64 = 35;
/// The shortest prefix that a provider caches, in tokens. Real ones differ by model, from 512 to 4,096.
pub(crate) const LEAST_CACHED: u64 = 1_024;
/// Step of the cached prefix at providers without marks, in tokens.
const CACHE_STEP: u64 = 128;
/// Number of earlier requests whose prefixes such a provider has cached.
const CACHED_REQUESTS: usize = 8;
/// The weight of a picture or a document, in bytes: its base64 does not count as text.
const MEDIA_BYTES: usize = 5_250;

/// The state that a server keeps about its conversations.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Broken rules, each with the message of the refusal.
    pub(crate) broken: Vec<String>,
    /// Thinking blocks that were left out because an earlier block had changed.
    pub(crate) dropped: u32,
    /// Provider of Chat Completions. Its own rules are checked as well.
    pub(crate) provider: chat::ChatProvider,
    calls: u64,
    /// Data that has to come back with a call: its id, and the data.
    required: HashMap<String, String>,
    /// Marked prefixes, as hashes.
    marked: HashSet<u64>,
    before: VecDeque<Vec<u8>>,
}

/// An accepted request: its token counts, and the data for the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) counted: Counted,
    /// Notices of blocks that were left out.
    pub(crate) dropped: Vec<Value>,
    /// The signature of a thinking block that answers this request.
    pub(crate) signature: String,
}

/// The tokens of a request. The fields do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) input: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

impl Counted {
    /// The sum of the three.
    pub(crate) fn all(self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// The count for an answer: the scripted one, if there is one.
    pub(crate) fn of(turn: &Turn, seen: &Seen) -> Self {
        turn.usage.map_or(seen.counted, |usage| Self {
            input: usage.input,
            ..Self::default()
        })
    }
}

/// The tokens of an answer.
pub(crate) fn output_tokens(turn: &Turn) -> u64 {
    turn.usage.map_or_else(
        || {
            let calls = turn.tool_calls.iter();
            let calls: usize = calls
                .map(|(name, arguments)| name.len() + arguments.to_string().len())
                .sum();
            let text: usize = turn.text.iter().map(String::len).sum();
            tokens(calls + text + turn.thinking.as_ref().map_or(0, String::len)).max(1)
        },
        |usage| usage.output,
    )
}

pub(crate) fn tokens(bytes: usize) -> u64 {
    (bytes as u64 * 10).div_ceil(BYTES_PER_TEN_TOKENS)
}

impl Rules {
    /// Reserves this many numbers for calls, and returns the first.
    pub(crate) fn number_calls(&mut self, calls: usize) -> u64 {
        let first = self.calls;
        self.calls += calls as u64;
        first
    }

    /// Records data that has to come back with the call of this id.
    pub(crate) fn require(&mut self, id: impl Into<String>, piece: impl Into<String>) {
        self.required.insert(id.into(), piece.into());
    }

    /// Counts a request of a provider that caches automatically.
    fn count(&mut self, parts: &[&Value]) -> Counted {
        let mut bytes = Vec::new();
        for part in parts {
            match part.as_array() {
                Some(items) => items.iter().for_each(|item| append(&mut bytes, item)),
                None => append(&mut bytes, part),
            }
        }
        let common = |before: &Vec<u8>| before.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
        let read = tokens(self.before.iter().map(common).max().unwrap_or(0));
        let cache_read = if read < LEAST_CACHED {
            0
        } else {
            read / CACHE_STEP * CACHE_STEP
        };
        let all = tokens(bytes.len());
        self.before.push_front(bytes);
        self.before.truncate(CACHED_REQUESTS);
        let cache_read = cache_read.min(all);
        Counted {
            input: all - cache_read,
            cache_read,
            cache_write: 0,
        }
    }
}

fn append(bytes: &mut Vec<u8>, value: &Value) {
    bytes.extend_from_slice(plain(value).to_string().as_bytes());
    bytes.push(b'\n');
}

/// The value without cache marks. Each picture and document is replaced by a text of a fixed length.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let fields = object.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(
                fields
                    .map(|(name, value)| (name.clone(), media(name, value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn media(name: &str, value: &Value) -> Value {
    let data = value
        .as_str()
        .filter(|text| (name == "data" && text.len() > 256) || text.starts_with("data:"));
    match data {
        Some(data) => format!("{:0>MEDIA_BYTES$}", hash(&data)).into(),
        None => plain(value),
    }
}

pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The elements of an array; empty if the field is not an array.
pub(crate) fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A text; empty if the field is not a text.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
