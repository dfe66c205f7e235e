//! Dates at which a version of the API is deprecated and stops working (`docs/API.md#versions`).

use jiff::{Span, civil::Date, tz::TimeZone};
use sortie_api::Timestamp;
use sortie_server::Deprecation;

use super::{Error, values::Reader};

const RULE: &str = "must be a date such as 2027-03-01";

impl Reader<'_> {
    /// Returns the dates of the end of `/v1`; none while it is the current version.
    pub(super) fn deprecation(&self) -> Result<Option<Deprecation>, Error> {
        let (since, sunset) = (self.date("api.v1.deprecated")?, self.date("api.v1.sunset")?);
        let successor = self.optional_text("api.v1.successor")?;
        let (since, sunset) = match (since, sunset) {
            (Some(since), Some(sunset)) => (since, sunset),
            (None, None) if successor.is_none() => return Ok(None),
            (None, _) => {
                return Err(self.wrong("api.v1.deprecated", "must be set beside the other keys of api.v1"));
            }
            (_, None) => return Err(self.wrong("api.v1.sunset", "must be set beside api.v1.deprecated")),
        };
        let earliest = since
            .checked_add(Span::new().months(6))
            .map_err(|_| self.wrong("api.v1.deprecated", RULE))?;
        if sunset < earliest {
            return Err(self.wrong(
                "api.v1.sunset",
                &format!(
                    "must be {earliest} or later: a version works for six months after it is deprecated"
                ),
            ));
        }
        let successor = successor
            .map(|text| {
                let is_plain = url::Url::parse(text)
                    .is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
                    && text
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
                if is_plain {
                    Ok(text.to_owned())
                } else {
                    Err(self.wrong("api.v1.successor", "must be an http or https URL"))
                }
            })
            .transpose()?;
        Ok(Some(Deprecation {
            since: self.midnight("api.v1.deprecated", since)?,
            sunset: self.midnight("api.v1.sunset", sunset)?,
            successor,
        }))
    }

    fn date(&self, key: &str) -> Result<Option<Date>, Error> {
        self.optional_text(key)?
            .map(|text| text.parse().map_err(|_| self.wrong(key, RULE)))
            .transpose()
    }

    /// The beginning of the day in UTC.
    fn midnight(&self, key: &str, date: Date) -> Result<Timestamp, Error> {
        let at = date
            .to_zoned(TimeZone::UTC)
            .map_err(|_| self.wrong(key, RULE))?
            .timestamp();
        if at < jiff::Timestamp::UNIX_EPOCH {
            return Err(self.wrong(key, RULE));
        }
        Ok(Timestamp::from_micros(at.as_microsecond()))
    }
}
