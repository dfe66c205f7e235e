//! Errors in Stripe's form.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// Maximum amount, in cents.
pub(super) const LARGEST_AMOUNT: i64 = 99_999_999;
/// Minimum payment in dollars, in cents.
pub(super) const LEAST_AMOUNT: i64 = 50;

/// Error that a request is answered with.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    error: Map<String, Value>,
    /// Whether the call was begun. Answers of such calls are kept under their idempotency key.
    pub(super) was_begun: bool,
}

impl Failure {
    fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        let mut error = Map::new();
        error.insert("type".to_owned(), json!(kind));
        error.insert("message".to_owned(), json!(message.into()));
        Self {
            status,
            error,
            was_begun: false,
        }
    }

    /// The request is wrong.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// A value of the request is wrong.
    pub(super) fn parameter(code: &str, param: &str, message: impl Into<String>) -> Self {
        Self::invalid(message).with("code", code).with("param", param)
    }

    pub(super) fn missing(param: &str) -> Self {
        Self::parameter(
            "parameter_missing",
            param,
            format!("Missing required param: {param}."),
        )
    }

    pub(super) fn unknown(names: &[String]) -> Self {
        let plural = if names.len() == 1 { "" } else { "s" };
        let all = names.join(", ");
        let first = names.first().map(String::as_str).unwrap_or_default();
        let message = format!("Received unknown parameter{plural}: {all}");
        Self::parameter("parameter_unknown", first, message)
    }

    /// An object that a parameter names does not exist.
    pub(super) fn no_such(kind: &str, id: &str, param: &str) -> Self {
        Self::parameter("resource_missing", param, format!("No such {kind}: '{id}'"))
    }

    /// The object of the path does not exist.
    pub(super) fn not_found(kind: &str, id: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::no_such(kind, id, "id")
        }
    }

    pub(super) fn unrecognized(method: &http::Method, path: &str) -> Self {
        let message = format!("Unrecognized request URL ({method}: {path}).");
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::invalid(message)
        }
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_request_error", message)
    }

    pub(super) fn too_many() -> Self {
        let message = "Request rate limit exceeded.";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "invalid_request_error", message).with("code", "rate_limit")
    }

    /// Stripe itself failed.
    pub(super) fn internal() -> Self {
        let message = "An unknown error occurred.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", message)
    }

    /// The key was used with other parameters, or at another endpoint.
    pub(super) fn other_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "idempotency_error", message)
    }

    /// Another request with this key is in progress.
    pub(super) fn key_in_use(key: &str) -> Self {
        let message = format!(
            "There is currently another in-progress request using this Idempotent Key (that probably means you submitted \
             twice, and the other request is still going through): {key}. Please try again later."
        );
        Self::new(StatusCode::CONFLICT, "idempotency_error", message).with("code", "idempotency_key_in_use")
    }

    /// The bank declined an attempted payment.
    pub(super) fn card(code: &str, message: &str) -> Self {
        Self {
            was_begun: true,
            ..Self::new(StatusCode::PAYMENT_REQUIRED, "card_error", message).with("code", code)
        }
    }

    /// Marks the call as begun: the state refuses it, not a single parameter.
    pub(super) fn begun(mut self) -> Self {
        self.was_begun = true;
        self
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.error.insert(name.to_owned(), value.into());
        self
    }

    /// Error in the form of an answer, with the address of its explanation.
    pub(super) fn body(&self, request: &str) -> Value {
        let mut error = self.error.clone();
        if let Some(code) = error.get("code").and_then(Value::as_str) {
            let page = code.replace('_', "-");
            let url = format!("https://docs.stripe.com/error-codes/{page}");
            error.insert("doc_url".to_owned(), json!(url));
        }
        let log = format!("https://dashboard.stripe.com/test/logs/{request}");
        error.insert("request_log_url".to_owned(), json!(log));
        json!({ "error": error })
    }

    /// Message for a customer.
    pub(super) fn message(&self) -> &str {
        self.error
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}
