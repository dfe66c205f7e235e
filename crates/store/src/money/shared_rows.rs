//! Writes of tails: rows that many commands share, and the rows that are deleted with them.

use super::{allowance, holds, windows};
use crate::{
    db::{
        Stmt, Tx,
        tail::{SharedRow, Sums, Tail},
    },
    types::{Error, Result},
};

/// Writes the sums of a transaction's tails, in one batch and in the order of locks. Returns the rows where a
/// limit is reached or that are missing: the transaction must then be rolled back.
pub(crate) fn write(tx: &mut dyn Tx, sums: &Sums) -> Result<Vec<SharedRow>> {
    let ids = Ids::of(sums)?;
    let (rows, statements): (Vec<_>, Vec<_>) = steps(sums, &ids).into_iter().unzip();
    if statements.is_empty() {
        return Ok(Vec::new());
    }
    let answers = tx.batch(&statements)?;
    Ok(rows
        .into_iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.affected == 0)
        .filter_map(|(row, _)| row)
        .collect())
}

/// The row that the statement after `answered` statements of [`write`] is about. None for every other statement.
pub(crate) fn row_after(answered: usize, sums: &Sums) -> Option<SharedRow> {
    let ids = Ids::of(sums).ok()?;
    steps(sums, &ids).into_iter().nth(answered)?.0
}

/// Writes the tails of one command, whose transaction ends with them. [`Error::OverBudget`] or [`Error::Unlicensed`] if a
/// row has no room.
pub(crate) fn write_of_one(tx: &mut dyn Tx, tails: &[Tail]) -> Result<()> {
    let sums = Sums::of(tails);
    match write(tx, &sums)?.first() {
        None => Ok(()),
        Some(missed) => Err(refusal(tx, missed, &sums)?),
    }
}

/// JSON arrays of runs.
struct Ids {
    released: String,
}

impl Ids {
    fn of(sums: &Sums) -> Result<Self> {
        let released =
            serde_json::to_string(sums.released()).map_err(|error| Error::Corrupt(error.to_string()))?;
        Ok(Self { released })
    }
}

/// Statements for these sums in the order of locks, each with the shared row that it must find.
fn steps<'a>(sums: &'a Sums, ids: &'a Ids) -> Vec<(Option<SharedRow>, Stmt<'a>)> {
    let mut steps = Vec::new();
    if !sums.released().is_empty() {
        steps.push((None, holds::delete(&ids.released)));
    }
    for (key, change) in sums.windows() {
        let row = SharedRow::Window(key.clone());
        steps.push((Some(row), windows::statement(key, change)));
    }
    for (key, change) in sums.windows() {
        if let Some(previous) = change.room.and_then(|room| room.begins_after) {
            steps.push((None, windows::delete_earlier(key, previous)));
        }
    }
    for (month, change) in sums.allowances() {
        steps.push((Some(SharedRow::Allowance(*month)), allowance::statement(change)));
    }
    steps
}

/// The error of a command whose change of this row was refused.
fn refusal(tx: &mut dyn Tx, row: &SharedRow, sums: &Sums) -> Result<Error> {
    match row {
        SharedRow::Window(key) => {
            let change = sums.windows().get(key).cloned().unwrap_or_default();
            windows::refusal(tx, key, &change)
        }
        SharedRow::Allowance(month) => Ok(allowance::refusal(sums.allowances().get(month))),
    }
}
