//! Caller of a request. The gate looks the credential up once and leaves a [`Credential`] on the request. The extractor
//! [`AtLeast`] turns it into a [`Caller`] with a role, or a refusal. Each API has its own rules for that: see
//! [`AtLeast::of_credential`] for the engine, and [`org`](crate::org).

use std::ops::Deref;

use http::{Extensions, HeaderMap, header::AUTHORIZATION, request::Parts};
use sortie_api::{ErrorCode, Refusal, Role, UserId, run_token::RunPermission};
use sortie_engine::RunGrant;
use sortie_store::{
    access::{Actor, By, Caller, Principal},
    people::SignedIn,
};

use super::{ApiError, ApiResult};

/// Credential of a request, as found by the gate.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// The request has no credential.
    Missing,
    /// Malformed, unknown, expired or revoked.
    Invalid,
    /// Not looked up, because of this failure.
    Unchecked(Refusal),
    /// API key or access token, or session in the engine, with its organization and role.
    Principal(Principal),
    /// Session of a person.
    Person(SignedIn),
    /// Token for one run, with the principal of the API key that made it.
    RunToken(RunGrant, Principal),
    /// Key of the operator of the installation.
    Operator,
}

impl Credential {
    /// Subject of the rate limit for requests with the credential; `None` if it is not valid.
    pub(crate) const fn subject(&self) -> Option<By> {
        match self {
            Self::Principal(principal) => Some(principal.by),
            Self::Person(person) => Some(By::Session(person.session)),
            Self::RunToken(grant, _) => Some(By::RunToken(grant.run)),
            Self::Operator => Some(By::Operator),
            Self::Missing | Self::Invalid | Self::Unchecked(_) => None,
        }
    }

    /// Returns the credential of a request, or the refusal if it is not valid. `wanted` names the credential that an API accepts.
    pub(crate) fn valid<'a>(extensions: &'a Extensions, wanted: &str) -> Result<&'a Self, Refusal> {
        match extensions.get() {
            Some(valid @ (Self::Principal(_) | Self::Person(_) | Self::RunToken(..) | Self::Operator)) => {
                Ok(valid)
            }
            Some(Self::Invalid) => {
                Err(ErrorCode::Unauthorized.because("the credential is invalid, expired or revoked"))
            }
            Some(Self::Unchecked(failure)) => Err(failure.clone()),
            Some(Self::Missing) | None => Err(ErrorCode::Unauthorized.because(format!(
                "a credential is required: send Authorization: Bearer <{wanted}>"
            ))),
        }
    }
}

/// Returns the token of `Authorization: Bearer …`, or `None` without the header. A value that is not a bearer token becomes the
/// empty token, which is never valid.
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

/// Proof that the credential of a request has at least one role in an organization. On the engine API it is the organization
/// of the credential, on the organization API that of the path.
#[derive(Clone, Debug)]
pub(crate) struct AtLeast<const ROLE: u8> {
    caller: Caller,
    /// Role of the credential in the organization.
    pub(crate) role: Role,
    is_suspended: bool,
}

/// Proof of any role.
pub(crate) type Member = AtLeast<{ Role::Member as u8 }>;

/// Proof of the role of an admin or of the owner.
pub(crate) type Admin = AtLeast<{ Role::Admin as u8 }>;

/// Proof of the role of the owner.
pub(crate) type Owner = AtLeast<{ Role::Owner as u8 }>;

impl<const ROLE: u8> AtLeast<ROLE> {
    /// Checks the role of a caller. `is_suspended` tells if the organization is suspended.
    pub(crate) fn check(caller: Caller, role: Role, is_suspended: bool) -> ApiResult<Self> {
        if (role as u8) < ROLE {
            // Member is the lowest role.
            let least = if ROLE == Role::Admin as u8 {
                Role::Admin
            } else {
                Role::Owner
            };
            return Err(ErrorCode::Forbidden
                .because(format!("this needs the role {least}"))
                .into());
        }
        Ok(Self {
            caller,
            role,
            is_suspended,
        })
    }

    /// Checks the credential of a request to the engine API. A suspended organization is refused.
    pub(crate) fn of_credential(parts: &Parts) -> ApiResult<Self> {
        let principal = principal(parts)?;
        if principal.scope.is_some_and(|scope| (scope as u8) < ROLE) {
            return Err(ApiError::insufficient_scope(
                "this needs an access token with the scope admin",
            ));
        }
        let caller = Caller {
            org: principal.org,
            actor: Actor {
                session_key: principal.session_key,
                ..actor(parts, Some(principal.by), principal.user)
            },
        };
        Self::check(caller, principal.role, principal.suspended)
    }

    /// Refuses the request while the organization is suspended.
    pub(crate) fn require_active(&self) -> Result<(), Refusal> {
        if self.is_suspended {
            return Err(ErrorCode::Forbidden.because("the organization is suspended"));
        }
        Ok(())
    }
}

