//! The world of a fault test: one node on SQLite, or three on one PostgreSQL, each the real binary; a model server and
//! a callback receiver, each reached through a proxy; and one seed for all random choices.

use std::{
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, JoinHandle},
};

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};
use sortie_testkit::{
    CallbackReceiver, PostgresServer, Proxy, Records,
    postgres::TestDatabase,
    processes::{self, InUse, Process},
};
use tempfile::{NamedTempFile, TempDir};

use crate::{
    clock::Clocks,
    model::{Model, config},
    prelude::*,
};

/// The seed of all random choices, in decimal; drawn if unset.
const SEED: &str = "SORTIE_FAULT_SEED";
/// Price of a second of a run here, in micros.
pub(crate) const RATE: u64 = 1_000;
/// Secret that callbacks are signed with.
pub(crate) const SECRET: &str = "hush";
/// Number of nodes on a database that several can share.
pub(crate) const MOST_NODES: usize = 3;
/// Interval of the checks of the nodes' descendants.
const LOOK: Duration = Duration::from_millis(60);

/// Settings of a world beyond the defaults.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// A separate PostgreSQL server, which can be stopped and replaced.
    pub(crate) own_server: bool,
    /// Further settings of the server, each as `name=value`.
    pub(crate) server_settings: &'static [&'static str],
    /// Further environment of every node.
    pub(crate) environment: Vec<(String, String)>,
    /// Clocks of the nodes.
    pub(crate) clocks: Option<Clocks>,
    /// Storage for the content of files; by default a folder that all nodes share.
    pub(crate) blob_url: Option<String>,
    /// The parent of every data folder.
    pub(crate) data_parent: Option<PathBuf>,
}

/// Current addresses of the nodes, for clients that keep running while nodes stop and start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doors(Arc<Mutex<Vec<(usize, SocketAddr)>>>, Arc<Mutex<String>>);

impl Doors {
    /// No addresses yet, for clients with this key.
    pub(crate) fn of_key(key: &str) -> Self {
        Self(Arc::default(), Arc::new(Mutex::new(key.to_owned())))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, SocketAddr)>> {
        self.0.lock()
    }

    /// Opens the door of a node.
    pub(crate) fn open(&self, nth: usize, address: SocketAddr) {
        self.lock().push((nth, address));
    }

    /// Removes a node's address, so that no client starts a request there.
    pub(crate) fn close(&self, nth: usize) {
        self.lock().retain(|(known, _)| *known != nth);
    }

    /// The address of a running node; `None` if none is up.
    pub(crate) fn address(&self, random: &mut fastrand::Rng) -> Option<SocketAddr> {
        let open = self.lock();
        let (_, address) = random.choice(open.iter())?;
        Some(*address)
    }

    /// A client of a running node; `None` if none is up.
    pub(crate) fn any(&self, random: &mut fastrand::Rng) -> Option<Client> {
        let address = self.address(random)?;
        let key = self.1.lock().clone();
        Some(Client::new(address, Some(key)))
    }
}

/// Everything a fault happens to.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) random: fastrand::Rng,
    /// A part of every command line that a run of this world starts.
    pub(crate) token: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) doors: Doors,
    pub(crate) model: Model,
    pub(crate) receiver: CallbackReceiver,
    /// In front of the callback receiver.
    pub(crate) receiver_proxy: Proxy,
    /// Proxies in front of the database, one for each node; empty on `SQLite`.
    pub(crate) database_proxies: Vec<Proxy>,
    /// In front of the model.
    pub(crate) model_proxy: Proxy,
    /// The node's processes and their resource use before the fault.
    pub(crate) levels: Vec<(u32, InUse)>,
    watch: Watch,
    // Resources that live as long as the nodes, in the order in which they must be dropped.
    pub(crate) server: Option<PostgresServer>,
    /// Address of the database, in front of the separate server; `None` without one.
    pub(crate) front: Option<Proxy>,
    blobs: TempDir,
    _config: NamedTempFile,
}

