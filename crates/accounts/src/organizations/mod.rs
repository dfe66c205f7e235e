//! Organizations of people: names, members, roles, and the ownership.

mod invitations;
#[cfg(test)]
mod tests;

use sortie_api::{OrgId, Role, UserId, limits, secret::Secret};
use sortie_base::random;
use sortie_store::{
    organizations::OrganizationDeletion,
    people::{MemberRow, NewOrganization, OwnOrganization},
};

pub use invitations::NewInvitationLink;

use crate::{Accounts, Author, Error, Parts, Proof, Result, mail::Letter, people::rules::checked_name};

/// Members and organizations that one query of the store reads.
const PAGE: u32 = 500;

/// Person who asks for a change.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The person.
    pub user: UserId,
    /// True where the person proved that the email address is theirs.
    pub email_verified: bool,
    /// The person, for the audit log.
    pub author: &'a Author,
}

impl Accounts {
    /// Refuses a person whose address is not verified. Everybody passes where no mail is configured.
    pub fn require_verified(&self, requester: &Requester<'_>) -> Result<()> {
        self.0.require_verified(requester.email_verified)
    }

    /// Creates an organization that the person owns.
    pub async fn create_organization(
        &self,
        requester: &Requester<'_>,
        name: &str,
    ) -> Result<OwnOrganization> {
        let parts = &self.0;
        self.require_verified(requester)?;
        let name = checked_name(name, limits::PERSON_NAME_CHARS)?;
        let subject = requester.user.to_string();
        parts
            .attempt("organization", &subject, limits::NEW_ORGANIZATIONS_PER_HOUR)
            .await?;
        let created_at = parts.options.clock.now();
        let new = NewOrganization {
            id: OrgId::new(created_at, random()?),
            name: name.clone(),
            owner: requester.user,
            created_at,
        };
        let id = new.id;
        let audit = parts.audit(requester.author, id, "organization.create", id)?;
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
    pub async fn rename_organization(
        &self,
        requester: &Requester<'_>,
        org: OrgId,
        name: &str,
    ) -> Result<String> {
        let name = checked_name(name, limits::PERSON_NAME_CHARS)?;
        let audit = self.0.audit(requester.author, org, "organization.rename", org)?;
        self.0.store.rename_organization(org, &name, audit).await?;
        Ok(name)
    }

    /// Deletes an organization of the person, who confirms its name and proves to be the person. The nodes delete its contents
    /// afterwards.
    pub async fn delete_organization(
        &self,
        requester: &Requester<'_>,
        org: OrgId,
        (confirmed, proof): (&str, Proof),
    ) -> Result<()> {
        let parts = &self.0;
        let name = parts.store.organization_name(org).await?;
        if confirmed.trim() != name.trim() {
            return Err(Error::Invalid(
                "name: must be the name of the organization".to_owned(),
            ));
        }
        parts.own_account(requester.user, "password", proof).await?;
        let audit = parts.audit(requester.author, org, "organization.delete", org)?;
        let deletion = OrganizationDeletion {
            org,
            owner: requester.user,
            name,
            at: parts.options.clock.now(),
        };
        Ok(parts.store.delete_organization(deletion, audit).await?)
    }

    /// Lists the members of an organization, in the order in which they signed up.
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

    /// Makes a member an admin or a member. `Conflict` for the owner.
    pub async fn change_role(
        &self,
        requester: &Requester<'_>,
        org: OrgId,
        member: UserId,
        role: Role,
    ) -> Result<()> {
        let audit = self.0.audit(requester.author, org, "member.role", member)?;
        Ok(self.0.store.set_role(org, member, role, audit).await?)
    }

    /// Removes a member with everything that applications may do for the person there. `Conflict` for the owner.
    pub async fn remove_member(&self, requester: &Requester<'_>, org: OrgId, member: UserId) -> Result<()> {
        let audit = self.0.audit(requester.author, org, "member.remove", member)?;
        Ok(self.0.store.remove_member(org, member, audit).await?)
    }

    /// Lets the person leave an organization. `Conflict` for the owner.
    pub async fn leave(&self, requester: &Requester<'_>, org: OrgId) -> Result<()> {
        let audit = self
            .0
            .audit(requester.author, org, "member.leave", requester.user)?;
        Ok(self.0.store.remove_member(org, requester.user, audit).await?)
    }

    /// Hands the ownership of an organization to another member, and tells both by mail. The former owner becomes an
    /// admin.
    pub async fn transfer_ownership(&self, requester: &Requester<'_>, org: OrgId, to: UserId) -> Result<()> {
        let parts = &self.0;
        let organization = parts.store.organization_name(org).await?;
        // Of a person who is no member nothing is told, not even that the account exists.
        if parts.store.membership(org, to).await?.is_none() {
            return Err(Error::NotFound);
        }
        let (old, new) = (
            parts.store.account(requester.user).await?.person,
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
        let audit = parts.audit(requester.author, org, "organization.ownership", to)?;
        parts
            .store
            .transfer_ownership(org, (requester.user, to), mails, audit)
            .await?;
        parts.mail_queued();
        Ok(())
    }
}

impl Parts {
    /// Refuses a person whose address is not verified. Everybody passes where no mail is configured.
    pub(crate) fn require_verified(&self, email_verified: bool) -> Result<()> {
        if email_verified || self.options.mail.is_none() {
            return Ok(());
        }
        Err(Error::Forbidden("verify your email address first".to_owned()))
    }

    fn audit(
        &self,
        author: &Author,
        org: OrgId,
        action: &'static str,
        target: impl Into<String>,
    ) -> Result<sortie_store::access::Audit> {
        author.audit(&self.options.clock, org, action, target)
    }

    /// Address of a page with a token. The pages have no script, so the token is in the query; no log has a query.
    pub(crate) fn page_with_token(&self, path: &str, token: &Secret) -> String {
        format!("{}{path}?token={}", self.options.org_url, token.expose())
    }
}
