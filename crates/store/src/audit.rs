//! The audit log: who did what, when, from where. An entry is one more statement of the change it tells of.

use sortie_api::{AuditId, OrgId, Timestamp};

use crate::{
    db::{Stmt, vals},
    types::Actor,
};

/// An entry to write with a change.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Its id.
    pub id: AuditId,
    /// Whose resource is changed.
    pub org: OrgId,
    /// When.
    pub at: Timestamp,
    /// Who changes it.
    pub actor: Actor,
    /// What is done, as `resource.verb`: `workflow.put`, `key.delete`.
    pub action: &'static str,
    /// What it is done to: a name or an id.
    pub target: String,
}

/// The statement that writes an entry.
pub(crate) fn record(audit: &Audit) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO audit (org_id, at, id, action, target, key_id, address, request_id) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        vals![
            audit.org,
            audit.at,
            audit.id,
            audit.action,
            audit.target.as_str(),
            audit.actor.key,
            audit.actor.address.map(|address| address.to_string()),
            audit.actor.request_id.as_deref()
        ],
    )
}
