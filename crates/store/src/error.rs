//! Errors of the store's commands.

use crate::{
    licenses::LicenseRefusal,
    money::{InsufficientCredit, OverBudget},
};

/// Result of a store command.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a store command. After [`Error::Unavailable`] the command may nevertheless have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such row in this organization.
    #[error("not found")]
    NotFound,
    /// The current state forbids the command. The text names the rule.
    #[error("{0}")]
    Conflict(&'static str),
    /// A budget has too little left for the run; nothing was created.
    #[error("{0}")]
    OverBudget(Box<OverBudget>),
    /// The credits of the organization do not cover the run; nothing was created.
    #[error("{0}")]
    InsufficientCredit(InsufficientCredit),
    /// A license does not allow what was asked for; nothing was created.
    #[error("{0}")]
    Unlicensed(LicenseRefusal),
    /// The operator has suspended the organization; nothing was created.
    #[error("the organization is suspended")]
    Suspended,
    /// The caller may no longer write: its run was cancelled or taken over, its node was declared lost, or the schedule has
    /// a newer revision.
    #[error("the run is no longer this worker's")]
    Fenced,
    /// The run has zero data retention: its content is not stored.
    #[error("nothing of the content of a run with zero data retention is stored")]
    Unretained,
    /// The database is unreachable or overloaded, or the answer to a commit was lost.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A stored value cannot be read.
    #[error("corrupt row: {0}")]
    Corrupt(String),
    /// Any other error of the database.
    #[error("database error: {0}")]
    Database(String),
}

impl Error {
    /// Returns what happened, without the kind of the error in front of it.
    pub fn cause(&self) -> String {
        match self {
            Self::Unavailable(cause) | Self::Corrupt(cause) | Self::Database(cause) => cause.clone(),
            Self::NotFound
            | Self::Conflict(_)
            | Self::OverBudget(_)
            | Self::InsufficientCredit(_)
            | Self::Unlicensed(_)
            | Self::Suspended
            | Self::Fenced
            | Self::Unretained => self.to_string(),
        }
    }

    /// Whether the data that a command met made it fail: another try fails as well, and without the one row it may succeed.
    pub const fn is_of_data(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Database(_))
    }
}

/// Returns true where the command was done, and false where `reason` is its error. Any other error remains an error.
pub(crate) fn unless(reason: &Error, done: Result<()>) -> Result<bool> {
    match done {
        Err(error) if error == *reason => Ok(false),
        done => done.map(|()| true),
    }
}
