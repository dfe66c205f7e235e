//! The one error of the HTTP layer, with a constructor per line of the table in `docs/API.md#errors`.
//!
//! A client reads `{error, code}`. What is wrong inside (the source) never reaches it: `into_response` leaves the
//! source on the response as a [`Fault`], and the gate logs it once, with the request id that the client is told.

use std::{error::Error as StdError, sync::Arc, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use sortie_api::{ErrorBody, ErrorCode};

use super::LacksScope;

/// Answer of a handler: a value, or an error in the form of `docs/API.md#errors`.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// A failure as the client sees it, and what lies behind it.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: ErrorCode,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    /// Seconds for `Retry-After`, where the limit is another one than that of requests.
    retry_after: Option<u64>,
    /// Whether an access token lacks the scope `admin`.
    lacks_scope: bool,
}

/// A message about what the client sent is cut here.
pub(crate) const MESSAGE_CHARS: usize = 500;

/// Cause of a 5xx answer, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Fault(pub(crate) Arc<str>);

impl ApiError {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            message: message.into(),
            source: None,
            retry_after: None,
            lacks_scope: false,
        }
    }

    /// 400: `field: rule`. Rules may quote what the client sent: this is the one place that bounds it.
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, bounded(message.into()))
    }

    /// 401: no credential, or one that is not valid.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unauthorized, message)
    }

    /// 402: a budget, the credits or the allowance do not cover the run.
    pub(crate) fn payment_required(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::PaymentRequired, message)
    }

    /// 403: the role is too small.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }

    /// 403: the access token lacks the scope `admin`; the gate adds the challenge.
    pub(crate) fn insufficient_scope(message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorCode::Forbidden, message);
        error.lacks_scope = true;
        error
    }

    /// 404: no such resource in this organization, or no such route.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// 405: `Allow` says what the route takes.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            ErrorCode::MethodNotAllowed,
            "this route does not take that method; Allow lists those it takes",
        )
    }

    /// 409: the current state forbids it.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Conflict, message)
    }

    /// 410: the content was never kept.
    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Gone, message)
    }

    /// 412: the content is another one than the client wants.
    pub(crate) fn precondition_failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::PreconditionFailed, message)
    }

    /// 413: the body is larger than the route takes.
    pub(crate) fn payload_too_large(limit: usize) -> Self {
        Self::too_large("the body", limit as u64)
    }

    /// 413: what is sent is larger than it may be.
    pub(crate) fn too_large(what: &str, limit: u64) -> Self {
        Self::new(
            ErrorCode::PayloadTooLarge,
            format!("{what} must be at most {limit} bytes"),
        )
    }

    /// 416: there are no such bytes; the caller adds `Content-Range`.
    pub(crate) fn range_not_satisfiable(size: u64) -> Self {
        Self::new(
            ErrorCode::RangeNotSatisfiable,
            format!("Range: the content has {size} bytes"),
        )
    }

    /// 429: the gate adds `Retry-After`.
    pub(crate) fn rate_limited(seconds: u64) -> Self {
        Self::new(
            ErrorCode::RateLimited,
            format!("rate limit reached, retry in {seconds} s"),
        )
    }

    /// 429: too many attempts at something that has a limit of its own. `wait` is the time to the next attempt.
    pub(crate) fn too_many_attempts(wait: Duration) -> Self {
        let seconds = wait.as_secs().max(1);
        let mut error = Self::new(
            ErrorCode::RateLimited,
            format!("too many attempts, retry in {seconds} s"),
        );
        error.retry_after = Some(seconds);
        error
    }

    /// 500: `source` is for the log only.
    pub(crate) fn internal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let mut error = Self::new(ErrorCode::Internal, "internal error");
        error.source = Some(source.into());
        error
    }

    /// 503: a dependency is away for the moment; `message` is for the client.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }

    /// The message and everything behind it, for the log.
    fn chain(&self) -> Arc<str> {
        let mut text = self.message.clone();
        let mut cause: Option<&(dyn StdError + 'static)> = match &self.source {
            Some(source) => Some(&**source),
            None => None,
        };
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text.into()
    }
}

