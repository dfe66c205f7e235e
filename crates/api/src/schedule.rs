//! Schedules (`docs/SCHEDULES.md`): the definition that a client sends, the saved record, the history of occurrences and the
//! preview of the next ones.
//!
//! Only the form is checked here: the engine checks times, names and limits.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    id::{RunId, ScheduleId},
    money::Micros,
    object::objects,
    request::Callback,
    time::Timestamp,
};

objects!(CreateSchedule UpdateSchedule);

/// Rule for an occurrence that comes while a run of the schedule is not final yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Starts another run while the earlier one continues.
    #[default]
    Allow,
    /// Skips the occurrence.
    Skip,
    /// Keeps one occurrence waiting until every earlier run is final; further ones are skipped.
    QueueOne,
    /// Starts another run and cancels the earlier ones.
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
    /// Name of the schedule, for people: 1 to 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 200,
        pattern = r"\S",
        example = "Daily report"
    )]
    pub name: Option<String>,
    /// Name of the saved workflow that the runs start from.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,99}$", example = "daily-report")]
    pub workflow: String,
    /// Cron expression: minute, hour, day of month, month and day of week, or `@hourly`, `@daily`, `@weekly`,
    /// `@monthly`, `@yearly`.
    #[schema(min_length = 1, max_length = 200, example = "30 7 * * MON-FRI")]
    pub cron: String,
    /// The IANA time zone of `cron`. Default `UTC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_length = 1, max_length = 64, example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// Task data of every run, kept as sent. Replaces that of the workflow. At most 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any_json)]
    pub input: Option<Box<RawValue>>,
    /// Whether the schedule is enabled. A disabled schedule does not fire. Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    /// Rule for occurrences that come while an earlier run is not final. Default `allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub overlap: Option<Overlap>,
    /// Maximum delay of an occurrence that still starts a run, in seconds. Missed occurrences within it become one run.
    /// Default 3600; 0 is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 2_592_000)]
    pub catch_up_window_seconds: Option<i64>,
    /// Maximum jitter in seconds. Each schedule uses a fixed offset between 0 and this value. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 3_600)]
    pub jitter_seconds: Option<i64>,
    /// Occurrences before this time are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paused_until: Option<Timestamp>,
    /// Number of consecutive runs without success after which the schedule is disabled. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 100)]
    pub max_consecutive_failures: Option<i64>,
    /// Budget of each run in micros, as in a run request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 100_000_000)]
    pub max_cost_micros: Option<i64>,
    /// Receiver of a signed request that is sent when a run is final.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// Body of `PATCH /v1/schedules/{id}`: absent fields stay as they are, `null` resets an optional field to its default.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct UpdateSchedule {
    /// Name of the schedule; `null` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = r"\S")]
    pub name: Option<Option<String>>,
    /// Name of the saved workflow that the runs start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^[a-z0-9][a-z0-9._-]{0,99}$")]
    pub workflow: Option<String>,
    /// Cron expression, as in a new schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_length = 1, max_length = 200)]
    pub cron: Option<String>,
    /// The IANA time zone of `cron`; `null` is `UTC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    pub timezone: Option<Option<String>>,
    /// Task data of every run; `null` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any_json)]
    pub input: Option<Option<Box<RawValue>>>,
    /// Whether the schedule is enabled; `null` is `true`. An enabled schedule continues with its next occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<bool>)]
    pub enabled: Option<Option<bool>>,
    /// Rule for occurrences that come while an earlier run is not final; `null` is `allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Overlap>)]
    pub overlap: Option<Option<Overlap>>,
    /// Maximum delay of an occurrence that still starts a run, in seconds; `null` is 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 2_592_000)]
    pub catch_up_window_seconds: Option<Option<i64>>,
    /// Maximum jitter in seconds; `null` is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 3_600)]
    pub jitter_seconds: Option<Option<i64>>,
    /// Occurrences before this time are skipped; `null` ends the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    pub paused_until: Option<Option<Timestamp>>,
    /// Number of consecutive runs without success after which the schedule is disabled; `null` is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 100)]
    pub max_consecutive_failures: Option<Option<i64>>,
    /// Budget of each run in micros; `null` leaves it to the workflow and the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 100_000_000)]
    pub max_cost_micros: Option<Option<i64>>,
    /// Receiver of a signed request that is sent when a run is final; `null` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Callback>)]
    pub callback: Option<Option<Callback>>,
}

