//! Downloads: conditional requests and ranges (RFC 9110), and headers that keep browsers from executing the content.
//!
//! The entity tag is the SHA-256 of the content, so it is the same on every node and never changes. A request for several ranges
//! is answered with the whole content, which the RFC permits.

use std::{ops::Range, time::SystemTime};

use axum::{body::Body, response::Response};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
        CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
        LAST_MODIFIED, RANGE, X_CONTENT_TYPE_OPTIONS,
    },
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sortie_api::{ErrorCode, Refusal, Sha256, Timestamp};

use super::range_not_satisfiable;

/// Sites that may read the answer as a part of their pages.
pub(crate) const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// Content that is offered for download.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    /// File name for saving the content.
    pub(crate) name: String,
    /// Size in bytes.
    pub(crate) size: u64,
    /// SHA-256 of the content.
    pub(crate) sha256: Sha256,
    /// Media type.
    pub(crate) content_type: String,
    /// Time of creation.
    pub(crate) created_at: Timestamp,
}

/// Part of the content to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// No content: the client already has it.
    Nothing,
    /// The whole content.
    Whole,
    /// A range of the content.
    Part(Range<u64>),
    /// A range that the content does not have.
    Beyond,
}

/// Characters that need no escape in `filename*`.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

impl Offered {
    fn etag(&self) -> String {
        format!("\"{}\"", self.sha256)
    }

    fn modified(&self) -> SystemTime {
        let seconds = u64::try_from(self.created_at.as_micros() / 1_000_000).unwrap_or(0);
        SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)
    }

    /// Returns the part of the content for a request with these headers.
    pub(crate) fn wanted(&self, method: &Method, headers: &HeaderMap) -> Result<Wanted, Refusal> {
        let etag = self.etag();
        let modified = self.modified();
        if headers.contains_key(IF_MATCH) {
            if !matches(headers, IF_MATCH, |tag| tag == etag) {
                return Err(
                    ErrorCode::PreconditionFailed.because("If-Match: the content has another entity tag")
                );
            }
        } else if date(headers, IF_UNMODIFIED_SINCE).is_some_and(|since| modified > since) {
            return Err(ErrorCode::PreconditionFailed.because("If-Unmodified-Since: the content is newer"));
        }
        let has_it = if headers.contains_key(IF_NONE_MATCH) {
            has_tag(headers, &etag)
        } else {
            date(headers, IF_MODIFIED_SINCE).is_some_and(|since| modified <= since)
        };
        if has_it {
            return Ok(Wanted::Nothing);
        }
        let unchanged = headers.get(IF_RANGE).is_none_or(|value| {
            value.as_bytes() == etag.as_bytes() || date(headers, IF_RANGE) == Some(modified)
        });
        Ok(match range(headers, self.size) {
            Some(part) if unchanged && method == Method::GET => {
                if part.is_empty() {
                    Wanted::Beyond
                } else {
                    Wanted::Part(part)
                }
            }
            Some(_) | None => Wanted::Whole,
        })
    }

    /// Creates the answer; `body` contains these bytes.
    pub(crate) fn response(&self, wanted: &Wanted, body: Body) -> Result<Response, Refusal> {
        let (status, length) = match wanted {
            Wanted::Nothing => (StatusCode::NOT_MODIFIED, None),
            Wanted::Whole => (StatusCode::OK, Some(self.size)),
            Wanted::Part(part) => (StatusCode::PARTIAL_CONTENT, Some(part.end - part.start)),
            Wanted::Beyond => return Err(range_not_satisfiable(self.size)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: &str| {
            let value = HeaderValue::from_str(value).map_err(Refusal::internal)?;
            headers.insert(name, value);
            Ok::<_, Refusal>(())
        };
        set(ETAG, &self.etag())?;
        set(LAST_MODIFIED, &httpdate::fmt_http_date(self.modified()))?;
        set(ACCEPT_RANGES, "bytes")?;
        let Some(length) = length else {
            return Ok(response);
        };
        set(CONTENT_LENGTH, &length.to_string())?;
        set(CONTENT_TYPE, &self.content_type)?;
        set(CONTENT_DISPOSITION, &disposition(&self.name))?;
        set(X_CONTENT_TYPE_OPTIONS, "nosniff")?;
        // The content comes from an agent: a browser that shows it gives it no origin, and no other site gets it.
        set(CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'")?;
        set(CROSS_ORIGIN_RESOURCE_POLICY, "same-origin")?;
        if let Wanted::Part(part) = wanted {
            let last = part.end.saturating_sub(1);
            set(
                CONTENT_RANGE,
                &format!("bytes {}-{last}/{}", part.start, self.size),
            )?;
        }
        Ok(response)
    }
}

/// `attachment` with the name in two forms, ASCII and UTF-8, so that every client can read it (RFC 6266, RFC 8187).
fn disposition(name: &str) -> String {
    let ascii: String = name
        .chars()
        .map(|character| match character {
            '"' | '\\' | '%' => '_',
            ' '..='~' => character,
            _ => '_',
        })
        .collect();
    if ascii == name {
        return format!("attachment; filename=\"{ascii}\"");
    }
    let exact = utf8_percent_encode(name, PLAIN);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{exact}")
}

/// Whether the entity tags in this header include `*`, or one for which `is_it` returns true.
fn matches(headers: &HeaderMap, name: HeaderName, is_it: impl Fn(&str) -> bool) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || is_it(tag))
}

