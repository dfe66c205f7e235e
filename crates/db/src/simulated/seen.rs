//! Nodes that others have declared lost, for a simulation that knows whether they were reachable.

use std::{collections::BTreeMap, time::Duration};

use super::{SimulatedLink, SimulatedServer, database::Done};
use crate::{Result, Row};

/// Node that was declared lost.
#[derive(Clone, Debug)]
pub struct SeenNode {
    /// Id of the node.
    pub id: i64,
    /// Link of the process that registered the node.
    pub link: SimulatedLink,
    /// Name of the node that declared it lost.
    pub by: String,
    /// Whether the node was alive and its link had no outage for the duration of a lease.
    pub was_reachable: bool,
}

/// Nodes that are registered, and those declared lost since the last query.
#[derive(Default)]
pub(super) struct Nodes {
    known: BTreeMap<i64, SimulatedLink>,
    lost: Vec<SeenNode>,
}

/// Time for which a link must have had no outage: a lease and a heartbeat.
const LEASE: Duration = Duration::from_secs(13);

impl SimulatedServer {
    /// Returns the nodes that others have declared lost since the last call.
    pub fn lost_nodes(&self) -> Vec<SeenNode> {
        std::mem::take(&mut self.state().nodes.lost)
    }

    /// Records which nodes a transaction of the process `by` has declared lost.
    pub(super) fn look_at_nodes(&self, by: &SimulatedLink, transaction: &[Done]) {
        let touches =
            |done: &Done| done.answer.affected > 0 && TOUCHES.iter().any(|start| done.sql.starts_with(start));
        if !transaction.iter().any(touches) {
            return;
        }
        match self.alive() {
            Ok(alive) => self.compare_nodes(by, &alive),
            Err(error) => tracing::error!(%error, "cannot read the nodes"),
        }
    }

    fn compare_nodes(&self, by: &SimulatedLink, alive: &[i64]) {
        let nodes = &mut self.state().nodes;
        let before = std::mem::take(&mut nodes.known);
        for id in alive {
            // A node registers itself.
            let link = before.get(id).unwrap_or(by);
            nodes.known.insert(*id, link.clone());
        }
        for (id, link) in before {
            if nodes.known.contains_key(&id) || link.name() == by.name() {
                continue;
            }
            nodes.lost.push(SeenNode {
                id,
                was_reachable: !link.is_cut() && !link.had_outage_within(LEASE),
                link,
                by: by.name().to_owned(),
            });
        }
    }

    fn alive(&self) -> Result<Vec<i64>> {
        let rows = self.query("SELECT id FROM node WHERE ended_at IS NULL ORDER BY id")?;
        rows.iter().map(Row::only).collect()
    }
}

/// Statements that may change the set of known nodes.
const TOUCHES: [&str; 3] = ["UPDATE node SET ended_at", "DELETE FROM node", "INSERT INTO node"];
