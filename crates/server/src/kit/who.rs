//! Caller of a request. The gate looks the credential up once and leaves a [`Credential`] on the request; the
//! extractors [`Member`] and [`Admin`] turn it into a role or a refusal, and give the handler the organization to work
//! in.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::extract::FromRequestParts;
use http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use sortie_api::{OrgId, Role, TraceContext};
use sortie_engine::{Caller, Hop};
use sortie_store::{Actor, By, Principal};

use super::{ApiError, ApiResult, RequestId};

/// Result of looking up the request's `Authorization` header.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// There is none.
    Missing,
    /// Malformed, unknown, expired or revoked.
    Invalid,
    /// Valid, and whose it is.
    Valid(Principal),
    /// Not looked up, because of this failure.
    Unchecked(Arc<sortie_engine::Error>),
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
pub(crate) struct Whence {
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

fn actor(parts: &Parts, principal: Option<&Principal>) -> Actor {
    let whence = parts.extensions.get::<Whence>();
    Actor {
        by: principal.map(|principal| principal.by),
        user: principal.and_then(|principal| principal.user),
        address: whence.map(|whence| whence.address),
        request_id: whence.map(|whence| whence.request_id.as_str().to_owned()),
        trace: whence.and_then(|whence| whence.trace.clone()),
    }
}

fn principal(parts: &Parts) -> ApiResult<Principal> {
    match parts.extensions.get::<Credential>() {
        Some(Credential::Valid(principal)) => Ok(*principal),
        Some(Credential::Invalid) => Err(ApiError::unauthorized(
            "the credential is invalid, expired or revoked",
        )),
        Some(Credential::Unchecked(error)) => Err(unchecked(error)),
        Some(Credential::Missing) | None => Err(ApiError::unauthorized(
            "a credential is required: send Authorization: Bearer <API key>",
        )),
    }
}

fn unchecked(error: &sortie_engine::Error) -> ApiError {
    if let sortie_engine::Error::Unavailable(reason) = error {
        ApiError::unavailable(reason.clone())
    } else {
        ApiError::internal(error.to_string())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Member {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let principal = principal(parts)?;
        Ok(Self {
            org: principal.org,
            role: principal.role,
            actor: actor(parts, Some(&principal)),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let principal = principal(parts)?;
        if principal.role < Role::Admin {
            return Err(ApiError::forbidden("this needs the role admin"));
        }
        Ok(Self {
            org: principal.org,
            by: principal.by,
            actor: actor(parts, Some(&principal)),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Anybody {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self {
            actor: actor(parts, None),
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use http::{HeaderValue, Request};
    use sortie_api::{KeyId, Timestamp};

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
        Credential::Valid(Principal {
            by: By::Key(KeyId::new(at, [1; 10])),
            org: OrgId::new(at, [2; 10]),
            role,
            until: None,
            user: None,
            suspended: false,
            scope: None,
        })
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
        let away = sortie_engine::Error::Unavailable("the database is unavailable".into());
        assert_eq!(
            statuses(Some(Credential::Unchecked(Arc::new(away)))).await,
            (503, 503)
        );
    }
}
