//! Caller of a request. The gate looks the credential up once and leaves a [`Credential`] on the request; the
//! extractors [`Member`] and [`Admin`] of the engine API turn it into a role or a refusal, and give the handler the
//! organization to work in. The organization API has its own extractors ([`org`](crate::org)).

use std::{convert::Infallible, net::IpAddr};

use axum::extract::FromRequestParts;
use http::{Extensions, HeaderMap, header::AUTHORIZATION, request::Parts};
use sortie_api::{OrgId, Role, TraceContext, UserId};
use sortie_engine::{Caller, Hop};
use sortie_store::{
    access::{Actor, By, Principal},
    people::SignedIn,
};

use super::{ApiError, ApiResult, RequestId};

/// Result of looking up the request's `Authorization` header.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// There is none.
    Missing,
    /// Malformed, unknown, expired or revoked.
    Invalid,
    /// Valid, and whose it is.
    Valid(Holder),
    /// Not looked up, because of this failure.
    Unchecked(LookUpFailure),
}

/// Holder of a valid credential.
#[derive(Clone, Debug)]
pub(crate) enum Holder {
    /// Organization and role of an API key or an access token, or of a session in the engine.
    Principal(Principal),
    /// Person with a session.
    Person(SignedIn),
    /// Operator of the installation.
    Operator,
}

impl Holder {
    /// Subject that the requests of the holder are counted for.
    pub(crate) const fn subject(&self) -> By {
        match self {
            Self::Principal(principal) => principal.by,
            Self::Person(person) => By::Session(person.session),
            Self::Operator => By::Operator,
        }
    }
}

/// Reason why a credential was not looked up.
#[derive(Clone, Debug)]
pub(crate) enum LookUpFailure {
    /// A dependency is away for the moment; the text is for the client.
    Unavailable(String),
    /// The text is for the log.
    Internal(String),
}

impl From<sortie_engine::Error> for LookUpFailure {
    fn from(error: sortie_engine::Error) -> Self {
        if let sortie_engine::Error::Unavailable(reason) = error {
            Self::Unavailable(reason)
        } else {
            Self::Internal(error.to_string())
        }
    }
}

impl From<sortie_accounts::Error> for LookUpFailure {
    fn from(error: sortie_accounts::Error) -> Self {
        if let sortie_accounts::Error::Unavailable(reason) = error {
            Self::Unavailable(reason)
        } else {
            Self::Internal(error.to_string())
        }
    }
}

impl From<LookUpFailure> for ApiError {
    fn from(failure: LookUpFailure) -> Self {
        match failure {
            LookUpFailure::Unavailable(reason) => Self::unavailable(reason),
            LookUpFailure::Internal(reason) => Self::internal(reason),
        }
    }
}

/// The token of `Authorization: Bearer …`; `None` where there is no such header. What is not a bearer token is the
/// empty one, which is never valid.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some("");
    }
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    Some(token.unwrap_or(""))
}

/// Origin of a request, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct RequestOrigin {
    /// The client's address.
    pub(crate) address: IpAddr,
    /// The request's id.
    pub(crate) request_id: RequestId,
    /// The trace that it belongs to.
    pub(crate) trace: Option<TraceContext>,
}

/// Sender of a request: a client, or another node. The gate marks requests of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed(pub(crate) Hop);

impl<S: Send + Sync> FromRequestParts<S> for Passed {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(parts
            .extensions
            .get::<Self>()
            .copied()
            .unwrap_or(Self(Hop::First)))
    }
}

/// A credential that may work with runs: every valid one.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The organization the request is about.
    pub(crate) org: OrgId,
    /// Role of the credential.
    pub(crate) role: Role,
    /// Author of changes, for the audit log.
    pub(crate) actor: Actor,
}

impl Member {
    /// On whose behalf the engine acts.
    pub(crate) fn caller(&self) -> Caller {
        caller(self.org, &self.actor)
    }
}

/// A credential that may also administer the engine.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    /// The organization the request is about.
    pub(crate) org: OrgId,
    /// Subject of the credential.
    pub(crate) by: By,
    /// Author of changes, for the audit log.
    pub(crate) actor: Actor,
}

impl Admin {
    /// On whose behalf the engine acts.
    pub(crate) fn caller(&self) -> Caller {
        caller(self.org, &self.actor)
    }
}

/// Whoever calls a public route that changes something: no key is asked for, and none is written down.
#[derive(Clone, Debug)]
pub(crate) struct Anybody {
    /// Author of changes, for the audit log.
    pub(crate) actor: Actor,
}

fn caller(org: OrgId, actor: &Actor) -> Caller {
    Caller {
        org,
        actor: actor.clone(),
    }
}

/// Author of the changes of a request, by a credential of this subject and person.
pub(crate) fn actor(parts: &Parts, by: Option<By>, user: Option<UserId>) -> Actor {
    let origin = parts.extensions.get::<RequestOrigin>();
    Actor {
        by,
        user,
        address: origin.map(|origin| origin.address),
        request_id: origin.map(|origin| origin.request_id.as_str().to_owned()),
        trace: origin.and_then(|origin| origin.trace.clone()),
    }
}

