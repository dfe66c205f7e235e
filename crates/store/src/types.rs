//! What goes into the store's commands and what comes out.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{principal::By, runs::artifacts::NewArtifacts};
use sortie_api::{
    AuditId, BudgetScope, Micros, OrgId, Role, Run, RunId, RunStatus, RunUsage, ScheduleId, Timestamp,
    TraceContext, event::EventType, id::KeyId,
};

/// Result of a store command.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command did nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such row in this organization.
    #[error("not found")]
    NotFound,
    /// The current state forbids it; the text says which rule.
    #[error("{0}")]
    Conflict(&'static str),
    /// A budget has too little left for the run; nothing was created.
    #[error("{0}")]
    OverBudget(Box<OverBudget>),
    /// The worker no longer owns the run: it was cancelled, taken over or declared lost.
    #[error("the run is no longer this worker's")]
    Fenced,
    /// Nothing of the run's content is stored: it has zero data retention.
    #[error("nothing of the content of a run with zero data retention is stored")]
    Unretained,
    /// The database is away or overloaded for the moment.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A stored value cannot be read.
    #[error("corrupt row: {0}")]
    Corrupt(String),
    /// Anything else the database says.
    #[error("database error: {0}")]
    Database(String),
}

/// A run that does not fit in a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "budget {scope}: max_cost_micros is {}, and {} are left until {resets_at}",
    max_cost.get(),
    available.get()
)]
pub struct OverBudget {
    /// The budget: the first of those that apply, by the text of their scopes.
    pub scope: BudgetScope,
    /// What the run may cost.
    pub max_cost: Micros,
    /// What is left in the window.
    pub available: Micros,
    /// When the next window begins.
    pub resets_at: Timestamp,
}

/// True where the command was done, false where it was not for this reason.
pub(crate) fn unless(reason: &Error, done: Result<()>) -> Result<bool> {
    match done {
        Err(error) if error == *reason => Ok(false),
        done => done.map(|()| true),
    }
}

/// A started process of Sortie; a new one at each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

/// A node that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Random, positive.
    pub id: NodeId,
    /// The same at each start of the same node: what is left of an earlier start under this name is lost.
    pub name: String,
    /// When it started.
    pub started_at: Timestamp,
    /// When its lease ends unless renewed.
    pub lease_until: Timestamp,
    /// Where other nodes reach it, as `http://host:port`; none where they cannot.
    pub address: Option<String>,
    /// The version of its program.
    pub version: String,
    /// The ids of the master keys that it has, the one it seals with first; none where it does not say.
    pub master_keys: Option<Vec<String>>,
    /// Since when it is about to stop.
    pub draining_since: Option<Timestamp>,
}

/// A node as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// What it was made known as.
    pub node: NewNode,
    /// When it was declared lost, where it still holds runs.
    pub ended_at: Option<Timestamp>,
    /// Runs that it holds.
    pub runs: i64,
}

/// What the watch over runs finds in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Followed runs, with the number of their last event.
    pub positions: Vec<(RunId, i64)>,
    /// Runs of the node that were cancelled and whose worker has not reported its cost yet.
    pub cancelled: Vec<RunId>,
}

/// A run that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The run.
    pub run: RunId,
    /// How far it is. `cancelled`: its worker has not reported its cost yet.
    pub status: RunStatus,
}

/// A lease of another node, as a heartbeat has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenLease {
    /// The node.
    pub node: NodeId,
    /// End of its lease. Every renewal changes it.
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
    /// The node that sweeps. It never declares itself, and nobody while its own lease has expired.
    pub node: NodeId,
    /// Time of the sweep, for its events.
    pub at: Timestamp,
    /// Most runs to end.
    pub limit: u32,
    /// Most runs to take over: the free slots of the node.
    pub places: u32,
    /// Leases that were not renewed for as long as a lease lasts. Their nodes are declared lost, if the lease is still
    /// the same and has expired by the database's clock as well.
    pub overdue: Vec<SeenLease>,
    /// Duration of a lease. One that ends later than two of them from now was given before the clock was set back.
    pub lease: Duration,
    /// Price of a second of a run.
    pub compute_micros_per_second: Micros,
}

/// What a sweep did.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Runs that ended as `interrupted`: they were resumed too often. Those that were cancelled are only settled.
    pub ended: Vec<(OrgId, RunId)>,
    /// Runs that the node has now and is to resume, the oldest first.
    pub taken: Vec<Claim>,
}

