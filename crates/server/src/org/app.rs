//! State that the handlers of the organization API share.

use std::sync::Arc;

use axum::extract::FromRef;
use bytes::Bytes;
use sortie_accounts::Accounts;
use sortie_api::{ErrorCode, Refusal};
use sortie_billing::Billing;
use sortie_engine::Engine;

use crate::{
    browsers::Browsers,
    kit::{BodyBudget, Cursors, SessionCookie, TrustedProxies},
};

/// The state of the router; handlers get it as `State<Arc<OrgApp>>`.
pub(crate) struct OrgApp {
    /// The accounts.
    pub(crate) accounts: Accounts,
    /// The payments; none if nothing can be bought.
    pub(crate) billing: Option<Billing>,
    /// The node.
    pub(crate) engine: Engine,
    /// The memory for the bodies of requests, shared with the engine API.
    pub(crate) bodies: BodyBudget,
    /// Proxies that are trusted to name the address of a client.
    pub(crate) proxies: TrustedProxies,
    /// The rules for browsers.
    pub(crate) browsers: Arc<Browsers>,
    /// The cookie of forms before a sign-in.
    pub(crate) form_cookie: SessionCookie,
    /// Cursors of lists.
    pub(crate) cursors: Cursors,
    /// `/openapi.json`, serialized once.
    pub(crate) document: Bytes,
}

impl OrgApp {
    /// Returns the payments.
    pub(crate) fn billing(&self) -> Result<&Billing, Refusal> {
        let missing = || ErrorCode::Conflict.because("this deployment does not accept payments");
        self.billing.as_ref().ok_or_else(missing)
    }
}

impl FromRef<Arc<OrgApp>> for BodyBudget {
    fn from_ref(app: &Arc<OrgApp>) -> Self {
        app.bodies.clone()
    }
}
