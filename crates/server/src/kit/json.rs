//! JSON bodies of requests and responses, in our error format.
//!
//! A body is refused with a 400 that names the field (wrong content type, invalid UTF-8, malformed JSON, not an object, unknown
//! and repeated fields, U+0000, deep nesting), or with 413 if it exceeds the limit for all requests.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody as _},
    extract::{FromRef, FromRequest, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, EXPECT},
};
use http_body_util::BodyExt as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::error::Category;
use sortie_api::{ErrorCode, Refusal, limits::BODY_BYTES, plain};

use super::{
    ApiError, ApiResult, BodyBudget, Uncounted, body_budget::Room, is_of_type, json_text, too_large,
    unread_body::drain,
};

/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// A response's body.
#[derive(Clone, Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// Body of a request as `T`, with its memory reservation. Keep the reservation until the request is done.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T, pub(crate) Room);

/// JSON body of a request that is not parsed yet, with its memory reservation.
#[derive(Debug)]
pub(crate) struct JsonBytes(pub(crate) Vec<u8>, pub(crate) Room);

impl<S: Send + Sync> FromRequest<S> for JsonBytes
where
    BodyBudget: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(ErrorCode::InvalidRequest
                .because("Content-Type: must be application/json")
                .into());
        }
        check_encoding(&parts.headers)?;
        let mut room = BodyBudget::from_ref(state).room();
        let bytes = tokio::time::timeout(BODY_TIMEOUT, read(body, &parts.headers, &mut room))
            .await
            .map_err(|_| ErrorCode::InvalidRequest.because("the body did not arrive within 60 s"))??;
        Ok(Self(bytes, room))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T>
where
    BodyBudget: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let JsonBytes(bytes, mut room) = JsonBytes::from_request(request, state).await?;
        let text = checked(&bytes)?;
        room.grow(text.memory_bytes()).await?;
        Ok(Self(text.parse()?, room))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => json_response(bytes),
            Err(error) => ApiError::from(Refusal::internal(error)).into_response(),
        }
    }
}

/// Answers with a secret. Caches must not store it.
pub(crate) fn shown_once(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A 200 with a body that is already JSON.
pub(crate) fn json_response(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Answers with a document that is generated once. All answers share its memory.
pub(crate) fn shared_document(document: &Bytes) -> Response {
    let mut response = json_response(document.clone());
    response.extensions_mut().insert(Uncounted);
    response
}

/// Whether the content type is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    is_of_type(headers, "application/json")
}

/// Refuses a compressed body.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    Err(ErrorCode::InvalidRequest
        .because("Content-Encoding: no content encoding is taken; send the body as it is"))
}

/// Reads the whole body, at most [`BODY_BYTES`], while memory can be reserved for it.
///
/// The bytes are copied: a body may arrive in one-byte pieces, and each piece keeps more memory than its content.
async fn read(mut body: Body, headers: &HeaderMap, room: &mut Room) -> Result<Vec<u8>, Refusal> {
    if body.size_hint().lower() > BODY_BYTES as u64 && headers.contains_key(EXPECT) {
        return Err(too_large("the body", BODY_BYTES));
    }
    let mut segments: Vec<Vec<u8>> = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ErrorCode::InvalidRequest.because("the body could not be read"))?;
        let Ok(chunk) = frame.into_data() else { continue };
        length = length.saturating_add(chunk.len());
        let room = if length > BODY_BYTES {
            Err(too_large("the body", BODY_BYTES))
        } else {
            room.grow(length).await
        };
        if let Err(refusal) = room {
            drop((segments, chunk));
            // Many clients see a broken connection instead of the answer, unless they can send the whole body.
            drain(body, BODY_BYTES as u64).await;
            return Err(refusal);
        }
        append(&mut segments, &chunk);
    }
    if segments.len() <= 1 {
        return Ok(segments.pop().unwrap_or_default());
    }
    room.grow(length.saturating_mul(2)).await?;
    let mut whole = Vec::with_capacity(length);
    for segment in segments {
        whole.extend_from_slice(&segment);
    }
    Ok(whole)
}

/// Appends bytes to the last segment, and adds segments as needed.
fn append(segments: &mut Vec<Vec<u8>>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let last = match segments.last_mut() {
            Some(last) if last.len() < SEGMENT_BYTES => last,
            Some(_) | None => {
                segments.push(Vec::new());
                continue;
            }
        };
        let (now, later) = bytes.split_at(bytes.len().min(SEGMENT_BYTES - last.len()));
        last.extend_from_slice(now);
        bytes = later;
    }
}

/// Size of the segments that buffer a body while it arrives.
const SEGMENT_BYTES: usize = 64 * 1024;

