//! Reading runs: the object, definitions and events. Every statement names the organization.

use sortie_api::{OrgId, Run, RunId, RunStatus};

use super::{listed_run, run_columns, run_with_output, select_listed_runs, select_runs};
use crate::{
    Error, Result, Store,
    db::{Row, Stmt, Tx, batch, vals},
    runs::{
        EventRow,
        large::{ListedEvent, ListedRun, short},
    },
};

/// Stored definition of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDefinition {
    /// The JSON of the resolved `RunRequest`. None where it is a large text.
    pub request: Option<String>,
    /// Names of the inline connections whose credentials are not in the definition, as a JSON array. None where there are
    /// no such connections.
    pub requires_credentials: Option<String>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Current status of the run.
    pub status: RunStatus,
    /// Number of the run's last event so far.
    pub last_event: i64,
}

/// Next part of a run's event stream for one reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// Progress of the run.
    pub progress: Progress,
    /// Events after those that the reader has, in order. Large data is left out.
    pub events: Vec<ListedEvent>,
    /// The run; a large output is left out. None before its status is terminal and `events` ends with its last event.
    pub run: Option<ListedRun>,
}

impl Store {
    /// Returns a run with its output.
    pub async fn get_run(&self, org: OrgId, id: RunId) -> Result<Run> {
        self.db.read(move |tx| get(tx, org, id)).await
    }

    /// Returns a run. A large output is left out.
    pub async fn get_listed_run(&self, org: OrgId, id: RunId) -> Result<ListedRun> {
        self.db
            .read(move |tx| {
                let row = tx.query_one(
                    concat!(select_listed_runs!(), "r.id = $2 AND r.org_id = $1"),
                    vals![org, id],
                )?;
                listed_run(&row)
            })
            .await
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
pub(super) fn select_listed_events(id: RunId, after: i64, limit: u32) -> Stmt<'static> {
    Stmt::new(
        concat!(
            "SELECT seq, kind, ",
            short!("data"),
            ", created_at FROM event WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"
        ),
        vals![id, after, limit],
    )
}

pub(super) fn listed_event(row: &Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        seq: row.int(0)?,
        kind: row.text(1)?.to_owned(),
        data: row.opt_text(2)?.map(str::to_owned),
        created_at: row.time(3)?,
    })
}
