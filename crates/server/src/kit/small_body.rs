//! Small bodies: forms, and JSON with rules that differ from those of the API.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use sortie_api::{ErrorCode, Refusal};

use super::too_large;

/// Timeout for a small body.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Reads a body of at most `limit` bytes.
pub(crate) async fn small_body(body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let read = tokio::time::timeout(TIMEOUT, Limited::new(body, limit).collect())
        .await
        .map_err(|_| ErrorCode::InvalidRequest.because("the body did not arrive within 20 s"))?;
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large("the body", limit)),
        Err(_) => Err(ErrorCode::InvalidRequest.because("the body could not be read")),
    }
}

/// Whether the content type is a form.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    is_of_type(headers, "application/x-www-form-urlencoded")
}

/// Whether the content type is this media type, with any parameters.
pub(crate) fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(media_type))
}
