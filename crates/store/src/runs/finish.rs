//! `finish_run` writes the final status with output, artifacts, cost and last events. The run leaves the
//! queue.

use sortie_api::{Micros, Run, RunId, RunStatus, RunUsage, Timestamp};

use super::{
    RunRow, SURCHARGE, WITH_SURCHARGE, artifacts, insert_events, journal::delete_journal, last_after, moves,
    usage_params, work::count,
};
use crate::{
    Error, Result, Store,
    db::{Answer, ReadRow, Stmt, Tx, filled, vals},
    files::blobs::count_again,
    installation::sealed::delete_run_secrets,
    money::settle::{SETTLES, SettledAt, SettledRun, WITHIN_RESERVED, settle},
    outbox::deliveries::delivery_is_due,
    runs::{Fence, NewArtifacts, NewEvent},
};

/// End of a run, as its worker records it.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Terminal status of the run.
    pub status: RunStatus,
    /// Output of the run, without U+0000.
    pub output: Option<String>,
    /// Reason why the run did not succeed.
    pub error: Option<String>,
    /// Total cost, without the surcharge.
    pub cost: Micros,
    /// Total usage.
    pub usage: RunUsage,
    /// Last events of the run, the terminal status among them.
    pub events: Vec<NewEvent>,
    /// State of the journal. The command deletes a written journal.
    pub journal: Journal,
    /// Presence of stored inline credentials. The command deletes them.
    pub stored_credentials: StoredCredentials,
    /// Receiver of the callback. The command makes its delivery due.
    pub receiver: Receiver,
    /// Files that the run left under `outputs/`, if any.
    pub artifacts: Option<NewArtifacts>,
    /// End time of the run.
    pub at: Timestamp,
}

/// Presence of credentials of a run's inline connections in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCredentials {
    /// The store has none.
    Absent,
    /// The store may have some.
    Possible,
}

/// Receiver of a run's completion callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The run has no callback.
    Nobody,
    /// A receiver waits for the callback.
    Waits,
}

/// State of a run's journal in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// The journal has no entry.
    Empty,
    /// The journal may have entries.
    Written,
}

/// Position of the settlement columns in a batch as for [`ended`]: after the columns of the run.
pub(super) const SETTLED: SettledAt = SettledAt {
    statement: 1,
    column: RunRow::WIDTH,
};

/// Cost without the surcharge.
const COST: &str = "CAST($6 AS BIGINT)";

/// Cost with the surcharge.
const WHOLE_COST: &str = filled!(WITH_SURCHARGE, "@cost" = COST);

impl Store {
    /// Worker: ends a run with its final status, output, artifacts, cost and last events. The run leaves the
    /// queue, its journal and its credentials are deleted, and its callback is due.
    pub async fn finish_run(&self, fence: Fence, finish: Finish) -> Result<Run> {
        if !finish.status.is_final() {
            return Err(Error::Conflict("a run ends with a final status"));
        }
        let bytes = finish.output.as_deref().map_or(0, str::len);
        let status = finish.status;
        // The output is written twice: it is also in the `result` event.
        let written = self
            .db
            .write_own(bytes.saturating_mul(2), move |tx| end(tx, fence, &finish))
            .await;
        match written {
            Err(Error::Fenced) => Err(self.refusal(fence, status).await?),
            outcome => outcome,
        }
    }
}

/// Final values of the row of a run.
pub(super) struct End<'a> {
    pub(super) status: RunStatus,
    pub(super) error: Option<&'a str>,
    pub(super) cost: Micros,
    pub(super) usage: &'a RunUsage,
    /// Number of events that are added with the end.
    pub(super) events: i64,
    /// Time until which an output that is not stored is held.
    pub(super) output_expires_at: Option<Timestamp>,
    /// Number of artifacts.
    pub(super) artifacts: i64,
    pub(super) at: Timestamp,
}

