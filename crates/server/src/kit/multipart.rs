//! Multipart forms, read part by part: bounded in time by a least pace, and in memory whatever the client sends.
//!
//! What stands before, between and in the heads of parts is bounded here; what is in a part is handed on as it comes.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{
    HeaderMap,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use percent_encoding::percent_decode_str;
use tokio::time::{Duration, Instant};

use super::{ApiError, ApiResult};

/// What may come between two parts, heads included, before it is refused. A frame of the connection is taken whole.
const BETWEEN: u64 = 64 * 1024;
/// How long a client may take before its pace counts.
const START: Duration = Duration::from_mins(1);
/// The least pace, in bytes a second: whoever is slower holds a place that others wait for.
const PACE: u64 = 32 * 1024;
/// How long what is not wanted is read on.
const DRAIN: Duration = Duration::from_secs(1);

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A form that is being sent.
pub(crate) struct Form {
    parts: multer::Multipart<'static>,
    counts: Arc<Counts>,
    started: Instant,
}

/// What has come, in bytes.
#[derive(Debug, Default)]
struct Counts {
    all: AtomicU64,
    /// Since a part's content was last handed on.
    since: AtomicU64,
    /// Whether content is awaited, and not a part's head.
    in_part: AtomicBool,
}

/// One part of a form.
pub(crate) struct Part<'f> {
    field: multer::Field<'static>,
    counts: &'f Counts,
    started: Instant,
}

/// More came between two parts than may.
#[derive(Debug, thiserror::Error)]
#[error("more than {BETWEEN} bytes between two parts")]
struct TooMuchBetween;

impl Form {
    /// The form of a request with these headers and this body.
    pub(crate) fn new(headers: &HeaderMap, body: Body) -> ApiResult<Self> {
        let boundary = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| multer::parse_boundary(value).ok())
            // RFC 2046: 1 to 70 characters.
            .filter(|boundary| (1..=70).contains(&boundary.len()))
            .ok_or_else(|| {
                ApiError::invalid_request("Content-Type: must be multipart/form-data with a boundary")
            })?;
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let body = body.into_data_stream().map(move |frame| {
            let frame = frame.map_err(Cause::from)?;
            let before = counted.since.load(Ordering::Relaxed);
            if before > BETWEEN && !counted.in_part.load(Ordering::Relaxed) {
                return Err(Cause::from(TooMuchBetween));
            }
            let length = frame.len() as u64;
            counted
                .since
                .store(before.saturating_add(length), Ordering::Relaxed);
            counted.all.fetch_add(length, Ordering::Relaxed);
            Ok(frame)
        });
        Ok(Self {
            parts: multer::Multipart::new(body, boundary),
            counts,
            started: Instant::now(),
        })
    }

    /// The next part, once its head is there. The one before must be read to its end.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<Part<'_>>> {
        self.counts.in_part.store(false, Ordering::Relaxed);
        self.counts.since.store(0, Ordering::Relaxed);
        let next = in_time(self.started, &self.counts, self.parts.next_field()).await?;
        Ok(next.map_err(broken)?.map(|field| Part {
            field,
            counts: &self.counts,
            started: self.started,
        }))
    }

    /// Reads on for a moment and drops what comes: many clients see only a broken connection, not our answer, unless
    /// they may send to the end.
    pub(crate) async fn drain(mut self) {
        self.counts.in_part.store(true, Ordering::Relaxed);
        let drain = async { while let Ok(Some(_)) = self.parts.next_field().await {} };
        // However it ends, the answer is the same.
        let _drained = tokio::time::timeout(DRAIN, drain).await;
    }
}

impl Part<'_> {
    /// The field's name.
    pub(crate) fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// The name of the file that it was, without the folders that some clients send along.
    pub(crate) fn file_name(&self) -> Option<String> {
        let exact = self
            .field
            .headers()
            .get(CONTENT_DISPOSITION)
            .and_then(|value| value.to_str().ok())
            .and_then(extended_name);
        let name = exact.or_else(|| self.field.file_name().map(str::to_owned))?;
        let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
        (!last.is_empty()).then(|| last.to_owned())
    }

    /// Its media type, where it says more than that there are bytes.
    pub(crate) fn media_type(&self) -> Option<String> {
        let text = self.field.content_type()?.to_string();
        let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        (plain && text.len() <= MEDIA_TYPE && text != "application/octet-stream").then_some(text)
    }

    /// The next bytes of it.
    pub(crate) async fn chunk(&mut self) -> ApiResult<Option<Bytes>> {
        self.counts.in_part.store(true, Ordering::Relaxed);
        let chunk = in_time(self.started, self.counts, self.field.chunk()).await?;
        chunk.map_err(broken)
    }

    /// All of it as text.
    pub(crate) async fn text(mut self, limit: usize) -> ApiResult<String> {
        let name = self.name().to_owned();
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if bytes.len().saturating_add(chunk.len()) > limit {
                return Err(ApiError::invalid_request(format!(
                    "{name}: must be at most {limit} bytes"
                )));
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| ApiError::invalid_request(format!("{name}: must be UTF-8")))
    }
}

/// The longest media type that is kept.
const MEDIA_TYPE: usize = 200;

/// `filename*=UTF-8''…` of a `Content-Disposition`. Forms are not to use it (RFC 7578); some clients do.
fn extended_name(disposition: &str) -> Option<String> {
    disposition.split(';').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        if !name.trim().eq_ignore_ascii_case("filename*") {
            return None;
        }
        let mut value = value.trim().splitn(3, '\'');
        let (charset, _language, text) = (value.next()?, value.next()?, value.next()?);
        if !charset.eq_ignore_ascii_case("utf-8") {
            return None;
        }
        Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
    })
}

async fn in_time<T>(started: Instant, counts: &Counts, work: impl Future<Output = T>) -> ApiResult<T> {
    tokio::pin!(work);
    loop {
        let all = counts.all.load(Ordering::Relaxed);
        let until = started + START + Duration::from_millis(all.saturating_mul(1_000) / PACE);
        match tokio::time::timeout_at(until, &mut work).await {
            Ok(done) => return Ok(done),
            // What came while it was waited for has moved the end.
            Err(_) if counts.all.load(Ordering::Relaxed) > all => {}
            Err(_) => {
                return Err(ApiError::invalid_request(format!(
                    "the body did not arrive at {PACE} bytes a second"
                )));
            }
        }
    }
}

/// The library's words name what is wrong with the form, never a place in this program.
fn broken(error: multer::Error) -> ApiError {
    let multer::Error::StreamReadFailed(cause) = error else {
        return ApiError::invalid_request(format!("the multipart body is malformed: {error}"));
    };
    match cause.downcast::<TooMuchBetween>() {
        Ok(rule) => ApiError::invalid_request(format!("the multipart body has {rule}")),
        Err(_) => ApiError::invalid_request("the body could not be read"),
    }
}
