//! Schedules, and the outcome of each of their occurrences. This crate does not know timetables: the caller
//! says which occurrence is next.
//!
//! `revision` counts the writes of a schedule. A caller that changes a schedule, or processes its
//! occurrences, passes the revision that it has seen. If that is not the newest, nothing changes. Of any
//! number of nodes, only one therefore processes an occurrence. A row of `fire` and the run that it names are
//! written in one transaction, which also moves the schedule on.

mod expire;
mod fire;
mod read;
mod replaced;
mod save;

pub use fire::{FireRow, Fires};
pub use read::Due;
pub use replaced::ReplacedRun;
pub use save::SaveSchedule;

use sortie_api::{
    Micros, OrgId, RunId, ScheduleId, Timestamp,
    schedule::{FireOutcome, Overlap},
};

use crate::{
    Error, Result,
    db::{Row, Val, vals},
};

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

/// Columns that [`schedule_from`] reads, in this order.
macro_rules! schedule_columns {
    () => {
        schedule_columns!("s.input")
    };
    ($input:expr) => {
        concat!(
            "s.id, s.org_id, s.name, s.workflow, s.cron, s.timezone, ",
            $input,
            ", s.overlap, s.catch_up_window_seconds, \
         s.jitter_seconds, s.paused_until, s.max_consecutive_failures, s.max_cost_micros, s.callback_url, \
         s.callback_secret, s.enabled, s.next_instant, s.due_at, s.handled_instant, s.waiting_instant, \
         s.failures_since, s.last_run_at, s.last_run_id, s.last_error, s.revision, s.created_at, s.updated_at, \
         (SELECT r.error FROM run r WHERE r.id = s.last_run_id)"
        )
    };
}
use schedule_columns;

/// Schedule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSchedule {
    /// The schedule.
    pub schedule: ScheduleRow,
    /// Whether the schedule has an input that is left out here.
    pub has_large_input: bool,
}

fn schedule_from(row: &Row) -> Result<ScheduleRow> {
    Ok(ScheduleRow {
        id: row.parse(0)?,
        org: row.parse(1)?,
        spec: spec_from(row)?,
        state: state_from(row)?,
        revision: row.int(24)?,
        created_at: row.time(25)?,
        updated_at: row.time(26)?,
        last_run_error: row.opt_text(27)?.map(str::to_owned),
    })
}

fn spec_from(row: &Row) -> Result<ScheduleSpec> {
    let callback = match (row.opt_text(13)?, row.opt_blob(14)?) {
        (Some(url), Some(secret)) => Some(SealedCallback {
            url: url.to_owned(),
            secret: secret.to_vec(),
        }),
        _ => None,
    };
    let max_cost = row.opt_int(12)?.map(Micros::try_from).transpose();
    Ok(ScheduleSpec {
        name: row.opt_text(2)?.map(str::to_owned),
        workflow: row.text(3)?.to_owned(),
        cron: row.text(4)?.to_owned(),
        timezone: row.text(5)?.to_owned(),
        input: row.opt_text(6)?.map(str::to_owned),
        overlap: row.parse(7)?,
        catch_up_window_seconds: row.int(8)?,
        jitter_seconds: row.int(9)?,
        paused_until: row.opt_time(10)?,
        max_consecutive_failures: row.opt_int(11)?,
        max_cost: max_cost
            .map_err(|_| Error::Corrupt("the budget of a schedule is not an amount".to_owned()))?,
        callback,
    })
}

fn state_from(row: &Row) -> Result<ScheduleState> {
    let next = match (row.opt_time(16)?, row.opt_time(17)?) {
        (Some(instant), Some(due_at)) => Some(NextOccurrence { instant, due_at }),
        _ => None,
    };
    Ok(ScheduleState {
        enabled: row.int(15)? != 0,
        next,
        handled: row.time(18)?,
        waiting: row.opt_time(19)?,
        failures_since: row.time(20)?,
        last_run_at: row.opt_time(21)?,
        last_run: row.opt_parse(22)?,
        last_error: row.opt_text(23)?.map(str::to_owned),
    })
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
            self.overlap.as_str(),
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

/// Parses a row of `fire`.
fn fire_from(row: &Row) -> Result<FireRow> {
    let outcome: FireOutcome = row.parse(4)?;
    Ok(FireRow {
        instant: row.time(0)?,
        last_instant: row.time(1)?,
        instants: row.int(2)?,
        occasion: row.text(3)?.to_owned(),
        outcome,
        reason: row.opt_text(5)?.map(str::to_owned),
        run: row.opt_parse(6)?,
        recorded_at: row.time(7)?,
    })
}
