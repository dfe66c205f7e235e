//! The databases of the store: one SQL text runs on `SQLite` and on `PostgreSQL`. No other crate names a database driver.
//!
//! A command is a closure over a [`Tx`]. [`Db::write`] sends it to a thread that owns a connection. The
//! thread runs it as one transaction, even if the caller stops waiting, and answers after the commit.
//! [`Db::urgent`] is a write that goes ahead of all waiting jobs. [`Db::read`] runs a closure on a reader,
//! [`Db::list`] and [`Db::scan`] on those for lists and for queries that may take long, which organizations use in turns. A
//! closure may run more than once: its group may be retried, or the database may report a serialization
//! failure. It is therefore `Fn` and contains SQL only: no clock, no randomness, no other I/O.

pub mod channel;
mod dialect;
pub mod error;
#[cfg(any(test, feature = "faults"))]
pub mod fault;
mod hooks;
mod job;
pub mod known_budgets;
mod metrics;
mod migrate;
mod options;
mod postgres;
mod rows;
mod sessions;
#[cfg(feature = "simulation")]
pub mod simulated;
mod sqlite;
pub mod tail;
#[cfg(test)]
mod testing;
#[doc(hidden)]
pub mod texts;
mod tx;
mod value;

use std::{
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use sortie_api::OrgId;
use sortie_base::lasting_thread;
use tokio::sync::{mpsc, oneshot};

/// For the macros of this crate.
#[doc(hidden)]
pub use constcat;

use self::{
    channel::{ChannelMessage, OutgoingHint},
    hooks::{HookPoints as _, Hooks},
    job::{Access, Job, Queue, Task},
    metrics::{LiveFigures, Metrics},
    tail::SharedRows,
};
pub use self::{
    dialect::Dialect,
    error::{Error, Result},
    job::Turn,
    migrate::{Migration, Schema},
    options::{CONNECTIONS, OpenOptions, UrgentLimits},
    rows::{Column, IfReadable, Json, ReadRow, parsed},
    sqlite::{copy as copy_sqlite, open_copy as open_sqlite_copy},
    tx::{Answer, Stmt, Tx, Writers, batch},
    value::{Row, Val, readable},
};

/// Number of connections for lists.
const LISTERS: usize = 2;

/// Number of connections for queries that may take long.
const SCANNERS: usize = 1;

/// Runs a read-only query on the database of a URL, over a separate connection.
pub async fn inspect<T: Send + 'static>(url: &str, query: fn(&mut dyn Tx) -> Result<T>) -> Result<T> {
    match Address::of(url)? {
        Address::Sqlite(path) => off_runtime(move || sqlite::inspect(&path, query)).await,
        Address::Postgres(url) => off_runtime(move || postgres::inspect(&url, query)).await,
    }
}

/// Address of a database.
enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Address {
    fn of(url: &str) -> Result<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            Ok(Self::Sqlite(PathBuf::from(path)))
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Ok(Self::Postgres(url.to_owned()))
        } else {
            Err(Error::Database(
                "the database URL must start with sqlite: or postgres://".to_owned(),
            ))
        }
    }
}

/// Open database. The last handle that is dropped closes it, after the waiting jobs are done.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

/// Metrics, writer of shared rows and hooks, for the threads of a database.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) metrics: Metrics,
    pub(crate) rows: Arc<dyn SharedRows>,
    pub(crate) hooks: Hooks,
}

struct Inner {
    writes: Arc<Queue>,
    urgent: Arc<Queue>,
    reads: Arc<Queue>,
    lists: Arc<Queue>,
    scans: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Server that carries the channel between nodes. `None` if only one node uses the database.
    link: Option<Link>,
    /// Time limits of urgent commands.
    limits: UrgentLimits,
    context: Context,
    wal: Option<PathBuf>,
    space: Option<sqlite::Space>,
}

/// Address of a database server.
enum Link {
    Postgres(Box<postgres::Link>),
    #[cfg(feature = "simulation")]
    Simulated(simulated::SimulatedLink),
}

/// Parts of an open database, as a back end returns them.
struct Backend {
    writes: Arc<Queue>,
    urgent: Arc<Queue>,
    reads: Arc<Queue>,
    lists: Arc<Queue>,
    scans: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    link: Option<Link>,
    /// Path of the write-ahead log, if it is a file on this machine.
    wal: Option<PathBuf>,
    /// Space on the disk of the database, if it is a file on this machine.
    space: Option<sqlite::Space>,
}

