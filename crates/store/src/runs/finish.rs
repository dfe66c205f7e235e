//! `finish_run`: the final status with output, artifacts, cost and last events; the run leaves the queue.

use sortie_api::Run;

use super::{artifacts, insert_events, journal::delete_journal, moves, run_columns, run_from, work::count};
use crate::{
    Store,
    db::{Stmt, Tx, vals},
    sealed::delete_run_secrets,
    types::{Brought, Error, Fence, Finish, Journal, Result},
};

impl Store {
    /// Worker: the final status with output, artifacts, cost, last events; leaves the queue, and its journal and its credentials go.
    pub async fn finish_run(&self, fence: Fence, finish: Finish) -> Result<Run> {
        if !finish.status.is_final() {
            return Err(Error::Conflict("a run ends with a final status"));
        }
        let bytes = finish.output.as_deref().map_or(0, str::len);
        let status = finish.status;
        // The output is also in the `result` event.
        let written = self
            .db
            .write_of(bytes.saturating_mul(2), move |tx| end(tx, fence, &finish))
            .await;
        match written {
            Err(Error::Fenced) => Err(self.refusal(fence, status).await?),
            outcome => outcome,
        }
    }
}

fn end(tx: &mut dyn Tx, fence: Fence, finish: &Finish) -> Result<Run> {
    let new = finish.artifacts.as_ref().map(artifacts::Texts::new).transpose()?;
    let mut params = vals![
        fence.run,
        fence.attempt,
        fence.last_event,
        finish.status,
        finish.at,
        finish.cost,
        finish.error.as_deref(),
        count(&finish.events)
    ];
    params.extend(moves::sources(finish.status)?);
    let kept = finish
        .artifacts
        .as_ref()
        .map_or(&[][..], |new| new.kept.as_slice());
    params.push(i64::try_from(kept.len()).unwrap_or(i64::MAX).into());
    let mut statements = Vec::with_capacity(4 + finish.events.len());
    statements.push(Stmt::new("DELETE FROM queue WHERE run_id = $1", vals![fence.run]));
    statements.push(
        Stmt::new(
            concat!(
                "UPDATE run SET status = $4, outcome = $4, finished_at = $5, cost_micros = $6, \
                 billing_pending = 0, error = $7, last_event = last_event + $8, artifact_count = $13 \
                 WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($9, $10, $11, $12) \
                 RETURNING ",
                run_columns!()
            ),
            params,
        )
        .exactly(1, Error::Fenced),
    );
    if let Some(output) = &finish.output {
        statements.push(Stmt::new(
            "INSERT INTO run_output (run_id, output) VALUES ($1, $2)",
            vals![fence.run, output.as_str()],
        ));
    }
    insert_events(&mut statements, fence, &finish.events);
    if let Some(texts) = &new {
        statements.extend(artifacts::insert(fence.run, texts));
    }
    if finish.journal == Journal::Written {
        statements.push(delete_journal(fence.run));
    }
    if finish.brought == Brought::Credentials {
        statements.push(delete_run_secrets(fence.run));
    }
    let answers = tx.batch(&statements)?;
    let row = answers
        .get(1)
        .and_then(|answer| answer.rows.first())
        .ok_or(Error::Fenced)?;
    Ok(Run {
        artifacts: kept.iter().map(|kept| kept.artifact.clone()).collect(),
        ..run_from(row, finish.output.clone())?
    })
}
