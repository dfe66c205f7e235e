//! Errors of payments. The server converts them into the responses of `docs/API.md#errors`.

use sortie_store::Error as StoreError;

use crate::StripeError;

/// Result of a command on payments.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Failure of a command on payments. Every text but those of `Store` and `Internal` is for the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 400: the field and the rule it breaks.
    #[error("{0}")]
    Invalid(String),
    /// 404: there is none.
    #[error("{0}")]
    NotFound(&'static str),
    /// 409: the current state forbids it.
    #[error("{0}")]
    Conflict(&'static str),
    /// 503: Stripe did not do it, or 409 where it will not do it. The cause is for the log.
    #[error("{0}")]
    Stripe(#[from] StripeError),
    /// The database did not do it.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// 500: for the log only.
    #[error("{0}")]
    Internal(String),
}

impl From<sortie_base::NoRandomness> for Error {
    fn from(error: sortie_base::NoRandomness) -> Self {
        Self::Internal(error.to_string())
    }
}

impl StripeError {
    /// Whether Stripe has no such object.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::Refused(refusal) => {
                refusal.status == 404 || refusal.code.as_deref() == Some("resource_missing")
            }
            Self::Unreachable(_)
            | Self::Failed(_)
            | Self::FailedBefore(_)
            | Self::RateLimited
            | Self::InProgress
            | Self::KeyReused
            | Self::Unauthorized(_)
            | Self::Unreadable(_) => false,
        }
    }

    /// Whether Stripe does not have the customer that the request names: the operator has changed the account, or somebody has
    /// deleted the customer.
    pub(crate) fn lacks_customer(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.lacks_customer())
    }

    /// Whether the request was not done, and a repetition would not be either.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Refused(_) | Self::KeyReused => true,
            Self::Unreachable(_)
            | Self::Failed(_)
            | Self::FailedBefore(_)
            | Self::RateLimited
            | Self::InProgress
            | Self::Unauthorized(_)
            | Self::Unreadable(_) => false,
        }
    }

    /// Whether nobody knows what has become of the request, and its key may give this answer for a day.
    pub(crate) const fn is_indefinite(&self) -> bool {
        match self {
            Self::Failed(_) | Self::FailedBefore(_) | Self::Unreadable(_) => true,
            Self::Unreachable(_)
            | Self::RateLimited
            | Self::InProgress
            | Self::KeyReused
            | Self::Unauthorized(_)
            | Self::Refused(_) => false,
        }
    }

    /// Whether the first request of its kind was not done, so that nothing is left at Stripe.
    pub(crate) const fn is_undone(&self) -> bool {
        self.is_final() || matches!(self, Self::RateLimited | Self::Unauthorized(_))
    }

    /// Name of the outcome, for metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Failed(_) | Self::FailedBefore(_) => "failed",
            Self::RateLimited => "rate_limited",
            Self::InProgress => "in_progress",
            Self::KeyReused => "key_reused",
            Self::Unauthorized(_) => "unauthorized",
            Self::Refused(_) => "refused",
            Self::Unreadable(_) => "unreadable",
        }
    }
}
