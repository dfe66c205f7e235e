//! The row of an organization: its lock, and its deletion.

pub(crate) mod deletion;
mod erasure;
mod operators;

pub use deletion::OrganizationDeletion;
pub use operators::{OperatedOrganization, OperatedPerson};

use sortie_api::OrgId;

use crate::{
    Error,
    db::{Stmt, vals},
};

/// Column that is 1 while the operator has suspended the organization `o`.
pub(crate) const IS_SUSPENDED: &str = "CASE WHEN o.suspended_at IS NULL THEN 0 ELSE 1 END";

/// Locks an organization until the end of the transaction. `NotFound` if it does not exist or was deleted: nothing
/// is added to an organization after its deletion.
pub(crate) fn lock<'a>(org: OrgId) -> Stmt<'a> {
    Stmt::new(
        "UPDATE organization SET name = name WHERE id = $1 AND deleted_at IS NULL",
        vals![org],
    )
    .exactly(1, Error::NotFound)
}
