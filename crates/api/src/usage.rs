//! Usage of an organization, by day and by the origin of its runs.

use std::{fmt, str::FromStr};

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema,
        schema::{KnownFormat, SchemaFormat, Type},
    },
};

use crate::{id::KeyId, money::Micros, run::RunUsage, time::Timestamp};

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// 9999-12-31.
const LAST_DAY: i64 = 2_932_896;

/// A day in UTC, from 1970-01-01 to 9999-12-31; on the wire `2026-11-20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Day(i64);

/// A text that is not a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a day from 1970-01-01 to 9999-12-31, as in 2026-11-20")]
pub struct InvalidDay;

impl Day {
    /// The day of a point in time; the first or last one for points beyond.
    pub const fn of(at: Timestamp) -> Self {
        Self::clamped(at.as_micros().div_euclid(DAY_MICROS))
    }

    /// The day with this [`number`](Self::number).
    pub fn from_number(number: i64) -> Result<Self, InvalidDay> {
        (0..=LAST_DAY)
            .contains(&number)
            .then_some(Self(number))
            .ok_or(InvalidDay)
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns the first moment of the day.
    pub const fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0 * DAY_MICROS)
    }

    /// The first moment of the day after it.
    pub const fn end(self) -> Timestamp {
        Timestamp::from_micros((self.0 + 1) * DAY_MICROS)
    }

    /// The day so many days later or earlier, limited to the first and the last day.
    #[must_use]
    pub const fn plus(self, days: i64) -> Self {
        Self::clamped(self.0.saturating_add(days))
    }

    /// The first day of its month.
    #[must_use]
    pub fn month(self) -> Self {
        Self::from_date(self.date().first_of_month())
    }

    /// The first day of the month after its own.
    #[must_use]
    pub fn next_month(self) -> Self {
        Self::from_date(self.date().last_of_month()).plus(1)
    }

    const fn clamped(number: i64) -> Self {
        if number < 0 {
            Self(0)
        } else if number > LAST_DAY {
            Self(LAST_DAY)
        } else {
            Self(number)
        }
    }

    fn date(self) -> Date {
        Date::constant(1970, 1, 1).saturating_add(jiff::Span::new().days(self.0))
    }

    fn from_date(date: Date) -> Self {
        let since = Date::constant(1970, 1, 1).duration_until(date);
        Self::clamped(since.as_secs().div_euclid(86_400))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.date(), f)
    }
}

impl FromStr for Day {
    type Err = InvalidDay;

    fn from_str(text: &str) -> Result<Self, InvalidDay> {
        let day = text.parse().map(Self::from_date).map_err(|_| InvalidDay)?;
        // The parser accepts other spellings and dates before 1970: only the canonical form of a day in the range survives the
        // round trip.
        if day.to_string() == text {
            Ok(day)
        } else {
            Err(InvalidDay)
        }
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

impl TryFrom<String> for Day {
    type Error = InvalidDay;

    fn try_from(text: String) -> Result<Self, InvalidDay> {
        text.parse()
    }
}

impl PartialSchema for Day {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)))
            .description(Some("A day in UTC."))
            .examples(["2026-11-20"])
            .into()
    }
}

impl ToSchema for Day {}

/// Dimension by which usage is grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageDimension {
    /// The day, in UTC, on which a run was created.
    Day,
    /// The saved workflow that a run was started from.
    Workflow,
    /// The model of a run.
    Model,
    /// The API key that a run was started with.
    Key,
}

/// A text that is no dimension of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one or more of day, workflow, model, key, separated by commas")]
pub struct UnknownDimension;

impl UsageDimension {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Workflow => "workflow",
            Self::Model => "model",
            Self::Key => "key",
        }
    }
}

impl FromStr for UsageDimension {
    type Err = UnknownDimension;

    fn from_str(text: &str) -> Result<Self, UnknownDimension> {
        [Self::Day, Self::Workflow, Self::Model, Self::Key]
            .into_iter()
            .find(|dimension| dimension.as_str() == text)
            .ok_or(UnknownDimension)
    }
}

/// Sums over runs. Runs that are not settled yet count with their cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageFigures {
    /// Runs that were created.
    #[schema(minimum = 0)]
    pub runs: i64,
    /// Runs that succeeded.
    #[schema(minimum = 0)]
    pub succeeded: i64,
    /// Cost of the runs.
    pub cost_micros: Micros,
    /// Tokens and calls that the runs used.
    pub usage: RunUsage,
}

