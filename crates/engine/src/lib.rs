//! What a node does: takes runs in, queues them, works on them, tells what happens, and cleans up after the lost.
//!
//! [`Engine`] is the handle that the server and the command line hold. It is cheap to clone; every clone is the same
//! node. Channels carry hints only: what is true is in the store, and is read again from there.

mod artifacts;
mod caller;
mod clock;
mod connections;
mod contents;
mod error;
mod files;
mod hub;
mod intake;
mod keys;
mod models;
mod no_sandbox;
mod node;
mod options;
mod retention;
mod sealing;
#[cfg(test)]
mod testing;
mod web;
mod worker;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::stream::BoxStream;
use sortie_api::{
    KeyId, Mode, OrgId, OrganizationInfo, Role, Run, RunId, RunRequest,
    key::{CreateKey, CreatedKey},
    model::ModelCatalog,
    secret::Secret,
};
use sortie_sandbox::{Backend, Level};
use sortie_store::{Cancelled, Created, Expired, InlineCredentials, KeyRecord, Labels, NewRun, Store};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use caller::Caller;
pub use clock::Clock;
pub use connections::{CALLBACK_PATH, CLIENT_DOCUMENT_PATH, Connections, Put};
pub use contents::AwsVariables;
pub use error::Error;
pub use files::{Stored, Upload};
pub use hub::{Deltas, Frame};
pub use options::{Options, Serves};
pub use sealing::{InvalidKey, MasterKey};

use crate::{
    clock::random,
    connections::secrets::Secrets,
    contents::Contents,
    files::Uploads,
    hub::Hub,
    intake::{Intake, idempotency_key},
    keys::Keys,
    models::Models,
    no_sandbox::NoSandbox,
    node::{Identity, Lifeline},
    web::NodeWeb,
    worker::{Active, Collecting, Dispatcher, Own, Places, Source, StopReason, Worker},
};

/// How long a stopping node waits for the database to take its last writes.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// A node's engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    options: Arc<Options>,
    store: Store,
    keys: Keys,
    models: Arc<Models>,
    web: NodeWeb,
    connections: Connections,
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
    tracker: TaskTracker,
    /// No more runs are taken.
    closing: CancellationToken,
    /// Everything ends.
    closed: CancellationToken,
}

impl Engine {
    /// Starts the node: registers it, takes over what an earlier start of it left behind, and begins to take runs.
    /// `sandbox` is the reason, for people, where the host cannot confine commands: runs with `shell` are then refused.
    pub async fn start(
        options: Options,
        store: Store,
        sandbox: Result<Arc<dyn Backend>, String>,
    ) -> Result<Self, Error> {
        let options = Arc::new(options);
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let hub = Hub::new(store.clone(), closed.clone());
        let commands = sandbox
            .as_ref()
            .map(|backend| backend.capabilities().level)
            .map_err(Clone::clone);
        let models = Arc::new(Models::new(&options.models)?);
        let web = NodeWeb::new(&options)?;
        let tracker = TaskTracker::new();
        let connections = Connections::new(&options, store.clone(), tracker.clone(), &sandbox)?;
        let contents = Contents::open(&options, store.clone()).await?;
        let active = Active::default();
        let worker = Arc::new(Worker {
            store: store.clone(),
            hub: hub.clone(),
            clock: options.clock.clone(),
            models: Arc::clone(&models),
            connections: connections.clone(),
            contents: contents.clone(),
            collecting: Collecting::default(),
            active: active.clone(),
            options: Arc::clone(&options),
            sandbox: sandbox.unwrap_or_else(|reason| Arc::new(NoSandbox::new(reason))),
            web: web.clone(),
        });
        let places = Places::new(worker, tracker.clone(), closing.clone());
        let lifeline = Lifeline {
            identity: Identity::begin(&store, &options).await?,
            store: store.clone(),
            options: Arc::clone(&options),
            hub: hub.clone(),
            places: places.clone(),
        };
        lifeline.sweep(Expired::Leave).await?;
        let engine = Self(Arc::new(Inner {
            connections,
            contents,
            uploads: Uploads::default(),
            keys: Keys::new(store.clone(), options.clock.clone(), options.mode),
            models,
            web,
            own: Own::default(),
            work: Arc::new(Notify::new()),
            tracker,
            closing,
            closed,
            commands,
            hub,
            active,
            places,
            store,
            options,
        }));
        engine.begin(lifeline);
        Ok(engine)
    }

