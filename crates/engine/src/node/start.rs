//! The start of a node: its parts, then its tasks.

use std::sync::Arc;

use sortie_api::{Mode, Refusal};
use sortie_base::spawn_lasting;
use sortie_sandbox::{Backend, Tenancy};
use sortie_store::Store;

use super::{
    Heartbeat, Reconciler, Sweeper, Takeover, Watch,
    parts::{Node, Setup, Storage},
};
use crate::{
    Engine,
    callbacks::CallbackWorker,
    cluster::hints::{self, Channel},
    credentials::console,
    kit::options::{Options, Serves},
    operations::{ledger, retention::RetentionJob, usage, watched::Watched},
    runs::unretained::Keeper,
    schedules,
    worker::{Dispatcher, Source, leftovers},
};

/// Returns the sandbox, or the reason why this kind of engine cannot use it. Runs of a hosted engine must be isolated
/// from each other.
fn fit_for(mode: Mode, sandbox: Result<Arc<dyn Backend>, String>) -> Result<Arc<dyn Backend>, String> {
    let backend = sandbox?;
    match (mode, backend.capabilities().tenancy) {
        (Mode::Hosted, Tenancy::Single) => Err(format!(
            "a hosted engine runs commands of many organizations, and this host does not isolate them enough: {}. Start the engine \
             as root on a host with user namespaces and a control group for memory (docs/SANDBOX.md), or send runs with \
             \"shell\": false.",
            backend.capabilities().missing.join("; ")
        )),
        (Mode::Hosted, Tenancy::Multi) | (Mode::SelfHosted, Tenancy::Single | Tenancy::Multi) => Ok(backend),
    }
}

impl Engine {
    /// Starts a node: registers it and begins to accept runs, then takes over the runs of its earlier process. A node
    /// without the master key of its database does not start, because it would fail every run that needs a credential.
    /// If the host cannot confine commands, `sandbox` is the reason, for people: runs with `shell` are then refused. A
    /// hosted engine on a single-tenant host refuses them as well.
    pub async fn start(
        options: Options,
        store: Store,
        sandbox: Result<Arc<dyn Backend>, String>,
    ) -> Result<Self, Refusal> {
        let sandbox = fit_for(options.mode, sandbox);
        let storage = Storage::open(&options).await?;
        let (engine, sweeper) = Self::assemble(options, store, sandbox, storage).await?;
        let channel = engine.store().channel()?;
        engine.begin_housekeeping();
        engine.begin_runs(sweeper, channel);
        Ok(engine)
    }

    /// Makes the parts of a node and registers it.
    pub(crate) async fn assemble(
        options: Options,
        store: Store,
        sandbox: Result<Arc<dyn Backend>, String>,
        storage: Storage,
    ) -> Result<(Self, Sweeper), Refusal> {
        let setup = Setup::new(options, sandbox);
        let stores = setup.stores(store, storage)?;
        stores.licensing.reread().await?;
        let work = setup.work(&stores)?;
        let cluster = setup.cluster(&stores).await?;
        let sweeper = Sweeper {
            node: Takeover {
                store: stores.database.clone(),
                slots: work.slots.clone(),
                identity: cluster.identity.clone(),
            },
            wake: cluster.wake.clone(),
        };
        let node = Node {
            options: setup.options,
            metrics: setup.metrics,
            watched: Watched::default(),
            stores,
            work,
            cluster,
            tasks: setup.tasks,
        };
        Ok((Self(Arc::new(node)), sweeper))
    }

    /// Starts the tasks that claim runs, and those that maintain the node.
    pub(crate) fn begin_runs(&self, sweeper: Sweeper, channel: Option<Channel>) {
        let node = &self.0;
        let source = match node.options.serves {
            Serves::Everyone => Source::Queue,
            Serves::OwnRuns | Serves::Nothing => Source::Named(node.work.own.clone()),
        };
        let dispatcher = Dispatcher {
            store: node.stores.database.clone(),
            options: Arc::clone(&node.options),
            slots: node.work.slots.clone(),
            source,
            unretained: node.stores.records.unretained.clone(),
            identity: node.cluster.identity.clone(),
            work: Arc::clone(&node.work.waiting),
            wake: node.cluster.wake.clone(),
            hints: node.cluster.hints.clone(),
            stop: node.tasks.closing.clone(),
        };
        // Runs of lost nodes have waited longer than those in the queue, so they are swept first. The node already accepts new
        // runs.
        let first = Sweeper {
            node: sweeper.node.clone(),
            wake: sweeper.wake.clone(),
        };
        let tracker = &node.tasks.tracker;
        spawn_lasting(tracker, "dispatcher", async move {
            first.sweep_or_warn().await;
            dispatcher.run().await;
        });
        let keeper = Keeper::new(self.clone());
        spawn_lasting(tracker, "keeper", keeper.run(node.tasks.closed.clone()));
        self.begin_node(sweeper);
        if let Some(channel) = channel {
            let exchange = hints::exchange(self.clone(), channel, node.tasks.hints_done.clone());
            spawn_lasting(&node.tasks.exchanges, "hints", exchange);
        }
    }