/// At most [`MESSAGE_CHARS`] characters, with `…` where some are missing.
fn bounded(mut message: String) -> String {
    if let Some((cut, _)) = message.char_indices().nth(MESSAGE_CHARS) {
        message.truncate(cut);
        message.push('…');
    }
    message
}

impl From<sortie_engine::Error> for ApiError {
    fn from(error: sortie_engine::Error) -> Self {
        use sortie_engine::Error;
        match error {
            Error::Invalid(rule) => Self::invalid_request(rule),
            Error::PaymentRequired(reason) | Error::InsufficientCredit(reason) => {
                Self::payment_required(reason)
            }
            Error::Suspended => Self::forbidden(error.to_string()),
            Error::NotFound => Self::not_found("not found"),
            Error::Conflict(rule) => Self::conflict(rule),
            Error::Gone(reason) => Self::gone(reason),
            Error::Unretained => Self::gone(error.to_string()),
            Error::Unavailable(reason) => Self::unavailable(reason),
            Error::Internal(_) => Self::internal(error),
        }
    }
}

impl From<sortie_accounts::Error> for ApiError {
    fn from(error: sortie_accounts::Error) -> Self {
        use sortie_accounts::Error;
        match error {
            Error::Invalid(rule) => Self::invalid_request(rule),
            Error::Unauthorized(reason) => Self::unauthorized(reason),
            Error::PaymentRequired(reason) => Self::payment_required(reason),
            Error::SecondFactorRequired => Self::new(ErrorCode::SecondFactorRequired, error.to_string()),
            Error::Forbidden(reason) => Self::forbidden(reason),
            Error::NotFound => Self::not_found("not found"),
            Error::Conflict(rule) => Self::conflict(rule),
            Error::TooLarge(rule) => Self::new(ErrorCode::PayloadTooLarge, rule),
            Error::TooManyAttempts(wait) => Self::too_many_attempts(wait),
            Error::Unavailable(reason) => Self::unavailable(reason),
            Error::Internal(_) => Self::internal(error),
        }
    }
}

impl From<sortie_billing::Error> for ApiError {
    fn from(error: sortie_billing::Error) -> Self {
        use sortie_billing::{Error, StripeError};
        match error {
            Error::Invalid(rule) => Self::invalid_request(rule),
            Error::NotFound(what) => Self::not_found(what),
            Error::Conflict(rule) => Self::conflict(rule),
            Error::Stripe(cause) if cause.is_final() || matches!(cause, StripeError::Unauthorized(_)) => {
                tracing::error!(%cause, "Stripe refused a request");
                Self::conflict(
                    "the payment provider refuses the request: the operator has its reason in the log",
                )
            }
            Error::Stripe(cause) => {
                let mut away = Self::unavailable("the payment provider is unavailable, retry later");
                away.source = Some(cause.into());
                away
            }
            Error::Store(error) => error.into(),
            Error::Internal(_) => Self::internal(error),
        }
    }
}

impl From<sortie_store::Error> for ApiError {
    fn from(error: sortie_store::Error) -> Self {
        sortie_engine::Error::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let fault = self.status.is_server_error().then(|| Fault(self.chain()));
        let body = ErrorBody {
            error: self.message,
            code: self.code,
        };
        let mut response = error_response(self.status, &body);
        if self.lacks_scope {
            response.extensions_mut().insert(LacksScope);
        }
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(fault) = fault {
            response.extensions_mut().insert(fault);
        }
        response
    }
}

