//! The response of an HTTP API, with a size limit, as text for the model.

use std::fmt::Write as _;

use bytes::BytesMut;
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use sortie_net::{DecodedBody, unknown_coding};

use crate::text;

/// Maximum number of bytes to read from a body.
const BODY_BYTES: usize = 1 << 20;
/// Maximum length of a header for the model, in bytes.
const HEADER_BYTES: usize = 1024;
/// Headers that are useful to the agent.
const TOLD_HEADERS: [&str; 12] = [
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "allow",
    "www-authenticate",
    "warning",
    "deprecation",
    "sunset",
    "content-range",
];

/// The part of a response that was read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: BytesMut,
    is_whole: bool,
}

impl Answer {
    /// Reads a response. The rest above the limit is not read.
    pub(super) async fn read(response: Response) -> Result<Self, sortie_net::Error> {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut response = DecodedBody::new(response);
        let mut body = BytesMut::new();
        let mut is_whole = true;
        while let Some(chunk) = response.chunk().await? {
            let room = BODY_BYTES - body.len();
            body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
            if chunk.len() > room {
                is_whole = false;
                break;
            }
        }
        Ok(Self {
            status,
            headers,
            body,
            is_whole,
        })
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the number of bytes of the body that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    /// Returns the status, the useful headers, `note` and the body.
    pub(super) fn text(&self, note: Option<&str>) -> String {
        let mut out = format!("HTTP {}\n", self.status);
        for (name, value) in &self.headers {
            let name = name.as_str();
            let is_told = TOLD_HEADERS.contains(&name)
                || name.starts_with("ratelimit")
                || name.starts_with("x-ratelimit")
                || matches!(name, "x-request-id" | "x-total-count" | "x-next-page");
            if is_told {
                let value = String::from_utf8_lossy(value.as_bytes());
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{name}: {}", text::line(&value, HEADER_BYTES));
            }
        }
        if let Some(note) = note {
            let _ = writeln!(out, "[{note}]");
        }
        if self.body.is_empty() {
            return out;
        }
        out.push('\n');
        if let Some(coding) = unknown_coding(&self.headers) {
            let _ = write!(
                out,
                "[compressed ({}), {} bytes: not shown]",
                text::line(&coding, 100),
                self.body.len()
            );
        } else if let Some(body) = self.as_text() {
            out.push_str(&body);
        } else {
            let kind = self.content_type();
            let kind = if kind.is_empty() {
                "unknown type"
            } else {
                kind.as_str()
            };
            let _ = write!(out, "[{kind}, {} bytes: binary, not shown]", self.body.len());
        }
        if !self.is_whole {
            let _ = write!(
                out,
                "\n[the answer is larger than {BODY_BYTES} bytes: the rest was not read]"
            );
        }
        out
    }

    /// Returns the body if it is text according to its type or, without a type, its content.
    fn as_text(&self) -> Option<String> {
        let kind = self.content_type();
        let is_text_type = kind.starts_with("text/")
            || [
                "json",
                "xml",
                "javascript",
                "yaml",
                "csv",
                "x-www-form-urlencoded",
                "graphql",
            ]
            .iter()
            .any(|word| kind.contains(word));
        let looks_like_text =
            !self.body.contains(&0) && (std::str::from_utf8(&self.body).is_ok() || !self.is_whole);
        let is_text =
            is_text_type || ((kind.is_empty() || kind == "application/octet-stream") && looks_like_text);
        is_text.then(|| String::from_utf8_lossy(&self.body).replace('\0', "\u{fffd}"))
    }

    fn content_type(&self) -> String {
        let value = self
            .headers
            .get(CONTENT_TYPE)
            .map_or("", |value| value.to_str().unwrap_or(""));
        let kind = value.split(';').next().unwrap_or_default();
        text::line(kind, 100).to_ascii_lowercase()
    }
}