/// Maximum length of a string that an error of the parser may quote, in bytes. The message may use six bytes for each.
const QUOTED_BYTES: usize = 4 * 1024;

/// Body that looks like a JSON object, before it is parsed.
struct Checked<'a> {
    text: &'a str,
    strings: json_text::Strings,
}

impl Checked<'_> {
    /// Memory use of the body during parsing: its text, the strings and opaque values that are copied from it, and the parser's
    /// buffer, which grows by doubling. Arrays and maps of a request have limits, and the parser stops there.
    fn memory_bytes(&self) -> usize {
        let buffer = self.strings.longest_escaped.saturating_mul(2);
        self.text.len().saturating_mul(2).saturating_add(buffer)
    }

    /// Parses the body as `T`. If it has long strings, a copy with truncated strings is parsed first and finds any error,
    /// so that no error message quotes a long string.
    fn parse<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        if self.strings.longest > QUOTED_BYTES {
            parse::<T>(&json_text::cut_strings(self.text, QUOTED_BYTES))?;
        }
        parse(self.text)
    }
}

/// Checks a body's bytes before they are parsed.
fn checked(bytes: &[u8]) -> Result<Checked<'_>, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let first = error.valid_up_to() + 1;
        ErrorCode::InvalidRequest.because(format!("the body must be UTF-8, and is not from byte {first} on"))
    })?;
    // serde would also read a struct from an array, field by field.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(ErrorCode::InvalidRequest.because("the body must be a JSON object"));
    }
    let strings = json_text::check(text).map_err(|refusal| {
        let path = if refusal.path.is_empty() {
            "the body"
        } else {
            &refusal.path
        };
        ErrorCode::InvalidRequest.because(format!("{path}: {}", refusal.rule))
    })?;
    Ok(Checked { text, strings })
}

/// Checks and parses the text of a JSON object as a body is. The refusal names the field and the rule.
pub(crate) fn parse_object<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    checked(text.as_bytes())?.parse()
}

/// Checks the text of a JSON object as a body is.
pub(crate) fn check_object(bytes: &[u8]) -> Result<(), Refusal> {
    checked(bytes).map(drop)
}

/// Returns the memory that a JSON text takes as a `Value`, in bytes, or more: an object begins with a node for eleven fields.
pub(crate) fn value_bytes(text: &[u8]) -> usize {
    const NODE: usize = 640;
    const ELEMENT: usize = 64;
    text.iter().fold(text.len(), |bytes, byte| match byte {
        b'{' => bytes.saturating_add(NODE),
        b'[' | b',' => bytes.saturating_add(ELEMENT),
        _ => bytes,
    })
}

/// Parses the text of a body as `T`.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text).map_err(|error| ErrorCode::InvalidRequest.because(explain::<T>(text, &error)))
}

/// Parses the text again to find the path of the error, so that only refused bodies have this cost.
fn explain<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let path = serde_path_to_error::deserialize::<_, T>(&mut deserializer)
                .err()
                .map(|error| error.path().to_string())
                .unwrap_or_default();
            describe(&path, &without_position(error))
        }
        Category::Io | Category::Syntax | Category::Eof => format!("malformed JSON: {}", plain::json(error)),
    }
}

/// Formats an error as `path: rule`, with the terms of this API.
fn describe(path: &str, rule: &str) -> String {
    let path = if path == "." { "" } else { path };
    let quoted = |prefix: &str| {
        let (field, rest) = rule.strip_prefix(prefix)?.split_once('`')?;
        // The path may already end with the field.
        let parent = path
            .strip_suffix(field)
            .map_or(path, |rest| rest.strip_suffix('.').unwrap_or(rest));
        let dot = if parent.is_empty() { "" } else { "." };
        Some((format!("{parent}{dot}{field}"), rest.to_owned()))
    };
    if let Some((field, rest)) = quoted("unknown field `") {
        format!(
            "{field}: unknown field `{}`{rest}",
            field.rsplit('.').next().unwrap_or_default()
        )
    } else if let Some((field, _)) = quoted("missing field `") {
        format!("{field}: required")
    } else if let Some((field, _)) = quoted("duplicate field `") {
        format!("{field}: sent twice")
    } else if path.is_empty() {
        plain::rule(rule).into_owned()
    } else {
        format!("{path}: {}", plain::rule(rule))
    }
}

/// Removes the position at the end of a `serde_json` message: the path says more.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod memory_tests;

#[cfg(test)]
mod tests {
    use axum::Error;
    use futures_util::StreamExt as _;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use sortie_api::RunRequest;

    use super::*;

    async fn refusal(content_type: &str, body: impl Into<Body>) -> (u16, String) {
        refusal_within(&BodyBudget::default(), content_type, body).await
    }

