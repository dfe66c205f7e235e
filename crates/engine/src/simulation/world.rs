//! The nodes of a schedule: start, crash, and access for clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::{Micros, OrgId, RunId, Timestamp};
use sortie_store::{
    Store,
    access::{Actor, Caller},
    simulation::{SimulatedLink, SimulatedServer, budgets, ends, runs},
};
use tempfile::TempDir;
use tokio::time::sleep;

use super::{plan::Plan, witness::Witness};
use crate::{
    Engine,
    files::contents,
    kit::options::Options,
    node::parts::Storage,
    runs::{active::StopReason, unretained::MemoryDir},
};
use sortie_base::Clock;

/// The time at the beginning of a schedule.
pub(super) const BEGINNING: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Longest time for which a lease is not renewed.
const LEASE: Duration = Duration::from_secs(13);

/// Folders that simulated nodes share, because they do not write to them. Opening them once saves time.
#[derive(Clone)]
pub(super) struct Folders {
    root: Arc<TempDir>,
    storage: Storage,
}

impl Folders {
    pub(super) fn make() -> Self {
        let root = tempfile::Builder::new()
            .prefix("sortie-simulation-")
            .tempdir_in("/dev/shm")
            .expect("there is room in memory");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let options = Options {
            data_dir: root.path().to_owned(),
            ..Options::default()
        };
        let blobs = runtime
            .expect("a runtime without I/O can be made")
            .block_on(contents::open(&options))
            .expect("a folder in memory can be opened");
        let memory_dir = MemoryDir::new(root.path().join("memory"));
        Self {
            root: Arc::new(root),
            storage: Storage { blobs, memory_dir },
        }
    }
}

/// A process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) engine: Engine,
    pub(super) link: SimulatedLink,
    pub(super) clock: Clock,
    /// Number of the process. A restarted node has another number.
    pub(super) number: usize,
}

/// A node, dead or alive.
#[derive(Default)]
struct Slot {
    process: Option<Process>,
    /// Link of the process that is alive or about to start.
    link: Option<SimulatedLink>,
}

/// The nodes of a schedule. Cheap to clone.
#[derive(Clone)]
pub(super) struct World(Arc<Inner>);

struct Inner {
    server: SimulatedServer,
    folders: Folders,
    plan: Plan,
    witness: Witness,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    nodes: Vec<Slot>,
    processes: usize,
    /// Processes that another node has declared lost.
    lost: BTreeSet<usize>,
    org: Option<OrgId>,
}

impl World {
    pub(super) fn new(server: SimulatedServer, folders: Folders, plan: Plan, witness: Witness) -> Self {
        let nodes = (0..plan.nodes).map(|_| Slot::default()).collect();
        Self(Arc::new(Inner {
            server,
            folders,
            plan,
            witness,
            slots: Mutex::new(Slots {
                nodes,
                ..Slots::default()
            }),
        }))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.slots.lock()
    }

