//! The provider's counts, and the bound on the next call's input that follows from them.
//!
//! A count of a prefix is exact while its turns are unchanged. After removals from it, the count is still an upper bound.

use serde::{Deserialize, Serialize};

use crate::model::{Content, Reply, Request, Turn};

/// Maximum number of bytes per token. A provider that counts fewer tokens has omitted some, as some do with cached ones.
pub(crate) const MOST_BYTES_PER_TOKEN: u64 = 12;
/// Margin on the provider's counts: one part in this many, plus [`MARGIN_TOKENS`].
const MARGIN_PART: u64 = 50;
/// The fixed part of the margin, in tokens: for tokens that a provider adds for a different `tool_choice`.
const MARGIN_TOKENS: u64 = 64;
/// Maximum number of tokens that a provider counts in addition to the text of a small request.
const BEYOND_TOKENS: u64 = 4_096;
/// Maximum number of tokens of the text that replaces a dropped output.
const DROPPED_TOKENS: u64 = 64;

/// A bound above the tokens that a provider can count for a request of so many bytes.
pub(crate) const fn beyond_request(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(BEYOND_TOKENS)
}

/// The provider's count of a request and of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Turns of the request's transcript.
    pub(crate) turns: usize,
    /// Tokens of the whole request, cached ones included; `None` if the provider's count is implausible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
    /// Tokens of the reply, its thinking included; `None` if the provider's count is implausible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<u64>,
}

impl Count {
    /// The plausible counts of a request of so many bytes and turns. Too high a count keeps the bound valid, so only absurd ones
    /// are dropped.
    pub(crate) fn of(bytes: u64, turns: usize, tokens: u64, reply: &Reply) -> Self {
        let can_be = |tokens: u64, bytes: u64| {
            // A count that was clamped is invalid.
            let beyond = beyond_request(bytes);
            (tokens > 0 && (bytes / MOST_BYTES_PER_TOKEN..beyond).contains(&tokens)).then_some(tokens)
        };
        let opaque = reply
            .content
            .iter()
            .any(|piece| matches!(piece, Content::Opaque(_)));
        let text: usize = reply.content.iter().map(visible_bytes).sum();
        let written = reply.usage.output_tokens;
        Self {
            turns,
            tokens: can_be(tokens, bytes),
            // Opaque thinking has no byte count to compare with.
            reply: if opaque && written >= text as u64 / MOST_BYTES_PER_TOKEN {
                Some(written)
            } else {
                can_be(written, text as u64)
            },
        }
    }
}

fn visible_bytes(piece: &Content) -> usize {
    match piece {
        Content::Text(text) => text.len(),
        Content::ToolCall(call) => call.name.len() + call.arguments.len(),
        Content::Opaque(_) => 0,
    }
}

/// Counts of requests that are still prefixes of the conversation, the longest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Vec<Count>);

impl Counts {
    /// Adds a count.
    pub(crate) fn push(&mut self, count: Count) {
        self.0.retain(|other| other.turns < count.turns);
        self.0.push(count);
    }

    /// The longest counted request: its turns and its tokens.
    pub(crate) fn longest(&self) -> Option<(usize, u64)> {
        self.0
            .iter()
            .rev()
            .find_map(|count| Some((count.turns, count.tokens?)))
    }

    /// Accounts for dropped outputs: short texts replace up to `outputs` of them.
    pub(crate) fn outputs_dropped(&mut self, outputs: usize) {
        self.grow((outputs as u64).saturating_mul(DROPPED_TOKENS));
    }

    /// A summary has replaced all turns.
    pub(crate) fn turns_replaced(&mut self) {
        self.0.retain(|count| count.turns == 0);
        for count in &mut self.0 {
            count.reply = None;
        }
    }

    /// The newest reply is sent back with a different text than was counted.
    pub(crate) fn reply_rewritten(&mut self) {
        if let Some(count) = self.0.last_mut() {
            count.reply = None;
        }
    }

    /// The fixed part of the requests has changed; it now has at most so many tokens.
    pub(crate) fn fixed_replaced(&mut self, most: u64) {
        self.grow(most);
    }

    /// Another model takes over. Its tokenizer makes at most twice as many tokens.
    pub(crate) fn model_replaced(&mut self) {
        for count in &mut self.0 {
            count.tokens = count.tokens.map(|tokens| tokens.saturating_mul(2));
            count.reply = count.reply.map(|tokens| tokens.saturating_mul(2));
        }
    }

    fn grow(&mut self, by: u64) {
        for count in &mut self.0 {
            count.tokens = count.tokens.map(|tokens| tokens.saturating_add(by));
        }
    }

    /// The most tokens that the provider can count for this request: its count of the longest prefix with a margin, its counts of
    /// replies, and one token for each byte of the remaining text.
    pub(crate) fn most_input(&self, request: &Request<'_>) -> u64 {
        let turns = request.transcript;
        let counts = self.0.iter().rev().filter(|count| count.turns <= turns.len());
        let known = counts
            .clone()
            .find_map(|count| Some((count.turns, count.tokens?)));
        let (from, known) = match known {
            Some((turns, tokens)) => (turns, with_margin(tokens)),
            None => (0, request.most_fixed_tokens()),
        };
        let most = |(index, turn): (usize, &Turn)| {
            let counted = self.0.iter().rfind(|count| count.turns == index);
            match (turn, counted.and_then(|count| count.reply)) {
                (Turn::Assistant(_), Some(tokens)) => with_margin(tokens).saturating_add(turn.frame_tokens()),
                (Turn::Assistant(_) | Turn::ToolResults(_) | Turn::User(_), _) => turn.most_tokens(),
            }
        };
        turns
            .iter()
            .enumerate()
            .skip(from)
            .map(most)
            .fold(known, u64::saturating_add)
    }
}

fn with_margin(tokens: u64) -> u64 {
    tokens
        .saturating_add(tokens / MARGIN_PART)
        .saturating_add(MARGIN_TOKENS)
}

#[cfg(test)]
mod tests;
