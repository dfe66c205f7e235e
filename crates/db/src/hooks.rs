//! Hooks at several points of a transaction, for tests. All hooks share one value, which does nothing outside of tests.

use super::Tx;
use crate::Result;

/// Value that every thread of a database has.
#[cfg(not(any(test, feature = "faults")))]
pub(crate) type Hooks = Idle;
#[cfg(any(test, feature = "faults"))]
pub(crate) type Hooks = std::sync::Arc<super::fault::Faults>;

/// Hooks that do nothing.
#[cfg(not(any(test, feature = "faults")))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle;

#[cfg(not(any(test, feature = "faults")))]
impl HookPoints for Idle {}

/// Points at which a test can watch a transaction or make it fail.
pub(crate) trait HookPoints {
    /// Runs `work` on a transaction.
    fn run<T>(&self, tx: &mut dyn Tx, work: impl FnOnce(&mut dyn Tx) -> T) -> T {
        work(tx)
    }

    /// Called right before a commit, which fails with the error.
    fn at_commit(&self) -> Result<()> {
        Ok(())
    }

    /// Called right after a commit. An error replaces the answer of the commit.
    fn after_commit(&self) -> Result<()> {
        Ok(())
    }

    /// Number of further groups that run in savepoints on `SQLite`, if it is set.
    fn take_guarded(&self) -> Option<u32> {
        None
    }

    /// Called after a checkpoint of the write-ahead log.
    fn checkpointed(&self) {}

    /// Called after the writing thread has copied so many pages of the write-ahead log at once.
    fn copied_by_writer(&self, _pages: u32) {}

    /// Called after a statement of `SQLite` with a function that returns the steps it has taken.
    fn stepped(&self, _steps: impl FnOnce() -> i32) {}
}
