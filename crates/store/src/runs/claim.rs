//! System: `claim_runs` gives waiting runs to nodes.
//!
//! Organizations are served in turn, beginning after the one served last. Within an organization the oldest run comes
//! first. An organization never has more claimed runs than its limit. Everything happens under a lock on the one row
//! of `dispatch`, so the limit is exact across nodes. The cost depends on the number of claimed runs, not on the
//! number of waiting ones: organizations are found by jumping through the index of waiting runs, and counts stop at
//! the usable number.

use std::time::Duration;

use sortie_api::{Micros, OrgId, RunStatus, RunUsage, Timestamp, TraceContext};

use super::{BUDGET_WITHOUT_SURCHARGE, RunUsageRow, json_ids, moves::sources, status_event};
use crate::{
    Error, Result, Store,
    db::{ReadRow, Row, Stmt, Tx, batch, filled, readable, row, select, vals},
    nodes::NodeId,
    runs::{EventRow, Fence, NewEvent, Retention},
};

/// Claim of a run: the node holds the run from now on. Has everything that a worker needs to begin or resume the run.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Fencing token of the first write.
    pub fence: Fence,
    /// Organization that owns the run.
    pub org: OrgId,
    /// Stored definition: the JSON of a resolved `RunRequest`. `None` for a run without retention.
    pub definition: Option<String>,
    /// Maximum cost of the run without its surcharge.
    pub max_cost: Micros,
    /// Creation time of the run.
    pub created_at: Timestamp,
    /// Time of the first claim, by the clock of the node that made the claim.
    pub started_at: Timestamp,
    /// Time since the first claim, by the database's clock. The time limit and the compute cost count from it.
    pub elapsed: Duration,
    /// Time limit in seconds.
    pub timeout_seconds: u32,
    /// Host and port of the callback's receiver. `None` for a run without a callback.
    pub callback_host: Option<String>,
    /// Trace that the run belongs to.
    pub trace: Option<TraceContext>,
    /// Origin of the claimed run.
    pub origin: Origin,
}

impl Claim {
    /// Retention of the run's content.
    pub fn retention(&self) -> Retention {
        match self.definition {
            Some(_) => Retention::Full,
            None => Retention::None,
        }
    }
}

/// Origin of a claimed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The queue. Has the `starting` event that the claim recorded.
    Queue(EventRow),
    /// A worker that was lost.
    Lost {
        /// Status that the worker left: `starting` or `running`.
        status: RunStatus,
        /// Cost that the worker recorded.
        cost: Micros,
        /// Usage that the worker recorded.
        usage: RunUsage,
    },
}

/// Request of a node for runs.
#[derive(Clone, Copy)]
struct Demand {
    node: NodeId,
    limit: u32,
    per_organization: Option<u32>,
}

impl Store {
    /// System: claims at most `limit` waiting runs for a node, fairly across organizations and the oldest
    /// first. `per_organization` is the limit of claimed runs of an organization (`None`: unlimited). Each
    /// run becomes `starting`, with `started_at` and its event. `Fenced` if the node was declared lost.
    pub async fn claim_runs(
        &self,
        node: NodeId,
        limit: u32,
        per_organization: Option<u32>,
        at: Timestamp,
    ) -> Result<Vec<Claim>> {
        let demand = Demand {
            node,
            limit,
            per_organization,
        };
        let event = status_event(RunStatus::Starting, None, at)?;
        self.db.write(move |tx| claim(tx, demand, &event)).await
    }
}

fn claim(tx: &mut dyn Tx, demand: Demand, event: &NewEvent) -> Result<Vec<Claim>> {
    let mut turns = waiting_organizations(tx, demand)?;
    let Some(last_served) = share_out(&mut turns, demand.limit) else {
        return Ok(Vec::new());
    };
    let mut statements = vec![Stmt::new(
        "UPDATE dispatch SET last_org = $1 WHERE id = 1",
        vals![last_served],
    )];
    statements.extend(turns.iter().filter(|turn| turn.granted > 0).map(|turn| {
        Stmt::new(
            "UPDATE queue SET node_id = $3 WHERE run_id {IN}\
             SELECT run_id FROM queue WHERE org_id = $1 AND node_id IS NULL \
             ORDER BY enqueued_at, run_id LIMIT $2{END} \
             RETURNING run_id",
            vals![turn.org, turn.granted, demand.node],
        )
    }));
    let taken = tx.batch(&statements)?;
    begin_runs(
        tx,
        &json_ids(taken.iter().flat_map(|answer| &answer.rows))?,
        event,
    )
}

/// Organization with waiting runs.
struct WaitingOrganization {
    org: OrgId,
    /// Number of runs that it could be given.
    open: u32,
    /// Number of runs that it is given.
    granted: u32,
}

row! {
    struct WaitingRow {
        org: OrgId = "org_id",
        waiting: u32 = "waiting",
        claimed: u32 = "claimed",
    }
}