impl Db {
    /// Opens `sqlite:PATH` or `postgres://…` and applies the migrations that it lacks. `rows` writes the rows that many
    /// commands share.
    pub async fn open(
        url: &str,
        options: OpenOptions,
        schema: Schema,
        rows: Arc<dyn SharedRows>,
    ) -> Result<Self> {
        let context = Context {
            metrics: Metrics::default(),
            rows,
            hooks: Hooks::default(),
        };
        let shared = context.clone();
        let backend = match Address::of(url)? {
            Address::Sqlite(path) => {
                off_runtime(move || sqlite::open(&path, options.checkpoint_after, schema, &shared)).await?
            }
            Address::Postgres(url) => {
                off_runtime(move || postgres::open(&url, options, schema, &shared)).await?
            }
        };
        Ok(Self::over(backend, options.urgent, context))
    }

    /// Opens a simulated server. `connections` is the number of connections for commands.
    #[cfg(feature = "simulation")]
    pub fn simulated(link: &simulated::SimulatedLink, connections: u32, rows: Arc<dyn SharedRows>) -> Self {
        let context = Context {
            metrics: Metrics::default(),
            rows,
            hooks: Hooks::default(),
        };
        let backend = simulated::open(link, connections.max(1) as usize, &context);
        Self::over(backend, UrgentLimits::default(), context)
    }

    fn over(backend: Backend, limits: UrgentLimits, context: Context) -> Self {
        Self {
            inner: Arc::new(Inner {
                writes: backend.writes,
                urgent: backend.urgent,
                reads: backend.reads,
                lists: backend.lists,
                scans: backend.scans,
                threads: Mutex::new(backend.threads),
                link: backend.link,
                limits,
                context,
                wal: backend.wal,
                space: backend.space,
            }),
        }
    }

