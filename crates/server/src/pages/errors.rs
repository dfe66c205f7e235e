//! Error pages. Each has a link, so that a person can continue.

use std::borrow::Cow;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER},
};
use maud::html;
use sortie_api::{ErrorCode, Refusal};

use super::forms::{HOME, message};
use crate::kit::Fault;

/// Result of a page.
pub(super) type PageResult<T = Response> = Result<T, PageError>;

/// Page with an error, and its cause for the log.
#[derive(Debug)]
pub(super) struct PageError {
    status: StatusCode,
    title: &'static str,
    text: String,
    /// Address and label of the link.
    link: (Cow<'static, str>, &'static str),
    retry_after: Option<u64>,
    fault: Option<Box<str>>,
}

impl PageError {
    /// Creates an error with a text for the person.
    pub(super) fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            title,
            text: text.into(),
            link: (Cow::Borrowed(HOME), "Go to the start page"),
            retry_after: None,
            fault: None,
        }
    }

    /// Replaces the link to the start page.
    pub(super) fn with_link(self, address: impl Into<Cow<'static, str>>, label: &'static str) -> Self {
        Self {
            link: (address.into(), label),
            ..self
        }
    }

    /// Error for a form from another origin or browser, or one that was open for too long.
    pub(super) fn stale() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This form has expired",
            "The form has expired, or another page sent it. Go back, reload the page and try again.",
        )
    }
}

impl<E: Into<Refusal>> From<E> for PageError {
    fn from(error: E) -> Self {
        let refusal = error.into();
        let (status, title) = match refusal.code {
            ErrorCode::InvalidRequest => (StatusCode::BAD_REQUEST, "This does not work"),
            ErrorCode::Unauthorized | ErrorCode::SecondFactorRequired | ErrorCode::Forbidden => {
                (StatusCode::FORBIDDEN, "This is not allowed")
            }
            ErrorCode::PaymentRequired => (StatusCode::PAYMENT_REQUIRED, "This is not possible"),
            ErrorCode::NotFound => (StatusCode::NOT_FOUND, "Not found"),
            ErrorCode::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "This is too large"),
            ErrorCode::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "Too many attempts"),
            ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Not available"),
            ErrorCode::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Internal error"),
            ErrorCode::Conflict
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Gone
            | ErrorCode::PreconditionFailed
            | ErrorCode::RangeNotSatisfiable => (StatusCode::CONFLICT, "This is not possible"),
        };
        let fault = status.is_server_error().then(|| refusal.to_string().into());
        Self {
            retry_after: refusal.retry_after.map(|wait| wait.as_secs()),
            fault,
            ..Self::new(status, title, sentence(&refusal.text))
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let (address, label) = self.link;
        let body = html! {
            p.sub { (self.text) }
            a.btn href=(address) { (label) }
        };
        let mut response = message(self.status, self.title, &body);
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(fault) = self.fault {
            response.extensions_mut().insert(Fault(fault.into()));
        }
        response
    }
}

/// Converts the text of an error into a sentence. `FIELD: RULE` becomes a sentence about the field.
pub(super) fn sentence(error: &str) -> String {
    let is_name = |text: &str| text.bytes().all(|at| at.is_ascii_lowercase() || at == b'_');
    let text = match error.split_once(": ") {
        Some((field, rule)) if is_name(field) => format!("{} {rule}", field.replace('_', " ")),
        Some(_) | None => error.to_owned(),
    };
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + rest.as_str()
}

/// Returns true for the request of a browser that shows the answer to a person.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let names_html = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains("text/html"));
    !headers.contains_key(AUTHORIZATION) && headers.get_all(ACCEPT).iter().any(names_html)
}

/// Returns true for an answer that is a page.
pub(crate) fn is_html(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/html"))
}

/// Page for an unknown path. `start` is the address of the start page.
pub(crate) fn not_found(start: &str) -> Response {
    let text = "This address has no page. It may be misspelled, or the page was moved.";
    PageError::new(StatusCode::NOT_FOUND, "Page not found", text)
        .with_link(start.to_owned(), "Go to the start page")
        .into_response()
}

/// Page for a request above the rate limit, which is accepted again in `seconds`.
pub(crate) fn rate_limited(seconds: u64) -> Response {
    let text = format!("You can try again in {seconds} seconds.");
    PageError::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests", text).into_response()
}

/// Page for an internal error of the request with this id.
pub(crate) fn internal_error(request_id: &str) -> Response {
    let text = format!("Try again. If this happens again, send the operator this request id: {request_id}");
    PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal error", text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_names_html_in_accept_and_sends_no_key() {
        let asks = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            let browser = wants_page(&headers);
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sts_x"));
            assert!(!wants_page(&headers), "{accept}");
            browser
        };
        assert!(asks("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"));
        assert!(!asks("*/*") && !asks("application/json") && !wants_page(&HeaderMap::new()));
    }

    #[test]
    fn a_refusal_becomes_a_sentence() {
        for (refusal, text) in [
            (
                "new_password: must have 12 to 72 bytes",
                "New password must have 12 to 72 bytes",
            ),
            ("the address: is taken", "The address: is taken"),
            ("", ""),
        ] {
            assert_eq!(sentence(refusal), text);
        }
    }
}
