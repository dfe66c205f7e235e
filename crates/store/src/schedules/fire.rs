//! `record_fires`: what became of instants, with the run that they start, while the schedule moves on. `trigger_schedule`: a
//! start by hand.

use sortie_api::{OrgId, Run, RunId, ScheduleId, Timestamp, schedule::FireOutcome};

use super::{ScheduleState, replaced::replace};
use crate::{
    Audit, Store, audit,
    db::{Stmt, Tx, vals},
    runs::create_new,
    types::{Error, NewRun, Result},
};

/// What became of an instant, or of several in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireRow {
    /// The first of them.
    pub instant: Timestamp,
    /// The last of them.
    pub last_instant: Timestamp,
    /// How many they are.
    pub instants: i64,
    /// Empty for an instant of the timetable; the id of the run for a start by hand.
    pub occasion: String,
    /// What became of it.
    pub outcome: FireOutcome,
    /// Why it was skipped.
    pub reason: Option<String>,
    /// The run it started.
    pub run: Option<RunId>,
    /// When this was recorded.
    pub recorded_at: Timestamp,
}

/// Instants of a schedule that were dealt with.
#[derive(Clone, Debug)]
pub struct Fires {
    /// Whose schedule it is.
    pub org: OrgId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// The revision that was seen.
    pub revision: i64,
    /// How far the schedule is from here on.
    pub state: ScheduleState,
    /// What became of each; the one that waited is among them where it waits no longer.
    pub rows: Vec<FireRow>,
    /// The instant that waited until now.
    pub released: Option<Timestamp>,
    /// The run that one of them starts.
    pub run: Option<NewRun>,
    /// Whether the run replaces those of the schedule that are open: they are to be cancelled.
    pub replaces: bool,
    /// What is told of it, where the schedule was switched off.
    pub audit: Option<Audit>,
}

impl Store {
    /// Records instants and moves the schedule on, with the run that is started, if any. `Fenced` where the schedule is not at the
    /// revision any more, or not there: somebody else has dealt with them, or they are not its instants any longer.
    pub async fn record_fires(&self, fires: Fires) -> Result<Option<Run>> {
        let bytes = fires.run.as_ref().map_or(0, |run| run.definition.bytes());
        self.db.write_of(bytes, move |tx| record(tx, &fires)).await
    }

    /// Records a run that somebody has started by hand.
    pub async fn trigger_schedule(&self, schedule: ScheduleId, run: NewRun) -> Result<Run> {
        self.db
            .write_of(run.definition.bytes(), move |tx| trigger(tx, schedule, &run))
            .await
    }
}

fn record(tx: &mut dyn Tx, fires: &Fires) -> Result<Option<Run>> {
    let mut params = vals![fires.org, fires.schedule, fires.revision];
    params.extend(fires.state.values());
    let mut statements = vec![
        // First: only who sees the newest revision goes on.
        Stmt::new(
            "UPDATE schedule SET enabled = $4, next_instant = $5, due_at = $6, handled_instant = $7, \
             waiting_instant = $8, failures_since = $9, last_run_at = $10, last_run_id = $11, last_error = $12, \
             revision = revision + 1 WHERE id = $2 AND org_id = $1 AND revision = $3",
            params,
        )
        .exactly(1, Error::Fenced),
    ];
    if let Some(instant) = fires.released {
        statements.push(
            Stmt::new(
                "DELETE FROM fire WHERE schedule_id = $1 AND instant = $2 AND occasion = '' AND outcome = $3",
                vals![fires.schedule, instant, FireOutcome::Waiting.as_str()],
            )
            .exactly(1, Error::Corrupt("an instant that waits has no row".to_owned())),
        );
    }
    statements.extend(fires.rows.iter().map(|row| insert(fires.schedule, row)));
    statements.extend(fires.audit.as_ref().map(audit::record));
    tx.batch(&statements)?;
    let run = fires.run.as_ref().map(|run| create_new(tx, run)).transpose()?;
    if let Some(run) = run.as_ref().filter(|_| fires.replaces) {
        tx.batch(&[replace(fires.org, fires.schedule, run.id)])?;
    }
    Ok(run)
}

fn insert(schedule: ScheduleId, row: &FireRow) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO fire (schedule_id, instant, occasion, last_instant, instants, outcome, reason, run_id, recorded_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        vals![
            schedule,
            row.instant,
            row.occasion.as_str(),
            row.last_instant,
            row.instants,
            row.outcome.as_str(),
            row.reason.as_deref(),
            row.run,
            row.recorded_at
        ],
    )
}

fn trigger(tx: &mut dyn Tx, schedule: ScheduleId, run: &NewRun) -> Result<Run> {
    let row = FireRow {
        instant: run.created_at,
        last_instant: run.created_at,
        instants: 1,
        occasion: run.id.to_string(),
        outcome: FireOutcome::Started,
        reason: None,
        run: Some(run.id),
        recorded_at: run.created_at,
    };
    tx.batch(&[
        Stmt::new(
            "UPDATE schedule SET last_run_at = $3, last_run_id = $4, last_error = NULL, revision = revision + 1 \
             WHERE id = $2 AND org_id = $1",
            vals![run.org, schedule, run.created_at, run.id],
        )
        .exactly(1, Error::NotFound),
        insert(schedule, &row),
    ])?;
    create_new(tx, run)
}
