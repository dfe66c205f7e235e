//! Headers of a deprecated version: `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and a link to the next version.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, header::LINK};
use sortie_api::Timestamp;

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// Deprecation of a version of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// Time from which the version is deprecated.
    pub since: Timestamp,
    /// Time at which the version stops working; not before `since`.
    pub sunset: Timestamp,
    /// The address of a page about the next version: visible ASCII without `<`, `>` and `"`.
    pub successor: Option<String>,
}

/// Headers, generated once.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeprecationHeaders(Vec<(HeaderName, HeaderValue)>);

impl DeprecationHeaders {
    /// Creates no headers for a version that is not deprecated.
    pub(crate) fn new(deprecation: Option<&Deprecation>) -> Self {
        let Some(deprecation) = deprecation else {
            return Self::default();
        };
        let seconds = |at: Timestamp| at.as_micros().div_euclid(1_000_000);
        let sunset = u64::try_from(seconds(deprecation.sunset)).unwrap_or(0);
        let sunset = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(sunset));
        let link = |rel: &str| {
            let successor = deprecation.successor.as_ref()?;
            Some((LINK, format!("<{successor}>; rel=\"{rel}\"")))
        };
        let headers = [
            Some((DEPRECATION, format!("@{}", seconds(deprecation.since)))),
            Some((SUNSET, sunset)),
            link("deprecation"),
            link("successor-version"),
        ];
        Self(
            headers
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?)))
                .collect(),
        )
    }

    /// Adds the headers to an answer of the version.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_those_of_the_rfcs() {
        let deprecation = Deprecation {
            // 2027-03-01 and 2027-09-15, midnight UTC.
            since: Timestamp::from_micros(1_803_859_200_000_000),
            sunset: Timestamp::from_micros(1_820_966_400_000_000),
            successor: Some("https://docs.example.com/v2".to_owned()),
        };
        let mut headers = HeaderMap::new();
        DeprecationHeaders::new(Some(&deprecation)).write(&mut headers);
        assert_eq!(headers.get("deprecation").unwrap(), "@1803859200");
        assert_eq!(headers.get("sunset").unwrap(), "Wed, 15 Sep 2027 00:00:00 GMT");
        let links: Vec<_> = headers.get_all("link").iter().collect();
        assert_eq!(
            links,
            [
                "<https://docs.example.com/v2>; rel=\"deprecation\"",
                "<https://docs.example.com/v2>; rel=\"successor-version\""
            ]
        );
    }

    #[test]
    fn a_version_that_is_not_deprecated_says_nothing() {
        let mut headers = HeaderMap::new();
        DeprecationHeaders::new(None).write(&mut headers);
        assert!(headers.is_empty());
    }
}
