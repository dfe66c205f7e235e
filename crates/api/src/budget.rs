//! Budgets: cost limits for the runs of an organization, a workflow, a schedule or a key per day or month.
//!
//! A budget is identified by its scope. Its windows are days and calendar months in UTC; a run counts in the window of its
//! creation, regardless of when it ends.

use std::{fmt, str::FromStr};

use jiff::{
    civil::{Date, Time},
    tz::Offset,
};
use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use crate::{
    id::{KeyId, ScheduleId},
    limits,
    money::Micros,
    object::objects,
    time::Timestamp,
};

/// Runs that a budget covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum BudgetScope {
    /// Every run of the organization.
    Organization,
    /// Runs that were started from the workflow of this name.
    Workflow(String),
    /// Runs that this schedule started.
    Schedule(ScheduleId),
    /// Runs that were started with this API key.
    Key(KeyId),
}

/// A text that names no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be organization, workflow:NAME, schedule:ID or key:ID")]
pub struct InvalidScope;

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organization => f.write_str("organization"),
            Self::Workflow(name) => write!(f, "workflow:{name}"),
            Self::Schedule(id) => write!(f, "schedule:{id}"),
            Self::Key(id) => write!(f, "key:{id}"),
        }
    }
}

impl FromStr for BudgetScope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let Some((kind, of)) = text.split_once(':') else {
            return (text == "organization")
                .then_some(Self::Organization)
                .ok_or(InvalidScope);
        };
        match kind {
            "workflow" if limits::is_name(of) => Ok(Self::Workflow(of.to_owned())),
            "schedule" => of.parse().map(Self::Schedule).map_err(|_| InvalidScope),
            "key" => of.parse().map(Self::Key).map_err(|_| InvalidScope),
            _ => Err(InvalidScope),
        }
    }
}

impl From<BudgetScope> for String {
    fn from(scope: BudgetScope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for BudgetScope {
    type Error = InvalidScope;

    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

impl PartialSchema for BudgetScope {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(
                "Scope of the budget: `organization`, `workflow:NAME`, `schedule:ID` or `key:ID`.",
            ))
            .pattern(Some(
                "^(organization|workflow:[a-z0-9][a-z0-9._-]{0,99}|schedule:sched_[0-7][0-9a-hjkmnp-tv-z]{25}|\
                 key:key_[0-7][0-9a-hjkmnp-tv-z]{25})$",
            ))
            .examples(["workflow:nightly-report"])
            .into()
    }
}

impl ToSchema for BudgetScope {}

/// Length of a budget's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    /// A day in UTC.
    Day,
    /// A calendar month in UTC.
    Month,
}

/// A text that is not a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be day or month")]
pub struct UnknownPeriod;

impl BudgetPeriod {
    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The beginning of the window that `at` is in, and that of the next one. Nothing for times that no calendar has.
    pub fn window(self, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
        let day = Offset::UTC.to_datetime(at).date();
        let (start, next) = match self {
            Self::Day => (day, day.tomorrow().ok()?),
            Self::Month => (day.first_of_month(), day.last_of_month().tomorrow().ok()?),
        };
        let midnight = |day: Date| {
            let at = Offset::UTC.to_timestamp(day.to_datetime(Time::midnight())).ok()?;
            Some(Timestamp::from_micros(at.as_microsecond()))
        };
        Some((midnight(start)?, midnight(next)?))
    }
}

impl fmt::Display for BudgetPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for BudgetPeriod {
    type Err = UnknownPeriod;

    fn from_str(text: &str) -> Result<Self, UnknownPeriod> {
        match text {
            "day" => Ok(Self::Day),
            "month" => Ok(Self::Month),
            _ => Err(UnknownPeriod),
        }
    }
}

objects!(PutBudget);

/// Body of `PUT /v1/budgets/{scope}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PutBudget {
    /// Maximum cost of the runs of one window, in micros: 0 to 1000000000000000. With 0 every run is refused.
    #[serde(deserialize_with = "limit")]
    #[schema(value_type = i64, minimum = 0, maximum = 1_000_000_000_000_000_i64, example = 50_000_000)]
    pub limit_micros: Micros,
    /// Length of a window.
    pub period: BudgetPeriod,
}

