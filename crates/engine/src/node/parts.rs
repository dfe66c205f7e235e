//! A node and its parts. [`Setup`] makes the parts in order; each uses earlier ones.

use std::sync::Arc;

use sortie_api::Refusal;
use sortie_blobs::Blobs;
use sortie_sandbox::{Backend, Level};
use sortie_store::Store;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    callbacks::{Callbacks, DeliveryHints},
    cluster::{
        Cluster,
        hints::{HintSender, TimerBell, Wake},
        identity::Identity,
        installation::Installation,
        peers::{Peers, Signer},
    },
    connections::Connections,
    credentials::{keys::Keys, principals::Principals},
    files::{
        contents::{self, Contents},
        uploads::Uploads,
    },
    kit::{
        metrics::{MeasuredSandbox, Metrics},
        models::Models,
        options::Options,
        web::NodeWeb,
    },
    operations::{license::Licensing, watched::Watched},
    runs::{
        active::Active,
        feed::Feeds,
        hub::Hub,
        run_log::Records,
        unretained::{MemoryDir, Unretained},
    },
    worker::{Collecting, OwnRuns, Programs, Slots, Worker},
};

/// Everything that the clones of an [`Engine`](crate::Engine) share.
pub(crate) struct Node {
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: Arc<Metrics>,
    /// Figures of the whole database, as this node last read them.
    pub(crate) watched: Watched,
    pub(crate) stores: Stores,
    pub(crate) work: Work,
    pub(crate) cluster: Cluster,
    pub(crate) tasks: Tasks,
}

/// The tasks of a node, and the signals that end them.
#[derive(Default)]
pub(crate) struct Tasks {
    /// The tasks that belong to no other tracker.
    pub(crate) tracker: TaskTracker,
    /// The callback worker. It ends before the content that it delivers is deleted.
    pub(crate) callback_workers: TaskTracker,
    /// The exchange with other nodes. It ends last.
    pub(crate) exchanges: TaskTracker,
    /// Cancelled when the node begins to drain.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the node accepts no more runs.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the node delivers no more callbacks.
    pub(crate) delivered: CancellationToken,
    /// Cancelled when every other task is to end.
    pub(crate) closed: CancellationToken,
    /// Cancelled when the exchange is to send its last hints and end.
    pub(crate) hints_done: CancellationToken,
}

/// Storage of content.
#[derive(Clone)]
pub(crate) struct Storage {
    /// Content of files and artifacts.
    pub(crate) blobs: Blobs,
    /// Working directories of runs without retention.
    pub(crate) memory_dir: MemoryDir,
}

impl Storage {
    pub(super) async fn open(options: &Options) -> Result<Self, Refusal> {
        Ok(Self {
            blobs: contents::open(options).await?,
            memory_dir: MemoryDir::cleared(options.memory_dir()).await,
        })
    }
}

/// The data of a node: its database, its files and its secrets.
pub(crate) struct Stores {
    pub(crate) database: Store,
    /// Records of runs, in the database or in memory.
    pub(crate) records: Records,
    /// Working directories of runs without retention.
    pub(crate) memory_dir: MemoryDir,
    pub(crate) contents: Contents,
    pub(crate) uploads: Uploads,
    pub(crate) keys: Keys,
    pub(crate) principals: Principals,
    pub(crate) connections: Connections,
    pub(crate) licensing: Licensing,
}

/// The runs of a node, and the notifications of the tasks that work on them.
pub(crate) struct Work {
    pub(crate) active: Active,
    pub(crate) slots: Slots,
    /// Runs to claim, on an engine that works on its own runs alone.
    pub(crate) own: OwnRuns,
    pub(crate) hub: Hub,
    pub(crate) models: Arc<Models>,
    pub(crate) web: NodeWeb,
    /// Isolation level of commands, or the reason for people why there are none.
    pub(crate) commands: Result<Level, String>,
    pub(crate) callbacks: Callbacks,
    /// Wakes the callback worker.
    pub(crate) due: DeliveryHints,
    /// Wakes the dispatcher.
    pub(crate) waiting: Arc<Notify>,
    /// Wakes the timer of the schedules.
    pub(crate) timer: TimerBell,
    /// Wakes the erasure of deleted organizations.
    pub(crate) deletions: Notify,
}

