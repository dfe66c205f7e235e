//! Known providers, and the protocols to call models.
//!
//! A provider is a module of this crate and an entry in [`PROVIDERS`]. This module supplies the names for the configuration, the
//! environment variables of keys and addresses, the clients and the built-in models.

use std::{fmt, sync::Arc};

use sortie_agent::Model;
use sortie_api::Micros;

use crate::{
    anthropic,
    builtin::Builtin,
    gemini, openai,
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};

/// Every known provider.
pub(crate) const PROVIDERS: &[&KnownProvider] = &[&anthropic::PROVIDER, &openai::PROVIDER, &gemini::PROVIDER];

/// A provider with known address, protocols and models.
#[derive(Debug)]
pub struct KnownProvider {
    /// Name of the provider, such as `openai`. In upper case, it is the prefix of the variables of its key and its address.
    pub name: &'static str,
    /// Protocols. The first one is the protocol of the provider's own service, the last one that of most compatible servers.
    pub(crate) apis: &'static [Api],
    pub(crate) models: &'static [Builtin],
}

impl KnownProvider {
    /// Returns every known provider.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        PROVIDERS.iter().copied()
    }

    /// Returns the default protocol of the provider at its own address.
    pub fn own_api(&self) -> Option<Api> {
        self.apis.first().copied()
    }

    /// Returns the default protocol of a server at another address.
    pub fn api_elsewhere(&self) -> Option<Api> {
        self.apis.last().copied()
    }
}

/// A protocol to call models.
#[derive(Clone, Copy)]
pub struct Api(pub(crate) &'static Protocol);

/// Creates the client of a model. Fails if an address or a key is not usable.
type Client = fn(&Provider, Entry) -> Result<Arc<dyn Model>, InvalidSettings>;

/// Properties of a protocol.
pub(crate) struct Protocol {
    /// Value of `api` in the configuration.
    pub(crate) name: &'static str,
    /// Address of the provider's own service.
    pub(crate) home: &'static str,
    pub(crate) client: Client,
    /// Creates the transport for the list of the provider's models.
    pub(crate) list: fn(&Provider) -> Result<Transport, InvalidSettings>,
    /// Default price of cache writes, in per cent of the input price.
    pub(crate) cache_write_percent: u64,
}

impl Api {
    /// Returns every protocol.
    pub fn all() -> impl Iterator<Item = Self> {
        PROVIDERS.iter().flat_map(|known| known.apis).copied()
    }

    /// Returns the protocol with this name, such as `openai-chat`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|api| api.name() == name)
    }

    /// Value of `api` in the configuration.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the default price of cache writes, rounded up, from the price of input. `None` if it is too large.
    pub fn cache_write_price(self, input: Micros) -> Option<Micros> {
        let input = u128::from(input.get().unsigned_abs());
        let price = (input * u128::from(self.0.cache_write_percent)).div_ceil(100);
        Micros::new(u64::try_from(price).ok()?).ok()
    }
}

impl PartialEq for Api {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Api {}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
