//! Points in time on the command line.

use std::str::FromStr;

use jiff::{civil, tz::TimeZone};
use sortie_api::Timestamp;
use sortie_engine::Clock;

use super::administration::duration;

/// A point in time: RFC 3339, a day or a time of day here, or a time before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Timestamp);

/// A text that is not a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a time such as 2026-11-20T21:30:00Z, a day such as 2026-11-20, or a time before now such as 2h or 7d"
)]
pub(crate) struct InvalidMoment;

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        read(text, Clock::system().now(), &TimeZone::system())
            .map(Self)
            .ok_or(InvalidMoment)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn read(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    if let Ok(length) = duration(text) {
        return Some(now - length);
    }
    let local = text.parse::<civil::DateTime>().ok()?;
    let at = zone.to_timestamp(local).ok()?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_is_a_time_a_day_or_a_time_ago() {
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let shown = |text: &str| read(text, now, &zone).map(|at| at.to_string());
        for (text, at) in [
            ("2026-11-20T21:30:00Z", "2026-11-20T21:30:00.000Z"),
            ("2026-11-20", "2026-11-19T23:00:00.000Z"),
            ("2026-11-20 08:00", "2026-11-20T07:00:00.000Z"),
            ("2h", "2026-11-20T10:00:00.000Z"),
            ("7d", "2026-11-13T12:00:00.000Z"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(at), "{text}");
        }
        for wrong in ["", "yesterday", "2026-13-01", "-1d", "12"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_moment_panic(text in "\\PC{0,30}") {
            let _read = text.parse::<Moment>();
        }
    }
}
