//! Schedules, and the outcome of each of their occurrences. This crate does not evaluate timetables: the
//! caller passes the next occurrence.
//!
//! `revision` counts the writes of a schedule. A caller that changes a schedule, or processes its
//! occurrences, passes the revision that it has read. If that is not the newest, nothing changes. Only one
//! node can therefore process an occurrence. A row of `fire` and the run that it names are written in one
//! transaction, which also advances the schedule.

mod expire;
mod fire;
mod read;
mod replaced;
mod save;

pub use fire::{FireRow, Fires, ScheduleFireRow};
pub use read::Due;
pub use replaced::ReplacedRun;
pub use save::SaveSchedule;

use sortie_api::{Micros, OrgId, RunId, ScheduleId, Timestamp, schedule::Overlap};

use crate::db::{Val, row, vals};

/// Definition of a schedule, as a client sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// Name of the schedule.
    pub name: Option<String>,
    /// Saved workflow that the runs start from.
    pub workflow: String,
    /// Cron expression, as sent.
    pub cron: String,
    /// IANA name of the time zone.
    pub timezone: String,
    /// Task data of the runs, as JSON.
    pub input: Option<String>,
    /// Rule for an occurrence while an earlier run is not final.
    pub overlap: Overlap,
    /// Maximum delay with which an occurrence may still start a run, in seconds.
    pub catch_up_window_seconds: i64,
    /// Maximum jitter in seconds.
    pub jitter_seconds: i64,
    /// Time before which occurrences are skipped.
    pub paused_until: Option<Timestamp>,
    /// Number of unsuccessful runs in a row after which the schedule is disabled.
    pub max_consecutive_failures: Option<i64>,
    /// Budget of each run.
    pub max_cost: Option<Micros>,
    /// Receiver of the callbacks of the runs.
    pub callback: Option<SealedCallback>,
}

/// Receiver of callbacks, with a secret that this crate cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedCallback {
    /// URL of the receiver.
    pub url: String,
    /// Sealed key of the signature.
    pub secret: Vec<u8>,
}

/// State of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// Whether the schedule is enabled.
    pub enabled: bool,
    /// First occurrence without a record; `None` while the schedule is disabled.
    pub next: Option<NextOccurrence>,
    /// Last occurrence with a record, or the creation time of the schedule.
    pub handled: Timestamp,
    /// Occurrence that waits for an earlier run to end.
    pub waiting: Option<Timestamp>,
    /// Time before which runs do not count as failures in a row.
    pub failures_since: Timestamp,
    /// Time at which the schedule last started a run.
    pub last_run_at: Option<Timestamp>,
    /// Run that the schedule started last.
    pub last_run: Option<RunId>,
    /// Reason why the last occurrence could start no run.
    pub last_error: Option<String>,
}

/// Next occurrence of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextOccurrence {
    /// Scheduled time in the timetable.
    pub instant: Timestamp,
    /// Time at which the occurrence is processed: later by the jitter.
    pub due_at: Timestamp,
}

/// Schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Id of the schedule.
    pub id: ScheduleId,
    /// Organization that owns the schedule.
    pub org: OrgId,
    /// Definition of the schedule.
    pub spec: ScheduleSpec,
    /// Current state of the schedule.
    pub state: ScheduleState,
    /// Reason why the last run did not succeed.
    pub last_run_error: Option<String>,
    /// Number of writes of the row.
    pub revision: i64,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change by a client.
    pub updated_at: Timestamp,
}

