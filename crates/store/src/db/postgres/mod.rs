//! The clustered database: threads with one connection each, statements pipelined.
//!
//! A thread runs its connection on a runtime of its own, so that a command stays a plain closure while all
//! statements of a batch travel together. Isolation is READ COMMITTED: commands decide by conditional updates and
//! row locks, never by a value they read before. Commands that meet a deadlock or lose their connection before
//! the commit are run again; only a commit whose answer was lost is reported as unknown.

mod channel;
mod connect;
mod session;

use std::{sync::Arc, thread, time::Duration};

use tokio::runtime::Runtime;

#[cfg(feature = "simulation")]
pub(super) use self::connect::SETTINGS;
use self::session::PgSession;
pub(super) use self::{channel::open as open_channel, connect::Link};
use crate::{
    db::{
        Backend, Dialect,
        job::Queue,
        migrate::{self, Migration},
        sessions::{Pipeline, Server, Worker},
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

/// Looks for a pooler in transaction mode.
const POOLED: u32 = 3;

/// The oldest server that is supported, as `server_version_num`.
const OLDEST_SERVER: i64 = 140_000;

/// Connects, migrates and starts `connections` threads; each connects at its first job. One more is for urgent jobs, so that
/// they do not wait for a lock behind others; one for the channel between nodes, where it is opened.
pub(super) fn open(url: &str, connections: usize, metrics: &Metrics) -> Result<Backend> {
    let link = Link::new(url)?;
    let runtime = Arc::new(connect::runtime()?);
    refuse_transaction_pooling(&link, &runtime)?;
    apply_migrations(&link, &runtime)?;
    let (queue, urgent) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
    #[cfg(test)]
    let faults = Arc::new(crate::db::fault::Faults::default());
    let mut threads = Vec::with_capacity(1 + connections);
    for number in 0..=connections {
        let is_urgent = number == 0;
        let server = PgServer {
            link: if is_urgent { link.urgent() } else { link.clone() },
            runtime: Arc::new(connect::runtime()?),
        };
        let worker = Worker::new(
            server,
            Arc::clone(link.pool()),
            metrics.clone(),
            #[cfg(test)]
            Arc::clone(&faults),
        );
        let queue = Arc::clone(if is_urgent { &urgent } else { &queue });
        threads.push(spawn(&format!("store-{number}"), move || {
            worker.run(&queue);
        })?);
    }
    Ok(Backend {
        urgent,
        writes: Arc::clone(&queue),
        reads: queue,
        threads,
        link: Some(crate::db::Link::Postgres(Box::new(link))),
        wal: None,
        #[cfg(test)]
        faults,
    })
}

/// A server that each thread reaches over a connection of its own.
struct PgServer {
    link: Link,
    runtime: Arc<Runtime>,
}

impl Server for PgServer {
    type Session = PgSession;

    fn connect(&mut self) -> Result<PgSession> {
        self.link.connect(&self.runtime)
    }

    fn pause(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Refuses a pooler that hands a server connection to another client after each transaction. Prepared statements, session
/// settings and `LISTEN` need a connection of their own: they would be lost, or be those of another client.
fn refuse_transaction_pooling(link: &Link, runtime: &Arc<Runtime>) -> Result<()> {
    let link = link.without_settings();
    let (mut first, mut second) = (link.connect(runtime)?, link.connect(runtime)?);
    // A pooler may hand its server connections out in turn.
    for _ in 0..POOLED {
        let before = first.backend()?;
        second.control("BEGIN")?;
        let between = second.backend()?;
        second.control("COMMIT")?;
        if between == before || first.backend()? != before {
            return Err(Error::Database(
                "the database is reached through a pooler in transaction mode, which loses prepared statements and \
                 session settings: set the pool to session mode, or connect to the server itself"
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

fn apply_migrations(link: &Link, runtime: &Arc<Runtime>) -> Result<()> {
    let mut session = link.connect(runtime)?;
    // A migration may take longer than a command, and may wait for another node's.
    session.control(
        "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
         SET default_transaction_read_only = off",
    )?;
    session.control(MIGRATION_LOCK)?;
    let version = Pipeline::reader(&mut session)
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
    session.control(migrate::RECORD_TABLE)?;
    let applied = Pipeline::reader(&mut session).query_all(migrate::APPLIED, vals![])?;
    for migration in migrate::pending(migrate::MIGRATIONS, &applied)? {
        apply(migration, &mut session)?;
    }
    // The lock and anything uncommitted go with the session.
    Ok(())
}

/// Applies one migration. It locks tables, and others wait behind it for their turn at these tables. While somebody holds
/// one of them for long, as a dump does, it lets the others pass and tries again.
fn apply(migration: &Migration, session: &mut PgSession) -> Result<()> {
    let text = Dialect::Postgres.translate(migration.text);
    let mut tries: u64 = 0;
    loop {
        tries += 1;
        let is_patient = tries.is_multiple_of(PATIENT);
        session.control(if is_patient {
            BEGIN_PATIENT
        } else {
            BEGIN_MIGRATION
        })?;
        if session.unless_locked(&text)? {
            migration.record(&mut Pipeline::reader(session))?;
            return session.control("COMMIT");
        }
        session.control("ROLLBACK")?;
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