/// Finds organizations with waiting runs, in the order in which they are served: from `@from` to the bound `@to`, and
/// at most as many as the number of runs to give.
const ORGANIZATIONS: &str = constcat::concat!(
    "WITH RECURSIVE waiting (org_id) AS (\
       SELECT (SELECT q.org_id FROM queue q WHERE q.node_id IS NULL AND @from@to ORDER BY q.org_id LIMIT 1) \
       UNION ALL \
       SELECT (SELECT q.org_id FROM queue q WHERE q.node_id IS NULL AND q.org_id > w.org_id@to \
         ORDER BY q.org_id LIMIT 1) FROM waiting w WHERE w.org_id IS NOT NULL) ",
    select!(WaitingRow, " FROM ("),
    "SELECT w.org_id AS org_id, \
       (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.org_id = w.org_id \
         AND q.node_id IS NULL LIMIT $1) AS counted) AS waiting, \
       (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.org_id = w.org_id \
         AND q.node_id IS NOT NULL AND COALESCE(q.node_id, -1) >= 0 LIMIT $2) AS counted) AS claimed \
       FROM waiting w WHERE w.org_id IS NOT NULL) AS found \
     WHERE ($2 = 0 OR claimed < $2) \
     AND (SELECT o.suspended_at FROM organization o WHERE o.id = found.org_id) IS NULL LIMIT $1"
);

fn waiting_organizations(tx: &mut dyn Tx, demand: Demand) -> Result<Vec<WaitingOrganization>> {
    let bound = demand.per_organization;
    if demand.limit == 0 || bound == Some(0) {
        return Ok(Vec::new());
    }
    let caps = || vals![demand.limit, bound.unwrap_or(0)];
    let [locked, _, after, before] = batch(
        tx,
        &[
            // The lock of claims and of the losses of nodes. It is not taken if no run waits.
            Stmt::new(
                "UPDATE dispatch SET turn = turn + 1 \
                 WHERE id = 1 AND EXISTS (SELECT 1 FROM queue WHERE node_id IS NULL AND org_id > '')",
                vals![],
            ),
            Stmt::new(
                "SELECT 1 FROM node WHERE id = $1 AND ended_at IS NULL",
                vals![demand.node],
            )
            .exactly(1, Error::Fenced),
            Stmt::new(
                filled!(
                    ORGANIZATIONS,
                    "@from" = "q.org_id > (SELECT last_org FROM dispatch WHERE id = 1)",
                    "@to" = ""
                ),
                caps(),
            ),
            Stmt::new(
                filled!(
                    ORGANIZATIONS,
                    "@from" = "q.org_id > ''",
                    "@to" = " AND q.org_id <= (SELECT last_org FROM dispatch WHERE id = 1)"
                ),
                caps(),
            ),
        ],
    )?;
    if locked.affected == 0 {
        // No run waited when this command checked whether to lock. Runs that the later statements have found are
        // newer, and are left to the next claim.
        return Ok(Vec::new());
    }
    after
        .rows
        .iter()
        .chain(&before.rows)
        .map(|row| Ok(WaitingOrganization::new(&WaitingRow::read(row)?, bound)))
        .collect()
}

impl WaitingOrganization {
    fn new(found: &WaitingRow, bound: Option<u32>) -> Self {
        let free = bound.map(|bound| bound.saturating_sub(found.claimed));
        Self {
            org: found.org,
            open: free.map_or(found.waiting, |free| free.min(found.waiting)),
            granted: 0,
        }
    }
}

/// Gives runs one by one to the organizations in turn, until `limit` runs are given or no organization can take
/// another. Returns the organization that was served last, if any.
fn share_out(turns: &mut [WaitingOrganization], limit: u32) -> Option<OrgId> {
    let mut left = limit;
    let mut last_served = None;
    loop {
        let before = left;
        for turn in turns.iter_mut() {
            if left > 0 && turn.granted < turn.open {
                turn.granted += 1;
                left -= 1;
                last_served = Some(turn.org);
            }
        }
        if left == before {
            return last_served;
        }
    }
}

/// Moves the runs `ids` to `starting` and reads the data that their workers need.
pub(super) fn begin_runs(tx: &mut dyn Tx, ids: &str, event: &NewEvent) -> Result<Vec<Claim>> {
    let mut change = vals![ids, RunStatus::Starting, event.at];
    change.extend(sources(RunStatus::Starting)?);
    let [_, _, rows] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE run SET status = $2, started_at = $3, clock_started_at = COALESCE({NOW}, $3), attempt = attempt + 1, \
                 last_event = last_event + 1 \
                 WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status IN ($4, $5, $6, $7)",
                change,
            ),
            Stmt::new(
                "INSERT INTO event (run_id, seq, kind, data, created_at) \
                 SELECT id, last_event, $2, $3, CAST($4 AS BIGINT) FROM run \
                 WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND zero_data_retention = 0",
                vals![ids, event.kind, event.data.as_str(), event.at],
            ),
            Stmt::new(CLAIMS, vals![ids, event.at]),
        ],
    )?;
    // An unreadable run is held without a task, and the reconciler will find it.
    Ok(readable(&rows.rows, "claimed run", |row| {
        let claimed = ClaimRow::read(row)?;
        let origin = Origin::Queue(EventRow {
            seq: claimed.fence.last_event,
            kind: event.kind.to_owned(),
            data: event.data.clone(),
            created_at: event.at,
        });
        Ok(claimed.claim(origin))
    }))
}

