//! Organizations and their members. An organization has one owner: a unique index refuses a second one, and no command
//! removes the existing one.
//!
//! Changes of roles lock the organization, so that of two changes the second one sees the first.

use sortie_api::{OrgId, Role, Timestamp, UserId};

use super::persons;
use crate::{
    Error, Result, Store,
    access::{Audit, audit::record, lookups::Ended},
    db::{Row, Stmt, insert, row, select, vals},
    money::credit,
    oauth::grants::revoke_of_member,
    organizations::{IS_SUSPENDED, lock},
    outbox::{NewMail, mail},
};

/// Error of a change that would leave an organization without its owner.
const THE_OWNER: Error =
    Error::Conflict("the owner can be neither changed nor removed: hand the ownership over first");

/// Error if the caller of the hand-over is not the owner.
const NOT_THE_OWNER: Error = Error::Conflict("only the owner can hand the ownership over");

/// Organization to create.
#[derive(Clone, Debug)]
pub struct NewOrganization {
    /// ID of the organization.
    pub id: OrgId,
    /// Name of the organization.
    pub name: String,
    /// Person who creates it and owns it.
    pub owner: UserId,
    /// Time of the creation.
    pub created_at: Timestamp,
}

row! {
    /// Organization of a person.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OwnOrganization {
        /// ID of the organization.
        pub id: OrgId = "m.org_id",
        /// Name of the organization.
        pub name: String = "o.name",
        /// Role of the person there.
        pub role: Role = "m.role",
        /// True while the operator has suspended the organization.
        pub suspended: bool = IS_SUSPENDED,
    }
}

row! {
    /// Member of an organization.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MemberRow {
        /// The person.
        pub user: UserId = "m.user_id",
        /// Email address of the person.
        pub email: String = "p.email",
        /// Name of the person.
        pub name: String = "p.name",
        /// Role of the person in the organization.
        pub role: Role = "m.role",
        /// Time since which the person is a member.
        pub created_at: Timestamp = "m.created_at",
        /// SHA-256 of the person's picture. `None` without a picture.
        pub avatar: Option<[u8; 32]> = "(SELECT a.sha256 FROM avatar a WHERE a.user_id = m.user_id)",
    }
}

/// Role that an identity provider gives a person in an organization.
#[derive(Clone, Debug)]
pub struct GivenRole {
    /// The organization.
    pub org: OrgId,
    /// The role, which is not that of the owner.
    pub role: Role,
    /// Entry of the audit log.
    pub audit: Audit,
}

impl Store {
    /// System: finds the organization of a self-hosted engine. `None` before the first start has created it.
    pub async fn own_organization(&self) -> Result<Option<OrgId>> {
        self.db
            .read(|tx| {
                let row = tx.query_opt("SELECT id FROM organization ORDER BY id LIMIT 1", Vec::new())?;
                row.as_ref().map(Row::only).transpose()
            })
            .await
    }

