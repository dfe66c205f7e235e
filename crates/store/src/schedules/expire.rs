//! System: the end of what schedules remember of their instants.

use sortie_api::{ScheduleId, Timestamp, schedule::FireOutcome};

use crate::{Store, db::vals, types::Result};

impl Store {
    /// System: schedules behind `after`, in order, at most `limit`, with an instant before `before`.
    pub async fn schedules_with_fires(
        &self,
        after: Option<ScheduleId>,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<ScheduleId>> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT s.id FROM schedule s WHERE s.id > $1 \
                     AND (SELECT f.instant FROM fire f WHERE f.schedule_id = s.id AND f.instant < $2 \
                     ORDER BY f.instant, f.occasion LIMIT 1) IS NOT NULL ORDER BY s.id LIMIT $3",
                    vals![after.as_str(), before, limit],
                )?
                .iter()
                .map(|row| row.parse(0))
                .collect()
            })
            .await
    }

    /// System: forgets instants of a schedule that lie before `before` and were recorded before it, the oldest first, about
    /// `limit` of them: those of the same moment go together. How many these were; none when all are gone. One that waits stays.
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
                    vals![schedule, before, limit, FireOutcome::Waiting.as_str()],
                )
            })
            .await
    }
}
