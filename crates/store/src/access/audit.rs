//! Audit log: author, action, target, time and client address of each change. The transaction of the change writes the entry.

use std::net::IpAddr;

use sortie_api::{ActorKind, AuditEntry, AuditId, OrgId, Timestamp, UserId, id::KeyId};

use crate::{
    Found, Result, Store,
    access::{Actor, principal::By},
    db::{Stmt, Turn, Tx, Val, filled, insert, row, select, vals},
};

/// Filter of the audit log. Every condition that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Entries with this action.
    pub action: Option<String>,
    /// Entries with this target.
    pub target: Option<String>,
    /// Entries of changes that were made with this API key.
    pub key: Option<KeyId>,
    /// Entries from this time on.
    pub since: Option<Timestamp>,
    /// Entries before this time.
    pub until: Option<Timestamp>,
    /// Returns the entries that follow this position, in a list that starts with the newest entry. Excludes the position
    /// itself.
    pub before: Option<(Timestamp, AuditId)>,
    /// Maximum number of entries.
    pub limit: u32,
}

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
    insert!("audit", {
        "org_id": audit.org,
        "at": audit.at,
        "id": audit.id,
        "action": audit.action,
        "target": audit.target.as_str(),
        "address": audit.actor.address,
        "request_id": audit.actor.request_id.as_deref(),
        "actor_kind": audit.actor.by.map(By::kind),
        "actor_id": audit.actor.by.and_then(By::id),
        "user_id": audit.actor.user,
    })
}

/// Maximum number of index entries that one command reads to find entries that meet several conditions.
pub(crate) const EXAMINED: u32 = 5_000;

row! {
    pub(crate) struct AuditRow {
        id: AuditId = "id",
        at: Timestamp = "at",
        action: String = "action",
        target: String = "target",
        address: Option<IpAddr> = "address",
        request_id: Option<String> = "request_id",
        actor_kind: Option<String> = "actor_kind",
        actor_id: Option<String> = "actor_id",
        user_id: Option<UserId> = "user_id",
    }
}

impl From<AuditRow> for AuditEntry {
    fn from(row: AuditRow) -> Self {
        // Ignores a kind that only a later version defines.
        let actor_kind = row.actor_kind.and_then(|kind| kind.parse().ok());
        let key = row
            .actor_id
            .as_deref()
            .filter(|_| actor_kind == Some(ActorKind::Key));
        Self {
            id: row.id,
            at: row.at,
            action: row.action,
            target: row.target,
            actor_kind,
            key_id: key.and_then(|id| id.parse().ok()),
            actor_id: row.actor_id,
            user_id: row.user_id,
            address: row.address,
            request_id: row.request_id,
        }
    }
}

row! {
    /// Position of an entry in the log.
    struct PositionRow {
        at: Timestamp = "at",
        id: AuditId = "id",
    }
}

/// Position of an entry in the log.
type Position = (Timestamp, AuditId);

/// Query of the entries of an organization. Each of its later conditions is true if its parameter is NULL.
const ALL: &str = filled!(
    LIST,
    "@bounds" = "at >= $2 AND (at, id) >= ($2, $9) AND (at, id) < ($3, $4)",
    "@order" = ""
);

/// Query of the entries that have the value `@value` in a column of the index on the organization and this column. The
/// condition on the column is a range, and the query orders by the column: only this index has that order, so the planner
/// uses it however rare it believes the value to be.
const OF_VALUE: &str = filled!(
    LIST,
    "@bounds" = "(@column, at, id) >= (@value, $2, $9) AND @column >= @value AND (@column, at, id) < (@value, $3, $4)",
    "@order" = "@column DESC, "
);

const LIST: &str = select!(
    AuditRow,
    " FROM audit WHERE org_id = $1 AND @bounds AND action = COALESCE($6, action) AND target = COALESCE($7, target) \
     AND COALESCE(actor_id, '') = COALESCE($8, actor_id, '') ORDER BY @order at DESC, id DESC LIMIT $5"
);

/// Query for entry number `$5` of such an index with the value `$6`, counted from 0.
const NTH: &str = select!(
    PositionRow,
    " FROM audit WHERE org_id = $1 AND (@column, at) >= ($6, $2) AND @column >= $6 AND (@column, at, id) < ($6, $3, $4) \
     ORDER BY @column DESC, at DESC, id DESC LIMIT 1 OFFSET $5"
);

