//! Built-in models of `OpenAI`. `builtin.rs` has the rules and the sources.

use crate::builtin::{ALL, Builtin, model};

const NO_THINKING: &[&str] = &["tools", "structured_output", "vision", "documents"];

/// Prompts over 272,000 tokens cost twice as much.
const TO_272K: (u64, u64) = (272_000, 128_000);

/// Ordered by preference: the first model fits most work.
#[rustfmt::skip]
pub(super) const MODELS: &[Builtin] = &[
    // Model page "GPT-6.1 Sol", 2026-09-29; Pricing.
    model("gpt-6.1-sol", "GPT-6.1 Sol", TO_272K, [2_000, 10_000, 100, 2_500], ALL),
    // Model page "GPT-6.1 Terra" and Pricing, 2026-10-26, as docs.litellm.ai/blog/gpt-6-1-terra and apidog.com cite them.
    model("gpt-6.1-terra", "GPT-6.1 Terra", TO_272K, [1_000, 5_000, 50, 1_250], ALL),
    // Model page "GPT-6 Astra", 2026-09-03; Pricing.
    model("gpt-6-astra", "GPT-6 Astra", TO_272K, [10_000, 50_000, 1_000, 12_500], ALL),
    // Model page "GPT-6 Luna", 2026-09-22; Pricing.
    model("gpt-6-luna", "GPT-6 Luna", TO_272K, [100, 500, 10, 125], ALL),
    // Pricing, for the next four.
    model("gpt-5.5", "GPT-5.5", TO_272K, [5_000, 30_000, 500, 5_000], ALL),
    model("gpt-5.4-mini", "GPT-5.4 mini", (400_000, 128_000), [750, 4_500, 75, 750], ALL),
    model("gpt-4.1", "GPT-4.1", (1_047_576, 32_768), [2_000, 8_000, 500, 2_000], NO_THINKING),
    model("gpt-4.1-mini", "GPT-4.1 mini", (1_047_576, 32_768), [400, 1_600, 100, 400], NO_THINKING),
];
