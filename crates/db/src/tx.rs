//! View of a database that a command has: statements with numbered parameters, run one by one or as a batch.
//!
//! A driver implements [`Tx::batch`] and [`Tx::tail`]. SQL is `&'static str`, so a driver can cache prepared
//! statements by address. Parameters are bound by number: `$1` may appear anywhere, and more than once.

use crate::{
    Error, Result,
    known_budgets::KnownBudgets,
    tail::Tail,
    value::{Row, Val},
};

/// Statement with its parameters and, optionally, the number of rows that it must affect.
#[derive(Clone, Debug)]
pub struct Stmt<'a> {
    pub(crate) sql: &'static str,
    pub(crate) params: Vec<Val<'a>>,
    expected: Option<(u64, Error)>,
}

impl<'a> Stmt<'a> {
    pub fn new(sql: &'static str, params: Vec<Val<'a>>) -> Self {
        debug_assert!(
            !sql.as_bytes()
                .windows(3)
                .any(|bytes| matches!(bytes, [before, b'@', b'a'..=b'z'] if *before != b'\'')),
            "a name without its value: {sql}"
        );
        Self {
            sql,
            params,
            expected: None,
        }
    }

    /// Requires the statement to affect exactly `rows` rows. Otherwise the command fails with `otherwise`.
    #[must_use]
    pub fn exactly(mut self, rows: u64, otherwise: Error) -> Self {
        self.expected = Some((rows, otherwise));
        self
    }

    /// Checks that the statement affected the required number of rows.
    pub(super) fn check(&self, answer: &Answer) -> Result<()> {
        match &self.expected {
            Some((rows, otherwise)) if *rows != answer.affected => Err(otherwise.clone()),
            Some(_) | None => Ok(()),
        }
    }
}

/// Result of a statement.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Rows that the statement returned.
    pub rows: Vec<Row>,
    /// Number of rows that the statement changed. For a statement that returns rows, the number of rows
    /// returned.
    pub affected: u64,
}

/// Number of processes that write to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// A single process: reads of the transaction still hold, and a further statement costs no round trip.
    One,
    Several,
}

impl Writers {
    pub fn of(tx: &dyn Tx) -> Self {
        if tx.is_local() { Self::One } else { Self::Several }
    }
}

/// Transaction or reader that statements run on.
pub trait Tx {
    /// Runs independent statements in order, pipelined if the database is reached through a socket. The batch
    /// fails with the first statement that fails or affects a wrong number of rows. Answers of later
    /// statements are dropped then.
    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>>;

    /// Whether a statement costs no round trip. A command may then read first and write only the rows that change.
    fn is_local(&self) -> bool {
        false
    }

    /// Budgets from earlier reads, if no other process writes. Every change of a budget clears them.
    fn known_budgets(&mut self) -> Option<&mut KnownBudgets> {
        None
    }

    /// Announces that the command is about to take locks which other commands often want. The command becomes
    /// the last one of a shared transaction: a transaction with such locks does not go on to another command.
    fn contend(&mut self) {}

    /// Adds an amount to a row that many commands share. Amounts are written after all other statements of
    /// the transaction, just before the commit. The command fails if an amount exceeds the limit of its row.
    fn tail(&mut self, tail: Tail);

    /// Runs one statement. Returns the number of rows that it changed.
    fn exec(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<u64> {
        let [answer] = taken(self.batch(&[Stmt::new(sql, params)])?)?;
        Ok(answer.affected)
    }

    /// Returns all rows of a query.
    fn query_all(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Vec<Row>> {
        let [answer] = taken(self.batch(&[Stmt::new(sql, params)])?)?;
        Ok(answer.rows)
    }

    /// Returns the first row of a query, if there is one.
    fn query_opt(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Option<Row>> {
        Ok(self.query_all(sql, params)?.into_iter().next())
    }

    /// Returns the first row of a query, or [`Error::NotFound`].
    fn query_one(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Row> {
        self.query_opt(sql, params)?.ok_or(Error::NotFound)
    }
}

/// Runs a batch of `N` statements. Returns the answers as an array.
pub fn batch<const N: usize>(tx: &mut dyn Tx, statements: &[Stmt<'_>; N]) -> Result<[Answer; N]> {
    taken(tx.batch(statements)?)
}

fn taken<const N: usize>(answers: Vec<Answer>) -> Result<[Answer; N]> {
    answers
        .try_into()
        .map_err(|_| Error::Database("the driver answered another number of statements".to_owned()))
}
