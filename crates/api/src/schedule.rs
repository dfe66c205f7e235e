//! Schedules (decisions 4): what a client sends, the record it gets back, what became of each instant and what comes next.
//!
//! The form only: times, names and limits are checked by the engine.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    id::{RunId, ScheduleId},
    money::Micros,
    object::{objects, present},
    request::Callback,
    time::Timestamp,
};

objects!(CreateSchedule UpdateSchedule);

/// What happens when an instant comes while a run of the schedule is not final yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Another run starts beside it.
    #[default]
    Allow,
    /// The instant is skipped.
    Skip,
    /// One instant waits until every earlier run is final; further ones are skipped.
    QueueOne,
    /// The earlier runs are cancelled.
    CancelOther,
}

/// A text that is not an overlap policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of allow, skip, queue_one, cancel_other")]
pub struct UnknownOverlap;

impl Overlap {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Skip, Self::QueueOne, Self::CancelOther];

    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::QueueOne => "queue_one",
            Self::CancelOther => "cancel_other",
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Overlap {
    type Err = UnknownOverlap;

    fn from_str(text: &str) -> Result<Self, UnknownOverlap> {
        Self::ALL
            .into_iter()
            .find(|overlap| overlap.as_str() == text)
            .ok_or(UnknownOverlap)
    }
}

/// Body of `POST /v1/schedules`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateSchedule {
    /// What it is called, for people: 1 to 200 characters.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 200,
        pattern = r"\S",
        example = "Daily report"
    )]
    pub name: Option<String>,
    /// Name of the saved workflow that its runs start from.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,99}$", example = "daily-report")]
    pub workflow: String,
    /// When: minute, hour, day of month, month and day of week, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    #[schema(min_length = 1, max_length = 200, example = "30 7 * * MON-FRI")]
    pub cron: String,
    /// The IANA time zone of `cron`. Default `UTC`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_length = 1, max_length = 64, example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// Task data of every run, kept as sent; it takes the place of the workflow's. At most 1 MiB.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = any_json)]
    pub input: Option<Box<RawValue>>,
    /// Whether it has instants at all. Default `true`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    /// What happens while an earlier run is not final. Default `allow`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub overlap: Option<Overlap>,
    /// How late an instant may still start a run, in seconds; the missed instants within it become one run. Default 3600; 0 is never.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, minimum = 0, maximum = 2_592_000)]
    pub catch_up_window_seconds: Option<i64>,
    /// Every run starts later by a part of this, in seconds, that is always the same for one schedule. Default 0.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, minimum = 0, maximum = 3_600)]
    pub jitter_seconds: Option<i64>,
    /// Instants before this time are skipped.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub paused_until: Option<Timestamp>,
    /// Switches the schedule off when so many runs in a row did not succeed. Default: never.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, minimum = 1, maximum = 100)]
    pub max_consecutive_failures: Option<i64>,
    /// Budget of each run in micros, as in a run request.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, minimum = 1, maximum = 100_000_000)]
    pub max_cost_micros: Option<i64>,
    /// Where a signed request is sent when a run is final.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub callback: Option<Callback>,
}

/// `input` may be any JSON. An empty schema, because generators of clients stumble over the boolean one.
fn any_json() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
        .description(Some("Task data of every run, kept as sent. At most 1 MiB."))
        .build()
}

/// Reads a field that may be absent (unchanged), `null` (back to its default) or a value.
// The outer option is the presence of the field, the inner one its value: three states, and no type says so shorter.
#[expect(
    clippy::option_option,
    reason = "absent, null and a value are three things in a patch"
)]
fn patched<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Body of `PATCH /v1/schedules/{id}`: what is absent stays, `null` puts an optional field back to its default.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct UpdateSchedule {
    /// What it is called; `null` takes the name away.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = r"\S")]
    pub name: Option<Option<String>>,
    /// Name of the saved workflow that its runs start from.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, pattern = "^[a-z0-9][a-z0-9._-]{0,99}$")]
    pub workflow: Option<String>,
    /// When, as in a new schedule.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, min_length = 1, max_length = 200)]
    pub cron: Option<String>,
    /// The IANA time zone of `cron`; `null` is `UTC`.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    pub timezone: Option<Option<String>>,
    /// Task data of every run; `null` takes it away.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = any_json)]
    pub input: Option<Option<Box<RawValue>>>,
    /// Whether it has instants at all; `null` is `true`. Switched on again, it begins with the next instant.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<bool>)]
    pub enabled: Option<Option<bool>>,
    /// What happens while an earlier run is not final; `null` is `allow`.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Overlap>)]
    pub overlap: Option<Option<Overlap>>,
    /// How late an instant may still start a run, in seconds; `null` is 3600.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 2_592_000)]
    pub catch_up_window_seconds: Option<Option<i64>>,
    /// The most that runs start later, in seconds; `null` is 0.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 3_600)]
    pub jitter_seconds: Option<Option<i64>>,
    /// Instants before this time are skipped; `null` ends the pause.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Timestamp>)]
    pub paused_until: Option<Option<Timestamp>>,
    /// Switches the schedule off when so many runs in a row did not succeed; `null` is never.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 100)]
    pub max_consecutive_failures: Option<Option<i64>>,
    /// Budget of each run in micros; `null` leaves it to the workflow and the engine.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 100_000_000)]
    pub max_cost_micros: Option<Option<i64>>,
    /// Where a signed request is sent when a run is final; `null` is nowhere.
    #[serde(
        default,
        deserialize_with = "patched",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Callback>)]
    pub callback: Option<Option<Callback>>,
}