/// The response of an error body; also what the gate rebuilds a 500 with, once it adds the request id.
pub(crate) fn error_response(status: StatusCode, body: &ErrorBody) -> Response {
    // A string and a unit enum always serialize: the fallback cannot be met, and would still be a valid answer.
    let bytes = serde_json::to_vec(body)
        .unwrap_or_else(|_| br#"{"error":"internal error","code":"internal"}"#.to_vec());
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn shown(error: ApiError) -> (u16, String, Option<String>) {
        let response = error.into_response();
        let status = response.status().as_u16();
        let fault = response
            .extensions()
            .get::<Fault>()
            .map(|fault| fault.0.to_string());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap(), fault)
    }

    #[tokio::test]
    async fn every_engine_error_has_its_line_of_the_table() {
        use sortie_engine::Error as Engine;
        let table = [
            (
                Engine::Invalid("prompt: required".into()),
                400,
                r#"{"error":"prompt: required","code":"invalid_request"}"#,
            ),
            (
                Engine::PaymentRequired("p".into()),
                402,
                r#"{"error":"p","code":"payment_required"}"#,
            ),
            (
                Engine::InsufficientCredit("c".into()),
                402,
                r#"{"error":"c","code":"payment_required"}"#,
            ),
            (
                Engine::NotFound,
                404,
                r#"{"error":"not found","code":"not_found"}"#,
            ),
            (
                Engine::Conflict("c".into()),
                409,
                r#"{"error":"c","code":"conflict"}"#,
            ),
            (Engine::Gone("g".into()), 410, r#"{"error":"g","code":"gone"}"#),
            (
                Engine::Unretained,
                410,
                r#"{"error":"nothing of the content of a run with zero data retention is stored, and what was held is gone","code":"gone"}"#,
            ),
            (
                Engine::Unavailable("u".into()),
                503,
                r#"{"error":"u","code":"unavailable"}"#,
            ),
            (
                Engine::Internal("SELECT x".into()),
                500,
                r#"{"error":"internal error","code":"internal"}"#,
            ),
        ];
        for (error, status, body) in table {
            let (seen, text, fault) = shown(error.into()).await;
            assert_eq!((seen, text.as_str()), (status, body));
            assert_eq!(
                fault.is_some(),
                status >= 500,
                "only what is ours to mend is logged"
            );
        }
    }

    #[tokio::test]
    async fn what_stripe_refuses_is_no_503() {
        use sortie_billing::{Refusal, StripeError};
        let refusal = Refusal {
            status: 400,
            ..Refusal::default()
        };
        for (cause, status) in [
            (StripeError::Refused(Box::new(refusal)), 409),
            (StripeError::Unauthorized(401), 409),
            (StripeError::Unreachable("no route".to_owned()), 503),
            (StripeError::Failed(500), 503),
            (StripeError::RateLimited, 503),
        ] {
            let (seen, _, _) = shown(sortie_billing::Error::Stripe(cause).into()).await;
            assert_eq!(seen, status);
        }
    }

    #[tokio::test]
    async fn what_is_behind_a_500_reaches_the_log_and_not_the_client() {
        let (_, text, fault) = shown(sortie_store::Error::Database("disk I/O error".into()).into()).await;
        assert!(!text.contains("disk"));
        assert!(fault.unwrap().contains("disk I/O error"));
    }

    #[tokio::test]
    async fn a_refusal_never_sends_a_long_text_back() {
        let long = format!("model: no such model: {}", "€".repeat(7 << 20));
        let (status, text, _) = shown(sortie_engine::Error::Invalid(long).into()).await;
        assert_eq!(status, 400);
        let body: ErrorBody = serde_json::from_str(&text).unwrap();
        assert!(body.error.starts_with("model: no such model: €"));
        assert!(body.error.ends_with("€…"));
        assert_eq!(body.error.chars().count(), MESSAGE_CHARS + 1);

        let whole = "x".repeat(MESSAGE_CHARS);
        let (_, text, _) = shown(ApiError::invalid_request(whole.as_str())).await;
        assert!(text.contains(&format!("\"{whole}\"")));
    }
}
