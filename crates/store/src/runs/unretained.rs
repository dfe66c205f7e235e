//! Runs without retention: what a worker writes of them, and which node has their content.
//!
//! No command here takes a text of the run: events are counted, not written, and why a run did not succeed is one of a
//! few sentences. So nothing of a prompt, an answer or an error can come into the database by a mistake elsewhere.

use sortie_api::{Micros, OrgId, Run, RunId, RunStatus, RunUsage, Timestamp};

use super::{
    OF_ITS_NODE,
    finish::{End, ended, has_holds, leave_queue},
    json_ids, run_from,
    sweep::{Answers, Ending, give_up},
    work::{progressed, running},
};
use crate::{
    Store,
    db::{Stmt, Tx, vals},
    deliveries::delivery_is_due,
    money::settle::settle_one,
    nodes::LOCK,
    types::{Error, Fence, NewNode, NodeId, Receiver, Result},
};

/// What a worker adds to a run whose content is not stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// How many events.
    pub events: i64,
    /// The cost so far, without the surcharge.
    pub cost: Micros,
    /// What was used so far.
    pub usage: RunUsage,
}

/// The end of a run whose content is not stored.
#[derive(Clone, Copy, Debug)]
pub struct UnretainedFinish {
    /// A final status.
    pub status: RunStatus,
    /// Why it did not succeed.
    pub error: Option<PlainError>,
    /// What came last.
    pub last: Counted,
    /// Until when its output is held; none where there is no output.
    pub output_expires_at: Option<Timestamp>,
    /// Whether a callback is due with it.
    pub receiver: Receiver,
    /// When it ended.
    pub at: Timestamp,
}

/// Why a run did not succeed, without a word of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainError {
    /// It failed; how is told by the node that has its content.
    Withheld,
    /// Its time was over, after so many seconds.
    TimedOut(u32),
    /// Its node was stopped.
    Stopped,
}

impl PlainError {
    /// What a client reads.
    pub fn text(self) -> String {
        match self {
            Self::Withheld => "it failed; why is not kept, as it has zero data retention".to_owned(),
            Self::TimedOut(seconds) => format!("timed out after {seconds} s"),
            Self::Stopped => "the node that ran it was stopped".to_owned(),
        }
    }
}

/// The node that has the content of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentHolder {
    /// The node.
    pub node: NodeId,
    /// Where other nodes reach it; none where they cannot, or where it is lost.
    pub address: Option<String>,
    /// Whether the node is lost. Its process may be alive all the same and come back.
    pub is_lost: bool,
    /// Whether it may have an answer for whoever asks for the run: one is held, and not for the receiver of a callback.
    pub has_answer: bool,
}

impl Store {
    /// Worker: `starting` to `running`, with so many events.
    pub async fn start_unretained(&self, fence: Fence, events: i64) -> Result<()> {
        let started = self
            .db
            .write(move |tx| tx.batch(&[running(fence, events)?]).map(drop));
        match started.await {
            Err(Error::Fenced) => Err(self.refusal(fence, RunStatus::Running).await?),
            outcome => outcome,
        }
    }

    /// Worker: counts events, and records the cost so far.
    pub async fn append_unretained(&self, fence: Fence, new: Counted) -> Result<()> {
        self.db
            .write(move |tx| {
                let update = progressed(fence, new.events, new.cost, &new.usage)?;
                tx.batch(&[update]).map(drop)
            })
            .await
    }

    /// Worker: the final status with cost and counts; leaves the queue. The run is without output.
    pub async fn finish_unretained(&self, fence: Fence, finish: UnretainedFinish) -> Result<Run> {
        if !finish.status.is_final() {
            return Err(Error::Conflict("a run ends with a final status"));
        }
        match self.db.write(move |tx| end(tx, fence, &finish)).await {
            Err(Error::Fenced) => Err(self.refusal(fence, finish.status).await?),
            outcome => outcome,
        }
    }

    /// The node that has the content of a run; none where nobody has any. `NotFound` for a run of another organization.
    pub async fn content_holder(&self, org: OrgId, id: RunId) -> Result<Option<ContentHolder>> {
        let row = self
            .db
            .read(move |tx| {
                tx.query_one(
                    "SELECT (SELECT u.node_id FROM unretained u WHERE u.run_id = r.id), \
                     (SELECT n.address FROM unretained u JOIN node n ON n.id = u.node_id \
                      WHERE u.run_id = r.id AND n.ended_at IS NULL), \
                     (SELECT n.id FROM unretained u JOIN node n ON n.id = u.node_id \
                      WHERE u.run_id = r.id AND n.ended_at IS NULL), \
                     CASE WHEN r.output_expires_at IS NOT NULL AND r.callback_host IS NULL THEN 1 ELSE 0 END \
                     FROM run r WHERE r.id = $2 AND r.org_id = $1",
                    vals![org, id],
                )
            })
            .await?;
        let address = row.opt_text(1)?.map(str::to_owned);
        let (is_lost, has_answer) = (row.opt_int(2)?.is_none(), row.int(3)? == 1);
        Ok(row.opt_int(0)?.map(|node| ContentHolder {
            node: NodeId(node),
            address,
            is_lost,
            has_answer,
        }))
    }