/// An amount that a budget may have.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
    let micros = i64::deserialize(deserializer)?;
    Micros::try_from(micros)
        .ok()
        .filter(|limit| limit.get() <= limits::BUDGET_MICROS)
        .ok_or_else(|| de::Error::custom(format_args!("must be from 0 to {}", limits::BUDGET_MICROS)))
}

/// A budget and its window now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// Runs that the budget covers.
    pub scope: BudgetScope,
    /// Maximum cost of the runs of one window, in micros.
    #[schema(value_type = i64, minimum = 0, maximum = 1_000_000_000_000_000_i64, example = 50_000_000)]
    pub limit_micros: Micros,
    /// Length of a window.
    pub period: BudgetPeriod,
    /// Cost of the settled runs of this window, in micros.
    #[schema(example = 12_500_000)]
    pub spent_micros: Micros,
    /// Amount held for the unsettled runs of this window, in micros: the whole budget of each.
    #[schema(example = 2_000_000)]
    pub held_micros: Micros,
    /// Maximum budget of a new run, in micros; 0 where a lowered limit is exceeded.
    #[schema(example = 35_500_000)]
    pub available_micros: Micros,
    /// Time at which the next window begins.
    pub resets_at: Timestamp,
    /// Time at which the budget was first set.
    pub created_at: Timestamp,
    /// Time at which the budget was last set.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(period: BudgetPeriod, at: &str) -> (String, String) {
        let at = at.parse::<jiff::Timestamp>().unwrap().as_microsecond();
        let (start, next) = period.window(Timestamp::from_micros(at)).unwrap();
        (start.to_string(), next.to_string())
    }

    #[test]
    fn windows_are_days_and_calendar_months_in_utc() {
        let day =
            |start: &str, next: &str| (format!("{start}T00:00:00.000Z"), format!("{next}T00:00:00.000Z"));
        let at = "2024-02-29T23:59:59.999999Z";
        assert_eq!(window(BudgetPeriod::Day, at), day("2024-02-29", "2024-03-01"));
        assert_eq!(window(BudgetPeriod::Month, at), day("2024-02-01", "2024-03-01"));
        let at = "2026-12-31T00:00:00Z";
        assert_eq!(window(BudgetPeriod::Day, at), day("2026-12-31", "2027-01-01"));
        assert_eq!(window(BudgetPeriod::Month, at), day("2026-12-01", "2027-01-01"));
        assert_eq!(BudgetPeriod::Day.window(Timestamp::from_micros(i64::MAX)), None);
    }

    #[test]
    fn only_the_four_kinds_of_scopes_are_read() {
        for text in [
            "organization",
            "workflow:nightly.report-2_x",
            "schedule:sched_01hf7yat00e0080000000000aa",
            "key:key_01hf7yat00e0080000000000aa",
        ] {
            assert_eq!(text.parse::<BudgetScope>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "Organization",
            "organization:",
            "workflow",
            "workflow:",
            "workflow:Nightly",
            "workflow:a:b",
            "schedule:key_01hf7yat00e0080000000000aa",
            "key:sched_01hf7yat00e0080000000000aa",
            "run:run_01hf7yat00e0080000000000aa",
        ] {
            assert_eq!(text.parse::<BudgetScope>(), Err(InvalidScope), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_is_in_its_window_and_the_next_begins_where_it_ends(micros in 0_i64..253_370_764_800_000_000) {
            let at = Timestamp::from_micros(micros);
            for period in [BudgetPeriod::Day, BudgetPeriod::Month] {
                let (start, next) = period.window(at).unwrap();
                prop_assert!(start <= at && at < next);
                prop_assert_eq!(period.window(start), Some((start, next)));
                prop_assert_eq!(period.window(next).unwrap().0, next);
            }
        }

        #[test]
        fn any_text_is_refused_or_read_exactly(text in "(organization|workflow:|schedule:|key:|)\\PC{0,40}") {
            if let Ok(scope) = text.parse::<BudgetScope>() {
                prop_assert_eq!(scope.to_string(), text);
            }
        }
    }
}