/// A key to add.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its id.
    pub id: KeyId,
    /// Whose it is.
    pub org: OrgId,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working; never where there is none.
    pub expires_at: Option<Timestamp>,
}

/// A new secret for a key.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The key.
    pub id: KeyId,
    /// SHA-256 of the new secret.
    pub hash: [u8; 32],
    /// Now: a key that has expired is not rotated.
    pub at: Timestamp,
    /// Until when the secret before it works.
    pub previous_until: Timestamp,
}

/// A run to record.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Whose it is.
    pub org: OrgId,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// What it is to do.
    pub definition: Definition,
    /// What was left out of the stored definition.
    pub inline: Option<InlineCredentials>,
    /// Where its completion callback goes.
    pub callback: Option<NewCallback>,
    /// The budget.
    pub max_cost: Micros,
    /// The time limit from the claim, in seconds.
    pub timeout_seconds: u32,
    /// What it is listed and accounted under.
    pub labels: Labels,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
}

/// Whether anything of a run's content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Definition, events and output are.
    Full,
    /// Nothing is: it lives in the memory of one node.
    None,
}

/// What a run is to do: stored with it, or nowhere in the store.
#[derive(Clone, Debug)]
pub enum Definition {
    /// The JSON of the resolved `RunRequest`, without the credentials of its inline connections.
    Stored(Arc<str>),
    /// Zero data retention: its content is in the memory of a node.
    Unretained(Unretained),
}

/// What the store knows of a run without retention.
#[derive(Clone, Copy, Debug)]
pub struct Unretained {
    /// The node that has its content, and alone works on it.
    pub node: NodeId,
    /// What it costs more, in percent.
    pub surcharge_percent: u32,
}

impl<T: Into<Arc<str>>> From<T> for Definition {
    fn from(text: T) -> Self {
        Self::Stored(text.into())
    }
}

/// What a run is listed and accounted under.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// The key it was started with.
    pub key: Option<KeyId>,
    /// The saved workflow it was started from.
    pub workflow: Option<String>,
    /// The schedule that started it.
    pub schedule: Option<ScheduleId>,
    /// The model it uses.
    pub model: Option<String>,
    /// The client's tags.
    pub tags: Vec<String>,
}

/// Author of a change, and the request that asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// Subject of the request's credential. None where the engine makes the change by itself, and for a public route.
    pub by: Option<By>,
    /// Client address of the request.
    pub address: Option<IpAddr>,
    /// ID of the request.
    pub request_id: Option<String>,
    /// Trace of the request.
    pub trace: Option<TraceContext>,
}

impl Actor {
    /// The API key that was used.
    pub fn key(&self) -> Option<KeyId> {
        self.by.and_then(By::key)
    }
}

/// Which entries of the audit log to list.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only this action.
    pub action: Option<String>,
    /// Only this target.
    pub target: Option<String>,
    /// Only what was done with this key.
    pub key: Option<KeyId>,
    /// Only from this time on.
    pub since: Option<Timestamp>,
    /// Only before this time.
    pub until: Option<Timestamp>,
    /// Only before this position, exclusive.
    pub before: Option<(Timestamp, AuditId)>,
    /// At most so many.
    pub limit: u32,
}

/// The credentials of a run's inline connections.
#[derive(Clone, Debug)]
pub struct InlineCredentials {
    /// The credentials, sealed.
    pub sealed: Vec<u8>,
    /// The names of the connections that had some, as a JSON array.
    pub names: String,
}

/// Where a run's completion callback goes.
#[derive(Clone, Debug)]
pub struct NewCallback {
    /// Host and port of the receiver.
    pub host: String,
    /// The URL and the secret, sealed.
    pub target: Vec<u8>,
}

/// The definition that a run used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDefinition {
    /// The JSON of the resolved `RunRequest`.
    pub request: String,
    /// The names of the inline connections whose credentials were not kept, as a JSON array, where there are any.
    pub requires_credentials: Option<String>,
}

/// What `create_run` found.
#[derive(Clone, Debug)]
pub enum Created {
    /// The new run, `queued`.
    New(Run),
    /// The run that already has the idempotency key; nothing was created.
    Existing(Run),
}

/// What `cancel_run` found.
#[derive(Clone, Debug)]
pub enum Cancelled {
    /// It was cancelled now.
    Now(Run),
    /// It was final already.
    AlreadyFinal(Run),
}