    /// Starts the node's tasks.
    fn begin(&self, lifeline: Lifeline) {
        let node = &self.0;
        let source = match node.options.serves {
            Serves::Everyone => Source::Queue,
            Serves::OwnRuns | Serves::Nothing => Source::Named(node.own.clone()),
        };
        let dispatcher = Dispatcher {
            store: node.store.clone(),
            options: Arc::clone(&node.options),
            places: node.places.clone(),
            source,
            identity: lifeline.identity.clone(),
            work: Arc::clone(&node.work),
            stop: node.closing.clone(),
        };
        node.tracker.spawn(dispatcher.run());
        node.tracker.spawn(lifeline.run(node.closed.clone()));
        node.tracker.spawn(node::clean_up(
            node.store.clone(),
            node.options.work_dir(),
            node.active.clone(),
            node.closed.clone(),
        ));
        node.tracker
            .spawn(node.contents.clone().sweep_until(node.closed.clone()));
        if let (Some(retention), Serves::Everyone | Serves::OwnRuns) =
            (node.options.retention, node.options.serves)
        {
            node.tracker.spawn(retention::run(
                node.store.clone(),
                node.options.clock.clone(),
                retention,
                node.closed.clone(),
            ));
        }
        node.tracker.spawn(node::watch(
            node.store.clone(),
            node.hub.clone(),
            node.closed.clone(),
        ));
    }

    /// The node's store, for handlers that only read.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Makes the first organization, with `secret` as its first admin key, where the store is empty. False when it was
    /// not. The caller makes the secret and puts it where it cannot be lost before it becomes valid.
    pub async fn bootstrap(&self, secret: &Secret) -> Result<bool, Error> {
        let org = OrgId::new(self.0.options.clock.now(), random()?);
        let key = self
            .0
            .keys
            .new_key(org, "first admin key".to_owned(), Role::Admin, secret)?;
        Ok(self.0.store.bootstrap("default", key).await?)
    }

    /// Who stands behind a bearer credential; `None` when it is invalid, unknown, expired or revoked.
    pub async fn authenticate(&self, credential: &str) -> Result<Option<KeyRecord>, Error> {
        self.0.keys.authenticate(credential).await
    }

    /// Makes an API key.
    pub async fn create_key(&self, org: OrgId, request: CreateKey) -> Result<CreatedKey, Error> {
        self.0.keys.create(org, request).await
    }

    /// Revokes an API key.
    pub async fn delete_key(&self, org: OrgId, id: KeyId) -> Result<(), Error> {
        self.0.keys.delete(org, id).await
    }