/// Where the callbacks of a schedule's runs go; the secret is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallbackTarget {
    /// The receiver.
    #[schema(example = "https://example.com/hooks/sortie")]
    pub url: String,
}

/// A schedule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// The saved workflow that its runs start from.
    pub workflow: String,
    /// When, as sent.
    pub cron: String,
    /// The IANA time zone of `cron`.
    pub timezone: String,
    /// Task data of every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any_json)]
    pub input: Option<Box<RawValue>>,
    /// Whether it has instants at all.
    pub enabled: bool,
    /// What happens while an earlier run is not final.
    pub overlap: Overlap,
    /// How late an instant may still start a run, in seconds.
    #[schema(minimum = 0)]
    pub catch_up_window_seconds: i64,
    /// The most that runs start later, in seconds.
    #[schema(minimum = 0)]
    pub jitter_seconds: i64,
    /// Instants before this time are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paused_until: Option<Timestamp>,
    /// It is switched off when so many runs in a row did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub max_consecutive_failures: Option<i64>,
    /// Budget of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_cost_micros: Option<Micros>,
    /// Where a signed request is sent when a run is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub callback: Option<CallbackTarget>,
    /// When the next instant of its timetable is dealt with; absent while it is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_run_at: Option<Timestamp>,
    /// When it last started a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_run_at: Option<Timestamp>,
    /// The run that it started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_run_id: Option<RunId>,
    /// Why the last instant could start no run, else why the last run did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_error: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed by somebody.
    pub updated_at: Timestamp,
}

/// One page of schedules, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SchedulePage {
    /// The schedules.
    pub items: Vec<Schedule>,
    /// What `cursor` takes for the next page; empty on the last one.
    pub next_cursor: String,
}

/// What made an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FireTrigger {
    /// The timetable.
    Timetable,
    /// A start by hand.
    Manual,
}

/// What became of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FireOutcome {
    /// It started a run.
    Started,
    /// It waits for an earlier run to end.
    Waiting,
    /// It started none; `reason` says why.
    Skipped,
}

impl FireOutcome {
    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
        }
    }
}

impl FromStr for FireOutcome {
    type Err = UnknownFireOutcome;

    fn from_str(text: &str) -> Result<Self, UnknownFireOutcome> {
        [Self::Started, Self::Waiting, Self::Skipped]
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
            .ok_or(UnknownFireOutcome)
    }
}

/// A text that is not the outcome of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of started, waiting, skipped")]
pub struct UnknownFireOutcome;

/// What became of an instant of a schedule, or of many in a row that were missed at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fire {
    /// The instant of the timetable, without the jitter; of a start by hand, its time.
    pub instant: Timestamp,
    /// What made it.
    pub trigger: FireTrigger,
    /// What became of it.
    pub outcome: FireOutcome,
    /// Why it was skipped: `overlap`, `paused`, `missed`, `coalesced`, `failures`, `disabled`, `budget`, or `invalid: ` and the
    /// rule that the request of its run broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "overlap")]
    pub reason: Option<String>,
    /// The run it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_id: Option<RunId>,
    /// How many instants this stands for; absent for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 2)]
    pub instants: Option<i64>,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_instant: Option<Timestamp>,
    /// When this was recorded.
    pub recorded_at: Timestamp,
}

/// One page of a schedule's history, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FirePage {
    /// The instants.
    pub items: Vec<Fire>,
    /// What `cursor` takes for the next page; empty on the last one.
    pub next_cursor: String,
}

/// An instant that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextFire {
    /// The instant of the timetable.
    pub instant: Timestamp,
    /// When its run starts: later than `instant` by the schedule's jitter.
    pub run_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(body: &str) -> Result<UpdateSchedule, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    #[test]
    fn a_patch_tells_absent_null_and_a_value_apart() {
        let read = patch(r#"{"name":null,"timezone":"UTC"}"#).unwrap();
        assert_eq!(read.name, Some(None));
        assert_eq!(read.timezone, Some(Some("UTC".to_owned())));
        assert_eq!(read.overlap, None);
        assert!(read.input.is_none());
        assert!(matches!(patch(r#"{"input":null}"#).unwrap().input, Some(None)));
    }

    #[test]
    fn what_a_schedule_must_have_cannot_be_taken_away() {
        for body in [r#"{"workflow":null}"#, r#"{"cron":null}"#] {
            assert!(patch(body).unwrap_err().contains("invalid type: null"));
        }
        assert!(
            patch(r#"{"crom":"x"}"#)
                .unwrap_err()
                .contains("unknown field `crom`")
        );
    }

    #[test]
    fn a_new_schedule_takes_no_null() {
        let read = serde_json::from_str::<CreateSchedule>(r#"{"workflow":"a","cron":"@daily","name":null}"#);
        assert!(read.unwrap_err().to_string().contains("invalid type: null"));
        let read = serde_json::from_str::<CreateSchedule>(r#"{"workflow":"a"}"#);
        assert!(read.unwrap_err().to_string().contains("missing field `cron`"));
    }

    #[test]
    fn names_are_read_back() {
        for overlap in Overlap::ALL {
            assert_eq!(overlap.as_str().parse(), Ok(overlap));
            assert_eq!(serde_json::to_string(&overlap).unwrap(), format!("\"{overlap}\""));
        }
        assert_eq!("x".parse::<Overlap>(), Err(UnknownOverlap));
        assert_eq!("waiting".parse(), Ok(FireOutcome::Waiting));
        assert_eq!("x".parse::<FireOutcome>(), Err(UnknownFireOutcome));
    }
}
