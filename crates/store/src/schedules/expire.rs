//! System: deletion of old entries in the histories of schedules.

use sortie_api::{ScheduleId, Timestamp, schedule::FireOutcome};

use crate::{Found, Result, Store, db::vals, found::page_by_id};

impl Store {
    /// System: returns at most `limit` schedules after `after`, in order, that have an occurrence before
    /// `before`. Unreadable schedules are left out.
    pub async fn schedules_with_fires(
        &self,
        after: Option<String>,
        before: Timestamp,
        limit: u32,
    ) -> Result<Found<ScheduleId, String>> {
        let after = after.unwrap_or_default();
        let rows = self.db.read(move |tx| {
            tx.query_all(
                "SELECT s.id FROM schedule s WHERE s.id > $1 \
                 AND (SELECT f.instant FROM fire f WHERE f.schedule_id = s.id AND f.instant < $2 \
                 ORDER BY f.instant, f.occasion LIMIT 1) IS NOT NULL ORDER BY s.id LIMIT $3",
                vals![after.as_str(), before, limit],
            )
        });
        Ok(page_by_id(&rows.await?, limit, "schedule", |row| row.only()))
    }

    /// System: deletes about `limit` of the oldest occurrences of a schedule that were scheduled and recorded
    /// before `before`; occurrences of the same time are deleted together. A waiting occurrence stays.
    /// Returns the number of deleted records, which is 0 after the last one.
    pub async fn delete_expired_fires(
        &self,
        schedule: ScheduleId,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM fire WHERE schedule_id = $1 AND instant <= COALESCE((SELECT f.instant FROM fire f \
                     WHERE f.schedule_id = $1 AND f.instant < $2 AND f.recorded_at < $2 AND f.outcome <> $4 \
                     ORDER BY f.instant, f.occasion LIMIT 1 OFFSET $3), $2 - 1) \
                     AND recorded_at < $2 AND outcome <> $4",
                    vals![schedule, before, limit, FireOutcome::Waiting],
                )
            })
            .await
    }
}
