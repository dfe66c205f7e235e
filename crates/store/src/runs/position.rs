//! System: how far runs have come, by the number of their last event.

use sortie_api::{RunId, RunStatus};

use crate::{
    Store,
    db::{Stmt, batch, vals},
    types::{Error, NodeId, Result, Watched},
};

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of its current attempt.
    pub attempt: i64,
    /// Status of the run.
    pub status: RunStatus,
    /// The number of its last event.
    pub last_event: i64,
}

impl Store {
    /// Worker: how far a run has come, whatever its status. Tells a worker that lost the answer to a write whether the write
    /// took place.
    pub async fn position(&self, run: RunId) -> Result<Position> {
        let row = self
            .db
            .read(move |tx| {
                tx.query_one(
                    "SELECT attempt, status, last_event FROM run WHERE id = $1",
                    vals![run],
                )
            })
            .await?;
        Ok(Position {
            attempt: row.int(0)?,
            status: row.parse(1)?,
            last_event: row.int(2)?,
        })
    }

    /// System: those of `runs` that are not settled, in no particular order: what they need on disk is to stay.
    pub async fn unsettled(&self, runs: Vec<RunId>) -> Result<Vec<RunId>> {
        let ids = serde_json::to_string(&runs).map_err(|error| Error::Corrupt(error.to_string()))?;
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    "SELECT run_id FROM queue WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                    vals![ids.as_str()],
                )
            })
            .await?;
        rows.iter().map(|row| row.parse(0)).collect()
    }

    /// System: the last event of each of `followed` that exists, and which of the runs that `node` holds were cancelled; both
    /// in no particular order.
    pub async fn watch(&self, node: NodeId, followed: Vec<RunId>) -> Result<Watched> {
        let ids = serde_json::to_string(&followed).map_err(|error| Error::Corrupt(error.to_string()))?;
        let [positions, cancelled] = self
            .db
            .read(move |tx| {
                batch(
                    tx,
                    &[
                        Stmt::new(
                            "SELECT id, last_event FROM run WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                            vals![ids.as_str()],
                        ),
                        Stmt::new(
                            "SELECT run_id FROM queue WHERE node_id = $1 AND stopping IS NOT NULL \
                             ORDER BY node_id, run_id",
                            vals![node],
                        ),
                    ],
                )
            })
            .await?;
        Ok(Watched {
            positions: positions
                .rows
                .iter()
                .map(|row| Ok((row.parse(0)?, row.int(1)?)))
                .collect::<Result<_>>()?,
            cancelled: cancelled
                .rows
                .iter()
                .map(|row| row.parse(0))
                .collect::<Result<_>>()?,
        })
    }
}
