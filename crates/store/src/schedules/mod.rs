//! Schedules, and what became of each of their instants. Timetables are not known here: who writes says which instant is next.
//!
//! `revision` counts every write of a schedule. Who changes one or takes its instants on shows the revision it has seen, and
//! changes nothing where that is not the newest: so of any number of nodes one deals with an instant, once. A row of `fire`
//! and the run that it tells of are made in one transaction, in which the schedule moves on.

mod expire;
mod fire;
mod read;
mod replaced;
mod save;

use sortie_api::{
    Micros, OrgId, RunId, ScheduleId, Timestamp,
    schedule::{FireOutcome, Overlap},
};

use crate::{
    db::{Row, Val, vals},
    types::{Error, Result},
};

pub use fire::{FireRow, Fires};
pub use read::Due;
pub use replaced::ReplacedRun;
pub use save::SaveSchedule;

/// What somebody says of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// What it is called.
    pub name: Option<String>,
    /// The saved workflow that its runs start from.
    pub workflow: String,
    /// The cron expression, as sent.
    pub cron: String,
    /// The IANA name of its time zone.
    pub timezone: String,
    /// Task data of its runs, JSON.
    pub input: Option<String>,
    /// What happens while an earlier run is not final.
    pub overlap: Overlap,
    /// How late an instant may still start a run, in seconds.
    pub catch_up_window_seconds: i64,
    /// The most that runs start later, in seconds.
    pub jitter_seconds: i64,
    /// Instants before are skipped.
    pub paused_until: Option<Timestamp>,
    /// It is switched off when so many runs in a row did not succeed.
    pub max_consecutive_failures: Option<i64>,
    /// Budget of each run.
    pub max_cost: Option<Micros>,
    /// Where the callbacks of its runs go.
    pub callback: Option<SealedCallback>,
}

/// The receiver of callbacks, with a secret that this crate cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedCallback {
    /// The receiver.
    pub url: String,
    /// The key of the signature, sealed.
    pub secret: Vec<u8>,
}

/// How far a schedule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// Whether it has instants at all.
    pub enabled: bool,
    /// The first instant that nothing is recorded of; none while it is switched off.
    pub next: Option<NextInstant>,
    /// The last instant that something is recorded of, or when it was made.
    pub handled: Timestamp,
    /// An instant that waits for an earlier run to end.
    pub waiting: Option<Timestamp>,
    /// Runs made before do not count as failures in a row.
    pub failures_since: Timestamp,
    /// When it last started a run.
    pub last_run_at: Option<Timestamp>,
    /// The run that it started last.
    pub last_run: Option<RunId>,
    /// Why the last instant could start no run.
    pub last_error: Option<String>,
}

/// An instant to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextInstant {
    /// As the timetable has it.
    pub instant: Timestamp,
    /// When it is to be dealt with: later by the jitter.
    pub due_at: Timestamp,
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its id.
    pub id: ScheduleId,
    /// Whose it is.
    pub org: OrgId,
    /// What it is to do.
    pub spec: ScheduleSpec,
    /// How far it is.
    pub state: ScheduleState,
    /// Why the last run did not succeed.
    pub last_run_error: Option<String>,
    /// How often the row was written.
    pub revision: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed by somebody.
    pub updated_at: Timestamp,
}

/// The columns that [`schedule_from`] reads, in its order.
macro_rules! schedule_columns {
    () => {
        "s.id, s.org_id, s.name, s.workflow, s.cron, s.timezone, s.input, s.overlap, s.catch_up_window_seconds, \
         s.jitter_seconds, s.paused_until, s.max_consecutive_failures, s.max_cost_micros, s.callback_url, \
         s.callback_secret, s.enabled, s.next_instant, s.due_at, s.handled_instant, s.waiting_instant, \
         s.failures_since, s.last_run_at, s.last_run_id, s.last_error, s.revision, s.created_at, s.updated_at, \
         (SELECT r.error FROM run r WHERE r.id = s.last_run_id)"
    };
}
use schedule_columns;

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
        max_cost: max_cost.map_err(|_| Error::Corrupt("the budget of a schedule is no amount".to_owned()))?,
        callback,
    })
}

fn state_from(row: &Row) -> Result<ScheduleState> {
    let next = match (row.opt_time(16)?, row.opt_time(17)?) {
        (Some(instant), Some(due_at)) => Some(NextInstant { instant, due_at }),
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
    /// The values of `enabled`, `next_instant`, `due_at`, `handled_instant`, `waiting_instant`, `failures_since`, `last_run_at`,
    /// `last_run_id`, `last_error`.
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
    /// The values of `name`, `workflow`, `cron`, `timezone`, `input`, `overlap`, `catch_up_window_seconds`, `jitter_seconds`,
    /// `paused_until`, `max_consecutive_failures`, `max_cost_micros`, `callback_url`, `callback_secret`.
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

/// A fire as it is read.
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
