//! System: progress of runs, by the number of their last event.

use sortie_api::{RunId, RunStatus};

use crate::{
    Error, Result, Store,
    db::{ReadRow, Row, Stmt, batch, row, select, vals},
    nodes::NodeId,
};

/// Result of [`Store::watch`](crate::Store::watch).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Followed runs, each with the number of its last event.
    pub positions: Vec<(RunId, i64)>,
    /// Cancelled runs of the node for which the worker has not reported the cost yet.
    pub cancelled: Vec<RunId>,
}

row! {
    /// Progress of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Position {
        /// Number of the current attempt.
        pub attempt: i64 = "attempt",
        /// Status of the run.
        pub status: RunStatus = "status",
        /// Number of the last event.
        pub last_event: i64 = "last_event",
        /// Whether the cost of the run is still to be settled.
        pub is_billing_pending: bool = "billing_pending",
    }
}

row! {
    struct LastEventRow {
        run: RunId = "id",
        last_event: i64 = "last_event",
    }
}

impl Store {
    /// Worker: returns the progress of a run in any status. After a lost answer, it shows the worker whether
    /// its write took place.
    pub async fn position(&self, run: RunId) -> Result<Position> {
        self.db
            .read(move |tx| tx.read_one(select!(Position, " FROM run WHERE id = $1"), vals![run]))
            .await
    }

    /// System: returns those of `runs` that are not settled, in no particular order. Their files on disk must
    /// stay.
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
        rows.iter().map(Row::only).collect()
    }

    /// System: returns the last event of each of `followed` that exists, and the runs of `node` that were
    /// cancelled. Both are in no particular order.
    pub async fn watch(&self, node: NodeId, followed: Vec<RunId>) -> Result<Watched> {
        let ids = serde_json::to_string(&followed).map_err(|error| Error::Corrupt(error.to_string()))?;
        let [positions, cancelled] = self
            .db
            .read(move |tx| {
                batch(
                    tx,
                    &[
                        Stmt::new(
                            select!(
                                LastEventRow,
                                " FROM run WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}"
                            ),
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
                .map(|row| LastEventRow::read(row).map(|found| (found.run, found.last_event)))
                .collect::<Result<_>>()?,
            cancelled: cancelled.rows.iter().map(Row::only).collect::<Result<_>>()?,
        })
    }
}
