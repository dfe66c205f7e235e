//! Commands of the operator: suspension of organizations, and accounts of people.

use std::time::Duration;

use sortie_api::{
    ErrorCode, OrgId, Timestamp, UserId, limits,
    operator::CreateUser,
    secret::{MAIL_TOKEN, OPERATOR_KEY, Presented, Secret},
};
use sortie_base::random;
use sortie_store::{
    Error as StoreError,
    access::{Actor, Audit},
    organizations::{OperatedOrganization, OperatedPerson},
    people::{NewOneTime, NewPerson, OneTimeMail, Purpose},
};

use crate::{Accounts, Parts, Result, email::EmailAddress, people::rules::checked_name};

/// Path of the page that sets a password with a token.
const RESET_PAGE: &str = "/reset-password";

/// Number of waiting runs that one transaction parks or returns.
const RUNS: u32 = 1_000;

/// Number of organizations that one query reads.
const PAGE: u32 = 500;

/// Link to a page that sets a password. It is shown only once.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Address of the page, with the token.
    pub url: String,
    /// End of the token.
    pub expires_at: Timestamp,
}

/// Account that the operator created.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// The person.
    pub person: OperatedPerson,
    /// Link for the person.
    pub link: NewLink,
}

impl Accounts {
    /// Makes `secret` the operator's key. Returns false if a key exists.
    ///
    /// The caller generates the secret and stores it in a safe place before the key becomes valid.
    pub async fn set_first_operator_key(&self, secret: &Secret) -> Result<bool> {
        let parts = &self.0;
        let now = parts.options.clock.now();
        Ok(parts.store.set_first_operator_key(secret.hash(), now).await?)
    }

    /// Whether a credential is an operator's key.
    pub async fn is_operator(&self, credential: impl Into<Presented<'_>>) -> Result<bool> {
        let credential = credential.into();
        Ok(credential.is(OPERATOR_KEY) && self.0.store.is_operator_key(credential.hash()).await?)
    }

    /// Suspends an organization: its credentials get 403, and its waiting runs stay queued. A second suspension
    /// replaces the reason.
    pub async fn suspend_organization(
        &self,
        actor: &Actor,
        org: OrgId,
        reason: Option<&str>,
    ) -> Result<OperatedOrganization> {
        let parts = &self.0;
        let reason = reason.map(checked_reason).transpose()?;
        let audit = parts.audit(actor, org, "organization.suspend", org)?;
        let at = parts.options.clock.now();
        parts.store.suspend_organization(org, reason, at, audit).await?;
        // From here on no run of the organization is claimed. Parked runs do not slow down the claims of other organizations.
        while parts.store.park_runs(org, RUNS).await? > 0 {}
        Ok(parts.store.operated_organization(org).await?)
    }

    /// Ends the suspension of an organization. Its waiting runs continue in their old order.
    pub async fn resume_organization(&self, actor: &Actor, org: OrgId) -> Result<OperatedOrganization> {
        let parts = &self.0;
        let before = parts.store.operated_organization(org).await?;
        if before.suspended_at.is_some() {
            while parts.store.unpark_runs(org, RUNS).await? > 0 {}
        }
        let audit = parts.audit(actor, org, "organization.resume", org)?;
        parts.store.resume_organization(org, audit).await?;
        Ok(parts.store.operated_organization(org).await?)
    }

    /// Creates an account. The person sets the password through a link. Returns `Conflict` if the address has an account.
    pub async fn create_account(&self, request: &CreateUser) -> Result<NewAccount> {
        let parts = &self.0;
        let (address, name) = (
            EmailAddress::parse(&request.email)?,
            checked_name(&request.name, limits::PERSON_NAME_CHARS)?,
        );
        let created_at = parts.options.clock.now();
        let id = UserId::new(created_at, random()?);
        let (reset, link) = parts.reset_link(id)?;
        let person = NewPerson {
            id,
            email: address.text.clone(),
            email_key: address.key,
            name: name.clone(),
            // No password matches an empty hash, so sign-in is impossible until the person sets a password.
            password: String::new(),
            created_at,
        };
        parts.store.create_person(person, reset).await?;
        let person = OperatedPerson {
            id,
            email: address.text,
            name,
            created_at,
            email_verified_at: None,
            disabled_at: None,
        };
        Ok(NewAccount { person, link })
    }

    /// Lists people in the order of their sign-up: at most `limit` after a given person, or the one with a given address.
    pub async fn people(
        &self,
        email: Option<&str>,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<OperatedPerson>> {
        let store = &self.0.store;
        let Some(email) = email else {
            return Ok(store.operated_people(after, limit).await?);
        };
        match store.operated_person(&EmailAddress::parse(email)?.key).await {
            Ok(person) => Ok(vec![person]),
            Err(StoreError::NotFound) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a link to a page that sets a password. Earlier links become invalid.
    pub async fn make_reset_link(&self, user: UserId) -> Result<NewLink> {
        let parts = &self.0;
        parts.store.operated_person_by_id(user).await?;
        let (reset, link) = parts.reset_link(user)?;
        let token = OneTimeMail {
            token: reset,
            mail: None,
        };
        parts.store.keep_one_time(token).await?;
        Ok(link)
    }

    /// Disables the sign-in of a person, and ends their sessions.
    pub async fn disable_account(&self, actor: &Actor, user: UserId) -> Result<OperatedPerson> {
        let parts = &self.0;
        let audits = parts.audits(actor, user, "person.disable").await?;
        let at = parts.options.clock.now();
        Ok(parts.store.disable_person(user, at, audits).await?)
    }

    /// Removes all identities of a person at identity providers, and ends their sessions.
    pub async fn unlink_account(&self, actor: &Actor, user: UserId) -> Result<OperatedPerson> {
        let parts = &self.0;
        let audits = parts.audits(actor, user, "person.unlink").await?;
        Ok(parts.store.unlink_person(user, audits).await?)
    }

    /// Enables the sign-in of a person again.
    pub async fn enable_account(&self, actor: &Actor, user: UserId) -> Result<OperatedPerson> {
        let parts = &self.0;
        let audits = parts.audits(actor, user, "person.enable").await?;
        Ok(parts.store.enable_person(user, audits).await?)
    }
}

impl Parts {
    /// Creates the token and the page address for setting a password.
    fn reset_link(&self, user: UserId) -> Result<(NewOneTime, NewLink)> {
        let token = Secret::new(MAIL_TOKEN, random()?);
        let expires_at = self.options.clock.now() + Duration::from_secs(limits::RESET_LINK_SECONDS);
        let reset = NewOneTime {
            hash: token.hash(),
            purpose: Purpose::ResetPassword,
            user,
            expires_at,
        };
        let url = self.page_with_token(RESET_PAGE, &token);
        Ok((reset, NewLink { url, expires_at }))
    }

    /// Creates the audit entry of a change of a person for each organization of the person.
    async fn audits(&self, actor: &Actor, user: UserId, action: &'static str) -> Result<Vec<Audit>> {
        let (mut audits, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.organizations_of(user, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(audits);
            };
            after = Some(last.id);
            for organization in page {
                audits.push(self.audit(actor, organization.id, action, user)?);
            }
        }
    }
}

fn checked_reason(reason: &str) -> Result<String> {
    let reason = reason.trim();
    if reason.chars().count() > limits::SUSPENSION_REASON_CHARS || reason.chars().any(char::is_control) {
        return Err(ErrorCode::InvalidRequest.because(format!(
            "reason: must be at most {} characters, without control characters",
            limits::SUSPENSION_REASON_CHARS
        )));
    }
    Ok(reason.to_owned())
}
