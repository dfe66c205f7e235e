//! Reading runs: the object, lists, definitions and events. Every statement names the organization.

use sortie_api::{OrgId, Run, RunId, RunStatus, Timestamp};

use super::{run_columns, run_with_output, select_runs};
use crate::{
    Store,
    db::{Row, Stmt, Tx, batch, vals},
    types::{Error, EventRow, Result, RunFilter},
};

impl Store {
    /// A run with its output.
    pub async fn get_run(&self, org: OrgId, id: RunId) -> Result<Run> {
        self.db.read(move |tx| get(tx, org, id)).await
    }

    /// The run that was created under an idempotency key, with its output.
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

    /// Runs, newest first, with their outputs.
    pub async fn list_runs(&self, org: OrgId, filter: RunFilter) -> Result<Vec<Run>> {
        self.db.read(move |tx| list(tx, org, &filter)).await
    }

    /// The stored definition: the JSON of a resolved `RunRequest`.
    pub async fn run_definition(&self, org: OrgId, id: RunId) -> Result<String> {
        self.db
            .read(move |tx| {
                tx.query_one(
                    "SELECT (SELECT d.definition FROM run_definition d WHERE d.run_id = r.id) FROM run r \
                     WHERE r.id = $2 AND r.org_id = $1",
                    vals![org, id],
                )?
                .text(0)
                .map(str::to_owned)
            })
            .await
    }

    /// Events after `after`, in order, at most `limit`. `NotFound` for a run of another organization.
    pub async fn events_after(&self, org: OrgId, id: RunId, after: i64, limit: u32) -> Result<Vec<EventRow>> {
        self.db.read(move |tx| events(tx, org, id, (after, limit))).await
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
            select_runs!(),
            $condition,
            " AND r.created_at >= 0 AND (r.created_at, r.id) < ($2, $3) ORDER BY ",
            $order,
            "r.created_at DESC, r.id DESC LIMIT $4"
        )
    };
}

// One text for each way in, so that each has an index in the order of the list: all runs, those with an outcome,
// those without one, those of a schedule.
fn list(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<Vec<Run>> {
    // `~` is above every character of an id.
    let (at, id) = filter
        .before
        .map_or((Timestamp::from_micros(i64::MAX), "~".to_owned()), |(at, id)| {
            (at, id.to_string())
        });
    let mut params = vals![org, at, id, filter.limit];
    let sql = match (filter.schedule, filter.status) {
        (Some(schedule), status) => {
            params.push(schedule.into());
            params.push(status.map_or("", RunStatus::as_str).into());
            list_where!("r.org_id = $1 AND r.schedule_id = $5 AND $6 IN ('', r.status)")
        }
        (None, None) => list_where!("r.org_id = $1"),
        (None, Some(status)) => {
            params.push(status.into());
            if status.is_final() {
                list_where!("r.org_id = $1 AND r.outcome = $5")
            } else {
                // That the outcome leads the order binds the planner to its index.
                list_where!(
                    "r.org_id = $1 AND r.outcome IS NULL AND r.status = $5",
                    "r.outcome DESC, "
                )
            }
        }
    };
    tx.query_all(sql, params)?.iter().map(run_with_output).collect()
}

fn events(tx: &mut dyn Tx, org: OrgId, id: RunId, (after, limit): (i64, u32)) -> Result<Vec<EventRow>> {
    let [_, events] = batch(
        tx,
        &[
            Stmt::new("SELECT 1 FROM run WHERE id = $2 AND org_id = $1", vals![org, id])
                .exactly(1, Error::NotFound),
            Stmt::new(
                "SELECT seq, kind, data, created_at FROM event \
                 WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                vals![id, after, limit],
            ),
        ],
    )?;
    events.rows.iter().map(event_from).collect()
}

fn event_from(row: &Row) -> Result<EventRow> {
    Ok(EventRow {
        seq: row.int(0)?,
        kind: row.text(1)?.to_owned(),
        data: row.text(2)?.to_owned(),
        created_at: row.time(3)?,
    })
}
