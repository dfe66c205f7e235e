//! Errors of payments.

use sortie_api::{ErrorCode, Refusal};
use sortie_base::NoRandomness;
use sortie_store::Error as StoreError;

use crate::StripeError;

/// Result of a command on payments.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Failure of a command on payments.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to Stripe failed.
    #[error("{0}")]
    Stripe(#[from] StripeError),
    /// A database operation failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A rule forbids it, or this node failed.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

impl From<NoRandomness> for Error {
    fn from(error: NoRandomness) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Stripe(cause) if cause.is_final() || matches!(cause, StripeError::Unauthorized(_)) => {
                tracing::error!(%cause, "Stripe refused a request");
                ErrorCode::Conflict.because(
                    "the payment provider refuses the request: the operator has its reason in the log",
                )
            }
            Error::Stripe(cause) => Self {
                cause: Some(cause.to_string()),
                ..ErrorCode::Unavailable.because("the payment provider is unavailable, retry later")
            },
            Error::Store(error) => error.into(),
            Error::Refused(refusal) => refusal,
        }
    }
}

/// Returns the error of a command that the current state forbids.
pub(crate) fn conflict(rule: &'static str) -> Error {
    ErrorCode::Conflict.because(rule).into()
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

    /// Whether the customer of the request is missing at Stripe: the operator has switched to another Stripe account, or the
    /// customer was deleted.
    pub(crate) fn lacks_customer(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.lacks_customer())
    }

    /// Whether the request was not executed, and a repetition would fail as well.
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

    /// Whether the outcome of the request is unknown, and Stripe may replay this answer for its key for a day.
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

    /// Whether the first request of its kind was not executed, so that Stripe has no trace of it.
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
