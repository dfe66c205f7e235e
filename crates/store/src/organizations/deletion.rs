//! Deletion of an organization by its owner.
//!
//! The command ends everything that gives access, and marks the organization. Its runs, files and settings are deleted
//! later, in batches ([`erasure`](super::erasure)). A deleted organization is suspended too, so that it gets no runs.

use sortie_api::{OrgId, Role, Timestamp, UserId};

use crate::{
    Error, Result, Store,
    access::{Audit, audit::record, lookups::Ended},
    db::{Stmt, vals},
    licenses::subscriptions::none_renews,
    money::credit::suspend,
    people::suspension::dispatch_lock,
};

/// Error if the organization was renamed during its deletion.
const RENAMED: Error = Error::Conflict("name: the organization was renamed at the same time");

/// Error if the caller of the deletion is not the owner.
const NOT_THE_OWNER: Error = Error::Conflict("only the owner can delete the organization");

/// Reason of the suspension of a deleted organization.
const DELETED: &str = "the owner has deleted the organization";

/// Statements that end the access to the organization `$1` and its purchases, and forget its saved card. The customer record
/// at Stripe stays for the accounting, and a node expires the pages that can still be paid. Grants are deleted before the
/// memberships that the statement finds them by.
const ACCESS: [&str; 10] = [
    "DELETE FROM oauth_grant WHERE org_id = $1 \
     AND user_id {IN}SELECT m.user_id FROM membership m WHERE m.org_id = $1{END}",
    "DELETE FROM membership WHERE org_id = $1",
    // The IDs of an invitation and of its mail differ only in the prefix.
    "DELETE FROM mail WHERE id {IN}SELECT 'mail' || SUBSTR(i.id, 4) FROM invitation i WHERE i.org_id = $1{END}",
    "DELETE FROM invitation WHERE org_id = $1",
    "DELETE FROM api_key WHERE org_id = $1",
    "DELETE FROM oauth_flow WHERE connection_id {IN}SELECT c.id FROM connection c WHERE c.org_id = $1{END}",
    "DELETE FROM connection WHERE org_id = $1",
    // A purchase without a page at Stripe fails, so that no page is created for it.
    "UPDATE topup SET state = 'failed', error = 'the organization was deleted', check_at = NULL \
     WHERE org_id = $1 AND kind = 'checkout' AND state = 'created'",
    "UPDATE billing_account SET payment_method = NULL, brand = NULL, last4 = NULL, exp_month = NULL, exp_year = NULL, \
     source = NULL, seen_at = NULL, close_at = 0 WHERE org_id = $1",
    "DELETE FROM auto_topup WHERE org_id = $1",
];

/// Organization to delete.
#[derive(Clone, Debug)]
pub struct OrganizationDeletion {
    /// The organization.
    pub org: OrgId,
    /// Owner who deletes it.
    pub owner: UserId,
    /// Name that the owner has confirmed.
    pub name: String,
    /// Time of the deletion.
    pub at: Timestamp,
}

impl Store {
    /// Deletes an organization: ends its memberships, keys, grants and invitations, and deletes its connections with their
    /// credentials. `Conflict` if the name differs, if the person is not the owner, or while Stripe still charges for a
    /// subscription; `NotFound` if the organization was deleted before.
    pub async fn delete_organization(&self, deletion: OrganizationDeletion, audit: Audit) -> Result<()> {
        let _ending = self.ending(Ended::Organization(deletion.org));
        self.db
            .write(move |tx| {
                let (org, at) = (deletion.org, deletion.at);
                let mut statements = vec![
                    // After this lock, claims skip runs of the organization.
                    dispatch_lock(),
                    super::lock(org),
                    Stmt::new(
                        "SELECT 1 FROM organization WHERE id = $1 AND name = $2",
                        vals![org, deletion.name.as_str()],
                    )
                    .exactly(1, RENAMED),
                    mark(org, at),
                    Stmt::new(
                        "SELECT 1 FROM membership WHERE org_id = $1 AND user_id = $2 AND role = $3",
                        vals![org, deletion.owner, Role::Owner],
                    )
                    .exactly(1, NOT_THE_OWNER),
                    none_renews(org),
                ];
                statements.extend(end_access(org));
                statements.push(record(&audit));
                statements.push(suspend(org));
                tx.batch(&statements).map(drop)
            })
            .await
    }
}

/// Marks an organization as deleted. The caller holds its lock and [`dispatch_lock`].
pub(crate) fn mark<'a>(org: OrgId, at: Timestamp) -> Stmt<'a> {
    Stmt::new(
        "UPDATE organization SET deleted_at = $2, suspended_at = COALESCE(suspended_at, $2), suspended_why = $3 \
         WHERE id = $1",
        vals![org, at, DELETED],
    )
    .exactly(1, Error::NotFound)
}

/// Ends the access to an organization, in the order in which the rows are found.
pub(crate) fn end_access<'a>(org: OrgId) -> impl Iterator<Item = Stmt<'a>> {
    ACCESS.iter().map(move |sql| Stmt::new(sql, vals![org]))
}
