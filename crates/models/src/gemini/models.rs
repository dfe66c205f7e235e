//! Built-in models of Google. `builtin.rs` has the rules and the sources.

use crate::builtin::{ALL, Builtin, model};

/// Prompts over 200,000 tokens cost twice as much.
const TO_200K: (u64, u64) = (200_000, 65_536);
const WINDOW: (u64, u64) = (1_048_576, 65_536);

/// Ordered by preference: the first model fits most work.
#[rustfmt::skip]
pub(super) const MODELS: &[Builtin] = &[
    // Pricing, also as api-evangelist transcribed it on 2026-10-07. 750 and 3,750 until 2026-12-31.
    model("gemini-3.8-flash", "Gemini 3.8 Flash", WINDOW, [1_500, 7_500, 150, 1_500], ALL),
    // Pricing, also in LiteLLM's note on its release, 2026-10-13. 2,000 and 10,000 until 2026-11-30. An answer can be as long as
    // the window; this limit is that of its family.
    model("gemini-4-argon", "Gemini 4 Argon", WINDOW, [4_000, 20_000, 200, 4_000], ALL),
    // Pricing, for the next five.
    model("gemini-3.5-flash", "Gemini 3.5 Flash", WINDOW, [1_500, 9_000, 150, 1_500], ALL),
    model("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite", WINDOW, [300, 2_500, 30, 300], ALL),
    model("gemini-3.1-pro-preview", "Gemini 3.1 Pro", TO_200K, [2_000, 12_000, 200, 2_000], ALL),
    model("gemini-2.5-pro", "Gemini 2.5 Pro", TO_200K, [1_250, 10_000, 125, 1_250], ALL),
    model("gemini-2.5-flash", "Gemini 2.5 Flash", WINDOW, [300, 2_500, 30, 300], ALL),
];
