//! Bound on the usage that a provider reports. A call cannot have used more: its input is bounded by the bytes that were sent,
//! its output by the bytes that were received and by the longest answer of the model.

use crate::{
    counts,
    model::{Content, Reply, Usage},
};

/// Tokens that a provider may count beyond the longest answer of its model.
const MARGIN_TOKENS: u64 = 1_024;

/// The most tokens that a call can have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Possible {
    /// Read, whether cached or not.
    input: u64,
    output: u64,
}

impl Possible {
    /// Bound of a call with a request of `request_bytes` and a reply of `reply_bytes`. Hidden thinking has no bytes:
    /// `longest_answer`, in tokens, leaves room for it.
    pub(crate) fn new(request_bytes: u64, longest_answer: u64, reply_bytes: u64) -> Self {
        Self {
            input: counts::beyond_request(request_bytes),
            output: longest_answer.saturating_add(MARGIN_TOKENS).max(reply_bytes),
        }
    }

    /// Returns the usage within this bound.
    pub(crate) fn clamp(self, usage: Usage) -> Usage {
        let cache_read_tokens = usage.cache_read_tokens.min(self.input);
        let left = self.input - cache_read_tokens;
        let cache_write_tokens = usage.cache_write_tokens.min(left);
        Usage {
            input_tokens: usage.input_tokens.min(left - cache_write_tokens),
            output_tokens: usage.output_tokens.min(self.output),
            cache_read_tokens,
            cache_write_tokens,
        }
    }
}

/// Bytes of a reply.
pub(crate) fn reply_bytes(reply: &Reply) -> u64 {
    let bytes = |piece: &Content| match piece {
        Content::Text(text) => text.len(),
        Content::ToolCall(call) => call.name.len() + call.arguments.len(),
        Content::Opaque(raw) => raw.get().len(),
    };
    reply.content.iter().map(|piece| bytes(piece) as u64).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_figure_passes_the_bound_and_what_is_within_stays(
            request in 0_u64..10_000_000, longest in 1_u64..200_000, reply in 0_u64..10_000_000,
            figures in any::<[u64; 4]>(), small in [0_u64..500, 0_u64..500, 0_u64..500, 0_u64..500],
        ) {
            let possible = Possible::new(request, longest, reply);
            for [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] in [figures, small] {
                let usage = Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens };
                let clamped = possible.clamp(usage);
                let read = clamped.input_tokens + clamped.cache_read_tokens + clamped.cache_write_tokens;
                prop_assert!(read <= 2 * request + 4_096);
                prop_assert!(clamped.output_tokens <= (longest + 1_024).max(reply));
                if figures != [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] {
                    prop_assert_eq!(clamped, usage);
                }
            }
        }
    }
}