row! {
    /// Row of a schedule `s`. `@input` is the column of its input.
    struct StoredSchedule {
        id: ScheduleId = "s.id",
        org: OrgId = "s.org_id",
        name: Option<String> = "s.name",
        workflow: String = "s.workflow",
        cron: String = "s.cron",
        timezone: String = "s.timezone",
        input: Option<String> = "@input",
        overlap: Overlap = "s.overlap",
        catch_up_window_seconds: i64 = "s.catch_up_window_seconds",
        jitter_seconds: i64 = "s.jitter_seconds",
        paused_until: Option<Timestamp> = "s.paused_until",
        max_consecutive_failures: Option<i64> = "s.max_consecutive_failures",
        max_cost: Option<Micros> = "s.max_cost_micros",
        callback_url: Option<String> = "s.callback_url",
        callback_secret: Option<Vec<u8>> = "s.callback_secret",
        enabled: bool = "s.enabled",
        next_instant: Option<Timestamp> = "s.next_instant",
        due_at: Option<Timestamp> = "s.due_at",
        handled: Timestamp = "s.handled_instant",
        waiting: Option<Timestamp> = "s.waiting_instant",
        failures_since: Timestamp = "s.failures_since",
        last_run_at: Option<Timestamp> = "s.last_run_at",
        last_run: Option<RunId> = "s.last_run_id",
        last_error: Option<String> = "s.last_error",
        revision: i64 = "s.revision",
        created_at: Timestamp = "s.created_at",
        updated_at: Timestamp = "s.updated_at",
        last_run_error: Option<String> = "(SELECT r.error FROM run r WHERE r.id = s.last_run_id)",
    }
}

/// Schedule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSchedule {
    /// The schedule.
    pub schedule: ScheduleRow,
    /// Whether the schedule has an input that is left out here.
    pub has_large_input: bool,
}

impl From<StoredSchedule> for ScheduleRow {
    fn from(row: StoredSchedule) -> Self {
        let callback = row.callback_url.zip(row.callback_secret);
        let next = row.next_instant.zip(row.due_at);
        Self {
            id: row.id,
            org: row.org,
            spec: ScheduleSpec {
                name: row.name,
                workflow: row.workflow,
                cron: row.cron,
                timezone: row.timezone,
                input: row.input,
                overlap: row.overlap,
                catch_up_window_seconds: row.catch_up_window_seconds,
                jitter_seconds: row.jitter_seconds,
                paused_until: row.paused_until,
                max_consecutive_failures: row.max_consecutive_failures,
                max_cost: row.max_cost,
                callback: callback.map(|(url, secret)| SealedCallback { url, secret }),
            },
            state: ScheduleState {
                enabled: row.enabled,
                next: next.map(|(instant, due_at)| NextOccurrence { instant, due_at }),
                handled: row.handled,
                waiting: row.waiting,
                failures_since: row.failures_since,
                last_run_at: row.last_run_at,
                last_run: row.last_run,
                last_error: row.last_error,
            },
            last_run_error: row.last_run_error,
            revision: row.revision,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl ScheduleState {
    /// Values of `enabled`, `next_instant`, `due_at`, `handled_instant`, `waiting_instant`, `failures_since`,
    /// `last_run_at`, `last_run_id`, `last_error`.
    fn values(&self) -> Vec<Val<'_>> {
        vals![
            i64::from(self.enabled),
            self.next.map(|next| next.instant),
            self.next.map(|next| next.due_at),
            self.handled,
            self.waiting,
            self.failures_since,
            self.last_run_at,
            self.last_run,
            self.last_error.as_deref()
        ]
    }
}

impl ScheduleSpec {
    /// Values of `name`, `workflow`, `cron`, `timezone`, `input`, `overlap`, `catch_up_window_seconds`,
    /// `jitter_seconds`, `paused_until`, `max_consecutive_failures`, `max_cost_micros`, `callback_url`,
    /// `callback_secret`.
    fn values(&self) -> Vec<Val<'_>> {
        let callback = self.callback.as_ref();
        vals![
            self.name.as_deref(),
            self.workflow.as_str(),
            self.cron.as_str(),
            self.timezone.as_str(),
            self.input.as_deref(),
            self.overlap,
            self.catch_up_window_seconds,
            self.jitter_seconds,
            self.paused_until,
            self.max_consecutive_failures,
            self.max_cost,
            callback.map(|callback| callback.url.as_str()),
            callback.map(|callback| callback.secret.as_slice())
        ]
    }
}
