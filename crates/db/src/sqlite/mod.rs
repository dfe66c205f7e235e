//! Embedded database `SQLite`: one file, one process, one writing thread.
//!
//! Every write waits for the disk (`synchronous=FULL`). The [writer](writer::run) is fast because it commits in groups.
//! Readers have separate connections, which cannot write and never wait for the writer. One more connection copies the
//! log into the database ([`checkpoint`]). A lock file next to the database keeps a second process out.

mod checkpoint;
mod connection;
mod copy;
mod space;
mod statistics;
mod writer;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use sortie_api::plain;

pub use self::copy::{copy, open_copy};
pub(super) use self::{connection::Connection, space::Space};
use crate::{
    Backend, Context, Dialect, Error, LISTERS, Migration, Result, SCANNERS, Schema,
    job::{Next, Queue},
    metrics::Metrics,
    migrate, spawn,
    tx::Tx,
};

/// Number of connections for quick reads, each with a thread.
const READERS: usize = 3;

/// Opens or creates the database at `path` and starts its threads.
pub(super) fn open(
    path: &Path,
    checkpoint_after: Duration,
    schema: Schema,
    context: &Context,
) -> Result<Backend> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed("create the folder", folder, &error))?;
    }
    let lock = lock(path)?;
    // SQLite gives its journal files the mode of the database file.
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| failed("open", path, &error))?;
    // Every thread closes its connection before it drops this.
    let file = Arc::new(file);
    let space = Space::of(path);
    let (mut log, signalled) = checkpoint::log(path);
    let connection = Connection::writer(path, &space, &mut log).and_then(|mut connection| {
        apply_migrations(&mut connection, schema.migrations)?;
        statistics::set(&mut connection, schema.statistics)?;
        log.begin(&mut connection)?;
        connection.hooks = context.hooks.clone();
        Ok(connection)
    });
    let connection = connection.map_err(|error| space.cause_of(error))?;
    let checkpoints = checkpoint::start(path, Arc::clone(&file), signalled);
    let checkpoints = checkpoints.map_err(|error| space.cause_of(error))?;

    let [writes, reads, lists, scans] = std::array::from_fn(|_| Arc::new(Queue::default()));
    let mut threads = Vec::with_capacity(1 + READERS + LISTERS + SCANNERS);
    for (name, queue, count) in [
        ("read", &reads, READERS),
        ("list", &lists, LISTERS),
        ("scan", &scans, SCANNERS),
    ] {
        for number in 1..=count {
            let mut connection = Connection::reader(path).map_err(|error| space.cause_of(error))?;
            connection.hooks = context.hooks.clone();
            let name = format!("store-{name}-{number}");
            threads.push(reader(&name, connection, queue, (&context.metrics, &file))?);
        }
    }
    let owner = writer::Writer {
        connection,
        space: space.clone(),
        log,
        path: path.to_owned(),
        context: context.clone(),
        checkpoint_after,
        written: Vec::new(),
        low: Vec::new(),
        guarded: 0,
    };
    let queue = Arc::clone(&writes);
    threads.push(spawn("store-write", move || {
        writer::run(owner, &queue);
        // Its panic would have ended the process.
        let _ended = checkpoints.join();
        drop(file);
        // Keeps other processes out until the last write is on disk.
        drop(lock);
    })?);
    Ok(Backend {
        urgent: Arc::clone(&writes),
        writes,
        reads,
        lists,
        scans,
        threads,
        link: None,
        wal: Some(beside(path, "-wal")),
        space: Some(space),
    })
}

/// Starts a thread that reads with `connection`.
fn reader(
    name: &str,
    connection: Connection,
    queue: &Arc<Queue>,
    (metrics, file): (&Metrics, &Arc<File>),
) -> Result<JoinHandle<()>> {
    let (queue, metrics, file) = (Arc::clone(queue), metrics.clone(), Arc::clone(file));
    spawn(name, move || {
        read(connection, &queue, &metrics);
        drop(file);
    })
}

/// Runs a query on the database at `path`, and keeps other processes out until it is done. A missing database is not
/// created.
pub(super) fn inspect<T>(path: &Path, query: fn(&mut dyn Tx) -> Result<T>) -> Result<T> {
    let _lock = lock(path)?;
    let found = Connection::unchanged(path).and_then(|mut connection| query(&mut connection));
    found.map_err(|error| Space::of(path).cause_of(error))
}

/// Path of the database with `suffix` added to its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    PathBuf::from(beside)
}

/// Locks the lock file next to the database.
fn lock(path: &Path) -> Result<File> {
    let lock_path = beside(path, ".lock");
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&lock_path)
        .map_err(|error| failed("open", &lock_path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Unavailable(format!(
            "{} is in use by another process; a SQLite database serves one process at a time",
            fs::canonicalize(path)
                .unwrap_or_else(|_| path.to_owned())
                .display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed("lock", &lock_path, &error)),
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::StorageFull {
        return space::no_space(path);
    }
    Error::Unavailable(format!("cannot {what} {}: {}", path.display(), plain::io(error)))
}

/// Applies all missing migrations in one transaction: after a failure the file is unchanged, and a new file waits for
/// the disk once.
pub(super) fn apply_migrations(connection: &mut Connection, known: &[Migration]) -> Result<()> {
    connection.script(migrate::RECORD_TABLE)?;
    let applied = connection.query_all(migrate::APPLIED, Vec::new())?;
    let pending = migrate::pending(known, &applied)?;
    if pending.is_empty() {
        return Ok(());
    }
    connection.script("BEGIN EXCLUSIVE")?;
    let outcome = pending
        .iter()
        .try_for_each(|migration| {
            connection.script(&Dialect::Sqlite.translate(migration.text))?;
            migration.record(connection)
        })
        .and_then(|()| connection.script("COMMIT"));
    if outcome.is_err() && !connection.is_idle() {
        connection.script("ROLLBACK")?;
    }
    outcome
}

/// Main loop of a reading thread: one job after the other, each on one snapshot.
fn read(mut connection: Connection, queue: &Queue, metrics: &Metrics) {
    while let Next::Jobs(jobs) = queue.take(1, usize::MAX, None) {
        let _busy = metrics.took(&jobs);
        for mut job in jobs {
            let outcome = connection
                .control("BEGIN")
                .and_then(|()| job.run(&mut connection));
            let closed = if connection.is_idle() {
                Ok(())
            } else {
                connection.control("COMMIT")
            };
            job.answer(outcome.and(closed));
        }
    }
}
