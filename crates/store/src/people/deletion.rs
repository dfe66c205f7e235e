//! End of an account, and the audit entries of its person.

use std::{cmp::Reverse, collections::BTreeSet};

use sortie_api::{AuditEntry, OrgId, Role, Timestamp, UserId};

use super::{
    persons::{self, PasswordChange},
    sessions,
    suspension::dispatch_lock,
};
use crate::{
    Error, Result, Store,
    access::{
        Audit,
        audit::{self, AuditRow, record},
        lookups::Ended,
    },
    db::{Stmt, Tx, row, select, vals},
    licenses::subscriptions::none_renews,
    money::credit::{has_none, suspend},
    oauth::grants::revoke_of,
    organizations::{
        IS_SUSPENDED,
        deletion::{end_access, mark},
        lock,
    },
};

/// Error of a deletion that would leave others without an owner.
const OWNS: Error = Error::Conflict(
    "you own an organization with other members: hand the ownership over, or remove the members first",
);

/// Error of a deletion that would leave credits without an owner.
const HAS_CREDITS: Error = Error::Conflict(
    "you own an organization with credits: hand the ownership over, or delete the organization first",
);

/// Error if the memberships changed during a deletion.
const CHANGED: Error = Error::Conflict("your organizations changed at the same time, retry");

/// Account to delete.
#[derive(Clone, Debug)]
pub struct PersonDeletion {
    /// The person.
    pub user: UserId,
    /// Hash that the password was compared with.
    pub password: String,
    /// Entry of the audit log of each organization of the person.
    pub audits: Vec<Audit>,
    /// Organizations that are deleted with the account: those that the person owns and that are not suspended.
    pub deleted: Vec<OrgId>,
    /// Time of the deletion.
    pub at: Timestamp,
}

row! {
    struct OwnMembership {
        org: OrgId = "m.org_id",
        role: Role = "m.role",
        members: i64 = "(SELECT COUNT(*) FROM membership o WHERE o.org_id = m.org_id)",
        suspended: bool =
            constcat::concat!("(SELECT ", IS_SUSPENDED, " FROM organization o WHERE o.id = m.org_id)"),
    }
}

impl Store {
    /// Deletes the account of a person: name, address, password, picture, sessions, grants and memberships. The id stays,
    /// for the audit log. Organizations without other members are deleted, as [`Store::delete_organization`] does it; a
    /// suspended one stays suspended. `Conflict` if the person owns an organization with other members, with credits or with
    /// a subscription that renews, if the password was changed, or if the organizations of the person differ from those of
    /// `audits` and `deleted`.
    pub async fn delete_person(&self, deletion: PersonDeletion) -> Result<()> {
        let _ending = self.ending(Ended::Any);
        self.db.write(move |tx| delete(tx, &deletion)).await
    }

    /// Returns at most `limit` entries of the audit log by a person, in the organizations of the person, newest first. Reads
    /// the newest 10,000 entries of each organization.
    pub async fn audit_of_person(&self, user: UserId, limit: u32) -> Result<Vec<(OrgId, AuditEntry)>> {
        self.db
            .read(move |tx| {
                let organizations = tx.query_all(
                    "SELECT m.org_id FROM membership m WHERE m.user_id = $1 ORDER BY m.user_id, m.org_id LIMIT 100",
                    vals![user],
                )?;
                let mut found: Vec<(OrgId, AuditEntry)> = Vec::new();
                for row in &organizations {
                    let org: OrgId = row.only()?;
                    let entries: Vec<AuditRow> = tx.read_all(audit::OF_PERSON, vals![org, user, limit])?;
                    found.extend(entries.into_iter().map(|entry| (org, entry.into())));
                }
                found.sort_by_key(|(_, entry)| Reverse((entry.at, entry.id)));
                found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                Ok(found)
            })
            .await
    }
}

fn delete(tx: &mut dyn Tx, deletion: &PersonDeletion) -> Result<()> {
    let user = deletion.user;
    let organizations: BTreeSet<OrgId> = deletion.audits.iter().map(|audit| audit.org).collect();
    // After this lock, claims skip runs of a deleted organization. The organizations follow in the order of their ids,
    // because two concurrent deletions may share some.
    let mut locks = vec![dispatch_lock()];
    locks.extend(organizations.iter().map(|org| lock(*org).exactly(1, CHANGED)));
    // The person comes next: commands that add the person as a member lock both in this order.
    let change = PasswordChange {
        user,
        old: deletion.password.clone(),
        new: String::new(),
    };
    locks.push(persons::set_password(&change));
    tx.batch(&locks)?;
    let found: Vec<OwnMembership> = tx.read_all(
        select!(OwnMembership, " FROM membership m WHERE m.user_id = $1"),
        vals![user],
    )?;
    let mut statements = Vec::new();
    let (mut seen, mut owned, mut deleted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for of in found {
        let org = of.org;
        seen.insert(org);
        if of.role != Role::Owner {
            continue;
        }
        if of.members > 1 {
            return Err(OWNS);
        }
        owned.insert(org);
        statements.push(none_renews(org));
        if !of.suspended {
            deleted.insert(org);
            statements.push(mark(org, deletion.at));
            statements.extend(end_access(org));
        }
    }
    if seen != organizations || deleted != deletion.deleted.iter().copied().collect() {
        return Err(CHANGED);
    }
    statements.push(
        Stmt::new(
            "UPDATE person SET email = '', name = '', email_key = id, email_verified_at = NULL, totp = NULL, \
             totp_since = NULL, totp_step = NULL, deleted_at = $2 WHERE id = $1",
            vals![user, deletion.at],
        )
        .exactly(1, Error::NotFound),
    );
    statements.extend([
        sessions::delete_all(user),
        revoke_of(user),
        Stmt::new("DELETE FROM identity WHERE user_id = $1", vals![user]),
        Stmt::new("DELETE FROM one_time WHERE user_id = $1", vals![user]),
        Stmt::new("DELETE FROM avatar WHERE user_id = $1", vals![user]),
        Stmt::new("DELETE FROM membership WHERE user_id = $1", vals![user]),
    ]);
    statements.extend(deletion.audits.iter().map(record));
    // Uses the lock order of the credits. After the lock, a statement sees movements that were in progress.
    for org in owned {
        statements.extend([suspend(org), has_none(org, HAS_CREDITS)]);
    }
    tx.batch(&statements).map(drop)
}
