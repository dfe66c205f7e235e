//! Sign-in with an identity provider (`OpenID` Connect Core 1.0): authorization code with PKCE, state and nonce.
//!
//! The provider identifies a person by an ID token, signed with `RS256` or `ES256`. From then on, issuer and subject identify the
//! person. The address is used only once: at the first sign-in, if the provider is trusted for its domain.

mod document;
mod failure;
mod keys;
mod metadata;
mod provider;
mod roles;
mod sign_in;
mod signature;
#[cfg(test)]
mod tests;
mod token;

use sortie_api::Credential;
use sortie_base::Clock;
use sortie_net::Outbound;

pub(crate) use metadata::issuer_url;
pub(crate) use provider::Provider;
pub use roles::RoleRule;
pub use sign_in::{OidcAnswer, OidcFlow, OidcRequest, OidcSignIn, OidcVisitor};

/// Identity provider that people sign in with.
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    /// Name in addresses: lower-case letters, digits and hyphens.
    pub name: String,
    /// Name of the provider on the sign-in page.
    pub label: String,
    /// Issuer, exactly as the provider writes it.
    pub issuer: String,
    /// ID of this deployment at the provider.
    pub client_id: String,
    /// Secret of this deployment at the provider.
    pub client_secret: Credential,
    /// Domains, in lower case. The provider is trusted for addresses in them.
    pub trusted_domains: Vec<String>,
    /// Scopes to request in addition to `openid email profile`.
    pub scopes: Vec<String>,
    /// Rule for the roles of people on a self-hosted engine; absent on a hosted deployment.
    pub roles: Option<RoleRule>,
}

impl IdentityProvider {
    /// Returns true if a text can be an issuer: an `https` address, or an address of this machine.
    pub fn is_issuer(text: &str) -> bool {
        issuer_url(text).is_some()
    }

    /// Path of the callback, below the address of the pages.
    pub fn callback_path(&self) -> String {
        format!("/sign-in/oidc/{}/callback", self.name)
    }

    /// Fetches and checks the metadata of the provider. The error text is for the operator.
    pub async fn probe(&self, outbound: &Outbound) -> Result<(), String> {
        let provider = Provider::new(self.clone(), outbound.clone());
        let read = provider.metadata(&Clock::system()).await;
        read.map(drop).map_err(|failure| failure.to_string())
    }
}
