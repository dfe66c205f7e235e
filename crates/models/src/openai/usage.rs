//! Usage of a call, from figures that differ between servers, or estimated from the number of bytes if there are no figures, so
//! that a call never counts as free by mistake.

use std::io;

use serde::{Deserialize, Serialize};
use sortie_agent::model::Usage;

use crate::{
    estimate::tokens,
    wire::{Count, Object},
};

/// The usage figures of an event, with the names of both protocols and of servers with their own names.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    prompt_tokens: Count,
    completion_tokens: Count,
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Object<CacheFigures>,
    input_tokens_details: Object<CacheFigures>,
    /// `DeepSeek`'s name for tokens read from its cache.
    prompt_cache_hit_tokens: Count,
    /// Anthropic's names, which gateways to it keep.
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CacheFigures {
    #[serde(rename = "cached_tokens")]
    read: Count,
    #[serde(rename = "cache_write_tokens")]
    write: Count,
    #[serde(rename = "cache_creation_tokens")]
    creation: Count,
}

impl From<Figures> for Counted {
    fn from(figures: Figures) -> Self {
        let most = |counts: &[Count]| counts.iter().map(|count| count.get()).max().unwrap_or_default();
        let cache = figures.prompt_tokens_details.0.or(figures.input_tokens_details.0);
        let cache = cache.unwrap_or_default();
        Self {
            input: most(&[figures.prompt_tokens, figures.input_tokens]),
            output: most(&[figures.completion_tokens, figures.output_tokens]),
            total: figures.total_tokens.get(),
            cache_read: most(&[
                cache.read,
                figures.prompt_cache_hit_tokens,
                figures.cache_read_input_tokens,
            ]),
            cache_write: most(&[cache.write, cache.creation, figures.cache_creation_input_tokens]),
        }
    }
}

/// Figures of the provider so far. Several chunks report on the same call, so the maximum of each figure counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Tokens of the request, usually including those of the cache.
    pub(crate) input: u64,
    /// Tokens of the answer.
    pub(crate) output: u64,
    /// Total of both.
    pub(crate) total: u64,
    /// Tokens of the request that were read from the cache.
    pub(crate) cache_read: u64,
    /// Tokens of the request that were written to the cache.
    pub(crate) cache_write: u64,
}

impl Counted {
    /// Merges the figures of another chunk.
    pub(crate) fn take(&mut self, other: Self) {
        self.input = self.input.max(other.input);
        self.output = self.output.max(other.output);
        self.total = self.total.max(other.total);
        self.cache_read = self.cache_read.max(other.cache_read);
        self.cache_write = self.cache_write.max(other.cache_write);
    }

    /// Whether the provider has reported no figures.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the usage of a call with this body and `answer_bytes` of output. A missing count is estimated at four bytes per
    /// token.
    pub(crate) fn usage(&self, body: &impl Serialize, answer_bytes: u64) -> Usage {
        // A few servers exclude cache tokens from the input. We can tell if the cache count is larger.
        let beside = self.cache_read.max(self.cache_write) > self.input;
        // Tokens written to the cache can overlap with those read from it.
        let unread = self.input.saturating_sub(self.cache_read);
        let cache_write_tokens = if beside {
            self.cache_write
        } else {
            self.cache_write.min(unread)
        };
        let input_tokens = match self.input {
            0 if !beside => tokens(serialized_bytes(body)),
            input if beside => input,
            _ => unread - cache_write_tokens,
        };
        // A few servers exclude reasoning from the output count but include it in the total, and charge for it.
        let output = if beside {
            self.output
        } else {
            self.output.max(self.total.saturating_sub(self.input))
        };
        Usage {
            input_tokens,
            output_tokens: match output {
                0 => tokens(answer_bytes),
                output => output,
            },
            cache_read_tokens: self.cache_read,
            cache_write_tokens,
        }
    }
}

/// Returns the size of a body in bytes. Only used if the provider reported no count, because it serializes the body again.
fn serialized_bytes(body: &impl Serialize) -> u64 {
    struct Counter(u64);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Serializing this body has succeeded before, and this writer does not fail.
    let _ = serde_json::to_writer(&mut counter, body);
    counter.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(input: u64, output: u64, total: u64, cache_read: u64, cache_write: u64) -> Counted {
        Counted {
            input,
            output,
            total,
            cache_read,
            cache_write,
        }
    }

    fn figures(counted: Counted) -> [u64; 4] {
        let usage = counted.usage(&"0123456789", 9);
        [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        ]
    }

    #[test]
    fn no_token_is_counted_twice() {
        assert_eq!(figures(counted(100, 7, 107, 60, 0)), [40, 7, 60, 0]);
        assert_eq!(figures(counted(100, 7, 107, 60, 30)), [10, 7, 60, 30]);
        assert_eq!(figures(counted(60, 7, 67, 60, 0)), [0, 7, 60, 0]);
        assert_eq!(figures(counted(100, 7, 107, 60, 100)), [0, 7, 60, 40]);
    }

    #[test]
    fn a_cache_counted_beside_the_input_is_not_taken_off() {
        assert_eq!(figures(counted(10, 7, 117, 100, 0)), [10, 7, 100, 0]);
        assert_eq!(figures(counted(10, 7, 117, 0, 100)), [10, 7, 0, 100]);
    }

    #[test]
    fn reasoning_that_is_only_in_the_total_is_charged() {
        assert_eq!(figures(counted(10, 7, 50, 0, 0)), [10, 40, 0, 0]);
    }

    #[test]
    fn what_was_not_counted_is_estimated_at_four_bytes_a_token() {
        // The body has twelve bytes with its quotes.
        assert_eq!(figures(Counted::default()), [3, 3, 0, 0]);
        assert_eq!(figures(counted(10, 0, 10, 0, 0)), [10, 3, 0, 0]);
        assert_eq!(figures(counted(0, 5, 5, 0, 0)), [3, 5, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_figures_are_reckoned_with_and_those_of_more_chunks_never_make_less(
            first in any::<[u64; 5]>(), second in any::<[u64; 5]>()
        ) {
            let mut all = Counted::default();
            for [a, b, c, d, e] in [first, second] {
                all.take(counted(a, b, c, d, e));
            }
            prop_assert_eq!(all.output, first[1].max(second[1]));
            let usage = all.usage(&"", 0);
            prop_assert!(usage.output_tokens >= all.output);
            prop_assert_eq!(usage.cache_read_tokens, all.cache_read);
        }
    }
}
