//! Provider and model that a client is made from.

use std::time::Duration;

use sortie_agent::model::Request;
use sortie_api::{Credential, Effort, model::ModelInfo};
use sortie_net::EngineClient;
use url::Url;

/// The model's message between the results of tools and a message of the user, for servers that take no other or answer
/// nothing then.
pub(crate) const RESULTS_READ: &str = "I have read the results.";

/// Wait for the end of a stream once its answer is whole.
pub(crate) const END_WAIT: Duration = Duration::from_millis(250);

/// A provider that is ready to be called.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    /// Name that models refer to.
    pub(crate) name: String,
    /// Base address, without a slash at its end.
    pub(crate) base: Url,
    /// Key of the provider, unless it wants none.
    pub(crate) key: Option<Credential>,
    /// The connections that all clients of the node share.
    pub(crate) http: EngineClient,
    /// Wait for the end of a stream once its answer is whole: a connection whose stream has ended serves the next call.
    pub(crate) end_wait: Duration,
}

/// Model of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Entry in the catalog.
    pub(crate) info: ModelInfo,
    /// Name that the provider uses.
    pub(crate) upstream: String,
    /// Effort of calls that name none.
    pub(crate) effort: Option<Effort>,
}

impl Entry {
    /// Whether the catalog says that the model can do this.
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.info.capabilities.iter().any(|own| own == capability)
    }

    /// Effort of this call; `None` where the provider decides, or the model cannot think.
    pub(crate) fn effort_of(&self, request: &Request<'_>) -> Option<Effort> {
        request.effort.or(self.effort).filter(|_| self.can("thinking"))
    }
}

/// Settings that cannot be used: a sentence for the operator that names the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(pub(crate) String);
