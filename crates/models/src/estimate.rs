//! Estimates of tokens where a provider reports no count.

use sortie_agent::model::Usage;

/// Bytes that are counted as one token.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// The usage of a request of this size. Its input is estimated where the provider has reported no count.
pub(crate) fn with_input(usage: Usage, sent_bytes: usize) -> Usage {
    let is_counted = (usage.input_tokens | usage.cache_read_tokens | usage.cache_write_tokens) > 0;
    Usage {
        input_tokens: if is_counted {
            usage.input_tokens
        } else {
            tokens(sent_bytes as u64)
        },
        ..usage
    }
}

/// Estimates the tokens of so many bytes.
pub(crate) fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}
