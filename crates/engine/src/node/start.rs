//! The start of a node: what its tasks share, and the tasks.

use std::sync::Arc;

use sortie_api::Mode;
use sortie_blobs::Blobs;
use sortie_sandbox::{Backend, Level, Tenancy};
use sortie_store::Store;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Channel, Engine, Inner,
    callbacks::{Callbacks, Courier, Hints},
    cluster::{
        identity::Identity,
        news::{self, News, TimerBell, Wake},
        peers::{Peers, Signer},
    },
    connections::{Connections, Unaddressed},
    credentials::keys::Keys,
    error::Error,
    files::{
        contents::{self, Contents},
        saved::Uploads,
    },
    kit::{
        metrics::{MeasuredSandbox, Metrics},
        models::Models,
        options::{Options, Serves},
        web::NodeWeb,
    },
    node::{Heartbeat, Reconciler, Sweeper, Takeover, Watch},
    operations::{retention, usage},
    runs::{
        active::Active,
        hub::Hub,
        run_log::Records,
        unretained::{Keeper, MemoryDir, Unretained},
    },
    schedules,
    worker::{Collecting, Dispatcher, Own, Places, Programs, Source, Worker, leftovers},
};

/// Access to the records of runs.
fn records(options: &Options, store: &Store, active: &Active, work: &Arc<Notify>) -> Records {
    let (clock, active, work) = (options.clock.clone(), active.clone(), Arc::clone(work));
    Records {
        store: store.clone(),
        unretained: Unretained::new(options.memory_bytes, clock, active, work),
    }
}

/// The sandbox, or the reason why this kind of engine has no use for it: runs of a hosted engine are strangers to each
/// other.
fn fit_for(mode: Mode, sandbox: Result<Arc<dyn Backend>, String>) -> Result<Arc<dyn Backend>, String> {
    let backend = sandbox?;
    match (mode, backend.capabilities().tenancy) {
        (Mode::Hosted, Tenancy::Single) => Err(format!(
            "a hosted engine runs commands of strangers, and this host keeps them apart too little: {}. Start the engine \
             as root on a host with user namespaces and a control group for memory (docs/SANDBOX.md), or send runs with \
             shell = false.",
            backend.capabilities().missing.join("; ")
        )),
        (Mode::Hosted, Tenancy::Multi) | (Mode::SelfHosted, Tenancy::Single | Tenancy::Multi) => Ok(backend),
    }
}

/// Confinement of the commands of runs, or the reason why there can be none.
fn commands(sandbox: &Result<Arc<dyn Backend>, String>) -> Result<Level, String> {
    sandbox
        .as_ref()
        .map(|backend| backend.capabilities().level)
        .map_err(Clone::clone)
}

/// Storage of content of a node.
#[derive(Clone)]
pub(crate) struct Storage {
    /// Content of files and artifacts.
    pub(crate) blobs: Blobs,
    /// Working directories of runs without retention.
    pub(crate) memory_dir: MemoryDir,
}

impl Storage {
    async fn open(options: &Options) -> Result<Self, Error> {
        Ok(Self {
            blobs: contents::open(options).await?,
            memory_dir: MemoryDir::cleared(options.memory_dir()).await,
        })
    }
}

impl Engine {
    /// Starts the node: registers it, takes over what an earlier start of it left behind, and begins to take runs. A node
    /// without the master key of its database does not start: it would fail whatever runs need what is sealed.
    /// `sandbox` is the reason, for people, where the host cannot confine commands: runs with `shell` are then refused, as
    /// they are by a hosted engine on a single-tenant host.
    pub async fn start(
        options: Options,
        store: Store,
        sandbox: Result<Arc<dyn Backend>, String>,
    ) -> Result<Self, Error> {
        let sandbox = fit_for(options.mode, sandbox);
        let storage = Storage::open(&options).await?;
        let (engine, sweeper) = Self::assemble(options, store, sandbox, storage).await?;
        let channel = engine.0.store.channel()?;
        engine.begin_housekeeping();
        engine.begin_runs(sweeper, channel);
        Ok(engine)
    }

