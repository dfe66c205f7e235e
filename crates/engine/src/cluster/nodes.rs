//! The nodes of this engine: their list for administrators, and their shares of request quotas.

use sortie_api::{
    Refusal, Timestamp,
    node::{Node, NodeState},
};
use sortie_store::nodes::{Leased, NodeRow, WantedBlock};

use crate::Engine;

impl Engine {
    /// Returns the registered nodes, by name: the live ones, and lost ones that still hold runs.
    pub async fn list_nodes(&self) -> Result<Vec<Node>, Refusal> {
        let now = self.0.cluster.identity.leases.now();
        let rows = self.store().list_nodes().await?;
        Ok(rows.into_iter().map(|row| node(row, now)).collect())
    }

    /// Leases blocks of request quotas to this node, as [`Store::lease_rates`](sortie_store::Store::lease_rates) does,
    /// and counts the live nodes.
    pub async fn lease_rates(&self, wanted: Vec<WantedBlock>, nodes: u32) -> sortie_store::Result<Leased> {
        let now = self.0.cluster.identity.leases.now();
        self.store().lease_rates(wanted, nodes, now).await
    }
}

fn node(row: NodeRow, now: Timestamp) -> Node {
    let NodeRow { node, ended_at, runs } = row;
    let state = if ended_at.is_some() || node.lease_until < now {
        NodeState::Lost
    } else if node.draining_since.is_some() {
        NodeState::Draining
    } else {
        NodeState::Ready
    };
    Node {
        id: node.id.0.to_string(),
        name: node.name,
        address: node.address,
        version: Some(node.version).filter(|version| !version.is_empty()),
        state,
        started_at: node.started_at,
        lease_until: node.lease_until,
        runs_at_work: runs,
    }
}

#[cfg(test)]
mod tests {
    use sortie_store::nodes::{NewNode, NodeId};

    use super::*;

    #[test]
    fn a_node_is_what_its_row_says_and_lost_once_its_lease_is_over() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let row = |lease_until, draining_since, ended_at| NodeRow {
            node: NewNode {
                id: NodeId(7),
                name: "a".to_owned(),
                started_at: now,
                lease_until: Timestamp::from_micros(lease_until),
                address: None,
                version: String::new(),
                master_keys: Vec::new(),
                draining_since,
            },
            ended_at,
            runs: 3,
        };
        let (alive, over) = (now.as_micros(), now.as_micros() - 1);
        for (row, state) in [
            (row(alive, None, None), NodeState::Ready),
            (row(alive, Some(now), None), NodeState::Draining),
            (row(over, Some(now), None), NodeState::Lost),
            (row(alive, None, Some(now)), NodeState::Lost),
        ] {
            let shown = node(row, now);
            assert_eq!(
                (shown.state, shown.version, shown.runs_at_work, &*shown.id),
                (state, None, 3, "7")
            );
        }
    }
}
