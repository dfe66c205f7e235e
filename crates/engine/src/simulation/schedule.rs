//! A schedule from its seed to its verdict.

use std::time::Duration;

use fastrand::Rng;
use sortie_api::{
    BudgetPeriod, BudgetScope, Micros, PutBudget,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_store::simulation::{SimulatedDatabase, SimulatedServer};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    clients::client,
    plan::{CALM, Incident, Plan},
    witness::Witness,
    world::{Folders, World},
};

/// Time in which every run ends after the last fault.
const SETTLES: Duration = Duration::from_mins(3);

/// Time between two checks of the rules that must always hold.
const LOOK: Duration = Duration::from_millis(500);

/// Result of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Hash of everything that happened.
    pub(super) trace: u64,
    /// The first rule that was broken.
    pub(super) broken: Option<String>,
    /// Time that passed in the schedule.
    pub(super) took: Duration,
}

/// Runs the schedule of a seed. Returns the database for reuse by the next schedule.
pub(super) fn run(
    seed: u64,
    database: SimulatedDatabase,
    folders: &Folders,
) -> (Verdict, Option<SimulatedDatabase>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can be made");
    let done = runtime.block_on(async {
        let witness = Witness::new();
        super::begin(seed, &witness);
        let server = SimulatedServer::new(database, seed).expect("the database can be emptied");
        let verdict = simulate(seed, &server, folders.clone(), witness).await;
        (verdict, server.end().await)
    });
    super::end();
    runtime.shutdown_background();
    done
}

async fn simulate(seed: u64, server: &SimulatedServer, folders: Folders, witness: Witness) -> Verdict {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let plan = Plan::draw(&mut rng);
    tracing::info!(?plan, "begins");
    let world = World::new(server.clone(), folders, plan.clone(), witness.clone());
    let began = Instant::now();
    server.set_faults(CALM);
    begin(&world).await;
    server.set_faults(plan.faults);
    let mut clients = JoinSet::new();
    for number in 0..plan.clients {
        clients.spawn(client(world.clone(), rng.u64(..), number, None));
    }
    for number in 0..plan.burst {
        clients.spawn(client(world.clone(), rng.u64(..), plan.clients + number, Some(0)));
    }
    let mut incidents = JoinSet::new();
    for (at, incident) in plan.incidents.clone() {
        incidents.spawn(happen(world.clone(), at, incident));
    }
    let busy_until = Instant::now() + plan.busy;
    while Instant::now() < busy_until && witness.broken().is_none() {
        sleep(LOOK).await;
        world.look();
    }
    server.set_faults(CALM);
    world.heal();
    settle(&world, &mut clients, &mut incidents).await;
    if witness.broken().is_none() {
        world.audit();
    }
    clients.shutdown().await;
    incidents.shutdown().await;
    Verdict {
        trace: server.trace(),
        broken: witness.broken(),
        took: began.elapsed(),
    }
}

/// Starts the nodes, and makes an organization with a budget.
async fn begin(world: &World) {
    let mut first = None;
    for node in 0..world.plan().nodes {
        let process = world.start(node).await;
        first.get_or_insert(process);
    }
    let engine = first.expect("a cluster has a node").engine;
    let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
    assert!(engine.bootstrap(&key).await.expect("the network is calm"));
    let key = engine
        .authenticate(key.expose())
        .await
        .expect("the network is calm");
    world.serve(key.expect("the key was just made").org);
    let budget = PutBudget {
        limit_micros: Micros::new(1_000_000_000).unwrap_or_default(),
        period: BudgetPeriod::Month,
    };
    engine
        .put_budget(&world.caller(), BudgetScope::Organization, budget)
        .await
        .expect("the network is calm");
}

async fn happen(world: World, at: Duration, incident: Incident) {
    sleep(at).await;
    tracing::info!(?incident, "happens");
    match incident {
        Incident::Crash(node, away) => {
            if world.process(node).is_none() {
                return;
            }
            world.crash(node);
            sleep(away).await;
            world.start(node).await;
        }
        Incident::Hang(node, time) => {
            if let Some(link) = world.link(node) {
                link.hang(time);
            }
        }
        Incident::Refuse(node, time) => {
            if let Some(link) = world.link(node) {
                link.refuse(time);
            }
        }
        Incident::FailOver(moving) => world.server().fail_over(moving),
        Incident::DatabaseClock(step) => world.server().step_clock(step),
        Incident::NodeClock(node, step) => {
            if let Some(process) = world.process(node) {
                process.clock.step(step);
            }
        }
    }
}

/// Waits until every client has finished and every run has ended.
async fn settle(world: &World, clients: &mut JoinSet<()>, incidents: &mut JoinSet<()>) {
    let since = Instant::now();
    loop {
        while let Some(done) = clients.try_join_next() {
            if let Err(error) = done {
                world
                    .witness()
                    .breaks(format_args!("a client breaks off: {error}"));
            }
        }
        while incidents.try_join_next().is_some() {}
        if world.witness().broken().is_some() {
            return;
        }
        if clients.is_empty() && incidents.is_empty() && world.is_settled() {
            return;
        }
        if since.elapsed() > SETTLES {
            world.witness().breaks(format_args!(
                "{} clients wait, and these runs do not end: {}",
                clients.len(),
                world.unsettled().join(", ")
            ));
            return;
        }
        sleep(LOOK).await;
        world.look();
    }
}

/// Timestamps of log lines: the time since the schedule began.
pub(super) struct Elapsed;

impl tracing_subscriber::fmt::time::FormatTime for Elapsed {
    fn format_time(&self, writer: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        write!(writer, "{:?}", super::elapsed())
    }
}
