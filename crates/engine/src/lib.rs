//! What a node does: takes runs in, queues them, works on them, tells what happens, and cleans up after the lost.
//!
//! [`Engine`] is the handle the server and the command line hold. It is cheap to clone; every clone is the same node.

mod error;
mod options;

pub use error::Error;
pub use options::Options;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use sortie_api::{
    Mode, OrgId, OrganizationInfo, Role, Run, RunId, RunRequest,
    key::{CreateKey, CreatedKey},
    model::ModelCatalog,
};
use sortie_sandbox::Backend;
use sortie_store::{KeyRecord, Store};

/// A node's engine.
#[derive(Clone)]
pub struct Engine {}

/// What `create_run` did.
#[derive(Clone, Debug)]
pub enum Created {
    /// The run is new and queued.
    New(Run),
    /// The run that already has the idempotency key.
    Existing(Run),
}

/// The first key of a new store.
pub struct FirstKey {
    /// The secret in clear: shown once.
    pub key: sortie_api::secret::Secret,
}

/// One message of a run's stream, serialized once for all its readers.
#[derive(Clone, Debug)]
pub enum Frame {
    /// One or more recorded events, ready to send (`id:`, `event:`, `data:` and the blank line of each).
    Events(Bytes),
    /// The `done` message; the stream ends after it.
    Done(Bytes),
}

impl Engine {
    /// Starts the node: registers it, ends what an earlier start of it left behind, and begins to take runs.
    /// `sandbox` is `None` where the host cannot confine commands: runs with `shell` are then refused.
    pub async fn start(
        _options: Options,
        _store: Store,
        _sandbox: Result<Arc<dyn Backend>, String>,
    ) -> Result<Self, Error> {
        unimplemented!()
    }

    /// The node's store, for handlers that only read.
    pub fn store(&self) -> &Store {
        unimplemented!()
    }

    /// Makes the first organization and its first admin key where the store is empty.
    pub async fn bootstrap(&self) -> Result<Option<FirstKey>, Error> {
        unimplemented!()
    }

    /// Who stands behind a bearer credential; `None` when it is invalid, unknown, expired or revoked.
    pub async fn authenticate(&self, _credential: &str) -> Result<Option<KeyRecord>, Error> {
        unimplemented!()
    }

    /// Makes an API key.
    pub async fn create_key(&self, _org: OrgId, _request: CreateKey) -> Result<CreatedKey, Error> {
        unimplemented!()
    }

    /// Revokes an API key.
    pub async fn delete_key(&self, _org: OrgId, _id: sortie_api::KeyId) -> Result<(), Error> {
        unimplemented!()
    }

    /// What `GET /v1/me` answers.
    pub fn organization_info(&self, _org: OrgId, _role: Role) -> OrganizationInfo {
        unimplemented!()
    }

    /// The models runs can use now.
    pub fn models(&self) -> &ModelCatalog {
        unimplemented!()
    }

    /// The deployment mode.
    pub fn mode(&self) -> Mode {
        unimplemented!()
    }

    /// Checks a request against every rule, records the run and wakes a worker.
    pub async fn create_run(
        &self,
        _org: OrgId,
        _request: RunRequest,
        _idempotency_key: Option<String>,
    ) -> Result<Created, Error> {
        unimplemented!()
    }

    /// Cancels a run and stops its worker; a final run is returned unchanged.
    pub async fn cancel_run(&self, _org: OrgId, _id: RunId) -> Result<Run, Error> {
        unimplemented!()
    }

    /// A run's events after `after`, then new ones as they happen, then `done`. Ends early when the node stops.
    pub async fn follow(
        &self,
        _org: OrgId,
        _id: RunId,
        _after: i64,
    ) -> Result<BoxStream<'static, Result<Frame, Error>>, Error> {
        unimplemented!()
    }

    /// Whether the node can take runs: the database answers and the node is not stopping.
    pub async fn ready(&self) -> Result<(), Error> {
        unimplemented!()
    }

    /// Stops in good order: takes no more runs, lets those at work finish within the grace, ends the rest as
    /// `interrupted`, and ends every stream.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
