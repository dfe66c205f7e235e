//! Errors of statements and of commands. The refusals of commands are data here: only the store makes them.

use sortie_api::{BudgetScope, ErrorCode, Micros, Refusal, Timestamp};

/// Result of a statement or a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a statement or a command. After [`Error::Unavailable`] the command may nevertheless have been done.
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
    /// The license does not allow the request; nothing was created.
    #[error("{0}")]
    Unlicensed(LicenseRefusal),
    /// The operator has suspended the organization; nothing was created.
    #[error("the organization is suspended")]
    Suspended,
    /// The caller has lost its right to write: its run was cancelled or taken over, its node was declared lost, or the
    /// schedule has a newer revision.
    #[error("the run was taken over by another worker")]
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

    /// Whether the failure was caused by the data of the command: another try fails as well, but may succeed without
    /// the one faulty row.
    pub const fn is_of_data(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Database(_))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::not_found(),
            Error::Conflict(rule) => ErrorCode::Conflict.because(rule),
            Error::OverBudget(_) | Error::InsufficientCredit(_) | Error::Unlicensed(_) => {
                ErrorCode::PaymentRequired.because(error.to_string())
            }
            Error::Suspended => ErrorCode::Forbidden.because(error.to_string()),
            Error::Unretained => ErrorCode::Gone.because(format!("{error}, and what was held is gone")),
            Error::Unavailable(cause) => {
                // The client is told no more than that.
                tracing::error!(cause, "the database is unavailable");
                ErrorCode::Unavailable.because("the database is unavailable, retry later")
            }
            Error::Fenced | Error::Corrupt(_) | Error::Database(_) => Self::internal(error),
        }
    }
}

/// A run that does not fit in a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "budget {scope}: max_cost_micros is {}, and {} are left until {resets_at}",
    max_cost.get(),
    available.get()
)]
pub struct OverBudget {
    /// Scope of the budget. Of several such budgets it is the first one by the text of the scope.
    pub scope: BudgetScope,
    /// Maximum cost of the run.
    pub max_cost: Micros,
    /// Amount that is left in the window.
    pub available: Micros,
    /// Start of the next window.
    pub resets_at: Timestamp,
}

/// A run that the credits of its organization do not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credits: max_cost_micros is {}, and {} are available", max_cost.get(), available.get())]
pub struct InsufficientCredit {
    /// Maximum cost of the run.
    pub max_cost: Micros,
    /// Amount that is available.
    pub available: Micros,
}

/// Runs that a license allows in a calendar month, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthlyRuns {
    /// Start of the month.
    pub month: Timestamp,
    /// Start of the next month.
    pub resets_at: Timestamp,
    /// Maximum number of runs.
    pub most: i64,
}

/// Reason why a license does not allow something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LicenseRefusal {
    /// Every run of the month is used.
    #[error("license: all {} runs of this month are used, the next month begins at {}", .0.most, .0.resets_at)]
    Used(MonthlyRuns),
    /// The license of the engine has ended.
    #[error("license: it expired at {0}, and its grace has ended; install a new license, or delete this one")]
    Expired(Timestamp),
    /// The organization is not entitled to licenses.
    #[error("license: the organization has no active entitlement")]
    NotEntitled,
    /// The organization has used its deployments.
    #[error("license: all {0} deployments of the organization are in use; delete one first")]
    Deployments(i64),
}
