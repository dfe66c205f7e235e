//! Contents of the tables, for a simulation that compares them with what clients were told.

use std::{collections::BTreeMap, time::Duration};

use sortie_api::{RunId, RunStatus};

use super::{SimulatedLink, SimulatedServer, database::Done};
use crate::{Result, nodes::NodeId};

/// State of a run in the tables.
#[derive(Clone, Debug)]
pub struct SeenRun {
    /// Id of the run.
    pub id: RunId,
    /// Current status.
    pub status: RunStatus,
    /// Number of attempts.
    pub attempt: i64,
    /// Sequence number of the last event.
    pub last_event: i64,
    /// Idempotency key of the client.
    pub key: Option<String>,
    /// Whether the run has zero data retention.
    pub is_unretained: bool,
    /// Whether an output is held for its first reader.
    pub holds_output: bool,
    /// Whether the cost may still change.
    pub is_billing_pending: bool,
    /// Cost in micros.
    pub cost: i64,
    /// Cost in micros of the calls in the stored events.
    pub cost_of_events: i64,
    /// Entry in the queue, if the run has one: the node that holds the run, or `None` while it waits.
    pub queued: Option<Option<NodeId>>,
}

/// State of a budget window.
#[derive(Clone, Copy, Debug)]
pub struct SeenBudget {
    /// Amount held, as the window has it.
    pub held: i64,
    /// Sum of the holds that runs have in the window.
    pub holds: i64,
    /// Amount spent, as the window has it.
    pub spent: i64,
}

/// Node that was declared lost.
#[derive(Clone, Debug)]
pub struct SeenNode {
    /// Id of the node.
    pub id: NodeId,
    /// Link of the process that registered the node.
    pub link: SimulatedLink,
    /// Name of the node whose command declared it lost.
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
    /// Returns every run.
    pub fn runs(&self) -> Result<Vec<SeenRun>> {
        let rows = self.database().query(
            "SELECT r.id, r.status, r.attempt, r.last_event, r.idempotency_key, r.zero_data_retention, \
             r.output_expires_at, r.billing_pending, r.cost_micros, q.run_id, q.node_id, \
             (SELECT COALESCE(SUM(json_extract(e.data, '$.cost_micros')), 0) FROM event e \
              WHERE e.run_id = r.id AND e.kind IN ('model_call', 'tool_end')) \
             FROM run r LEFT JOIN queue q ON q.run_id = r.id ORDER BY r.id",
        )?;
        rows.iter()
            .map(|row| {
                Ok(SeenRun {
                    id: row.column(0, "id")?,
                    status: row.column(1, "status")?,
                    attempt: row.int(2)?,
                    last_event: row.int(3)?,
                    key: row.column(4, "idempotency_key")?,
                    is_unretained: row.int(5)? == 1,
                    holds_output: row.column::<Option<i64>>(6, "output_expires_at")?.is_some(),
                    is_billing_pending: row.int(7)? == 1,
                    cost: row.int(8)?,
                    cost_of_events: row.int(11)?,
                    queued: match row.column::<Option<&str>>(9, "run_id")? {
                        Some(_) => Some(row.column(10, "node_id")?),
                        None => None,
                    },
                })
            })
            .collect()
    }

    /// Returns the number of terminal `status` events of each run whose events are stored.
    pub fn ends(&self) -> Result<BTreeMap<RunId, i64>> {
        let rows = self.database().query(
            "SELECT r.id, (SELECT COUNT(*) FROM event e WHERE e.run_id = r.id AND e.kind = 'status' \
             AND (e.data LIKE '%\"succeeded\"%' OR e.data LIKE '%\"failed\"%' OR e.data LIKE '%\"cancelled\"%' \
             OR e.data LIKE '%\"timed_out\"%' OR e.data LIKE '%\"interrupted\"%')) \
             FROM run r WHERE r.zero_data_retention = 0 ORDER BY r.id",
        )?;
        rows.iter().map(|row| Ok((row.only()?, row.int(1)?))).collect()
    }

    /// Returns every budget window, with the sum of the holds that name it.
    pub fn budgets(&self) -> Result<Vec<SeenBudget>> {
        let rows = self.database().query(
            "SELECT w.held_micros, (SELECT COALESCE(SUM(r.max_cost_micros), 0) FROM run r \
             WHERE r.org_id = w.org_id AND r.billing_pending = 1 \
             AND r.holds LIKE '%[\"' || w.scope || '\",' || w.since || ',' || w.starts_at || ']%'), \
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

    /// Returns the nodes that others have declared lost since the last call.
    pub fn lost_nodes(&self) -> Vec<SeenNode> {
        std::mem::take(&mut self.state().nodes.lost)
    }

    /// Records which nodes a transaction of the process behind `by` has declared lost.
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
                id: NodeId(id),
                was_reachable: !link.is_cut() && !link.had_outage_within(LEASE),
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

/// Statements that may change the set of known nodes.
const TOUCHES: [&str; 3] = ["UPDATE node SET ended_at", "DELETE FROM node", "INSERT INTO node"];
