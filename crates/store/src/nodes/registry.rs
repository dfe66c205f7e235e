//! System: registration of nodes, and their heartbeats.

use std::time::Duration;

use sortie_api::{RunId, Timestamp};

use super::node::{Heartbeat, LOCK, NewNode, NodeId, NodeRow, SeenLease, micros};
use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, Tx, batch, insert, row, select, vals},
    runs::{adopt_content, forget_answers_of_earlier},
};

const CLOCK: &str = "SELECT {CLOCK}";

impl Store {
    /// System: registers a starting process as a node, and declares its earlier incarnations (same name)
    /// lost. The answers in their memory are lost with them. This command bypasses the queue of other
    /// commands.
    pub async fn register_node(&self, node: NewNode) -> Result<()> {
        self.register_again(node, Vec::new()).await
    }

    /// System: registers a process again that was declared lost but is alive. The contents of `held` are
    /// still in its memory: runs among them that wait or have ended belong to it again. Runs that it was
    /// working on stay lost.
    pub async fn register_again(&self, node: NewNode, held: Vec<RunId>) -> Result<()> {
        let held = serde_json::to_string(&held).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.db
            .urgent(self.db.limits().register, move |tx| register(tx, &node, &held))
            .await
    }

    /// System: extends a node's lease to `lease` from now, and with it every run that the node holds.
    /// `Fenced` if the node was declared lost. The time is the database's, or `at` if the database has no
    /// clock. This command bypasses the queue of other commands, and is `Unavailable` if it takes longer than
    /// [`UrgentLimits::heartbeat`](crate::UrgentLimits::heartbeat).
    pub async fn heartbeat(&self, node: NodeId, at: Timestamp, lease: Duration) -> Result<Heartbeat> {
        self.db
            .urgent(self.db.limits().heartbeat, move |tx| {
                heartbeat(tx, node, at, lease)
            })
            .await
    }

    /// System: returns the time by the database's clock, which allows comparing the leases of nodes with
    /// different clocks. `None` if the database has no clock, because only one node uses it. This command
    /// bypasses the queue of other commands.
    pub async fn clock(&self) -> Result<Option<Timestamp>> {
        let row = self
            .db
            .urgent(self.db.limits().heartbeat, |tx| tx.query_one(CLOCK, vals![]))
            .await?;
        row.only()
    }

    /// System: records that a node is about to stop. Succeeds for an unregistered node too.
    pub async fn drain_node(&self, node: NodeId, at: Timestamp) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "UPDATE node SET draining_since = $2 WHERE id = $1 AND draining_since IS NULL",
                    vals![node, at],
                )
                .map(drop)
            })
            .await
    }

    /// System: returns the registered nodes, ordered by name: active ones, and lost ones that still hold
    /// runs.
    pub async fn list_nodes(&self) -> Result<Vec<NodeRow>> {
        // Every id is positive. The condition repeats that, so that the planner can use the index.
        let sql = select!(
            StoredNode,
            " FROM node n WHERE n.id >= 0 \
             AND (n.ended_at IS NULL OR (SELECT q.run_id FROM queue q WHERE q.node_id = n.id LIMIT 1) IS NOT NULL) \
             ORDER BY n.id"
        );
        let nodes: Vec<StoredNode> = self.db.read(move |tx| tx.read_all(sql, vals![])).await?;
        let mut nodes: Vec<NodeRow> = nodes.into_iter().map(Into::into).collect();
        nodes.sort_by(|a, b| (&a.node.name, a.node.started_at).cmp(&(&b.node.name, b.node.started_at)));
        Ok(nodes)
    }

    /// System: signs off a node after a clean shutdown. Runs that it still holds are lost from here on: the
    /// next sweep takes them over. Succeeds for an unregistered node too.
    pub async fn deregister_node(&self, node: NodeId, at: Timestamp) -> Result<()> {
        self.db.write(move |tx| deregister(tx, node, at)).await
    }
}

fn heartbeat(tx: &mut dyn Tx, node: NodeId, at: Timestamp, lease: Duration) -> Result<Heartbeat> {
    let [_, clock, others] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE node SET lease_until = COALESCE({CLOCK}, $2) + $3 WHERE id = $1 AND ended_at IS NULL",
                vals![node, at, micros(lease)],
            )
            .exactly(1, Error::Fenced),
            Stmt::new(CLOCK, vals![]),
            Stmt::new(
                select!(
                    SeenLease,
                    " FROM node WHERE id >= 0 AND id <> $1 AND ended_at IS NULL ORDER BY id"
                ),
                vals![node],
            ),
        ],
    )?;
    Ok(Heartbeat {
        clock: clock.value()?,
        others: others.rows.iter().map(SeenLease::read).collect::<Result<_>>()?,
    })
}

row! {
    /// Node `n` with the number of runs that it holds.
    struct StoredNode {
        id: NodeId = "n.id",
        name: String = "n.name",
        started_at: Timestamp = "n.started_at",
        lease_until: Timestamp = "n.lease_until",
        address: Option<String> = "n.address",
        version: String = "n.version",
        master_keys: String = "n.master_keys",
        draining_since: Option<Timestamp> = "n.draining_since",
        ended_at: Option<Timestamp> = "n.ended_at",
        runs: i64 = "(SELECT COUNT(*) FROM queue q WHERE q.node_id = n.id)",
    }
}

impl From<StoredNode> for NodeRow {
    fn from(stored: StoredNode) -> Self {
        Self {
            node: NewNode {
                id: stored.id,
                name: stored.name,
                started_at: stored.started_at,
                lease_until: stored.lease_until,
                address: stored.address,
                version: stored.version,
                master_keys: key_ids(&stored.master_keys),
                draining_since: stored.draining_since,
            },
            ended_at: stored.ended_at,
            runs: stored.runs,
        }
    }
}

/// Parses the ids of master keys from their stored form.
pub(crate) fn key_ids(stored: &str) -> Vec<String> {
    let ids = stored.split(',').filter(|id| !id.is_empty());
    ids.map(str::to_owned).collect()
}

fn register(tx: &mut dyn Tx, node: &NewNode, held: &str) -> Result<()> {
    let master_keys = node.master_keys.join(",");
    batch(
        tx,
        &[
            Stmt::new(LOCK, vals![]),
            Stmt::new(
                "UPDATE node SET ended_at = $2 WHERE name = $1 AND ended_at IS NULL",
                vals![node.name.as_str(), node.started_at],
            ),
            insert!("node", {
                "id": node.id,
                "name": node.name.as_str(),
                "started_at": node.started_at,
                "lease_until": node.lease_until,
                "address": node.address.as_deref(),
                "version": node.version.as_str(),
                "master_keys": master_keys,
                "draining_since": node.draining_since,
            }),
            adopt_content(node.id, held),
            forget_answers_of_earlier(node),
        ],
    )
    .map(drop)
}

fn deregister(tx: &mut dyn Tx, node: NodeId, at: Timestamp) -> Result<()> {
    batch(
        tx,
        &[
            Stmt::new(LOCK, vals![]),
            Stmt::new(
                "DELETE FROM node WHERE id = $1 \
                 AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NULL \
                 AND (SELECT u.run_id FROM unretained u WHERE u.node_id = node.id LIMIT 1) IS NULL",
                vals![node],
            ),
            Stmt::new(
                "UPDATE node SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL",
                vals![node, at],
            ),
        ],
    )
    .map(drop)
}
