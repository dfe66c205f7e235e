//! Runs: one file per command, and the code that they share.
//!
//! Commands take locks in the order dispatch, node, queue, run, event, journal, which avoids deadlocks.

pub(crate) mod artifacts;
mod cancel;
mod claim;
mod claim_named;
mod create;
mod feed;
mod finish;
mod journal;
pub(crate) mod large;
mod list;
mod lost;
mod moves;
mod named;
mod new_run;
mod position;
mod price;
mod progress;
mod read;
pub(crate) mod retention;
pub(crate) mod sweep;
mod takeover;
mod unretained;
mod walk;
mod work;

pub use artifacts::{KeptArtifact, NewArtifacts, RunArtifacts};
pub use cancel::{Cancelled, FinalCost, Settled};
pub use claim::{Claim, Origin};
pub use create::Created;
pub use feed::{RunState, RunStates};
pub use finish::{Finish, Journal, Receiver, StoredCredentials};
pub use large::{LargeText, ListedEvent, ListedRun};
pub use list::RunFilter;
pub use new_run::{Definition, InlineCredentials, Labels, NewCallback, NewRun, Retention, Unretained};
pub use position::{Position, Watched};
pub use progress::{Append, EventRow, Fence, NewEntries, NewEvent};
pub use read::{EventSelection, Followed, Progress, StoredDefinition};
pub use retention::{Batch, Deleted, Expiry, OpenCallbacks, Undeletable};
pub use sweep::{Held, Sweep, Swept};
pub use unretained::{ContentHolder, Counted, PlainError, UnretainedFinish};

pub(crate) use claim::TraceRow;
pub(crate) use create::create_new;
use sortie_api::{
    Artifact, KeyId, Metadata, Micros, Run, RunId, RunStatus, RunUsage, ScheduleId, Timestamp,
    event::EventType,
};

pub(crate) use unretained::{adopt_content, forget_answers_of_earlier};

use self::{artifacts::ARTIFACTS, large::SHORT};
use crate::{
    Error, Result,
    db::{IfReadable, Json, Row, Stmt, Val, filled, row, select, vals},
};

row! {
    /// Row of a run.
    struct RunRow {
        id: RunId = "id",
        status: RunStatus = "status",
        error: Option<String> = "error",
        title: Option<String> = "title",
        created_at: Timestamp = "created_at",
        started_at: Option<Timestamp> = "started_at",
        finished_at: Option<Timestamp> = "finished_at",
        max_cost: Micros = "max_cost_micros",
        cost: Micros = "cost_micros",
        billing_pending: bool = "billing_pending",
        schedule: Option<ScheduleId> = "schedule_id",
        workflow: Option<String> = "workflow",
        model: Option<String> = "model",
        key: Option<KeyId> = "key_id",
        replay_of: Option<RunId> = "replay_of",
        timeout_seconds: u32 = "timeout_seconds",
        last_event: i64 = "last_event",
        tags: Option<Json<Vec<String>>> = "tags",
        metadata: Option<Json<Metadata>> = "metadata",
        zero_data_retention: bool = "zero_data_retention",
        usage: RunUsage as RunUsageRow,
        surcharge_percent: IfReadable<u32> = "surcharge_percent",
        surcharge: Micros = "surcharge_micros",
        output_expires_at: Option<Timestamp> = "output_expires_at",
        output_read_at: Option<Timestamp> = "output_read_at",
        // Set from a valid `traceparent`: version, trace, parent and flags, separated by hyphens.
        trace_id: Option<String> = "SUBSTR(traceparent, 4, 32)",
    }
}

row! {
    struct RunUsageRow(RunUsage) {
        input_tokens = "input_tokens",
        output_tokens = "output_tokens",
        cache_read_tokens = "cache_read_tokens",
        cache_write_tokens = "cache_write_tokens",
        model_calls = "model_calls",
        tool_calls = "tool_calls",
    }
}

impl RunRow {
    /// The run with an output and artifacts from elsewhere.
    fn run(self, output: Option<String>, artifacts: Vec<Artifact>) -> Run {
        let is_unretained = self.zero_data_retention;
        Run {
            id: self.id,
            status: self.status,
            output,
            error: self.error,
            title: self.title,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            max_cost_micros: self.max_cost,
            cost_micros: self.cost,
            billing_pending: self.billing_pending,
            schedule_id: self.schedule,
            workflow: self.workflow,
            model: self.model,
            key_id: self.key,
            replay_of: self.replay_of,
            timeout_seconds: self.timeout_seconds,
            last_event_id: self.last_event,
            tags: self.tags.unwrap_or_default().0,
            metadata: self.metadata.unwrap_or_default().0,
            zero_data_retention: is_unretained,
            usage: (self.status.is_final() || self.started_at.is_some()).then_some(self.usage),
            surcharge_percent: self
                .surcharge_percent
                .0
                .filter(|percent| is_unretained && *percent > 0),
            surcharge_micros: self.surcharge,
            output_available: is_unretained.then_some(self.output_expires_at.is_some()),
            output_expires_at: self.output_expires_at,
            output_read_at: self.output_read_at,
            trace_id: self.trace_id,
            artifacts,
        }
    }
}

/// Column of the output of the run `r`. It is read run by run: otherwise a planner that saw an empty table of outputs
/// would keep choosing a full scan.
const OUTPUT: &str = "(SELECT @column FROM run_output o WHERE o.run_id = r.id)";

row! {
    /// Run `r` with its output and artifacts.
    struct StoredRun {
        run: RunRow,
        output: Option<String> = filled!(OUTPUT, "@column" = "o.output"),
        artifacts: Option<Json<Vec<Artifact>>> = ARTIFACTS,
    }
}

