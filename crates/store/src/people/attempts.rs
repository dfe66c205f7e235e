//! Attempts: counts of what people, addresses and networks tried in a window, exact over all nodes.

use sortie_api::Timestamp;

use crate::{Store, db::vals, types::Result};

impl Store {
    /// System: counts an attempt of `subject` in the window that began at `window`. False, without a count, where the
    /// window has `limit` attempts.
    pub async fn count_attempt(&self, subject: &str, window: Timestamp, limit: u32) -> Result<bool> {
        let subject = subject.to_owned();
        self.db
            .write(move |tx| {
                let counted = tx.exec(
                    "INSERT INTO attempt (window_start, subject, count) \
                     SELECT CAST($1 AS BIGINT), $2, 1 WHERE CAST($3 AS BIGINT) > 0 \
                     ON CONFLICT (window_start, subject) DO UPDATE SET count = attempt.count + 1 \
                     WHERE attempt.count < CAST($3 AS BIGINT)",
                    vals![window, subject.as_str(), limit],
                )?;
                Ok(counted == 1)
            })
            .await
    }

    /// System: reads the number of attempts of `subject` in the window that began at `window`.
    pub async fn attempts(&self, subject: &str, window: Timestamp) -> Result<i64> {
        let subject = subject.to_owned();
        self.db
            .read(move |tx| {
                let row = tx.query_opt(
                    "SELECT count FROM attempt WHERE window_start = $1 AND subject = $2",
                    vals![window, subject.as_str()],
                )?;
                row.map_or(Ok(0), |row| row.int(0))
            })
            .await
    }

    /// System: forgets the attempts of `subject` in the window that began at `window`, after a success.
    pub async fn forget_attempts(&self, subject: &str, window: Timestamp) -> Result<()> {
        let subject = subject.to_owned();
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM attempt WHERE window_start = $1 AND subject = $2",
                    vals![window, subject.as_str()],
                )
                .map(drop)
            })
            .await
    }

    /// System: deletes up to `limit` counts of windows that began before `before`, the earliest first. Returns their
    /// number.
    pub async fn delete_old_attempts(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM attempt WHERE (window_start, subject) IN (SELECT a.window_start, a.subject FROM attempt a \
                     WHERE a.window_start < $1 ORDER BY a.window_start, a.subject LIMIT $2)",
                    vals![before, limit],
                )
            })
            .await
    }
}
