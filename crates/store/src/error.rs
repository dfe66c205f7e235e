//! Errors of the store's commands.

pub use sortie_db::error::{Error, InsufficientCredit, LicenseRefusal, MonthlyRuns, OverBudget, Result};

/// Returns true if the command succeeded, and false if `reason` is its error. Any other error remains an error.
pub(crate) fn unless(reason: &Error, done: Result<()>) -> Result<bool> {
    match done {
        Err(error) if error == *reason => Ok(false),
        done => done.map(|()| true),
    }
}
