//! The models that come with Sortie, as their providers described them.
//!
//! Prices change: what an operator says about a model counts, and this table does not. Three rules keep it from charging
//! too little. Where a price is announced to rise, the later one stands here. Where long prompts cost more, the context
//! window ends before they do. Where writing to the cache costs nothing extra, it has the price of input.
//!
//! Each line names the page that was checked and its date. "Pricing" is the price list of the provider:
//! platform.claude.com/docs/en/about-claude/pricing, developers.openai.com/api/docs/pricing and
//! ai.google.dev/gemini-api/docs/pricing, read on 2026-11-22 through the price table of `LiteLLM` 1.106.2, which cites them.
//! Windows and abilities (`vision`: pictures, `documents`: PDF) are from there as well, and from the model's own page.

use sortie_api::{
    Micros,
    model::{ModelInfo, ModelPrices},
};

use crate::settings::Api;

/// A built-in model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builtin {
    pub(crate) id: &'static str,
    /// The name that its provider has, if it is to offer this model.
    pub(crate) provider: &'static str,
    name: &'static str,
    /// Most tokens of a request and its answer together, and of one answer.
    tokens: (u64, u64),
    /// Thousandths of a dollar per million tokens, as `[input, output, cache read, cache write]`.
    prices: [u64; 4],
    capabilities: &'static [&'static str],
}

const ALL: &[&str] = &["tools", "structured_output", "thinking", "vision", "documents"];
const NO_THINKING: &[&str] = &["tools", "structured_output", "vision", "documents"];

const MILLION: (u64, u64) = (1_000_000, 128_000);
/// Prompts over 272,000 tokens cost twice as much.
const TO_272K: (u64, u64) = (272_000, 128_000);
/// Prompts over 200,000 tokens cost twice as much.
const TO_200K: (u64, u64) = (200_000, 65_536);
const GEMINI: (u64, u64) = (1_048_576, 65_536);

/// The first one of a provider is the one for most work.
#[rustfmt::skip]
const BUILTINS: &[Builtin] = &[
    // "What's new in Claude Opus 5.5", 2026-09-22; Pricing.
    model("claude-opus-5-5", "anthropic", "Claude Opus 5.5", MILLION, [4_000, 20_000, 200, 5_000], ALL),
    // docs.laozhang.ai on the list price, 2026-11-10, and the cache prices that rightsize 0.10.2 read off Pricing: the
    // model's own page was not to be had.
    model("claude-fable-5-2", "anthropic", "Claude Fable 5.2", MILLION, [8_000, 40_000, 200, 10_000], ALL),
    // "What's new in Claude Fable 5.1", 2026-09-01; Pricing. Structured outputs are named there.
    model("claude-fable-5-1", "anthropic", "Claude Fable 5.1", MILLION, [10_000, 50_000, 250, 12_500], ALL),
    // "Claude Sonnet 5.5" overview, 2026-09-28; Pricing. Reading the cache costs half since 2026-10-07.
    model("claude-sonnet-5-5", "anthropic", "Claude Sonnet 5.5", MILLION, [2_000, 10_000, 100, 2_500], ALL),
    // "Claude Haiku 5.5" overview, 2026-10-07; Pricing. Prompts over 100,000 tokens cost five times as much.
    model("claude-haiku-5-5", "anthropic", "Claude Haiku 5.5", (100_000, 32_000), [100, 500, 10, 125], ALL),
    // "Claude Opus 5" overview, 2026-07-24; Pricing.
    model("claude-opus-5", "anthropic", "Claude Opus 5", MILLION, [5_000, 25_000, 500, 6_250], ALL),
    // "Claude Sonnet 5" overview, 2026-06-30; Pricing. The rise announced for 2026-09-01 was cancelled.
    model("claude-sonnet-5", "anthropic", "Claude Sonnet 5", MILLION, [2_000, 10_000, 200, 2_500], ALL),
    // "Claude Haiku 4.5" overview, 2025-10-15; Pricing.
    model("claude-haiku-4-5", "anthropic", "Claude Haiku 4.5", (200_000, 64_000), [1_000, 5_000, 100, 1_250], ALL),

    // Model page "GPT-6.1 Sol", 2026-09-29; Pricing.
    model("gpt-6.1-sol", "openai", "GPT-6.1 Sol", TO_272K, [2_000, 10_000, 100, 2_500], ALL),
    // Model page "GPT-6.1 Terra" and Pricing, 2026-10-26, as docs.litellm.ai/blog/gpt-6-1-terra and apidog.com cite them.
    model("gpt-6.1-terra", "openai", "GPT-6.1 Terra", TO_272K, [1_000, 5_000, 50, 1_250], ALL),
    // Model page "GPT-6 Astra", 2026-09-03; Pricing.
    model("gpt-6-astra", "openai", "GPT-6 Astra", TO_272K, [10_000, 50_000, 1_000, 12_500], ALL),
    // Model page "GPT-6 Luna", 2026-09-22; Pricing.
    model("gpt-6-luna", "openai", "GPT-6 Luna", TO_272K, [100, 500, 10, 125], ALL),
    // Pricing, of these four.
    model("gpt-5.5", "openai", "GPT-5.5", TO_272K, [5_000, 30_000, 500, 5_000], ALL),
    model("gpt-5.4-mini", "openai", "GPT-5.4 mini", (400_000, 128_000), [750, 4_500, 75, 750], ALL),
    model("gpt-4.1", "openai", "GPT-4.1", (1_047_576, 32_768), [2_000, 8_000, 500, 2_000], NO_THINKING),
    model("gpt-4.1-mini", "openai", "GPT-4.1 mini", (1_047_576, 32_768), [400, 1_600, 100, 400], NO_THINKING),

    // Pricing, also as api-evangelist transcribed it on 2026-10-07. 750 and 3,750 until 2026-12-31.
    model("gemini-3.8-flash", "gemini", "Gemini 3.8 Flash", GEMINI, [1_500, 7_500, 150, 1_500], ALL),
    // Pricing, also in LiteLLM's note of its release, 2026-10-13. 2,000 and 10,000 until 2026-11-30. Its answers may be as
    // long as its window; the limit here is that of its family.
    model("gemini-4-argon", "gemini", "Gemini 4 Argon", GEMINI, [4_000, 20_000, 200, 4_000], ALL),
    // Pricing, of these five.
    model("gemini-3.5-flash", "gemini", "Gemini 3.5 Flash", GEMINI, [1_500, 9_000, 150, 1_500], ALL),
    model("gemini-3.5-flash-lite", "gemini", "Gemini 3.5 Flash-Lite", GEMINI, [300, 2_500, 30, 300], ALL),
    model("gemini-3.1-pro-preview", "gemini", "Gemini 3.1 Pro", TO_200K, [2_000, 12_000, 200, 2_000], ALL),
    model("gemini-2.5-pro", "gemini", "Gemini 2.5 Pro", TO_200K, [1_250, 10_000, 125, 1_250], ALL),
    model("gemini-2.5-flash", "gemini", "Gemini 2.5 Flash", GEMINI, [300, 2_500, 30, 300], ALL),
];

