//! Lists of runs, newest first.
//!
//! A list by status, schedule, workflow, tag or pair of metadata has an index in its order, and several statuses are merged. All other lists are
//! walks (`walk.rs`).

use std::cmp::Reverse;

use sortie_api::{KeyId, Metadata, Micros, OrgId, RunId, RunStatus, ScheduleId, Timestamp};

use super::{ListedRunRow, SELECT_LISTED_RUNS, pair_label, walk};
use crate::{
    Found, Result, Store,
    db::{ReadRow, Row, Stmt, Turn, Tx, Val, filled, vals},
    runs::large::ListedRun,
};

/// Filter of a list of runs. Every condition that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs with one of these statuses; empty for any.
    pub statuses: Vec<RunStatus>,
    /// Runs of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Runs with this tag.
    pub tag: Option<String>,
    /// Runs with all of these pairs of metadata.
    pub metadata: Metadata,
    /// Runs of this workflow.
    pub workflow: Option<String>,
    /// Runs with this model.
    pub model: Option<String>,
    /// Runs that this key has started.
    pub key: Option<KeyId>,
    /// Runs that were created at this time or later.
    pub since: Option<Timestamp>,
    /// Runs that were created before this time.
    pub until: Option<Timestamp>,
    /// Runs with this text in their error, ignoring the case of ASCII letters.
    pub error: Option<String>,
    /// Runs that cost at least this amount so far.
    pub min_cost: Option<Micros>,
    /// Runs with this text in their search text, ignoring case.
    pub text: Option<String>,
    /// Runs with one of these ids; empty for any.
    pub ids: Vec<RunId>,
    /// Returns the runs that follow this position, in a list that starts with the newest run. Excludes the position itself.
    pub before: Option<Position>,
    /// Maximum number of runs.
    pub limit: u32,
}

impl RunFilter {
    /// The status, if there is one only.
    pub(super) fn status(&self) -> Option<RunStatus> {
        match self.statuses[..] {
            [status] => Some(status),
            _ => None,
        }
    }

    /// Entries of `run_label` that a run of the list has: its tag and its pairs of metadata.
    pub(super) fn labels(&self) -> Vec<String> {
        let pairs = self.metadata.iter().map(|(key, value)| pair_label(key, value));
        self.tag.iter().cloned().chain(pairs).collect()
    }

    /// Whether an index has the order and the runs of the list.
    fn is_indexed(&self) -> bool {
        let others = usize::from(self.tag.is_some())
            + self.metadata.len()
            + usize::from(self.workflow.is_some())
            + usize::from(self.schedule.is_some() || !self.statuses.is_empty());
        let is_merged = self.statuses.len() > 1 && self.schedule.is_some();
        others <= 1 && !is_merged && !self.has_further()
    }

    /// Whether the filter has a condition without an index.
    pub(super) fn has_further(&self) -> bool {
        let further = [
            self.model.is_some(),
            self.key.is_some(),
            self.since.is_some(),
            self.error.is_some(),
            self.min_cost.is_some(),
            self.text.is_some(),
            !self.ids.is_empty(),
        ];
        further.contains(&true)
    }
}

/// Position of a run in a list.
pub(super) type Position = (Timestamp, RunId);

