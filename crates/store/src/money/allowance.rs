//! Allowance of a license: the runs that a self-hosted engine may create in a calendar month.
//!
//! The transaction that creates a run counts it, in the tail. The count therefore matches the month's runs even if
//! processes are killed, and concurrent runs cannot exceed the allowance. A run without a license has no statement for it.

use parking_lot::Mutex;
use sortie_api::Timestamp;

use super::refusals::is_recent;
use crate::{
    Error, Result,
    db::{
        Stmt, Tx,
        tail::{AllowanceChange, Tail},
        vals,
    },
    licenses::{Allowance, LicenseRefusal, MonthlyRuns},
    runs::NewRun,
};

/// Month for which the engine has just refused a run, because the allowance was used up. A refusal ends the shared
/// transaction of a group of commands, so later runs of that month first read the allowance.
#[derive(Debug, Default)]
pub(crate) struct UsedUp(Mutex<Option<(MonthlyRuns, Timestamp)>>);

impl UsedUp {
    /// Remembers the refusal of a run that was created at `at`.
    pub(crate) fn add(&self, allowed: MonthlyRuns, at: Timestamp) {
        *self.0.lock() = Some((allowed, at));
    }

    /// Whether the run is likely to be refused, so that a read should precede it.
    pub(crate) fn concerns(&self, run: &NewRun) -> bool {
        match run.allowance {
            None => false,
            Some(Allowance::Ended(_)) => true,
            Some(Allowance::Monthly(allowed)) => {
                let recent = *self.0.lock();
                recent.is_some_and(|(used, at)| used == allowed && is_recent(at, run.created_at))
            }
        }
    }
}

/// Counts an inserted run, at the end of its transaction.
pub(crate) fn take(tx: &mut dyn Tx, run: &NewRun) -> Result<()> {
    match run.allowance {
        None => Ok(()),
        Some(Allowance::Ended(at)) => Err(Error::Unlicensed(LicenseRefusal::Expired(at))),
        Some(Allowance::Monthly(allowed)) => {
            tx.tail(Tail::Allowance(allowed));
            Ok(())
        }
    }
}

/// The refusal of a run that its license does not allow, by a read.
pub(super) fn look(tx: &mut dyn Tx, run: &NewRun) -> Result<Option<Error>> {
    let refusal = match run.allowance {
        None => None,
        Some(Allowance::Ended(at)) => Some(LicenseRefusal::Expired(at)),
        Some(Allowance::Monthly(allowed)) => {
            (used(tx, allowed.month)? >= allowed.most).then_some(LicenseRefusal::Used(allowed))
        }
    };
    Ok(refusal.map(Error::Unlicensed))
}

/// Runs that were counted in the month that begins at `month`.
pub(crate) fn used(tx: &mut dyn Tx, month: Timestamp) -> Result<i64> {
    tx.query_opt("SELECT used FROM allowance WHERE month = $1", vals![month])?
        .map_or(Ok(0), |row| row.only())
}

/// The write of one month. It affects no row if the allowance is used up. The license in the database takes precedence over
/// the one that the node has read: another node may have replaced it.
pub(super) fn statement(change: &AllowanceChange) -> Stmt<'static> {
    Stmt::new(
        "INSERT INTO allowance (month, used) SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT) WHERE CAST($2 AS BIGINT) \
         <= COALESCE((SELECT l.monthly_runs FROM license l WHERE l.id = 1), CAST($3 AS BIGINT)) \
         ON CONFLICT (month) DO UPDATE SET used = allowance.used + excluded.used WHERE allowance.used + excluded.used \
         <= COALESCE((SELECT l.monthly_runs FROM license l WHERE l.id = 1), CAST($3 AS BIGINT))",
        vals![change.allowed.month, change.runs, change.allowed.most],
    )
}

/// The error of a command that could not count its run.
pub(super) fn refusal(change: Option<&AllowanceChange>) -> Error {
    match change {
        Some(change) => Error::Unlicensed(LicenseRefusal::Used(change.allowed)),
        None => Error::Corrupt("the allowance of a run is unknown".to_owned()),
    }
}
