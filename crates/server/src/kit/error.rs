//! Refusals as responses, in the form of `docs/API.md#errors`.
//!
//! A client gets `{error, code}`. The cause is never sent: `into_response` attaches it to the response as a [`Fault`], and the
//! gate logs it once, with the request id that the client gets.

use std::sync::Arc;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use sortie_api::{ErrorBody, ErrorCode, Refusal};

use super::LacksScope;

/// Answer of a handler: a value or a refusal.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// Response of a refusal.
#[derive(Debug)]
pub(crate) struct ApiError {
    refusal: Refusal,
    /// Whether an access token lacks the scope `admin`.
    lacks_scope: bool,
}

impl<E: Into<Refusal>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self {
            refusal: error.into(),
            lacks_scope: false,
        }
    }
}

/// Maximum length of a message that may quote input of the client.
pub(crate) const MESSAGE_CHARS: usize = 500;

/// Cause of a 5xx answer, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Fault(pub(crate) Arc<str>);

impl ApiError {
    /// 403: the access token lacks the scope `admin`; the gate adds the challenge.
    pub(crate) fn insufficient_scope(text: &'static str) -> Self {
        Self {
            refusal: ErrorCode::Forbidden.because(text),
            lacks_scope: true,
        }
    }
}

/// 405: `Allow` has the methods of the route.
pub(crate) fn method_not_allowed() -> Refusal {
    ErrorCode::MethodNotAllowed.because("this route does not take that method; Allow lists those it takes")
}

/// 413: the body, a file or a field is larger than `limit` bytes.
pub(crate) fn too_large(what: &str, limit: impl std::fmt::Display) -> Refusal {
    ErrorCode::PayloadTooLarge.because(format!("{what} must be at most {limit} bytes"))
}

/// 416: there are no such bytes; the caller adds `Content-Range`.
pub(crate) fn range_not_satisfiable(size: u64) -> Refusal {
    ErrorCode::RangeNotSatisfiable.because(format!("Range: the content has {size} bytes"))
}

/// 429: the gate adds `Retry-After`.
pub(crate) fn rate_limited(seconds: u64) -> ApiError {
    ErrorCode::RateLimited
        .because(format!("rate limit reached, retry in {seconds} s"))
        .into()
}

/// Truncates a message to [`MESSAGE_CHARS`] characters, and marks the cut with `…`.
fn bounded(mut message: String) -> String {
    if let Some((cut, _)) = message.char_indices().nth(MESSAGE_CHARS) {
        message.truncate(cut);
        message.push('…');
    }
    message
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Refusal {
            code,
            text,
            retry_after,
            cause,
        } = self.refusal;
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let fault = status.is_server_error().then(|| match cause {
            Some(cause) => Fault(format!("{text}: {cause}").into()),
            None => Fault((*text).into()),
        });
        let text = text.into_owned();
        // Rules may quote input of the client.
        let error = if code == ErrorCode::InvalidRequest {
            bounded(text)
        } else {
            text
        };
        let mut response = error_response(status, &ErrorBody { error, code });
        if self.lacks_scope {
            response.extensions_mut().insert(LacksScope);
        }
        if let Some(wait) = retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        if let Some(fault) = fault {
            response.extensions_mut().insert(fault);
        }
        response
    }
}

/// Creates the response of an error body. The gate also uses it to rebuild a 500 with the request id.
pub(crate) fn error_response(status: StatusCode, body: &ErrorBody) -> Response {
    // A string and a unit enum always serialize. The fallback is unreachable, and would still be a valid answer.
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
    async fn every_refusal_has_its_line_of_the_table() {
        use sortie_api::Micros;
        use sortie_store::{Error as Store, money::InsufficientCredit};
        let table = [
            (
                ErrorCode::InvalidRequest.because("prompt: required"),
                400,
                r#"{"error":"prompt: required","code":"invalid_request"}"#,
            ),
            (
                ErrorCode::PaymentRequired.because("p"),
                402,
                r#"{"error":"p","code":"payment_required"}"#,
            ),
            (
                Store::InsufficientCredit(InsufficientCredit {
                    max_cost: Micros::new(2).unwrap(),
                    available: Micros::new(1).unwrap(),
                })
                .into(),
                402,
                r#"{"error":"credits: max_cost_micros is 2, and 1 are available","code":"payment_required"}"#,
            ),
            (
                Store::Suspended.into(),
                403,
                r#"{"error":"the organization is suspended","code":"forbidden"}"#,
            ),
            (
                Store::NotFound.into(),
                404,
                r#"{"error":"not found","code":"not_found"}"#,
            ),
            (
                Store::Conflict("c").into(),
                409,
                r#"{"error":"c","code":"conflict"}"#,
            ),
            (
                ErrorCode::Gone.because("g"),
                410,
                r#"{"error":"g","code":"gone"}"#,
            ),
            (
                Store::Unretained.into(),
                410,
                r#"{"error":"nothing of the content of a run with zero data retention is stored, and what was held is gone","code":"gone"}"#,
            ),
            (
                ErrorCode::Unavailable.because("u"),
                503,
                r#"{"error":"u","code":"unavailable"}"#,
            ),
            (
                Store::Unavailable("no route".into()).into(),
                503,
                r#"{"error":"the database is unavailable, retry later","code":"unavailable"}"#,
            ),
            (
                Refusal::internal("SELECT x"),
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
        use sortie_billing::{StripeError, StripeRefusal};
        let refusal = StripeRefusal {
            status: 400,
            ..StripeRefusal::default()
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
        let (status, text, _) = shown(ErrorCode::InvalidRequest.because(long).into()).await;
        assert_eq!(status, 400);
        let body: ErrorBody = serde_json::from_str(&text).unwrap();
        assert!(body.error.starts_with("model: no such model: €"));
        assert!(body.error.ends_with("€…"));
        assert_eq!(body.error.chars().count(), MESSAGE_CHARS + 1);

        let whole = "x".repeat(MESSAGE_CHARS);
        let (_, text, _) = shown(ErrorCode::InvalidRequest.because(whole.clone()).into()).await;
        assert!(text.contains(&format!("\"{whole}\"")));
    }
}