row! {
    /// Run `r` with the data that its worker needs.
    pub(super) struct ClaimRow {
        fence: Fence,
        org: OrgId = "r.org_id",
        max_cost: Micros = BUDGET_WITHOUT_SURCHARGE,
        timeout_seconds: u32 = "r.timeout_seconds",
        started_at: Timestamp = "r.started_at",
        definition: Option<String> = "(SELECT d.definition FROM run_definition d WHERE d.run_id = r.id)",
        callback_host: Option<String> = "r.callback_host",
        created_at: Timestamp = "r.created_at",
        trace: Option<TraceContext> as TraceRow,
        elapsed: u64 =
            "{GREATEST}(0, COALESCE(COALESCE({NOW}, $2) - r.clock_started_at, $2 - r.started_at))",
    }
}

row! {
    /// Run `r` that another worker has begun.
    pub(super) struct LostRow {
        pub(super) run: ClaimRow,
        pub(super) status: RunStatus = "r.status",
        pub(super) cost: Micros = "r.cost_micros",
        pub(super) usage: RunUsage as RunUsageRow,
    }
}

impl ClaimRow {
    pub(super) fn claim(self, origin: Origin) -> Claim {
        Claim {
            fence: self.fence,
            org: self.org,
            definition: self.definition,
            max_cost: self.max_cost,
            created_at: self.created_at,
            started_at: self.started_at,
            elapsed: Duration::from_micros(self.elapsed),
            timeout_seconds: self.timeout_seconds,
            callback_host: self.callback_host,
            trace: self.trace,
            origin,
        }
    }
}

/// Trace of a run `r`, each of its columns between `@before` and `@after`. `None` also for texts that are no trace.
pub(crate) struct TraceRow(pub(crate) Option<TraceContext>);

impl ReadRow for TraceRow {
    const COLUMNS: &'static str = "@before r.traceparent @after, @before r.tracestate @after";
    const WIDTH: usize = 2;

    fn read_from(row: &Row, first: usize) -> Result<Self> {
        let parent: Option<&str> = row.column(first, "traceparent")?;
        let state = row.column(first + 1, "tracestate")?;
        Ok(Self(parent.and_then(|parent| TraceContext::parse(parent, state))))
    }
}

/// End of a statement that reads runs, the oldest first. Parameters: their ids, and the time.
const OF_IDS: &str =
    " FROM run r WHERE r.id {IN}SELECT value FROM {JSON_EACH}($1){END} ORDER BY r.created_at, r.id";

/// Reads runs as [`ClaimRow`].
const CLAIMS: &str = filled!(select!(ClaimRow, OF_IDS), "@before" = "", "@after" = "");

/// Reads runs as [`LostRow`].
pub(super) const LOST: &str = filled!(select!(LostRow, OF_IDS), "@before" = "", "@after" = "");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(open: &[u32]) -> Vec<WaitingOrganization> {
        open.iter()
            .zip(0_u8..)
            .map(|(&open, number)| WaitingOrganization {
                org: OrgId::new(Timestamp::from_micros(0), [number; 10]),
                open,
                granted: 0,
            })
            .collect()
    }

    fn granted(open: &[u32], limit: u32) -> Vec<u32> {
        let mut turns = turns(open);
        share_out(&mut turns, limit);
        turns.iter().map(|turn| turn.granted).collect()
    }

    #[test]
    fn runs_are_shared_out_in_rounds() {
        assert_eq!(granted(&[10, 1, 10], 6), [3, 1, 2]);
        assert_eq!(granted(&[1, 1], 6), [1, 1]);
        assert_eq!(granted(&[5, 5, 5], 2), [1, 1, 0]);
    }

    proptest! {
        #[test]
        fn no_organization_gets_two_more_than_another_that_could_take_more(
            open in prop::collection::vec(0_u32..20, 0..10), limit in 0_u32..100,
        ) {
            let granted = granted(&open, limit);
            prop_assert_eq!(granted.iter().sum::<u32>(), limit.min(open.iter().sum()));
            for (given, open) in granted.iter().zip(&open) {
                prop_assert!(given <= open);
                if given < open {
                    prop_assert!(granted.iter().all(|other| *other <= given + 1));
                }
            }
        }
    }
}
