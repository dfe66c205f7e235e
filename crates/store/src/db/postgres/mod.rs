//! The clustered database: threads with one connection each, statements pipelined.
//!
//! A thread runs its connection on a runtime of its own, so that a command stays a plain closure while all
//! statements of a batch travel together. Isolation is READ COMMITTED: commands decide by conditional updates and
//! row locks, never by a value they read before. Commands that meet a deadlock or lose their connection before
//! the commit are run again; only a commit whose answer was lost is reported as unknown.

mod channel;
mod connect;
mod session;
mod worker;

use std::{sync::Arc, thread, time::Duration};

use tokio::runtime::Runtime;

use self::session::{Pipeline, Session};
pub(super) use self::{channel::open as open_channel, connect::Link};
use crate::{
    db::{
        Backend, Dialect,
        job::Queue,
        migrate::{self, Migration},
        spawn,
        tx::Tx,
        value::vals,
    },
    metrics::Metrics,
    types::{Error, Result},
};

/// The advisory lock under which migrations run, across all nodes of the database.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_lock(7310314218846317427)";

/// How long a migration waits for a table, and everybody else behind it: much less than a command waits for a lock.
const BEGIN_MIGRATION: &str = "BEGIN; SET LOCAL lock_timeout = '200ms'";

/// One try in so many waits for longer than `deadlock_timeout`, which is a second: an automatic vacuum makes room for who has
/// waited for that long, and only then.
const PATIENT: u64 = 10;
const BEGIN_PATIENT: &str = "BEGIN; SET LOCAL lock_timeout = '1300ms'";

/// When it is tried again.
const NEXT_TRY: Duration = Duration::from_secs(1);

/// The oldest server that is supported, as `server_version_num`.
const OLDEST_SERVER: i64 = 140_000;

/// Connects, migrates and starts `connections` threads; each connects at its first job. One more is for urgent jobs, so that
/// they do not wait for a lock behind others; one for the channel between nodes, where it is opened.
pub(super) fn open(url: &str, connections: usize, metrics: &Metrics) -> Result<Backend> {
    let link = Link::new(url)?;
    apply_migrations(&link)?;
    let (queue, urgent) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
    #[cfg(test)]
    let faults = Arc::new(crate::db::fault::Faults::default());
    let mut threads = Vec::with_capacity(1 + connections);
    for number in 0..=connections {
        let worker = worker::Worker::new(
            link.clone(),
            metrics.clone(),
            #[cfg(test)]
            Arc::clone(&faults),
        )?;
        let queue = Arc::clone(if number == 0 { &urgent } else { &queue });
        threads.push(spawn(&format!("store-{number}"), move || {
            worker.run(&queue);
        })?);
    }
    Ok(Backend {
        urgent,
        writes: Arc::clone(&queue),
        reads: queue,
        threads,
        link: Some(link),
        wal: None,
        #[cfg(test)]
        faults,
    })
}

fn apply_migrations(link: &Link) -> Result<()> {
    let runtime = connect::runtime()?;
    let mut session = link.connect(&runtime)?;
    // A migration may take longer than a command, and may wait for another node's.
    session.control(
        &runtime,
        "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0",
    )?;
    session.control(&runtime, MIGRATION_LOCK)?;
    let mut reader = Pipeline::reader(&mut session, &runtime);
    let version = reader
        .query_one(
            "SELECT CAST(current_setting('server_version_num') AS BIGINT)",
            vals![],
        )?
        .int(0)?;
    if version < OLDEST_SERVER {
        return Err(Error::Database(format!(
            "PostgreSQL 14 or newer is needed; the server has version number {version}"
        )));
    }
    session.control(&runtime, migrate::RECORD_TABLE)?;
    let applied = Pipeline::reader(&mut session, &runtime).query_all(migrate::APPLIED, vals![])?;
    for migration in migrate::pending(migrate::MIGRATIONS, &applied)? {
        apply(migration, &mut session, &runtime)?;
    }
    // The lock and anything uncommitted go with the session.
    Ok(())
}

/// Applies one migration. It locks tables, and whoever comes to one of them waits behind it: where somebody holds one for long, as
/// a dump does, it lets the others pass and tries again, for as long as that takes.
fn apply(migration: &Migration, session: &mut Session, runtime: &Runtime) -> Result<()> {
    let text = Dialect::Postgres.translate(migration.text);
    let mut tries: u64 = 0;
    loop {
        tries += 1;
        let is_patient = tries.is_multiple_of(PATIENT);
        session.control(
            runtime,
            if is_patient {
                BEGIN_PATIENT
            } else {
                BEGIN_MIGRATION
            },
        )?;
        if session.unless_locked(runtime, &text)? {
            migration.record(&mut Pipeline::reader(session, runtime))?;
            return session.control(runtime, "COMMIT");
        }
        session.control(runtime, "ROLLBACK")?;
        if tries == 1 {
            let name = migration.name;
            tracing::warn!(
                name,
                "a migration waits for somebody who has a table for long, as a dump or a vacuum does"
            );
        }
        thread::sleep(NEXT_TRY);
    }
}
