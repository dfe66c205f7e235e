//! Database server in memory, for simulations of a cluster. The SQL of every command runs; a seed decides
//! about the network, the clock and the crashes.
//!
//! Each node reaches the server over a [`SimulatedLink`]. A link has connections like a pool of threads on
//! `PostgreSQL`: each takes jobs from the same queues and runs them with the same [`Worker`](super::sessions::Worker).
//! Here a connection is a task on the runtime of the test, which pauses its clock while any task can run. A transaction
//! takes place at one moment. The way to the server and back takes time, and may fail: the seed decides what is lost,
//! late or refused.

mod channel;
mod connection;
mod database;
mod faults;
mod link;
mod rows;
mod seen;
mod session;

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use tokio::{task::JoinSet, time::Instant};

pub(super) use self::channel::open as open_channel;
use self::database::Database;
pub use self::{
    faults::Faults,
    link::{Outage, SimulatedLink},
    seen::SeenNode,
};
use super::{Backend, Context};
use crate::{Result, Row, Schema};

/// Time of the server's clock at the beginning of a schedule, in microseconds.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// Database in memory that serves one schedule after the other. Creating one takes much longer than a
/// schedule.
pub struct SimulatedDatabase(Database);

impl SimulatedDatabase {
    /// Creates an empty database with every table.
    pub fn new(schema: Schema) -> Result<Self> {
        Ok(Self(Database::new(schema)?))
    }
}

/// Simulated server. Cheap to clone.
#[derive(Clone)]
pub struct SimulatedServer(Arc<Shared>);

struct Shared {
    database: Mutex<Database>,
    state: Mutex<State>,
    /// Tasks of connections, channels and late commits.
    tasks: Mutex<JoinSet<()>>,
    began: Instant,
}

struct State {
    rng: Rng,
    faults: Faults,
    /// Whether commits are late in this schedule.
    has_late_commits: bool,
    /// Increased by a fail-over. Sessions opened before it are connected to a server that accepts no writes.
    primary: u32,
    /// Time until which the address still leads to the server that was the primary.
    moved_at: Option<Instant>,
    /// Deviation of the clock, in microseconds.
    clock_off: i64,
    trace: u64,
    links: Vec<SimulatedLink>,
    nodes: seen::Nodes,
    locked: rows::Locked,
}

impl SimulatedServer {
    /// Creates a server over an emptied database. It must run on a runtime with a paused clock.
    pub fn new(database: SimulatedDatabase, seed: u64) -> Result<Self> {
        let SimulatedDatabase(mut database) = database;
        database.clear()?;
        let state = State {
            rng: Rng::with_seed(seed),
            faults: Faults::default(),
            has_late_commits: false,
            primary: 0,
            moved_at: None,
            clock_off: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            links: Vec::new(),
            nodes: seen::Nodes::default(),
            locked: rows::Locked::default(),
        };
        Ok(Self(Arc::new(Shared {
            database: Mutex::new(database),
            state: Mutex::new(state),
            tasks: Mutex::new(JoinSet::new()),
            began: Instant::now(),
        })))
    }

    /// Creates the link of the node of this name.
    pub fn link(&self, name: &str) -> SimulatedLink {
        let link = SimulatedLink::new(self, name);
        self.state().links.push(link.clone());
        link
    }

    /// Sets the faults that are drawn from now on.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        state.faults = faults;
        state.has_late_commits |= faults.late > 0;
    }

    /// Makes another server the primary. Open sessions stay on the old one, which refuses writes from then on. New
    /// sessions reach the new one after `moving`.
    pub fn fail_over(&self, moving: Duration) {
        let mut state = self.state();
        state.primary += 1;
        state.moved_at = Some(Instant::now() + moving);
        for link in state.links.clone() {
            link.record_outage(moving);
        }
    }

    /// Moves the server's clock forward, or back.
    pub fn step_clock(&self, micros: i64) {
        self.state().clock_off += micros;
    }

    /// Returns a hash of everything that happened.
    pub fn trace(&self) -> u64 {
        self.state().trace
    }

    /// Adds something to the hash of what happened.
    pub fn note(&self, what: u64) {
        let mut state = self.state();
        state.trace = (state.trace ^ what)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(17);
    }

    /// Returns the rows of a query, whatever the network does.
    pub fn query(&self, sql: &'static str) -> Result<Vec<Row>> {
        self.database().query(sql)
    }

    /// Ends every connection and returns the database. `None` while another handle of the server is in use.
    pub async fn end(self) -> Option<SimulatedDatabase> {
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.shutdown().await;
        self.state().links.clear();
        let shared = Arc::into_inner(self.0)?;
        let database = shared.database.into_inner();
        Some(SimulatedDatabase(database))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn database(&self) -> MutexGuard<'_, Database> {
        self.0.database.lock()
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.tasks.lock()
    }

    /// Starts a task that ends with the server at the latest.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks().spawn(task);
    }

    /// Time since the beginning of the schedule.
    fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Returns the time of the server's clock, in microseconds.
    fn clock(&self) -> i64 {
        let elapsed = i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX);
        BEGINNING + elapsed + self.state().clock_off
    }
}

/// Opens the back end of the node at the end of `link`.
pub(super) fn open(link: &SimulatedLink, connections: usize, context: &Context) -> Backend {
    connection::open(link, connections, context)
}
