//! Built-in models, with the figures of their providers.
//!
//! Prices change, and an operator can override every figure. Three rules keep this table from charging too little. If a price
//! increase is announced, we use the later price. If long prompts cost more, the context window ends below that threshold. If
//! cache writes cost nothing extra, they have the price of input.
//!
//! Each line names the page that was checked and its date. "Pricing" is the price list of the provider:
//! platform.claude.com/docs/en/about-claude/pricing, developers.openai.com/api/docs/pricing and
//! ai.google.dev/gemini-api/docs/pricing, read on 2026-11-22 through the price table of `LiteLLM` 1.106.2, which cites them.
//! Context windows and capabilities (`vision`: pictures, `documents`: PDF) come from there as well, and from the page of the
//! model.

use sortie_api::{
    Micros,
    model::{ModelInfo, ModelPrices},
};

use crate::known::{Api, KnownProvider, PROVIDERS};

/// A built-in model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builtin {
    id: &'static str,
    name: &'static str,
    /// Maximum tokens of a request with its answer, and of one answer.
    tokens: (u64, u64),
    /// Thousandths of a dollar per million tokens, as `[input, output, cache read, cache write]`.
    prices: [u64; 4],
    capabilities: &'static [&'static str],
}

/// Every capability that settings can give a model.
pub(crate) const ALL: &[&str] = &["tools", "structured_output", "thinking", "vision", "documents"];

/// Creates a line of a table of models.
pub(crate) const fn model(
    id: &'static str,
    name: &'static str,
    tokens: (u64, u64),
    prices: [u64; 4],
    capabilities: &'static [&'static str],
) -> Builtin {
    Builtin {
        id,
        name,
        tokens,
        prices,
        capabilities,
    }
}

/// Returns the built-in models that a provider of this name and protocol offers.
pub(crate) fn offered(provider: &str, api: Api) -> impl Iterator<Item = ModelInfo> {
    let known = PROVIDERS.iter().find(|known| known.name == provider);
    let known = known.filter(|known| known.apis.contains(&api));
    known
        .into_iter()
        .flat_map(|known| known.models.iter().map(|model| model.info(known.name)))
}

fn entry(id: &str) -> Option<(&'static KnownProvider, &'static Builtin)> {
    PROVIDERS.iter().find_map(|known| {
        let model = known.models.iter().find(|model| model.id == id)?;
        Some((*known, model))
    })
}

/// Returns the name of the provider of the built-in model with this id. `None` if there is no such model.
pub fn builtin_provider(id: &str) -> Option<&'static str> {
    entry(id).map(|(known, _)| known.name)
}

/// Returns the built-in model with this id.
pub(crate) fn find(id: &str) -> Option<ModelInfo> {
    entry(id).map(|(known, model)| model.info(known.name))
}

impl Builtin {
    /// Returns the entry of the catalog.
    fn info(&self, provider: &str) -> ModelInfo {
        let [input, output, cache_read, cache_write] = self
            .prices
            .map(|price| Micros::new(price * 1_000).unwrap_or_default());
        ModelInfo {
            id: self.id.to_owned(),
            provider: provider.to_owned(),
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
    use crate::{anthropic, gemini, openai};

    fn builtins() -> impl Iterator<Item = &'static Builtin> {
        PROVIDERS.iter().flat_map(|known| known.models)
    }

    #[test]
    fn every_entry_is_whole_and_its_id_its_own() {
        let mut ids = HashSet::new();
        for builtin in builtins() {
            let info = builtin.info("");
            assert!(ids.insert(builtin.id), "{} is there twice", builtin.id);
            assert!(info.max_output_tokens < info.context_window, "{}", builtin.id);
            let prices = info.prices;
            assert!(prices.input_micros_per_mtok < prices.output_micros_per_mtok);
            assert!(prices.cache_read_micros_per_mtok < prices.input_micros_per_mtok);
            assert!(prices.cache_write_micros_per_mtok >= prices.input_micros_per_mtok);
            assert!(!prices.cache_read_micros_per_mtok.is_zero(), "{}", builtin.id);
            let is_known = |what: &&str| ALL.contains(what);
            assert!(builtin.capabilities.iter().all(is_known), "{}", builtin.id);
        }
    }

    #[test]
    fn the_models_of_these_providers_see_pictures_and_documents() {
        for known in [anthropic::PROVIDER, openai::PROVIDER, gemini::PROVIDER] {
            for builtin in known.models {
                let can = |what: &str| builtin.capabilities.contains(&what);
                assert!(can("vision") && can("documents"), "{}", builtin.id);
            }
        }
    }

    #[test]
    fn a_dollar_is_a_million_micros() {
        let info = find("claude-opus-5-5").unwrap();
        assert_eq!(info.prices.input_micros_per_mtok.get(), 4_000_000);
        assert_eq!(info.prices.cache_read_micros_per_mtok.get(), 200_000);
    }
}
