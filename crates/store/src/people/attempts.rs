//! Attempts: counts of what people, addresses and networks tried in a sliding window, exact over all nodes.
//!
//! A window consists of [`PARTS`] parts of equal length, and each part has a separate row. An attempt counts until the whole
//! window, and the part in which it was made, have passed. Any window of real time therefore has at most the allowed number
//! of attempts, including one that spans the end of an hour.
//!
//! A command locks the rows of its part and of the one before, so commands of neighbouring parts see each other's attempts.
//! The limit therefore holds when one part ends and the next begins, and between nodes with clocks that differ by less than
//! a part.

use std::time::Duration;

use sortie_api::Timestamp;

use crate::{
    Error, Result, Store,
    db::{Stmt, Val, row, select, vals},
};

/// Starts of the other parts that count: the next one, of a node with a clock that is ahead, and the earlier ones.
const OTHERS: &str = "$3, $4, $5, $6, $7, $8, $9";

row! {
    struct AttemptCount {
        part: Timestamp = "window_start",
        count: i64 = "count",
    }
}

/// Error of a batch in which one subject has reached the limit. It rolls back the counts of the others.
const REFUSED: Error = Error::Conflict("too many attempts");

/// Number of parts of a window.
pub const PARTS: u32 = 6;

/// Subject with counted attempts. Ordered by the subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    /// Action, and the person, the address or the network that tries it.
    pub subject: String,
    /// Start of the current part of the window.
    pub part: Timestamp,
    /// Length of a part.
    pub length: Duration,
}

impl Store {
    /// System: counts an attempt of each subject. Each comes with its limit. Returns false and counts nothing if one of them
    /// has reached its limit in its window.
    pub async fn count_attempts(&self, mut limited: Vec<(Attempt, u32)>) -> Result<bool> {
        // Rows are locked in a fixed order, so that commands with the same subjects do not deadlock.
        limited.sort();
        let counted = self
            .db
            .write(move |tx| {
                let statements: Vec<_> = limited
                    .iter()
                    .flat_map(|(of, limit)| [lock(of), count(of, *limit)])
                    .collect();
                tx.batch(&statements).map(drop)
            })
            .await;
        match counted {
            Ok(()) => Ok(true),
            Err(error) if error == REFUSED => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// System: refunds one attempt of each subject.
    pub async fn refund_attempts(&self, mut attempts: Vec<Attempt>) -> Result<()> {
        attempts.sort();
        self.db
            .write(move |tx| {
                let statements: Vec<_> = attempts.iter().map(refund).collect();
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// System: reads the attempts of a subject that count: the start of each part of the window, and its number.
    pub async fn attempts(&self, of: Attempt) -> Result<Vec<(Timestamp, i64)>> {
        let counts = self.db.read(move |tx| {
            tx.read_all(
                select!(
                    AttemptCount,
                    " FROM attempt WHERE subject = $2 AND window_start IN ($1, ",
                    OTHERS,
                    ") ORDER BY window_start"
                ),
                of.params(),
            )
        });
        let counts: Vec<AttemptCount> = counts.await?;
        Ok(counts.into_iter().map(|of| (of.part, of.count)).collect())
    }

    /// System: forgets the attempts of a subject, after a success.
    pub async fn forget_attempts(&self, of: Attempt) -> Result<()> {
        self.db.write(move |tx| tx.batch(&[forget(&of)]).map(drop)).await
    }

    /// System: deletes up to `limit` counts of parts that began before `before`, the earliest first. Returns their
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

impl Attempt {
    /// Start of the part that began this number of parts ago.
    fn part_before(&self, back: i64) -> i64 {
        let length = i64::try_from(self.length.as_micros()).unwrap_or(i64::MAX);
        self.part.as_micros().saturating_sub(length.saturating_mul(back))
    }

    /// Parameters of the statements: the current part, the subject, and the other parts that count.
    fn params(&self) -> Vec<Val<'_>> {
        let others = (-1..=i64::from(PARTS)).filter(|back| *back != 0);
        let mut params = vals![self.part, self.subject.as_str()];
        params.extend(others.map(|back| Val::from(self.part_before(back))));
        params
    }
}

/// Locks the rows of this part and of the one before. This is a separate statement, because PostgreSQL takes the snapshot of
/// a statement before it waits for a lock.
fn lock(of: &Attempt) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO attempt (window_start, subject, count) VALUES ($1, $3, 0), ($2, $3, 0) \
         ON CONFLICT (window_start, subject) DO UPDATE SET count = attempt.count",
        vals![of.part_before(1), of.part, of.subject.as_str()],
    )
}

fn count(of: &Attempt, limit: u32) -> Stmt<'_> {
    let mut params = of.params();
    params.push(limit.into());
    Stmt::new(
        constcat::concat!(
            "UPDATE attempt SET count = count + 1 WHERE window_start = $1 AND subject = $2 AND count + ",
            "(SELECT COALESCE(SUM(o.count), 0) FROM attempt o WHERE o.subject = $2 AND o.window_start IN (",
            OTHERS,
            ")) < CAST($10 AS BIGINT)"
        ),
        params,
    )
    .exactly(1, REFUSED)
}

pub(super) fn refund(of: &Attempt) -> Stmt<'_> {
    Stmt::new(
        "UPDATE attempt SET count = count - 1 WHERE window_start = $1 AND subject = $2 AND count > 0",
        vals![of.part, of.subject.as_str()],
    )
}

pub(super) fn forget(of: &Attempt) -> Stmt<'_> {
    Stmt::new(
        constcat::concat!(
            "DELETE FROM attempt WHERE subject = $2 AND window_start IN ($1, ",
            OTHERS,
            ")"
        ),
        of.params(),
    )
}
