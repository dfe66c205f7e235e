//! Failures of requests to Stripe. Their texts contain no secrets, and no messages of Stripe.

use serde::Deserialize;

use super::objects::PaymentIntent;

/// Maximum length of a stored code or parameter name, in bytes.
const LONGEST: usize = 100;

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripeError {
    /// No response arrived. Stripe may have executed the request: with a key it can be repeated.
    #[error("Stripe cannot be reached: {0}")]
    Unreachable(String),
    /// Internal failure of Stripe. The request may have been executed, and Stripe may replay this answer for its key.
    #[error("Stripe failed with status {0}")]
    Failed(u16),
    /// Stripe replays the failure that it saved for the key, and ignores all further requests with this key.
    #[error("Stripe repeats its failure with status {0}")]
    FailedBefore(u16),
    /// Too many requests. Nothing was done.
    #[error("Stripe limits the rate of requests")]
    RateLimited,
    /// Stripe is still processing a request with this key.
    #[error("Stripe is still working on the same request")]
    InProgress,
    /// The key was used for another request. Nothing was done.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Stripe does not accept the secret key, or not for this request.
    #[error("Stripe does not accept the secret key: status {0}")]
    Unauthorized(u16),
    /// Stripe refuses the request, or the bank refuses the payment.
    #[error("Stripe refuses the request: {0}")]
    Refused(Box<StripeRefusal>),
    /// The answer does not have the form of Stripe's answers.
    #[error("the answer of Stripe cannot be read: {0}")]
    Unreadable(&'static str),
}

/// Refusal of a request, in Stripe's codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripeRefusal {
    /// Status of the answer: 402 if the bank declines, otherwise 400 or 404.
    pub status: u16,
    /// Code, such as `card_declined` or `resource_missing`.
    pub code: Option<String>,
    /// Code of the bank, such as `insufficient_funds`.
    pub decline_code: Option<String>,
    /// Parameter that is wrong.
    pub param: Option<String>,
    /// Payment that failed.
    pub intent: Option<PaymentIntent>,
}

impl StripeRefusal {
    /// Whether Stripe does not have the customer that the request names.
    pub(crate) fn lacks_customer(&self) -> bool {
        self.code.as_deref() == Some("resource_missing") && self.param.as_deref() == Some("customer")
    }
}

impl std::fmt::Display for StripeRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}", self.status)?;
        let named = [&self.code, &self.decline_code, &self.param];
        for name in named.into_iter().flatten() {
            write!(f, ", {name}")?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
    decline_code: Option<String>,
    param: Option<String>,
    payment_intent: Option<PaymentIntent>,
}

impl StripeError {
    /// Converts the error to that of an answer that Stripe replays for the key.
    pub(super) fn repeated(self) -> Self {
        if let Self::Failed(status) = self {
            return Self::FailedBefore(status);
        }
        self
    }

    /// Parses a response with a status other than 200.
    pub(super) fn of_answer(status: u16, body: &[u8]) -> Self {
        if status >= 500 {
            return Self::Failed(status);
        }
        let body = serde_json::from_slice::<ErrorBody>(body)
            .ok()
            .map(|body| body.error);
        let is_reuse = body
            .as_ref()
            .is_some_and(|error| error.kind.as_deref() == Some("idempotency_error"));
        match status {
            401 | 403 => Self::Unauthorized(status),
            409 => Self::InProgress,
            429 => Self::RateLimited,
            400 if is_reuse => Self::KeyReused,
            400..=499 => body.map_or(Self::Unreadable("an error without a reason"), |error| {
                Self::Refused(Box::new(StripeRefusal {
                    status,
                    code: error.code.filter(|code| is_name(code)),
                    decline_code: error.decline_code.filter(|code| is_name(code)),
                    param: error.param.filter(|param| is_name(param)),
                    intent: error.payment_intent,
                }))
            }),
            _ => Self::Unreadable("an unexpected status"),
        }
    }
}

/// Whether a text is a code or a parameter name, which may appear in the log.
fn is_name(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'[' | b']' | b'.' | b'-');
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain)
}
