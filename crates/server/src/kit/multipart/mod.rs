//! Parser for multipart forms, part by part. A minimum transfer rate bounds the time, and memory is bounded for any input.
//!
//! The bytes before and between parts and the part headers are bounded here; the content of a part is passed on as it arrives.

mod file_name;

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
use parking_lot::Mutex;
use sortie_api::{ErrorCode, Refusal};
use tokio::time::{Duration, Instant};

use self::file_name::file_name;
use super::check_encoding;

/// Maximum number of bytes between two parts, headers included. A frame of the connection is read whole.
const BETWEEN: u64 = 64 * 1024;
/// Time before the average rate of a client is checked.
const START: Duration = Duration::from_mins(1);
/// Minimum average rate, in bytes per second. A slower client would occupy a slot that others wait for.
const PACE: u64 = 32 * 1024;
/// Time in which [`WINDOW_BYTES`] have to arrive, from the start. Only the time that the server waits for the client counts.
const WINDOW: Duration = Duration::from_secs(10);
/// Minimum number of bytes in each [`WINDOW`].
const WINDOW_BYTES: u64 = 64 * 1024;
/// Time for which an unwanted rest is read.
const DRAIN: Duration = Duration::from_secs(1);

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Form that the client is sending.
pub(crate) struct Form {
    parts: multer::Multipart<'static>,
    counts: Arc<Counts>,
    started: Instant,
}

/// Bytes that were received.
#[derive(Debug, Default)]
struct Counts {
    all: AtomicU64,
    /// Bytes since content of a part was last passed on.
    since: AtomicU64,
    /// Whether content is expected, and not a part header.
    in_part: AtomicBool,
    window: Mutex<Window>,
}

/// Period in which a client has to send a minimum number of bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Bytes received before the window.
    before: u64,
    /// Time that the server waited for the client in the window.
    waited: Duration,
}

impl Counts {
    fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns the remaining time of the window. A client that has sent enough begins a new window. Returns `None` if the server
    /// has waited too long.
    fn time_left(&self) -> Option<Duration> {
        let all = self.all();
        let mut window = self.window.lock();
        if all.saturating_sub(window.before) >= WINDOW_BYTES {
            *window = Window {
                before: all,
                waited: Duration::ZERO,
            };
        }
        Some(WINDOW.saturating_sub(window.waited)).filter(|left| !left.is_zero())
    }

    fn has_waited(&self, time: Duration) {
        let mut window = self.window.lock();
        window.waited = window.waited.saturating_add(time);
    }
}

/// Part of a form.
pub(crate) struct Part<'f> {
    field: multer::Field<'static>,
    counts: &'f Counts,
    started: Instant,
}

/// Too many bytes arrived between two parts.
#[derive(Debug, thiserror::Error)]
#[error("more than {BETWEEN} bytes between two parts")]
struct TooMuchBetween;