const fn model(
    id: &'static str,
    provider: &'static str,
    name: &'static str,
    tokens: (u64, u64),
    prices: [u64; 4],
    capabilities: &'static [&'static str],
) -> Builtin {
    Builtin {
        id,
        provider,
        name,
        tokens,
        prices,
        capabilities,
    }
}

/// The built-in models that a provider of this name and protocol offers.
pub(crate) fn offered(provider: &str, api: Api) -> impl Iterator<Item = &'static Builtin> {
    let speaks = match provider {
        "anthropic" => api == Api::Anthropic,
        "openai" => matches!(api, Api::OpenaiResponses | Api::OpenaiChat),
        "gemini" => api == Api::Gemini,
        _ => false,
    };
    BUILTINS
        .iter()
        .filter(move |builtin| speaks && builtin.provider == provider)
}

/// The name of the provider that the built-in model of this id has; `None` where there is no such model.
pub fn builtin_provider(id: &str) -> Option<&'static str> {
    find(id).map(|builtin| builtin.provider)
}

/// The built-in model of this id.
pub(crate) fn find(id: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.id == id)
}

impl Builtin {
    /// Entry in the catalog.
    pub(crate) fn info(&self) -> ModelInfo {
        let [input, output, cache_read, cache_write] = self
            .prices
            .map(|price| Micros::new(price * 1_000).unwrap_or_default());
        ModelInfo {
            id: self.id.to_owned(),
            provider: self.provider.to_owned(),
            name: self.name.to_owned(),
            context_window: self.tokens.0,
            max_output_tokens: self.tokens.1,
            prices: ModelPrices {
                input_micros_per_mtok: input,
                output_micros_per_mtok: output,
                cache_read_micros_per_mtok: cache_read,
                cache_write_micros_per_mtok: cache_write,
            },
            capabilities: self.capabilities.iter().map(|&what| what.to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_entry_is_whole_and_its_id_its_own() {
        let mut ids = HashSet::new();
        for builtin in BUILTINS {
            let info = builtin.info();
            assert!(ids.insert(builtin.id), "{} is there twice", builtin.id);
            assert!(info.max_output_tokens < info.context_window, "{}", builtin.id);
            let prices = info.prices;
            assert!(prices.input_micros_per_mtok < prices.output_micros_per_mtok);
            assert!(prices.cache_read_micros_per_mtok < prices.input_micros_per_mtok);
            assert!(prices.cache_write_micros_per_mtok >= prices.input_micros_per_mtok);
            assert!(!prices.cache_read_micros_per_mtok.is_zero(), "{}", builtin.id);
        }
    }

    #[test]
    fn every_built_in_model_sees_pictures_and_documents() {
        for builtin in BUILTINS {
            let can = |what: &str| builtin.capabilities.contains(&what);
            assert!(can("vision") && can("documents"), "{}", builtin.id);
        }
    }

    #[test]
    fn a_dollar_is_a_million_micros() {
        let info = find("claude-opus-5-5").unwrap().info();
        assert_eq!(info.prices.input_micros_per_mtok.get(), 4_000_000);
        assert_eq!(info.prices.cache_read_micros_per_mtok.get(), 200_000);
    }
}