impl Store {
    /// Returns runs with their outputs, newest first. Large outputs are left out.
    pub async fn list_runs(
        &self,
        org: OrgId,
        filter: RunFilter,
    ) -> Result<Found<ListedRun, (Timestamp, RunId)>> {
        if filter.is_indexed() {
            self.db.list(org, move |tx| list(tx, org, &filter)).await
        } else {
            let turn = Turn::Organization(org);
            self.db.scan(turn, move |tx| walked(tx, org, &filter)).await
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
const LIST_WORKFLOW: &str = filled!(
    LIST_BY,
    "@condition" = "r.org_id = $1 AND r.workflow >= $5 AND r.created_at >= 0",
    "@columns" = "r.workflow,",
    "@position" = "$5,",
    "@order" = "r.workflow DESC,"
);
/// Every entry of the index has the label.
const LIST_LABEL: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT t.run_id FROM run_label t WHERE t.org_id = $1 AND t.label = $5 \
     AND (t.created_at, t.run_id) < ($2, $3) ORDER BY t.created_at DESC, t.run_id DESC LIMIT $4{END} \
     ORDER BY r.created_at DESC, r.id DESC"
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
    if !is_schedule_of(tx, org, filter)? {
        return Ok(Found::all(Vec::new()));
    }
    let mut params = behind(org, filter);
    params.push(filter.limit.into());
    if filter.schedule.is_none() && !filter.statuses.is_empty() {
        return Ok(Found::all(of_statuses(tx, &params, filter)?));
    }
    params.extend(filter.schedule.map(Val::from));
    params.extend(filter.status().map(Val::from));
    params.extend(filter.workflow.clone().map(Val::from));
    let labels = filter.labels();
    let has_label = !labels.is_empty();
    params.extend(labels.into_iter().map(Val::from));
    let sql = match (filter.schedule, filter.status()) {
        (None, _) if filter.workflow.is_some() => LIST_WORKFLOW,
        (None, _) if has_label => LIST_LABEL,
        (None, _) => LIST,
        (Some(_), None) => LIST_SCHEDULE,
        (Some(_), Some(status)) if status.is_final() => LIST_SCHEDULE_OUTCOME,
        (Some(_), Some(_)) => LIST_SCHEDULE_OPEN,
    };
    Ok(Found::all(runs_of(&tx.query_all(sql, params)?)?))
}

/// Lists that have the runs with a status together.
const fn lists_of(status: RunStatus) -> &'static [&'static str] {
    match status {
        // No command makes a run `reserving` yet. One that does will need an index for this list.
        RunStatus::Reserving => &[],
        RunStatus::Queued => &[LIST_FREE, LIST_BOUND],
        RunStatus::Starting | RunStatus::Running => &[LIST_BOUND],
        RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::TimedOut
        | RunStatus::Interrupted => &[LIST_OUTCOME],
    }
}

/// Lists runs with one of several statuses. A run may move on between two of the lists: in the order of a run's life it is
/// then in both and not in neither.
fn of_statuses(tx: &mut dyn Tx, params: &[Val<'_>], filter: &RunFilter) -> Result<Vec<ListedRun>> {
    let statuses = RunStatus::ALL
        .into_iter()
        .filter(|status| filter.statuses.contains(status));
    let lists = statuses.flat_map(|status| lists_of(status).iter().map(move |sql| (*sql, status)));
    let statements = lists.map(|(sql, status)| {
        let mut params = params.to_vec();
        params.push(status.into());
        Stmt::new(sql, params)
    });
    merged(tx, &statements.collect::<Vec<_>>(), filter.limit)
}

/// Lists runs by a walk over a bounded number of entries.
fn walked(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<Found<ListedRun, Position>> {
    if !is_schedule_of(tx, org, filter)? {
        return Ok(Found::all(Vec::new()));
    }
    walk::list(tx, org, filter)
}

/// Whether the schedule of the filter is one of the organization, if it has one.
fn is_schedule_of(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<bool> {
    filter
        .schedule
        .map_or(Ok(true), |schedule| is_of(tx, org, schedule))
}

/// Whether the runs of a schedule belong to the organization. All runs of a schedule belong to the same one; a walk over those
/// of another would find nothing.
fn is_of(tx: &mut dyn Tx, org: OrgId, schedule: ScheduleId) -> Result<bool> {
    let first = tx.query_opt(
        "SELECT r.org_id FROM run r WHERE r.schedule_id = $1 ORDER BY r.created_at, r.id LIMIT 1",
        vals![schedule],
    )?;
    first.map_or(Ok(false), |row| Ok(row.only::<OrgId>()? == org))
}

/// First parameters of every list: the organization, and the position after which the list continues.
pub(super) fn behind(org: OrgId, filter: &RunFilter) -> Vec<Val<'static>> {
    // `~` sorts after every character of an id, and an empty text before.
    let newest = (Timestamp::from_micros(i64::MAX), "~".to_owned());
    let before = filter.before.map(|(at, id)| (at, id.to_string()));
    let until = filter.until.map(|until| (until, String::new()));
    let (at, id) = before.into_iter().chain(until).fold(newest, std::cmp::min);
    vals![org, at, id]
}

fn runs_of(rows: &[Row]) -> Result<Vec<ListedRun>> {
    rows.iter()
        .map(|row| ListedRunRow::read(row).map(Into::into))
        .collect()
}

/// Returns the newest runs of several lists.
pub(super) fn merged(tx: &mut dyn Tx, lists: &[Stmt<'_>], limit: u32) -> Result<Vec<ListedRun>> {
    let mut runs = Vec::new();
    if !lists.is_empty() {
        for answer in tx.batch(lists)? {
            runs.extend(runs_of(&answer.rows)?);
        }
    }
    runs.sort_by_key(|listed| Reverse((listed.run.created_at, listed.run.id)));
    runs.dedup_by_key(|listed| listed.run.id);
    runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(runs)
}
