//! Failures on order: a [`Tx`] whose n-th statement fails, and a commit that fails. They prove that a command is
//! one transaction: whatever fails, nothing of it is seen. Beside that it remembers the statements that were run, so
//! that a test can look at their plans.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use crate::{
    db::tx::{Answer, Stmt, Tx},
    types::{Error, Result},
};

/// What is to fail.
#[derive(Default)]
pub(crate) struct Faults {
    /// How many statements still pass, plus one; zero when none is to fail.
    statement: AtomicI64,
    commit: AtomicBool,
    seen: Mutex<BTreeSet<&'static str>>,
}

impl Faults {
    /// The `n`-th statement from now on (from 1) fails, once.
    pub(crate) fn fail_statement(&self, n: i64) {
        self.statement.store(n, Ordering::SeqCst);
    }

    /// The next commit fails, once.
    pub(crate) fn fail_commit(&self) {
        self.commit.store(true, Ordering::SeqCst);
    }

    /// Whether an ordered failure has not happened yet; forgets it.
    pub(crate) fn disarm(&self) -> bool {
        let statement = self.statement.swap(0, Ordering::SeqCst) > 0;
        self.commit.swap(false, Ordering::SeqCst) || statement
    }

    /// Every statement that was run so far.
    pub(crate) fn statements(&self) -> BTreeSet<&'static str> {
        self.seen.lock().expect("no test panics under the lock").clone()
    }

    /// Called where a back end is about to commit.
    pub(crate) fn at_commit(&self) -> Result<()> {
        if self.commit.swap(false, Ordering::SeqCst) {
            return Err(Error::Unavailable("injected: the commit fails".to_owned()));
        }
        Ok(())
    }

    /// How many of the next `count` statements pass before one is to fail; `None`: all.
    fn next(&self, count: usize) -> Option<usize> {
        let armed = self.statement.load(Ordering::SeqCst);
        if armed == 0 {
            return None;
        }
        let count = i64::try_from(count).expect("a batch is small");
        if armed > count {
            self.statement.store(armed - count, Ordering::SeqCst);
            return None;
        }
        self.statement.store(0, Ordering::SeqCst);
        Some(usize::try_from(armed - 1).expect("it is at least 1"))
    }
}

/// A transaction that fails on order.
pub(super) struct FaultyTx<'a> {
    inner: &'a mut dyn Tx,
    faults: &'a Faults,
}

impl<'a> FaultyTx<'a> {
    pub(super) fn new(inner: &'a mut dyn Tx, faults: &'a Faults) -> Self {
        Self { inner, faults }
    }
}

impl Tx for FaultyTx<'_> {
    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        self.faults
            .seen
            .lock()
            .expect("no test panics under the lock")
            .extend(statements.iter().map(|statement| statement.sql));
        match self.faults.next(statements.len()) {
            None => self.inner.batch(statements),
            Some(passing) => {
                self.inner.batch(&statements[..passing])?;
                Err(Error::Unavailable("injected: a statement fails".to_owned()))
            }
        }
    }
}