/// Records every process that ever descended from a node, if it lived long enough to be seen.
#[derive(Debug)]
struct Watch {
    pids: Arc<Mutex<Vec<u32>>>,
    seen: Arc<Mutex<BTreeSet<Process>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start() -> Self {
        let (pids, seen) = (
            Arc::<Mutex<Vec<u32>>>::default(),
            Arc::<Mutex<BTreeSet<Process>>>::default(),
        );
        let stop = Arc::new(AtomicBool::new(false));
        let mut watch = Self {
            pids,
            seen,
            stop,
            thread: None,
        };
        let (pids, seen, stop) = (
            Arc::clone(&watch.pids),
            Arc::clone(&watch.seen),
            Arc::clone(&watch.stop),
        );
        watch.thread = Some(thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                look(&pids, &seen);
                thread::sleep(LOOK);
            }
        }));
        watch
    }
}

fn look(pids: &Mutex<Vec<u32>>, seen: &Mutex<BTreeSet<Process>>) {
    let pids = pids.lock().clone();
    let found = processes::descendants(&pids);
    seen.lock().extend(found);
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing at its end.
            let _ended = thread.join();
        }
    }
}

/// Returns the source of randomness of a test, and prints the seed. `name` is that of the fault.
pub(crate) fn seeded(name: &str, database: Database) -> Result<fastrand::Rng> {
    let seed = seed()?;
    println!("{name} on {}: {SEED}={seed}", database.as_str());
    Ok(random(seed, name, database))
}

/// Returns the source of randomness. It depends only on the three arguments, not on the version of the binary.
fn random(seed: u64, name: &str, database: Database) -> fastrand::Rng {
    let digest = Sha256::digest(format!("{seed} {name} {}", database.as_str()));
    let folded = digest
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    fastrand::Rng::with_seed(folded)
}

/// The first database of the server, reached through a proxy.
fn server_url(front: &Proxy) -> String {
    format!("postgres://postgres@{}/postgres", front.address())
}

/// The seed of this run of the suite, the same for all its tests.
fn seed() -> Result<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a seed is repeated through the environment"
    )]
    match std::env::var(SEED) {
        Ok(seed) => seed.parse().context(SEED),
        Err(_) => Ok(fastrand::u64(1..1_000_000_000)),
    }
}

impl World {
    /// Starts everything and prints the seed. `name` is that of the fault.
    pub(crate) async fn start(database: Database, name: &str, setup: Setup) -> Result<Self> {
        let mut random = seeded(name, database)?;
        let token = format!("fault{:016x}", random.u64(..));

        let model = Model::start().await?;
        let model_proxy = Proxy::start(model.server.address()).await?;
        let mut file = NamedTempFile::new()?;
        file.write_all(config(&model_proxy.base_url()).as_bytes())?;
        let receiver = CallbackReceiver::start(SECRET).await?;
        let receiver_proxy = Proxy::start(receiver.address()).await?;
        let blobs = tempfile::tempdir()?;
        let server = match (database, setup.own_server) {
            (Database::Postgres, true) => Some(PostgresServer::start_with(setup.server_settings).await?),
            (Database::Postgres | Database::Sqlite, _) => None,
        };
        let front = match &server {
            Some(server) => Some(Proxy::start(server.address()).await?),
            None => None,
        };
        let records = match &front {
            Some(front) => Records::Shared(Arc::new(TestDatabase::at(server_url(front)))),
            None => database.fresh().await?,
        };

        let blob_url = setup.blob_url.unwrap_or_else(|| match database {
            // The default, in the data folder.
            Database::Sqlite => String::new(),
            Database::Postgres => format!("file:{}", blobs.path().display()),
        });
        let mut options = NodeOptions {
            data_parent: setup.data_parent,
            ..NodeOptions::default()
        }
        .env("SORTIE_CONFIG", &file.path().to_string_lossy())
        .env("SORTIE_MASTER_KEY", &"5a".repeat(32))
        .env("SORTIE_COMPUTE_MICROS_PER_SECOND", &RATE.to_string());
        if !blob_url.is_empty() {
            options = options.env("SORTIE_BLOB_URL", &blob_url);
        }
        options.environment.extend(setup.environment);

        let mut world = Self {
            database,
            random,
            token,
            nodes: Vec::new(),
            doors: Doors::default(),
            model,
            receiver,
            receiver_proxy,
            database_proxies: Vec::new(),
            model_proxy,
            levels: Vec::new(),
            watch: Watch::start(),
            server,
            front,
            blobs,
            _config: file,
        };
        world.start_nodes(records, options, setup.clocks.as_ref()).await?;
        Ok(world)
    }