impl<'a> End<'a> {
    /// Statement that writes the end and returns the [`RunRow`]. It fails with `Fenced` if the
    /// fence does not match the run.
    pub(super) fn statement(&self, fence: Fence) -> Result<Stmt<'a>> {
        let mut params = vals![
            fence.run,
            fence.attempt,
            fence.last_event,
            self.status,
            self.at,
            self.cost,
            self.error,
            self.events
        ];
        params.extend(moves::sources(self.status)?);
        params.extend(usage_params(self.usage));
        params.push(self.output_expires_at.into());
        params.push(self.artifacts.into());
        let statement = Stmt::new(
            constcat::concat!(
                "UPDATE run SET status = $4, outcome = $4, finished_at = $5, cost_micros = ",
                filled!(WITHIN_RESERVED, "@cost" = WHOLE_COST),
                ", surcharge_micros = ",
                filled!(WITHIN_RESERVED, "@cost" = filled!(SURCHARGE, "@cost" = COST)),
                ", ",
                SETTLES,
                ", error = $7, last_event = last_event + $8, \
                 input_tokens = $13, output_tokens = $14, cache_read_tokens = $15, cache_write_tokens = $16, \
                 model_calls = $17, tool_calls = $18, output_expires_at = $19, artifact_count = $20 \
                 WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($9, $10, $11, $12) \
                 RETURNING ",
                RunRow::COLUMNS,
                ", ",
                filled!(SettledRun::COLUMNS, "@cost" = WHOLE_COST)
            ),
            params,
        );
        Ok(statement.exactly(1, Error::Fenced))
    }
}

/// Statement by which a settled run leaves the queue.
pub(super) fn leave_queue(run: RunId) -> Stmt<'static> {
    Stmt::new("DELETE FROM queue WHERE run_id = $1", vals![run])
}

fn end(tx: &mut dyn Tx, fence: Fence, finish: &Finish) -> Result<Run> {
    let new = finish.artifacts.as_ref().map(artifacts::Texts::new).transpose()?;
    if new.is_some() {
        // Artifacts of other runs may have the same content.
        tx.contend();
    }
    let kept = finish
        .artifacts
        .as_ref()
        .map_or(&[][..], |new| new.kept.as_slice());
    let end = End {
        status: finish.status,
        error: finish.error.as_deref(),
        cost: finish.cost,
        usage: &finish.usage,
        events: count(&finish.events),
        output_expires_at: None,
        artifacts: i64::try_from(kept.len()).unwrap_or(i64::MAX),
        at: finish.at,
    };
    let last = last_after(fence, &finish.events);
    let mut statements = Vec::with_capacity(4 + finish.events.len());
    statements.push(leave_queue(fence.run));
    statements.push(end.statement(fence)?);
    if let Some(output) = &finish.output {
        statements.push(
            Stmt::new(
                "INSERT INTO run_output (run_id, output) \
             {GUARDED}VALUES (CAST($1 AS TEXT), CAST($4 AS TEXT)){BY_FENCE}",
                vals![fence.run, fence.attempt, last, output.as_str()],
            )
            .exactly(1, Error::Fenced),
        );
    }
    let first_of_artifacts = statements.len();
    if let Some(texts) = &new {
        statements.extend(artifacts::insert(fence, last, texts));
    }
    insert_events(&mut statements, fence, &finish.events);
    if finish.journal == Journal::Written {
        statements.push(delete_journal(fence.run));
    }
    if finish.stored_credentials == StoredCredentials::Possible {
        statements.push(delete_run_secrets(fence.run));
    }
    if finish.receiver == Receiver::Waits {
        statements.push(delivery_is_due(fence.run, finish.at));
    }
    let answers = settle(tx, &statements, &[SETTLED])?;
    if new.is_some() {
        let referred = answers.get(first_of_artifacts);
        count_again(tx, referred.map_or(&[], |answer| &answer.rows))?;
    }
    let artifacts = kept.iter().map(|kept| kept.artifact.clone()).collect();
    Ok(ended(&answers)?.run(finish.output.clone(), artifacts))
}

/// Reads the row of [`End::statement`]. The batch must begin with [`leave_queue`] and this statement.
pub(super) fn ended(answers: &[Answer]) -> Result<RunRow> {
    let row = answers.get(1).and_then(|answer| answer.rows.first());
    RunRow::read(row.ok_or(Error::Fenced)?)
}
