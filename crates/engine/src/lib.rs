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

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use sortie_api::{
    KeyId, Mode, OrgId, OrganizationInfo, Role,
    key::{CreateKey, CreatedKey, RotateKey},
    model::ModelCatalog,
    secret::Secret,
};
use sortie_sandbox::Level;
use sortie_store::{Actor, Heard, KeyRecord, Speaker, Store};
use tokio::sync::{Notify, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use cluster::peers::{Hop, PEER_HEADER, Peer};
pub use connections::{AwaitingConfirmation, Connections, Put};
pub use credentials::{
    master_keys::{check_key_text, check_master_keys},
    sealing::{InvalidKey, MasterKey},
};
pub use error::Error;
pub use files::{
    contents::AwsVariables,
    saved::{Stored, Upload},
};
pub use kit::{
    caller::Caller,
    clock::Clock,
    options::{Options, Serves},
    traces::{SpanExport, Traces},
};
pub use operations::checks::Providers;
pub use runs::hub::{Deltas, Frame};
pub use sortie_connect::oauth::Callback;

use crate::{
    callbacks::{Callbacks, Hints},
    cluster::{
        identity::Identity,
        news::{News, TimerBell, Wake},
        peers::Peers,
    },
    credentials::keys::{CheckedKey, Keys},
    files::{contents::Contents, saved::Uploads},
    kit::{
        clock::random,
        metrics::{self, Metrics},
        models::Models,
        web::NodeWeb,
    },
    runs::{
        active::{Active, StopReason},
        hub::Hub,
        run_log::Records,
        unretained::MemoryDir,
    },
    worker::{Own, Places},
};

/// How long a node that is about to stop waits for the database to take that it is.
const DRAIN_WRITE: Duration = Duration::from_secs(2);

/// How long a stopping node waits for its last words to other nodes.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long a stopping node waits for the database to take its last writes.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// What is said to other nodes, and heard of them.
type Channel = (Speaker, mpsc::Receiver<Heard>);

/// A node's engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    options: Arc<Options>,
    store: Store,
    records: Records,
    /// Where runs without retention work.
    memory_dir: MemoryDir,
    peers: Peers,
    /// Who this node is.
    identity: Identity,
    keys: Keys,
    models: Arc<Models>,
    metrics: Arc<Metrics>,
    web: NodeWeb,
    connections: Connections,
    callbacks: Callbacks,
    /// What wakes the courier.
    due: Hints,
    contents: Contents,
    uploads: Uploads,
    hub: Hub,
    active: Active,
    places: Places,
    /// A sentence for people where commands cannot be run.
    commands: Result<Level, String>,
    /// What an engine that serves its own runs is to claim.
    own: Own,
    /// Wakes the dispatcher.
    work: Arc<Notify>,
    /// Wakes the timer of the schedules.
    schedules: TimerBell,
    /// What other nodes are told.
    news: News,
    /// What other nodes wake.
    wake: Wake,
    /// The exchange with other nodes, which ends last.
    exchanges: TaskTracker,
    /// The last news were told.
    told: CancellationToken,
    tracker: TaskTracker,
    /// The courier, which ends before the content that it delivers goes.
    couriers: TaskTracker,
    /// No more callbacks are delivered.
    delivered: CancellationToken,
    /// The node is about to stop.
    draining: CancellationToken,
    /// No more runs are taken.
    closing: CancellationToken,
    /// Everything ends.
    closed: CancellationToken,
}

fn stopping() -> Error {
    Error::Unavailable("this node is stopping, retry on another or later".to_owned())
}

impl Engine {
    /// The node's store, for handlers that only read.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Makes the first organization, with `secret` as its first admin key, where the store is empty. False when it was
    /// not. The caller makes the secret and puts it where it cannot be lost before it becomes valid.
    pub async fn bootstrap(&self, secret: &Secret) -> Result<bool, Error> {
        let org = OrgId::new(self.0.options.clock.now(), random()?);
        let key = self.0.keys.new_key(org, CheckedKey::first(), secret)?;
        let nobody = Caller {
            org,
            actor: Actor::default(),
            schedule: None,
        };
        let audit = nobody.audit(&self.0.options.clock, "key.create", key.id)?;
        Ok(self.0.store.bootstrap("default", key, audit).await?)
    }

    /// Who stands behind a bearer credential; `None` when it is invalid, unknown, expired or revoked.
    pub async fn authenticate(&self, credential: &str) -> Result<Option<KeyRecord>, Error> {
        self.0.keys.authenticate(credential).await
    }

    /// Makes an API key.
    pub async fn create_key(&self, caller: &Caller, request: CreateKey) -> Result<CreatedKey, Error> {
        self.0.keys.create(caller, request).await
    }

    /// Gives an API key a new secret; the one before it works for the grace. `Conflict` where the key has expired.
    pub async fn rotate_key(
        &self,
        caller: &Caller,
        id: KeyId,
        request: &RotateKey,
    ) -> Result<CreatedKey, Error> {
        self.0.keys.rotate(caller, id, request).await
    }

