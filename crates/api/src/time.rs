//! Points in time: integer microseconds since the Unix epoch inside, RFC 3339 in UTC with milliseconds outside.

use std::{
    fmt,
    ops::{Add, Sub},
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema,
        schema::{KnownFormat, SchemaFormat, Type},
    },
};

/// The latest point in time that is taken, 9999-12-30T00:00:00Z in microseconds: behind it some offsets of time zones
/// lead out of what can be written with a year of four digits.
const LAST: i64 = 253_402_128_000_000_000;

/// A point in time. The store keeps [`as_micros`](Self::as_micros); the wire shows `2026-11-20T21:30:00.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `micros` microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to this point; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = jiff::Timestamp::from_millisecond(self.0.div_euclid(1_000)).map_err(|_| fmt::Error)?;
        write!(f, "{millis:.3}")
    }
}

/// A text that is not a point in time, or one that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a time from 1970 to 9999-12-30, as RFC 3339 has it: 2026-11-20T21:30:00Z")]
pub struct InvalidTimestamp;

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        text.parse::<jiff::Timestamp>()
            .map(|at| Self(at.as_microsecond()))
            .ok()
            .filter(|at| (0..=LAST).contains(&at.0))
            .ok_or(InvalidTimestamp)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, millisecond precision."))
            .examples(["2026-11-20T21:30:00.000Z"])
            .into()
    }
}

impl ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_is_written_with_exactly_three_decimals() {
        assert_eq!(
            Timestamp::from_micros(1_700_000_000_000_000).to_string(),
            "2023-11-14T22:13:20.000Z"
        );
        assert_eq!(
            Timestamp::from_micros(1_700_000_000_123_999).to_string(),
            "2023-11-14T22:13:20.123Z"
        );
    }

    #[test]
    fn a_time_out_of_range_is_refused_by_one_rule_as_text_and_in_json() {
        for fine in ["1970-01-01T00:00:00Z", "9999-12-30T00:00:00.000Z"] {
            let at = fine.parse::<Timestamp>().unwrap();
            assert_eq!(serde_json::from_value::<Timestamp>(fine.into()).unwrap(), at);
        }
        for wrong in [
            "1969-12-31T23:59:59.999Z",
            "9999-12-30T00:00:00.001Z",
            "9999-12-31T23:59:59.999Z",
            "2026-02-30T00:00:00Z",
            "2026-11-20",
            "",
        ] {
            assert_eq!(wrong.parse::<Timestamp>(), Err(InvalidTimestamp), "{wrong}");
            let error = serde_json::from_value::<Timestamp>(wrong.into()).unwrap_err();
            assert_eq!(error.to_string(), InvalidTimestamp.to_string(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_time_survives_its_text_to_the_millisecond(millis in 0_i64..=LAST / 1_000) {
            let at = Timestamp::from_micros(millis * 1_000);
            let text = serde_json::to_string(&at).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let back: Timestamp = serde_json::from_str(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(back, at);
        }
    }
}
