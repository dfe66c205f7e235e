//! The error object and its codes (`docs/API.md#errors`).

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A stable, machine-readable name of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: the request breaks a rule; the message names the field and the rule. Nothing was changed.
    InvalidRequest,
    /// 401: the credential is missing, invalid, expired or revoked.
    Unauthorized,
    /// 401: the password is right, and the account needs a code of its second factor as well.
    SecondFactorRequired,
    /// 402: a budget, credits or the monthly allowance do not cover the run.
    PaymentRequired,
    /// 403: the role is too small, or the organization is suspended.
    Forbidden,
    /// 404: no such resource in this organization, or no such route.
    NotFound,
    /// 405: the route exists with other methods, which `Allow` lists.
    MethodNotAllowed,
    /// 409: the request conflicts with the current state.
    Conflict,
    /// 410: the content was never kept or is deleted.
    Gone,
    /// 412: the content is not the one that `If-Match` names.
    PreconditionFailed,
    /// 413: the body is larger than the route takes.
    PayloadTooLarge,
    /// 416: `Range` asks for bytes beyond the end of the content.
    RangeNotSatisfiable,
    /// 429: wait for the time in `Retry-After`.
    RateLimited,
    /// 500: a bug or a broken node; the request id leads to the log.
    Internal,
    /// 503: a dependency is temporarily unavailable; retry with back-off.
    Unavailable,
}

impl ErrorCode {
    /// The HTTP status that goes with the code.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized | Self::SecondFactorRequired => 401,
            Self::PaymentRequired => 402,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict => 409,
            Self::Gone => 410,
            Self::PreconditionFailed => 412,
            Self::PayloadTooLarge => 413,
            Self::RangeNotSatisfiable => 416,
            Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// Makes the refusal with this code and a text for the client.
    pub fn because(self, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            code: self,
            text: text.into(),
            retry_after: None,
            cause: None,
        }
    }
}

/// Refusal or failure of a request: the answer for the client, and the cause for the log. `Display` is for the log: it
/// writes the cause, or the text if there is no cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Machine-readable name, which has the HTTP status.
    pub code: ErrorCode,
    /// Message for the client.
    pub text: Cow<'static, str>,
    /// Time after which the next attempt is accepted; none unless attempts are limited.
    pub retry_after: Option<Duration>,
    /// Cause that the client must not see.
    pub cause: Option<String>,
}

impl Refusal {
    /// 404: no such resource for this caller.
    pub fn not_found() -> Self {
        ErrorCode::NotFound.because("not found")
    }

    /// 429: too many attempts. `wait` is the time after which the next one is accepted.
    pub fn too_many_attempts(wait: Duration) -> Self {
        let seconds = wait.as_secs().max(1);
        Self {
            retry_after: Some(Duration::from_secs(seconds)),
            ..ErrorCode::RateLimited.because(format!("too many attempts, retry in {seconds} s"))
        }
    }

    /// 500: `cause` is for the log only.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self {
            cause: Some(cause.to_string()),
            ..ErrorCode::Internal.because("internal error")
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause.as_deref().unwrap_or(&self.text))
    }
}

impl std::error::Error for Refusal {}

/// The body of every failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Message for people: the field, its mistake and the rule.
    #[schema(example = "timeout_seconds: must be from 1 to 3600")]
    pub error: String,
    /// The machine-readable name.
    pub code: ErrorCode,
}
