//! A look at the tables for a simulation, which holds them against what clients were told.

use std::{collections::BTreeMap, time::Duration};

use sortie_api::{RunId, RunStatus};

use super::{SimulatedLink, SimulatedServer, database::Done};
use crate::types::{NodeId, Result};

/// A run.
#[derive(Clone, Debug)]
pub struct SeenRun {
    /// The run.
    pub id: RunId,
    /// Current status.
    pub status: RunStatus,
    /// Number of attempts.
    pub attempt: i64,
    /// Number of the last event.
    pub last_event: i64,
    /// Idempotency key.
    pub key: Option<String>,
    /// Whether it has zero data retention.
    pub is_unretained: bool,
    /// Whether an output is held for its first reader.
    pub holds_output: bool,
    /// Whether its cost may change.
    pub is_billing_pending: bool,
    /// Cost in micros.
    pub cost: i64,
    /// Node that holds it, where it is in the queue.
    pub queued: Option<Option<NodeId>>,
}

/// A budget window.
#[derive(Clone, Copy, Debug)]
pub struct SeenBudget {
    /// Sum of the holds, as the window counts them.
    pub held: i64,
    /// Sum of the holds of runs.
    pub holds: i64,
    /// Sum of what was spent.
    pub spent: i64,
}

/// A node that was declared lost.
#[derive(Clone, Debug)]
pub struct SeenNode {
    /// The node.
    pub id: NodeId,
    /// Link of the process that made it known.
    pub link: SimulatedLink,
    /// Name of the node whose command did so.
    pub by: String,
    /// Whether its link had no trouble for the time of a lease.
    pub was_reachable: bool,
}

/// The nodes that are known, and those that were declared lost since it was asked last.
#[derive(Default)]
pub(super) struct Nodes {
    known: BTreeMap<i64, SimulatedLink>,
    lost: Vec<SeenNode>,
}

/// Time for which a link must have had no trouble: a lease, and a heartbeat.
const LEASE: Duration = Duration::from_secs(13);

impl SimulatedServer {
    /// Every run.
    pub fn runs(&self) -> Result<Vec<SeenRun>> {
        let rows = self.database().query(
            "SELECT r.id, r.status, r.attempt, r.last_event, r.idempotency_key, r.zero_data_retention, \
             r.output_expires_at, r.billing_pending, r.cost_micros, q.run_id, q.node_id \
             FROM run r LEFT JOIN queue q ON q.run_id = r.id ORDER BY r.id",
        )?;
        rows.iter()
            .map(|row| {
                Ok(SeenRun {
                    id: row.parse(0)?,
                    status: row.parse(1)?,
                    attempt: row.int(2)?,
                    last_event: row.int(3)?,
                    key: row.opt_text(4)?.map(str::to_owned),
                    is_unretained: row.int(5)? == 1,
                    holds_output: row.opt_int(6)?.is_some(),
                    is_billing_pending: row.int(7)? == 1,
                    cost: row.int(8)?,
                    queued: match row.opt_text(9)? {
                        Some(_) => Some(row.opt_int(10)?.map(NodeId)),
                        None => None,
                    },
                })
            })
            .collect()
    }

    /// Final `status` events of each run whose events are stored.
    pub fn ends(&self) -> Result<BTreeMap<RunId, i64>> {
        let rows = self.database().query(
            "SELECT r.id, (SELECT COUNT(*) FROM event e WHERE e.run_id = r.id AND e.kind = 'status' \
             AND (e.data LIKE '%\"succeeded\"%' OR e.data LIKE '%\"failed\"%' OR e.data LIKE '%\"cancelled\"%' \
             OR e.data LIKE '%\"timed_out\"%' OR e.data LIKE '%\"interrupted\"%')) \
             FROM run r WHERE r.zero_data_retention = 0 ORDER BY r.id",
        )?;
        rows.iter().map(|row| Ok((row.parse(0)?, row.int(1)?))).collect()
    }

    /// Every budget window, with the sum of the holds that name it.
    pub fn budgets(&self) -> Result<Vec<SeenBudget>> {
        let rows = self.database().query(
            "SELECT w.held_micros, (SELECT COALESCE(SUM(h.held_micros), 0) FROM budget_hold h \
             WHERE h.org_id = w.org_id AND h.scope = w.scope AND h.since = w.since AND h.starts_at = w.starts_at), \
             w.spent_micros FROM budget_window w ORDER BY w.scope",
        )?;
        rows.iter()
            .map(|row| {
                Ok(SeenBudget {
                    held: row.int(0)?,
                    holds: row.int(1)?,
                    spent: row.int(2)?,
                })
            })
            .collect()
    }

    /// The nodes that others have declared lost since this was asked last.
    pub fn lost_nodes(&self) -> Vec<SeenNode> {
        std::mem::take(&mut self.state().nodes.lost)
    }

    /// Notes which nodes a transaction of the process behind `by` has declared lost.
    pub(super) fn look_at_nodes(&self, by: &SimulatedLink, transaction: &[Done]) {
        let touches =
            |done: &Done| done.answer.affected > 0 && TOUCHES.iter().any(|start| done.sql.starts_with(start));
        if !transaction.iter().any(touches) {
            return;
        }
        match self.alive() {
            Ok(alive) => self.compare_nodes(by, &alive),
            Err(error) => tracing::error!(%error, "the nodes cannot be looked at"),
        }
    }

    fn compare_nodes(&self, by: &SimulatedLink, alive: &[i64]) {
        let nodes = &mut self.state().nodes;
        let before = std::mem::take(&mut nodes.known);
        for id in alive {
            // A node makes itself known.
            let link = before.get(id).unwrap_or(by);
            nodes.known.insert(*id, link.clone());
        }
        for (id, link) in before {
            if nodes.known.contains_key(&id) || link.name() == by.name() {
                continue;
            }
            nodes.lost.push(SeenNode {
                id: NodeId(id),
                was_reachable: !link.is_cut() && !link.had_trouble_within(LEASE),
                link,
                by: by.name().to_owned(),
            });
        }
    }

    fn alive(&self) -> Result<Vec<i64>> {
        let rows = self
            .database()
            .query("SELECT id FROM node WHERE ended_at IS NULL ORDER BY id")?;
        rows.iter().map(|row| row.int(0)).collect()
    }
}

/// Statements after which other nodes may be known.
const TOUCHES: [&str; 3] = ["UPDATE node SET ended_at", "DELETE FROM node", "INSERT INTO node"];
