//! Injected failures, for tests.
//!
//! [`Faults`] fail the n-th statement, fail a commit, or lose the answer to a commit that took place. Tests prove with
//! these that a command is one transaction: a failed command changes nothing. A command can also be paused between two
//! statements while another one runs. Every statement that was run is recorded, so that a test can inspect its query
//! plan, on request with its parameters.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    Error, Result,
    hooks::HookPoints,
    known_budgets::KnownBudgets,
    tail::Tail,
    tx::{Answer, Stmt, Tx},
    value::Val,
};

/// Statement that was run, with its parameters.
pub type Ran = (&'static str, Vec<Val<'static>>);

/// Failures to inject.
#[derive(Debug, Default)]
pub struct Faults {
    /// Number of statements that still pass, plus one. Zero if none is to fail.
    statement: AtomicI64,
    commit: AtomicBool,
    answer: AtomicBool,
    seen: Mutex<BTreeSet<&'static str>>,
    watched: Mutex<Option<Vec<Ran>>>,
    pause: Mutex<Option<Pause>>,
    contended: AtomicBool,
    batches: AtomicUsize,
    steps: AtomicU64,
    guarded: Mutex<Option<u32>>,
    checkpoints: AtomicUsize,
    copied_by_writer: AtomicU32,
}

/// Pause within a batch.
#[derive(Debug)]
struct Pause {
    after: usize,
    reached: oneshot::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl Faults {
    /// Makes the `n`-th statement from now on (counted from 1) fail, once.
    pub fn fail_statement(&self, n: i64) {
        self.statement.store(n, Ordering::SeqCst);
    }

    /// Makes the next commit fail, once.
    pub fn fail_commit(&self) {
        self.commit.store(true, Ordering::SeqCst);
    }

    /// Lets the next commit take place and loses its answer, once.
    pub fn lose_answer(&self) {
        self.answer.store(true, Ordering::SeqCst);
    }

    /// Pauses the next batch of more than `after` statements after that many. The receiver reports that the batch has
    /// stopped. Sending a message, or dropping the sender, resumes the batch.
    pub fn pause(&self, after: usize) -> (oneshot::Receiver<()>, mpsc::Sender<()>) {
        let (reached, is_reached) = oneshot::channel();
        let (told, go_on) = mpsc::channel();
        *self.pause.lock() = Some(Pause {
            after,
            reached,
            go_on,
        });
        (is_reached, told)
    }

    /// Drops a pause that no command has reached. The waiter gets an error.
    pub fn forget_pause(&self) {
        *self.pause.lock() = None;
    }

    /// Takes the requested pause, if it lies within a batch of `count` statements.
    fn stop(&self, count: usize) -> Option<Pause> {
        let mut pause = self.pause.lock();
        pause.take_if(|pause| pause.after < count)
    }

    /// Whether a requested failure has not happened yet. Clears all requests.
    pub fn disarm(&self) -> bool {
        let statement = self.statement.swap(0, Ordering::SeqCst) > 0;
        let commit = self.commit.swap(false, Ordering::SeqCst);
        self.answer.swap(false, Ordering::SeqCst) || commit || statement
    }

    /// Whether a command has called [`Tx::contend`] since the last call of this function.
    pub fn contended(&self) -> bool {
        self.contended.swap(false, Ordering::SeqCst)
    }

    /// Makes this number of further groups run in savepoints on `SQLite`, whatever was spoiled before.
    pub fn guard(&self, groups: u32) {
        *self.guarded.lock() = Some(groups);
    }

    /// Number of batches that commands have run since the last call of this function.
    pub fn batches(&self) -> usize {
        self.batches.swap(0, Ordering::SeqCst)
    }

    /// Number of steps that statements have taken since the last call of this function. Only `SQLite` counts them.
    pub fn steps(&self) -> u64 {
        self.steps.swap(0, Ordering::SeqCst)
    }

    /// Number of checkpoints so far. Only `SQLite` has them.
    pub fn checkpoints(&self) -> usize {
        self.checkpoints.load(Ordering::SeqCst)
    }

    /// Largest number of pages of the log that the writing thread has copied at once. Only `SQLite` has a log.
    pub fn most_copied_by_writer(&self) -> u32 {
        self.copied_by_writer.load(Ordering::SeqCst)
    }

    /// Returns every statement that was run so far.
    pub fn statements(&self) -> BTreeSet<&'static str> {
        self.seen.lock().clone()
    }

