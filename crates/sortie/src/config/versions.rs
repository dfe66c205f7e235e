//! Dates at which a version of the API is deprecated and stops working (`docs/API.md#versions`).

use jiff::{Span, civil::Date, tz::TimeZone};
use serde::Deserialize;
use sortie_api::Timestamp;
use sortie_server::Deprecation;

use super::{Error, layers::Layers};

const RULE: &str = "must be a date such as 2027-03-01";

/// Keys of `[api]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiSection {
    v1: VersionSection,
}

/// Keys of `[api.v1]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionSection {
    deprecated: Option<String>,
    sunset: Option<String>,
    successor: Option<String>,
}

impl ApiSection {
    /// Returns the end dates of `/v1`; `None` while it is the current version.
    pub(super) fn deprecation(&self, layers: &Layers) -> Result<Option<Deprecation>, Error> {
        let wrong = |key: &str, rule: &str| layers.wrong(&format!("api.v1.{key}"), rule);
        let date = |key, text: &Option<String>| {
            let date: Option<Result<Date, _>> = text.as_ref().map(|text| text.parse());
            date.transpose().map_err(|_| wrong(key, RULE))
        };
        let v1 = &self.v1;
        let (since, sunset) = match (date("deprecated", &v1.deprecated)?, date("sunset", &v1.sunset)?) {
            (Some(since), Some(sunset)) => (since, sunset),
            (None, None) if v1.successor.is_none() => return Ok(None),
            (None, _) => return Err(wrong("deprecated", "must be set beside the other keys of api.v1")),
            (_, None) => return Err(wrong("sunset", "must be set beside api.v1.deprecated")),
        };
        let earliest = since
            .checked_add(Span::new().months(6))
            .map_err(|_| wrong("deprecated", RULE))?;
        if sunset < earliest {
            let rule =
                format!("must be {earliest} or later: a version works for six months after it is deprecated");
            return Err(wrong("sunset", &rule));
        }
        if !v1.successor.as_deref().is_none_or(is_plain_url) {
            return Err(wrong("successor", "must be an http or https URL"));
        }
        Ok(Some(Deprecation {
            since: midnight(since).ok_or_else(|| wrong("deprecated", RULE))?,
            sunset: midnight(sunset).ok_or_else(|| wrong("sunset", RULE))?,
            successor: v1.successor.clone(),
        }))
    }
}

/// Whether a header can carry the address unchanged.
fn is_plain_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte))
}

/// The beginning of the day in UTC.
fn midnight(date: Date) -> Option<Timestamp> {
    let at = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    (at >= jiff::Timestamp::UNIX_EPOCH).then(|| Timestamp::from_micros(at.as_microsecond()))
}
