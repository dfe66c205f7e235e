//! Callers of the organization API: a person, a person with a role in the organization of the path, and the operator.
//!
//! Each extractor reads the membership once. A stranger gets 404, as for an organization that does not exist; a member with
//! too small a role gets 403.

use std::{ops::Deref, sync::Arc};

use axum::extract::{FromRequestParts, RawPathParams};
use http::{Method, request::Parts};
use sortie_accounts::Proof;
use sortie_api::{ErrorCode, OrgId, Refusal};
use sortie_store::{
    access::{Actor, By, Caller},
    people::SignedIn,
};

use super::{app::OrgApp, door::person};
use crate::{
    kit::{ApiError, ApiResult, AtLeast, Credential, actor},
    table::WhileSuspended,
};

/// Proof of a person who is signed in.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    signed_in: SignedIn,
    /// Author of changes, for the audit log.
    pub(crate) actor: Actor,
}

impl Person {
    /// Proof for a change of the account.
    pub(crate) const fn proof(&self, password: Option<sortie_api::Credential>) -> Proof {
        Proof {
            password,
            session_until: self.signed_in.until,
        }
    }
}

impl Deref for Person {
    type Target = SignedIn;

    fn deref(&self) -> &SignedIn {
        &self.signed_in
    }
}

/// Proof of a person with a verified email address. Without mail, no address must be verified.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedPerson(pub(crate) Person);

/// The operator of the installation.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    /// Author of changes, for the audit log.
    pub(crate) actor: Actor,
}

fn actor_of(parts: &Parts, person: &SignedIn) -> Actor {
    actor(parts, Some(By::Session(person.session)), Some(person.user))
}

/// Finds the person's membership of the organization of the path (its first parameter).
///
/// A suspended organization can be read. Of the changes, the list of operations says which it can make.
async fn membership<const ROLE: u8>(parts: &mut Parts, app: &Arc<OrgApp>) -> ApiResult<AtLeast<ROLE>> {
    let person = person(&parts.extensions)?;
    let not_found = Refusal::not_found;
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
    let caller = Caller {
        org,
        actor: actor_of(parts, &person),
    };
    let member = AtLeast::check(caller, found.role, found.suspended)?;
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let allowed = reads || parts.extensions.get::<WhileSuspended>().is_some();
    if !allowed {
        member.require_active()?;
    }
    Ok(member)
}

impl<S: Send + Sync> FromRequestParts<S> for Person {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let signed_in = person(&parts.extensions)?;
        Ok(Self {
            actor: actor_of(parts, &signed_in),
            signed_in,
        })
    }
}

impl<const ROLE: u8> FromRequestParts<Arc<OrgApp>> for AtLeast<ROLE> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> ApiResult<Self> {
        membership(parts, app).await
    }
}

impl FromRequestParts<Arc<OrgApp>> for VerifiedPerson {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<OrgApp>) -> ApiResult<Self> {
        let person = Person::from_request_parts(parts, app).await?;
        app.accounts.require_verified(&person)?;
        Ok(Self(person))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let Credential::Operator = Credential::valid(&parts.extensions, "operator key")? else {
            return Err(ErrorCode::Forbidden
                .because("this needs the operator's key")
                .into());
        };
        Ok(Self {
            actor: actor(parts, Some(By::Operator), None),
        })
    }
}
