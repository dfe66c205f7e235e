//! How far one run has come, for those who wait for it and those who follow its events.

use sortie_api::{OrgId, RunId, RunStatus};

use super::{
    OUTPUT, artifacts,
    read::{event_from, select_events},
    run_columns, run_with_output,
};
use crate::{
    Store,
    db::{Stmt, Tx, batch, vals},
    types::{Error, EventRow, Followed, Progress, Result},
};

/// Columns of [`run_columns`].
const STATUS: usize = 1;
const RETENTION: usize = 12;

/// Where [`follow`] has the last event: behind the columns of [`run_columns`], the output and the artifacts.
const LAST_EVENT: usize = OUTPUT + 2;

impl Store {
    /// The status and the last event of a run; `Unretained` where its events are not stored.
    pub async fn progress(&self, org: OrgId, id: RunId) -> Result<Progress> {
        let row = self
            .db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT status, last_event, zero_data_retention FROM run WHERE id = $2 AND org_id = $1",
                    vals![org, id],
                )
            })
            .await?
            .ok_or(Error::NotFound)?;
        if row.int(2)? != 0 {
            return Err(Error::Unretained);
        }
        Ok(Progress {
            status: row.parse::<RunStatus>(0)?,
            last_event: row.int(1)?,
        })
    }

    /// What a follower that has the events up to `after` needs next: how far the run has come, at most `limit` events, and
    /// the run itself once it is final and these are its last. `NotFound` and `Unretained` as for
    /// [`events_after`](Self::events_after).
    pub async fn follow(&self, org: OrgId, id: RunId, after: i64, limit: u32) -> Result<Followed> {
        self.db.read(move |tx| follow(tx, org, id, (after, limit))).await
    }
}

// The run comes first: each statement sees what is committed when it begins, and so no event up to the run's last is missing.
fn follow(tx: &mut dyn Tx, org: OrgId, id: RunId, (after, limit): (i64, u32)) -> Result<Followed> {
    let reach = after.saturating_add(limit.into());
    let [run, events] = batch(
        tx,
        &[
            Stmt::new(
                concat!(
                    "SELECT ",
                    run_columns!(),
                    ", CASE WHEN r.outcome IS NOT NULL AND r.last_event <= $3 \
                       THEN (SELECT o.output FROM run_output o WHERE o.run_id = r.id) END, ",
                    artifacts::artifacts_column!(),
                    ", r.last_event FROM run r WHERE r.id = $2 AND r.org_id = $1"
                ),
                vals![org, id, reach],
            )
            .exactly(1, Error::NotFound),
            select_events(id, after, limit),
        ],
    )?;
    let row = run.rows.first().ok_or(Error::NotFound)?;
    if row.int(RETENTION)? != 0 {
        return Err(Error::Unretained);
    }
    let (status, last_event): (RunStatus, _) = (row.parse(STATUS)?, row.int(LAST_EVENT)?);
    let is_last = status.is_final() && last_event <= reach;
    // Who asks for what comes after more than there is gets nothing of what has come since.
    let events: Vec<EventRow> = if after <= last_event {
        events.rows.iter().map(event_from).collect::<Result<_>>()?
    } else {
        Vec::new()
    };
    Ok(Followed {
        progress: Progress {
            status,
            // What has come since the run was read counts.
            last_event: events
                .last()
                .map_or(last_event, |event| last_event.max(event.seq)),
        },
        events,
        run: is_last.then(|| run_with_output(row)).transpose()?,
    })
}
