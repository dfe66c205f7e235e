//! Suspension of organizations by the operator.
//!
//! A suspended organization gets no new runs: `create_run` refuses them, and nodes do not claim its waiting runs. Waiting
//! runs are parked, so that claims do not have to skip them. Every command here takes the lock of claims: after the commit
//! of the suspension, no claim takes a run of the organization.

use std::time::Duration;

use sortie_api::{OrgId, RunId, Timestamp};

use crate::{
    Error, Result, Store,
    access::{Audit, audit::record, lookups::Ended},
    db::{Stmt, Tx, row, select, vals},
    money::{
        credit::{resume, suspend},
        purchases::auto::pause_until,
    },
    nodes,
    runs::{OF_ITS_NODE, PARKED},
};

/// Error of a resume if the organization is not suspended.
const NOT_SUSPENDED: Error = Error::Conflict("the organization is not suspended");

/// Refusal of a change of an organization that its owner has deleted.
const DELETED: Error = Error::Conflict("the organization was deleted by its owner");

/// Pause of automatic purchases after the end of a suspension, so that the card is not charged immediately.
const BEFORE_PURCHASES: Duration = Duration::from_hours(1);

row! {
    /// Position of a run in the queue.
    pub(crate) struct QueuedRun {
        pub(crate) at: Timestamp = "enqueued_at",
        pub(crate) run: RunId = "run_id",
    }
}

impl Store {
    /// Operator: suspends an organization. `Conflict` if its owner has deleted it. A second suspension replaces the reason
    /// and keeps the time of the first.
    pub async fn suspend_organization(
        &self,
        org: OrgId,
        reason: Option<String>,
        at: Timestamp,
        audit: Audit,
    ) -> Result<()> {
        let _ending = self.ending(Ended::Organization(org));
        self.db
            .write(move |tx| {
                tx.batch(&[
                    dispatch_lock(),
                    Stmt::new(
                        "UPDATE organization SET suspended_at = COALESCE(suspended_at, $2), suspended_why = $3 WHERE id = $1",
                        vals![org, at, reason.as_deref()],
                    )
                    .exactly(1, Error::NotFound),
                    not_deleted(org),
                    record(&audit),
                    suspend(org),
                ])
                .map(drop)
            })
            .await
    }

    /// Operator: parks up to `limit` waiting runs of an organization. Returns their number: 0 after the last one, or if the
    /// organization is not suspended.
    pub async fn park_runs(&self, org: OrgId, limit: u32) -> Result<u64> {
        self.db.write(move |tx| park(tx, org, limit)).await
    }

    /// Operator: returns up to `limit` parked runs of an organization to their place in the queue. Returns their number.
    /// They wait until the suspension ends.
    pub async fn unpark_runs(&self, org: OrgId, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                let done = tx.batch(&[dispatch_lock(), unpark(org, limit)])?;
                Ok(done.get(1).map_or(0, |unparked| unparked.affected))
            })
            .await
    }

    /// Operator: ends the suspension of an organization. Parked runs return to their place in the queue. `Conflict` if the
    /// organization is not suspended, or if its owner has deleted it. Automatic purchases wait for an hour.
    pub async fn resume_organization(&self, org: OrgId, audit: Audit) -> Result<()> {
        let _ending = self.ending(Ended::Organization(org));
        self.db
            .write(move |tx| {
                tx.batch(&[
                    dispatch_lock(),
                    Stmt::new("SELECT 1 FROM organization WHERE id = $1", vals![org])
                        .exactly(1, Error::NotFound),
                    not_deleted(org),
                    Stmt::new(
                        "UPDATE organization SET suspended_at = NULL, suspended_why = NULL \
                         WHERE id = $1 AND suspended_at IS NOT NULL",
                        vals![org],
                    )
                    .exactly(1, NOT_SUSPENDED),
                    unpark(org, u32::MAX),
                    record(&audit),
                    pause_until(org, audit.at + BEFORE_PURCHASES),
                    resume(org),
                ])
                .map(drop)
            })
            .await
    }

    /// Operator: lists at most `limit` runs of an organization that nodes currently hold, after `after` and in the order of
    /// their creation.
    pub async fn runs_at_work(
        &self,
        org: OrgId,
        after: Option<(Timestamp, RunId)>,
        limit: u32,
    ) -> Result<Vec<(Timestamp, RunId)>> {
        let (since, after) = after.map_or((Timestamp::from_micros(0), String::new()), |(at, run)| {
            (at, run.to_string())
        });
        self.db
            .read(move |tx| {
                let runs: Vec<QueuedRun> = tx.read_all(
                    select!(
                        QueuedRun,
                        " FROM queue WHERE org_id = $1 AND node_id IS NOT NULL \
                         AND COALESCE(node_id, -1) >= 0 AND (enqueued_at, run_id) > ($2, $3) \
                         ORDER BY enqueued_at, run_id LIMIT $4"
                    ),
                    vals![org, since, after.as_str(), limit],
                )?;
                Ok(runs.into_iter().map(|queued| (queued.at, queued.run)).collect())
            })
            .await
    }
}

/// Refuses the command if the owner has deleted the organization.
fn not_deleted(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "SELECT 1 FROM organization WHERE id = $1 AND deleted_at IS NOT NULL",
        vals![org],
    )
    .exactly(0, DELETED)
}

/// Takes the lock of claims.
pub(crate) fn dispatch_lock() -> Stmt<'static> {
    Stmt::new(nodes::LOCK, vals![])
}

fn park(tx: &mut dyn Tx, org: OrgId, limit: u32) -> Result<u64> {
    // Only a statement after the lock sees whether the organization is still suspended.
    let done = tx.batch(&[
        dispatch_lock(),
        Stmt::new(
            "UPDATE queue SET node_id = $3 WHERE (SELECT o.suspended_at FROM organization o WHERE o.id = $1) IS NOT NULL \
             AND run_id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id IS NULL \
             ORDER BY q.enqueued_at, q.run_id LIMIT $2{END}",
            vals![org, limit, PARKED],
        ),
        Stmt::new(
            "UPDATE queue SET node_id = $3 WHERE (SELECT o.suspended_at FROM organization o WHERE o.id = $1) IS NOT NULL \
             AND run_id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id IS NOT NULL \
             AND COALESCE(q.node_id, 0) = $4 ORDER BY q.enqueued_at, q.run_id LIMIT $2{END}",
            vals![org, limit, PARKED, OF_ITS_NODE],
        ),
    ])?;
    Ok(done.iter().skip(1).map(|parked| parked.affected).sum())
}

/// Returns parked runs to the queue. A run with content on one node waits for that node.
fn unpark(org: OrgId, limit: u32) -> Stmt<'static> {
    Stmt::new(
        "UPDATE queue SET node_id = CASE \
           WHEN (SELECT r.id FROM run r WHERE r.id = queue.run_id AND r.zero_data_retention = 1) IS NULL THEN NULL \
           ELSE CAST($4 AS BIGINT) END \
         WHERE run_id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id IS NOT NULL \
           AND COALESCE(q.node_id, 0) = $3 ORDER BY q.enqueued_at, q.run_id LIMIT $2{END}",
        vals![org, limit, PARKED, OF_ITS_NODE],
    )
}
