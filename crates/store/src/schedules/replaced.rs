//! Runs that a schedule has replaced by a new one. They are recorded with the new run, and kept until they
//! are cancelled.

use sortie_api::{OrgId, RunId, ScheduleId};

use crate::{
    Found, Result, Store,
    db::{ReadRow, Stmt, row, select, vals},
    files::blobs::json,
    found::page_by_id,
};

/// Maximum number of open runs that one run replaces.
const REPLACED: u32 = 1_000;

row! {
    /// Run that is to be cancelled.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReplacedRun {
        /// Id of the run.
        pub run: RunId = "run_id",
        /// Organization of the run.
        pub org: OrgId = "org_id",
    }
}

impl Store {
    /// System: returns at most `limit` runs after `after`, by their ids, that schedules have replaced and
    /// that are still to be cancelled. Unreadable runs are left out.
    pub async fn replaced_runs(
        &self,
        after: Option<String>,
        limit: u32,
    ) -> Result<Found<ReplacedRun, String>> {
        let after = after.unwrap_or_default();
        let rows = self.db.read(move |tx| {
            tx.query_all(
                select!(
                    ReplacedRun,
                    " FROM replaced_run WHERE run_id > $1 ORDER BY run_id LIMIT $2"
                ),
                vals![after.as_str(), limit],
            )
        });
        Ok(page_by_id(&rows.await?, limit, "replaced run", ReplacedRun::read))
    }

    /// System: forgets replaced runs that were cancelled or have ended.
    pub async fn forget_replaced(&self, runs: &[RunId]) -> Result<()> {
        let ids = json(runs)?;
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM replaced_run WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                    vals![ids.as_str()],
                )
                .map(drop)
            })
            .await
    }
}

/// Statement that replaces the open runs of a schedule by `run`, which is recorded already.
pub(super) fn replace(org: OrgId, schedule: ScheduleId, run: RunId) -> Stmt<'static> {
    Stmt::new(
        "INSERT INTO replaced_run (run_id, org_id) SELECT r.id, r.org_id FROM run r \
         WHERE r.org_id = $1 AND r.schedule_id = $2 AND r.outcome IS NULL AND r.id <> $3 \
         ORDER BY r.outcome DESC, r.created_at DESC, r.id DESC LIMIT $4 \
         ON CONFLICT (run_id) DO NOTHING",
        vals![org, schedule, run, REPLACED],
    )
}
