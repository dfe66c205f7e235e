//! Organizations of people: names, members, roles, and ownership.

mod invitations;
#[cfg(test)]
mod tests;

use sortie_api::{ErrorCode, OrgId, Refusal, Role, UserId, limits, secret::Secret};
use sortie_base::random;
use sortie_store::{
    access::{Actor, Caller},
    organizations::OrganizationDeletion,
    people::{MemberRow, NewOrganization, OwnOrganization, SignedIn},
};

pub use invitations::{InvitationStep, NewInvitationLink};

use crate::{Accounts, Parts, Proof, Result, mail::Letter, people::rules::checked_name};

/// Number of members or organizations that one query reads.
const PAGE: u32 = 500;

impl Accounts {
    /// Refuses a person with an unverified address. Accepts everybody if mail is not configured.
    pub fn require_verified(&self, person: &SignedIn) -> Result<()> {
        self.0.require_verified(person.email_verified)
    }

    /// Creates an organization that the person owns.
    pub async fn create_organization(
        &self,
        (user, actor): (UserId, &Actor),
        name: &str,
    ) -> Result<OwnOrganization> {
        let parts = &self.0;
        let name = checked_name(name, limits::PERSON_NAME_CHARS)?;
        let subject = user.to_string();
        parts
            .attempt("organization", &subject, limits::NEW_ORGANIZATIONS_PER_HOUR)
            .await?;
        let created_at = parts.options.clock.now();
        let new = NewOrganization {
            id: OrgId::new(created_at, random()?),
            name: name.clone(),
            owner: user,
            created_at,
        };
        let id = new.id;
        let audit = parts.audit(actor, id, "organization.create", id)?;
        parts.store.create_organization(new, audit).await?;
        Ok(OwnOrganization {
            id,
            name,
            role: Role::Owner,
            suspended: false,
        })
    }

    /// Lists the organizations of a person, oldest first.
    pub async fn organizations(&self, user: UserId) -> Result<Vec<OwnOrganization>> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|last: &OwnOrganization| last.id);
            let page = self.0.store.organizations_of(user, after, PAGE).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Changes the name of an organization. Returns the new name.
    pub async fn rename_organization(&self, caller: &Caller, name: &str) -> Result<String> {
        let name = checked_name(name, limits::PERSON_NAME_CHARS)?;
        let audit = self
            .0
            .audit(&caller.actor, caller.org, "organization.rename", caller.org)?;
        self.0.store.rename_organization(caller.org, &name, audit).await?;
        Ok(name)
    }

    /// Deletes an organization of the person, who confirms its name and proves their identity. The nodes delete its contents
    /// afterwards.
    pub async fn delete_organization(
        &self,
        (caller, owner): (&Caller, UserId),
        (confirmed, proof): (&str, Proof),
    ) -> Result<()> {
        let (parts, org) = (&self.0, caller.org);
        let name = parts.store.organization_name(org).await?;
        if confirmed.trim() != name.trim() {
            return Err(ErrorCode::InvalidRequest.because("name: must be the name of the organization"));
        }
        parts.own_account(owner, "password", proof).await?;
        let audit = parts.audit(&caller.actor, org, "organization.delete", org)?;
        let deletion = OrganizationDeletion {
            org,
            owner,
            name,
            at: parts.options.clock.now(),
        };
        Ok(parts.store.delete_organization(deletion, audit).await?)
    }

    /// Lists the members of an organization in the order of their sign-up.
    pub async fn members(&self, org: OrgId) -> Result<Vec<MemberRow>> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|last: &MemberRow| last.user);
            let page = self.0.store.list_members(org, after, PAGE).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Sets the role of a member to admin or member. Returns the member. Returns `Conflict` for the owner.
    pub async fn change_role(&self, caller: &Caller, member: UserId, role: Role) -> Result<MemberRow> {
        let org = caller.org;
        let audit = self.0.audit(&caller.actor, org, "member.role", member)?;
        let store = &self.0.store;
        store.set_role(org, member, role, audit).await?;
        store.member(org, member).await?.ok_or(Refusal::not_found())
    }

    /// Removes a member, and the grants of applications that act for the member there. Returns `Conflict` for the owner.
    pub async fn remove_member(&self, caller: &Caller, member: UserId) -> Result<()> {
        let org = caller.org;
        let audit = self.0.audit(&caller.actor, org, "member.remove", member)?;
        Ok(self.0.store.remove_member(org, member, audit).await?)
    }

    /// Removes the person from an organization. Returns `Conflict` for the owner.
    pub async fn leave(&self, caller: &Caller, user: UserId) -> Result<()> {
        let org = caller.org;
        let audit = self.0.audit(&caller.actor, org, "member.leave", user)?;
        Ok(self.0.store.remove_member(org, user, audit).await?)
    }

    /// Transfers the ownership of an organization to another member, and notifies both by mail. The former owner becomes an
    /// admin.
    pub async fn transfer_ownership(&self, caller: &Caller, (owner, to): (UserId, UserId)) -> Result<()> {
        let (parts, org) = (&self.0, caller.org);
        let organization = parts.store.organization_name(org).await?;
        // A caller must not learn whether the account of a non-member exists.
        if parts.store.membership(org, to).await?.is_none() {
            return Err(Refusal::not_found());
        }
        let (old, new) = (
            parts.store.account(owner).await?.person,
            parts.store.account(to).await?.person,
        );
        let (from, to_name) = (old.name, new.name);
        let handed = Letter::OwnershipHandedOver {
            organization: organization.clone(),
            from: from.clone(),
            to: to_name.clone(),
        };
        let received = Letter::OwnershipReceived {
            organization,
            from,
            to: to_name,
        };
        let mails = [
            parts.letter(&old.email, &handed)?,
            parts.letter(&new.email, &received)?,
        ];
        let mails = mails.into_iter().flatten().collect();
        let audit = parts.audit(&caller.actor, org, "organization.ownership", to)?;
        parts
            .store
            .transfer_ownership(org, (owner, to), mails, audit)
            .await?;
        parts.mail_queued();
        Ok(())
    }
}

impl Parts {
    /// Refuses a person with an unverified address. Accepts everybody if mail is not configured.
    pub(crate) fn require_verified(&self, email_verified: bool) -> Result<()> {
        if email_verified || self.options.mail.is_none() {
            return Ok(());
        }
        Err(unverified())
    }

    /// Address of a page with a token. The pages have no script, so the token is in the query; queries are never logged.
    pub(crate) fn page_with_token(&self, path: &str, token: &Secret) -> String {
        format!("{}{path}?token={}", self.options.org_url, token.expose())
    }
}

/// Refusal of a person with an unverified address.
fn unverified() -> Refusal {
    ErrorCode::Forbidden.because("verify your email address first")
}
