//! Arguments and results of the store's commands.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    large::{ListedEvent, ListedRun},
    licenses::{Allowance, LicenseRefusal},
    money::credit::{InsufficientCredit, Payment},
    principal::By,
    runs::artifacts::NewArtifacts,
};
use sortie_api::{
    AuditId, BudgetScope, Micros, OrgId, Run, RunId, RunStatus, RunUsage, ScheduleId, Timestamp,
    TraceContext,
    event::EventType,
    id::{KeyId, UserId},
};

/// Result of a store command.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a store command. After [`Error::Unavailable`] the command may nevertheless have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such row in this organization.
    #[error("not found")]
    NotFound,
    /// The current state forbids the command. The text names the rule.
    #[error("{0}")]
    Conflict(&'static str),
    /// A budget has too little left for the run; nothing was created.
    #[error("{0}")]
    OverBudget(Box<OverBudget>),
    /// The credits of the organization do not cover the run; nothing was created.
    #[error("{0}")]
    InsufficientCredit(InsufficientCredit),
    /// A license does not allow what was asked for; nothing was created.
    #[error("{0}")]
    Unlicensed(LicenseRefusal),
    /// The operator has suspended the organization; nothing was created.
    #[error("the organization is suspended")]
    Suspended,
    /// The caller may no longer write: its run was cancelled or taken over, its node was declared lost, or the schedule has
    /// a newer revision.
    #[error("the run is no longer this worker's")]
    Fenced,
    /// The run has zero data retention: its content is not stored.
    #[error("nothing of the content of a run with zero data retention is stored")]
    Unretained,
    /// The database is unreachable or overloaded, or the answer to a commit was lost.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A stored value cannot be read.
    #[error("corrupt row: {0}")]
    Corrupt(String),
    /// Any other error of the database.
    #[error("database error: {0}")]
    Database(String),
}

impl Error {
    /// Returns what happened, without the kind of the error in front of it.
    pub fn cause(&self) -> String {
        match self {
            Self::Unavailable(cause) | Self::Corrupt(cause) | Self::Database(cause) => cause.clone(),
            Self::NotFound
            | Self::Conflict(_)
            | Self::OverBudget(_)
            | Self::InsufficientCredit(_)
            | Self::Unlicensed(_)
            | Self::Suspended
            | Self::Fenced
            | Self::Unretained => self.to_string(),
        }
    }

    /// Whether the data that a command met made it fail: another try fails as well, and without the one row it may succeed.
    pub const fn is_of_data(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Database(_))
    }
}

/// A run that does not fit in a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "budget {scope}: max_cost_micros is {}, and {} are left until {resets_at}",
    max_cost.get(),
    available.get()
)]
pub struct OverBudget {
    /// Scope of the budget. Of several such budgets it is the first one by the text of the scope.
    pub scope: BudgetScope,
    /// Maximum cost of the run.
    pub max_cost: Micros,
    /// Amount that is left in the window.
    pub available: Micros,
    /// Start of the next window.
    pub resets_at: Timestamp,
}

/// Returns true where the command was done, and false where `reason` is its error. Any other error remains an error.
pub(crate) fn unless(reason: &Error, done: Result<()>) -> Result<bool> {
    match done {
        Err(error) if error == *reason => Ok(false),
        done => done.map(|()| true),
    }
}

/// Identity of a node: new at each start, and again after the node was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

/// Registration of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Random positive number.
    pub id: NodeId,
    /// Name of the node, which stays at each start. Registering a name declares earlier identities with this name lost.
    pub name: String,
    /// Time of the registration.
    pub started_at: Timestamp,
    /// End of the lease. Each heartbeat moves it.
    pub lease_until: Timestamp,
    /// Address for other nodes, as `http://host:port`; none where they cannot reach the node.
    pub address: Option<String>,
    /// Version of the node's program.
    pub version: String,
    /// IDs of the node's master keys. The first one seals new credentials.
    pub master_keys: Vec<String>,
    /// Time at which the node began to stop.
    pub draining_since: Option<Timestamp>,
}

/// A node as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Registration of the node, with its current lease.
    pub node: NewNode,
    /// Time at which the node was declared lost or signed off. None for a live node.
    pub ended_at: Option<Timestamp>,
    /// Number of runs that the node holds.
    pub runs: i64,
}

/// Result of [`Store::watch`](crate::Store::watch).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Followed runs, each with the number of its last event.
    pub positions: Vec<(RunId, i64)>,
    /// Runs of the node that were cancelled and whose worker has not reported its cost yet.
    pub cancelled: Vec<RunId>,
}

/// A run that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The run.
    pub run: RunId,
    /// Status of the run. The worker of a `cancelled` run has not reported its cost yet. `None` if it cannot be read.
    pub status: Option<RunStatus>,
}

/// A lease of another node, as a heartbeat has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenLease {
    /// The node.
    pub node: NodeId,
    /// End of the lease. Every heartbeat of the node changes it.
    pub lease_until: Timestamp,
}

