//! How much of the model's window a conversation takes: estimated from its bytes, and corrected by what the provider
//! counted in the call before. The same counts bound what the next call can read at most.

use serde::{Deserialize, Serialize};

use crate::model::{Content, Kind, Model, Reply, Request};

/// Bytes of ordinary text that two tokens stand for, in the estimate before anything was counted: 3.5 for one.
const BYTES_PER_TWO_TOKENS: u64 = 7;
/// The most bytes that one token can stand for. A provider that counts fewer tokens has left something out, as some
/// do with what they have cached.
const MOST_BYTES_PER_TOKEN: u64 = 12;
/// The least answer that is asked for, in tokens: where the estimate leaves less, nothing is sent.
const LEAST_OUTPUT_TOKENS: u64 = 1_024;
/// Margin on what the provider counted for an identical prefix: one part in this many, and [`MARGIN_TOKENS`].
const MARGIN_PART: u64 = 50;
/// The fixed part of the margin, in tokens: for what a provider adds with another `tool_choice`.
const MARGIN_TOKENS: u64 = 64;

/// Tokens that a provider counts beyond the text, at most.
const FRAME_TOKENS: u64 = 4_096;

/// The window of a run's model.
#[derive(Debug)]
pub(crate) struct Window {
    /// Tokens of a request and its answer together; `None` where the model has no such limit.
    tokens: Option<u64>,
    most_output: u64,
    /// The last count: so many tokens for so many bytes.
    counted: Option<(u64, u64)>,
    /// Counts of the requests whose turns stand at the beginning of the conversation, the longest last.
    counts: Vec<Count>,
}

/// The provider's count of a request and of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Turns of the request's transcript.
    pub(crate) turns: usize,
    /// Tokens of the whole request, cached ones included; `None` where the provider's count cannot be, or no longer holds.
    pub(crate) tokens: Option<u64>,
    /// Tokens of the reply, where it holds thinking: they count again when it is sent back, whatever its bytes.
    pub(crate) hidden: u64,
}

impl Window {
    pub(crate) fn of(model: &dyn Model) -> Self {
        let info = model.info();
        Self {
            tokens: (model.kind() == Kind::Language).then_some(info.context_window),
            most_output: info.max_output_tokens,
            counted: None,
            counts: Vec::new(),
        }
    }