    /// Starts the tasks that clean up, count, deliver callbacks and fire schedules.
    fn begin_housekeeping(&self) {
        let node = &self.0;
        let (clock, closed) = (&node.options.clock, &node.tasks.closed);
        let (store, tracker) = (&node.stores.database, &node.tasks.tracker);
        let (work_dir, active) = (node.options.work_dir(), node.work.active.clone());
        let leftovers = leftovers::clean_up(store.clone(), work_dir, active, closed.clone());
        spawn_lasting(tracker, "leftovers", leftovers);
        let contents = || node.stores.contents.clone();
        spawn_lasting(tracker, "storage-watch", contents().watch_until(closed.clone()));
        spawn_lasting(tracker, "storage-sweep", contents().sweep_until(closed.clone()));
        if node.options.mode == Mode::SelfHosted && store.is_shared() {
            let licensing = node.stores.licensing.clone();
            spawn_lasting(tracker, "license", licensing.keep_reading(closed.clone()));
        }
        if node.options.mode == Mode::SelfHosted {
            let deleting = console::keep_deleting(store.clone(), clock.clone(), closed.clone());
            spawn_lasting(tracker, "console", deleting);
        }
        let connections = node.stores.connections.clone();
        spawn_lasting(
            tracker,
            "authorizations",
            connections.keep_forgetting(closed.clone()),
        );
        match node.options.serves {
            Serves::Everyone => {
                self.begin_callbacks();
                let timer = schedules::run_timer(self.clone(), node.tasks.closing.clone());
                spawn_lasting(tracker, "timer", timer);
                let metrics = || Arc::clone(&node.metrics);
                let usage = usage::keep_counting(store.clone(), clock.clone(), metrics(), closed.clone());
                spawn_lasting(tracker, "usage", usage);
                self.begin_retention();
                if node.options.mode == Mode::Hosted {
                    spawn_lasting(tracker, "erasure", self.clone().keep_erasing(closed.clone()));
                    let ledger =
                        ledger::keep_checking(store.clone(), clock.clone(), metrics(), closed.clone());
                    spawn_lasting(tracker, "ledger", ledger);
                }
            }
            Serves::OwnRuns => self.begin_retention(),
            Serves::Nothing => {}
        }
    }

    /// Starts the callback worker.
    fn begin_callbacks(&self) {
        let node = &self.0;
        let worker = CallbackWorker::new(
            &node.options,
            (node.stores.records.clone(), node.cluster.identity.clone()),
            node.work.callbacks.clone(),
            Arc::clone(&node.metrics),
            node.tasks.delivered.clone(),
        );
        spawn_lasting(&node.tasks.callback_workers, "callbacks", worker.run());
    }

    /// Starts the deletion of expired runs.
    fn begin_retention(&self) {
        let node = &self.0;
        if let Some(retention) = node.options.retention {
            let job = RetentionJob {
                store: node.stores.database.clone(),
                clock: node.options.clock.clone(),
                retention,
                clock_checked: node.options.retention_clock_checked,
            };
            let job = job.run(node.tasks.closed.clone());
            spawn_lasting(&node.tasks.tracker, "retention", job);
        }
    }

    /// Starts the tasks that maintain the node.
    fn begin_node(&self, sweeper: Sweeper) {
        let node = &self.0;
        let (tracker, closed) = (&node.tasks.tracker, &node.tasks.closed);
        let heartbeat = Heartbeat {
            node: sweeper.node.clone(),
            wake: node.cluster.wake.clone(),
        };
        spawn_lasting(tracker, "heartbeat", heartbeat.run(closed.clone()));
        let reconciler = Reconciler(sweeper.node.clone());
        spawn_lasting(tracker, "reconciler", reconciler.run(closed.clone()));
        spawn_lasting(tracker, "sweeper", sweeper.run(closed.clone()));
        let watch = Watch {
            store: node.stores.database.clone(),
            options: Arc::clone(&node.options),
            hub: node.work.hub.clone(),
            active: node.work.active.clone(),
            identity: node.cluster.identity.clone(),
            wake: node.cluster.wake.clone(),
        };
        spawn_lasting(tracker, "watch", watch.run(closed.clone()));
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
