//! `record_fires` records the outcomes of occurrences, with the run that they start, and moves the schedule
//! on. `trigger_schedule` records a run that a person starts.

use sortie_api::{OrgId, Run, RunId, ScheduleId, Timestamp, schedule::FireOutcome};

use super::{ScheduleState, replaced::replace};
use crate::{
    Error, Result, Store,
    access::{Audit, audit},
    db::{Stmt, Tx, insert, row, vals},
    runs::{NewRun, create_new},
};

row! {
    /// Outcome of an occurrence, or of several in a row.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FireRow {
        /// Scheduled time of the first occurrence.
        pub instant: Timestamp = "instant",
        /// Scheduled time of the last occurrence.
        pub last_instant: Timestamp = "last_instant",
        /// Number of occurrences.
        pub instants: i64 = "instants",
        /// Empty for an occurrence of the timetable; the id of the run for a manual trigger.
        pub occasion: String = "occasion",
        /// Outcome of the occurrence.
        pub outcome: FireOutcome = "outcome",
        /// Reason why the occurrence was skipped.
        pub reason: Option<String> = "reason",
        /// Run that the occurrence started.
        pub run: Option<RunId> = "run_id",
        /// Time of this record.
        pub recorded_at: Timestamp = "recorded_at",
    }
}

row! {
    /// Outcome of an occurrence of one of several schedules.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ScheduleFireRow {
        /// Schedule of the occurrence.
        pub schedule: ScheduleId = "schedule_id",
        /// Outcome of the occurrence.
        pub fire: FireRow,
    }
}

/// Occurrences of a schedule that were processed.
#[derive(Clone, Debug)]
pub struct Fires {
    /// Organization of the schedule.
    pub org: OrgId,
    /// Id of the schedule.
    pub schedule: ScheduleId,
    /// Revision of the schedule that the caller has read.
    pub revision: i64,
    /// State of the schedule after these occurrences.
    pub state: ScheduleState,
    /// Outcomes of the occurrences. They include the waiting occurrence once it stops waiting.
    pub rows: Vec<FireRow>,
    /// Occurrence that waited until now.
    pub released: Option<Timestamp>,
    /// Run that one of the occurrences starts.
    pub run: Option<NewRun>,
    /// Whether the run replaces the open runs of the schedule, which are then to be cancelled.
    pub replaces: bool,
    /// Entry of the audit log, if the schedule was disabled.
    pub audit: Option<Audit>,
}

impl Store {
    /// Records occurrences and advances the schedule, with the run that is started, if any. `Fenced` if the
    /// schedule has another revision or was deleted: another node has processed the occurrences, or a change
    /// of the schedule has removed them.
    pub async fn record_fires(&self, fires: Fires) -> Result<Option<Run>> {
        let bytes = fires.run.as_ref().map_or(0, |run| run.definition.bytes());
        self.db.write_of(bytes, move |tx| record(tx, &fires)).await
    }

    /// Records a run that a person has started through a manual trigger.
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
        // This statement comes first: only a caller that has read the newest revision continues.
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
                vals![fires.schedule, instant, FireOutcome::Waiting],
            )
            .exactly(1, Error::Corrupt("a waiting occurrence has no row".to_owned())),
        );
    }
    statements.extend(
        fires
            .rows
            .iter()
            .map(|row| insert((fires.org, fires.schedule), row)),
    );
    statements.extend(fires.audit.as_ref().map(audit::record));
    tx.batch(&statements)?;
    let run = fires.run.as_ref().map(|run| create_new(tx, run)).transpose()?;
    if let Some(run) = run.as_ref().filter(|_| fires.replaces) {
        tx.batch(&[replace(fires.org, fires.schedule, run.id)])?;
    }
    Ok(run)
}

fn insert((org, schedule): (OrgId, ScheduleId), row: &FireRow) -> Stmt<'_> {
    insert!("fire", {
        "schedule_id": schedule,
        "org_id": org,
        "instant": row.instant,
        "occasion": row.occasion.as_str(),
        "last_instant": row.last_instant,
        "instants": row.instants,
        "outcome": row.outcome,
        "reason": row.reason.as_deref(),
        "run_id": row.run,
        "recorded_at": row.recorded_at,
    })
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
        insert((run.org, schedule), &row),
    ])?;
    create_new(tx, run)
}