/// Result of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The time by the database's own clock; see [`Store::clock`](crate::Store::clock).
    pub clock: Option<Timestamp>,
    /// The leases of all other nodes that have not been declared lost.
    pub others: Vec<SeenLease>,
}

/// Limits and conditions of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The node that sweeps. It never declares itself lost, and no other node while its own lease has expired.
    pub node: NodeId,
    /// Time of the sweep, for its events.
    pub at: Timestamp,
    /// Maximum number of runs to end.
    pub limit: u32,
    /// Maximum number of runs to take over: the free slots of the node.
    pub places: u32,
    /// Leases without a heartbeat for as long as a lease lasts. The sweep declares their nodes lost if the lease is
    /// unchanged and has expired by the database's clock too.
    pub overdue: Vec<SeenLease>,
    /// Duration of a lease. A lease that ends more than two durations from now was given before the clock was set back.
    pub lease: Duration,
    /// Price of a second of a run.
    pub compute_micros_per_second: Micros,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Runs that ended as `interrupted` because they were resumed too often. Cancelled runs are settled and not listed.
    pub ended: Vec<(OrgId, RunId)>,
    /// Runs that the node holds now and has to resume, the oldest first.
    pub taken: Vec<Claim>,
}

/// A run to record.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// ID of the run, which contains its creation time.
    pub id: RunId,
    /// Organization that owns the run.
    pub org: OrgId,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// Definition of the run.
    pub definition: Definition,
    /// Credentials that the stored definition leaves out.
    pub inline: Option<InlineCredentials>,
    /// Receiver of the completion callback.
    pub callback: Option<NewCallback>,
    /// Maximum cost of the run.
    pub max_cost: Micros,
    /// Payment for the run.
    pub payment: Payment,
    /// Time limit in seconds, from the first claim on.
    pub timeout_seconds: u32,
    /// Labels for lists and accounts.
    pub labels: Labels,
    /// Time at which the request was accepted.
    pub created_at: Timestamp,
    /// Trace that the run belongs to.
    pub trace: Option<TraceContext>,
    /// Allowance of the engine's license; none on an engine without a license.
    pub allowance: Option<Allowance>,
}

/// Retention of a run's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Definition, events and output are stored.
    Full,
    /// No content is stored: it stays in the memory of one node.
    None,
}

/// Definition of a run, which the store has or leaves to a node.
#[derive(Clone, Debug)]
pub enum Definition {
    /// The JSON of the resolved `RunRequest`, without the credentials of its inline connections.
    Stored(Arc<str>),
    /// Zero data retention: the definition is in the memory of a node.
    Unretained(Unretained),
}

/// Facts that the store keeps of a run without retention.
#[derive(Clone, Copy, Debug)]
pub struct Unretained {
    /// Node that has the run's content. No other node works on the run.
    pub node: NodeId,
    /// Surcharge on the cost of the run, in percent.
    pub surcharge_percent: u32,
}

impl<T: Into<Arc<str>>> From<T> for Definition {
    fn from(text: T) -> Self {
        Self::Stored(text.into())
    }
}

/// Labels under which a run is listed and accounted.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Subject that started the run; none where the engine started it by itself.
    pub by: Option<By>,
    /// Saved workflow that the run was started from.
    pub workflow: Option<String>,
    /// Schedule that started the run.
    pub schedule: Option<ScheduleId>,
    /// Model of the run.
    pub model: Option<String>,
    /// The client's tags.
    pub tags: Vec<String>,
}

impl Labels {
    /// The API key that started the run.
    pub fn key(&self) -> Option<KeyId> {
        self.by.and_then(By::key)
    }
}

/// Author of a change, and the request that asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// Subject of the request's credential. None where the engine makes the change by itself, and for a public route.
    pub by: Option<By>,
    /// Person of the credential; none for a key and for the operator.
    pub user: Option<UserId>,
    /// Client address of the request.
    pub address: Option<IpAddr>,
    /// ID of the request.
    pub request_id: Option<String>,
    /// Trace of the request.
    pub trace: Option<TraceContext>,
}

impl Actor {
    /// Returns the API key of the request; none for every other subject.
    pub fn key(&self) -> Option<KeyId> {
        self.by.and_then(By::key)
    }
}

/// Filter of the audit log. Every condition that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Entries with this action.
    pub action: Option<String>,
    /// Entries with this target.
    pub target: Option<String>,
    /// Entries of changes that were made with this API key.
    pub key: Option<KeyId>,
    /// Entries from this time on.
    pub since: Option<Timestamp>,
    /// Entries before this time.
    pub until: Option<Timestamp>,
    /// Entries behind this position of the list, which is newest first. The position itself is left out.
    pub before: Option<(Timestamp, AuditId)>,
    /// Maximum number of entries.
    pub limit: u32,
}

/// The credentials of a run's inline connections.
#[derive(Clone, Debug)]
pub struct InlineCredentials {
    /// The credentials, sealed.
    pub sealed: Vec<u8>,
    /// Names of the connections with credentials, as a JSON array.
    pub names: String,
}

/// Receiver of a run's completion callback.
#[derive(Clone, Debug)]
pub struct NewCallback {
    /// Host and port of the receiver.
    pub host: String,
    /// The URL and the secret, sealed.
    pub target: Vec<u8>,
}