impl Options {
    /// Checks the settings as a start does, without accessing the database, the storage or the network.
    ///
    /// # Errors
    /// `InvalidRequest` names the setting and its rule.
    pub fn check(&self) -> Result<(), Refusal> {
        Models::new(&self.models, &Metrics::default().models)?;
        NodeWeb::new(self)?;
        contents::check(self)
    }
}

/// Inputs that every part is made from.
pub(super) struct Setup {
    pub(super) options: Arc<Options>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
    hints: HintSender,
    active: Active,
    waiting: Arc<Notify>,
    sandbox: Result<Arc<dyn Backend>, String>,
}

impl Setup {
    pub(super) fn new(options: Options, sandbox: Result<Arc<dyn Backend>, String>) -> Self {
        Self {
            hints: HintSender::of(options.serves),
            options: Arc::new(options),
            metrics: Arc::default(),
            tasks: Tasks::default(),
            active: Active::default(),
            waiting: Arc::default(),
            sandbox,
        }
    }

    pub(super) fn stores(&self, database: Store, storage: Storage) -> Result<Stores, Refusal> {
        let (options, clock) = (&self.options, &self.options.clock);
        let unretained = Unretained::new(
            options.memory_bytes,
            clock.clone(),
            self.active.clone(),
            Arc::clone(&self.waiting),
        );
        let tracker = self.tasks.tracker.clone();
        let principals = Principals::new(
            database.clone(),
            (clock.clone(), options.credential_lookup),
            options.mode,
            tracker.clone(),
        );
        Ok(Stores {
            records: Records {
                store: database.clone(),
                unretained,
            },
            memory_dir: storage.memory_dir,
            contents: Contents::over(storage.blobs, database.clone(), options),
            uploads: Uploads::default(),
            keys: Keys::new(database.clone(), clock.clone(), principals.clone()),
            principals,
            licensing: Licensing::new(database.clone(), options.mode),
            connections: Connections::new(options, database.clone(), tracker, &self.sandbox)?,
            database,
        })
    }

    pub(super) fn work(&self, stores: &Stores) -> Result<Work, Refusal> {
        let (options, metrics, tasks) = (&self.options, &self.metrics, &self.tasks);
        let (due, timer) = (
            DeliveryHints::new(self.hints.clone()),
            TimerBell::new(self.hints.clone()),
        );
        let measured = (metrics, &options.clock);
        let polled = (options.polls, &options.clock);
        let feeds = Feeds::new(&stores.database, polled, (&tasks.tracker, &tasks.closed));
        let worker = Arc::new(Worker {
            records: stores.records.clone(),
            hub: Hub::measured(&stores.records, &self.hints, &tasks.closed, measured, feeds),
            clock: options.clock.clone(),
            models: Arc::new(Models::new(&options.models, &metrics.models)?),
            connections: stores.connections.clone(),
            callbacks: due.clone(),
            contents: stores.contents.clone(),
            schedules: timer.clone(),
            collecting: Collecting::default(),
            active: self.active.clone(),
            options: Arc::clone(options),
            sandbox: MeasuredSandbox::over(self.sandbox.clone(), metrics),
            programs: Programs::default(),
            web: NodeWeb::new(options)?,
            metrics: Arc::clone(metrics),
        });
        Ok(Work {
            active: self.active.clone(),
            own: OwnRuns::default(),
            hub: worker.hub.clone(),
            models: Arc::clone(&worker.models),
            web: worker.web.clone(),
            commands: commands(&self.sandbox),
            callbacks: Callbacks::new(options, stores.connections.clone(), due.clone())?,
            due,
            waiting: Arc::clone(&self.waiting),
            timer,
            deletions: Notify::new(),
            slots: Slots::new(worker, tasks.tracker.clone(), tasks.closing.clone()),
        })
    }

    /// Registers the node in the database.
    pub(super) async fn cluster(&self, stores: &Stores) -> Result<Cluster, Refusal> {
        let signer = Signer::new(&self.options.master_keys);
        Ok(Cluster {
            peers: Peers::new(signer, self.options.clock.clone(), &self.options.outbound)?,
            hints: self.hints.clone(),
            wake: Wake::default(),
            installation: Installation::of(&stores.database).await?,
            identity: Identity::begin(&stores.database, &self.options).await?,
        })
    }
}

/// Returns the isolation level of commands, or the reason why runs can have none.
fn commands(sandbox: &Result<Arc<dyn Backend>, String>) -> Result<Level, String> {
    sandbox
        .as_ref()
        .map(|backend| backend.capabilities().level)
        .map_err(Clone::clone)
}
