//! Share of the model's window that a conversation takes: estimated from its bytes, and corrected by what the provider
//! counted in the call before.

use crate::{
    counts::{Count, Counts, MOST_BYTES_PER_TOKEN},
    model::{Kind, Model, Reply},
};

/// Bytes of ordinary text per two tokens, in the estimate before anything was counted: 3.5 per token.
const BYTES_PER_TWO_TOKENS: u64 = 7;
/// Minimum answer that is requested, in tokens: if the estimate leaves less, nothing is sent.
const LEAST_OUTPUT_TOKENS: u64 = 1_024;
/// The window of a run's model.
#[derive(Debug)]
pub(crate) struct Window {
    /// Tokens of a request and its answer together; `None` if the model has no such limit.
    tokens: Option<u64>,
    most_output: u64,
    /// The last count: so many tokens for so many bytes.
    counted: Option<(u64, u64)>,
    /// The provider's counts, which bound the next call.
    pub(crate) counts: Counts,
}

impl Window {
    pub(crate) fn of(model: &dyn Model) -> Self {
        let info = model.info();
        Self {
            tokens: (model.kind() == Kind::Language).then_some(info.context_window),
            most_output: info.max_output_tokens,
            counted: None,
            counts: Counts::default(),
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

    /// Records the provider's count of a request of so many bytes and turns, if it is plausible.
    pub(crate) fn learn(&mut self, bytes: usize, turns: usize, reply: &Reply) -> Count {
        let bytes = bytes as u64;
        let usage = &reply.usage;
        let tokens = usage
            .input_tokens
            .saturating_add(usage.cache_read_tokens)
            .saturating_add(usage.cache_write_tokens);
        if can_be(tokens, bytes) {
            self.counted = Some((tokens, bytes));
        }
        let count = Count::of(bytes, turns, tokens, reply);
        self.counts.push(count);
        count
    }

    /// Takes over the counts of an earlier attempt. `bytes` are those of the longest request that was counted.
    pub(crate) fn recall(&mut self, counts: Counts, bytes: u64) {
        let counted = counts.longest().map(|(_, tokens)| (tokens, bytes));
        self.counted = counted.filter(|(tokens, bytes)| can_be(*tokens, *bytes));
        self.counts = counts;
    }

    /// Another model takes over the conversation.
    pub(crate) fn replace(&mut self, model: &dyn Model) {
        let counts = std::mem::take(&mut self.counts);
        *self = Self::of(model);
        self.counts = counts;
        self.counts.model_replaced();
    }

    /// Tokens that the conversation may take if `fixed` tokens are sent with every request: the window less the longest answer,
    /// which takes at most half of it.
    pub(crate) fn room_beside(&self, fixed: u64) -> Option<u64> {
        self.tokens.map(|tokens| {
            let left = tokens.saturating_sub(fixed);
            left - self.most_output.min(left / 2)
        })
    }

    /// The window in tokens, if a request of so many tokens leaves no useful answer in it.
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

    /// Returns the maximum part of a tool output in a turn with so many calls, in bytes: together a quarter of the room that
    /// `fixed` tokens leave.
    pub(crate) fn output_share(&self, fixed: u64, calls: usize) -> usize {
        const LEAST_BYTES: usize = 256;
        let Some(room) = self.room_beside(fixed) else {
            return usize::MAX;
        };
        let bytes = usize::try_from(room / 4 * BYTES_PER_TWO_TOKENS / 2).unwrap_or(usize::MAX);
        (bytes / calls.max(1)).max(LEAST_BYTES)
    }
}

/// Whether so many tokens are plausible for so many bytes.
fn can_be(tokens: u64, bytes: u64) -> bool {
    bytes > 0 && (bytes / MOST_BYTES_PER_TOKEN..=bytes).contains(&tokens)
}

fn ordinary(bytes: u64) -> u64 {
    bytes.saturating_mul(2).div_ceil(BYTES_PER_TWO_TOKENS)
}

#[cfg(test)]
mod tests;
