//! System: the remains of deleted organizations, which the nodes delete in batches.
//!
//! Every command is idempotent, and locks the organization if several of its statements must delete consistently: two
//! concurrent nodes share the work. Expired runs and occurrences of schedules are deleted by the commands of the retention.

use sortie_api::{OrgId, RunId, ScheduleId, Timestamp};

use crate::{
    Error, Found, Result, Store,
    db::{ReadRow, Row, Stmt, batch, row, select, vals},
    error::unless,
    found::page_by_id,
    money::{UsageDue, budgets::forget_known},
    people::suspension::QueuedRun,
    runs::json_ids,
};

/// Error of an organization with remaining rows.
const NOT_YET: Error = Error::Conflict("something of the organization is left");

/// Position in a list of runs that are not settled.
type Unsettled = (Timestamp, RunId);

/// Statements that delete the settings of the organization `$1`, up to `$2` rows each. The first one deletes the rows of the
/// workflows that the second one deletes.
const SETTINGS: [&str; 8] = [
    "DELETE FROM workflow_use WHERE org_id = $1 \
     AND workflow {IN}SELECT w.name FROM workflow w WHERE w.org_id = $1 ORDER BY w.org_id, w.name LIMIT $2{END}",
    "DELETE FROM workflow WHERE org_id = $1 \
     AND name {IN}SELECT w.name FROM workflow w WHERE w.org_id = $1 ORDER BY w.org_id, w.name LIMIT $2{END}",
    "DELETE FROM budget WHERE org_id = $1 \
     AND scope {IN}SELECT b.scope FROM budget b WHERE b.org_id = $1 ORDER BY b.org_id, b.scope LIMIT $2{END}",
    "DELETE FROM budget_window WHERE org_id = $1 AND held_micros = 0 AND scope {IN}SELECT b.scope FROM budget_window b WHERE b.org_id = $1 \
     ORDER BY b.org_id, b.scope, b.since, b.starts_at LIMIT $2{END}",
    "DELETE FROM deployment WHERE org_id = $1 \
     AND id {IN}SELECT d.id FROM deployment d WHERE d.org_id = $1 ORDER BY d.org_id, d.id LIMIT $2{END}",
    "DELETE FROM entitlement WHERE org_id = $1 \
     AND org_id {IN}SELECT e.org_id FROM entitlement e WHERE e.org_id = $1 LIMIT $2{END}",
    "DELETE FROM subscription WHERE org_id = $1 \
     AND org_id {IN}SELECT s.org_id FROM subscription s WHERE s.org_id = $1 LIMIT $2{END}",
    "DELETE FROM auto_topup WHERE org_id = $1 \
     AND org_id {IN}SELECT a.org_id FROM auto_topup a WHERE a.org_id = $1 LIMIT $2{END}",
];

row! {
    struct CountedUsage {
        until: Timestamp = "o.usage_until",
        next_run: Option<Timestamp> =
            "(SELECT r.created_at FROM run r WHERE r.org_id = o.id AND r.created_at >= o.usage_until \
             AND r.created_at >= 0 ORDER BY r.created_at, r.id LIMIT 1)",
    }
}

impl Store {
    /// System: lists at most `limit` deleted organizations with remaining rows, after `after` and in the order of their ids.
    /// Unreadable organizations are left out.
    pub async fn deleted_organizations(
        &self,
        after: Option<String>,
        limit: u32,
    ) -> Result<Found<OrgId, String>> {
        let after = after.unwrap_or_default();
        let rows = self.db.read(move |tx| {
            tx.query_all(
                "SELECT o.id FROM organization o WHERE o.deleted_at IS NOT NULL AND o.erased_at IS NULL AND o.id > $1 \
                 ORDER BY o.id LIMIT $2",
                vals![after.as_str(), limit],
            )
        });
        Ok(page_by_id(&rows.await?, limit, "deleted organization", |row| {
            row.only()
        }))
    }

    /// System: lists at most `limit` unsettled runs of an organization after `after`, in the order of their creation.
    pub async fn unsettled_runs(
        &self,
        org: OrgId,
        after: Option<Unsettled>,
        limit: u32,
    ) -> Result<Vec<Unsettled>> {
        let (since, after) = after.map_or((Timestamp::from_micros(0), String::new()), |(at, run)| {
            (at, run.to_string())
        });
        self.db
            .read(move |tx| {
                let params = || vals![org, since, after.as_str(), limit];
                let [waiting, held] = batch(
                    tx,
                    &[
                        Stmt::new(
                            select!(
                                QueuedRun,
                                " FROM queue WHERE org_id = $1 AND node_id IS NULL AND (enqueued_at, run_id) > ($2, $3) \
                                 ORDER BY enqueued_at, run_id LIMIT $4"
                            ),
                            params(),
                        ),
                        Stmt::new(
                            select!(
                                QueuedRun,
                                " FROM queue WHERE org_id = $1 AND node_id IS NOT NULL AND (enqueued_at, run_id) > ($2, $3) \
                                 ORDER BY enqueued_at, run_id LIMIT $4"
                            ),
                            params(),
                        ),
                    ],
                )?;
                let rows = waiting.rows.iter().chain(&held.rows);
                let runs: Result<Vec<QueuedRun>> = rows.map(QueuedRun::read).collect();
                let mut runs: Vec<Unsettled> = runs?.iter().map(|queued| (queued.at, queued.run)).collect();
                runs.sort_unstable();
                runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                Ok(runs)
            })
            .await
    }

