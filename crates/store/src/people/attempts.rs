//! Attempts: counts of what people, addresses and networks tried in a window, exact over all nodes.

use sortie_api::Timestamp;

use crate::{
    Store,
    db::{Stmt, vals},
    types::{Error, Result},
};

/// Error of a batch in which one subject has reached the limit. It rolls the counts of the others back.
const REFUSED: Error = Error::Conflict("too many attempts");

/// Subject whose attempts are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    /// Start of the window.
    pub window: Timestamp,
    /// Action, and the person, the address or the network that tries it.
    pub subject: String,
}

impl Store {
    /// System: counts an attempt of each subject. Each comes with its limit. False, without any count, where one of them has
    /// reached its limit in its window.
    pub async fn count_attempts(&self, mut limited: Vec<(Attempt, u32)>) -> Result<bool> {
        // Rows are locked in one order, so that commands with the same subjects do not block each other.
        limited.sort();
        let counted = self
            .db
            .write(move |tx| {
                let statements: Vec<_> = limited.iter().map(|(of, limit)| count(of, *limit)).collect();
                tx.batch(&statements).map(drop)
            })
            .await;
        match counted {
            Ok(()) => Ok(true),
            Err(error) if error == REFUSED => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// System: takes one attempt of each subject back.
    pub async fn refund_attempts(&self, mut attempts: Vec<Attempt>) -> Result<()> {
        attempts.sort();
        self.db
            .write(move |tx| {
                let statements: Vec<_> = attempts.iter().map(refund).collect();
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// System: reads the number of attempts of a subject.
    pub async fn attempts(&self, of: Attempt) -> Result<i64> {
        self.db
            .read(move |tx| {
                let row = tx.query_opt(
                    "SELECT count FROM attempt WHERE window_start = $1 AND subject = $2",
                    vals![of.window, of.subject.as_str()],
                )?;
                row.map_or(Ok(0), |row| row.int(0))
            })
            .await
    }

    /// System: forgets the attempts of a subject, after a success.
    pub async fn forget_attempts(&self, of: Attempt) -> Result<()> {
        self.db.write(move |tx| tx.batch(&[forget(&of)]).map(drop)).await
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

fn count(of: &Attempt, limit: u32) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO attempt (window_start, subject, count) \
         SELECT CAST($1 AS BIGINT), $2, 1 WHERE CAST($3 AS BIGINT) > 0 \
         ON CONFLICT (window_start, subject) DO UPDATE SET count = attempt.count + 1 \
         WHERE attempt.count < CAST($3 AS BIGINT)",
        vals![of.window, of.subject.as_str(), limit],
    )
    .exactly(1, REFUSED)
}

pub(super) fn refund(of: &Attempt) -> Stmt<'_> {
    Stmt::new(
        "UPDATE attempt SET count = count - 1 WHERE window_start = $1 AND subject = $2 AND count > 0",
        vals![of.window, of.subject.as_str()],
    )
}

pub(super) fn forget(of: &Attempt) -> Stmt<'_> {
    Stmt::new(
        "DELETE FROM attempt WHERE window_start = $1 AND subject = $2",
        vals![of.window, of.subject.as_str()],
    )
}