    async fn start_nodes(
        &mut self,
        records: Records,
        options: NodeOptions,
        clocks: Option<&Clocks>,
    ) -> Result<()> {
        let count = match self.database {
            Database::Sqlite => 1,
            Database::Postgres => MOST_NODES,
        };
        let mut key = None;
        for nth in 0..count {
            let mut options = options.clone();
            if let Some(clocks) = clocks {
                options.environment.extend(clocks.environment(nth));
            }
            if let Records::Shared(shared) = &records {
                let proxy = Proxy::start(shared.server()?).await?;
                options.database_url = Some(shared.url_at(proxy.address())?);
                self.database_proxies.push(proxy);
            }
            let node = Node::on(
                env!("CARGO_BIN_EXE_sortie"),
                records.clone(),
                options,
                key.clone(),
            )
            .await?;
            key = Some(node.key().to_owned());
            self.nodes.push(node);
            self.open(nth)?;
        }
        *self.doors.1.lock() = key.unwrap_or_default();
        Ok(())
    }

    /// Makes a node that is up known.
    fn open(&mut self, nth: usize) -> Result<()> {
        let node = &self.nodes[nth];
        self.doors.open(nth, node.address()?);
        self.pids().push(node.pid()?);
        Ok(())
    }

    fn pids(&self) -> MutexGuard<'_, Vec<u32>> {
        self.watch.pids.lock()
    }

    /// Keeps clients from starting requests at this node.
    pub(crate) fn close(&self, nth: usize) {
        self.doors.close(nth);
    }

    /// Opens it to clients again.
    pub(crate) fn reopen(&mut self, nth: usize) -> Result<()> {
        self.close(nth);
        self.open(nth)
    }

    /// Kills a node. Its clients discover that on their own.
    pub(crate) fn kill(&mut self, nth: usize) -> Result<()> {
        look(&self.watch.pids, &self.watch.seen);
        self.nodes[nth].kill()?;
        self.close(nth);
        Ok(())
    }

    /// Starts a node again that is down.
    pub(crate) async fn restart(&mut self, nth: usize) -> Result<()> {
        self.nodes[nth].restart().await?;
        self.reopen(nth)
    }

    /// Returns some node.
    pub(crate) fn some_node(&mut self) -> usize {
        self.random.usize(..self.nodes.len())
    }

    /// Returns a random duration, in milliseconds.
    pub(crate) fn moment(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.u64(range))
    }

    /// Returns the folder in which nodes stage content.
    pub(crate) fn staging(&self) -> PathBuf {
        self.blobs.path().join("staging")
    }

    /// Living processes that ever descended from a node, except the process of each running node that forks launchers.
    pub(crate) fn left_alive(&self) -> Vec<Process> {
        let mut nodes: BTreeSet<u32> = self.nodes.iter().filter_map(|node| node.pid().ok()).collect();
        let seen = self.watch.seen.lock().clone();
        let mut alive: BTreeSet<Process> = seen
            .into_iter()
            .filter(|process| processes::is_alive(*process))
            .filter(|process| !processes::forks_for(*process).is_some_and(|node| nodes.remove(&node)))
            .collect();
        alive.extend(processes::saying(&self.token));
        alive.into_iter().collect()
    }

    /// Records the current resource use of every node.
    pub(crate) fn take_levels(&mut self) -> Result<()> {
        self.levels.clear();
        for node in &self.nodes {
            let pid = node.pid()?;
            self.levels.push((pid, processes::in_use(pid)?));
        }
        Ok(())
    }
}
