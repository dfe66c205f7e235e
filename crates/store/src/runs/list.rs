//! Lists of runs, newest first.
//!
//! A list by status or by schedule uses an index in the order of the list. A list by tag and one of these has no such index,
//! and no index could be right, because either filter may be the rarer one. The list is read by the rarer filter: the one
//! with the older [`EXAMINED`]-th entry. The command stops at that entry, and the next command continues there.

use sortie_api::{OrgId, RunId, RunStatus, ScheduleId, Timestamp};

use super::{ListedRunRow, SELECT_LISTED_RUNS};
use crate::{
    Found, Result, Store,
    db::{Answer, ReadRow, Row, Stmt, Turn, Tx, Val, batch, filled, row, select, vals},
    runs::large::ListedRun,
};

/// Filter of a list of runs. Every condition that is set must hold.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Runs with this status.
    pub status: Option<RunStatus>,
    /// Runs of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Runs with this tag.
    pub tag: Option<String>,
    /// Returns the runs that follow this position, in a list that starts with the newest run. Excludes the position itself.
    pub before: Option<(Timestamp, RunId)>,
    /// Maximum number of runs.
    pub limit: u32,
}

/// Maximum number of index entries that one command reads to find runs with a tag and another property.
pub(crate) const EXAMINED: u32 = 5_000;

/// Position of a run in a list.
type Position = (Timestamp, RunId);

impl Store {
    /// Returns runs with their outputs, newest first. Large outputs are left out.
    pub async fn list_runs(
        &self,
        org: OrgId,
        filter: RunFilter,
    ) -> Result<Found<ListedRun, (Timestamp, RunId)>> {
        // No index has the order of this kind of list.
        let is_walk = filter.tag.is_some() && (filter.status.is_some() || filter.schedule.is_some());
        if is_walk {
            let turn = Turn::Organization(org);
            self.db.scan(turn, move |tx| list(tx, org, &filter)).await
        } else {
            self.db.list(org, move |tx| list(tx, org, &filter)).await
        }
    }
}

/// List through an index of `run`. `@condition` holds for the runs of the list. `@columns` and `@position` are the start of
/// a position in the index: the columns after the condition, and their values. A list by outcome also orders by the outcome,
/// although it is the same for all of its runs: only this index has that order, so the planner uses it however rare it
/// believes an outcome to be. A list by schedule hides the organization from the planner for the same reason.
const LIST_BY: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "@condition AND (@columns r.created_at, r.id) < (@position $2, $3) \
     ORDER BY @order r.created_at DESC, r.id DESC LIMIT $4"
);

const LIST: &str = filled!(
    LIST_BY,
    "@condition" = "r.org_id = $1 AND r.created_at >= 0",
    "@columns" = "",
    "@position" = "",
    "@order" = ""
);
const LIST_OUTCOME: &str = filled!(
    LIST_BY,
    "@condition" = "r.org_id = $1 AND r.outcome >= $5 AND r.created_at >= 0",
    "@columns" = "r.outcome,",
    "@position" = "$5,",
    "@order" = "r.outcome DESC,"
);
const LIST_SCHEDULE: &str = filled!(
    LIST_BY,
    "@condition" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5",
    "@columns" = "",
    "@position" = "",
    "@order" = ""
);
const LIST_SCHEDULE_OUTCOME: &str = filled!(
    LIST_BY,
    "@condition" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5 AND r.outcome >= $6",
    "@columns" = "r.outcome,",
    "@position" = "$6,",
    "@order" = "r.outcome DESC,"
);
/// Few runs of one schedule are open.
const LIST_SCHEDULE_OPEN: &str = filled!(
    LIST_BY,
    "@condition" =
        "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5 AND r.outcome IS NULL AND r.status = $6",
    "@columns" = "",
    "@position" = "",
    "@order" = "r.outcome DESC,"
);

/// Lists runs that are not final through the queue, which has the order of the list. Among the runs that nodes
/// hold it walks to those of the status.
const LIST_QUEUE: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id @node \
     AND (q.enqueued_at, q.run_id) < ($2, $3) \
     AND (SELECT s.status FROM run s WHERE s.id = q.run_id) = $5 \
     ORDER BY q.enqueued_at DESC, q.run_id DESC LIMIT $4{END} ORDER BY r.created_at DESC, r.id DESC"
);
const LIST_FREE: &str = filled!(LIST_QUEUE, "@node" = "IS NULL");
const LIST_BOUND: &str = filled!(LIST_QUEUE, "@node" = "IS NOT NULL");