    /// What `GET /v1/me` answers.
    pub fn organization_info(&self, org: OrgId, role: Role) -> OrganizationInfo {
        OrganizationInfo {
            organization_id: org,
            role,
            mode: self.0.options.mode,
            compute_micros_per_second: self.0.options.compute_micros_per_second,
            default_max_cost_micros: self.0.options.default_max_cost,
        }
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

    /// Checks a request against every rule, records the run and wakes a worker.
    pub async fn create_run(
        &self,
        caller: &Caller,
        request: RunRequest,
        idempotency: Option<String>,
    ) -> Result<Created, Error> {
        let node = &self.0;
        self.open()?;
        if let Some(key) = &idempotency {
            idempotency_key(key)?;
        }
        let run = match (self.new_run(caller, request).await, &idempotency) {
            (Err(Error::Invalid(rule)), Some(key)) => {
                // Only the key is compared: a run that has it answers whatever the body says now.
                return match node.store.find_idempotent(caller.org, key).await? {
                    Some(run) => Ok(Created::Existing(run)),
                    None => Err(Error::Invalid(rule)),
                };
            }
            (run, _) => NewRun {
                idempotency_key: idempotency,
                ..run?
            },
        };
        let created = node.store.create_run(run).await?;
        if let Created::New(run) = &created {
            if node.options.serves == Serves::OwnRuns {
                node.own.add(run.id);
            }
            node.work.notify_one();
        }
        Ok(created)
    }

    /// Checks a request against every rule: the run that it makes, not recorded yet.
    async fn new_run(&self, caller: &Caller, request: RunRequest) -> Result<NewRun, Error> {
        let node = &self.0;
        let org = caller.org;
        let intake = Intake {
            options: &node.options,
            models: &node.models,
            web: &node.web,
            commands: node.commands.as_ref().map(|level| *level).map_err(String::as_str),
            connections: &node.connections,
            store: &node.store,
            org,
        };
        let accepted = intake.accept(request).await?;
        let now = node.options.clock.now();
        let id = RunId::new(now, random()?);
        Ok(NewRun {
            id,
            org,
            idempotency_key: None,
            definition: accepted.definition,
            inline: self.sealed((org, id), &accepted.inline).await?,
            max_cost: accepted.max_cost,
            timeout_seconds: accepted.timeout_seconds,
            labels: Labels {
                key: caller.actor.key,
                workflow: accepted.workflow,
                schedule: caller.schedule,
                model: Some(accepted.model),
                tags: accepted.tags,
            },
            created_at: now,
        })
    }

    /// The credentials that a run brings, as they are stored.
    async fn sealed(
        &self,
        run: (OrgId, RunId),
        inline: &BTreeMap<String, Secrets>,
    ) -> Result<Option<InlineCredentials>, Error> {
        if inline.is_empty() {
            return Ok(None);
        }
        let names: Vec<&String> = inline.keys().collect();
        let names = serde_json::to_string(&names).map_err(|error| Error::Internal(error.to_string()))?;
        let sealed = self.0.connections.seal_inline(run, inline).await?;
        Ok(Some(InlineCredentials { sealed, names }))
    }

    /// Cancels a run and stops its worker; a final run is returned unchanged.
    pub async fn cancel_run(&self, org: OrgId, id: RunId) -> Result<Run, Error> {
        match self
            .0
            .store
            .cancel_run(org, id, self.0.options.clock.now())
            .await?
        {
            Cancelled::Now(run) => {
                self.0.active.stop(id, StopReason::NotOurs);
                self.0.hub.ended(id);
                Ok(run)
            }
            Cancelled::AlreadyFinal(run) => Ok(run),
        }
    }

    /// A run's events after `after`, then new ones as they happen, then `done`. Ends early when the node stops.
    pub async fn follow(
        &self,
        org: OrgId,
        id: RunId,
        after: i64,
        deltas: Deltas,
    ) -> Result<BoxStream<'static, Result<Frame, Error>>, Error> {
        self.0.hub.follow(org, id, after, deltas).await
    }

    /// Whether the node can take runs: database and storage answer and the node is not stopping.
    pub async fn ready(&self) -> Result<(), Error> {
        self.open()?;
        self.0.store.ping().await?;
        self.0.contents.check().await
    }

    fn open(&self) -> Result<(), Error> {
        if self.0.closing.is_cancelled() {
            return Err(Error::Unavailable(
                "this node is stopping, retry on another or later".to_owned(),
            ));
        }
        Ok(())
    }

    /// Stops in good order: takes no more runs, lets those at work finish within the grace, hands the rest over (an engine
    /// of its own runs ends them as `interrupted`), then ends every stream. Returns when all of it is written down.
    pub async fn shutdown(&self) {
        let node = &self.0;
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
        node.closed.cancel();
        node.tracker.close();
        if tokio::time::timeout(LAST_WRITES, node.tracker.wait())
            .await
            .is_err()
        {
            tracing::error!("the node's tasks did not end in time and are left behind");
        }
    }
}
