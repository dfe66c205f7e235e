//! Errors of the engine. The server converts them into the responses of `docs/API.md#errors`.

/// Failure of an engine command. The text of `Invalid`, `PaymentRequired`, `InsufficientCredit`, `Conflict`, `Gone` and
/// `Unavailable` is for the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 400: the field and the rule it breaks.
    #[error("{0}")]
    Invalid(String),
    /// 402: a budget has too little left, or the allowance is used up.
    #[error("{0}")]
    PaymentRequired(String),
    /// 402: the credits of the organization do not cover the run.
    #[error("{0}")]
    InsufficientCredit(String),
    /// 403: the operator has suspended the organization.
    #[error("the organization is suspended")]
    Suspended,
    /// 404: no such resource in this organization.
    #[error("not found")]
    NotFound,
    /// 409: the current state forbids it.
    #[error("{0}")]
    Conflict(String),
    /// 410: the content was never stored.
    #[error("{0}")]
    Gone(String),
    /// 410: the content of the run is not stored, and this node does not have it.
    #[error("nothing of the content of a run with zero data retention is stored, and what was held is gone")]
    Unretained,
    /// 503: a dependency is away for the moment.
    #[error("{0}")]
    Unavailable(String),
    /// 500: for the log only.
    #[error("{0}")]
    Internal(String),
}

/// The operator's settings are told as they are: nobody else sees them at the start.
impl From<sortie_models::InvalidSettings> for Error {
    fn from(error: sortie_models::InvalidSettings) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<sortie_store::Error> for Error {
    fn from(error: sortie_store::Error) -> Self {
        use sortie_store::Error as Store;
        match error {
            Store::NotFound => Self::NotFound,
            Store::OverBudget(refusal) => Self::PaymentRequired(refusal.to_string()),
            Store::InsufficientCredit(refusal) => Self::InsufficientCredit(refusal.to_string()),
            Store::Unlicensed(refusal) => Self::PaymentRequired(refusal.to_string()),
            Store::Suspended => Self::Suspended,
            Store::Conflict(rule) => Self::Conflict(rule.to_owned()),
            Store::Unretained => Self::Unretained,
            Store::Unavailable(cause) => {
                // The client is told no more than that.
                tracing::error!(cause, "the database is unavailable");
                Self::Unavailable("the database is unavailable, retry later".to_owned())
            }
            Store::Fenced | Store::Corrupt(_) | Store::Database(_) => Self::Internal(error.to_string()),
        }
    }
}