// Each combination of filters has its own statement, and so an index in the order of the list.
fn list(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<Found<ListedRun, Position>> {
    if let Some(schedule) = filter.schedule
        && !is_of(tx, org, schedule)?
    {
        return Ok(Found::all(Vec::new()));
    }
    if let Some(tag) = &filter.tag {
        return tagged(tx, org, tag, filter);
    }
    let mut params = behind(org, filter);
    params.push(filter.limit.into());
    params.extend(filter.schedule.map(Val::from));
    params.extend(filter.status.map(Val::from));
    let sql = match (filter.schedule, filter.status) {
        (None, None) => LIST,
        (None, Some(status)) if status.is_final() => LIST_OUTCOME,
        (None, Some(RunStatus::Queued)) => {
            return Ok(Found::all(merged(
                tx,
                [LIST_FREE, LIST_BOUND],
                &params,
                filter.limit,
            )?));
        }
        (None, Some(RunStatus::Starting | RunStatus::Running)) => LIST_BOUND,
        // No command sets `reserving` yet. The first one that does will need an index for this list.
        (None, Some(_)) => return Ok(Found::all(Vec::new())),
        (Some(_), None) => LIST_SCHEDULE,
        (Some(_), Some(status)) if status.is_final() => LIST_SCHEDULE_OUTCOME,
        (Some(_), Some(_)) => LIST_SCHEDULE_OPEN,
    };
    Ok(Found::all(runs_of(&tx.query_all(sql, params)?)?))
}

/// Whether the runs of a schedule belong to the organization. All runs of a schedule belong to the same one; a walk for
/// another organization would find no run.
fn is_of(tx: &mut dyn Tx, org: OrgId, schedule: ScheduleId) -> Result<bool> {
    let first = tx.query_opt(
        "SELECT r.org_id FROM run r WHERE r.schedule_id = $1 ORDER BY r.created_at, r.id LIMIT 1",
        vals![schedule],
    )?;
    first.map_or(Ok(false), |row| Ok(row.only::<OrgId>()? == org))
}

/// First parameters of every list: the organization, and the position after which the list continues.
fn behind(org: OrgId, filter: &RunFilter) -> Vec<Val<'static>> {
    // `~` sorts after every character of an id.
    let (at, id) = filter
        .before
        .map_or((Timestamp::from_micros(i64::MAX), "~".to_owned()), |(at, id)| {
            (at, id.to_string())
        });
    vals![org, at, id]
}

fn runs_of(rows: &[Row]) -> Result<Vec<ListedRun>> {
    rows.iter()
        .map(|row| ListedRunRow::read(row).map(Into::into))
        .collect()
}

