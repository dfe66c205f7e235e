//! Reading runs: the object, lists, definitions and events. Every statement names the organization.

use sortie_api::{OrgId, Run, RunId, RunStatus, Timestamp};

use super::{listed_run, run_columns, run_with_output, select_listed_runs, select_runs};
use crate::{
    Store,
    db::{Row, Stmt, Tx, Val, batch, vals},
    large::{ListedEvent, ListedRun, short},
    types::{Error, EventRow, Result, RunFilter, StoredDefinition},
};

impl Store {
    /// Returns a run with its output.
    pub async fn get_run(&self, org: OrgId, id: RunId) -> Result<Run> {
        self.db.read(move |tx| get(tx, org, id)).await
    }

    /// Returns the run that was created under an idempotency key, with its output.
    pub async fn find_idempotent(&self, org: OrgId, key: &str) -> Result<Option<Run>> {
        let key = key.to_owned();
        self.db
            .read(move |tx| {
                let found = tx.query_opt(
                    concat!(select_runs!(), "r.org_id = $1 AND r.idempotency_key = $2"),
                    vals![org, key.as_str()],
                )?;
                found.as_ref().map(run_with_output).transpose()
            })
            .await
    }

    /// Returns runs with their outputs, newest first. Large outputs are left out.
    pub async fn list_runs(&self, org: OrgId, filter: RunFilter) -> Result<Vec<ListedRun>> {
        self.db.read(move |tx| list(tx, org, &filter)).await
    }

    /// Returns the definition that a run used, without its text where it is large; `Unretained` if it was never stored.
    pub async fn run_definition(&self, org: OrgId, id: RunId) -> Result<StoredDefinition> {
        self.db
            .read(move |tx| {
                let row = tx.query_one(
                    concat!(
                        "SELECT (SELECT ",
                        short!("d.definition"),
                        " FROM run_definition d WHERE d.run_id = r.id), \
                         (SELECT d.requires_credentials FROM run_definition d WHERE d.run_id = r.id), \
                         (SELECT octet_length(d.definition) FROM run_definition d WHERE d.run_id = r.id) FROM run r \
                         WHERE r.id = $2 AND r.org_id = $1"
                    ),
                    vals![org, id],
                )?;
                row.opt_int(2)?.ok_or(Error::Unretained)?;
                Ok(StoredDefinition {
                    request: row.opt_text(0)?.map(str::to_owned),
                    requires_credentials: row.opt_text(1)?.map(str::to_owned),
                })
            })
            .await
    }

    /// Returns at most `limit` events after `after`, in order. `NotFound` for a run of another organization,
    /// `Unretained` for a run whose events are not stored.
    pub async fn events_after(&self, org: OrgId, id: RunId, after: i64, limit: u32) -> Result<Vec<EventRow>> {
        self.db
            .read(move |tx| {
                events(tx, (org, id), select_events(id, after, limit))?
                    .iter()
                    .map(event_from)
                    .collect()
            })
            .await
    }

