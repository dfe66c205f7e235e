//! Invitations into organizations. Only a person with the invited address can accept an invitation.

use std::time::Duration;

use sortie_api::{
    EmailDelivery, ErrorCode, InvitationId, MailId, OrgId, Refusal, Role, UserId, limits,
    secret::{INVITATION_TOKEN, Secret},
};
use sortie_base::random;
use sortie_store::{
    access::{Actor, Caller},
    people::{InvitationRow, Invited, NewInvitation, OwnOrganization, PersonRow},
};

use super::unverified;
use crate::{Accounts, Result, email::EmailAddress, mail::Letter};

/// Page that accepts an invitation.
const PAGE: &str = "/invitations/accept";

/// Invitation with its token. The token is shown only once.
#[derive(Clone, Debug)]
pub struct NewInvitationLink {
    /// The invitation.
    pub invitation: InvitationRow,
    /// Token that accepts the invitation.
    pub token: Secret,
    /// Page that accepts the invitation, with the token.
    pub url: String,
    /// Outcome of the mail to the person.
    pub email_delivery: EmailDelivery,
}

/// Step that a person takes next with an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvitationStep {
    /// The person can accept.
    Accept,
    /// The person has to verify the address first.
    VerifyAddress,
    /// The invitation is for another address.
    OtherAddress,
}

impl Accounts {
    /// Invites an email address into an organization, and replaces an earlier invitation of the address. Returns `Conflict` if
    /// a member has the address, or if the organization has too many open invitations.
    pub async fn invite(
        &self,
        (caller, user): (&Caller, UserId),
        role: Role,
        email: &str,
    ) -> Result<NewInvitationLink> {
        let (parts, org) = (&self.0, caller.org);
        let address = EmailAddress::parse(email)?;
        parts
            .attempt("invitation", &org.to_string(), limits::INVITATIONS_PER_HOUR)
            .await?;
        let token = Secret::new(INVITATION_TOKEN, random()?);
        let created_at = parts.options.clock.now();
        let new = NewInvitation {
            id: InvitationId::new(created_at, random()?),
            org,
            email: address.text.clone(),
            email_key: address.key,
            role,
            hash: token.hash(),
            invited_by: user,
            created_at,
            expires_at: created_at + Duration::from_secs(limits::INVITATION_SECONDS),
        };
        let invitation = InvitationRow {
            id: new.id,
            email: address.text,
            role,
            invited_by: user,
            created_at,
            expires_at: new.expires_at,
        };
        let url = parts.page_with_token(PAGE, &token);
        let letter = Letter::Invitation {
            organization: parts.store.organization_name(org).await?,
            inviter: parts.store.account(user).await?.person.name,
            role,
            url: url.clone(),
            expires_at: new.expires_at,
        };
        let mail = parts.held_letter(MailId::of_invitation(new.id), &invitation.email, &letter)?;
        let audit = parts.audit(&caller.actor, org, "invitation.create", new.id)?;
        parts
            .store
            .create_invitation(new, limits::OPEN_INVITATIONS, mail.clone(), audit)
            .await?;
        Ok(NewInvitationLink {
            invitation,
            token,
            url,
            email_delivery: parts.send_now(mail.as_ref()).await,
        })
    }

    /// Lists the open invitations of an organization, ordered by address.
    pub async fn invitations(&self, org: OrgId) -> Result<Vec<InvitationRow>> {
        let parts = &self.0;
        Ok(parts
            .store
            .list_invitations(org, parts.options.clock.now())
            .await?)
    }

    /// Withdraws an invitation, and its mail if that is not sent yet.
    pub async fn withdraw_invitation(&self, caller: &Caller, id: InvitationId) -> Result<()> {
        let audit = self
            .0
            .audit(&caller.actor, caller.org, "invitation.withdraw", id)?;
        Ok(self.0.store.withdraw_invitation(caller.org, id, audit).await?)
    }

    /// Finds the open invitation of a token. Returns `None` if the token is malformed or unknown, or the invitation has ended.
    pub async fn find_invitation(&self, token: &str) -> Result<Option<Invited>> {
        let Ok(secret) = Secret::parse(INVITATION_TOKEN, token) else {
            return Ok(None);
        };
        let parts = &self.0;
        Ok(parts
            .store
            .find_invitation(secret.hash(), parts.options.clock.now())
            .await?)
    }

    /// Returns the step that a person takes next with an invitation.
    pub fn invitation_step(&self, invited: &Invited, person: &PersonRow) -> Result<InvitationStep> {
        let is_for_person = EmailAddress::parse(&person.email)?.key == invited.email_key;
        let is_verified = person.email_verified_at.is_some() || self.0.options.mail.is_none();
        Ok(match (is_for_person, is_verified) {
            (false, _) => InvitationStep::OtherAddress,
            (true, false) => InvitationStep::VerifyAddress,
            (true, true) => InvitationStep::Accept,
        })
    }

    /// Accepts an invitation for the person. Returns `Forbidden` if the address differs or, with mail configured, is not
    /// verified, and `NotFound` if the invitation is not open.
    pub async fn accept_invitation(
        &self,
        (user, actor): (UserId, &Actor),
        token: &str,
    ) -> Result<OwnOrganization> {
        let parts = &self.0;
        let invited = self.find_invitation(token).await?.ok_or(Refusal::not_found())?;
        let person = parts.store.account(user).await?.person;
        match self.invitation_step(&invited, &person)? {
            InvitationStep::Accept => {}
            InvitationStep::VerifyAddress => return Err(unverified()),
            InvitationStep::OtherAddress => {
                let rule = "the invitation is for another email address";
                return Err(ErrorCode::Forbidden.because(rule));
            }
        }
        if invited.suspended {
            return Err(ErrorCode::Forbidden.because("the organization is suspended"));
        }
        let audit = parts.audit(actor, invited.org, "invitation.accept", invited.invitation.id)?;
        let at = parts.options.clock.now();
        parts.store.accept_invitation(&invited, user, at, audit).await?;
        let accepted = parts.store.membership(invited.org, user).await?;
        accepted.ok_or(Refusal::not_found())
    }
}
