//! Failures on order: a [`Tx`] whose n-th statement fails, and a commit that fails. They prove that a command is
//! one transaction: whatever fails, nothing of it is seen. A commit can also take place and lose its answer. A command can also be held up between two statements, to let
//! another one come between. Beside that it remembers the statements that were run, so
//! that a test can look at their plans.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc,
    },
};

use tokio::sync::oneshot;

use crate::{
    db::{
        tail::Tail,
        tx::{Answer, Stmt, Tx},
    },
    types::{Error, Result},
};

/// What is to fail.
#[derive(Default)]
pub(crate) struct Faults {
    /// How many statements still pass, plus one; zero when none is to fail.
    statement: AtomicI64,
    commit: AtomicBool,
    answer: AtomicBool,
    seen: Mutex<BTreeSet<&'static str>>,
    pause: Mutex<Option<Pause>>,
    contended: AtomicBool,
}

/// A stop within a batch.
struct Pause {
    after: usize,
    reached: oneshot::Sender<()>,
    go_on: mpsc::Receiver<()>,
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

    /// The next commit takes place, and its answer is lost, once.
    pub(crate) fn lose_answer(&self) {
        self.answer.store(true, Ordering::SeqCst);
    }

    /// The next batch of more than `after` statements stops after so many, tells that it has, and goes on when told.
    pub(crate) fn pause(&self, after: usize) -> (oneshot::Receiver<()>, mpsc::Sender<()>) {
        let (reached, is_reached) = oneshot::channel();
        let (told, go_on) = mpsc::channel();
        *self.pause.lock().expect("no test panics under the lock") = Some(Pause {
            after,
            reached,
            go_on,
        });
        (is_reached, told)
    }

    /// The stop that is ordered for a batch of `count` statements.
    fn stop(&self, count: usize) -> Option<Pause> {
        let mut pause = self.pause.lock().expect("no test panics under the lock");
        pause.take_if(|pause| pause.after < count)
    }

    /// Whether an ordered failure has not happened yet; forgets it.
    pub(crate) fn disarm(&self) -> bool {
        let statement = self.statement.swap(0, Ordering::SeqCst) > 0;
        let commit = self.commit.swap(false, Ordering::SeqCst);
        self.answer.swap(false, Ordering::SeqCst) || commit || statement
    }

    /// Whether a command has said that it contends, since this was asked last.
    pub(crate) fn contended(&self) -> bool {
        self.contended.swap(false, Ordering::SeqCst)
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

    /// Called where a back end has committed.
    pub(crate) fn after_commit(&self) -> Result<()> {
        if self.answer.swap(false, Ordering::SeqCst) {
            return Err(Error::Unavailable(
                "injected: the answer to the commit is lost".to_owned(),
            ));
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
    fn contend(&mut self) {
        self.faults.contended.store(true, Ordering::SeqCst);
        self.inner.contend();
    }

    fn tail(&mut self, tail: Tail) {
        self.inner.tail(tail);
    }

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        self.faults
            .seen
            .lock()
            .expect("no test panics under the lock")
            .extend(statements.iter().map(|statement| statement.sql));
        if let Some(pause) = self.faults.stop(statements.len()) {
            let (first, rest) = statements.split_at(pause.after);
            let mut answers = self.inner.batch(first)?;
            pause.reached.send(()).expect("the test waits for it");
            // The other side may also just go away.
            let _: std::result::Result<(), mpsc::RecvError> = pause.go_on.recv();
            answers.extend(self.inner.batch(rest)?);
            return Ok(answers);
        }
        match self.faults.next(statements.len()) {
            None => self.inner.batch(statements),
            Some(passing) => {
                self.inner.batch(&statements[..passing])?;
                Err(Error::Unavailable("injected: a statement fails".to_owned()))
            }
        }
    }
}