    /// Revokes an API key. `Conflict` for the last admin key that does not expire.
    pub async fn delete_key(&self, caller: &Caller, id: KeyId) -> Result<(), Error> {
        self.0.keys.delete(caller, id).await
    }

    /// What `GET /v1/me` answers.
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

    /// How requests join traces.
    pub fn traces(&self) -> &Traces {
        &self.0.options.traces
    }

    /// The models runs can use now.
    pub fn models(&self) -> &ModelCatalog {
        self.0.models.catalog()
    }

    /// Saved connections.
    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }

    /// The deployment mode.
    pub fn mode(&self) -> Mode {
        self.0.options.mode
    }

    /// Registers everything that this node and its store measure, to be shown as `OpenMetrics`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let node = &self.0;
        node.metrics.register(registry);
        let own = metrics::Node {
            active: node.active.clone(),
            places: node.options.concurrency,
            sandbox: node.places.sandbox().clone(),
        };
        node.metrics.watched.register(own, registry);
        node.store.register_metrics(registry);
    }

    /// Looks up what the metrics tell of the whole database, where the last look is older than a second. Returns within two
    /// seconds: a database that does not answer has its figures left out.
    pub async fn look_around(&self) {
        self.0.metrics.watched.look(self).await;
    }

    /// Whether the node can take runs: database and storage answer and the node is not about to stop.
    pub async fn ready(&self) -> Result<(), Error> {
        if self.is_draining() {
            return Err(stopping());
        }
        self.0.store.ping().await?;
        self.0.contents.check().await
    }

    fn open(&self) -> Result<(), Error> {
        if self.0.closing.is_cancelled() {
            return Err(stopping());
        }
        Ok(())
    }

    /// Whether the node is about to stop, or stopping.
    pub fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled() || self.0.closing.is_cancelled()
    }

    /// Says that the node is about to stop: it is not ready any more, for load balancers to send new clients elsewhere, and
    /// does all else as before.
    pub async fn drain(&self) {
        let node = &self.0;
        node.draining.cancel();
        let told = node.identity.drain(&node.store, node.options.clock.now());
        match tokio::time::timeout(DRAIN_WRITE, told).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the list of nodes does not show that this one is draining");
            }
            Err(_elapsed) => tracing::warn!("the database did not take in time that this node is draining"),
        }
    }

    /// Stops in good order: takes no more runs, lets those at work finish within the grace, hands the rest over (an engine
    /// of its own runs ends them as `interrupted`), then ends every stream. Returns when all of it is written down.
    pub async fn shutdown(&self) {
        let node = &self.0;
        node.news.leave_jobs();
        node.places.close();
        // Whoever was just bringing runs is done with it.
        drop(node.places.turn().await);
        let grace = node.options.shutdown_grace;
        if tokio::time::timeout(grace, node.active.drained()).await.is_err() {
            let left = node.active.count();
            let reason = match node.options.serves {
                Serves::Everyone => {
                    tracing::warn!(left, "the grace is over: runs still at work are handed over");
                    StopReason::HandOver
                }
                Serves::OwnRuns | Serves::Nothing => {
                    tracing::warn!(
                        left,
                        "the grace is over: runs still at work are ended as interrupted"
                    );
                    StopReason::Shutdown
                }
            };
            node.active.stop_all(reason);
            if tokio::time::timeout(LAST_WRITES, node.active.drained())
                .await
                .is_err()
            {
                tracing::error!("the database does not answer: what is left goes on from what it has stored");
            }
        }
        self.stop_delivering().await;
        self.give_up_content().await;
        node.closed.cancel();
        node.tracker.close();
        if tokio::time::timeout(LAST_WRITES, node.tracker.wait())
            .await
            .is_err()
        {
            tracing::error!("the node's tasks did not end in time and are left behind");
        }
        self.say_goodbye().await;
    }

    /// Lets uploads to the storage end whose clients or runs are gone, once [`Self::shutdown`] is done and no request is
    /// answered any more. Parts of an upload that is not aborted stay in the storage.
    pub async fn settle_storage(&self) {
        if tokio::time::timeout(LAST_WRITES, self.0.contents.settled())
            .await
            .is_err()
        {
            tracing::warn!(
                "uploads to the storage did not end in time: their parts stay until the bucket's rule removes them"
            );
        }
    }

    /// Tells other nodes that this one is gone, so that what it has left goes on at once.
    async fn say_goodbye(&self) {
        let node = &self.0;
        node.news.nodes();
        node.told.cancel();
        node.exchanges.close();
        if tokio::time::timeout(GOODBYE, node.exchanges.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                "other nodes could not be told that this one is gone; they find out by themselves"
            );
        }
    }

    /// Lets callbacks under way end. As long as the store says that this node has the content of a run, no other delivers its
    /// callback without the output.
    async fn stop_delivering(&self) {
        let node = &self.0;
        node.delivered.cancel();
        node.couriers.close();
        if tokio::time::timeout(LAST_WRITES, node.couriers.wait())
            .await
            .is_err()
        {
            tracing::error!("callbacks under way did not end in time and are left behind");
        }
    }
}