    /// Makes the node known to the store, with everything that its tasks work with.
    pub(crate) async fn assemble(
        options: Options,
        store: Store,
        sandbox: Result<Arc<dyn Backend>, String>,
        storage: Storage,
    ) -> Result<(Self, Sweeper), Error> {
        let options = Arc::new(options);
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let (active, tracker) = (Active::default(), TaskTracker::new());
        let (work, wake, news) = (Arc::new(Notify::new()), Wake::default(), News::of(options.serves));
        let schedules = TimerBell::new(news.clone());
        let records = records(&options, &store, &active, &work);
        let (metrics, web) = (Arc::new(Metrics::default()), NodeWeb::new(&options)?);
        let hub = Hub::measured(&records, &news, &closed, (&metrics, &options.clock));
        let commands = commands(&sandbox);
        let models = Arc::new(Models::new(&options.models, &metrics.models)?);
        let connections = Connections::new(&options, store.clone(), tracker.clone(), &sandbox)?;
        let contents = Contents::over(storage.blobs, store.clone(), options.clock.clone());
        let due = Hints::new(news.clone());
        let callbacks = Callbacks::new(&options, connections.clone(), due.clone())?;
        let worker = Arc::new(Worker {
            records: records.clone(),
            hub: hub.clone(),
            clock: options.clock.clone(),
            models: Arc::clone(&models),
            connections: connections.clone(),
            callbacks: due.clone(),
            contents: contents.clone(),
            schedules: schedules.clone(),
            collecting: Collecting::default(),
            active: active.clone(),
            options: Arc::clone(&options),
            sandbox: MeasuredSandbox::over(sandbox, &metrics),
            programs: Programs::default(),
            web: web.clone(),
            metrics: Arc::clone(&metrics),
        });
        let places = Places::new(worker, tracker.clone(), closing.clone());
        let node = Takeover {
            identity: Identity::begin(&store, &options).await?,
            store: store.clone(),
            places: places.clone(),
        };
        let sweeper = Sweeper {
            node,
            wake: wake.clone(),
        };
        connections.begin_upgrade(&sweeper.node.identity.leases).await?;
        sweeper.sweep().await?;
        let engine = Self(Arc::new(Inner {
            connections,
            callbacks,
            due,
            contents,
            uploads: Uploads::default(),
            keys: Keys::new(store.clone(), options.clock.clone(), options.mode),
            models,
            metrics,
            web,
            own: Own::default(),
            work,
            schedules,
            news,
            wake,
            exchanges: TaskTracker::new(),
            told: CancellationToken::new(),
            identity: sweeper.node.identity.clone(),
            peers: Peers::new(Signer::new(&options.master_keys), options.clock.clone())?,
            records,
            memory_dir: storage.memory_dir,
            tracker,
            couriers: TaskTracker::new(),
            delivered: CancellationToken::new(),
            draining: CancellationToken::new(),
            closing,
            closed,
            commands,
            hub,
            active,
            places,
            store,
            options,
        }));
        Ok((engine, sweeper))
    }

    /// Starts the tasks that take runs, and those of the node's own life.
    pub(crate) fn begin_runs(&self, sweeper: Sweeper, channel: Option<Channel>) {
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
            unretained: node.records.unretained.clone(),
            identity: node.identity.clone(),
            work: Arc::clone(&node.work),
            wake: node.wake.clone(),
            news: node.news.clone(),
            stop: node.closing.clone(),
        };
        node.tracker.spawn(dispatcher.run());
        node.tracker
            .spawn(Keeper::new(self.clone()).run(node.closed.clone()));
        self.begin_node(sweeper);
        if let Some(channel) = channel {
            node.exchanges
                .spawn(news::exchange(self.clone(), channel, node.told.clone()));
        }
    }

    /// Starts the tasks that clean up, count, deliver callbacks and fire schedules.
    fn begin_housekeeping(&self) {
        let node = &self.0;
        if node.options.serves == Serves::Everyone {
            let records = (node.records.clone(), node.identity.clone());
            let courier = Courier::new(
                &node.options,
                records,
                node.callbacks.clone(),
                Arc::clone(&node.metrics),
                node.delivered.clone(),
            );
            node.couriers.spawn(courier.run());
            node.tracker
                .spawn(schedules::run_timer(self.clone(), node.closing.clone()));
        }
        if node.connections.unaddressed() == Unaddressed::Opens {
            let leases = node.identity.leases.clone();
            let upgrading = node
                .connections
                .clone()
                .keep_upgrading(leases, node.closed.clone());
            node.tracker.spawn(upgrading);
        }
        node.tracker.spawn(leftovers::clean_up(
            node.store.clone(),
            node.options.work_dir(),
            node.active.clone(),
            node.closed.clone(),
        ));
        if node.options.serves == Serves::Everyone {
            let counting = usage::keep_counting(
                node.store.clone(),
                node.options.clock.clone(),
                node.closed.clone(),
            );
            node.tracker.spawn(counting);
        }
        node.tracker
            .spawn(node.contents.clone().sweep_until(node.closed.clone()));
        node.tracker
            .spawn(node.connections.clone().keep_forgetting(node.closed.clone()));
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
    }

    /// Starts the tasks of the node's own life.
    fn begin_node(&self, sweeper: Sweeper) {
        let node = &self.0;
        let heartbeat = Heartbeat {
            node: sweeper.node.clone(),
            wake: node.wake.clone(),
        };
        node.tracker.spawn(heartbeat.run(node.closed.clone()));
        let reconciler = Reconciler(sweeper.node.clone());
        node.tracker.spawn(reconciler.run(node.closed.clone()));
        node.tracker.spawn(sweeper.run(node.closed.clone()));
        let watch = Watch {
            store: node.store.clone(),
            options: Arc::clone(&node.options),
            hub: node.hub.clone(),
            active: node.active.clone(),
            identity: node.identity.clone(),
            wake: node.wake.clone(),
        };
        node.tracker.spawn(watch.run(node.closed.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::no_sandbox::NoSandbox;

    #[test]
    fn a_hosted_engine_has_no_shell_on_a_single_tenant_host() {
        let single: Arc<dyn Backend> = Arc::new(NoSandbox::new("runs have the engine's own user".to_owned()));
        assert!(fit_for(Mode::SelfHosted, Ok(Arc::clone(&single))).is_ok());
        let reason = fit_for(Mode::Hosted, Ok(single)).err().unwrap();
        assert!(reason.contains("runs have the engine's own user"), "{reason}");
        assert!(reason.contains("Start the engine as root"), "{reason}");
        let none = fit_for(Mode::Hosted, Err("no sandbox.".to_owned()));
        assert_eq!(none.err().unwrap(), "no sandbox.");
    }
}
