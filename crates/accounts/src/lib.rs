//! Accounts of a hosted deployment: people, organizations, mail, and the rules of the OAuth server. No SQL, no HTTP server.
//!
//! [`Accounts`] is the handle that the server and the command line hold. Each method of the handle is in the module of its
//! subject.

mod attempts;
mod credits;
mod email;
mod licenses;
mod mail;
mod oauth;
mod oidc;
mod operator;
mod options;
mod organizations;
mod people;
#[cfg(test)]
mod rig;
mod sealed_text;

use std::sync::Arc;

use prometheus_client::registry::Registry;
use sortie_api::{OrgId, Refusal};
use sortie_base::{Sealer, random};
use sortie_store::{
    Store,
    access::{Actor, Audit},
};

pub use mail::{ApiDeprecation, InvalidSender, InvalidServer, MailOptions, MailServer, NotSent, Sender};
pub use oauth::{
    AuthMethod, Authorization, AuthorizationRefusal, ClientMetadata, IssuedPair, MCP_PATH, OauthError,
    OauthErrorCode, OauthFailure, OauthResult, RegisteredClient, Scope, TokenRequest,
};
pub use oidc::{IdentityProvider, OidcAnswer, OidcFlow, OidcRequest, OidcSignIn, OidcVisitor, RoleRule};
pub use operator::{NewAccount, NewLink};
pub use options::Options;
pub use organizations::{InvitationStep, NewInvitationLink};
pub use people::{
    account::{PersonExport, identity_id},
    login::LoggedIn,
    passwords::Proof,
    picture::PICTURE_BYTES,
    rules::PASSWORD_BYTES,
    second_factor::EnrolledTotp,
    sessions::{Client, MOST_LISTED},
    sign_up::{RESET_PAGE, SignedUp, VERIFY_PAGE},
};

/// Result of a command on accounts.
pub type Result<T> = std::result::Result<T, Refusal>;

/// Handle on the accounts of a node. Cheap to clone; every clone is the same node.
#[derive(Clone)]
pub struct Accounts(Arc<Parts>);

/// Everything that the clones of an [`Accounts`] share.
struct Parts {
    options: Options,
    store: Store,
    sealer: Sealer,
    outbox: mail::Outbox,
    slots: people::Slots,
    jobs: people::jobs::Jobs,
    providers: Vec<oidc::Provider>,
    metrics: people::Metrics,
    oauth: oauth::Metrics,
}

impl Accounts {
    /// Creates the handle. `sealer` uses the master keys of the node.
    pub fn new(options: Options, store: Store, sealer: Sealer) -> Self {
        let metrics = people::Metrics::default();
        let outbox = mail::Outbox::new(options.mail.as_ref(), &options.org_url);
        let providers = options
            .providers
            .iter()
            .cloned()
            .map(|settings| oidc::Provider::new(settings, options.outbound.clone()))
            .collect();
        Self(Arc::new(Parts {
            options,
            store,
            sealer,
            outbox,
            slots: people::Slots::of_machine(metrics.clone()),
            jobs: people::jobs::Jobs::default(),
            providers,
            metrics,
            oauth: oauth::Metrics::default(),
        }))
    }

    /// Store of the node, for handlers that only read.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Registers the metrics of the accounts.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.0.metrics.register(registry);
        self.0.outbox.register_metrics(registry);
        self.0.oauth.register(registry);
    }

    #[cfg(test)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    /// Settings of the accounts.
    pub fn options(&self) -> &Options {
        &self.0.options
    }
}

impl Parts {
    /// Makes the audit entry of a change in `org` that happens now; see [`Actor::audit`].
    fn audit(
        &self,
        actor: &Actor,
        org: OrgId,
        action: &'static str,
        target: impl Into<String>,
    ) -> Result<Audit> {
        Ok(actor.audit((self.options.clock.now(), random()?), org, action, target))
    }
}
