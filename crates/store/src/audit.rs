//! Audit log: author, action, target, time and client address of each change. The transaction of the change writes the entry.

use sortie_api::{ActorKind, AuditEntry, AuditId, KeyId, OrgId, Timestamp};

use crate::{
    Store,
    db::{Row, Stmt, Tx, vals},
    principal::By,
    types::{Actor, AuditFilter, Result},
};

/// Audit entry of a change, written with the change.
#[derive(Clone, Debug)]
pub struct Audit {
    /// ID of the entry, which contains its time.
    pub id: AuditId,
    /// Organization that owns the changed resource.
    pub org: OrgId,
    /// Time of the change.
    pub at: Timestamp,
    /// Author of the change.
    pub actor: Actor,
    /// Action, as `resource.verb`: `workflow.put`, `key.delete`.
    pub action: &'static str,
    /// Changed resource: a name or an id.
    pub target: String,
}

/// Returns the statement that writes an entry.
pub(crate) fn record(audit: &Audit) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO audit (org_id, at, id, action, target, key_id, address, request_id, actor_kind, actor_id, \
         user_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        vals![
            audit.org,
            audit.at,
            audit.id,
            audit.action,
            audit.target.as_str(),
            audit.actor.key(),
            audit.actor.address.map(|address| address.to_string()),
            audit.actor.request_id.as_deref(),
            audit.actor.by.map(|by| by.kind().as_str()),
            audit.actor.by.and_then(By::id),
            audit.actor.user
        ],
    )
}

/// Query of entries through one index. `$way` is the condition on the column of that index behind the organization, if it
/// has one. The later conditions hold for every entry where their parameter is NULL.
macro_rules! list {
    ($way:literal) => {
        concat!(
            "SELECT id, at, action, target, key_id, address, request_id, actor_kind, actor_id, user_id FROM audit \
             WHERE org_id = $1",
            $way,
            " AND at >= $2 AND (at, id) < ($3, $4) AND action = COALESCE($6, action) AND target = COALESCE($7, target) \
             AND COALESCE(key_id, '') = COALESCE($8, key_id, '') ORDER BY at DESC, id DESC LIMIT $5"
        )
    };
}

/// Query of the entries by a person among the newest 10,000 of an organization. An index by person would have to be built
/// over the whole log.
pub(crate) const OF_PERSON: &str = "SELECT id, at, action, target, key_id, address, request_id, actor_kind, actor_id, \
     user_id FROM (SELECT id, at, action, target, key_id, address, request_id, actor_kind, actor_id, user_id FROM audit \
     WHERE org_id = $1 ORDER BY at DESC, id DESC LIMIT 10000) newest WHERE user_id = $2 LIMIT $3";

impl Store {
    /// Returns entries of the audit log, newest first.
    pub async fn list_audit(&self, org: OrgId, filter: AuditFilter) -> Result<Vec<AuditEntry>> {
        self.db.read(move |tx| list(tx, org, &filter)).await
    }
}

fn list(tx: &mut dyn Tx, org: OrgId, filter: &AuditFilter) -> Result<Vec<AuditEntry>> {
    // No id is less than the empty text, so entries at `until` itself are left out.
    let until = filter.until.map(|until| (until, String::new()));
    let before = filter.before.map(|(at, id)| (at, id.to_string()));
    let (at, id) = [until, before]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or((Timestamp::from_micros(i64::MAX), String::new()));
    let sql = match filter {
        AuditFilter { target: Some(_), .. } => list!(" AND target = $7"),
        AuditFilter { key: Some(_), .. } => list!(" AND key_id = $8"),
        AuditFilter { action: Some(_), .. } => list!(" AND action = $6"),
        AuditFilter { .. } => list!(""),
    };
    let params = vals![
        org,
        filter.since.unwrap_or(Timestamp::from_micros(i64::MIN)),
        at,
        id,
        filter.limit,
        filter.action.as_deref(),
        filter.target.as_deref(),
        filter.key
    ];
    tx.query_all(sql, params)?.iter().map(entry_from).collect()
}

pub(crate) fn entry_from(row: &Row) -> Result<AuditEntry> {
    let key_id = row.opt_parse::<KeyId>(4)?;
    // Nodes of earlier versions write `key_id` and leave the kind and the id of the author empty.
    let by_key = || key_id.map(|_| ActorKind::Key);
    let id_of_key = || key_id.map(|id| id.to_string());
    Ok(AuditEntry {
        id: row.parse(0)?,
        at: row.time(1)?,
        action: row.text(2)?.to_owned(),
        target: row.text(3)?.to_owned(),
        // A kind that only a later version knows is left out.
        actor_kind: row
            .opt_text(7)?
            .and_then(|kind| kind.parse().ok())
            .or_else(by_key),
        actor_id: row.opt_text(8)?.map(str::to_owned).or_else(id_of_key),
        key_id,
        user_id: row.opt_parse(9)?,
        address: row.opt_parse(5)?,
        request_id: row.opt_text(6)?.map(str::to_owned),
    })
}
