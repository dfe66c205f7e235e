//! Database server in memory. A simulation compares the contents of its tables with the answers that clients got. A seed
//! drives the network, the clock and the faults of the server.

use std::collections::BTreeMap;

use sortie_api::{RunId, RunStatus};

pub use crate::db::simulated::{Faults, Outage, SeenNode, SimulatedDatabase, SimulatedLink, SimulatedServer};
use crate::{
    Result,
    db::{ReadRow, row, select},
    schema::SCHEMA,
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

/// Creates an empty database with every table.
pub fn database() -> Result<SimulatedDatabase> {
    SimulatedDatabase::new(SCHEMA)
}

/// Returns every run.
pub fn runs(server: &SimulatedServer) -> Result<Vec<SeenRun>> {
    let rows = server.query(select!(
        SeenRun,
        " FROM run r LEFT JOIN queue q ON q.run_id = r.id ORDER BY r.id"
    ))?;
    rows.iter().map(SeenRun::read).collect()
}

/// Returns the number of terminal `status` events of each run with stored events.
pub fn ends(server: &SimulatedServer) -> Result<BTreeMap<RunId, i64>> {
    let rows = server.query(select!(
        RunEnds,
        " FROM run r WHERE r.zero_data_retention = 0 ORDER BY r.id"
    ))?;
    let ends = rows.iter().map(RunEnds::read);
    ends.map(|ends| ends.map(|ends| (ends.run, ends.number)))
        .collect()
}

/// Returns every budget window, with the sum of the holds that name it.
pub fn budgets(server: &SimulatedServer) -> Result<Vec<SeenBudget>> {
    let rows = server.query(select!(SeenBudget, " FROM budget_window w ORDER BY w.scope"))?;
    rows.iter().map(SeenBudget::read).collect()
}