impl Form {
    /// Creates the form of a request with these headers and this body.
    pub(crate) fn new(headers: &HeaderMap, body: Body) -> Result<Self, Refusal> {
        check_encoding(headers)?;
        let boundary = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| multer::parse_boundary(value).ok())
            // RFC 2046: 1 to 70 characters.
            .filter(|boundary| (1..=70).contains(&boundary.len()))
            .ok_or_else(|| {
                ErrorCode::InvalidRequest.because("Content-Type: must be multipart/form-data with a boundary")
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

    /// Returns the next part once its header has arrived. The previous part must be read to its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Part<'_>>, Refusal> {
        self.counts.in_part.store(false, Ordering::Relaxed);
        self.counts.since.store(0, Ordering::Relaxed);
        let next = in_time(self.started, &self.counts, self.parts.next_field()).await?;
        let Some(field) = next.map_err(broken)? else {
            return Ok(None);
        };
        check_transfer_encoding(&field)?;
        Ok(Some(Part {
            field,
            counts: &self.counts,
            started: self.started,
        }))
    }

    /// Reads and drops the rest for a moment: many clients see a broken connection instead of our answer, unless they can send
    /// the whole body.
    pub(crate) async fn drain(mut self) {
        self.counts.in_part.store(true, Ordering::Relaxed);
        let drain = async { while let Ok(Some(_)) = self.parts.next_field().await {} };
        // The answer does not depend on the result.
        let _drained = tokio::time::timeout(DRAIN, drain).await;
    }
}

impl Part<'_> {
    /// The field's name.
    pub(crate) fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// Name of the uploaded file, without the folders that some clients send.
    pub(crate) fn file_name(&self) -> Result<Option<String>, Refusal> {
        let Some(value) = self.field.headers().get(CONTENT_DISPOSITION) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| ErrorCode::InvalidRequest.because("file: the filename must be UTF-8"))?;
        file_name(text).map_err(|rule| ErrorCode::InvalidRequest.because(format!("file: {rule}")))
    }

    /// Returns the media type, unless it is the generic one for bytes.
    pub(crate) fn media_type(&self) -> Option<String> {
        let text = self.field.content_type()?.to_string();
        let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        (plain && text.len() <= MEDIA_TYPE && text != "application/octet-stream").then_some(text)
    }

    /// Returns the next bytes of the part.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Refusal> {
        self.counts.in_part.store(true, Ordering::Relaxed);
        let chunk = in_time(self.started, self.counts, self.field.chunk()).await?;
        chunk.map_err(broken)
    }

    /// Reads the whole part as text.
    pub(crate) async fn text(mut self, limit: usize) -> Result<String, Refusal> {
        let name = self.name().to_owned();
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if bytes.len().saturating_add(chunk.len()) > limit {
                return Err(
                    ErrorCode::InvalidRequest.because(format!("{name}: must be at most {limit} bytes"))
                );
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes)
            .map_err(|_| ErrorCode::InvalidRequest.because(format!("{name}: must be UTF-8")))
    }
}

/// Maximum length of a stored media type.
const MEDIA_TYPE: usize = 200;

/// Refuses a part with a mail transfer encoding: its encoded bytes would be stored as the file. Forms must not use the header
/// (RFC 7578).
fn check_transfer_encoding(field: &multer::Field<'_>) -> Result<(), Refusal> {
    let Some(value) = field.headers().get("content-transfer-encoding") else {
        return Ok(());
    };
    let is_plain = ["binary", "8bit", "7bit"].iter().any(|plain| {
        value
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(plain.as_bytes())
    });
    if is_plain {
        return Ok(());
    }
    Err(ErrorCode::InvalidRequest.because(format!(
        "{}: Content-Transfer-Encoding must be absent or `binary`; send the bytes as they are",
        field.name().unwrap_or_default()
    )))
}

async fn in_time<T>(started: Instant, counts: &Counts, work: impl Future<Output = T>) -> Result<T, Refusal> {
    tokio::pin!(work);
    loop {
        let all = counts.all();
        let until = started + START + Duration::from_millis(all.saturating_mul(1_000) / PACE);
        let Some(left) = counts.time_left() else {
            return Err(ErrorCode::InvalidRequest.because(format!(
                "{WINDOW_BYTES} bytes of the body did not arrive within {} s",
                WINDOW.as_secs()
            )));
        };
        let began = Instant::now();
        let done = tokio::time::timeout_at(until.min(began + left), &mut work).await;
        counts.has_waited(began.elapsed());
        if let Ok(done) = done {
            return Ok(done);
        }
        // Bytes that arrived during the wait have moved the deadline.
        if Instant::now() >= until && counts.all() == all {
            return Err(ErrorCode::InvalidRequest
                .because(format!("the body did not arrive at {PACE} bytes a second")));
        }
    }
}

