//! Organizations and their members. An organization has one owner: an index refuses a second one, and no command removes
//! the one there is.
//!
//! Changes of roles lock the organization, so that of two changes the second one sees the first.

use sortie_api::{OrgId, Role, Timestamp, UserId};

use super::{avatars::hash_from, persons};
use crate::{
    Audit, NewMail, Store,
    audit::record,
    db::{Row, Stmt, vals},
    mail,
    money::credit,
    oauth::grants::revoke_of_member,
    organizations::lock,
    types::{Error, Result},
};

/// Error of a change that would leave an organization without its owner.
const THE_OWNER: Error =
    Error::Conflict("the owner can be neither changed nor removed: hand the ownership over first");

/// Error of a hand-over by somebody who is not the owner.
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

/// Organization of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOrganization {
    /// ID of the organization.
    pub id: OrgId,
    /// Name of the organization.
    pub name: String,
    /// Role of the person there.
    pub role: Role,
    /// True while the operator has suspended the organization.
    pub suspended: bool,
}

/// Member of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// The person.
    pub user: UserId,
    /// Email address of the person.
    pub email: String,
    /// Name of the person.
    pub name: String,
    /// Role of the person in the organization.
    pub role: Role,
    /// Time since which the person is a member.
    pub created_at: Timestamp,
    /// SHA-256 of the person's picture. None where there is no picture.
    pub avatar: Option<[u8; 32]>,
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
    /// System: finds the organization of a self-hosted engine. None before the first start has created it.
    pub async fn own_organization(&self) -> Result<Option<OrgId>> {
        self.db
            .read(|tx| {
                let row = tx.query_opt("SELECT id FROM organization ORDER BY id LIMIT 1", Vec::new())?;
                row.as_ref().map(|row| row.parse(0)).transpose()
            })
            .await
    }

    /// Creates an organization with its owner, and with no credits. `NotFound` where the account of the owner was deleted.
    pub async fn create_organization(&self, new: NewOrganization, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new(
                        "INSERT INTO organization (id, name, created_at, created_by) VALUES ($1, $2, $3, $4)",
                        vals![new.id, new.name.as_str(), new.created_at, new.owner],
                    ),
                    persons::lock(new.owner),
                    insert(new.id, new.owner, Role::Owner, new.created_at),
                    credit::begin(new.id),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Lists the organizations of a person in the order of their ids, those behind `after`, at most `limit`.
    pub async fn organizations_of(
        &self,
        user: UserId,
        after: Option<OrgId>,
        limit: u32,
    ) -> Result<Vec<OwnOrganization>> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT m.org_id, o.name, m.role, o.suspended_at FROM membership m JOIN organization o ON o.id = m.org_id \
                     WHERE m.user_id = $1 AND m.org_id > $2 ORDER BY m.user_id, m.org_id LIMIT $3",
                    vals![user, after.as_str(), limit],
                )?
                .iter()
                .map(organization_from)
                .collect()
            })
            .await
    }

    /// Reads an organization with the role of a person there. None where the person is no member.
    pub async fn membership(&self, org: OrgId, user: UserId) -> Result<Option<OwnOrganization>> {
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT m.org_id, o.name, m.role, o.suspended_at FROM membership m JOIN organization o ON o.id = m.org_id \
                     WHERE m.org_id = $1 AND m.user_id = $2",
                    vals![org, user],
                )?
                .as_ref()
                .map(organization_from)
                .transpose()
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

    /// Lists the members of an organization in the order of their ids, those behind `after`, at most `limit`.
    pub async fn list_members(
        &self,
        org: OrgId,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<MemberRow>> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT m.user_id, p.email, p.name, m.role, m.created_at, \
                     (SELECT a.sha256 FROM avatar a WHERE a.user_id = m.user_id) FROM membership m JOIN person p ON p.id = m.user_id \
                     WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.org_id, m.user_id LIMIT $3",
                    vals![org, after.as_str(), limit],
                )?
                .iter()
                .map(member_from)
                .collect()
            })
            .await
    }

    /// Reads a member of an organization. None where the person is no member.
    pub async fn member(&self, org: OrgId, user: UserId) -> Result<Option<MemberRow>> {
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT m.user_id, p.email, p.name, m.role, m.created_at, \
                     (SELECT a.sha256 FROM avatar a WHERE a.user_id = m.user_id) FROM membership m JOIN person p ON p.id = m.user_id WHERE m.org_id = $1 AND m.user_id = $2",
                    vals![org, user],
                )?
                .as_ref()
                .map(member_from)
                .transpose()
            })
            .await
    }

    /// Makes a member an admin or a member. `NotFound` where the person is no member, `Conflict` for the owner and for
    /// the role owner, which [`Store::transfer_ownership`] gives.
    pub async fn set_role(&self, org: OrgId, user: UserId, role: Role, audit: Audit) -> Result<()> {
        if role == Role::Owner {
            return Err(THE_OWNER);
        }
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

    /// Removes a member, or lets a member leave, and ends the grants of the person in the organization. `NotFound` where the
    /// person is no member, `Conflict` for the owner.
    pub async fn remove_member(&self, org: OrgId, user: UserId, audit: Audit) -> Result<()> {
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

    /// Hands the ownership from one member to another, and queues `mails`. The former owner becomes an admin. `Conflict`
    /// where `from` is not the owner, `NotFound` where `to` is no member.
    pub async fn transfer_ownership(
        &self,
        org: OrgId,
        (from, to): (UserId, UserId),
        mails: Vec<NewMail>,
        audit: Audit,
    ) -> Result<()> {
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
        Stmt::new(
            "INSERT INTO membership (org_id, user_id, role, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role WHERE membership.role <> $5",
            vals![given.org, user, given.role, at, Role::Owner],
        ),
        record(&given.audit),
    ]
}

/// Refuses the command where the person is no member.
fn is_member(org: OrgId, user: UserId) -> Stmt<'static> {
    Stmt::new(
        "SELECT 1 FROM membership WHERE org_id = $1 AND user_id = $2",
        vals![org, user],
    )
    .exactly(1, Error::NotFound)
}

fn insert(org: OrgId, user: UserId, role: Role, at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "INSERT INTO membership (org_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)",
        vals![org, user, role, at],
    )
}

fn organization_from(row: &Row) -> Result<OwnOrganization> {
    Ok(OwnOrganization {
        id: row.parse(0)?,
        name: row.text(1)?.to_owned(),
        role: row.parse(2)?,
        suspended: row.opt_time(3)?.is_some(),
    })
}

fn member_from(row: &Row) -> Result<MemberRow> {
    Ok(MemberRow {
        user: row.parse(0)?,
        email: row.text(1)?.to_owned(),
        name: row.text(2)?.to_owned(),
        role: row.parse(3)?,
        created_at: row.time(4)?,
        avatar: row.opt_blob(5)?.map(|_| hash_from(row, 5)).transpose()?,
    })
}
