//! Settings of providers and models.

use std::time::Duration;

use sortie_api::{Credential, Effort, model::ModelPrices};
use sortie_net::{Outbound, ProxyServer};
use url::Url;

use crate::known::Api;

/// Providers of a node, the operator's models, and the default model.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Usable providers: each has a key or requires none.
    pub providers: Vec<ProviderSettings>,
    /// Additional models, and built-in models with changed figures.
    pub models: Vec<ModelSettings>,
    /// Model of runs that do not name one. `None`: the first usable model of the first provider that has one, else `runbook`.
    pub default_model: Option<String>,
    /// Maximum silence of a provider, at least a second. After that the call fails and can be retried.
    pub silence: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            providers: Vec::new(),
            models: Vec::new(),
            default_model: None,
            // A thinking model can be silent this long.
            silence: Duration::from_mins(5),
        }
    }
}

/// Settings of a provider.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Name that models refer to: `anthropic`, `openai`, `gemini`, or the operator's own name.
    pub name: String,
    /// The protocol.
    pub api: Api,
    /// Base address. `None`: the provider's own. OpenAI's ends with `/v1`, as in its SDKs.
    pub base_url: Option<Url>,
    /// The key. `None` for a server that requires none.
    pub key: Option<Credential>,
    /// Proxies and certificates of the connections to the provider.
    pub outbound: Outbound,
}

impl ProviderSettings {
    /// Returns the proxy of the connections to the provider.
    pub fn proxy(&self) -> Option<&ProxyServer> {
        self.outbound.proxy_of(&crate::catalog::base(self).ok()?)
    }
}

/// Settings of a model, either a new one or overrides of the built-in model with this id. `None` fields default to the built-in
/// entry.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// Value of `model` in a run.
    pub id: String,
    /// The name of its provider.
    pub provider: Option<String>,
    /// Name that the provider uses. Default: the id.
    pub upstream: Option<String>,
    /// Display name. Default: the id.
    pub name: Option<String>,
    /// Maximum tokens of a request and its answer together.
    pub context_window: Option<u64>,
    /// Maximum tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Prices of the model. A model without prices is rejected. Prices of 0 declare a free model.
    pub prices: Option<ModelPrices>,
    /// Capabilities of the model: `tools`, `structured_output`, `thinking`, `vision` (pictures), `documents` (PDF).
    pub capabilities: Option<Vec<String>>,
    /// Effort of runs that do not specify one. `None` leaves it to the provider.
    pub effort: Option<Effort>,
}
