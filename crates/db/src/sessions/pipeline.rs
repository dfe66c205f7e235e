//! Transaction on a session.

use super::{Failure, Session};
use crate::{
    Error, Result,
    tail::Tail,
    tx::{Answer, Stmt, Tx},
};

/// Begins a transaction that writes. Outside of such a transaction a session is read-only. Statements are sent right
/// after their `BEGIN` without waiting for its answer; if it fails, the server refuses their writes.
const BEGIN: &str = "BEGIN READ WRITE";

/// Begins a transaction of several commands. It waits for a lock about as long as another transaction takes
/// to commit, and then fails.
const BEGIN_GROUP: &str = "BEGIN READ WRITE; SET LOCAL lock_timeout = '50ms'";

/// Sent before the tails of several commands. Every transaction locks the rows of its tails last, and in one
/// order, so waiting for one cannot be part of a deadlock. The limit is that of a lone command, the
/// `lock_timeout` of a session.
const BEGIN_TAILS: &str = "SET LOCAL lock_timeout = '4s'";

/// Statements of one or several jobs on a session. `BEGIN` is sent with the first of them.
pub(crate) struct Pipeline<'a, S> {
    session: &'a mut S,
    /// Statement to send before the next batch.
    begin: Option<&'static str>,
    /// Whether a transaction may be open on the server.
    pub(super) open: bool,
    /// Whether the transaction takes locks that others wait for.
    pub(super) contends: bool,
    /// Tails of the jobs that have run.
    pub(super) tails: Vec<Tail>,
    /// First failure reported by the database, as opposed to a refusal by the command itself.
    pub(super) failure: Option<Failure>,
    /// Number of statements answered since the tails began.
    answered: usize,
}

impl<'a, S: Session> Pipeline<'a, S> {
    /// Starts the statements of one job, in a transaction.
    pub(crate) fn writer(session: &'a mut S) -> Self {
        Self::begun_by(Some(BEGIN), session)
    }

    /// Starts the statements of several jobs, in one transaction.
    pub(crate) fn group(session: &'a mut S) -> Self {
        Self::begun_by(Some(BEGIN_GROUP), session)
    }

    /// Starts queries outside of a transaction.
    pub(crate) fn reader(session: &'a mut S) -> Self {
        Self::begun_by(None, session)
    }

    fn begun_by(begin: Option<&'static str>, session: &'a mut S) -> Self {
        Self {
            session,
            begin,
            open: false,
            contends: false,
            tails: Vec::new(),
            failure: None,
            answered: 0,
        }
    }

    /// Prepares for the tails of several jobs, if their statements have begun the transaction.
    pub(super) fn begin_tails(&mut self) {
        self.answered = 0;
        if self.open {
            self.begin = Some(BEGIN_TAILS);
        }
    }

    /// Number of the tails' statements that were answered before one failed.
    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    fn failed(&mut self, failure: Failure) -> Error {
        let error = failure.error.clone();
        self.failure = Some(failure);
        error
    }
}

impl<S: Session> Tx for Pipeline<'_, S> {
    fn contend(&mut self) {
        self.contends = true;
    }

    fn tail(&mut self, tail: Tail) {
        self.tails.push(tail);
    }

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        if let Some(failure) = &self.failure {
            return Err(failure.error.clone());
        }
        let begin = self.begin.take();
        self.open |= begin.is_some();
        let answers = match self.session.send(begin, statements) {
            Ok(answers) => answers,
            Err(failure) => return Err(self.failed(failure)),
        };
        let mut checked = Vec::with_capacity(answers.len());
        for (statement, answer) in statements.iter().zip(answers) {
            let answer = answer.map_err(|failure| self.failed(failure))?;
            self.answered += 1;
            statement.check(&answer)?;
            checked.push(answer);
        }
        Ok(checked)
    }
}
