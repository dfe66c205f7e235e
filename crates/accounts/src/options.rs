//! Settings of accounts from the configuration.

use std::{sync::Arc, time::Duration};

use sortie_api::{Mode, SignUpRule};
use sortie_base::{Clock, LicenseSigner};
use sortie_net::Outbound;

use crate::{mail::MailOptions, oidc::IdentityProvider};

/// Settings of accounts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Deployment mode. On a self-hosted engine people can sign in only with identity providers.
    pub mode: Mode,
    /// Source of the time.
    pub clock: Clock,
    /// Address of the organization API and its pages, without a final slash. It is the OAuth issuer.
    pub org_url: String,
    /// Address of the engine API, without a final slash. It is the OAuth resource.
    pub engine_url: String,
    /// Rule for new accounts.
    pub sign_up: SignUpRule,
    /// Settings of the mail. `None` if no mail is sent.
    pub mail: Option<MailOptions>,
    /// Identity providers that people sign in with.
    pub providers: Vec<IdentityProvider>,
    /// Proxies and certificates of the connections to identity providers and to the documents of applications.
    pub outbound: Outbound,
    /// Key that signs licenses for self-hosted engines. `None` if the deployment issues no licenses.
    pub license_signer: Option<Arc<LicenseSigner>>,
    /// Time for which the look-up of a session is cached.
    pub credential_lookup: Duration,
}
