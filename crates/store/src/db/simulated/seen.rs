//! Contents of the tables, for a simulation that compares them with what clients were told.

use std::{collections::BTreeMap, time::Duration};

use sortie_api::{RunId, RunStatus};

use super::{SimulatedLink, SimulatedServer, database::Done};
use crate::{
    Result,
    db::{ReadRow, Row, row, select},
    nodes::NodeId,
};

row! {
    /// State of a run in the tables.
    #[derive(Clone, Debug)]
    pub struct SeenRun {
        /// Id of the run.
        pub id: RunId = "r.id",
        /// Current status.
        pub status: RunStatus = "r.status",
        /// Number of attempts.
        pub attempt: i64 = "r.attempt",
        /// Sequence number of the last event.
        pub last_event: i64 = "r.last_event",
        /// Idempotency key of the client.
        pub key: Option<String> = "r.idempotency_key",
        /// Whether the run has zero data retention.
        pub is_unretained: bool = "r.zero_data_retention",
        /// Whether an output is held for its first reader.
        pub holds_output: bool = "r.output_expires_at IS NOT NULL",
        /// Whether the cost may still change.
        pub is_billing_pending: bool = "r.billing_pending",
        /// Cost in micros.
        pub cost: i64 = "r.cost_micros",
        /// Cost in micros of the calls in the stored events.
        pub cost_of_events: i64 =
            "(SELECT COALESCE(SUM(json_extract(e.data, '$.cost_micros')), 0) FROM event e \
              WHERE e.run_id = r.id AND e.kind IN ('model_call', 'tool_end'))",
        /// Whether the run has an entry in the queue.
        pub is_queued: bool = "q.run_id IS NOT NULL",
    }
}

row! {
    /// State of a budget window.
    #[derive(Clone, Copy, Debug)]
    pub struct SeenBudget {
        /// Amount held, as the window has it.
        pub held: i64 = "w.held_micros",
        /// Sum of the holds that runs have in the window.
        pub holds: i64 =
            "(SELECT COALESCE(SUM(r.max_cost_micros), 0) FROM run r WHERE r.org_id = w.org_id AND r.billing_pending = 1 \
              AND r.holds LIKE '%[\"' || w.scope || '\",' || w.since || ',' || w.starts_at || ']%')",
        /// Amount spent, as the window has it.
        pub spent: i64 = "w.spent_micros",
    }
}

row! {
    struct RunEnds {
        run: RunId = "r.id",
        number: i64 =
            "(SELECT COUNT(*) FROM event e WHERE e.run_id = r.id AND e.kind = 'status' \
              AND (e.data LIKE '%\"succeeded\"%' OR e.data LIKE '%\"failed\"%' OR e.data LIKE '%\"cancelled\"%' \
              OR e.data LIKE '%\"timed_out\"%' OR e.data LIKE '%\"interrupted\"%'))",
    }
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
        let rows = self.database().query(select!(
            SeenRun,
            " FROM run r LEFT JOIN queue q ON q.run_id = r.id ORDER BY r.id"
        ))?;
        rows.iter().map(SeenRun::read).collect()
    }

    /// Returns the number of terminal `status` events of each run whose events are stored.
    pub fn ends(&self) -> Result<BTreeMap<RunId, i64>> {
        let rows = self.database().query(select!(
            RunEnds,
            " FROM run r WHERE r.zero_data_retention = 0 ORDER BY r.id"
        ))?;
        let ends = rows.iter().map(RunEnds::read);
        ends.map(|ends| ends.map(|ends| (ends.run, ends.number)))
            .collect()
    }

    /// Returns every budget window, with the sum of the holds that name it.
    pub fn budgets(&self) -> Result<Vec<SeenBudget>> {
        let rows = self
            .database()
            .query(select!(SeenBudget, " FROM budget_window w ORDER BY w.scope"))?;
        rows.iter().map(SeenBudget::read).collect()
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
        rows.iter().map(Row::only).collect()
    }
}

/// Statements that may change the set of known nodes.
const TOUCHES: [&str; 3] = ["UPDATE node SET ended_at", "DELETE FROM node", "INSERT INTO node"];