/// Query of the entries by a person among the newest 10,000 of an organization. An index by person would have to be built
/// over the whole log.
pub(crate) const OF_PERSON: &str = select!(
    AuditRow,
    " FROM (",
    select!(
        AuditRow,
        " FROM audit WHERE org_id = $1 ORDER BY at DESC, id DESC LIMIT 10000"
    ),
    ") newest WHERE user_id = $2 LIMIT $3"
);

impl Store {
    /// Returns entries of the audit log, newest first.
    pub async fn list_audit(
        &self,
        org: OrgId,
        filter: AuditFilter,
    ) -> Result<Found<AuditEntry, (Timestamp, AuditId)>> {
        // No index has the order of a list by two properties.
        if ways(&filter).len() > 1 {
            let turn = Turn::Organization(org);
            self.db.scan(turn, move |tx| list(tx, org, &filter)).await
        } else {
            self.db.list(org, move |tx| list(tx, org, &filter)).await
        }
    }
}

/// Way into the log: an index.
struct Way<'a> {
    list: &'static str,
    /// Query for the entry that a walk ends at.
    entry: &'static str,
    /// Parameter of this query.
    of: Val<'a>,
}

/// Returns the ways into the entries that `filter` asks for.
fn ways(filter: &AuditFilter) -> Vec<Way<'_>> {
    let mut ways = Vec::new();
    ways.extend(filter.target.as_deref().map(|target| Way {
        list: filled!(OF_VALUE, "@column" = "target", "@value" = "$7"),
        entry: filled!(NTH, "@column" = "target"),
        of: target.into(),
    }));
    ways.extend(filter.key.map(|key| Way {
        list: filled!(OF_VALUE, "@column" = "actor_id", "@value" = "$8"),
        entry: filled!(NTH, "@column" = "actor_id"),
        of: key.into(),
    }));
    ways.extend(filter.action.as_deref().map(|action| Way {
        list: filled!(OF_VALUE, "@column" = "action", "@value" = "$6"),
        entry: filled!(NTH, "@column" = "action"),
        of: action.into(),
    }));
    ways
}

fn list(tx: &mut dyn Tx, org: OrgId, filter: &AuditFilter) -> Result<Found<AuditEntry, Position>> {
    // No id is less than the empty text, so entries at `until` itself are left out.
    let until = filter.until.map(|until| (until, String::new()));
    let before = filter.before.map(|(at, id)| (at, id.to_string()));
    let (at, id) = [until, before]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or((Timestamp::from_micros(i64::MAX), String::new()));
    let since = filter.since.unwrap_or(Timestamp::from_micros(i64::MIN));
    let within = [org.into(), since.into(), at.into(), id.as_str().into()];
    let (sql, end) = rarest(tx, &ways(filter), &within)?;
    let (end_at, end_id) = end.map_or((since, String::new()), |(at, id)| (at, id.to_string()));
    let params = vals![
        org,
        end_at,
        at,
        id,
        filter.limit,
        filter.action.as_deref(),
        filter.target.as_deref(),
        filter.key,
        end_id
    ];
    let rows: Vec<AuditRow> = tx.read_all(sql, params)?;
    let items: Vec<_> = rows.into_iter().map(AuditEntry::from).collect();
    let is_full = items.len() >= usize::try_from(filter.limit).unwrap_or(usize::MAX);
    Ok(Found {
        stopped_at: end.filter(|_| !is_full),
        items,
    })
}

/// Returns the query through the index with the fewest matching entries, and the position where a walk through it ends: that
/// of its [`EXAMINED`]-th entry. `None` for the position if the index has fewer entries, or if no walk is needed.
fn rarest(tx: &mut dyn Tx, ways: &[Way<'_>], within: &[Val<'_>]) -> Result<(&'static str, Option<Position>)> {
    match ways {
        [] => return Ok((ALL, None)),
        [only] => return Ok((only.list, None)),
        _ => {}
    }
    let last = i64::from(EXAMINED) - 1;
    let entries: Vec<Stmt<'_>> = ways
        .iter()
        .map(|way| {
            let mut params = within.to_vec();
            params.extend([last.into(), way.of.clone()]);
            Stmt::new(way.entry, params)
        })
        .collect();
    let mut rarest = (ALL, None);
    for (number, (way, answer)) in ways.iter().zip(tx.batch(&entries)?).enumerate() {
        let end = answer.first::<PositionRow>()?;
        let end = end.map(|end| (end.at, end.id));
        if number == 0 || end < rarest.1 {
            rarest = (way.list, end);
        }
    }
    Ok(rarest)
}