/// Returns the holder of the credential of a request, or else the refusal. `wanted` names the credential that an API takes.
pub(crate) fn holder<'a>(extensions: &'a Extensions, wanted: &str) -> ApiResult<&'a Holder> {
    match extensions.get::<Credential>() {
        Some(Credential::Valid(holder)) => Ok(holder),
        Some(Credential::Invalid) => Err(ApiError::unauthorized(
            "the credential is invalid, expired or revoked",
        )),
        Some(Credential::Unchecked(failure)) => Err(failure.clone().into()),
        Some(Credential::Missing) | None => Err(ApiError::unauthorized(format!(
            "a credential is required: send Authorization: Bearer <{wanted}>"
        ))),
    }
}

/// Returns the principal of a request to the engine. A suspended organization is refused here, for every operation that
/// needs a role.
fn principal(parts: &Parts) -> ApiResult<Principal> {
    match holder(&parts.extensions, "API key")? {
        Holder::Principal(principal) if principal.suspended => {
            Err(ApiError::forbidden("the organization is suspended"))
        }
        Holder::Principal(principal) => Ok(*principal),
        Holder::Person(_) | Holder::Operator => Err(ApiError::unauthorized(
            "this credential is not one of the engine API: send an API key or an access token",
        )),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Member {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let principal = principal(parts)?;
        Ok(Self {
            org: principal.org,
            role: principal.role,
            actor: actor(parts, Some(principal.by), principal.user),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let principal = principal(parts)?;
        if principal.scope.is_some_and(|scope| scope < Role::Admin) {
            return Err(ApiError::insufficient_scope(
                "this needs an access token with the scope admin",
            ));
        }
        if principal.role < Role::Admin {
            return Err(ApiError::forbidden("this needs the role admin"));
        }
        Ok(Self {
            org: principal.org,
            by: principal.by,
            actor: actor(parts, Some(principal.by), principal.user),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Anybody {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self {
            actor: actor(parts, None, None),
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use http::{HeaderValue, Request};
    use sortie_api::{KeyId, SessionId, Timestamp};
    use sortie_store::people::SessionKind;

    use super::*;

    fn token(values: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn the_bearer_token_is_read_and_anything_else_is_an_invalid_one() {
        assert_eq!(token(&[]), None);
        assert_eq!(token(&["Bearer sts_x"]).as_deref(), Some("sts_x"));
        assert_eq!(token(&["bearer  sts_x "]).as_deref(), Some("sts_x"));
        for bad in ["Basic eDp5", "Bearer", "", "sts_x", "Bearersts_x"] {
            assert_eq!(token(&[bad]).as_deref(), Some(""), "{bad}");
        }
        assert_eq!(
            token(&["Bearer a", "Bearer b"]).as_deref(),
            Some(""),
            "two credentials are none"
        );
    }

    fn with(credential: Option<Credential>) -> Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        if let Some(credential) = credential {
            parts.extensions.insert(credential);
        }
        parts
    }

    fn key(role: Role) -> Credential {
        let at = Timestamp::from_micros(0);
        Credential::Valid(Holder::Principal(Principal {
            by: By::Key(KeyId::new(at, [1; 10])),
            org: OrgId::new(at, [2; 10]),
            role,
            until: None,
            user: None,
            suspended: false,
            scope: None,
        }))
    }

    async fn statuses(credential: Option<Credential>) -> (u16, u16) {
        let mut parts = with(credential);
        let status = |error: ApiError| error.into_response().status().as_u16();
        let member = Member::from_request_parts(&mut parts, &())
            .await
            .map_or_else(status, |_| 200);
        let admin = Admin::from_request_parts(&mut parts, &())
            .await
            .map_or_else(status, |_| 200);
        (member, admin)
    }

    #[tokio::test]
    async fn each_role_opens_what_it_may() {
        assert_eq!(statuses(None).await, (401, 401));
        assert_eq!(statuses(Some(Credential::Missing)).await, (401, 401));
        assert_eq!(statuses(Some(Credential::Invalid)).await, (401, 401));
        assert_eq!(statuses(Some(key(Role::Member))).await, (200, 403));
        assert_eq!(statuses(Some(key(Role::Admin))).await, (200, 200));
        assert_eq!(statuses(Some(key(Role::Owner))).await, (200, 200));
        let away = LookUpFailure::Unavailable("the database is unavailable".to_owned());
        assert_eq!(statuses(Some(Credential::Unchecked(away))).await, (503, 503));
        let at = Timestamp::from_micros(0);
        let person = SignedIn {
            user: UserId::new(at, [3; 10]),
            session: SessionId::new(at, [4; 10]),
            kind: SessionKind::Api,
            until: at,
            seen_at: at,
            email_verified: true,
        };
        for other in [Holder::Person(person), Holder::Operator] {
            assert_eq!(statuses(Some(Credential::Valid(other))).await, (401, 401));
        }
        let Credential::Valid(Holder::Principal(principal)) = key(Role::Admin) else {
            panic!("a key has a principal");
        };
        let suspended = Principal {
            suspended: true,
            ..principal
        };
        let suspended = Credential::Valid(Holder::Principal(suspended));
        assert_eq!(statuses(Some(suspended)).await, (403, 403));
    }
}
