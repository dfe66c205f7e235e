//! Models: clients of the supported providers, and the catalog with their prices.
//!
//! A client makes one streamed call: it converts a [`Request`](sortie_agent::model::Request) to the provider's wire format and
//! the provider's stream to one [`Reply`](sortie_agent::model::Reply). It neither retries nor charges: it reports if a retry
//! makes sense, and the usage that the provider counted.

mod answer;
mod anthropic;
mod arguments;
mod builtin;
mod catalog;
mod endpoint;
mod estimate;
mod gemini;
mod json;
mod known;
mod media;
mod openai;
mod optional;
mod probe;
mod provider;
mod settings;
mod stop;
#[cfg(test)]
mod test_server;
mod transport;
mod wire;

use sortie_agent::surrogates;

pub use builtin::builtin_provider;
pub use catalog::{Catalog, catalog};
pub use known::{Api, KnownProvider};
pub use probe::{Probed, probe};
pub use provider::InvalidSettings;
pub use settings::{ModelSettings, ProviderSettings, Settings};
