//! Provider and model of a client.

use std::time::Duration;

use sortie_agent::model::Request;
use sortie_api::{Credential, Effort, model::ModelInfo};
use sortie_net::EngineClient;
use url::Url;

/// Assistant message between tool results and a user message, for servers that reject that sequence or return an empty answer to
/// it.
pub(crate) const RESULTS_READ: &str = "I have read the results.";

/// Time to wait for the end of a stream after its answer is complete.
pub(crate) const END_WAIT: Duration = Duration::from_millis(250);

/// Connection data of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    /// Name that models refer to.
    pub(crate) name: String,
    /// Base address, without a trailing slash.
    pub(crate) base: Url,
    /// Key of the provider, unless it requires none.
    pub(crate) key: Option<Credential>,
    /// Connection pool that all clients of the node share.
    pub(crate) http: EngineClient,
    /// Time to wait for the end of a stream after its answer is complete. If the stream ends in time, the connection is reused.
    pub(crate) end_wait: Duration,
}

/// Model of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Entry in the catalog.
    pub(crate) info: ModelInfo,
    /// Name that the provider uses.
    pub(crate) upstream: String,
    /// Effort of calls that do not specify one.
    pub(crate) effort: Option<Effort>,
}

impl Entry {
    /// Whether the catalog lists this capability for the model.
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.info.capabilities.iter().any(|own| own == capability)
    }

    /// Returns the effort of this call. `None` if the provider decides, or the model cannot think.
    pub(crate) fn effort_of(&self, request: &Request<'_>) -> Option<Effort> {
        request.effort.or(self.effort).filter(|_| self.can("thinking"))
    }
}

/// Invalid settings: a sentence for the operator that names the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(pub(crate) String);