impl From<StoredRun> for Run {
    fn from(stored: StoredRun) -> Self {
        stored
            .run
            .run(stored.output, stored.artifacts.unwrap_or_default().0)
    }
}

/// Start of a query for [`StoredRun`].
const SELECT_RUNS: &str = select!(StoredRun, " FROM run r WHERE ");

row! {
    /// Run `r` of a list, without a large output. `@if` and `@end` enclose the columns of the output.
    struct ListedRunRow {
        run: RunRow,
        output: Option<String> = constcat::concat!(
            "@if",
            filled!(OUTPUT, "@column" = filled!(SHORT, "@column" = "o.output")),
            "@end"
        ),
        artifacts: Option<Json<Vec<Artifact>>> = ARTIFACTS,
        output_length: Option<i64> =
            constcat::concat!("@if", filled!(OUTPUT, "@column" = "octet_length(o.output)"), "@end"),
    }
}

impl From<ListedRunRow> for ListedRun {
    fn from(listed: ListedRunRow) -> Self {
        Self {
            has_large_output: listed.output_length.is_some() && listed.output.is_none(),
            run: listed
                .run
                .run(listed.output, listed.artifacts.unwrap_or_default().0),
        }
    }
}

/// Start of a query for [`ListedRunRow`].
const SELECT_LISTED_RUNS: &str = filled!(
    select!(ListedRunRow, " FROM run r WHERE "),
    "@if" = "",
    "@end" = ""
);

/// Surcharge on `@cost`: its percentage, rounded up. No step overflows if the percentage is 0.
const SURCHARGE: &str =
    "((@cost) / 100 * surcharge_percent + ((@cost) % 100 * surcharge_percent + 99) / 100)";

/// `@cost` with the surcharge.
const WITH_SURCHARGE: &str = constcat::concat!("@cost + ", SURCHARGE);

/// Part of a run's budget that is left for the cost without the surcharge, rounded down. Cost and surcharge
/// always fit the budget together.
const BUDGET_WITHOUT_SURCHARGE: &str = "(max_cost_micros / (100 + surcharge_percent) * 100 \
    + max_cost_micros % (100 + surcharge_percent) * 100 / (100 + surcharge_percent))";

/// `queue.node_id` of a run that waits for the one node that has its content. No id of a node is negative.
pub(crate) const OF_ITS_NODE: i64 = -1;

/// `queue.node_id` of a waiting run of a suspended organization.
pub(crate) const PARKED: i64 = -2;

/// Parameters with the usage of a run, in the order of its columns.
fn usage_params(usage: &RunUsage) -> [Val<'static>; 6] {
    [
        usage.input_tokens.into(),
        usage.output_tokens.into(),
        usage.cache_read_tokens.into(),
        usage.cache_write_tokens.into(),
        usage.model_calls.into(),
        usage.tool_calls.into(),
    ]
}

/// Statement that inserts an event, and `@more`.
const INSERT_EVENT: &str = "INSERT INTO event (run_id, seq, kind, data, created_at) {GUARDED}VALUES \
    (CAST($1 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS BIGINT))@more{BY_FENCE}";

/// Statements that insert one, two, three and four events. A statement for each event would cost more than
/// its row.
const INSERT_EVENTS: [&str; 4] = [
    filled!(INSERT_EVENT, "@more" = ""),
    filled!(INSERT_EVENT, "@more" = ", ($1, $8, $9, $10, $11)"),
    filled!(
        INSERT_EVENT,
        "@more" = ", ($1, $8, $9, $10, $11), ($1, $12, $13, $14, $15)"
    ),
    filled!(
        INSERT_EVENT,
        "@more" = ", ($1, $8, $9, $10, $11), ($1, $12, $13, $14, $15), ($1, $16, $17, $18, $19)"
    ),
];

/// Position of the last event once `events` are recorded after those of the fence.
fn last_after(fence: Fence, events: &[NewEvent]) -> i64 {
    fence.last_event.saturating_add(work::count(events))
}

/// Adds the statements that record `events` after those of the fence. The statement of the fence has to precede them.
fn insert_events<'a>(statements: &mut Vec<Stmt<'a>>, fence: Fence, events: &'a [NewEvent]) {
    let mut seq = fence.last_event;
    for chunk in events.chunks(INSERT_EVENTS.len()) {
        let mut params = vals![fence.run, fence.attempt, last_after(fence, events)];
        for event in chunk {
            seq = seq.saturating_add(1);
            params.extend(vals![seq, event.kind, event.data.as_str(), event.at]);
        }
        let sql = INSERT_EVENTS.get(chunk.len() - 1);
        let rows = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        statements.extend(sql.map(|sql| Stmt::new(sql, params).exactly(rows, Error::Fenced)));
    }
}

/// Event of a change to `status`.
fn status_event(status: RunStatus, error: Option<&str>, at: Timestamp) -> Result<NewEvent> {
    let event = EventType::Status {
        status,
        error: error.map(str::to_owned),
    };
    stored(&event, at)
}

/// Stored form of an event that the store itself adds.
fn stored(event: &EventType, at: Timestamp) -> Result<NewEvent> {
    NewEvent::new(event, at).map_err(|error| Error::Corrupt(error.to_string()))
}

/// Entry of `run_label` for a pair of metadata. No tag has such an entry, and no two pairs have the same one, because tags and
/// keys have no control characters.
pub(crate) fn pair_label(key: &str, value: &str) -> String {
    format!("{key}\u{1f}{value}")
}

/// Identifiers in the first column, as a JSON array for `{JSON_EACH}`.
pub(crate) fn json_ids<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<String> {
    let ids = rows
        .into_iter()
        .map(Row::only::<&str>)
        .collect::<Result<Vec<_>>>()?;
    serde_json::to_string(&ids).map_err(|error| Error::Corrupt(error.to_string()))
}
