//! Authorization requests: from the query of a client to the redirect with a code.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};
use sortie_api::{
    ErrorCode, GrantId, OrgId, Refusal, Role, UserId,
    secret::{AUTHORIZATION_CODE, Secret},
};
use sortie_base::random;
use sortie_store::{access::Actor, oauth::NewGrant, people::OwnOrganization};

use super::{
    error::{OauthError, OauthErrorCode},
    parameters::Parameters,
    redirect::RedirectUri,
    request::{self, LONGEST_QUERY, Scope, missing, one},
};
use crate::{Accounts, Result};

/// Lifetime of an authorization code.
const CODE_LIFETIME: Duration = Duration::from_mins(1);
/// Maximum number of organizations that a person chooses from.
const ORGANIZATIONS: u32 = 100;

/// Valid authorization request. A person decides on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    client_id: String,
    client_name: Option<String>,
    redirect_uri: String,
    state: Option<String>,
    scope: Scope,
    challenge: String,
}

/// Reason why an authorization request is refused before a person sees it.
#[derive(Debug)]
pub enum AuthorizationRefusal {
    /// The client or the redirect URI is invalid: the text is shown on a page, without a redirect.
    Page(String),
    /// The error is sent to the client by a redirect to this URI.
    Redirect(String),
    /// Any other failure.
    Other(Refusal),
}

impl<E: Into<Refusal>> From<E> for AuthorizationRefusal {
    fn from(error: E) -> Self {
        let error = error.into();
        if error.code == ErrorCode::InvalidRequest {
            Self::Page(error.text.into_owned())
        } else {
            Self::Other(error)
        }
    }
}

impl Authorization {
    /// Name that the client calls itself by, if it has one.
    pub fn client_name(&self) -> Option<&str> {
        self.client_name.as_deref()
    }

    /// Scope that the client asks for.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Redirect URI of the request.
    fn redirect(&self) -> Result<RedirectUri> {
        RedirectUri::parse(&self.redirect_uri)
            .map_err(|rule| Refusal::internal(format!("redirect_uri: {rule}")))
    }

    /// Host of the redirect URI, or the private scheme of an app.
    pub fn redirect_host(&self) -> Result<String> {
        Ok(self.redirect()?.shown_host())
    }

    /// Returns true if the client runs on the same computer as the browser.
    pub fn is_loopback(&self) -> Result<bool> {
        Ok(self.redirect()?.is_loopback())
    }

    /// Source expression of a content security policy that allows the redirect.
    pub fn policy_source(&self) -> Result<String> {
        Ok(self.redirect()?.policy_source())
    }
}

impl Accounts {
    /// Reads an authorization request of a browser in `network`.
    pub async fn authorization(
        &self,
        query: &str,
        network: &str,
    ) -> std::result::Result<Authorization, AuthorizationRefusal> {
        let page = |error: OauthError| AuthorizationRefusal::Page(error.description);
        if query.len() > LONGEST_QUERY {
            return Err(AuthorizationRefusal::Page("the request is too long".to_owned()));
        }
        let parameters = Parameters::without_empty(query.as_bytes());
        let client_id = one(parameters, "client_id").map_err(page)?;
        let client_id = client_id.ok_or_else(|| page(missing("client_id")))?;
        let client = self.client(&client_id, network).await?.ok_or_else(|| {
            AuthorizationRefusal::Page(
                "client_id: the application is not registered, or its registration was deleted".to_owned(),
            )
        })?;
        let asked = one(parameters, "redirect_uri").map_err(page)?;
        let redirect = redirect_uri(&client.redirect_uris, asked.as_deref())
            .map_err(|rule| AuthorizationRefusal::Page(format!("redirect_uri: {rule}")))?;
        let state = parameters.one("state").unwrap_or_default();
        let asked = request::asked(parameters, &self.0.options.resources()).map_err(|error| {
            AuthorizationRefusal::Redirect(self.refusal(&redirect, state.as_deref(), &error))
        })?;
        Ok(Authorization {
            client_id: client_id.into_owned(),
            client_name: client.client_name,
            redirect_uri: redirect.as_str().to_owned(),
            state: state.map(Cow::into_owned),
            scope: asked.scope,
            challenge: asked.challenge,
        })
    }

    /// Lists the organizations of a person in which the role includes the scope of the request.
    pub async fn organizations_for(
        &self,
        user: UserId,
        authorization: &Authorization,
    ) -> Result<Vec<OwnOrganization>> {
        let mut found = self.0.store.organizations_of(user, None, ORGANIZATIONS).await?;
        found.retain(|of| of.role >= Role::from(authorization.scope) && !of.suspended);
        Ok(found)
    }

    /// Grants the client access to an organization. Returns the redirect URI with the code. Returns `Conflict` if the person may
    /// not do that.
    pub async fn allow(
        &self,
        user: UserId,
        org: OrgId,
        authorization: &Authorization,
        actor: &Actor,
    ) -> Result<String> {
        let redirect = authorization.redirect()?;
        let at = self.0.options.clock.now();
        let (id, code) = (
            GrantId::new(at, random()?),
            Secret::new(AUTHORIZATION_CODE, random()?),
        );
        let client_name = match &authorization.client_name {
            Some(name) => name.clone(),
            None => redirect.shown_host(),
        };
        let grant = NewGrant {
            id,
            org,
            user,
            client_id: authorization.client_id.clone(),
            client_name,
            scope: authorization.scope.into(),
            created_at: at,
            code_hash: code.hash(),
            redirect_uri: authorization.redirect_uri.clone(),
            challenge: authorization.challenge.clone(),
            code_expires_at: at + CODE_LIFETIME,
        };
        let audit = self.0.audit(actor, org, "grant.create", id.to_string())?;
        self.0.store.create_grant(grant, audit).await?;
        let mut answer = vec![("code", code.expose())];
        answer.extend(authorization.state.as_deref().map(|state| ("state", state)));
        answer.push(("iss", &self.0.options.org_url));
        Ok(redirect.with(&answer))
    }

    /// Returns the redirect URI that reports the refusal of the person to the client.
    pub fn deny(&self, authorization: &Authorization) -> Result<String> {
        let denied = OauthErrorCode::AccessDenied.because("the person has refused");
        Ok(self.refusal(
            &authorization.redirect()?,
            authorization.state.as_deref(),
            &denied,
        ))
    }

    fn refusal(&self, redirect: &RedirectUri, state: Option<&str>, error: &OauthError) -> String {
        let mut answer = vec![
            ("error", error.code.as_str()),
            ("error_description", &error.description),
        ];
        answer.extend(state.map(|state| ("state", state)));
        answer.push(("iss", &self.0.options.org_url));
        redirect.with(&answer)
    }
}

/// Finds the redirect URI of the request. A client with a single registered URI may omit it.
fn redirect_uri(
    registered: &[String],
    asked: Option<&str>,
) -> std::result::Result<RedirectUri, &'static str> {
    let wanted = match (asked, registered) {
        (Some(asked), _) => asked,
        (None, [only]) => only,
        (None, _) => return Err("required"),
    };
    let is_registered = registered
        .iter()
        .any(|uri| RedirectUri::parse(uri).is_ok_and(|uri| uri.allows(wanted)));
    if !is_registered {
        return Err("the application has not registered this address");
    }
    RedirectUri::parse(wanted)
}