/// Returns the first runs of two merged lists: the runs that wait for any node, and those that one node holds or that wait
/// for the node with their content.
fn merged(
    tx: &mut dyn Tx,
    lists: [&'static str; 2],
    params: &[Val<'_>],
    limit: u32,
) -> Result<Vec<ListedRun>> {
    let answers: [Answer; 2] = batch(tx, &lists.map(|sql| Stmt::new(sql, params.to_vec())))?;
    let mut runs = Vec::new();
    for answer in &answers {
        runs.extend(runs_of(&answer.rows)?);
    }
    runs.sort_by_key(|listed| std::cmp::Reverse((listed.run.created_at, listed.run.id)));
    runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(runs)
}

row! {
    /// Entry of an index.
    struct EntryRow {
        at: Timestamp = "@at",
        run: RunId = "@id",
    }
}

/// Entry number `$4` of an index after the position `$2`, `$3`, counted from 0.
const ENTRY: &str = select!(
    EntryRow,
    " FROM @from AND (@at, @id) < ($2, $3) ORDER BY @at DESC, @id DESC LIMIT 1 OFFSET $4"
);

/// Like [`ENTRY`], on an index that begins with the outcome.
const ENTRY_OF_OUTCOME: &str = filled!(
    select!(
        EntryRow,
        " FROM run r WHERE @condition AND (r.outcome, @at, @id) < (@outcome, $2, $3) \
         ORDER BY r.outcome DESC, @at DESC, @id DESC LIMIT 1 OFFSET $4"
    ),
    "@at" = "r.created_at",
    "@id" = "r.id"
);

const TAG_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "run_tag t WHERE t.org_id = $1 AND t.tag = $5",
    "@at" = "t.created_at",
    "@id" = "t.run_id"
);
const OUTCOME_ENTRY: &str = filled!(
    ENTRY_OF_OUTCOME,
    "@condition" = "r.org_id = $1 AND r.outcome >= $5 AND r.created_at >= 0",
    "@outcome" = "$5"
);
const SCHEDULE_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "run r WHERE COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5",
    "@at" = "r.created_at",
    "@id" = "r.id"
);
const SCHEDULE_OUTCOME_ENTRY: &str = filled!(
    ENTRY_OF_OUTCOME,
    "@condition" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5 AND r.outcome >= $6",
    "@outcome" = "$6"
);
const QUEUE_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "queue q WHERE q.org_id = $1 AND q.node_id @node",
    "@at" = "q.enqueued_at",
    "@id" = "q.run_id"
);
const FREE_ENTRY: &str = filled!(QUEUE_ENTRY, "@node" = "IS NULL");
const BOUND_ENTRY: &str = filled!(QUEUE_ENTRY, "@node" = "IS NOT NULL");

/// Condition that the run `@run` has the tag `$5`.
const HAS_TAG: &str = "(SELECT t.run_id FROM run_tag t WHERE t.org_id = $1 AND t.tag = $5 \
    AND t.created_at = @run.created_at AND t.run_id = @run.id) IS NOT NULL";

/// Condition that the run `@run` has the status `$8` and the schedule `$9`, if these are given.
const HAS_PROPERTIES: &str = "(CAST($8 AS TEXT) IS NULL OR @run.status = $8) \
    AND (CAST($9 AS TEXT) IS NULL OR @run.schedule_id = $9)";

/// Walk through an index of `run`, down to the position `$6`, `$7`. See [`LIST_BY`] for the conditions. The bound for the
/// index scan comes before one that only makes the index usable.
const WALK_RUNS: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "@bounds AND ",
    filled!(HAS_PROPERTIES, "@run" = "r"),
    " AND ",
    filled!(HAS_TAG, "@run" = "r"),
    " ORDER BY @order r.created_at DESC, r.id DESC LIMIT $4"
);

const WALK_OUTCOME: &str = filled!(
    WALK_RUNS,
    "@bounds" = "r.org_id = $1 AND (r.outcome, r.created_at, r.id) >= ($8, $6, $7) AND r.outcome >= $8 \
        AND r.created_at >= 0 AND (r.outcome, r.created_at, r.id) < ($8, $2, $3)",
    "@order" = "r.outcome DESC,"
);
const WALK_SCHEDULE: &str = filled!(
    WALK_RUNS,
    "@bounds" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $9 AND r.created_at >= $6 \
        AND (r.created_at, r.id) >= ($6, $7) AND (r.created_at, r.id) < ($2, $3)",
    "@order" = ""
);
const WALK_SCHEDULE_OUTCOME: &str = filled!(
    WALK_RUNS,
    "@bounds" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $9 \
        AND (r.outcome, r.created_at, r.id) >= ($8, $6, $7) AND (r.outcome, r.created_at, r.id) < ($8, $2, $3)",
    "@order" = "r.outcome DESC,"
);

/// Walk through the tag.
const WALK_TAG: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT t.run_id FROM run_tag t WHERE t.org_id = $1 AND t.tag = $5 \
     AND t.created_at >= $6 AND (t.created_at, t.run_id) >= ($6, $7) AND (t.created_at, t.run_id) < ($2, $3) \
     AND (SELECT s.id FROM run s WHERE s.id = t.run_id AND ",
    filled!(HAS_PROPERTIES, "@run" = "s"),
    ") IS NOT NULL ORDER BY t.created_at DESC, t.run_id DESC LIMIT $4{END} ORDER BY r.created_at DESC, r.id DESC"
);