    /// Tokens that a request of so many bytes takes.
    pub(crate) fn estimate(&self, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        match self.counted {
            None => ordinary(bytes),
            Some((tokens, of)) if bytes >= of => tokens + ordinary(bytes - of),
            Some((tokens, of)) => {
                let part = u128::from(tokens) * u128::from(bytes) / u128::from(of);
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        }
    }

    /// Takes over what the provider counted for a request of so many bytes and turns, where that can be.
    pub(crate) fn learn(&mut self, bytes: usize, turns: usize, reply: &Reply) -> Count {
        let (bytes, usage) = (bytes as u64, &reply.usage);
        let tokens = usage
            .input_tokens
            .saturating_add(usage.cache_read_tokens)
            .saturating_add(usage.cache_write_tokens);
        let at_least = bytes / MOST_BYTES_PER_TOKEN;
        if can_be(tokens, bytes) {
            self.counted = Some((tokens, bytes));
        }
        let has_thinking = reply
            .content
            .iter()
            .any(|piece| matches!(piece, Content::Opaque(_)));
        let count = Count {
            turns,
            // Too high a count does no harm to a bound, unless it is absurd.
            tokens: (at_least..=bytes.saturating_mul(2).saturating_add(FRAME_TOKENS))
                .contains(&tokens)
                .then_some(tokens),
            hidden: if has_thinking { usage.output_tokens } else { 0 },
        };
        self.count(count);
        count
    }

    /// Takes over the counts of an earlier attempt. `counted` are the tokens and the bytes of the longest request that was
    /// counted.
    pub(crate) fn recall(&mut self, counts: Vec<Count>, counted: Option<(u64, u64)>) {
        self.counted = counted.filter(|(tokens, bytes)| can_be(*tokens, *bytes));
        self.counts = counts;
    }

    /// Takes over a count.
    fn count(&mut self, count: Count) {
        self.counts.retain(|other| other.turns < count.turns);
        self.counts.push(count);
    }

    /// Forgets the counts that turn `index` is part of: it has changed.
    pub(crate) fn changed_from(&mut self, index: usize) {
        for count in self.counts.iter_mut().filter(|count| count.turns > index) {
            count.tokens = None;
        }
    }

    /// Forgets the counts that turn `index` is part of, and the thinking from there on: it was dropped.
    pub(crate) fn thinking_dropped_from(&mut self, index: usize) {
        self.changed_from(index);
        for count in self.counts.iter_mut().filter(|count| count.turns >= index) {
            count.hidden = 0;
        }
    }

    /// Forgets all counts but that of the request without turns: another text stands in the place of the turns.
    pub(crate) fn turns_replaced(&mut self) {
        self.thinking_dropped_from(0);
        self.counts.retain(|count| count.turns == 0);
    }

    /// Forgets everything that was counted: the model is another one.
    pub(crate) fn replace(&mut self, model: &dyn Model) {
        *self = Self::of(model);
    }

    /// The most tokens that the provider can count for this request: its own count of the longest identical prefix with a
    /// margin, and one token for each byte behind it.
    pub(crate) fn most_input(&self, request: &Request<'_>) -> u64 {
        let turns = request.transcript;
        let counts = self.counts.iter().filter(|count| count.turns <= turns.len());
        let known = counts
            .clone()
            .rev()
            .find_map(|count| Some((count.turns, count.tokens?)));
        let (from, known) = match known {
            Some((turns, tokens)) => (turns, with_margin(tokens)),
            None => (0, request.most_fixed_tokens()),
        };
        let hidden = counts.filter(|count| (from..turns.len()).contains(&count.turns));
        let known = hidden.fold(known, |sum, count| sum.saturating_add(count.hidden));
        let new = turns.get(from..).unwrap_or_default();
        new.iter()
            .fold(known, |sum, turn| sum.saturating_add(turn.most_tokens()))
    }

    /// Tokens that the conversation may take beside `fixed` tokens that are sent with every request: the window less the
    /// longest answer, which takes at most half of it.
    pub(crate) fn room_beside(&self, fixed: u64) -> Option<u64> {
        self.tokens.map(|tokens| {
            let left = tokens.saturating_sub(fixed);
            left - self.most_output.min(left / 2)
        })
    }

    /// The window in tokens, where a request of so many tokens leaves no useful answer in it.
    pub(crate) fn exceeded_by(&self, request: u64) -> Option<u64> {
        let least = LEAST_OUTPUT_TOKENS.min(self.most_output);
        self.tokens
            .filter(|tokens| request.saturating_add(least) > *tokens)
    }

    /// The longest answer to a request of so many bytes, in tokens.
    pub(crate) fn most_output(&self, bytes: usize) -> u64 {
        let Some(tokens) = self.tokens else {
            return self.most_output;
        };
        let left = tokens.saturating_sub(self.estimate(bytes));
        self.most_output.min(left.max(LEAST_OUTPUT_TOKENS))
    }

    /// How much of one tool output fits where a turn has so many of them, in bytes: together a quarter of the room
    /// beside `fixed` tokens.
    pub(crate) fn output_share(&self, fixed: u64, calls: usize) -> usize {
        const LEAST_BYTES: usize = 256;
        let Some(room) = self.room_beside(fixed) else {
            return usize::MAX;
        };
        let bytes = usize::try_from(room / 4 * BYTES_PER_TWO_TOKENS / 2).unwrap_or(usize::MAX);
        (bytes / calls.max(1)).max(LEAST_BYTES)
    }
}

/// Whether so many bytes can be so many tokens.
fn can_be(tokens: u64, bytes: u64) -> bool {
    bytes > 0 && (bytes / MOST_BYTES_PER_TOKEN..=bytes).contains(&tokens)
}

fn with_margin(tokens: u64) -> u64 {
    tokens
        .saturating_add(tokens / MARGIN_PART)
        .saturating_add(MARGIN_TOKENS)
}

fn ordinary(bytes: u64) -> u64 {
    bytes.saturating_mul(2).div_ceil(BYTES_PER_TWO_TOKENS)
}

#[cfg(test)]
mod tests;
