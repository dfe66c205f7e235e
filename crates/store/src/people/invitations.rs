//! Invitations into organizations. An organization has one invitation for an address: inviting again replaces it. Only the
//! SHA-256 of an invitation's token is stored. The mail of an invitation is deleted with the invitation.

use sortie_api::{InvitationId, MailId, OrgId, Role, Timestamp, UserId};

use super::persons;
use crate::{
    Error, Result, Store,
    access::{Audit, audit::record},
    db::{Stmt, insert, row, select, vals},
    organizations::{IS_SUSPENDED, lock},
    outbox::{NewMail, mail},
};

/// Error if the invited person is already a member.
const A_MEMBER: Error = Error::Conflict("email: this person is a member of the organization already");

/// Refusal of one more open invitation.
const TOO_MANY: Error = Error::Conflict("the organization has reached its limit of open invitations");

/// Invitation to create.
#[derive(Clone, Debug)]
pub struct NewInvitation {
    /// ID of the invitation.
    pub id: InvitationId,
    /// Organization that invites.
    pub org: OrgId,
    /// Email address as the inviting person typed it.
    pub email: String,
    /// Email address in the form that is compared.
    pub email_key: String,
    /// Role of the person once the invitation is accepted.
    pub role: Role,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// Person who invites.
    pub invited_by: UserId,
    /// Time of the creation.
    pub created_at: Timestamp,
    /// End of the invitation.
    pub expires_at: Timestamp,
}

row! {
    /// Invitation as its organization sees it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct InvitationRow {
        /// ID of the invitation.
        pub id: InvitationId = "i.id",
        /// Email address as the inviting person typed it.
        pub email: String = "i.email",
        /// Role of the person once the invitation is accepted.
        pub role: Role = "i.role",
        /// Person who invites.
        pub invited_by: UserId = "i.invited_by",
        /// Time of the creation.
        pub created_at: Timestamp = "i.created_at",
        /// End of the invitation.
        pub expires_at: Timestamp = "i.expires_at",
    }
}

row! {
    /// Invitation that a token belongs to.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Invited {
        /// The invitation.
        pub invitation: InvitationRow,
        /// Email address in the form that is compared.
        pub email_key: String = "i.email_key",
        /// Organization that invites.
        pub org: OrgId = "i.org_id",
        /// Name of the organization.
        pub organization: String = "o.name",
        /// True while the operator has suspended the organization.
        pub suspended: bool = IS_SUSPENDED,
    }
}