    /// Creates an organization with its owner, and without credits. `NotFound` if the account of the owner was deleted.
    pub async fn create_organization(&self, new: NewOrganization, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    insert!("organization", {
                        "id": new.id,
                        "name": new.name.as_str(),
                        "created_at": new.created_at,
                        "created_by": new.owner,
                    }),
                    persons::lock(new.owner),
                    insert(new.id, new.owner, Role::Owner, new.created_at),
                    credit::begin(new.id),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Lists at most `limit` organizations of a person after `after`, in the order of their ids.
    pub async fn organizations_of(
        &self,
        user: UserId,
        after: Option<OrgId>,
        limit: u32,
    ) -> Result<Vec<OwnOrganization>> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        OwnOrganization,
                        " FROM membership m JOIN organization o ON o.id = m.org_id \
                         WHERE m.user_id = $1 AND m.org_id > $2 ORDER BY m.user_id, m.org_id LIMIT $3"
                    ),
                    vals![user, after.as_str(), limit],
                )
            })
            .await
    }

    /// Reads an organization with the role of a person there. `None` if the person is no member.
    pub async fn membership(&self, org: OrgId, user: UserId) -> Result<Option<OwnOrganization>> {
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(
                        OwnOrganization,
                        " FROM membership m JOIN organization o ON o.id = m.org_id \
                         WHERE m.org_id = $1 AND m.user_id = $2"
                    ),
                    vals![org, user],
                )
            })
            .await
    }

    /// Changes the name of an organization.
    pub async fn rename_organization(&self, org: OrgId, name: &str, audit: Audit) -> Result<()> {
        let name = name.to_owned();
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new(
                        "UPDATE organization SET name = $2 WHERE id = $1 AND deleted_at IS NULL",
                        vals![org, name.as_str()],
                    )
                    .exactly(1, Error::NotFound),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Lists at most `limit` members of an organization after `after`, in the order of their ids.
    pub async fn list_members(
        &self,
        org: OrgId,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<MemberRow>> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        MemberRow,
                        " FROM membership m JOIN person p ON p.id = m.user_id \
                         WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.org_id, m.user_id LIMIT $3"
                    ),
                    vals![org, after.as_str(), limit],
                )
            })
            .await
    }

    /// Reads a member of an organization. `None` if the person is no member.
    pub async fn member(&self, org: OrgId, user: UserId) -> Result<Option<MemberRow>> {
        self.db
            .read(move |tx| {
                tx.read_opt(
                    select!(
                        MemberRow,
                        " FROM membership m JOIN person p ON p.id = m.user_id WHERE m.org_id = $1 AND m.user_id = $2"
                    ),
                    vals![org, user],
                )
            })
            .await
    }

    /// Makes a member an admin or a member. `NotFound` if the person is no member, `Conflict` for the owner and for the role
    /// owner, which [`Store::transfer_ownership`] gives.
    pub async fn set_role(&self, org: OrgId, user: UserId, role: Role, audit: Audit) -> Result<()> {
        if role == Role::Owner {
            return Err(THE_OWNER);
        }
        let _ending = self.ending(Ended::Organization(org));
        self.db
            .write(move |tx| {
                tx.batch(&[
                    lock(org),
                    is_member(org, user),
                    Stmt::new(
                        "UPDATE membership SET role = $3 WHERE org_id = $1 AND user_id = $2 AND role <> $4",
                        vals![org, user, role, Role::Owner],
                    )
                    .exactly(1, THE_OWNER),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Removes a member, or lets a member leave, and ends the grants of the person in the organization. `NotFound` if the
    /// person is no member, `Conflict` for the owner.
    pub async fn remove_member(&self, org: OrgId, user: UserId, audit: Audit) -> Result<()> {
        let _ending = self.ending(Ended::Organization(org));
        self.db
            .write(move |tx| {
                tx.batch(&[
                    lock(org),
                    is_member(org, user),
                    Stmt::new(
                        "DELETE FROM membership WHERE org_id = $1 AND user_id = $2 AND role <> $3",
                        vals![org, user, Role::Owner],
                    )
                    .exactly(1, THE_OWNER),
                    revoke_of_member(org, user),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Transfers the ownership from one member to another, and queues `mails`. The former owner becomes an admin. `Conflict`
    /// if `from` is not the owner, `NotFound` if `to` is no member.
    pub async fn transfer_ownership(
        &self,
        org: OrgId,
        (from, to): (UserId, UserId),
        mails: Vec<NewMail>,
        audit: Audit,
    ) -> Result<()> {
        let _ending = self.ending(Ended::Organization(org));
        self.db
            .write(move |tx| {
                let mut statements = vec![
                    lock(org),
                    is_member(org, to),
                    Stmt::new(
                        "UPDATE membership SET role = $3 WHERE org_id = $1 AND user_id = $2 AND role = $4",
                        vals![org, from, Role::Admin, Role::Owner],
                    )
                    .exactly(1, NOT_THE_OWNER),
                    Stmt::new(
                        "UPDATE membership SET role = $3 WHERE org_id = $1 AND user_id = $2",
                        vals![org, to, Role::Owner],
                    )
                    .exactly(1, Error::NotFound),
                    record(&audit),
                ];
                statements.extend(mails.iter().map(mail::insert));
                tx.batch(&statements).map(drop)
            })
            .await
    }
}

/// Gives a person a role, as a member or a new one. The owner stays the owner.
pub(super) fn give(given: &GivenRole, user: UserId, at: Timestamp) -> [Stmt<'_>; 3] {
    [
        lock(given.org),
        insert!("membership", {
            "org_id": given.org,
            "user_id": user,
            "role": given.role,
            "created_at": at,
        }, " ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role WHERE membership.role <> 'owner'"),
        record(&given.audit),
    ]
}

/// Refuses the command if the person is no member.
fn is_member(org: OrgId, user: UserId) -> Stmt<'static> {
    Stmt::new(
        "SELECT 1 FROM membership WHERE org_id = $1 AND user_id = $2",
        vals![org, user],
    )
    .exactly(1, Error::NotFound)
}

fn insert(org: OrgId, user: UserId, role: Role, at: Timestamp) -> Stmt<'static> {
    insert!("membership", { "org_id": org, "user_id": user, "role": role, "created_at": at })
}