    /// Metrics of the database.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.context.metrics
    }

    /// Time limits of urgent commands.
    pub fn limits(&self) -> UrgentLimits {
        self.inner.limits
    }

    /// Whether the database is a server, which other processes can use as well.
    pub fn is_shared(&self) -> bool {
        self.inner.link.is_some()
    }

    /// Size of the write-ahead log in bytes, if it is a file on this machine.
    pub fn log_bytes(&self) -> Option<u64> {
        let wal = self.inner.wal.as_deref();
        wal.map(|wal| std::fs::metadata(wal).map_or(0, |file| file.len()))
    }

    /// Fails while the disk of the database has no space. The disk is checked only after a write has found no space.
    pub async fn check_space(&self) -> Result<()> {
        match &self.inner.space {
            Some(space) if space.is_full() => {
                let space = space.clone();
                off_runtime(move || space.check()).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs `work` as one transaction.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        self.write_of(0, work).await
    }

    /// Runs `work` as one transaction. `bytes` is the approximate number of bytes that it writes.
    pub async fn write_of<T, F>(&self, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        self.write_as(Access::Write, bytes, work).await
    }

    /// Runs `work` as one transaction that it may share with other commands. Its own statements write only
    /// rows that few other commands touch, such as the rows of a new run. Amounts for rows that many commands
    /// share go into its tail ([`Tx::tail`]). Under load several such commands share a transaction. If one
    /// fails, the others run again.
    pub async fn write_own<T, F>(&self, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        self.write_as(Access::Own, bytes, work).await
    }

    async fn write_as<T, F>(&self, access: Access, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        let work = self.hooked(work);
        let (job, answer) = job(access, Turn::Arrival, bytes, work);
        self.push(&self.inner.writes, job)?;
        answered(answer).await
    }

    /// Runs `work` as one transaction, ahead of all waiting jobs. Returns [`Error::Unavailable`] after
    /// `limit`; the transaction may still take place then.
    pub async fn urgent<T, F>(&self, limit: Duration, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        let work = self.hooked(work);
        let (job, answer) = job(Access::Write, Turn::Arrival, 0, work);
        self.inner.urgent.push_urgent(job)?;
        tokio::time::timeout(limit, answered(answer))
            .await
            .map_err(|_| Error::Unavailable("the database did not answer in time".to_owned()))?
    }

    /// Runs queries on a reader. On `SQLite` they share one snapshot. On `PostgreSQL` each query sees the rows that
    /// were committed when it began.
    pub async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        self.read_from(&self.inner.reads, Turn::Arrival, work).await
    }

    /// Like [`read`](Self::read), for a page of a list that an index has in its order. Lists have `LISTERS` separate
    /// connections, so that a run, a command or a heartbeat never waits for one of them.
    pub async fn list<T, F>(&self, org: OrgId, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        self.read_from(&self.inner.lists, Turn::Organization(org), work)
            .await
    }

    /// Like [`list`](Self::list), for queries that read many rows: sums, counts, and lists that no index has. They have
    /// `SCANNERS` separate connections, so that an ordinary list never waits for one of them.
    pub async fn scan<T, F>(&self, turn: Turn, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        self.read_from(&self.inner.scans, turn, work).await
    }

    async fn read_from<T, F>(&self, queue: &Queue, turn: Turn, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
    {
        let work = self.hooked(work);
        let (job, answer) = job(Access::Read, turn, 0, work);
        self.push(queue, job)?;
        answered(answer).await
    }

    /// Opens a channel between nodes. Its thread ends when the sender is dropped. Drop the sender before the
    /// last handle of the database: closing the database waits for the thread.
    pub fn channel(&self) -> Result<Option<(mpsc::Sender<OutgoingHint>, mpsc::Receiver<ChannelMessage>)>> {
        match &self.inner.link {
            None => Ok(None),
            Some(Link::Postgres(link)) => {
                let ends = postgres::open_channel(link.as_ref().clone())?;
                self.inner.threads.lock().push(ends.thread);
                Ok(Some((ends.say, ends.heard)))
            }
            #[cfg(feature = "simulation")]
            Some(Link::Simulated(link)) => Ok(Some(simulated::open_channel(link))),
        }
    }

    fn push(&self, queue: &Queue, job: Box<dyn Job>) -> Result<()> {
        queue.push(job).inspect_err(|_| self.metrics().refused())
    }

    /// Registers the metrics of the store.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let mut queues: Vec<Arc<Queue>> = Vec::with_capacity(5);
        for queue in [
            &self.inner.writes,
            &self.inner.urgent,
            &self.inner.reads,
            &self.inner.lists,
            &self.inner.scans,
        ] {
            // A back end may serve several kinds of commands from one queue.
            if !queues.iter().any(|known| Arc::ptr_eq(known, queue)) {
                queues.push(Arc::clone(queue));
            }
        }
        let threads = self.inner.threads.lock().len();
        let figures = LiveFigures {
            queues,
            threads,
            wal: self.inner.wal.clone(),
        };
        self.metrics().register(figures, registry);
    }

    /// Wraps `work` so that tests can watch its transaction and make it fail.
    fn hooked<T, F>(&self, work: F) -> impl Fn(&mut dyn Tx) -> Result<T> + Send + use<T, F>
    where
        F: Fn(&mut dyn Tx) -> Result<T> + Send,
    {
        let hooks = self.inner.context.hooks.clone();
        move |tx| hooks.run(tx, &work)
    }

    /// Number of commands that were run again.
    #[cfg(any(test, feature = "faults"))]
    pub fn retries(&self) -> u64 {
        self.metrics().retries()
    }

    /// Failures to inject, for tests of atomicity.
    #[cfg(any(test, feature = "faults"))]
    pub fn faults(&self) -> &fault::Faults {
        &self.inner.context.hooks
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.writes.close();
        self.urgent.close();
        self.reads.close();
        self.lists.close();
        self.scans.close();
        let threads = std::mem::take(self.threads.get_mut());
        for thread in threads {
            // A panic of one of these threads would have ended the process.
            let _ended = thread.join();
        }
    }
}

/// Wraps `work` as a job. Returns the job and the receiver of its answer.
fn job<T, F>(
    access: Access,
    turn: Turn,
    bytes: usize,
    work: F,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    F: Fn(&mut dyn Tx) -> Result<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let task = Task {
        access,
        turn,
        bytes,
        queued_at: Instant::now(),
        work,
        value: None,
        reply,
    };
    (Box::new(task), answer)
}

async fn answered<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    answer
        .await
        .map_err(|_| Error::Unavailable("the store is closed".to_owned()))?
}

/// Runs blocking work (opening files, connecting) on a separate thread.
async fn off_runtime<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    short_thread("store-open", move || drop(reply.send(work())))?;
    answer
        .await
        .map_err(|_| Error::Database("opening the database panicked".to_owned()))?
}

/// Starts a thread that lasts as long as the database is open. Its panic ends the process.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    lasting_thread(name, work).map_err(|error| not_started(&error))
}

/// Starts a thread for one piece of work. The caller waits for its answer, and notices a panic.
fn short_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map_err(|error| not_started(&error))
}

fn not_started(error: &std::io::Error) -> Error {
    Error::Unavailable(format!("cannot start a database thread: {error}"))
}
