//! How much of the model's window a conversation takes: estimated from its bytes, and corrected by what the provider
//! counted in the call before.

use crate::model::{Kind, Model, Usage};

/// Bytes of ordinary text that two tokens stand for, in the estimate before anything was counted: 3.5 for one.
const BYTES_PER_TWO_TOKENS: u64 = 7;
/// The most bytes that one token can stand for. A provider that counts fewer tokens has left something out, as some
/// do with what they have cached.
const MOST_BYTES_PER_TOKEN: u64 = 12;
/// The least answer that is asked for, in tokens: where the estimate leaves less, nothing is sent.
const LEAST_OUTPUT_TOKENS: u64 = 1_024;

/// The window of a run's model.
#[derive(Debug)]
pub(crate) struct Window {
    /// Tokens of a request and its answer together; `None` where the model has no such limit.
    tokens: Option<u64>,
    most_output: u64,
    /// What was counted last: so many tokens for so many bytes.
    counted: Option<(u64, u64)>,
}

impl Window {
    pub(crate) fn of(model: &dyn Model) -> Self {
        let info = model.info();
        Self {
            tokens: (model.kind() == Kind::Language).then_some(info.context_window),
            most_output: info.max_output_tokens,
            counted: None,
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

    /// Takes over what the provider counted for a request of so many bytes, where that can be.
    pub(crate) fn learn(&mut self, bytes: usize, usage: &Usage) {
        let counted = usage
            .input_tokens
            .saturating_add(usage.cache_read_tokens)
            .saturating_add(usage.cache_write_tokens);
        let bytes = bytes as u64;
        if bytes > 0 && (bytes / MOST_BYTES_PER_TOKEN..=bytes).contains(&counted) {
            self.counted = Some((counted, bytes));
        }
    }

    /// Tokens that the conversation may take: the window less the longest answer, which takes at most half of it.
    pub(crate) fn room(&self) -> Option<u64> {
        self.room_beside(0)
    }

    /// The same beside `fixed` tokens that are sent with every request.
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

    /// More tokens than a request of so many bytes takes, as far as the provider has counted some: an eighth more than the
    /// estimate. Zero before.
    pub(crate) fn most_as_counted(&self, bytes: usize) -> u64 {
        self.counted.map_or(0, |_| {
            let estimate = self.estimate(bytes);
            estimate.saturating_add(estimate / 8)
        })
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

fn ordinary(bytes: u64) -> u64 {
    bytes.saturating_mul(2).div_ceil(BYTES_PER_TWO_TOKENS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(tokens: u64, most_output: u64) -> Window {
        Window {
            tokens: Some(tokens),
            most_output,
            counted: None,
        }
    }

    fn used(input_tokens: u64, cache_read_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            cache_read_tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn the_estimate_follows_what_the_provider_counts() {
        let mut window = window(200_000, 8_000);
        assert_eq!(window.estimate(3_500), 1_000);
        window.learn(3_500, &used(500, 1_500));
        assert_eq!(window.estimate(3_500), 2_000);
        assert_eq!(window.estimate(3_500 + 350), 2_100);
        assert_eq!(window.estimate(1_750), 1_000);
    }

    #[test]
    fn a_count_that_cannot_be_is_not_taken_over() {
        let mut window = window(200_000, 8_000);
        window.learn(35_000, &used(1, 0));
        window.learn(35_000, &used(u64::MAX, u64::MAX));
        window.learn(0, &used(0, 0));
        assert_eq!(window.estimate(35_000), 10_000);
    }

    #[test]
    fn an_answer_fits_beside_the_conversation() {
        let window = window(10_000, 8_000);
        assert_eq!(window.room(), Some(5_000));
        assert_eq!(window.most_output(0), 8_000);
        assert_eq!(window.most_output(14_000), 6_000);
        assert_eq!(window.most_output(1 << 30), 1_024);
        assert_eq!(window.output_share(0, 1), 4_375);
        assert_eq!(window.output_share(0, 1_000), 256);
    }

    proptest! {
        #[test]
        fn no_count_makes_an_estimate_overflow(bytes in any::<u32>(), tokens in any::<u64>(), next in any::<u32>()) {
            let mut window = window(u64::MAX, u64::MAX);
            window.learn(bytes as usize, &used(tokens, tokens));
            let estimate = window.estimate(next as usize);
            prop_assert!(estimate <= u64::from(next) + u64::from(bytes) + 1);
            prop_assert!(window.most_output(next as usize) >= 1);
        }
    }
}