/// Walk through the queue.
const WALK_QUEUE: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id @node \
     AND q.enqueued_at >= $6 AND (q.enqueued_at, q.run_id) >= ($6, $7) \
     AND (q.enqueued_at, q.run_id) < ($2, $3) AND (SELECT s.id FROM run s WHERE s.id = q.run_id AND ",
    filled!(HAS_PROPERTIES, "@run" = "s"),
    " AND ",
    filled!(HAS_TAG, "@run" = "s"),
    ") IS NOT NULL ORDER BY q.enqueued_at DESC, q.run_id DESC LIMIT $4{END} \
     ORDER BY r.created_at DESC, r.id DESC"
);
const WALK_FREE: &str = filled!(WALK_QUEUE, "@node" = "IS NULL");
const WALK_BOUND: &str = filled!(WALK_QUEUE, "@node" = "IS NOT NULL");

/// Other way into a list of runs with a tag.
struct Way {
    /// Statement for the entry that a walk ends at.
    entry: &'static str,
    /// Parameters of this statement after the fourth.
    of: Vec<Val<'static>>,
    /// Statements of the walk. Their runs are merged.
    walks: Vec<&'static str>,
}

impl Way {
    /// The way by the status and the schedule of the filter. `None` if it has neither.
    fn of(filter: &RunFilter) -> Option<Self> {
        let (entry, walk) = match (filter.schedule, filter.status) {
            (None, None) => return None,
            (Some(_), Some(status)) if status.is_final() => (SCHEDULE_OUTCOME_ENTRY, WALK_SCHEDULE_OUTCOME),
            (None, Some(status)) if status.is_final() => (OUTCOME_ENTRY, WALK_OUTCOME),
            (_, Some(RunStatus::Queued)) => {
                return Some(Self {
                    entry: FREE_ENTRY,
                    of: Vec::new(),
                    walks: vec![WALK_FREE, WALK_BOUND],
                });
            }
            (_, Some(_)) => {
                return Some(Self {
                    entry: BOUND_ENTRY,
                    of: Vec::new(),
                    walks: vec![WALK_BOUND],
                });
            }
            (Some(_), None) => (SCHEDULE_ENTRY, WALK_SCHEDULE),
        };
        let schedule = filter.schedule.map(Val::from);
        let status = filter.status.map(Val::from);
        Some(Self {
            entry,
            of: schedule.into_iter().chain(status).collect(),
            walks: vec![walk],
        })
    }
}

/// Lists runs with a tag.
fn tagged(tx: &mut dyn Tx, org: OrgId, tag: &str, filter: &RunFilter) -> Result<Found<ListedRun, Position>> {
    let (mut walks, mut end) = (vec![WALK_TAG], None);
    if let Some(way) = Way::of(filter) {
        let last = i64::from(EXAMINED) - 1;
        let entry = |sql, of: Vec<Val<'static>>| {
            let mut params = behind(org, filter);
            params.push(last.into());
            params.extend(of);
            Stmt::new(sql, params)
        };
        let [by_tag, by_other] = batch(
            tx,
            &[entry(TAG_ENTRY, vals![tag.to_owned()]), entry(way.entry, way.of)],
        )?;
        end = position_of(&by_tag)?;
        let other = position_of(&by_other)?;
        // An index with fewer entries is walked to its end.
        if end.is_some() && other < end {
            (walks, end) = (way.walks, other);
        }
    }
    let (end_at, end_id) = end.map_or((Timestamp::from_micros(i64::MIN), String::new()), |(at, id)| {
        (at, id.to_string())
    });
    let mut params = behind(org, filter);
    params.extend(vals![
        filter.limit,
        tag,
        end_at,
        end_id,
        filter.status.map(RunStatus::as_str),
        filter.schedule
    ]);
    let items = match walks[..] {
        [first, second] => merged(tx, [first, second], &params, filter.limit)?,
        [only] => runs_of(&tx.query_all(only, params)?)?,
        _ => Vec::new(),
    };
    let is_full = items.len() >= usize::try_from(filter.limit).unwrap_or(usize::MAX);
    Ok(Found {
        stopped_at: end.filter(|_| !is_full),
        items,
    })
}

fn position_of(answer: &Answer) -> Result<Option<Position>> {
    let row = answer.rows.first();
    row.map(|row| EntryRow::read(row).map(|entry| (entry.at, entry.run)))
        .transpose()
}
