//! Database server `PostgreSQL`: threads with one connection each, and pipelined statements.
//!
//! Each thread drives its connection on a separate runtime. A command is therefore a plain closure, and all statements
//! of a batch still travel together. Isolation is READ COMMITTED: commands decide by conditional updates and row locks,
//! never by a value that they read before. Commands that meet a deadlock, or lose their connection before the commit,
//! are run again. A commit is reported as unknown only if its answer was lost.

mod channel;
mod connect;
mod session;

use std::{sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use tokio::runtime::Runtime;

#[cfg(feature = "simulation")]
pub(super) use self::connect::SETTINGS;
use self::session::PgSession;
pub(super) use self::{channel::open as open_channel, connect::Link};
use crate::{
    Backend, Context, Dialect, Error, LISTERS, OpenOptions, ReadRow, Result, SCANNERS, Schema,
    job::Queue,
    migrate::{self, Migration},
    row, select,
    sessions::{Pipeline, Server, Session as _, Worker},
    spawn,
    tx::Tx,
    vals,
};

/// Takes the advisory lock under which migrations run, across all nodes of the database.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_lock(7310314218846317427)";
/// Releases the advisory lock. The end of the session would release it, too.
const MIGRATION_UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// Begins a migration. While it waits for a table lock, all other sessions queue up after it, so its limit is much
/// shorter than that of a command.
const BEGIN_MIGRATION: &str = "BEGIN; SET LOCAL lock_timeout = '200ms'";

/// Number of tries, one of which waits longer than `deadlock_timeout` (one second). An automatic vacuum yields its lock
/// only to a session that has waited that long.
const PATIENT: u64 = 10;
/// Begins such a patient try.
const BEGIN_PATIENT: &str = "BEGIN; SET LOCAL lock_timeout = '1300ms'";

/// Pause before the next try.
const NEXT_TRY: Duration = Duration::from_secs(1);

/// Number of checks for a pooler in transaction mode.
const POOLED: u32 = 3;

/// Oldest supported server, as `server_version_num`.
const OLDEST_SERVER: i64 = 140_000;

/// Encodings of a database that store every text unchanged. The second one stores bytes without checking them.
const ENCODINGS: [&str; 2] = ["UTF8", "SQL_ASCII"];

/// Connects, migrates and starts `connections` threads. Each thread connects at its first job. One more thread serves
/// urgent jobs, so that they do not wait for a lock behind others. A few serve queries that may take long. The two
/// sessions of the startup checks are reused for the first command and for the urgent jobs.
pub(super) fn open(url: &str, options: OpenOptions, schema: Schema, context: &Context) -> Result<Backend> {
    let connections = options.connections.max(1) as usize;
    let link = Link::new(url)?;
    let urgent_link = link.urgent(options.urgent.connection);
    let [session, urgent_session] = refuse_transaction_pooling(&link)?;
    let urgent_session = link.prepared(urgent_session)?.with_limit(urgent_link.answer());
    let session = apply_migrations(link.prepared(session)?, &link, schema.migrations)?;
    let [queue, urgent, lists, scans] = std::array::from_fn(|_| Arc::new(Queue::default()));
    let mut threads = Vec::with_capacity(1 + connections + LISTERS + SCANNERS);
    let [first, first_urgent, none] =
        [Some(session), Some(urgent_session), None].map(|open| Arc::new(Mutex::new(open)));
    let mut links = vec![(&urgent, urgent_link, &first_urgent)];
    links.extend((0..connections).map(|_| (&queue, link.clone(), &first)));
    links.extend((0..LISTERS).map(|_| (&lists, link.clone(), &none)));
    links.extend((0..SCANNERS).map(|_| (&scans, link.clone(), &none)));
    for (number, (queue, link, first)) in links.into_iter().enumerate() {
        let server = PgServer {
            link,
            runtime: Arc::new(connect::runtime()?),
            first: Arc::clone(first),
        };
        let pool = Arc::clone(server.link.pool());
        let worker = Worker::new(server, pool, context.clone());
        let queue = Arc::clone(queue);
        threads.push(spawn(&format!("store-{number}"), move || {
            worker.run(&queue);
        })?);
    }
    Ok(Backend {
        urgent,
        writes: Arc::clone(&queue),
        reads: queue,
        lists,
        scans,
        threads,
        link: Some(crate::Link::Postgres(Box::new(link))),
        wal: None,
        space: None,
    })
}

/// Server to which each thread has a separate connection.
struct PgServer {
    link: Link,
    runtime: Arc<Runtime>,
    /// A session that is open already, for the first of these threads to connect.
    first: Arc<Mutex<Option<PgSession>>>,
}

impl Server for PgServer {
    type Session = PgSession;

    fn connect(&mut self) -> Result<PgSession> {
        let first = self.first.lock().take();
        if let Some(mut first) = first
            && self.link.pool().is_unchanged()
            && first.is_open()
        {
            return Ok(first);
        }
        self.link.connect(&self.runtime)
    }

    fn pause(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Refuses a pooler that gives a server connection to another client after each transaction. Prepared statements,
/// session settings and `LISTEN` need a dedicated connection: otherwise they would be lost, or come from another
/// client. Returns two sessions without settings.
fn refuse_transaction_pooling(link: &Link) -> Result<[PgSession; 2]> {
    let link = link.without_settings();
    let connect = || link.connect(&Arc::new(connect::runtime()?));
    let (mut first, mut second) = (connect()?, connect()?);
    // A pooler may use its server connections in rotation.
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
    Ok([first, second])
}

/// Runs a query on a session that cannot write.
pub(super) fn inspect<T>(url: &str, query: fn(&mut dyn Tx) -> Result<T>) -> Result<T> {
    let link = Link::new(url)?;
    let [session, _] = refuse_transaction_pooling(&link)?;
    let mut session = link.prepared(session)?;
    refuse_unsuitable_database(&mut session)?;
    query(&mut Pipeline::reader(&mut session))
}

row! {
    struct AboutServer {
        version: i64 = "CAST(current_setting('server_version_num') AS BIGINT)",
        encoding: String = "current_setting('server_encoding')",
        name: String = "current_database()",
    }
}

fn refuse_unsuitable_database(session: &mut PgSession) -> Result<()> {
    let about = Pipeline::reader(session).query_one(select!(AboutServer, ""), vals![])?;
    let AboutServer {
        version,
        encoding,
        name,
    } = AboutServer::read(&about)?;
    if version < OLDEST_SERVER {
        return Err(Error::Database(format!(
            "PostgreSQL 14 or newer is needed; the server has version number {version}"
        )));
    }
    if !ENCODINGS.contains(&encoding.as_str()) {
        return Err(Error::Database(format!(
            "the database {name} has the encoding {encoding}, which lacks characters that runs write: make one with \
             CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, move what it holds there with pg_dump and \
             pg_restore, and set database_url to it"
        )));
    }
    Ok(())
}

/// Applies those of the `known` migrations that are missing. Returns a session that is ready for commands.
fn apply_migrations(mut session: PgSession, link: &Link, known: &[Migration]) -> Result<PgSession> {
    // A migration may take longer than a command, and may wait for another node's migration.
    session.control(
        "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
         SET default_transaction_read_only = off",
    )?;
    session.control(MIGRATION_LOCK)?;
    refuse_unsuitable_database(&mut session)?;
    session.control(migrate::RECORD_TABLE)?;
    let applied = Pipeline::reader(&mut session).query_all(migrate::APPLIED, vals![])?;
    for migration in migrate::pending(known, &applied)? {
        apply(migration, &mut session)?;
    }
    session.control(MIGRATION_UNLOCK)?;
    link.prepared(session)
}

/// Applies one migration. While it waits for a table lock, other sessions queue up after it. If another session holds
/// such a lock for long, as a dump does, the migration lets the others pass and retries.
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
                "a migration waits for a table that another session has locked, as a dump or a vacuum does"
            );
        }
        thread::sleep(NEXT_TRY);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sortie_testkit::postgres::TestDatabase;
    use tokio::task::JoinSet;

    use super::*;
    use crate::{Db, testing::FakeRows};

    const INITIAL: Migration = Migration {
        version: 1,
        name: "initial",
        text: "CREATE TABLE dispatch (turn BIGINT NOT NULL); INSERT INTO dispatch (turn) VALUES (0)",
    };

    /// Time that is longer than a command waits for a lock.
    const LONG: Duration = Duration::from_secs(5);

    /// A dump reads every table in one transaction. The migration of a newer version waits for the dump, and no command
    /// waits for the migration.
    #[tokio::test]
    async fn a_migration_that_waits_for_a_dump_holds_up_nobody() {
        let database = TestDatabase::postgres().await.unwrap();
        let schema = Schema {
            migrations: &[INITIAL],
            statistics: &[],
        };
        let rows = Arc::new(FakeRows);
        let db = Db::open(database.url(), OpenOptions::default(), schema, rows);
        let db = db.await.unwrap();
        let (dump, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls)
            .await
            .unwrap();
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        dump.batch_execute("BEGIN; LOCK TABLE dispatch IN ACCESS SHARE MODE")
            .await
            .unwrap();
        let url = database.url().to_owned();
        let newer = thread::spawn(move || {
            let link = Link::new(&url)?;
            let session = link.connect(&Arc::new(connect::runtime()?))?;
            let next = Migration {
                version: 2,
                name: "next",
                text: "ALTER TABLE dispatch ADD COLUMN later BIGINT",
            };
            apply_migrations(session, &link, &[INITIAL, next]).map(drop)
        });
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            let write = |tx: &mut dyn Tx| tx.exec("UPDATE dispatch SET turn = turn", vals![]);
            assert_eq!(db.write(write).await.unwrap(), 1);
            let read = |tx: &mut dyn Tx| tx.query_one("SELECT turn FROM dispatch", vals![]);
            db.read(read).await.unwrap();
        }
        assert!(!newer.is_finished(), "it does not wait for the dump");
        dump.batch_execute("COMMIT").await.unwrap();
        newer.join().unwrap().unwrap();
        let read = |tx: &mut dyn Tx| tx.query_one("SELECT COUNT(later) FROM dispatch", vals![]);
        assert_eq!(db.read(read).await.unwrap().int(0).unwrap(), 0);
        let recorded = "SELECT CAST(COUNT(*) AS TEXT) AS v FROM migration WHERE version = 2";
        assert_eq!(database.value(recorded).await.unwrap(), "1");
    }

    #[tokio::test]
    async fn a_session_from_before_a_fail_over_is_not_used() {
        let database = TestDatabase::postgres().await.unwrap();
        let url = database.url().to_owned();
        let connects = move |fails_over: bool| {
            let link = Link::new(&url).unwrap();
            let runtime = Arc::new(connect::runtime().unwrap());
            let mut first = link.connect(&runtime).unwrap();
            let before = first.backend().unwrap();
            let first = Arc::new(Mutex::new(Some(first)));
            let mut server = PgServer { link, runtime, first };
            if fails_over {
                server.link.pool().retire_all();
            }
            server.connect().unwrap().backend().unwrap() == before
        };
        // Uses a separate thread, because a session blocks until it has its answers.
        let used = thread::spawn(move || [false, true].map(connects)).join().unwrap();
        assert_eq!(used, [true, false]);
    }
}