    /// System: the outputs of `runs` are not held any more: they were read, delivered, or deleted unread.
    pub async fn forget_outputs(&self, runs: Vec<RunId>) -> Result<()> {
        let ids = ids(&runs)?;
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE run SET output_expires_at = NULL \
                     WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND output_expires_at IS NOT NULL",
                    vals![ids.as_str()],
                )
                .map(drop)
            })
            .await
    }

    /// System: nothing of the content of `runs`, which are final, is left anywhere.
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

    /// System: those of `runs` that exist, with where they stand, in no particular order.
    pub async fn statuses(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, RunStatus)>> {
        let ids = ids(&runs)?;
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    "SELECT id, status FROM run WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                    vals![ids.as_str()],
                )
            })
            .await?;
        rows.iter()
            .map(|row| Ok((row.parse(0)?, row.parse(1)?)))
            .collect()
    }

    /// System: the runs whose content `node` has, in no particular order.
    pub async fn content_of(&self, node: NodeId) -> Result<Vec<RunId>> {
        let rows = self.db.read(move |tx| tx.query_all(OF_NODE, vals![node])).await?;
        rows.iter().map(|row| row.parse(0)).collect()
    }

    /// System: makes `node` the holder of those of `runs` that wait or have ended: their content is in its memory, and their
    /// rows name an earlier identity of it. Nothing changes where the node was declared lost.
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

    /// System: a node that stops gives up what only it has: such runs that are not final end as `interrupted`, answers are
    /// not held any more. The runs that ended.
    pub async fn give_up_content(
        &self,
        node: NodeId,
        at: Timestamp,
        compute_micros_per_second: Micros,
    ) -> Result<Vec<(OrgId, RunId)>> {
        let ending = Ending::new(at, compute_micros_per_second)?;
        self.db
            .write(move |tx| {
                let found = tx.query_all(OF_NODE, vals![node])?;
                if found.is_empty() {
                    return Ok(Vec::new());
                }
                give_up(tx, &json_ids(&found)?, Answers::All, &ending)
            })
            .await
    }

    /// System: a node gives up those of `runs` that are recorded as its own and whose content it does not have. Otherwise as
    /// [`give_up_content`](Self::give_up_content).
    pub async fn give_up_missing(
        &self,
        node: NodeId,
        runs: Vec<RunId>,
        at: Timestamp,
        compute_micros_per_second: Micros,
    ) -> Result<Vec<(OrgId, RunId)>> {
        let ending = Ending::new(at, compute_micros_per_second)?;
        let ids = ids(&runs)?;
        self.db
            .write(move |tx| {
                let found = tx.query_all(
                    "SELECT run_id FROM unretained \
                     WHERE node_id = $2 AND run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                    vals![ids.as_str(), node],
                )?;
                if found.is_empty() {
                    return Ok(Vec::new());
                }
                give_up(tx, &json_ids(&found)?, Answers::All, &ending)
            })
            .await
    }
}

const OF_NODE: &str = "SELECT run_id FROM unretained WHERE node_id = $1 ORDER BY node_id, run_id";

/// System: makes `node` the holder of the contents `held`, a JSON array of runs, as far as the runs wait or have ended. A run
/// that a worker was at work on is not among them: its worker was stopped.
pub(crate) fn adopt_content(node: NodeId, held: &str) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO unretained (run_id, node_id) SELECT r.id, CAST($2 AS BIGINT) FROM run r \
         WHERE r.id {IN}SELECT value FROM {JSON_EACH}($1){END} AND r.zero_data_retention = 1 \
         AND COALESCE((SELECT q.node_id FROM queue q WHERE q.run_id = r.id), $3) = $3 \
         ON CONFLICT (run_id) DO UPDATE SET node_id = excluded.node_id",
        vals![held, node, OF_ITS_NODE],
    )
}

/// System: the answers that earlier incarnations of `node` held, and that it has not adopted, are gone with their memory.
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
    let answers = settle_one(tx, fence.run, &statements, has_holds)?;
    run_from(ended(&answers)?, None)
}
