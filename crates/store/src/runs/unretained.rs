//! Runs without retention: writes of their workers, and the node that has their content.
//!
//! No command here accepts a text of the run. Events are counted and not written, and the reason of a failure is one of a
//! few fixed sentences. A mistake elsewhere therefore cannot write a prompt, an answer or an error to the database.

use sortie_api::{Micros, OrgId, Run, RunId, RunStatus, RunUsage, Timestamp};

use super::{
    finish::{End, SETTLED, ended, leave_queue},
    json_ids,
    sweep::{Answers, Ending, give_up},
    work::{progressed, running},
};
use crate::{
    Error, Result, Store,
    db::{ReadRow, Row, Stmt, Tx, batch, row, select, vals},
    money::settle::settle,
    nodes::{LOCK, NewNode, NodeId},
    outbox::deliveries::delivery_is_due,
    runs::{Fence, Receiver},
};

/// Maximum number of runs that one transaction abandons after a loss of their content. Claims wait for it.
const ABANDONED: u32 = 500;

/// Progress that a worker reports for a run without stored content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Number of new events.
    pub events: i64,
    /// Cost so far, without the surcharge.
    pub cost: Micros,
    /// Usage so far.
    pub usage: RunUsage,
}

/// End of a run without stored content.
#[derive(Clone, Copy, Debug)]
pub struct UnretainedFinish {
    /// Final status.
    pub status: RunStatus,
    /// Reason why the run did not succeed.
    pub error: Option<PlainError>,
    /// Last events, cost and usage.
    pub last: Counted,
    /// Time until which the output is held; `None` if there is no output.
    pub output_expires_at: Option<Timestamp>,
    /// Receiver of a callback, if the run has one. The callback is due with the end of the run.
    pub receiver: Receiver,
    /// Time of the end.
    pub at: Timestamp,
}

/// Reason why a run did not succeed, without any text of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainError {
    /// The run failed. Only the node that has its content knows why.
    Withheld,
    /// The run timed out after this number of seconds.
    TimedOut(u32),
    /// The node of the run was stopped.
    Stopped,
}

impl PlainError {
    /// Text that a client reads.
    pub fn text(self) -> String {
        match self {
            Self::Withheld => {
                "the run failed; the reason is not stored because of zero data retention".to_owned()
            }
            Self::TimedOut(seconds) => format!("timed out after {seconds} s"),
            Self::Stopped => "the node that ran it was stopped".to_owned(),
        }
    }
}

/// Node that has the content of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentHolder {
    /// Id of the node.
    pub node: NodeId,
    /// Address under which other nodes reach the node; `None` if they cannot, or if the node is lost.
    pub address: Option<String>,
    /// Whether the node is lost. Its process may still be alive and come back.
    pub is_lost: bool,
    /// Whether the node may have an answer for a client that asks for the run: an answer is held, and it is
    /// not for the receiver of a callback.
    pub has_answer: bool,
}

row! {
    struct HolderRow {
        node: Option<NodeId> = "(SELECT u.node_id FROM unretained u WHERE u.run_id = r.id)",
        address: Option<String> = "(SELECT n.address FROM unretained u JOIN node n ON n.id = u.node_id \
            WHERE u.run_id = r.id AND n.ended_at IS NULL)",
        live_node: Option<NodeId> = "(SELECT n.id FROM unretained u JOIN node n ON n.id = u.node_id \
            WHERE u.run_id = r.id AND n.ended_at IS NULL)",
        has_answer: bool =
            "CASE WHEN r.output_expires_at IS NOT NULL AND r.callback_host IS NULL THEN 1 ELSE 0 END",
    }
}

row! {
    struct StatusRow {
        run: RunId = "id",
        status: RunStatus = "status",
    }
}

impl Store {
    /// Worker: moves a run from `starting` to `running`, with this number of events.
    pub async fn start_unretained(&self, fence: Fence, events: i64) -> Result<()> {
        let started = self
            .db
            .write(move |tx| tx.batch(&[running(fence, events)?]).map(drop));
        match started.await {
            Err(Error::Fenced) => Err(self.refusal(fence, RunStatus::Running).await?),
            outcome => outcome,
        }
    }

    /// Worker: counts events and records the cost so far.
    pub async fn append_unretained(&self, fence: Fence, new: Counted) -> Result<()> {
        self.db
            .write(move |tx| {
                let update = progressed(fence, new.events, new.cost, &new.usage)?;
                tx.batch(&[update]).map(drop)
            })
            .await
    }