impl Store {
    /// Stores an invitation, which replaces an earlier one for the same address, and queues its mail. The mail of the
    /// earlier one is dropped. `Conflict` if the address belongs to a member, or if the organization has `most` open
    /// invitations for other addresses.
    pub async fn create_invitation(
        &self,
        new: NewInvitation,
        most: u32,
        mail: Option<NewMail>,
        audit: Audit,
    ) -> Result<()> {
        self.db
            .write(move |tx| {
                let mut statements = vec![
                    lock(new.org),
                    Stmt::new(
                        "SELECT 1 FROM person p WHERE p.email_key = $2 AND (SELECT m.role FROM membership m \
                         WHERE m.org_id = $1 AND m.user_id = p.id) IS NOT NULL",
                        vals![new.org, new.email_key.as_str()],
                    )
                    .exactly(0, A_MEMBER),
                    drop_earlier_mail(&new),
                    insert(&new, most).exactly(1, TOO_MANY),
                    record(&audit),
                ];
                statements.extend(mail.as_ref().map(mail::insert));
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// Lists the invitations of an organization that are open at `at`, in the order of their addresses.
    pub async fn list_invitations(&self, org: OrgId, at: Timestamp) -> Result<Vec<InvitationRow>> {
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        InvitationRow,
                        " FROM invitation i WHERE i.org_id = $1 AND i.expires_at > $2 ORDER BY i.org_id, i.email_key"
                    ),
                    vals![org, at],
                )
            })
            .await
    }

    /// System: finds the invitation with the SHA-256 of a token that is open at `at`.
    pub async fn find_invitation(&self, hash: [u8; 32], at: Timestamp) -> Result<Option<Invited>> {
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(
                        Invited,
                        " FROM invitation i JOIN organization o ON o.id = i.org_id \
                         WHERE i.hash = $1 AND i.expires_at > $2"
                    ),
                    vals![&hash, at],
                )
            })
            .await
    }

    /// Makes a person a member by an invitation, which ends. An existing member keeps the role. `NotFound` if the invitation
    /// is not open at `at`, or if the account of the person was deleted.
    pub async fn accept_invitation(
        &self,
        invited: &Invited,
        user: UserId,
        at: Timestamp,
        audit: Audit,
    ) -> Result<()> {
        let (org, invitation, role) = (invited.org, invited.invitation.id, invited.invitation.role);
        self.db
            .write(move |tx| {
                tx.batch(&[
                    lock(org),
                    persons::lock(user),
                    Stmt::new(
                        "DELETE FROM invitation WHERE id = $2 AND org_id = $1 AND expires_at > $3",
                        vals![org, invitation, at],
                    )
                    .exactly(1, Error::NotFound),
                    mail::drop_unsent(MailId::of_invitation(invitation)),
                    insert!("membership", {
                        "org_id": org,
                        "user_id": user,
                        "role": role,
                        "created_at": at,
                    }, " ON CONFLICT (org_id, user_id) DO NOTHING"),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Withdraws an invitation, and drops its mail. `NotFound` if the organization has no such invitation or was deleted.
    pub async fn withdraw_invitation(&self, org: OrgId, id: InvitationId, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    lock(org),
                    Stmt::new(
                        "DELETE FROM invitation WHERE id = $2 AND org_id = $1",
                        vals![org, id],
                    )
                    .exactly(1, Error::NotFound),
                    mail::drop_unsent(MailId::of_invitation(id)),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// System: deletes up to `limit` invitations that ended before `at`, the earliest first. Returns their number.
    pub async fn delete_ended_invitations(&self, at: Timestamp, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM invitation WHERE id {IN}SELECT i.id FROM invitation i WHERE i.expires_at < $1 \
                     ORDER BY i.expires_at LIMIT $2{END}",
                    vals![at, limit],
                )
            })
            .await
    }
}

/// Statement that drops the mail of an earlier invitation of the address. The IDs of both differ only in the prefix.
fn drop_earlier_mail(new: &NewInvitation) -> Stmt<'_> {
    Stmt::new(
        "DELETE FROM mail WHERE id = (SELECT 'mail' || SUBSTR(i.id, 4) FROM invitation i \
         WHERE i.org_id = $1 AND i.email_key = $2)",
        vals![new.org, new.email_key.as_str()],
    )
}

fn insert(new: &NewInvitation, most: u32) -> Stmt<'_> {
    insert!("invitation", {
        "id": new.id,
        "org_id": new.org,
        "email": new.email.as_str(),
        "email_key": new.email_key.as_str(),
        "role": new.role,
        "hash" = "CAST(@ AS {BLOB})": &new.hash,
        "invited_by": new.invited_by,
        "created_at" = "CAST(@ AS BIGINT)": new.created_at,
        "expires_at" = "CAST(@ AS BIGINT)": new.expires_at,
    }, select " WHERE (SELECT COUNT(*) FROM (SELECT 1 FROM invitation i WHERE i.org_id = $2 AND i.email_key <> $4 \
          AND i.expires_at > $8 LIMIT $10) AS counted) < $10 \
        ON CONFLICT (org_id, email_key) DO UPDATE SET id = excluded.id, email = excluded.email, \
        role = excluded.role, hash = excluded.hash, invited_by = excluded.invited_by, \
        created_at = excluded.created_at, expires_at = excluded.expires_at", most)
}
