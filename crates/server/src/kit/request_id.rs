//! Request ids: a valid incoming `X-Request-Id` is kept, any other is replaced by one of ours.
//!
//! Our ids consist of a random number of the process and a counter: unique without a system call per request.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the id both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const MAX_LEN: usize = 128;

/// The id of one request: 1 to 128 visible ASCII characters.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the id as a header value.
    pub(crate) fn into_header(self) -> HeaderValue {
        self.0
    }

    /// Returns the id as text, for logs and for the body of a 500.
    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// Makes request ids.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    /// Creates ids that start with `process`, a random number.
    pub(crate) const fn new(process: u64) -> Self {
        Self {
            process,
            next: AtomicU64::new(0),
        }
    }

    /// Returns the id that the client sent if it is valid, otherwise a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> RequestId {
        headers
            .get(X_REQUEST_ID)
            .filter(|value| is_valid(value.as_bytes()))
            .map_or_else(|| self.next(), |value| RequestId(value.clone()))
    }

    fn next(&self) -> RequestId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let text = format!("{:016x}{number:08x}", self.process);
        // Hexadecimal digits are a valid header value.
        RequestId(HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("0")))
    }
}

fn is_valid(value: &[u8]) -> bool {
    (1..=MAX_LEN).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(sent: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(sent).unwrap());
        RequestIds::new(7).of(&headers).as_str().to_owned()
    }

    #[test]
    fn a_valid_id_is_kept() {
        for sent in ["a", "req-1/2:3", &"x".repeat(128)] {
            assert_eq!(answered(sent.as_bytes()), sent);
        }
    }

    #[test]
    fn an_id_that_is_empty_too_long_or_not_visible_ascii_is_replaced() {
        for sent in [
            &b""[..],
            "x".repeat(129).as_bytes(),
            b"a b",
            "\u{e9}".as_bytes(),
            b"a\tb",
        ] {
            assert_eq!(answered(sent), "000000000000000700000000", "{sent:?}");
        }
    }

    #[test]
    fn ids_are_unique() {
        let ids = RequestIds::new(u64::MAX);
        let made: std::collections::BTreeSet<_> = (0..1_000)
            .map(|_| ids.of(&HeaderMap::new()).as_str().to_owned())
            .collect();
        assert_eq!(made.len(), 1_000);
    }
}
