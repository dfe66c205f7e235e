//! Errors of accounts. The server converts them into the responses of `docs/API.md#errors`.

use std::time::Duration;

/// Failure of a command on accounts. Every text but that of `Internal` is for the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 400: the field and the rule it breaks.
    #[error("{0}")]
    Invalid(String),
    /// 401: the credentials of a sign-in are wrong.
    #[error("{0}")]
    Unauthorized(String),
    /// 401: the password is right, and the second factor is missing or wrong.
    #[error("code: must be the current code of the authenticator, or an unused recovery code")]
    SecondFactorRequired,
    /// 402: the organization is not entitled to it.
    #[error("{0}")]
    PaymentRequired(String),
    /// 403: the person or the role may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// 404: no such resource for this person.
    #[error("not found")]
    NotFound,
    /// 409: the current state forbids it.
    #[error("{0}")]
    Conflict(String),
    /// 413: a file is larger than it may be.
    #[error("{0}")]
    TooLarge(String),
    /// 429: too many attempts; the time after which the next one is accepted.
    #[error("too many attempts, retry in {} s", .0.as_secs())]
    TooManyAttempts(Duration),
    /// 503: a dependency is away for the moment.
    #[error("{0}")]
    Unavailable(String),
    /// 500: for the log only.
    #[error("{0}")]
    Internal(String),
}

impl From<sortie_base::NoRandomness> for Error {
    fn from(error: sortie_base::NoRandomness) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<sortie_base::SealError> for Error {
    fn from(error: sortie_base::SealError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<sortie_store::Error> for Error {
    fn from(error: sortie_store::Error) -> Self {
        use sortie_store::Error as Store;
        match error {
            Store::NotFound => Self::NotFound,
            Store::Conflict(rule) => Self::Conflict(rule.to_owned()),
            Store::Suspended => Self::Forbidden(error.to_string()),
            Store::Unavailable(cause) => {
                // The client is told no more than that.
                tracing::error!(cause, "the database is unavailable");
                Self::Unavailable("the database is unavailable, retry later".to_owned())
            }
            Store::Unlicensed(refusal) => Self::PaymentRequired(refusal.to_string()),
            Store::OverBudget(_)
            | Store::InsufficientCredit(_)
            | Store::Unretained
            | Store::Fenced
            | Store::Corrupt(_)
            | Store::Database(_) => Self::Internal(error.to_string()),
        }
    }
}