    /// Returns events as [`Self::events_after`] does. Large data is left out.
    pub async fn list_events(
        &self,
        org: OrgId,
        id: RunId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ListedEvent>> {
        self.db
            .read(move |tx| {
                events(tx, (org, id), select_listed_events(id, after, limit))?
                    .iter()
                    .map(listed_event)
                    .collect()
            })
            .await
    }
}

pub(super) fn get(tx: &mut dyn Tx, org: OrgId, id: RunId) -> Result<Run> {
    let row = tx.query_one(
        concat!(select_runs!(), "r.id = $2 AND r.org_id = $1"),
        vals![org, id],
    )?;
    run_with_output(&row)
}

macro_rules! list_where {
    ($condition:literal) => {
        list_where!($condition, "")
    };
    ($condition:literal, $order:literal) => {
        concat!(
            select_listed_runs!(),
            $condition,
            " AND r.created_at >= 0 AND (r.created_at, r.id) < ($2, $3) ORDER BY ",
            $order,
            "r.created_at DESC, r.id DESC LIMIT $4"
        )
    };
}

// Lists runs that are not final through the queue, which has the order of the list. Among the runs that nodes
// hold it walks to those of the status.
macro_rules! list_queue {
    ($node:literal) => {
        concat!(
            select_listed_runs!(),
            "r.org_id = $1 AND r.id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id ",
            $node,
            " AND (q.enqueued_at, q.run_id) < ($2, $3) \
             AND (SELECT s.status FROM run s WHERE s.id = q.run_id) = $5 \
             ORDER BY q.enqueued_at DESC, q.run_id DESC LIMIT $4{END} ORDER BY r.created_at DESC, r.id DESC"
        )
    };
}

// Lists runs through a tag, which has the order of the list. Among the runs of the tag it walks to those of
// the status and the schedule.
const LIST_TAGGED: &str = concat!(
    select_listed_runs!(),
    "r.org_id = $1 AND r.id {IN}SELECT t.run_id FROM run_tag t WHERE t.org_id = $1 AND t.tag = $5 \
     AND (t.created_at, t.run_id) < ($2, $3) \
     AND (CAST($6 AS TEXT) IS NULL OR (SELECT s.status FROM run s WHERE s.id = t.run_id) = $6) \
     AND (CAST($7 AS TEXT) IS NULL OR (SELECT s.schedule_id FROM run s WHERE s.id = t.run_id) = $7) \
     ORDER BY t.created_at DESC, t.run_id DESC LIMIT $4{END} ORDER BY r.created_at DESC, r.id DESC"
);

// Each combination of filters has a text of its own, and so an index in the order of the list.
fn list(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<Vec<ListedRun>> {
    // `~` sorts after every character of an id.
    let (at, id) = filter
        .before
        .map_or((Timestamp::from_micros(i64::MAX), "~".to_owned()), |(at, id)| {
            (at, id.to_string())
        });
    let mut params = vals![org, at, id, filter.limit];
    if let Some(tag) = &filter.tag {
        params.extend(vals![
            tag.as_str(),
            filter.status.map(RunStatus::as_str),
            filter.schedule
        ]);
        return tx
            .query_all(LIST_TAGGED, params)?
            .iter()
            .map(listed_run)
            .collect();
    }
    params.extend(filter.schedule.map(Val::from));
    params.extend(filter.status.map(Val::from));
    let sql = match (filter.schedule, filter.status) {
        (None, None) => list_where!("r.org_id = $1"),
        (None, Some(status)) if status.is_final() => list_where!("r.org_id = $1 AND r.outcome = $5"),
        (None, Some(RunStatus::Queued)) => return waiting(tx, &params, filter.limit),
        (None, Some(RunStatus::Starting | RunStatus::Running)) => list_queue!("IS NOT NULL"),
        // No command makes a run `reserving` yet. One that does will need an index for this list.
        (None, Some(_)) => return Ok(Vec::new()),
        (Some(_), None) => list_where!("r.org_id = $1 AND r.schedule_id = $5"),
        (Some(_), Some(status)) if status.is_final() => {
            list_where!("r.org_id = $1 AND r.schedule_id = $5 AND r.outcome = $6")
        }
        // Few runs of one schedule are open. The outcome comes first in the order, which binds the planner to
        // its index.
        (Some(_), Some(_)) => list_where!(
            "r.org_id = $1 AND r.schedule_id = $5 AND r.outcome IS NULL AND r.status = $6",
            "r.outcome DESC, "
        ),
    };
    tx.query_all(sql, params)?.iter().map(listed_run).collect()
}

/// Returns runs that wait for any node, and runs that wait for the one that has their content.
fn waiting(tx: &mut dyn Tx, params: &[Val<'_>], limit: u32) -> Result<Vec<ListedRun>> {
    let answers = batch(
        tx,
        &[
            Stmt::new(list_queue!("IS NULL"), params.to_vec()),
            Stmt::new(list_queue!("IS NOT NULL"), params.to_vec()),
        ],
    )?;
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    let mut runs = rows.map(listed_run).collect::<Result<Vec<_>>>()?;
    runs.sort_by_key(|listed| std::cmp::Reverse((listed.run.created_at, listed.run.id)));
    runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(runs)
}

/// Returns the rows that `select` finds for a run of the organization whose events are stored.
fn events(tx: &mut dyn Tx, (org, id): (OrgId, RunId), select: Stmt<'static>) -> Result<Vec<Row>> {
    let [run, events] = batch(
        tx,
        &[
            Stmt::new(
                "SELECT zero_data_retention FROM run WHERE id = $2 AND org_id = $1",
                vals![org, id],
            )
            .exactly(1, Error::NotFound),
            select,
        ],
    )?;
    if run.rows.first().ok_or(Error::NotFound)?.int(0)? != 0 {
        return Err(Error::Unretained);
    }
    Ok(events.rows)
}

/// Statement that reads events after `after`, for [`event_from`].
pub(super) fn select_events(id: RunId, after: i64, limit: u32) -> Stmt<'static> {
    Stmt::new(
        "SELECT seq, kind, data, created_at FROM event \
         WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        vals![id, after, limit],
    )
}

pub(super) fn event_from(row: &Row) -> Result<EventRow> {
    Ok(EventRow {
        seq: row.int(0)?,
        kind: row.text(1)?.to_owned(),
        data: row.text(2)?.to_owned(),
        created_at: row.time(3)?,
    })
}

/// Statement that reads events after `after`, for [`listed_event`].
fn select_listed_events(id: RunId, after: i64, limit: u32) -> Stmt<'static> {
    Stmt::new(
        concat!(
            "SELECT seq, kind, ",
            short!("data"),
            ", created_at FROM event WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"
        ),
        vals![id, after, limit],
    )
}

fn listed_event(row: &Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        seq: row.int(0)?,
        kind: row.text(1)?.to_owned(),
        data: row.opt_text(2)?.map(str::to_owned),
        created_at: row.time(3)?,
    })
}