    pub(super) async fn refusal_within(
        budget: &BodyBudget,
        content_type: &str,
        body: impl Into<Body>,
    ) -> (u16, String) {
        let request = Request::builder()
            .header(CONTENT_TYPE, content_type)
            .body(body.into())
            .unwrap();
        let response = match JsonBody::<RunRequest>::from_request(request, budget).await {
            Ok(JsonBody(..)) => return (200, String::new()),
            Err(error) => error.into_response(),
        };
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body: sortie_api::ErrorBody = serde_json::from_slice(&bytes).unwrap();
        (status, body.error)
    }

    #[tokio::test]
    async fn a_bad_body_is_refused_with_the_field_and_the_rule() {
        let table: [(&str, &str); 17] = [
            (
                r#"{"promt":"x"}"#,
                "promt: unknown field `promt`, expected one of `prompt`, ",
            ),
            (
                r#"{"files":[{"path":"a","text":"b"}]}"#,
                "files[0].text: unknown field `text`, expected one of ",
            ),
            (r#"{"files":[{"content":"b"}]}"#, "files[0].path: required"),
            (
                r#"{"files":[{"path":"a","path":"b"}]}"#,
                "files[0].path: sent twice",
            ),
            (r#"{"prompt":"a","prompt":"b"}"#, "prompt: sent twice"),
            (r#"{"prompt":"a","pr\u006fmpt":"b"}"#, "prompt: sent twice"),
            (r#"{"prompt":7}"#, "prompt: must be a string, not the number 7"),
            (r#"{"prompt":null}"#, "prompt: must be a string, not null"),
            (
                r#"{"files":[{"path":7}]}"#,
                "files[0].path: must be a string, not the number 7",
            ),
            (
                r#"{"timeout_seconds":1.5}"#,
                "timeout_seconds: must be a whole number, not the number 1.5",
            ),
            (r#"{"web":{"alow":[]}}"#, "web.alow: unknown field `alow`"),
            (r#"{"prompt":"a\u0000"}"#, "prompt: must not contain U+0000"),
            (r#"{"prompt":"x"} x"#, "malformed JSON: something follows its end"),
            (r#"{"prompt":"x""#, "malformed JSON: it ends too early"),
            ("", "the body must be a JSON object"),
            (r#"["x"]"#, "the body must be a JSON object"),
            ("null", "the body must be a JSON object"),
        ];
        for (body, message) in table {
            let (status, error) = refusal("application/json", body).await;
            assert_eq!(status, 400, "{body}");
            assert!(error.starts_with(message), "{body}\n  {error}\n  {message}");
        }
    }

    #[tokio::test]
    async fn an_array_does_not_pass_for_an_object() {
        for body in [
            r#"{"files":[["data.csv"]]}"#,
            r#"{"callback":["https://example.com","secret"]}"#,
            r#"{"connections":{"a":["saved"]}}"#,
            r#"{"web":[["example.com"]]}"#,
        ] {
            assert_eq!(refusal("application/json", body).await.0, 400, "{body}");
        }
    }

    #[tokio::test]
    async fn a_connection_named_twice_is_refused() {
        let (status, error) = refusal(
            "application/json",
            r#"{"connections":{"a":{"ref":"x"},"a":{"ref":"y"}}}"#,
        )
        .await;
        assert_eq!((status, error.as_str()), (400, "connections.a: sent twice"));
    }

    #[tokio::test]
    async fn bytes_that_are_not_utf8_are_refused() {
        let (status, error) = refusal("application/json", &b"{\"prompt\":\"\xff\"}"[..]).await;
        assert_eq!(status, 400);
        assert!(error.starts_with("the body must be UTF-8"), "{error}");
    }

    #[tokio::test]
    async fn a_million_brackets_are_refused_and_not_parsed() {
        let (status, error) = refusal(
            "application/json",
            format!("{{\"input\":{}", "[".repeat(1_000_000)),
        )
        .await;
        assert_eq!(status, 400);
        assert!(error.starts_with("input[0]"), "{error}");
        assert!(error.contains("nested deeper"), "{error}");
    }

    #[tokio::test]
    async fn a_body_above_the_limit_is_413_and_one_at_the_limit_is_read() {
        let of = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
        assert_eq!(refusal("application/json", of(BODY_BYTES)).await.0, 200);
        assert_eq!(refusal("application/json", of(BODY_BYTES + 1)).await.0, 413);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let trickle = || StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Error>>());
        let (status, error) = refusal("application/json", Body::new(trickle())).await;
        assert_eq!(
            (status, error.as_str()),
            (400, "the body did not arrive within 60 s")
        );
        // A body that exceeds the limit is refused earlier.
        let large = Frame::data(Bytes::from(vec![b' '; BODY_BYTES + 1]));
        let large =
            futures_util::stream::iter([Ok::<_, Error>(large)]).chain(futures_util::stream::pending());
        let begun = tokio::time::Instant::now();
        assert_eq!(
            refusal("application/json", Body::new(StreamBody::new(large)))
                .await
                .0,
            413
        );
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_room_and_are_put_off_where_there_is_none() {
        let budget = BodyBudget::of(1 << 20);
        let body = |length: usize| format!("{{{}}}", " ".repeat(length));
        let json = "application/json";
        let mut held = budget.room();
        held.grow(1 << 20).await.unwrap();
        let (status, error) = refusal_within(&budget, json, body(1 << 19)).await;
        assert_eq!(status, 503, "{error}");
        assert_eq!(refusal_within(&budget, json, body(100)).await.0, 200);
        drop(held);
        // Sequential bodies work, because each frees its memory.
        for _ in 0..3 {
            assert_eq!(refusal_within(&budget, json, body(1 << 19)).await.0, 200);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_parsed_body_takes_counts_as_well() {
        let budget = BodyBudget::of(1 << 20);
        let json = "application/json";
        let body = |letter: &str, times: usize| format!(r#"{{"prompt":"{}"}}"#, letter.repeat(times));
        assert_eq!(refusal_within(&budget, json, body("x", 500 << 10)).await.0, 200);
        for too_large in [body("x", 600 << 10), body("\\n", 150 << 10)] {
            let (status, error) = refusal_within(&budget, json, too_large.clone()).await;
            assert_eq!(status, 503, "{error}");
            // With enough memory, the largest body is accepted.
            let whole = BodyBudget::default();
            assert_eq!(refusal_within(&whole, json, too_large).await.0, 200);
        }
        let largest = body("\\n", BODY_BYTES / 2 - 10);
        assert!(checked(largest.as_bytes()).ok().unwrap().memory_bytes() < 256 << 20);
    }

    #[tokio::test]
    async fn a_body_in_pieces_of_a_byte_is_read_whole() {
        let text = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(SEGMENT_BYTES));
        let pieces = text.clone().into_bytes().into_iter().map(|byte| {
            let piece = Frame::data(Bytes::from(vec![byte]));
            Ok::<_, Error>(piece)
        });
        let body = Body::new(StreamBody::new(futures_util::stream::iter(pieces)));
        let (mut room, headers) = (BodyBudget::default().room(), HeaderMap::new());
        assert_eq!(
            read(body, &headers, &mut room).await.ok().unwrap(),
            text.as_bytes()
        );
    }

    #[tokio::test]
    async fn an_error_about_a_long_string_is_the_same_as_about_a_short_one() {
        for (body, message) in [
            (
                r#"{"timeout_seconds":"*"}"#,
                "timeout_seconds: must be a whole number, not a string",
            ),
            (r#"{"effort":"*"}"#, "effort: must be one of "),
            (r#"{"*":1}"#, "xxx"),
            (r#"{"prompt":"*","promt":1}"#, "promt: unknown field `promt`"),
            (r#"{"prompt":"*""#, "malformed JSON: it ends too early"),
        ] {
            for length in [3, 10, 100_000] {
                let body = body.replace('*', &"x".repeat(length));
                let (status, error) = refusal("application/json", body).await;
                assert_eq!(status, 400);
                assert!(error.starts_with(message), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn only_json_is_taken() {
        for kind in [
            "text/plain",
            "application/jsonx",
            "application/x-www-form-urlencoded",
            "",
        ] {
            let (status, error) = refusal(kind, "{}").await;
            assert_eq!(
                (status, error.as_str()),
                (400, "Content-Type: must be application/json")
            );
        }
        for kind in [
            "application/json",
            "application/json; charset=utf-8",
            "Application/JSON",
        ] {
            assert_eq!(refusal(kind, "{}").await.0, 200);
        }
    }

    #[test]
    fn a_compressed_body_is_refused_by_its_header() {
        let check = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, value.parse().unwrap());
            }
            check_encoding(&headers).is_ok()
        };
        assert!(check(&[]) && check(&["identity"]) && check(&["Identity"]));
        for refused in [
            &["gzip"][..],
            &["br"],
            &["identity", "gzip"],
            &["gzip, identity"],
            &[""],
        ] {
            assert!(!check(refused), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn a_long_name_is_not_quoted_whole() {
        let (_, error) = refusal("application/json", format!("{{\"{}\":1}}", "x".repeat(100_000))).await;
        assert!(error.chars().count() <= super::super::error::MESSAGE_CHARS + 1);
    }
}