    /// Worker: ends a run with its final status, cost and counts. The run leaves the queue. The returned run
    /// is without output.
    pub async fn finish_unretained(&self, fence: Fence, finish: UnretainedFinish) -> Result<Run> {
        if !finish.status.is_final() {
            return Err(Error::Conflict("a run ends with a final status"));
        }
        match self.db.write(move |tx| end(tx, fence, &finish)).await {
            Err(Error::Fenced) => Err(self.refusal(fence, finish.status).await?),
            outcome => outcome,
        }
    }

    /// Returns the node that has the content of a run; `None` if no node has any. `NotFound` for a run of
    /// another organization.
    pub async fn content_holder(&self, org: OrgId, id: RunId) -> Result<Option<ContentHolder>> {
        let sql = select!(HolderRow, " FROM run r WHERE r.id = $2 AND r.org_id = $1");
        let row: HolderRow = self.db.read(move |tx| tx.read_one(sql, vals![org, id])).await?;
        Ok(row.node.map(|node| ContentHolder {
            node,
            address: row.address,
            is_lost: row.live_node.is_none(),
            has_answer: row.has_answer,
        }))
    }

    /// System: records that the process has released outputs, each with the time at which it was read or delivered;
    /// `None` if it was deleted unread.
    pub async fn forget_outputs(&self, mut outputs: Vec<(RunId, Option<Timestamp>)>) -> Result<()> {
        // Transactions that lock several rows lock them in the same order.
        outputs.sort_unstable();
        self.db
            .write(move |tx| {
                let statements: Vec<Stmt<'_>> = outputs
                    .iter()
                    .map(|(run, read_at)| {
                        Stmt::new(
                            "UPDATE run SET output_expires_at = NULL, output_read_at = $2 \
                             WHERE id = $1 AND output_expires_at IS NOT NULL",
                            vals![*run, *read_at],
                        )
                    })
                    .collect();
                tx.batch(&statements).map(drop)
            })
            .await
    }

    /// System: records that no node has content of `runs`, which are final.
    pub async fn forget_content(&self, runs: Vec<RunId>) -> Result<()> {
        let ids = ids(&runs)?;
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM unretained WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                    vals![ids.as_str()],
                )
                .map(drop)
            })
            .await
    }

    /// System: returns the statuses of those of `runs` that exist, in no particular order.
    pub async fn statuses(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, RunStatus)>> {
        let ids = ids(&runs)?;
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    select!(
                        StatusRow,
                        " FROM run WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}"
                    ),
                    vals![ids.as_str()],
                )
            })
            .await?;
        rows.iter()
            .map(|row| StatusRow::read(row).map(|found| (found.run, found.status)))
            .collect()
    }

    /// System: returns the runs with content on `node`, in no particular order.
    pub async fn content_of(&self, node: NodeId) -> Result<Vec<RunId>> {
        let rows = self.db.read(move |tx| tx.query_all(OF_NODE, vals![node])).await?;
        rows.iter().map(Row::only).collect()
    }

    /// System: makes `node` the holder of those of `runs` that wait or have ended. Their content is in the
    /// memory of the node, and their rows name an earlier identity of it. `Fenced`, without any change, if
    /// the node was declared lost.
    pub async fn adopt_contents(&self, node: NodeId, runs: Vec<RunId>) -> Result<()> {
        let ids = ids(&runs)?;
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new(LOCK, vals![]),
                    Stmt::new(
                        "SELECT 1 FROM node WHERE id = $1 AND ended_at IS NULL",
                        vals![node],
                    )
                    .exactly(1, Error::Fenced),
                    adopt_content(node, &ids),
                ])
                .map(drop)
            })
            .await
    }

    /// System: abandons the content that only a stopping node has. Runs that are not final end as `interrupted`, and
    /// answers are released. Returns the runs that ended.
    pub async fn abandon_content(
        &self,
        node: NodeId,
        at: Timestamp,
        compute_micros_per_second: Micros,
    ) -> Result<Vec<(OrgId, RunId)>> {
        let mut ended = Vec::new();
        loop {
            let ending = Ending::new(at, compute_micros_per_second)?;
            let abandoned = self.db.write(move |tx| {
                let of_node = Stmt::new(
                    "SELECT run_id FROM unretained WHERE node_id = $1 ORDER BY node_id, run_id LIMIT $2",
                    vals![node, ABANDONED],
                );
                abandon(tx, of_node, &ending)
            });
            let (found, of_them) = abandoned.await?;
            ended.extend(of_them);
            if found < ABANDONED as usize {
                return Ok(ended);
            }
        }
    }

    /// System: abandons those of `runs` that are recorded as held by `node` but have no content there. Otherwise it works
    /// like [`abandon_content`](Self::abandon_content).
    pub async fn abandon_missing(
        &self,
        node: NodeId,
        runs: Vec<RunId>,
        at: Timestamp,
        compute_micros_per_second: Micros,
    ) -> Result<Vec<(OrgId, RunId)>> {
        let mut ended = Vec::new();
        for runs in runs.chunks(ABANDONED as usize) {
            let ending = Ending::new(at, compute_micros_per_second)?;
            let ids = ids(runs)?;
            let abandoned = self.db.write(move |tx| {
                let missing = Stmt::new(
                    "SELECT run_id FROM unretained \
                     WHERE node_id = $2 AND run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                    vals![ids.as_str(), node],
                );
                abandon(tx, missing, &ending)
            });
            ended.extend(abandoned.await?.1);
        }
        Ok(ended)
    }
}