/// Returns the refusal of a form that cannot be read.
fn broken(error: multer::Error) -> Refusal {
    use multer::Error as Form;

    let multer::Error::StreamReadFailed(cause) = error else {
        let what = if matches!(
            error,
            Form::IncompleteStream | Form::IncompleteHeaders | Form::IncompleteFieldData { .. }
        ) {
            "it ends too early, or has another boundary than Content-Type says"
        } else {
            "the headers of a part cannot be read"
        };
        return ErrorCode::InvalidRequest.because(format!("the multipart body is malformed: {what}"));
    };
    match cause.downcast::<TooMuchBetween>() {
        Ok(rule) => ErrorCode::InvalidRequest.because(format!("the multipart body has {rule}")),
        Err(_) => ErrorCode::InvalidRequest.because("the body could not be read"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn a_part_in_an_encoding_of_mail_is_refused() {
        for (encoding, is_taken) in [
            ("binary", true),
            ("8BIT", true),
            ("7bit", true),
            ("base64", false),
            ("quoted-printable", false),
            ("", false),
        ] {
            let body = format!(
                "--b\r\ncontent-disposition: form-data; name=\"file\"\r\ncontent-transfer-encoding: \
                 {encoding}\r\n\r\naGk=\r\n--b--\r\n"
            );
            let mut headers = HeaderMap::new();
            let kind = http::HeaderValue::from_static("multipart/form-data; boundary=b");
            headers.insert(CONTENT_TYPE, kind);
            let mut form = Form::new(&headers, Body::from(body)).unwrap();
            assert_eq!(form.next().await.is_ok(), is_taken, "{encoding}");
        }
    }

    /// Sends a form with content in chunks of `bytes`, each but the first after `pause`. Returns the time until the refusal and
    /// its status, or `None` if the whole form was accepted.
    async fn refused(bytes: usize, pause: Duration, chunks: usize) -> Option<(Duration, u16)> {
        let head = "--b\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n";
        let head = futures_util::stream::iter([Ok(Bytes::from(head))]);
        let content = futures_util::stream::iter(0..chunks).then(move |chunk| async move {
            if chunk > 0 {
                tokio::time::sleep(pause).await;
            }
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))
        });
        let end = futures_util::stream::iter([Ok(Bytes::from("\r\n--b--\r\n"))]);
        let body = Body::from_stream(head.chain(content).chain(end));
        let mut headers = HeaderMap::new();
        let kind = http::HeaderValue::from_static("multipart/form-data; boundary=b");
        headers.insert(CONTENT_TYPE, kind);
        let mut form = Form::new(&headers, body).unwrap();
        let began = Instant::now();
        let read = async {
            let mut part = form.next().await?.unwrap();
            while part.chunk().await?.is_some() {}
            Ok::<_, Refusal>(())
        };
        let refusal = read.await.err()?;
        Some((began.elapsed(), refusal.code.status()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_refused_after_ten_seconds() {
        let second = Duration::from_secs(1);
        assert_eq!(refused(1_000, second, 1_000).await, Some((WINDOW, 400)));
        // A burst does not extend the time.
        assert_eq!(refused(10 << 20, 11 * second, 5).await, Some((WINDOW, 400)));
        // The average rate is enforced as well.
        let (time, status) = refused(80 << 10, 9 * second, 1_000).await.unwrap();
        assert_eq!(status, 400);
        assert!(time > START, "{time:?}");
        assert_eq!(refused(400 << 10, 9 * second, 30).await, None);
    }

    proptest! {
        #[test]
        fn no_header_makes_the_reader_panic(text in any::<String>()) {
            let _name = file_name(&text);
        }

        #[test]
        fn a_name_comes_back_as_a_browser_sent_it(name in "[^/\\\\\0]{1,40}") {
            prop_assume!(!["%22", "%0D", "%0A"].iter().any(|code| name.contains(code)));
            let sent = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
            let disposition = format!("form-data; name=\"file\"; filename=\"{sent}\"");
            prop_assert_eq!(file_name(&disposition), Ok(Some(name)));
        }
    }
}
