//! Settings of providers and models.

use std::time::Duration;

use sortie_api::{Credential, Effort, model::ModelPrices};
use sortie_net::{Outbound, ProxyServer};
use url::Url;

use crate::known::Api;

/// The providers of a node, its own models, and the model of a run that names none.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Providers that can be reached: each has a key or needs none.
    pub providers: Vec<ProviderSettings>,
    /// Models beyond the built-in ones, or with other figures.
    pub models: Vec<ModelSettings>,
    /// The model of a run that names none. `None`: the first usable one of the first provider that has one, else `runbook`.
    pub default_model: Option<String>,
    /// Longest silence of a provider, at least a second: then the call counts as failed, and may be tried again.
    pub silence: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            providers: Vec::new(),
            models: Vec::new(),
            default_model: None,
            // Of a model that thinks.
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
    /// Base address; `None`: the provider's own. OpenAI's ends with `/v1`, as its clients take it.
    pub base_url: Option<Url>,
    /// The key; `None` for a server that wants none.
    pub key: Option<Credential>,
    /// Proxies and certificates of the connections to it.
    pub outbound: Outbound,
}

impl ProviderSettings {
    /// Returns the proxy of the connections to it.
    pub fn proxy(&self) -> Option<&ProxyServer> {
        self.outbound.proxy_of(&crate::catalog::base(self).ok()?)
    }
}

/// Settings of a model, beside or over the built-in entry of the same id. What is `None` is taken from the built-in entry.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    /// Name that a run's `model` takes.
    pub id: String,
    /// The name of its provider.
    pub provider: Option<String>,
    /// Name that the provider uses. Default: the id.
    pub upstream: Option<String>,
    /// A name for people. Default: the id.
    pub name: Option<String>,
    /// Most tokens of a request and its answer together.
    pub context_window: Option<u64>,
    /// Most tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Prices of the model. A model without a price is refused, unless it is declared free by prices that are all 0.
    pub prices: Option<ModelPrices>,
    /// Abilities of the model: `tools`, `structured_output`, `thinking`, `vision` (pictures), `documents` (PDF).
    pub capabilities: Option<Vec<String>>,
    /// Effort of calls whose run names none. `None` leaves it to the provider.
    pub effort: Option<Effort>,
}
