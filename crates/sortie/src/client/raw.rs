//! Calls of any operation, with the answers as the engine sends them.

use bytes::Bytes;
use reqwest::{Method, header};
use sortie_net::read_body;

use super::{ANSWER_BYTES, Client, REFUSAL_BYTES, RefusalHead, content::Content};
use crate::failure::{Failure, Result};

/// Call of an operation with a ready body.
#[derive(Debug)]
pub(crate) struct RawCall {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// JSON.
    pub(crate) body: Option<Vec<u8>>,
}

/// Answer to a call.
pub(crate) enum RawAnswer {
    /// A JSON value.
    Json(Bytes),
    /// Other content, such as a file or a stream of events.
    Other(Content),
    /// The engine refuses the call.
    Refused {
        /// Explanation of the engine, usually JSON.
        body: Bytes,
        failure: Failure,
    },
}

impl Client {
    /// Makes a call. A call that the rate limit refuses is not repeated.
    pub(crate) async fn send_raw(&self, call: RawCall) -> Result<RawAnswer> {
        let mut request = self.request(call.method, &call.path)?;
        if let Some(body) = call.body {
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        if !response.status().is_success() {
            let head = RefusalHead::of(&response);
            let body = read_body(response, REFUSAL_BYTES).await.unwrap_or_default();
            let failure = self.explain(&head, &body);
            return Ok(RawAnswer::Refused { body, failure });
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return Ok(RawAnswer::Other(Content(response)));
        }
        let body = read_body(response, ANSWER_BYTES)
            .await
            .map_err(|error| Failure::unavailable(format!("the answer broke off: {error}")))?;
        Ok(RawAnswer::Json(body))
    }
}
