//! Providers and models: the tables that the operator names in the file, and the providers' usual variables.
//!
//! A known provider is enabled as soon as it has a key. Any other provider is enabled by naming it in the file.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use sortie_api::{Credential, Effort, Micros, model::ModelPrices, plain};
use sortie_models::{Api, KnownProvider, ModelSettings, ProviderSettings, builtin_provider};
use sortie_net::Outbound;
use toml::Value;

use super::{
    Error,
    layers::Layers,
    network,
    settings::Settings,
    values::{BaseUrl, one_of},
};

/// The variables of known providers, and the keys they set.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    let variables = |known: &KnownProvider| {
        let name = known.name;
        ["api_key", "base_url"].map(|key| {
            let variable = format!("{name}_{key}").to_ascii_uppercase();
            (variable, format!("providers.{name}.{key}"))
        })
    };
    KnownProvider::all().flat_map(variables)
}

fn some_api<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Api>, D::Error> {
    let apis: Vec<_> = Api::all().map(|api| (api.name(), api)).collect();
    one_of(deserializer, &apis).map(Some)
}

/// Keys of `[providers.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderSection {
    #[serde(default, deserialize_with = "some_api")]
    api: Option<Api>,
    base_url: Option<BaseUrl>,
    api_key: Option<Credential>,
    api_key_file: Option<PathBuf>,
    proxy: Option<Credential>,
    ca_file: Option<PathBuf>,
}

/// Keys of `[models."ID"]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelSection {
    provider: Option<String>,
    upstream: Option<String>,
    name: Option<String>,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
    free: Option<bool>,
    input_micros_per_mtok: Option<Micros>,
    output_micros_per_mtok: Option<Micros>,
    cache_read_micros_per_mtok: Option<Micros>,
    cache_write_micros_per_mtok: Option<Micros>,
    capabilities: Option<Vec<String>>,
    effort: Option<Effort>,
}

/// Returns the providers and models. Records values that follow from other keys in the layers.
pub(super) fn models(
    settings: &Settings,
    layers: &mut Layers,
    outbound: &Outbound,
) -> Result<sortie_models::Settings, Error> {
    let mut providers = Vec::with_capacity(settings.providers.len());
    for (name, section) in &settings.providers {
        let provider = section.provider(name, layers, outbound)?;
        let api = Value::String(provider.api.name().to_owned());
        layers.complete(("providers", name), "api", api);
        providers.push(provider);
    }
    let mut models = Vec::with_capacity(settings.model_sections.len());
    for (id, section) in &settings.model_sections {
        let name = section.provider.as_deref().or_else(|| builtin_provider(id));
        let provider = providers
            .iter()
            .find(|provider: &&ProviderSettings| Some(provider.name.as_str()) == name);
        let prices = section
            .prices(provider.map(|provider| provider.api))
            .map_err(|rule| layers.wrong(&format!("models.{id}"), rule))?;
        if let Some(prices) = prices.filter(|_| section.free != Some(true)) {
            for (key, price) in [
                ("cache_read_micros_per_mtok", prices.cache_read_micros_per_mtok),
                ("cache_write_micros_per_mtok", prices.cache_write_micros_per_mtok),
            ] {
                layers.complete(("models", id), key, Value::Integer(price.get()));
            }
        }
        models.push(section.model(id, prices));
    }
    Ok(sortie_models::Settings {
        providers,
        models,
        default_model: settings.default_model.clone(),
        silence: settings.model_silence,
    })
}

impl ProviderSection {
    fn provider(&self, name: &str, layers: &Layers, node: &Outbound) -> Result<ProviderSettings, Error> {
        let path = |key: &str| format!("providers.{name}.{key}");
        let wrong = |key: &str, rule: &str| Err(layers.wrong(&path(key), rule));
        let known = KnownProvider::all().find(|known| known.name == name);
        let default = known.and_then(|known| match self.base_url {
            Some(_) => known.api_elsewhere(),
            None => known.own_api(),
        });
        let Some(api) = self.api.or(default) else {
            return wrong("api", "must be set for a provider of your own");
        };
        if known.is_none() && self.base_url.is_none() {
            return wrong("base_url", "must be set for a provider of your own");
        }
        let key = match (&self.api_key, &self.api_key_file) {
            (Some(_), Some(_)) if layers.source(&path("api_key")) == layers.source(&path("api_key_file")) => {
                return wrong("api_key", "and api_key_file cannot both be set");
            }
            // A key of the environment wins over a file that the configuration file names.
            (Some(key), _) => Some(Credential::new(key.expose().trim())),
            (None, Some(path)) => match super::read_value(path) {
                Ok(text) => Some(Credential::new(text.trim())),
                Err(error) => {
                    let rule = format!("{}: cannot be read: {}", path.display(), plain::io(&error));
                    return wrong("api_key_file", &rule);
                }
            },
            (None, None) => None,
        };
        if key.as_ref().is_some_and(|key| !is_header_text(key.expose())) {
            return wrong("api_key", "must be visible ASCII characters without spaces");
        }
        if key.is_none() && self.base_url.is_none() {
            return wrong("api_key", "must be set, or base_url of a server that wants none");
        }
        let proxy = self.proxy.as_ref().map(Credential::expose);
        let outbound = network::of_provider(node, proxy, self.ca_file.as_deref())
            .map_err(|(key, rule)| layers.wrong(&path(key), &rule))?;
        Ok(ProviderSettings {
            name: name.to_owned(),
            api,
            base_url: self.base_url.as_ref().map(|base| base.url.clone()),
            key,
            outbound,
        })
    }
}

fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl ModelSection {
    /// Returns the prices; `None` for the prices of a built-in model. The error is a rule.
    fn prices(&self, api: Option<Api>) -> Result<Option<ModelPrices>, &'static str> {
        let (input, output) = (self.input_micros_per_mtok, self.output_micros_per_mtok);
        let (read, write) = (self.cache_read_micros_per_mtok, self.cache_write_micros_per_mtok);
        let is_priced = [input, output, read, write].iter().any(Option::is_some);
        match (self.free, input, output) {
            (Some(true), ..) if is_priced => Err("free = true and a price cannot both be set"),
            (Some(true), ..) => Ok(Some(ModelPrices::default())),
            (_, Some(input), Some(output)) => Ok(Some(ModelPrices {
                input_micros_per_mtok: input,
                output_micros_per_mtok: output,
                // If the cache price is missing, cached tokens cost as much as others.
                cache_read_micros_per_mtok: read.unwrap_or(input),
                cache_write_micros_per_mtok: write
                    .or_else(|| api.map_or(Some(input), |api| api.cache_write_price(input)))
                    .ok_or("input_micros_per_mtok is too large")?,
            })),
            (_, None, None) if !is_priced => Ok(None),
            _ => Err("input_micros_per_mtok and output_micros_per_mtok must be set together"),
        }
    }

    fn model(&self, id: &str, prices: Option<ModelPrices>) -> ModelSettings {
        ModelSettings {
            id: id.to_owned(),
            provider: self.provider.clone(),
            upstream: self.upstream.clone(),
            name: self.name.clone(),
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            prices,
            capabilities: self.capabilities.clone(),
            effort: self.effort,
        }
    }
}