impl UsageFigures {
    /// Adds `other` to these. Sums stay at the greatest number where they would exceed it.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
        add(&mut self.runs, other.runs);
        add(&mut self.succeeded, other.succeeded);
        let cost = self.cost_micros.checked_add(other.cost_micros);
        self.cost_micros = cost.unwrap_or_else(|| Micros::new(i64::MAX.unsigned_abs()).unwrap_or_default());
        let (sum, more) = (&mut self.usage, &other.usage);
        add(&mut sum.input_tokens, more.input_tokens);
        add(&mut sum.output_tokens, more.output_tokens);
        add(&mut sum.cache_read_tokens, more.cache_read_tokens);
        add(&mut sum.cache_write_tokens, more.cache_write_tokens);
        add(&mut sum.model_calls, more.model_calls);
        add(&mut sum.tool_calls, more.tool_calls);
    }
}

/// Usage of one group of runs. A dimension is absent if it was not requested or the runs have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Day on which the runs were created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub day: Option<Day>,
    /// Name of the saved workflow that the runs were started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub workflow: Option<String>,
    /// Model of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// ID of the key that the runs were started with; it may be deleted by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<KeyId>,
    /// Runs that were created.
    #[schema(minimum = 0)]
    pub runs: i64,
    /// Runs that succeeded.
    #[schema(minimum = 0)]
    pub succeeded: i64,
    /// Cost of the runs.
    pub cost_micros: Micros,
    /// Tokens and calls that the runs used.
    pub usage: RunUsage,
}

impl UsageRow {
    /// Returns the sums of the row.
    pub const fn figures(&self) -> UsageFigures {
        UsageFigures {
            runs: self.runs,
            succeeded: self.succeeded,
            cost_micros: self.cost_micros,
            usage: self.usage,
        }
    }
}

/// Answer of `GET /v1/usage` and `GET /v1/admin/usage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The first day.
    pub from: Day,
    /// The last day.
    pub to: Day,
    /// Dimensions by which the rows are grouped.
    pub by: Vec<UsageDimension>,
    /// Rows, sorted by dimension; empty if no run matches.
    pub rows: Vec<UsageRow>,
    /// The sums of all rows.
    pub totals: UsageFigures,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_day_has_one_form() {
        assert_eq!("1970-01-01".parse(), Ok(Day(0)));
        assert_eq!(
            "2024-02-29".parse::<Day>().map(|day| day.plus(1).to_string()),
            Ok("2024-03-01".to_owned())
        );
        assert_eq!("9999-12-31".parse(), Ok(Day(LAST_DAY)));
        for wrong in [
            "",
            "2026",
            "2026-11",
            "2026-11-20T00:00:00",
            "20261120",
            "2026-02-29",
            "2026-13-01",
            "1969-12-31",
            "+002026-11-20",
            "2026-1-1",
            " 2026-11-20",
            "10000-01-01",
        ] {
            assert_eq!(wrong.parse::<Day>(), Err(InvalidDay), "{wrong:?}");
        }
    }

    #[test]
    fn a_month_begins_on_its_first_day() {
        for (day, month, next) in [
            ("2026-11-20", "2026-11-01", "2026-12-01"),
            ("2026-12-31", "2026-12-01", "2027-01-01"),
            ("2024-02-29", "2024-02-01", "2024-03-01"),
            ("1970-01-01", "1970-01-01", "1970-02-01"),
        ] {
            let read: Day = day.parse().unwrap();
            assert_eq!(
                (read.month().to_string(), read.next_month().to_string()),
                (month.to_owned(), next.to_owned())
            );
        }
    }

    proptest! {
        #[test]
        fn a_day_survives_its_text_and_holds_its_moments(number in 0..=LAST_DAY, within in 0..DAY_MICROS) {
            let day = Day::from_number(number).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(day.to_string().parse(), Ok(day));
            prop_assert_eq!(Day::of(Timestamp::from_micros(day.start().as_micros() + within)), day);
            prop_assert_eq!(day.end(), Timestamp::from_micros(day.start().as_micros() + DAY_MICROS));
            prop_assert!(day.month() <= day && day < day.next_month() || number == LAST_DAY);
        }

        #[test]
        fn no_time_and_no_text_makes_it_panic(micros: i64, days: i64, text in "\\PC{0,12}") {
            let day = Day::of(Timestamp::from_micros(micros)).plus(days);
            prop_assert!((0..=LAST_DAY).contains(&day.number()));
            let _read = text.parse::<Day>();
        }
    }
}