    pub(super) fn server(&self) -> &SimulatedServer {
        &self.0.server
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    pub(super) fn witness(&self) -> &Witness {
        &self.0.witness
    }

    /// Sets the organization of every client.
    pub(super) fn serve(&self, org: OrgId) {
        self.slots().org = Some(org);
    }

    pub(super) fn caller(&self) -> Caller {
        Caller {
            org: self
                .slots()
                .org
                .expect("the organization is made before the clients come"),
            actor: Actor::default(),
        }
    }

    /// Price of the compute time of runs. In half of the schedules only calls have a cost.
    fn compute_micros_per_second(&self) -> Micros {
        let price = self.0.plan.clients % 2 * 1_000;
        u64::try_from(price)
            .ok()
            .and_then(|price| Micros::new(price).ok())
            .unwrap_or_default()
    }

    fn options(&self, node: usize, clock: Clock) -> Options {
        Options {
            clock,
            data_dir: self.0.folders.root.path().to_owned(),
            node_name: format!("node-{node}"),
            concurrency: self.0.plan.concurrency,
            compute_micros_per_second: self.compute_micros_per_second(),
            retention: None,
            ..Options::default()
        }
    }

    /// Starts a node. Retries until the database accepts it.
    pub(super) async fn start(&self, node: usize) -> Process {
        let off = i64::try_from(node).unwrap_or_default() * self.0.plan.clocks_off;
        loop {
            let clock = Clock::going(BEGINNING);
            clock.step(off);
            let link = self.0.server.link(&format!("node-{node}"));
            let number = {
                let mut slots = self.slots();
                slots.processes += 1;
                slots.nodes[node].link = Some(link.clone());
                slots.processes
            };
            let store = Store::simulated(&link, self.0.plan.connections);
            let no_sandbox = Err("a simulation runs no commands".to_owned());
            let (options, storage) = (self.options(node, clock.clone()), self.0.folders.storage.clone());
            match Engine::assemble(options, store, no_sandbox, storage).await {
                Ok((engine, sweeper)) => {
                    let channel = engine
                        .0
                        .stores
                        .database
                        .channel()
                        .expect("a simulated channel can be opened");
                    engine.begin_runs(sweeper, channel);
                    let process = Process {
                        engine,
                        link,
                        clock,
                        number,
                    };
                    self.slots().nodes[node].process = Some(process.clone());
                    return process;
                }
                Err(error) => tracing::info!(node, %error, "a node does not start"),
            }
            link.cut();
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Crashes the process of a node.
    pub(super) fn crash(&self, node: usize) {
        let died = self.slots().nodes[node].process.take();
        if let Some(Process { engine, link, .. }) = died {
            link.cut();
            // The process cannot reach the database: its tasks end or wait for ever.
            engine.0.work.active.stop_all(StopReason::Lost);
            engine.0.tasks.closing.cancel();
            engine.0.tasks.hints_done.cancel();
            engine.close();
        }
    }

    /// Returns the process of a node, if it is alive.
    pub(super) fn process(&self, node: usize) -> Option<Process> {
        let slots = self.slots();
        slots.nodes[node % slots.nodes.len()].process.clone()
    }

    /// Returns the live processes.
    pub(super) fn alive(&self) -> Vec<Process> {
        self.slots()
            .nodes
            .iter()
            .filter_map(|slot| slot.process.clone())
            .collect()
    }

    /// Repairs every link.
    pub(super) fn heal(&self) {
        for slot in &self.slots().nodes {
            if let Some(link) = &slot.link {
                link.heal();
            }
        }
    }

    pub(super) fn link(&self, node: usize) -> Option<SimulatedLink> {
        self.slots().nodes[node].link.clone()
    }

    /// Checks the rules that must always hold.
    pub(super) fn look(&self) {
        for lost in self.0.server.lost_nodes() {
            let is_lost = |process: &Process| process.link.is(&lost.link);
            let lost_now = self
                .alive()
                .into_iter()
                .find(is_lost)
                .map(|process| process.number);
            self.slots().lost.extend(lost_now);
            if lost.was_reachable {
                self.0.witness.breaks(format_args!(
                    "{} is declared lost by {}, and reached the database",
                    lost.link.name(),
                    lost.by
                ));
            }
        }
        let mut at_work = BTreeMap::new();
        for process in self.alive() {
            if process.link.had_outage_within(LEASE) {
                continue;
            }
            for run in process.engine.0.work.active.all() {
                if let Some(other) = at_work.insert(run, process.number) {
                    let number = process.number;
                    self.0.witness.breaks(format_args!(
                        "the processes {other} and {number} work on {run} at once"
                    ));
                }
            }
        }
    }

    /// Returns the number of the live process that has the content of a run.
    pub(super) fn holder(&self, run: RunId) -> Option<usize> {
        let holds = |process: &Process| process.engine.0.stores.records.unretained.holds(run);
        self.alive().into_iter().find(holds).map(|process| process.number)
    }

    /// Returns the node of a live process.
    pub(super) fn node_of(&self, number: usize) -> Option<usize> {
        let slots = self.slots();
        slots.nodes.iter().position(|slot| {
            let process = slot.process.as_ref();
            process.is_some_and(|process| process.number == number)
        })
    }

    /// Whether a process is alive.
    pub(super) fn is_alive(&self, number: usize) -> bool {
        self.look();
        self.node_of(number).is_some()
    }

    /// Whether a process is alive, and no other node has declared it lost.
    pub(super) fn was_never_lost(&self, number: usize) -> bool {
        self.look();
        self.node_of(number).is_some() && !self.slots().lost.contains(&number)
    }

    /// Whether every run has ended and was settled.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled().is_empty()
    }

    /// Describes the runs that have not ended or are not settled.
    pub(super) fn unsettled(&self) -> Vec<String> {
        let runs = runs(&self.0.server).expect("the database can be read");
        let open = runs
            .iter()
            .filter(|run| !run.status.is_final() || run.is_billing_pending || run.is_queued);
        open.map(|run| format!("{run:?}")).collect()
    }

    /// Checks the rules that must hold at the end.
    pub(super) fn audit(&self) {
        let (server, witness) = (&self.0.server, &self.0.witness);
        let runs = runs(server).expect("the database can be read");
        let mut cost = 0;
        let time_is_free = self.compute_micros_per_second().is_zero();
        for run in &runs {
            witness.told(run.id, run.status);
            cost += run.cost;
            let shown = run.cost_of_events;
            if !run.is_unretained && (run.cost < shown || time_is_free && run.cost != shown) {
                witness.breaks(format_args!(
                    "{} is {} and costs {}, and its events show {shown}",
                    run.id,
                    run.status.as_str(),
                    run.cost
                ));
            }
        }
        for run in witness.acknowledged() {
            if !runs.iter().any(|stored| stored.id == run) {
                witness.breaks(format_args!("{run} was acknowledged, and is not stored"));
            }
        }
        for (run, ends) in ends(server).expect("the database can be read") {
            if ends != 1 {
                witness.breaks(format_args!("{run} has {ends} ends"));
            }
        }
        for budget in budgets(server).expect("the database can be read") {
            if budget.held != 0 || budget.holds != 0 || budget.spent != cost {
                witness.breaks(format_args!(
                    "runs have cost {cost}, and a budget says {budget:?}"
                ));
            }
        }
    }
}
