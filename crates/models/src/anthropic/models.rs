//! Built-in models of Anthropic. `builtin.rs` has the rules and the sources.

use crate::builtin::{ALL, Builtin, model};

const MILLION: (u64, u64) = (1_000_000, 128_000);

/// Ordered by preference: the first model fits most work.
#[rustfmt::skip]
pub(super) const MODELS: &[Builtin] = &[
    // "What's new in Claude Opus 5.5", 2026-09-22; Pricing.
    model("claude-opus-5-5", "Claude Opus 5.5", MILLION, [4_000, 20_000, 200, 5_000], ALL),
    // docs.laozhang.ai on the list price, 2026-11-10, and the cache prices that rightsize 0.10.2 read from Pricing; the page of
    // the model was not available.
    model("claude-fable-5-2", "Claude Fable 5.2", MILLION, [8_000, 40_000, 200, 10_000], ALL),
    // "What's new in Claude Fable 5.1", 2026-09-01, which also mentions structured outputs; Pricing.
    model("claude-fable-5-1", "Claude Fable 5.1", MILLION, [10_000, 50_000, 250, 12_500], ALL),
    // "Claude Sonnet 5.5" overview, 2026-09-28; Pricing. Cache reads cost half since 2026-10-07.
    model("claude-sonnet-5-5", "Claude Sonnet 5.5", MILLION, [2_000, 10_000, 100, 2_500], ALL),
    // "Claude Haiku 5.5" overview, 2026-10-07; Pricing. Prompts over 100,000 tokens cost five times as much.
    model("claude-haiku-5-5", "Claude Haiku 5.5", (100_000, 32_000), [100, 500, 10, 125], ALL),
    // "Claude Opus 5" overview, 2026-07-24; Pricing.
    model("claude-opus-5", "Claude Opus 5", MILLION, [5_000, 25_000, 500, 6_250], ALL),
    // "Claude Sonnet 5" overview, 2026-06-30; Pricing. The increase announced for 2026-09-01 was cancelled.
    model("claude-sonnet-5", "Claude Sonnet 5", MILLION, [2_000, 10_000, 200, 2_500], ALL),
    // "Claude Haiku 4.5" overview, 2025-10-15; Pricing.
    model("claude-haiku-4-5", "Claude Haiku 4.5", (200_000, 64_000), [1_000, 5_000, 100, 1_250], ALL),
];
