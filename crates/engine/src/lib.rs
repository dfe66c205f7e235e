//! The engine of a node: accepts, queues and executes runs, streams their events, and takes over runs of lost nodes.
//!
//! [`Engine`] is the handle that the server and the command line hold. Each method of the handle is in the module of its
//! subject. Channels between tasks carry hints only: the receiver reads the facts from the store.

mod callbacks;
mod cluster;
mod connections;
mod credentials;
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

use sortie_store::Store;

pub use cluster::peers::{Hop, PEER_HEADER, Peer};
pub use connections::{AwaitingConfirmation, Connections, Put};
pub use credentials::{
    console::ConsoleSignIn,
    keys::create_key_offline,
    master_keys::{check_key_text, check_master_keys},
    run_tokens::RunGrant,
};
pub use files::saved::{Stored, Upload};
pub use kit::{
    descriptors::Descriptors,
    models::{model_catalog, refuses_prompt},
    options::{AwsVariables, LicenseOptions, Options, Polls, Serves},
    traces::{SpanExport, Traces},
};
pub use operations::{
    checks::{Providers, check_models, check_providers},
    ledger::CheckedLedger,
    usage::AskedUsage,
};
pub use runs::{
    create::CancelMode,
    hub::{Batch, Delta, Deltas, LargeEvent, LargeMessage, Message, Passed, PassedEnd, RunChange},
    workflows::{SavedDefinition, StoredWorkflow},
};
pub use schedules::ListedSchedule;
pub use sortie_base::{Clock, InvalidKey, MasterKey};
pub use sortie_connect::oauth::Callback;

use node::parts::Node;

/// Handle on the engine of a node. Cheap to clone; all clones share the node.
#[derive(Clone)]
pub struct Engine(Arc<Node>);

impl Engine {
    /// Store of the node, for handlers that only read.
    pub fn store(&self) -> &Store {
        &self.0.stores.database
    }

    /// Saved connections.
    pub fn connections(&self) -> &Connections {
        &self.0.stores.connections
    }

    /// Source of the time.
    pub fn clock(&self) -> &Clock {
        &self.0.options.clock
    }

    /// Traces of requests.
    pub fn traces(&self) -> &Traces {
        &self.0.options.traces
    }
}
