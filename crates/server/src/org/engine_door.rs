//! Credentials of the engine API, and the sign-in of people at a self-hosted engine.

use std::sync::Arc;

use axum::{Router, body::Body, response::Response};
use http::Request;
use sortie_accounts::Accounts;
use sortie_api::{Refusal, secret::Presented};
use sortie_store::{
    access::{By, Principal},
    people::SignedIn,
};

use crate::{
    browsers::Browsers,
    gate::pass,
    kit::{Challenges, Credential},
    pages,
};

/// Look-up of credentials for the gate of the engine API.
pub(crate) struct EngineDoor {
    /// Challenges of the refusals.
    pub(crate) challenges: Challenges,
    /// Rules for browsers; none without a console and a sign-in, and on hosted deployments.
    pub(crate) browsers: Option<Arc<Browsers>>,
    /// Sign-in of people; none without identity providers, and on hosted deployments.
    pub(crate) sign_in: Option<SignInDoor>,
}

/// Sign-in of people at a self-hosted engine.
pub(crate) struct SignInDoor {
    /// The accounts.
    pub(crate) accounts: Accounts,
    /// Router of the pages.
    pub(crate) pages: Router,
}

impl EngineDoor {
    /// Answers a request: a page where people sign in, or an operation of the engine.
    pub(crate) async fn answer(&self, mut request: Request<Body>, engine: &Router) -> Response {
        let Some(sign_in) = &self.sign_in else {
            return pass(engine, request).await;
        };
        if pages::is_page(request.uri().path()) {
            return pass(&sign_in.pages, request).await;
        }
        if let Some(Credential::Person(person)) = request.extensions().get() {
            let credential = match sign_in.principal(*person).await {
                Ok(Some(principal)) => Credential::Principal(principal),
                // A person without a role has no credential of the engine.
                Ok(None) => Credential::Invalid,
                Err(error) => Credential::Unchecked(error),
            };
            request.extensions_mut().insert(credential);
        }
        pass(engine, request).await
    }
}

impl SignInDoor {
    /// Finds the person of a session. None for every other credential.
    pub(crate) async fn find(&self, credential: Presented<'_>) -> Result<Option<Credential>, Refusal> {
        let person = self.accounts.session(credential).await?;
        Ok(person.map(Credential::Person))
    }

    /// Finds the principal of a person's session in the organization of the engine. None where the person has no role.
    async fn principal(&self, person: SignedIn) -> Result<Option<Principal>, Refusal> {
        let organizations = self
            .accounts
            .store()
            .organizations_of(person.user, None, 1)
            .await?;
        Ok(organizations.into_iter().next().map(|organization| Principal {
            org: organization.id,
            role: organization.role,
            by: By::Session(person.session),
            until: Some(person.until),
            user: Some(person.user),
            suspended: organization.suspended,
            scope: None,
            session_key: None,
        }))
    }
}