/// Receiver of the callbacks of a schedule's runs; the secret is redacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallbackTarget {
    /// URL of the receiver.
    #[schema(example = "https://example.com/hooks/sortie")]
    pub url: String,
}

/// A schedule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// ID of the schedule.
    pub id: ScheduleId,
    /// Name of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Name of the saved workflow that the runs start from.
    pub workflow: String,
    /// Cron expression, as sent.
    pub cron: String,
    /// The IANA time zone of `cron`.
    pub timezone: String,
    /// Task data of every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any_json)]
    pub input: Option<Box<RawValue>>,
    /// Whether the schedule is enabled.
    pub enabled: bool,
    /// Rule for occurrences that come while an earlier run is not final.
    pub overlap: Overlap,
    /// Maximum delay of an occurrence that still starts a run, in seconds.
    #[schema(minimum = 0)]
    pub catch_up_window_seconds: i64,
    /// Maximum jitter in seconds.
    #[schema(minimum = 0)]
    pub jitter_seconds: i64,
    /// Occurrences before this time are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paused_until: Option<Timestamp>,
    /// Number of consecutive runs without success after which the schedule is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub max_consecutive_failures: Option<i64>,
    /// Budget of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_cost_micros: Option<Micros>,
    /// Receiver of a signed request that is sent when a run is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub callback: Option<CallbackTarget>,
    /// Time at which the next occurrence is processed; absent while the schedule is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_run_at: Option<Timestamp>,
    /// Time at which the schedule last started a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_run_at: Option<Timestamp>,
    /// ID of the run that the schedule started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_run_id: Option<RunId>,
    /// Reason why the last occurrence started no run, else why the last run did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_error: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change by a client.
    pub updated_at: Timestamp,
}

/// Page of schedules, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SchedulePage {
    /// The schedules.
    pub items: Vec<Schedule>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Trigger of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FireTrigger {
    /// The cron expression.
    Timetable,
    /// A manual trigger.
    Manual,
}

/// Outcome of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FireOutcome {
    /// The occurrence started a run.
    Started,
    /// The occurrence waits for an earlier run to end.
    Waiting,
    /// The occurrence started no run; `reason` says why.
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

/// A text that is not the outcome of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of started, waiting, skipped")]
pub struct UnknownFireOutcome;

/// Outcome of an occurrence of a schedule, or of many in a row that were missed at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fire {
    /// ID of the schedule; only in the history of all schedules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub schedule_id: Option<ScheduleId>,
    /// Scheduled time of the occurrence, without jitter; for a manual trigger, its time.
    pub instant: Timestamp,
    /// Trigger of the occurrence.
    pub trigger: FireTrigger,
    /// Outcome of the occurrence.
    pub outcome: FireOutcome,
    /// Reason why the occurrence was skipped: `overlap`, `paused`, `missed`, `coalesced`, `failures`, `disabled`,
    /// `budget`, `credits`, `suspended`, or `invalid: ` and the rule that the request of its run broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "overlap")]
    pub reason: Option<String>,
    /// ID of the run that the occurrence started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_id: Option<RunId>,
    /// Number of occurrences in this entry; absent for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 2)]
    pub instants: Option<i64>,
    /// Scheduled time of the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_instant: Option<Timestamp>,
    /// Time at which the entry was recorded.
    pub recorded_at: Timestamp,
}

/// Page of the history of one schedule or of all, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FirePage {
    /// The occurrences.
    pub items: Vec<Fire>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Occurrence to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextFire {
    /// Scheduled time of the occurrence, without jitter.
    pub instant: Timestamp,
    /// Time at which the run starts: later than `instant` by the schedule's jitter.
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