/// Which runs to list.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Only this status.
    pub status: Option<RunStatus>,
    /// Only runs of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs before this position, exclusive.
    pub before: Option<(Timestamp, RunId)>,
    /// At most so many.
    pub limit: u32,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Where it stands.
    pub status: RunStatus,
    /// Its last event so far.
    pub last_event: i64,
}

/// What the reader of a run's stream is told at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// How far the run has come.
    pub progress: Progress,
    /// Events behind those that the reader has, in order.
    pub events: Vec<EventRow>,
    /// The run with its output, once it is final and these are its last events.
    pub run: Option<Run>,
}

/// A recorded event as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Position in the run, from 1.
    pub seq: i64,
    /// Its type.
    pub kind: String,
    /// Its data, a JSON object.
    pub data: String,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// An event to append.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Its type.
    pub kind: &'static str,
    /// Its data, a JSON object.
    pub data: String,
    /// When it happened.
    pub at: Timestamp,
}

impl NewEvent {
    /// The stored form of an event.
    pub fn new(event: &EventType, at: Timestamp) -> std::result::Result<Self, serde_json::Error> {
        Ok(Self {
            kind: event.kind(),
            data: sortie_api::json::to_line(event)?,
            at,
        })
    }
}

/// What a worker shows with every write: it holds the run in this attempt, and has recorded this many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The run.
    pub run: RunId,
    /// Which claim of the run this is, from 1.
    pub attempt: i64,
    /// The last event recorded so far: the next one is `last_event + 1`.
    pub last_event: i64,
}

/// What a worker adds to a run.
#[derive(Clone, Debug, Default)]
pub struct Append {
    /// Events after those of the fence.
    pub events: Vec<NewEvent>,
    /// Entries of the journal.
    pub journal: NewEntries,
    /// The cost so far.
    pub cost: Micros,
    /// What was used so far.
    pub usage: RunUsage,
}

/// Entries of a run's journal to append.
#[derive(Clone, Debug, Default)]
pub struct NewEntries {
    /// The last entry so far: the next one is `after + 1`.
    pub after: i64,
    /// The entries, each a JSON text.
    pub data: Vec<String>,
}

/// A run that a node holds from now on, with all a worker needs to begin or to go on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What to show with every write.
    pub fence: Fence,
    /// Whose run it is.
    pub org: OrgId,
    /// The stored definition: the JSON of a resolved `RunRequest`. None of a run without retention.
    pub definition: Option<String>,
    /// The budget for all but the surcharge, which always fits beside it.
    pub max_cost: Micros,
    /// When it was made.
    pub created_at: Timestamp,
    /// Time of the first claim, by the clock of the node that made it.
    pub started_at: Timestamp,
    /// Time since it was first claimed, by the database's clock: the time limit and the compute cost count it.
    pub elapsed: Duration,
    /// The time limit, in seconds.
    pub timeout_seconds: u32,
    /// Host and port of the receiver of its callback, if it has one.
    pub callback_host: Option<String>,
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
    /// Where it comes from.
    pub origin: Origin,
}

impl Claim {
    /// Whether anything of the run's content is stored.
    pub fn retention(&self) -> Retention {
        match self.definition {
            Some(_) => Retention::Full,
            None => Retention::None,
        }
    }
}

/// Where a claimed run comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It waited; its `starting` event as recorded by the claim.
    Queue(EventRow),
    /// It was taken over from a worker that was lost.
    Lost {
        /// `starting` or `running`, as that worker left it.
        status: RunStatus,
        /// The cost that was recorded.
        cost: Micros,
        /// The use that was recorded.
        usage: RunUsage,
    },
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Finish {
    /// A final status.
    pub status: RunStatus,
    /// The answer, without U+0000.
    pub output: Option<String>,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// The final cost.
    pub cost: Micros,
    /// What was used.
    pub usage: RunUsage,
    /// The last events, the final status among them.
    pub events: Vec<NewEvent>,
    /// Whether a journal was written, which goes now.
    pub journal: Journal,
    /// Presence of inline credentials, which are deleted with this write.
    pub stored_credentials: StoredCredentials,
    /// Whether it has a callback, which is due now.
    pub receiver: Receiver,
    /// What it left under `outputs/`, if anything.
    pub artifacts: Option<NewArtifacts>,
    /// When it ended.
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

/// Whether a run has a completion callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// None.
    Nobody,
    /// Somebody waits for the run's end.
    Waits,
}

/// Whether a run has a journal in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Nothing was ever written.
    Empty,
    /// Something may be there.
    Written,
}
