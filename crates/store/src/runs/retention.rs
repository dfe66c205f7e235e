//! System: `delete_expired_runs` deletes finished runs after their retention period, with everything that belongs to
//! them.
//!
//! This is the one place that names every table with rows of a run; a test compares it with the schema. Only settled
//! runs are deleted, and only after their callback was delivered or abandoned, because nothing writes to them after
//! that. A run that was left out of the usage of its hour stays until it is counted. The callbacks of a deleted
//! organization are deleted with its runs. Runs are found through the index of lists, so the end of a run costs no
//! extra write. The run is deleted first, which locks it. Two concurrent nodes share the work: the rows that belong to
//! a run are deleted by the node that deleted the run.

use sortie_api::{Metadata, OrgId, RunStatus, Timestamp};

use super::{artifacts, json_ids, pair_label};
use crate::{
    Error, Found, Result, Store,
    db::{Json, ReadRow, Row, Stmt, Tx, filled, row, select, vals},
    files::blobs::{ids_of, json, uncount},
    found::page_by_id,
};

/// Maximum number of undeletable runs of an organization that one pass skips. Later runs wait for the next pass.
const MAX_UNDELETABLE: usize = 1_000;

/// Runs of an organization that have expired.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// Organization of the runs.
    pub org: OrgId,
    /// The runs finished before this time.
    pub finished_before: Timestamp,
    /// The runs were created before this time. Usage of later runs may still be counted from the runs
    /// themselves.
    pub created_before: Timestamp,
    /// Time at which the sweep checks the content of their artifacts.
    pub check_at: Timestamp,
    /// Callbacks that are neither delivered nor abandoned.
    pub open_callbacks: OpenCallbacks,
}

/// Treatment of callbacks that are neither delivered nor abandoned when their runs are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCallbacks {
    /// The run stays until its callback is delivered or abandoned.
    Wait,
    /// The callback is deleted with the run.
    Drop,
}

impl OpenCallbacks {
    const fn waits(self) -> i64 {
        match self {
            Self::Wait => 1,
            Self::Drop => 0,
        }
    }
}

/// Limits of one transaction that deletes runs.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Number of runs.
    pub runs: u32,
    /// Number of events of all runs together. A single run with more events is still deleted.
    pub events: i64,
}

/// Result of one transaction that deletes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Number of runs deleted.
    pub runs: u64,
    /// Whether there may be more runs to delete.
    pub more: bool,
}

/// Runs of an organization that one pass could not delete. The pass continues after them.
#[derive(Debug, Default)]
pub struct Undeletable(Vec<String>);

/// Statements that delete what belongs to the runs `$1`, in the order of locks. Two tables are left out: a
/// settled run has left `queue`, and the rows of `run_label` are found by their labels.
const BELONGINGS: [&str; 10] = [
    filled!(DELETE, "@table" = "event"),
    filled!(DELETE, "@table" = "journal"),
    filled!(DELETE, "@table" = "run_definition"),
    filled!(DELETE, "@table" = "run_output"),
    filled!(DELETE, "@table" = "run_secret"),
    filled!(DELETE, "@table" = "run_artifacts"),
    filled!(DELETE, "@table" = "artifact_blob"),
    filled!(DELETE, "@table" = "delivery"),
    filled!(DELETE, "@table" = "delivery_attempt"),
    filled!(DELETE, "@table" = "unretained"),
];

const DELETE: &str = "DELETE FROM @table WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}";

row! {
    struct OrganizationRow {
        org: OrgId = "id",
        usage_until: Timestamp = "usage_until",
    }
}

row! {
    struct ExpiredRun {
        id: String = "id",
        last_event: i64 = "last_event",
    }
}

row! {
    struct DeletedRun {
        id: String = "id",
        created_at: Timestamp = "created_at",
        tags: Option<Json<Vec<String>>> = "tags",
        metadata: Option<Json<Metadata>> = "metadata",
    }
}

impl Store {
    /// System: deletes finished and settled runs of an organization that have expired, with everything that belongs to
    /// them. The oldest runs of each outcome come first. If one of them cannot be deleted, they are deleted one by one.
    /// That run stays, and the pass skips it from then on.
    pub async fn delete_expired_runs(
        &self,
        expiry: Expiry,
        batch: Batch,
        undeletable: &mut Undeletable,
    ) -> Result<Deleted> {
        let skipped = json(&undeletable.0)?;
        let deleted = {
            let skipped = skipped.clone();
            self.db
                .write(move |tx| delete_expired(tx, expiry, batch, &skipped))
                .await
        };
        match deleted {
            Err(error) if error.is_of_data() => {
                self.delete_one_by_one(expiry, batch, skipped, undeletable).await
            }
            deleted => deleted,
        }
    }

    async fn delete_one_by_one(
        &self,
        expiry: Expiry,
        batch: Batch,
        skipped: String,
        undeletable: &mut Undeletable,
    ) -> Result<Deleted> {
        let (ids, more) = self
            .db
            .read(move |tx| expired(tx, expiry, batch, &skipped))
            .await?;
        let mut runs = 0;
        for run in ids {
            let ids = [run.clone()];
            match self.db.write(move |tx| delete(tx, expiry, &ids)).await {
                Ok(deleted) => runs += deleted,
                Err(error) if error.is_of_data() => {
                    tracing::error!(run, %error, "cannot delete an expired run; the others go on");
                    undeletable.0.push(run);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Deleted {
            runs,
            more: more && undeletable.0.len() < MAX_UNDELETABLE,
        })
    }

    /// System: returns at most `limit` organizations after `after`, in order. Each comes with the time before which its
    /// runs are counted in its usage. Unreadable organizations are left out.
    pub async fn organizations(
        &self,
        after: Option<String>,
        limit: u32,
    ) -> Result<Found<(OrgId, Timestamp), String>> {
        let after = after.unwrap_or_default();
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    select!(
                        OrganizationRow,
                        " FROM organization WHERE id > $1 ORDER BY id LIMIT $2"
                    ),
                    vals![after.as_str(), limit],
                )
            })
            .await?;
        let read = |row: &Row| OrganizationRow::read(row).map(|found| (found.org, found.usage_until));
        Ok(page_by_id(&rows, limit, "organization", read))
    }
}

