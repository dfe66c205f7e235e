//! Callers of the organization API: a person, a person with a role in the organization of the path, and the operator.
//!
//! Each extractor reads the membership once. A stranger gets 404, as for an organization that does not exist; a member with
//! too small a role gets 403.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::{Method, request::Parts};
use sortie_accounts::{Author, Proof, Requester};
use sortie_api::{Credential, OrgId, Role, SessionId, Timestamp, UserId};
use sortie_billing::Buyer;
use sortie_engine::Caller;
use sortie_store::{access::By, people::SignedIn};

use super::{app::OrgApp, door::not_a_person};
use crate::{
    kit::{ApiError, ApiResult, Holder, actor, holder},
    table::WhileSuspended,
};

/// A person who is signed in.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    /// The person.
    pub(crate) user: UserId,
    /// The session of the request.
    pub(crate) session: SessionId,
    /// End of the session.
    pub(crate) until: Timestamp,
    /// True where the person proved that the email address is theirs.
    pub(crate) email_verified: bool,
    /// Author of changes, for the audit log.
    pub(crate) author: Author,
}

impl Person {
    /// Proof for a change of the account.
    pub(crate) const fn proof(&self, password: Option<Credential>) -> Proof {
        Proof {
            password,
            session_until: self.until,
        }
    }

    /// The person, as commands on accounts take them.
    pub(crate) const fn requester(&self) -> Requester<'_> {
        Requester {
            user: self.user,
            email_verified: self.email_verified,
            author: &self.author,
        }
    }
}

/// A member of the organization of the path, with any role.
#[derive(Clone, Debug)]
pub(crate) struct OrgMember {
    /// The organization.
    pub(crate) org: OrgId,
    /// Role of the person there.
    pub(crate) role: Role,
    /// The person.
    pub(crate) person: Person,
    /// Whether the organization is suspended. Few operations change such an organization.
    is_suspended: bool,
}

impl OrgMember {
    /// Refuses the request while the organization is suspended.
    pub(crate) fn require_active(&self) -> ApiResult<()> {
        if self.is_suspended {
            return Err(ApiError::forbidden("the organization is suspended"));
        }
        Ok(())
    }

    /// The organization and the person, as commands of the engine take them.
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            org: self.org,
            actor: self.person.author.actor.clone(),
        }
    }

    /// The person as a buyer for the organization.
    pub(crate) const fn buyer(&self) -> Buyer<'_> {
        Buyer {
            org: self.org,
            user: self.person.user,
            actor: &self.person.author.actor,
        }
    }
}

/// An admin or the owner of the organization of the path.
#[derive(Clone, Debug)]
pub(crate) struct OrgAdmin(pub(crate) OrgMember);

/// The owner of the organization of the path.
#[derive(Clone, Debug)]
pub(crate) struct OrgOwner(pub(crate) OrgMember);

/// The operator of the installation.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    /// Author of changes, for the audit log.
    pub(crate) author: Author,
}

fn person(parts: &Parts) -> ApiResult<Person> {
    match holder(&parts.extensions, "session token")? {
        Holder::Person(SignedIn {
            user,
            session,
            until,
            email_verified,
            ..
        }) => Ok(Person {
            user: *user,
            session: *session,
            until: *until,
            email_verified: *email_verified,
            author: Author {
                actor: actor(parts, Some(By::Session(*session)), Some(*user)),
            },
        }),
        Holder::Principal(_) | Holder::Operator => Err(not_a_person()),
    }
}

/// Finds the person's membership of the organization of the path (its first parameter).
///
/// A suspended organization can be read. Of the changes, the list of operations says which it can make.
async fn membership(parts: &mut Parts, app: &Arc<OrgApp>, least: Role) -> ApiResult<OrgMember> {
    let person = person(parts)?;
    let not_found = || ApiError::not_found("not found");
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|_| not_found())?;
    let org: OrgId = params
        .iter()
        .next()
        .and_then(|(_, text)| text.parse().ok())
        .ok_or_else(not_found)?;
    let found = app.accounts.store().membership(org, person.user).await?;
    let found = found.ok_or_else(not_found)?;
    if found.role < least {
        return Err(ApiError::forbidden(format!("this needs the role {least}")));
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let allowed = reads || parts.extensions.get::<WhileSuspended>().is_some();
    let member = OrgMember {
        org,
        role: found.role,
        person,
        is_suspended: found.suspended,
    };
    if !allowed {
        member.require_active()?;
    }
    Ok(member)
}

impl<S: Send + Sync> FromRequestParts<S> for Person {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        person(parts)
    }
}

impl FromRequestParts<Arc<OrgApp>> for OrgMember {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> ApiResult<Self> {
        membership(parts, app, Role::Member).await
    }
}

impl FromRequestParts<Arc<OrgApp>> for OrgAdmin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> ApiResult<Self> {
        membership(parts, app, Role::Admin).await.map(Self)
    }
}

impl FromRequestParts<Arc<OrgApp>> for OrgOwner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> ApiResult<Self> {
        membership(parts, app, Role::Owner).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        match holder(&parts.extensions, "operator key")? {
            Holder::Operator => Ok(Self {
                author: Author {
                    actor: actor(parts, Some(By::Operator), None),
                },
            }),
            Holder::Person(_) | Holder::Principal(_) => {
                Err(ApiError::forbidden("this needs the operator's key"))
            }
        }
    }
}