/// Whether the client has the content with this entity tag (`If-None-Match`).
pub(crate) fn has_tag(headers: &HeaderMap, etag: &str) -> bool {
    matches(headers, IF_NONE_MATCH, |tag| {
        tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// Parses `Range` as one range of a content of `size`. Returns an empty range if the content does not have it. Other units,
/// several ranges and malformed ones are ignored.
fn range(headers: &HeaderMap, size: u64) -> Option<Range<u64>> {
    let mut values = headers.get_all(RANGE).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let (unit, range) = value.to_str().ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", last) => Some(size.saturating_sub(number(last)?)..size),
        (first, "") => Some(number(first)?..size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1).min(size))
        }
    }
}

/// Parses digits. A number that is too large counts as the maximum.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offered(size: u64) -> Offered {
        Offered {
            name: "a.txt".to_owned(),
            size,
            sha256: Sha256::new([7; 32]),
            content_type: "text/plain".to_owned(),
            created_at: Timestamp::from_micros(1_763_674_200_123_456),
        }
    }

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    /// `None` for 412.
    fn wanted(pairs: &[(HeaderName, &str)]) -> Option<Wanted> {
        offered(1_000).wanted(&Method::GET, &headers(pairs)).ok()
    }

    #[test]
    fn a_range_is_whole_part_or_beyond() {
        for (value, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=0-", Wanted::Part(0..1_000)),
            ("Bytes = 10-19", Wanted::Part(10..20)),
            ("bytes=990-2000", Wanted::Part(990..1_000)),
            ("bytes=999-99999999999999999999999", Wanted::Part(999..1_000)),
            ("bytes=-1", Wanted::Part(999..1_000)),
            ("bytes=-5000", Wanted::Part(0..1_000)),
            ("bytes=1000-", Wanted::Beyond),
            ("bytes=99999999999999999999999-", Wanted::Beyond),
            ("bytes=-0", Wanted::Beyond),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("0-1", Wanted::Whole),
        ] {
            assert_eq!(wanted(&[(RANGE, value)]), Some(expected), "{value}");
        }
        let head = offered(1_000).wanted(&Method::HEAD, &headers(&[(RANGE, "bytes=0-1")]));
        assert_eq!(head.unwrap(), Wanted::Whole);
        let empty = offered(0).wanted(&Method::GET, &headers(&[(RANGE, "bytes=0-")]));
        assert_eq!(empty.unwrap(), Wanted::Beyond);
    }

    #[test]
    fn conditions_are_weighed_in_the_order_of_the_standard() {
        let tag = offered(1).etag();
        let (same, weak) = (tag.as_str(), format!("W/{tag}"));
        let (before, at, after) = (
            "Thu, 20 Nov 2025 21:29:59 GMT",
            "Thu, 20 Nov 2025 21:30:00 GMT",
            "Thu, 20 Nov 2025 21:30:01 GMT",
        );
        let part = Some(Wanted::Part(0..1));
        let first = (RANGE, "bytes=0-0");
        for (pairs, expected) in [
            (vec![(IF_NONE_MATCH, same)], Some(Wanted::Nothing)),
            (vec![(IF_NONE_MATCH, weak.as_str())], Some(Wanted::Nothing)),
            (vec![(IF_NONE_MATCH, "\"x\", *")], Some(Wanted::Nothing)),
            (vec![(IF_NONE_MATCH, "\"x\"")], Some(Wanted::Whole)),
            (vec![(IF_MODIFIED_SINCE, at)], Some(Wanted::Nothing)),
            (vec![(IF_MODIFIED_SINCE, before)], Some(Wanted::Whole)),
            // An entity tag takes precedence over the date.
            (
                vec![(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, after)],
                Some(Wanted::Whole),
            ),
            (vec![(IF_MATCH, same)], Some(Wanted::Whole)),
            (vec![(IF_MATCH, "*")], Some(Wanted::Whole)),
            (vec![(IF_MATCH, weak.as_str())], None),
            (vec![(IF_MATCH, "\"x\"")], None),
            (vec![(IF_UNMODIFIED_SINCE, before)], None),
            (vec![(IF_UNMODIFIED_SINCE, at)], Some(Wanted::Whole)),
            (
                vec![(IF_MATCH, same), (IF_UNMODIFIED_SINCE, before)],
                Some(Wanted::Whole),
            ),
            (vec![first.clone(), (IF_NONE_MATCH, same)], Some(Wanted::Nothing)),
            (vec![first.clone(), (IF_RANGE, same)], part.clone()),
            (vec![first.clone(), (IF_RANGE, at)], part),
            (
                vec![first.clone(), (IF_RANGE, weak.as_str())],
                Some(Wanted::Whole),
            ),
            (vec![first.clone(), (IF_RANGE, after)], Some(Wanted::Whole)),
            (vec![first, (IF_RANGE, "nonsense")], Some(Wanted::Whole)),
        ] {
            assert_eq!(wanted(&pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_name_is_told_in_ascii_and_exactly() {
        assert_eq!(disposition("a b.txt"), "attachment; filename=\"a b.txt\"");
        assert_eq!(
            disposition("résumé \"1\".pdf"),
            "attachment; filename=\"r_sum_ _1_.pdf\"; filename*=UTF-8''r%C3%A9sum%C3%A9%20%221%22.pdf"
        );
        assert_eq!(
            disposition("a\r\nX: y"),
            "attachment; filename=\"a__X: y\"; filename*=UTF-8''a%0D%0AX%3A%20y"
        );
    }

    proptest! {
        #[test]
        fn no_header_asks_for_bytes_that_are_not_there(value in "[ -~]{0,30}|bytes=[0-9]{0,20}-[0-9]{0,20}", size in 0_u64..50) {
            if let Ok(Wanted::Part(part)) = offered(size).wanted(&Method::GET, &headers(&[(RANGE, &value)])) {
                prop_assert!(part.start < part.end && part.end <= size);
            }
        }

        #[test]
        fn every_name_makes_a_header(name in "[^/]{1,80}") {
            let text = disposition(&name);
            prop_assert!(HeaderValue::from_str(&text).is_ok());
            prop_assert!(text.is_ascii());
        }
    }
}