fn delete_expired(tx: &mut dyn Tx, expiry: Expiry, batch: Batch, skipped: &str) -> Result<Deleted> {
    let (ids, more) = expired(tx, expiry, batch, skipped)?;
    if ids.is_empty() {
        return Ok(Deleted { runs: 0, more });
    }
    let runs = delete(tx, expiry, &ids)?;
    Ok(Deleted { runs, more })
}

/// Deletes those of the runs `ids` that have expired. Returns their number.
fn delete(tx: &mut dyn Tx, expiry: Expiry, ids: &[String]) -> Result<u64> {
    let ids = serde_json::to_string(ids).map_err(|error| Error::Corrupt(error.to_string()))?;
    let rows = tx.query_all(
        constcat::concat!(
            "DELETE FROM run WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND org_id = $2 \
         AND outcome IS NOT NULL AND billing_pending = 0 AND finished_at < $3 \
         AND (SELECT d.run_id FROM delivery d WHERE d.run_id = run.id AND d.due_at IS NOT NULL \
         AND CAST($4 AS BIGINT) = 1) IS NULL \
         AND (SELECT l.run_id FROM late_run l WHERE l.run_id = run.id) IS NULL \
         RETURNING ",
            DeletedRun::COLUMNS
        ),
        vals![
            ids.as_str(),
            expiry.org,
            expiry.finished_before,
            expiry.open_callbacks.waits()
        ],
    )?;
    let ids = json_ids(&rows)?;
    let deleted: Vec<DeletedRun> = rows.iter().map(DeletedRun::read).collect::<Result<_>>()?;
    let mut statements = vec![artifacts::defer_checks(&ids, expiry.check_at)];
    statements.extend(BELONGINGS.iter().map(|sql| Stmt::new(sql, vals![ids.as_str()])));
    for run in &deleted {
        statements.extend(delete_labels(expiry.org, run));
    }
    let answers = tx.batch(&statements)?;
    if let Some(deferred) = answers.first().filter(|deferred| !deferred.rows.is_empty()) {
        uncount(tx, &ids_of(&deferred.rows)?)?;
    }
    Ok(u64::try_from(deleted.len()).unwrap_or(u64::MAX))
}

/// Returns the ids of expired runs that are not in `skipped`, a JSON array, and whether there may be more.
fn expired(tx: &mut dyn Tx, expiry: Expiry, batch: Batch, skipped: &str) -> Result<(Vec<String>, bool)> {
    let outcomes = RunStatus::ALL.into_iter().filter(|status| status.is_final());
    let statements: Vec<Stmt<'_>> = outcomes
        .map(|outcome| {
            Stmt::new(
                // The order by the outcome, which is one, binds the planner to the index of outcomes.
                select!(
                    ExpiredRun,
                    " FROM run WHERE org_id = $1 AND outcome >= $2 AND created_at >= 0 \
                 AND (outcome, created_at) < ($2, $3) AND finished_at < $4 AND billing_pending = 0 \
                 AND (SELECT d.run_id FROM delivery d WHERE d.run_id = run.id AND d.due_at IS NOT NULL \
                 AND CAST($6 AS BIGINT) = 1) IS NULL \
                 AND (SELECT l.run_id FROM late_run l WHERE l.run_id = run.id) IS NULL \
                 AND NOT id {IN}SELECT value FROM {JSON_EACH}($7){END} \
                 ORDER BY outcome, created_at, id LIMIT $5"
                ),
                vals![
                    expiry.org,
                    outcome,
                    expiry.created_before,
                    expiry.finished_before,
                    batch.runs,
                    expiry.open_callbacks.waits(),
                    skipped
                ],
            )
        })
        .collect();
    let limit = usize::try_from(batch.runs).unwrap_or(usize::MAX);
    let (mut ids, mut events, mut more) = (Vec::new(), 0_i64, false);
    for answer in tx.batch(&statements)? {
        more |= answer.rows.len() >= limit;
        for row in &answer.rows {
            let run = ExpiredRun::read(row)?;
            events = events.saturating_add(run.last_event);
            if ids.len() >= limit || (events > batch.events && !ids.is_empty()) {
                return Ok((ids, true));
            }
            ids.push(run.id);
        }
    }
    Ok((ids, more))
}

/// Statements that remove a deleted run from the lists of its tags and of its metadata.
fn delete_labels(org: OrgId, run: &DeletedRun) -> impl Iterator<Item = Stmt<'_>> {
    let tags = run.tags.iter().flat_map(|Json(tags)| tags).cloned();
    let pairs = run.metadata.iter().flat_map(|Json(metadata)| metadata);
    let labels = tags.chain(pairs.map(|(key, value)| pair_label(key, value)));
    labels.map(move |label| {
        Stmt::new(
            "DELETE FROM run_label WHERE org_id = $1 AND label = $2 AND created_at = $3 AND run_id = $4",
            vals![org, label, run.created_at, run.id.as_str()],
        )
    })
}

/// Tables with rows that are deleted with a run.
#[cfg(test)]
pub(crate) fn tables() -> Vec<&'static str> {
    let named = BELONGINGS.iter().filter_map(|sql| sql.split_whitespace().nth(2));
    named.chain(["run_label"]).collect()
}
