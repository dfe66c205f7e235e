//! Writes of tails: rows that many commands share, and the rows that are deleted or added with them.

use serde::Serialize;
use sortie_api::OrgId;

use super::{allowance, credit, ledger, low_credits::LowCredits, metrics::CreditMetrics, windows};
use crate::{
    Error, Result,
    db::{
        Row, Stmt, Tx, Writers,
        tail::{SharedRow, SharedRows, Sums, Tail, Written},
    },
};

/// Writer of the shared rows, with notes about the rows that the commits of this node have changed.
#[derive(Debug, Default)]
pub(crate) struct MoneyRows {
    pub(crate) metrics: CreditMetrics,
    pub(crate) low: LowCredits,
}

impl SharedRows for MoneyRows {
    fn write(&self, tx: &mut dyn Tx, sums: &Sums) -> Result<Written> {
        write(tx, sums)
    }

    fn write_of_one(&self, tx: &mut dyn Tx, tails: &[Tail]) -> Result<Written> {
        write_of_one(tx, tails)
    }

    fn row_after(&self, answered: usize, sums: &Sums) -> Option<SharedRow> {
        row_after(answered, sums)
    }

    fn committed(&self, tails: &[Tail], low: Vec<OrgId>) {
        self.metrics.moved(tails);
        self.low.note(low);
    }
}

/// Writes the sums of a transaction's tails, in one batch and in the order of locks.
///
/// `SQLite` updates a row with RETURNING at five times the cost. There a further statement, which costs no round trip, reads
/// the organizations with low credits.
pub(crate) fn write(tx: &mut dyn Tx, sums: &Sums) -> Result<Written> {
    let (ids, writers) = (Ids::of(sums)?, Writers::of(tx));
    let (rows, statements): (Vec<_>, Vec<_>) = steps(sums, &ids, writers).into_iter().unzip();
    let mut written = Written::default();
    if statements.is_empty() {
        return Ok(written);
    }
    for (row, answer) in rows.into_iter().zip(&tx.batch(&statements)?) {
        match row {
            Some(row) if answer.affected == 0 => written.missed.push(row),
            Some(SharedRow::Credit(org)) if credit::is_low(answer) => written.low.push(org),
            Some(SharedRow::Window(_) | SharedRow::Allowance(_) | SharedRow::Credit(_)) | None => {}
        }
    }
    if writers == Writers::One && !sums.credits().is_empty() && written.missed.is_empty() {
        let low = tx
            .batch(&[credit::low_among(&ids.moved)])?
            .pop()
            .unwrap_or_default();
        written.low = low.rows.iter().map(Row::only).collect::<Result<_>>()?;
    }
    Ok(written)
}

/// The row that the statement after `answered` statements of [`write`] is about. `None` for every other statement.
fn row_after(answered: usize, sums: &Sums) -> Option<SharedRow> {
    let ids = Ids::of(sums).ok()?;
    steps(sums, &ids, Writers::Several).into_iter().nth(answered)?.0
}

/// Writes the tails of one command, at the end of its transaction. [`Error::OverBudget`], [`Error::Unlicensed`],
/// [`Error::InsufficientCredit`] or [`Error::Suspended`] if a row has no room.
pub(crate) fn write_of_one(tx: &mut dyn Tx, tails: &[Tail]) -> Result<Written> {
    let sums = Sums::of(tails);
    let mut written = write(tx, &sums)?;
    for row in std::mem::take(&mut written.missed) {
        match row {
            SharedRow::Window(key) => {
                let change = sums.windows().get(&key).cloned().unwrap_or_default();
                return Err(windows::refusal(tx, &key, &change)?);
            }
            SharedRow::Allowance(month) => return Err(allowance::refusal(sums.allowances().get(&month))),
            // Credits are the last rows in the order of locks, and a command that reserves some charges nothing.
            SharedRow::Credit(org) => {
                let change = sums.credits().get(&org).copied().unwrap_or_default();
                let writers = Writers::of(tx);
                if credit::change_again(tx, org, change, writers)? {
                    written.low.push(org);
                }
            }
        }
    }
    Ok(written)
}

/// JSON arrays of identifiers.
struct Ids {
    charged: String,
    /// Organizations with a change of their credits.
    moved: String,
}

impl Ids {
    fn of(sums: &Sums) -> Result<Self> {
        Ok(Self {
            charged: json(sums.charged())?,
            moved: json(sums.credits().keys())?,
        })
    }
}

fn json<'a, T: Serialize + 'a>(ids: impl IntoIterator<Item = &'a T>) -> Result<String> {
    let ids: Vec<&T> = ids.into_iter().collect();
    serde_json::to_string(&ids).map_err(|error| Error::Corrupt(error.to_string()))
}

/// Statements for these sums in the order of locks, each with the shared row that it must find.
fn steps<'a>(sums: &'a Sums, ids: &'a Ids, writers: Writers) -> Vec<(Option<SharedRow>, Stmt<'a>)> {
    let mut steps = Vec::new();
    for (key, change) in sums.windows() {
        let row = SharedRow::Window(key.clone());
        steps.push((Some(row), windows::statement(key, change, writers)));
    }
    for (key, change) in sums.windows() {
        if let Some(previous) = change.room.and_then(|room| room.begins_after) {
            steps.push((None, windows::delete_earlier(key, previous)));
        }
    }
    for (month, change) in sums.allowances() {
        steps.push((Some(SharedRow::Allowance(*month)), allowance::statement(change)));
    }
    for (org, change) in sums.credits() {
        steps.push((
            Some(SharedRow::Credit(*org)),
            credit::statement(*org, *change, writers),
        ));
    }
    // The locks of the credits give each charge a time after all entries of its organization.
    if !sums.charged().is_empty() {
        steps.push((None, ledger::charge(&ids.charged, sums.charged().len())));
    }
    steps
}