/// Stored definition of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDefinition {
    /// The JSON of the resolved `RunRequest`. None where it is a large text.
    pub request: Option<String>,
    /// Names of the inline connections whose credentials are not in the definition, as a JSON array. None where there are
    /// no such connections.
    pub requires_credentials: Option<String>,
}

/// Result of `create_run`.
#[derive(Clone, Debug)]
pub enum Created {
    /// The new run, `queued`.
    New(Run),
    /// The run that already has the idempotency key; nothing was created.
    Existing(Run),
}

/// Result of `cancel_run`.
#[derive(Clone, Debug)]
pub enum Cancelled {
    /// The command cancelled the run.
    Now(Run),
    /// The run had a terminal status already and is unchanged. A large output is left out.
    AlreadyFinal(ListedRun),
}

/// Filter of a list of runs. Every condition that is set must hold.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Runs with this status.
    pub status: Option<RunStatus>,
    /// Runs of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Runs with this tag.
    pub tag: Option<String>,
    /// Runs behind this position of the list, which is newest first. The position itself is left out.
    pub before: Option<(Timestamp, RunId)>,
    /// Maximum number of runs.
    pub limit: u32,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Current status of the run.
    pub status: RunStatus,
    /// Number of the run's last event so far.
    pub last_event: i64,
}

/// Next part of a run's event stream for one reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// Progress of the run.
    pub progress: Progress,
    /// Events after those that the reader has, in order. Large data is left out.
    pub events: Vec<ListedEvent>,
    /// The run; a large output is left out. None before its status is terminal and `events` ends with its last event.
    pub run: Option<ListedRun>,
}

/// A recorded event as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Position in the run, from 1.
    pub seq: i64,
    /// Type of the event.
    pub kind: String,
    /// Data of the event, a JSON object.
    pub data: String,
    /// Time that the event was recorded with.
    pub created_at: Timestamp,
}

/// An event to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Type of the event.
    pub kind: &'static str,
    /// Data of the event, a JSON object.
    pub data: String,
    /// Time of the event.
    pub at: Timestamp,
}

impl NewEvent {
    /// Encodes an event for the store.
    pub fn new(event: &EventType, at: Timestamp) -> std::result::Result<Self, serde_json::Error> {
        Ok(Self {
            kind: event.kind(),
            data: sortie_api::json::to_line(event)?,
            at,
        })
    }
}

/// Fencing token, which a worker presents with every write. A write takes place only while the run is in this attempt and
/// its last event is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The run.
    pub run: RunId,
    /// Number of the attempt, from 1. Each claim and each takeover begins a new one.
    pub attempt: i64,
    /// Number of the last event so far. The next event gets `last_event + 1`.
    pub last_event: i64,
}

/// Progress that a worker adds to a run.
#[derive(Clone, Debug, Default)]
pub struct Append {
    /// Events after those of the fence.
    pub events: Vec<NewEvent>,
    /// Entries of the journal.
    pub journal: NewEntries,
    /// Cost of the run so far.
    pub cost: Micros,
    /// Usage of the run so far.
    pub usage: RunUsage,
}

/// Entries of a run's journal to append.
#[derive(Clone, Debug, Default)]
pub struct NewEntries {
    /// Number of the last entry so far. The next entry gets `after + 1`.
    pub after: i64,
    /// The entries, each a JSON text.
    pub data: Vec<String>,
}

/// Claim of a run: the node holds the run from now on. Has everything that a worker needs to begin or resume the run.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Fencing token of the first write.
    pub fence: Fence,
    /// Organization that owns the run.
    pub org: OrgId,
    /// Stored definition: the JSON of a resolved `RunRequest`. None for a run without retention.
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
    /// Host and port of the callback's receiver; none for a run without a callback.
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

/// End of a run, as its worker records it.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Terminal status of the run.
    pub status: RunStatus,
    /// Output of the run, without U+0000.
    pub output: Option<String>,
    /// Reason why the run did not succeed.
    pub error: Option<String>,
    /// Total cost, without the surcharge.
    pub cost: Micros,
    /// Total usage.
    pub usage: RunUsage,
    /// Last events of the run, the terminal status among them.
    pub events: Vec<NewEvent>,
    /// State of the journal. The command deletes a written journal.
    pub journal: Journal,
    /// Presence of stored inline credentials. The command deletes them.
    pub stored_credentials: StoredCredentials,
    /// Receiver of the callback. The command makes its delivery due.
    pub receiver: Receiver,
    /// Files that the run left under `outputs/`; none where there are none.
    pub artifacts: Option<NewArtifacts>,
    /// End time of the run.
    pub at: Timestamp,
}

/// Presence of credentials of a run's inline connections in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCredentials {
    /// The store has none.
    Absent,
    /// The store may have some.
    Possible,
}

/// Receiver of a run's completion callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The run has no callback.
    Nobody,
    /// A receiver waits for the callback.
    Waits,
}

/// State of a run's journal in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// The journal has no entry.
    Empty,
    /// The journal may have entries.
    Written,
}
