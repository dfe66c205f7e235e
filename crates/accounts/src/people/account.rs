//! The account of a person who is signed in: reading, renaming, export and deletion.

use sha2::{Digest as _, Sha256};
use sortie_api::{AuditEntry, ErrorCode, OrgId, Refusal, Role, SessionId, UserId};
use sortie_base::hex;
use sortie_store::{
    access::Actor,
    oauth::GrantRow,
    people::{Identity, IdentityRow, ONLY_WAY, OwnOrganization, PersonDeletion, PersonRow, SessionRow},
};

use super::{rules, sessions::MOST_LISTED};
use crate::{Accounts, Proof, Result};

/// Maximum number of organizations in an export, and of memberships that a deletion ends.
const MOST_ORGANIZATIONS: u32 = 10_000;

/// Maximum number of changes in an export.
const MOST_CHANGES: u32 = 10_000;

/// Length of the hash in the ID of an identity.
const IDENTITY_BYTES: usize = 16;

/// Data that the service stores about a person.
#[derive(Clone, Debug)]
pub struct PersonExport {
    /// The person.
    pub person: PersonRow,
    /// Organizations of the person.
    pub organizations: Vec<OwnOrganization>,
    /// Sessions that have not ended, newest first.
    pub sessions: Vec<SessionRow>,
    /// Permissions of applications.
    pub grants: Vec<GrantRow>,
    /// Identities of the person at providers, the earliest first.
    pub identities: Vec<IdentityRow>,
    /// Changes that the person made, newest first, each with its organization.
    pub changes: Vec<(OrgId, AuditEntry)>,
}

/// ID of an identity: part of a hash of its issuer and its subject.
pub fn identity_id(identity: &Identity) -> String {
    let hash = Sha256::new()
        .chain_update(&identity.issuer)
        .chain_update([0])
        .chain_update(&identity.subject)
        .finalize();
    hex(hash.get(..IDENTITY_BYTES).unwrap_or_default())
}

impl Accounts {
    /// Reads the account of a person.
    pub async fn person(&self, user: UserId) -> Result<PersonRow> {
        Ok(self.0.store.account(user).await?.person)
    }

    /// Changes the name of a person.
    pub async fn rename_person(&self, user: UserId, name: &str) -> Result<PersonRow> {
        let name = rules::name(name)?;
        Ok(self.0.store.rename_person(user, &name).await?)
    }

    /// Lists the identities of a person at providers, the earliest first.
    pub async fn identities(&self, user: UserId) -> Result<Vec<IdentityRow>> {
        Ok(self.0.store.list_identities(user).await?)
    }

    /// Removes an identity of a person by its [`identity_id`], and ends the sessions of the person except `keep`. Returns
    /// `NotFound` if the person has no such identity, and `Conflict` if it is the last way to sign in.
    pub async fn unlink_identity(&self, user: UserId, id: &str, keep: SessionId) -> Result<()> {
        let store = &self.0.store;
        let identities = store.list_identities(user).await?;
        let found = identities.iter().find(|row| identity_id(&row.identity) == id);
        let ended = &found.ok_or(Refusal::not_found())?.identity;
        let works =
            |of: &Identity| of != ended && self.providers().any(|provider| provider.issuer == of.issuer);
        let account = store.account(user).await?;
        // An identity of a provider that was removed from the configuration cannot sign anyone in.
        if account.password.is_empty() && !identities.iter().any(|row| works(&row.identity)) {
            return Err(ErrorCode::Conflict.because(ONLY_WAY));
        }
        store.unlink_identity(user, ended, keep).await?;
        tracing::info!(user.id = %user, "unlinked an identity");
        Ok(())
    }

    /// Reads the data that the service stores about a person: the newest [`MOST_CHANGES`] changes, and everything else.
    pub async fn export_person(&self, user: UserId) -> Result<PersonExport> {
        let store = &self.0.store;
        let now = self.0.options.clock.now();
        Ok(PersonExport {
            person: store.account(user).await?.person,
            organizations: store.organizations_of(user, None, MOST_ORGANIZATIONS).await?,
            sessions: store.list_sessions(user, now, MOST_LISTED).await?,
            grants: store.list_grants(user, now).await?,
            identities: store.list_identities(user).await?,
            changes: store.audit_of_person(user, MOST_CHANGES).await?,
        })
    }

    /// Deletes the account of a person who has proved their identity. Returns `Conflict` if the person owns an organization with
    /// other members. An organization without other members is deleted with the account, unless it is suspended. The nodes delete
    /// its contents afterwards.
    pub async fn delete_person(&self, user: UserId, proof: Proof, actor: &Actor) -> Result<()> {
        let parts = &self.0;
        let account = parts.own_account(user, "password", proof).await?;
        let organizations = parts
            .store
            .organizations_of(user, None, MOST_ORGANIZATIONS)
            .await?;
        if organizations.len() >= MOST_ORGANIZATIONS as usize {
            return Err(ErrorCode::Conflict.because("you are in too many organizations: leave some first"));
        }
        let clock = &parts.options.clock;
        // A suspended organization is kept: its data may still be needed.
        let is_deleted = |of: &OwnOrganization| of.role == Role::Owner && !of.suspended;
        let audits: Result<Vec<_>> = organizations
            .iter()
            .map(|of| {
                let (action, target) = if is_deleted(of) {
                    ("organization.delete", of.id.to_string())
                } else {
                    ("member.leave", user.to_string())
                };
                parts.audit(actor, of.id, action, target)
            })
            .collect();
        let deleted = organizations.iter().filter(|of| is_deleted(of)).map(|of| of.id);
        let deletion = PersonDeletion {
            user,
            password: account.password,
            audits: audits?,
            deleted: deleted.collect(),
            at: clock.now(),
        };
        parts.store.delete_person(deletion).await?;
        tracing::info!(user.id = %user, "deleted an account");
        Ok(())
    }
}
