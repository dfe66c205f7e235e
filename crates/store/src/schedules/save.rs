//! Changes of schedules by people: create, change and delete.

use sortie_api::{OrgId, ScheduleId, Timestamp};

use super::{ScheduleSpec, ScheduleState};
use crate::{
    Error, Result, Store,
    access::{Audit, audit},
    db::{Stmt, Tx, batch, vals},
    organizations::lock,
};

/// Schedule to save: a new one, or a new version of an existing one.
#[derive(Clone, Debug)]
pub struct SaveSchedule {
    /// Id of the schedule.
    pub id: ScheduleId,
    /// Organization that owns the schedule.
    pub org: OrgId,
    /// Definition of the schedule.
    pub spec: ScheduleSpec,
    /// Initial or continued state of the schedule.
    pub state: ScheduleState,
    /// Time of the change.
    pub at: Timestamp,
}

impl SaveSchedule {
    fn bytes(&self) -> usize {
        self.spec.input.as_deref().map_or(0, str::len)
    }
}

impl Store {
    /// Creates a schedule. `Conflict` if the organization has `most` schedules already, or the workflow was
    /// deleted.
    pub async fn create_schedule(&self, schedule: SaveSchedule, most: u32, audit: Audit) -> Result<()> {
        self.db
            .write_of(schedule.bytes(), move |tx| create(tx, &schedule, most, &audit))
            .await
    }

    /// Changes a schedule that is still at `revision`. Returns false if it is not, or if the schedule or its
    /// workflow was deleted.
    pub async fn update_schedule(&self, schedule: SaveSchedule, revision: i64, audit: Audit) -> Result<bool> {
        let updated = self
            .db
            .write_of(schedule.bytes(), move |tx| {
                update(tx, &schedule, revision, &audit)
            })
            .await;
        match updated {
            Err(Error::Fenced) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Deletes a schedule with its history. Its runs stay.
    pub async fn delete_schedule(&self, org: OrgId, id: ScheduleId, audit: Audit) -> Result<()> {
        self.db.write(move |tx| delete(tx, org, id, &audit)).await
    }
}

// The lock makes the limit exact, and keeps the workflow that is read under it until the end of the transaction.
fn create(tx: &mut dyn Tx, new: &SaveSchedule, most: u32, entry: &Audit) -> Result<()> {
    let mut params = vals![new.org, new.id, new.at, most];
    params.extend(new.spec.values());
    params.extend(new.state.values());
    let [_, workflow] = batch(
        tx,
        &[
            lock(new.org),
            Stmt::new(
                "SELECT 1 FROM workflow WHERE org_id = $1 AND name = $2",
                vals![new.org, new.spec.workflow.as_str()],
            ),
        ],
    )?;
    if workflow.rows.is_empty() {
        return Err(Error::Conflict("the workflow was deleted at the same time"));
    }
    tx.batch(&[
        Stmt::new(
            "INSERT INTO schedule (id, org_id, name, workflow, cron, timezone, input, overlap, \
             catch_up_window_seconds, jitter_seconds, paused_until, max_consecutive_failures, max_cost_micros, \
             callback_url, callback_secret, enabled, next_instant, due_at, handled_instant, waiting_instant, \
             failures_since, last_run_at, last_run_id, last_error, revision, created_at, updated_at) \
             SELECT $2, id, $5, $6, $7, $8, $9, $10, CAST($11 AS BIGINT), CAST($12 AS BIGINT), CAST($13 AS BIGINT), \
             CAST($14 AS BIGINT), CAST($15 AS BIGINT), $16, CAST($17 AS {BLOB}), CAST($18 AS BIGINT), \
             CAST($19 AS BIGINT), CAST($20 AS BIGINT), CAST($21 AS BIGINT), CAST($22 AS BIGINT), \
             CAST($23 AS BIGINT), CAST($24 AS BIGINT), $25, $26, 1, CAST($3 AS BIGINT), CAST($3 AS BIGINT) \
             FROM organization WHERE id = $1 AND (SELECT COUNT(*) FROM \
             (SELECT 1 FROM schedule s WHERE s.org_id = $1 AND s.created_at >= 0 LIMIT $4) AS counted) < $4",
            params,
        )
        .exactly(
            1,
            Error::Conflict("the organization has reached its limit of schedules"),
        ),
        audit::record(entry),
    ])
    .map(drop)
}

fn update(tx: &mut dyn Tx, new: &SaveSchedule, revision: i64, entry: &Audit) -> Result<()> {
    let mut params = vals![new.org, new.id, new.at, revision];
    params.extend(new.spec.values());
    params.extend(new.state.values());
    tx.batch(&[
        lock(new.org),
        Stmt::new(
            "UPDATE schedule SET name = $5, workflow = $6, cron = $7, timezone = $8, input = $9, overlap = $10, \
             catch_up_window_seconds = $11, jitter_seconds = $12, paused_until = $13, \
             max_consecutive_failures = $14, max_cost_micros = $15, callback_url = $16, callback_secret = $17, \
             enabled = $18, next_instant = $19, due_at = $20, handled_instant = $21, waiting_instant = $22, \
             failures_since = $23, last_run_at = $24, last_run_id = $25, last_error = $26, updated_at = $3, \
             revision = revision + 1 WHERE id = $2 AND org_id = $1 AND revision = $4 \
             AND (SELECT w.name FROM workflow w WHERE w.org_id = $1 AND w.name = $6) IS NOT NULL",
            params,
        )
        .exactly(1, Error::Fenced),
        audit::record(entry),
    ])
    .map(drop)
}

fn delete(tx: &mut dyn Tx, org: OrgId, id: ScheduleId, entry: &Audit) -> Result<()> {
    tx.batch(&[
        // The schedule is deleted first. A node that was just about to record an occurrence has done so, or
        // finds no schedule.
        Stmt::new(
            "DELETE FROM schedule WHERE id = $2 AND org_id = $1",
            vals![org, id],
        )
        .exactly(1, Error::NotFound),
        Stmt::new("DELETE FROM fire WHERE schedule_id = $1", vals![id]),
        audit::record(entry),
    ])
    .map(drop)
}
