//! The only crate that knows SQL: what is durable, and every command on it.
//!
//! A command is one method of [`Store`] and one transaction. Tenant commands take the organization first and
//! their SQL says so; the few system commands (claim, sweep, nodes) live in files that say so. Every write of a
//! worker carries its [`Fence`]: a worker whose run was cancelled or taken over writes nothing and learns it as
//! [`Error::Fenced`].

mod types;

pub use types::{
    Cancelled, Claim, Created, Error, EventRow, Fence, Finish, KeyRecord, NewEvent, NewKey, NewNode, NewRun,
    NodeId, Result, RunFilter,
};

use sortie_api::{Micros, OrgId, Run, RunId, Timestamp, id::KeyId, key::ApiKey};

/// The database of a node. Cheap to clone.
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens `sqlite:PATH` or `postgres://…`, and migrates it to this version.
    pub async fn open(_url: &str) -> Result<Self> {
        unimplemented!()
    }

    /// Answers when the database can be written to: readiness.
    pub async fn ping(&self) -> Result<()> {
        unimplemented!()
    }

    /// Makes the first organization with its first key, where there is none yet. False when there was one.
    pub async fn bootstrap(&self, _organization_name: &str, _key: NewKey) -> Result<bool> {
        unimplemented!()
    }

    /// Adds an API key.
    pub async fn create_key(&self, _key: NewKey) -> Result<()> {
        unimplemented!()
    }

    /// The organization's keys, oldest first.
    pub async fn list_keys(&self, _org: OrgId) -> Result<Vec<ApiKey>> {
        unimplemented!()
    }

    /// Revokes a key; `Conflict` for the last admin key.
    pub async fn delete_key(&self, _org: OrgId, _id: KeyId) -> Result<()> {
        unimplemented!()
    }

    /// System: whose key has this SHA-256.
    pub async fn find_key(&self, _hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        unimplemented!()
    }

    /// Records a run as `queued` with its definition, its place in the queue and its first event, or finds the one that has its idempotency key.
    pub async fn create_run(&self, _run: NewRun) -> Result<Created> {
        unimplemented!()
    }

    /// A run with its output.
    pub async fn get_run(&self, _org: OrgId, _id: RunId) -> Result<Run> {
        unimplemented!()
    }

    /// Runs, newest first.
    pub async fn list_runs(&self, _org: OrgId, _filter: RunFilter) -> Result<Vec<Run>> {
        unimplemented!()
    }

    /// The stored definition: the JSON of a resolved `RunRequest`.
    pub async fn run_definition(&self, _org: OrgId, _id: RunId) -> Result<String> {
        unimplemented!()
    }

    /// Events after `after`, in order, at most `limit`. `NotFound` for a run of another organization.
    pub async fn events_after(
        &self,
        _org: OrgId,
        _id: RunId,
        _after: i64,
        _limit: u32,
    ) -> Result<Vec<EventRow>> {
        unimplemented!()
    }

    /// Cancels a run that is not final, with its last event; a final one is returned unchanged.
    pub async fn cancel_run(&self, _org: OrgId, _id: RunId, _at: Timestamp) -> Result<Cancelled> {
        unimplemented!()
    }

    /// System: makes a node known, and its earlier incarnations (same name) lost.
    pub async fn register_node(&self, _node: NewNode) -> Result<()> {
        unimplemented!()
    }

    /// System: renews a node's lease, and with it every run it has claimed. `Fenced` when it was declared lost meanwhile.
    pub async fn heartbeat(&self, _node: NodeId, _lease_until: Timestamp) -> Result<()> {
        unimplemented!()
    }

    /// System: forgets a node that has stopped in good order and holds no runs any more.
    pub async fn deregister_node(&self, _node: NodeId) -> Result<()> {
        unimplemented!()
    }

    /// System: claims waiting runs for a node, fair across organizations, at most `limit`, `per_organization` at once (none: unlimited):
    /// each becomes `starting` with `started_at` and its event.
    pub async fn claim_runs(
        &self,
        _node: NodeId,
        _limit: u32,
        _per_organization: Option<u32>,
        _at: Timestamp,
    ) -> Result<Vec<Claim>> {
        unimplemented!()
    }

    /// Worker: `starting` to `running`, with the events that go with it.
    pub async fn start_run(&self, _fence: Fence, _events: Vec<NewEvent>) -> Result<()> {
        unimplemented!()
    }

    /// Worker: appends events and records the cost so far.
    pub async fn append_events(&self, _fence: Fence, _events: Vec<NewEvent>, _cost: Micros) -> Result<()> {
        unimplemented!()
    }

    /// Worker: the final status with output, cost, last events; leaves the queue.
    pub async fn finish_run(&self, _fence: Fence, _finish: Finish) -> Result<Run> {
        unimplemented!()
    }

    /// System: ends the runs of nodes whose lease is over as `interrupted`, at most `limit`; the organizations and ids of those ended.
    pub async fn interrupt_lost(&self, _at: Timestamp, _limit: u32) -> Result<Vec<(OrgId, RunId)>> {
        unimplemented!()
    }

    /// Worker: the last event of a run that is not final and in this attempt; `Fenced` otherwise.
    pub async fn position(&self, _run: RunId, _attempt: i64) -> Result<i64> {
        unimplemented!()
    }

    /// System: the last event of each of these runs.
    pub async fn last_events(&self, _runs: Vec<RunId>) -> Result<Vec<(RunId, i64)>> {
        unimplemented!()
    }
}