    /// System: returns the uncounted runs of a deleted organization, if any. No further run is created, so an hour of them
    /// can be counted before it has passed.
    pub async fn uncounted_usage(&self, org: OrgId) -> Result<Option<UsageDue>> {
        let found = self.db.read(move |tx| {
            tx.read_opt(
                select!(
                    CountedUsage,
                    " FROM organization o WHERE o.id = $1 AND o.deleted_at IS NOT NULL"
                ),
                vals![org],
            )
        });
        let found: Option<CountedUsage> = found.await?;
        Ok(found.and_then(|usage| {
            Some(UsageDue {
                org,
                counted_until: usage.until,
                next_run: usage.next_run?,
                are_many: true,
            })
        }))
    }

    /// System: lists up to `limit` schedules of a deleted organization.
    pub async fn schedules_to_erase(&self, org: OrgId, limit: u32) -> Result<Vec<ScheduleId>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT id FROM schedule WHERE org_id = $1 AND created_at >= 0 ORDER BY created_at, id LIMIT $2",
                    vals![org, limit],
                )?
                .iter()
                .map(Row::only)
                .collect()
            })
            .await
    }

    /// System: deletes a schedule of a deleted organization with the rest of its history.
    pub async fn erase_schedule(&self, org: OrgId, id: ScheduleId) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    lock_deleted(org),
                    Stmt::new(
                        "DELETE FROM schedule WHERE id = $2 AND org_id = $1",
                        vals![org, id],
                    ),
                    Stmt::new("DELETE FROM fire WHERE schedule_id = $1", vals![id]),
                ])
                .map(drop)
            })
            .await
    }

    /// System: deletes up to `limit` files of a deleted organization. The sweep checks their content at `check_at`. Returns
    /// the number of files that were found.
    pub async fn erase_files(&self, org: OrgId, check_at: Timestamp, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                let [_, found] = batch(
                    tx,
                    &[
                        lock_deleted(org),
                        Stmt::new(
                            "SELECT f.id FROM file f WHERE f.org_id = $1 AND f.created_at >= 0 \
                             ORDER BY f.created_at, f.id LIMIT $2",
                            vals![org, limit],
                        ),
                    ],
                )?;
                // Both statements name the same files, even if another command deletes some in between.
                let files = json_ids(&found.rows)?;
                tx.batch(&[
                    Stmt::new(
                        "UPDATE blob SET check_at = $1 WHERE id {IN}SELECT f.blob_id FROM file f \
                         WHERE f.id {IN}SELECT value FROM {JSON_EACH}($2){END}{END}",
                        vals![check_at, files.as_str()],
                    ),
                    Stmt::new(
                        "DELETE FROM file WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                        vals![files.as_str()],
                    ),
                ])?;
                Ok(u64::try_from(found.rows.len()).unwrap_or(u64::MAX))
            })
            .await
    }

    /// System: deletes workflows, budgets and deployments of a deleted organization, up to about `limit` rows of each kind.
    /// Returns their number.
    pub async fn erase_settings(&self, org: OrgId, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                forget_known(tx);
                let mut statements = vec![lock_deleted(org)];
                statements.extend(SETTINGS.iter().map(|sql| Stmt::new(sql, vals![org, limit])));
                let done = tx.batch(&statements)?;
                Ok(done.iter().skip(1).map(|deleted| deleted.affected).sum())
            })
            .await
    }

    /// System: records that all rows of an organization that was deleted before `before` are deleted. Returns false if some
    /// remain, or if another node has recorded it.
    pub async fn organization_erased(&self, org: OrgId, before: Timestamp, at: Timestamp) -> Result<bool> {
        let erased = self.db.write(move |tx| {
            let statements = [Stmt::new(
                "UPDATE organization SET erased_at = $3 WHERE id = $1 AND deleted_at < $2 AND erased_at IS NULL \
                 AND NOT EXISTS (SELECT 1 FROM run r WHERE r.org_id = $1 AND r.created_at >= 0) \
                 AND NOT EXISTS (SELECT 1 FROM schedule s WHERE s.org_id = $1 AND s.created_at >= 0) \
                 AND NOT EXISTS (SELECT 1 FROM workflow w WHERE w.org_id = $1) \
                 AND NOT EXISTS (SELECT 1 FROM budget b WHERE b.org_id = $1) \
                 AND NOT EXISTS (SELECT 1 FROM budget_window v WHERE v.org_id = $1) \
                 AND NOT EXISTS (SELECT 1 FROM deployment d WHERE d.org_id = $1) \
                 AND NOT EXISTS (SELECT 1 FROM entitlement e WHERE e.org_id = $1) \
                 AND NOT EXISTS (SELECT 1 FROM subscription u WHERE u.org_id = $1) \
                 AND NOT EXISTS (SELECT 1 FROM file f WHERE f.org_id = $1 AND f.created_at >= 0) \
                 AND NOT EXISTS (SELECT 1 FROM blob c WHERE c.org_id = $1 AND c.doomed_at IS NULL)",
                vals![org, before, at],
            )
            .exactly(1, NOT_YET), Stmt::new("DELETE FROM organization_storage WHERE org_id = $1", vals![org])];
            tx.batch(&statements).map(drop)
        });
        unless(&NOT_YET, erased.await)
    }
}

/// Locks a deleted organization until the end of the transaction. `NotFound` if it is not deleted.
fn lock_deleted(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE organization SET name = name WHERE id = $1 AND deleted_at IS NOT NULL",
        vals![org],
    )
    .exactly(1, Error::NotFound)
}