    /// Keeps the statements that are run from now on, with their parameters.
    pub fn watch(&self) {
        *self.watched.lock() = Some(Vec::new());
    }

    /// Returns the statements that were run since [`watch`](Self::watch), in order, and keeps no more.
    pub fn watched(&self) -> Vec<Ran> {
        let watched = self.watched.lock().take();
        watched.unwrap_or_default()
    }

    fn record(&self, statements: &[Stmt<'_>]) {
        let mut seen = self.seen.lock();
        seen.extend(statements.iter().map(|statement| statement.sql));
        let mut watched = self.watched.lock();
        if let Some(watched) = &mut *watched {
            watched.extend(statements.iter().map(|statement| {
                let params = statement.params.iter().cloned().map(Val::into_owned);
                (statement.sql, params.collect())
            }));
        }
    }

    /// Returns how many of the next `count` statements pass before one fails; `None` if none fails.
    fn next(&self, count: usize) -> Option<usize> {
        let armed = self.statement.load(Ordering::SeqCst);
        if armed == 0 {
            return None;
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if armed > count {
            self.statement.store(armed - count, Ordering::SeqCst);
            return None;
        }
        self.statement.store(0, Ordering::SeqCst);
        usize::try_from(armed - 1).ok()
    }
}

impl HookPoints for Faults {
    fn run<T>(&self, tx: &mut dyn Tx, work: impl FnOnce(&mut dyn Tx) -> T) -> T {
        work(&mut FaultyTx {
            inner: tx,
            faults: self,
        })
    }

    fn at_commit(&self) -> Result<()> {
        if self.commit.swap(false, Ordering::SeqCst) {
            return Err(Error::Unavailable("injected: the commit fails".to_owned()));
        }
        Ok(())
    }

    fn after_commit(&self) -> Result<()> {
        if self.answer.swap(false, Ordering::SeqCst) {
            return Err(Error::Unavailable(
                "injected: the answer to the commit is lost".to_owned(),
            ));
        }
        Ok(())
    }

    fn take_guarded(&self) -> Option<u32> {
        self.guarded.lock().take()
    }

    fn checkpointed(&self) {
        self.checkpoints.fetch_add(1, Ordering::SeqCst);
    }

    fn copied_by_writer(&self, pages: u32) {
        self.copied_by_writer.fetch_max(pages, Ordering::SeqCst);
    }

    fn stepped(&self, steps: impl FnOnce() -> i32) {
        let steps = u64::try_from(steps()).unwrap_or_default();
        self.steps.fetch_add(steps, Ordering::SeqCst);
    }
}

/// Transaction that fails on request.
struct FaultyTx<'a> {
    inner: &'a mut dyn Tx,
    faults: &'a Faults,
}

impl Tx for FaultyTx<'_> {
    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn known_budgets(&mut self) -> Option<&mut KnownBudgets> {
        self.inner.known_budgets()
    }

    fn contend(&mut self) {
        self.faults.contended.store(true, Ordering::SeqCst);
        self.inner.contend();
    }

    fn tail(&mut self, tail: Tail) {
        self.inner.tail(tail);
    }

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        self.faults.batches.fetch_add(1, Ordering::SeqCst);
        self.faults.record(statements);
        if let Some(pause) = self.faults.stop(statements.len()) {
            let (first, rest) = statements.split_at(pause.after);
            let mut answers = self.inner.batch(first)?;
            // The test may have stopped waiting, and its sender may just be dropped.
            let _: Result<(), ()> = pause.reached.send(());
            let _: Result<(), mpsc::RecvError> = pause.go_on.recv();
            answers.extend(self.inner.batch(rest)?);
            return Ok(answers);
        }
        match self.faults.next(statements.len()) {
            None => self.inner.batch(statements),
            Some(passing) => {
                self.inner.batch(statements.split_at(passing).0)?;
                Err(Error::Unavailable("injected: a statement fails".to_owned()))
            }
        }
    }
}
