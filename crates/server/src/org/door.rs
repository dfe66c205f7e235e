//! Credentials of the organization API, and access of a signed-in browser to the engine API.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{Extensions, Request, Uri, uri::PathAndQuery};
use sortie_accounts::Accounts;
use sortie_api::{
    ErrorCode, OrgId, Refusal,
    secret::{HOSTED_KEY, Presented},
};
use sortie_engine::Engine;
use sortie_store::people::SignedIn;

use crate::{
    browsers::Browsers,
    gate::pass,
    kit::{ApiResult, Credential},
};

/// First segment of the paths that lead to the engine API: the organization and a path of the engine follow.
const ENGINE: &str = "/engine/";

/// Look-up of credentials for the gate of the organization API.
pub(crate) struct OrganizationDoor {
    /// The accounts.
    pub(crate) accounts: Accounts,
    /// The node, which knows the API keys.
    pub(crate) engine: Engine,
    /// Rules for browsers.
    pub(crate) browsers: Arc<Browsers>,
    /// Router of the engine API.
    pub(crate) engine_router: Router,
}

impl OrganizationDoor {
    /// Finds a credential; none if it is not valid. Recognizes API keys, so that their refusal can say so.
    pub(crate) async fn find(&self, credential: Presented<'_>) -> Result<Option<Credential>, Refusal> {
        if let Some(person) = self.accounts.session(credential).await? {
            return Ok(Some(Credential::Person(person)));
        }
        if credential.is(HOSTED_KEY) {
            let principal = self.engine.authenticate(credential).await?;
            return Ok(principal.map(Credential::Principal));
        }
        let is_operator = self.accounts.is_operator(credential).await?;
        Ok(is_operator.then_some(Credential::Operator))
    }

    /// Returns true where a path leads to the engine API.
    pub(crate) fn leads_to_engine(uri: &Uri) -> bool {
        uri.path().starts_with(ENGINE)
    }

    /// Answers a request to the engine API that a person makes in the organization of the path.
    pub(crate) async fn engine(&self, mut request: Request<Body>) -> Response {
        match self.enter_engine(&mut request).await {
            Ok(()) => pass(&self.engine_router, request).await,
            Err(refusal) => refusal.into_response(),
        }
    }

    /// Turns the request into one to the engine API: with the path after the organization, and with the person's role there.
    async fn enter_engine(&self, request: &mut Request<Body>) -> ApiResult<()> {
        let person = person(request.extensions())?;
        let (org, target) = split(request.uri()).ok_or_else(Refusal::not_found)?;
        let principal = self
            .engine
            .authenticate_session(org, &person)
            .await?
            .ok_or_else(Refusal::not_found)?;
        *request.uri_mut() = target;
        request.extensions_mut().insert(Credential::Principal(principal));
        Ok(())
    }
}

/// Returns the person who owns the session of a request's credential.
pub(super) fn person(extensions: &Extensions) -> Result<SignedIn, Refusal> {
    let Credential::Person(person) = Credential::valid(extensions, "session token")? else {
        return Err(ErrorCode::Forbidden
            .because("this needs a person who is signed in: send the token of a session, not an API key"));
    };
    Ok(*person)
}

/// Returns the organization of a path to the engine API, and the target after it.
fn split(uri: &Uri) -> Option<(OrgId, Uri)> {
    let rest = uri.path().strip_prefix(ENGINE)?;
    let slash = rest.find('/')?;
    let (org, path) = rest.split_at(slash);
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let target = PathAndQuery::try_from(target).ok()?;
    Some((org.parse().ok()?, Uri::from(target)))
}

#[cfg(test)]
mod tests {
    use sortie_api::Timestamp;

    use super::*;

    #[test]
    fn a_path_to_the_engine_has_an_organization_and_a_path_behind_it() {
        let org = OrgId::new(Timestamp::from_micros(1_763_674_200_000_000), [5; 10]);
        let found = |path: &str| {
            let (org, target) = split(&path.parse().unwrap())?;
            Some((org, target.to_string()))
        };
        assert_eq!(
            found(&format!("/engine/{org}/v1/runs?limit=2")),
            Some((org, "/v1/runs?limit=2".to_owned()))
        );
        assert_eq!(found(&format!("/engine/{org}/")), Some((org, "/".to_owned())));
        assert_eq!(found(&format!("/engine/{org}")), None);
        assert_eq!(found("/engine/org_x/v1/runs"), None);
        assert_eq!(found("/engine//v1/runs"), None);
    }
}