/// Abandons the content of the runs that `found` finds. Returns their number and those that ended.
fn abandon(tx: &mut dyn Tx, found: Stmt<'_>, ending: &Ending) -> Result<(usize, Vec<(OrgId, RunId)>)> {
    // A node that registers again locks contents before runs, and this command locks runs first. Both therefore take the
    // lock of claims first.
    let [_, found] = batch(tx, &[Stmt::new(LOCK, vals![]), found])?;
    if found.rows.is_empty() {
        return Ok((0, Vec::new()));
    }
    let ended = give_up(tx, &json_ids(&found.rows)?, Answers::All, ending)?;
    Ok((found.rows.len(), ended))
}

const OF_NODE: &str = "SELECT run_id FROM unretained WHERE node_id = $1 ORDER BY node_id, run_id";

/// System: statement that makes `node` the holder of the contents `held`, a JSON array of runs, if the runs
/// wait or have ended. A run that a worker was working on is left out: its worker was stopped.
pub(crate) fn adopt_content(node: NodeId, held: &str) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO unretained (run_id, node_id) SELECT r.id, CAST($2 AS BIGINT) FROM run r \
         WHERE r.id {IN}SELECT value FROM {JSON_EACH}($1){END} AND r.zero_data_retention = 1 \
         AND COALESCE((SELECT q.node_id FROM queue q WHERE q.run_id = r.id), -1) < 0 \
         ON CONFLICT (run_id) DO UPDATE SET node_id = excluded.node_id",
        vals![held, node],
    )
}

/// System: statement that records that the answers which earlier incarnations of `node` held are gone with
/// their memory. Answers that `node` has adopted stay.
pub(crate) fn forget_answers_of_earlier(node: &NewNode) -> Stmt<'_> {
    Stmt::new(
        "UPDATE run SET output_expires_at = NULL WHERE output_expires_at IS NOT NULL \
         AND id {IN}SELECT u.run_id FROM unretained u \
           WHERE u.node_id {IN}SELECT n.id FROM node n WHERE n.id >= 0 AND n.name = $1 AND n.id <> $2{END}{END}",
        vals![node.name.as_str(), node.id],
    )
}

fn ids(runs: &[RunId]) -> Result<String> {
    serde_json::to_string(runs).map_err(|error| Error::Corrupt(error.to_string()))
}

fn end(tx: &mut dyn Tx, fence: Fence, finish: &UnretainedFinish) -> Result<Run> {
    let error = finish.error.map(PlainError::text);
    let end = End {
        status: finish.status,
        error: error.as_deref(),
        cost: finish.last.cost,
        usage: &finish.last.usage,
        events: finish.last.events,
        output_expires_at: finish.output_expires_at,
        artifacts: 0,
        at: finish.at,
    };
    let mut statements = vec![leave_queue(fence.run), end.statement(fence)?];
    if finish.receiver == Receiver::Waits {
        statements.push(delivery_is_due(fence.run, finish.at));
    }
    let answers = settle(tx, &statements, &[SETTLED])?;
    Ok(ended(&answers)?.run(None, Vec::new()))
}
