//! Token estimates, used if a provider reports no count.

use sortie_agent::model::Usage;

/// Number of bytes per estimated token.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Adds an estimate of the input to the usage if the provider has reported no count.
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

/// Estimates the number of tokens in `bytes` bytes.
pub(crate) fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}
