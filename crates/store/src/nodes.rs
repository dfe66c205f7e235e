//! System: started processes and their leases. A node holds every run it has claimed for as long as its lease
//! lasts; renewing it is one update, however many runs there are.

use sortie_api::Timestamp;

use crate::{
    Store,
    db::{Stmt, Tx, batch, vals},
    types::{Error, NewNode, NodeId, Result},
};

/// Takes the lock under which runs are handed out and nodes come and go.
pub(crate) const LOCK: &str = "UPDATE dispatch SET turn = turn + 1 WHERE id = 1";

impl Store {
    /// System: makes a node known, and its earlier incarnations (same name) lost.
    pub async fn register_node(&self, node: NewNode) -> Result<()> {
        self.db.write(move |tx| register(tx, &node)).await
    }

    /// System: renews a node's lease, and with it every run it has claimed. `Fenced` when it was declared lost meanwhile.
    /// It passes all commands that wait, and is `Unavailable` where it is not done within two seconds.
    pub async fn heartbeat(&self, node: NodeId, lease_until: Timestamp) -> Result<()> {
        self.db
            .urgent(move |tx| {
                tx.batch(&[Stmt::new(
                    "UPDATE node SET lease_until = $2 WHERE id = $1 AND ended_at IS NULL",
                    vals![node, lease_until],
                )
                .exactly(1, Error::Fenced)])
                    .map(drop)
            })
            .await
    }

    /// System: signs a node off that has stopped in good order. Runs that it still holds are lost from here on: the next
    /// sweep takes them over. No error where it is not known any more.
    pub async fn deregister_node(&self, node: NodeId, at: Timestamp) -> Result<()> {
        self.db.write(move |tx| deregister(tx, node, at)).await
    }
}

fn register(tx: &mut dyn Tx, node: &NewNode) -> Result<()> {
    batch(
        tx,
        &[
            Stmt::new(LOCK, vals![]),
            Stmt::new(
                "UPDATE node SET ended_at = $2 WHERE name = $1 AND ended_at IS NULL",
                vals![node.name.as_str(), node.started_at],
            ),
            Stmt::new(
                "INSERT INTO node (id, name, started_at, lease_until, address) VALUES ($1, $2, $3, $4, $5)",
                vals![
                    node.id,
                    node.name.as_str(),
                    node.started_at,
                    node.lease_until,
                    node.address.as_deref()
                ],
            ),
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
                 AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NULL",
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
