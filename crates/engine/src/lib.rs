//! What a node does: takes runs in, queues them, works on them, tells what happens, and cleans up after the lost.
//!
//! [`Engine`] is the handle that the server and the command line hold. It is cheap to clone; every clone is the same
//! node. Channels carry hints only: what is true is in the store, and is read again from there.

mod callbacks;
mod cluster;
mod connections;
mod credentials;
mod error;
mod files;
mod kit;
mod node;
mod operations;
mod runs;
mod schedules;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
mod worker;

use std::sync::Arc;

use sortie_api::{KeyId, Mode, OrgId, OrganizationInfo, Role, model::ModelCatalog};
use sortie_store::Store;

pub use cluster::peers::{Hop, PEER_HEADER, Peer};
pub use connections::{AwaitingConfirmation, Connections, Put};
pub use credentials::{
    master_keys::{check_key_text, check_master_keys},
    sealing::{InvalidKey, MasterKey},
};
pub use error::Error;
pub use files::saved::{Stored, Upload};
pub use kit::{
    caller::Caller,
    clock::Clock,
    options::{AwsVariables, Options, Serves},
    traces::{SpanExport, Traces},
};
pub use operations::checks::Providers;
pub use runs::hub::{Batch, Deltas, Message, TextDelta};
pub use sortie_connect::oauth::Callback;

use cluster::Cluster;
use kit::metrics::Metrics;
use node::parts::{Stores, Tasks, Work};
use operations::watched::Watched;

/// A node's engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    options: Arc<Options>,
    metrics: Arc<Metrics>,
    watched: Watched,
    stores: Stores,
    work: Work,
    cluster: Cluster,
    tasks: Tasks,
}

impl Engine {
    /// The node's store, for handlers that only read.
    pub fn store(&self) -> &Store {
        &self.0.stores.database
    }

    /// Saved connections.
    pub fn connections(&self) -> &Connections {
        &self.0.stores.connections
    }

    /// The models that runs can use now.
    pub fn models(&self) -> &ModelCatalog {
        self.0.work.models.catalog()
    }

    /// The trace contexts of requests.
    pub fn traces(&self) -> &Traces {
        &self.0.options.traces
    }

    /// The deployment mode.
    pub fn mode(&self) -> Mode {
        self.0.options.mode
    }

    /// The answer to `GET /v1/me`.
    pub fn organization_info(&self, org: OrgId, role: Role, key: Option<KeyId>) -> OrganizationInfo {
        OrganizationInfo {
            organization_id: org,
            role,
            key_id: key,
            mode: self.0.options.mode,
            compute_micros_per_second: self.0.options.compute_micros_per_second,
            default_max_cost_micros: self.0.options.default_max_cost,
        }
    }
}
