//! What a command sees of a database: statements with numbered parameters, one after the other or as a batch.
//!
//! A driver implements [`Tx::batch`] and nothing else. The SQL is `&'static str`, so that a driver can keep its
//! prepared form by address; parameters are bound by number, so `$1` may stand anywhere and twice.

use crate::{
    db::{
        tail::Tail,
        value::{Row, Val},
    },
    types::{Error, Result},
};

/// A statement with its parameters, and what its answer has to be.
#[derive(Clone, Debug)]
pub(crate) struct Stmt<'a> {
    pub(super) sql: &'static str,
    pub(super) params: Vec<Val<'a>>,
    expected: Option<(u64, Error)>,
}

impl<'a> Stmt<'a> {
    pub(crate) fn new(sql: &'static str, params: Vec<Val<'a>>) -> Self {
        Self {
            sql,
            params,
            expected: None,
        }
    }

    /// Demands that the statement hits exactly `rows` rows; `otherwise` is the error of the command if not.
    #[must_use]
    pub(crate) fn exactly(mut self, rows: u64, otherwise: Error) -> Self {
        self.expected = Some((rows, otherwise));
        self
    }

    /// Whether `answer` is what the statement has to have.
    pub(super) fn check(&self, answer: &Answer) -> Result<()> {
        match &self.expected {
            Some((rows, otherwise)) if *rows != answer.affected => Err(otherwise.clone()),
            Some(_) | None => Ok(()),
        }
    }
}

/// What a statement did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// The rows it returned.
    pub(crate) rows: Vec<Row>,
    /// How many rows it changed; for a statement that returns rows, how many it returned.
    pub(crate) affected: u64,
}

/// A transaction, or a reader.
pub(crate) trait Tx {
    /// Runs independent statements in order, pipelined where the database is behind a socket. A statement
    /// that fails, or does not hit the rows it has to, is the error of the whole; none after it counts.
    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>>;

    /// Says, before it does, that the command takes locks that others often want. Where commands share a transaction, it is
    /// the last of it: whoever has such a lock does not go on to the rows of another command.
    fn contend(&mut self) {}

    /// Adds an amount to a row that many commands share. The amounts are written after everything else of the transaction,
    /// just before its commit. The command fails where one does not fit.
    fn tail(&mut self, tail: Tail);

    /// Runs one statement; how many rows it changed.
    fn exec(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<u64> {
        let [answer] = taken(self.batch(&[Stmt::new(sql, params)])?)?;
        Ok(answer.affected)
    }

    /// All rows of a query.
    fn query_all(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Vec<Row>> {
        let [answer] = taken(self.batch(&[Stmt::new(sql, params)])?)?;
        Ok(answer.rows)
    }

    /// The first row of a query, if there is one.
    fn query_opt(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Option<Row>> {
        Ok(self.query_all(sql, params)?.into_iter().next())
    }

    /// The first row of a query, or [`Error::NotFound`].
    fn query_one(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Row> {
        self.query_opt(sql, params)?.ok_or(Error::NotFound)
    }
}

/// As [`Tx::batch`] for a known number of statements, whose answers are taken apart by position.
pub(crate) fn batch<const N: usize>(tx: &mut dyn Tx, statements: &[Stmt<'_>; N]) -> Result<[Answer; N]> {
    taken(tx.batch(statements)?)
}

fn taken<const N: usize>(answers: Vec<Answer>) -> Result<[Answer; N]> {
    answers
        .try_into()
        .map_err(|_| Error::Database("the driver answered another number of statements".to_owned()))
}