impl<const ROLE: u8> Deref for AtLeast<ROLE> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// Actor for the changes of a request by a credential of this subject and person. The gate stores the other fields on the
/// request.
pub(crate) fn actor(parts: &Parts, by: Option<By>, user: Option<UserId>) -> Actor {
    let request = parts.extensions.get::<Actor>().cloned().unwrap_or_default();
    Actor { by, user, ..request }
}

/// Returns the principal of a request to the engine. A suspended organization is refused here, for every operation that
/// needs a role.
fn principal(parts: &Parts) -> Result<Principal, Refusal> {
    let principal = match Credential::valid(&parts.extensions, "API key")? {
        Credential::Principal(principal) => principal,
        Credential::RunToken(..) => {
            return Err(ErrorCode::Forbidden.because("a run token is for its run only: send an API key"));
        }
        Credential::Person(_)
        | Credential::Operator
        | Credential::Missing
        | Credential::Invalid
        | Credential::Unchecked(_) => {
            return Err(ErrorCode::Unauthorized.because(
                "this credential is not one of the engine API: send an API key or an access token",
            ));
        }
    };
    refuse_suspended(principal)?;
    Ok(*principal)
}

fn refuse_suspended(principal: &Principal) -> Result<(), Refusal> {
    if principal.suspended {
        return Err(ErrorCode::Forbidden.because("the organization is suspended"));
    }
    Ok(())
}

/// Proof that the credential of a request permits something with the run of the path: any credential with the role of a
/// member, or a token of that run.
#[derive(Clone, Debug)]
pub(crate) struct OfRun<const PERMISSION: u8>(Caller);

/// Proof of [`RunPermission::Read`].
pub(crate) type RunReader = OfRun<{ RunPermission::Read as u8 }>;

/// Proof of [`RunPermission::Cancel`].
pub(crate) type RunCanceller = OfRun<{ RunPermission::Cancel as u8 }>;

impl<const PERMISSION: u8> OfRun<PERMISSION> {
    /// Checks the credential of a request to the path of the run `run`.
    pub(crate) fn of_credential(parts: &Parts, run: &str) -> ApiResult<Self> {
        let Some(Credential::RunToken(grant, principal)) = parts.extensions.get() else {
            return Ok(Self(Member::of_credential(parts)?.caller));
        };
        refuse_suspended(principal)?;
        // For a token, other runs do not exist.
        if grant.run.to_string() != run {
            return Err(ErrorCode::NotFound.because("no such run").into());
        }
        if !grant.permits(PERMISSION) {
            return Err(ErrorCode::Forbidden
                .because("the run token does not permit this")
                .into());
        }
        Ok(Self(Caller {
            org: principal.org,
            actor: actor(parts, Some(By::RunToken(grant.run)), None),
        }))
    }
}

impl<const PERMISSION: u8> Deref for OfRun<PERMISSION> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use http::{HeaderValue, Request};
    use sortie_api::{KeyId, OrgId, SessionId, Timestamp};
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
        Credential::Principal(Principal {
            by: By::Key(KeyId::new(at, [1; 10])),
            org: OrgId::new(at, [2; 10]),
            role,
            until: None,
            user: None,
            suspended: false,
            scope: None,
            session_key: None,
        })
    }

    fn statuses(credential: Option<Credential>) -> (u16, u16) {
        let parts = with(credential);
        let status = |error: ApiError| error.into_response().status().as_u16();
        let member = Member::of_credential(&parts).map_or_else(status, |_| 200);
        let admin = Admin::of_credential(&parts).map_or_else(status, |_| 200);
        (member, admin)
    }

    #[test]
    fn each_role_opens_what_it_may() {
        assert_eq!(statuses(None), (401, 401));
        assert_eq!(statuses(Some(Credential::Missing)), (401, 401));
        assert_eq!(statuses(Some(Credential::Invalid)), (401, 401));
        assert_eq!(statuses(Some(key(Role::Member))), (200, 403));
        assert_eq!(statuses(Some(key(Role::Admin))), (200, 200));
        assert_eq!(statuses(Some(key(Role::Owner))), (200, 200));
        let away = ErrorCode::Unavailable.because("the database is unavailable");
        assert_eq!(statuses(Some(Credential::Unchecked(away))), (503, 503));
        let at = Timestamp::from_micros(0);
        let person = SignedIn {
            user: UserId::new(at, [3; 10]),
            session: SessionId::new(at, [4; 10]),
            kind: SessionKind::Api,
            until: at,
            seen_at: at,
            email_verified: true,
        };
        for other in [Credential::Person(person), Credential::Operator] {
            assert_eq!(statuses(Some(other)), (401, 401));
        }
        let Credential::Principal(principal) = key(Role::Admin) else {
            panic!("a key has a principal");
        };
        let suspended = Principal {
            suspended: true,
            ..principal
        };
        let suspended = Credential::Principal(suspended);
        assert_eq!(statuses(Some(suspended)), (403, 403));
    }
}
