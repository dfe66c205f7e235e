//! Failures of a pooled connection that the other side had already closed.

use std::{error::Error, io};

/// Whether a request failed because its connection was closed before the first byte of the response.
pub(crate) fn is_stale(error: &reqwest::Error) -> bool {
    if error.is_connect() || error.is_timeout() || error.is_body() {
        return false;
    }
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        let http = inner.downcast_ref::<hyper::Error>();
        let io = inner.downcast_ref::<io::Error>();
        let is_closed = io.is_some_and(|io| {
            matches!(
                io.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
            )
        });
        if is_closed || http.is_some_and(|http| http.is_incomplete_message() || http.is_canceled()) {
            return true;
        }
        cause = inner.source();
    }
    false
}
