//! A database for one test alone: a file in a temporary folder, or a fresh database on the server that
//! `scripts/test-postgres` starts. The database is removed on drop.
//!
//! Without the server such a test fails: tests are never skipped.

use std::{
    mem,
    net::SocketAddr,
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};
use tokio_postgres::{NoTls, error::SqlState};

use crate::{
    Database,
    postgres_statements::{execute, rows},
    sqlite_file::file_rows,
    template::{copy_sqlite_template, versioned},
};

/// The variable with the address of the server of `scripts/test-postgres`.
const SERVER: &str = "SORTIE_TEST_POSTGRES_URL";

/// Advisory lock of the test that makes a template.
const MAKING: i64 = 7_310_314_218_846_317_428;

/// An empty database and its address.
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    owned: Owned,
}

/// Server or database that is removed at the end.
#[derive(Debug)]
enum Owned {
    Folder {
        _folder: TempDir,
    },
    Database {
        session: Session,
        name: String,
    },
    /// Nothing: it goes with its server.
    Nothing,
}

impl TestDatabase {
    /// A `SQLite` file in a temporary folder.
    pub fn sqlite() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        Ok(Self {
            url: format!("sqlite:{}", folder.path().join("test.db").display()),
            owned: Owned::Folder { _folder: folder },
        })
    }

    /// A fresh `PostgreSQL` database. Fails without a server.
    pub async fn postgres() -> Result<Self> {
        Self::on(&server()?).await
    }

    /// A database with the rows that `make` has written into an empty one: a copy of a template, which takes a fraction
    /// of the time of the migrations. `make` is called once for all tests with the same `template`, and again after a
    /// migration has changed.
    pub async fn made_by(
        database: Database,
        template: &str,
        make: impl AsyncFnOnce(&str) -> Result<()>,
    ) -> Result<Self> {
        match database {
            Database::Sqlite => {
                let database = Self::sqlite()?;
                let file = database.url.strip_prefix("sqlite:").context("no file")?;
                copy_sqlite_template(Path::new(file), template, make).await?;
                Ok(database)
            }
            Database::Postgres => Self::postgres_made_by(template, make).await,
        }
    }

    async fn postgres_made_by(template: &str, make: impl AsyncFnOnce(&str) -> Result<()>) -> Result<Self> {
        let server = server()?;
        let template = format!("template_{}", versioned(template)?);
        let (session, name) = (Session::connect(&server).await?, next_name());
        session.drop_database(&name).await?;
        if !session.copy(&template, &name).await? {
            // Other tests wait for the one that makes the template. After an error the lock ends with the session.
            session
                .execute(&format!("SELECT pg_advisory_lock({MAKING})"))
                .await?;
            if !session.copy(&template, &name).await? {
                let mut whole = Self::on(&server).await?;
                make(whole.url()).await?;
                session.make_template(&whole, &template).await?;
                whole.owned = Owned::Nothing;
                ensure!(session.copy(&template, &name).await?, "there is no {template}");
            }
            session
                .execute(&format!("SELECT pg_advisory_unlock({MAKING})"))
                .await?;
        }
        Self::named(&server, session, name)
    }

    /// A fresh `PostgreSQL` database with an encoding, such as `LATIN1`. Fails without a server.
    pub async fn postgres_encoded(encoding: &str) -> Result<Self> {
        let options = format!("ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
        Self::created(&server()?, &options).await
    }

    /// A fresh database on the server that has the database at this address.
    pub async fn on(server: &str) -> Result<Self> {
        Self::created(server, "").await
    }

    async fn created(server: &str, options: &str) -> Result<Self> {
        let (session, name) = (Session::connect(server).await?, next_name());
        session.drop_database(&name).await?;
        session
            .execute(&format!("CREATE DATABASE {name} {options}"))
            .await?;
        Self::named(server, session, name)
    }

    fn named(server: &str, session: Session, name: String) -> Result<Self> {
        Ok(Self {
            url: url_of(server, &name)?,
            owned: Owned::Database { session, name },
        })
    }

    /// The database with this address, on a server that ends with its test.
    pub fn at(url: String) -> Self {
        Self {
            url,
            owned: Owned::Nothing,
        }
    }

    /// The address of the same database if its server is reached at `address`.
    pub fn url_at(&self, address: SocketAddr) -> Result<String> {
        let (before, behind) = self.url.rsplit_once('/').context("no database in the address")?;
        let (user, _) = before.rsplit_once('@').context("no user in the address")?;
        Ok(format!("{user}@{address}/{behind}"))
    }

    /// Returns the address of the server.
    pub fn server(&self) -> Result<SocketAddr> {
        let (before, _) = self.url.rsplit_once('/').context("no database in the address")?;
        let (_, address) = before.rsplit_once('@').context("no user in the address")?;
        address
            .parse()
            .with_context(|| format!("{address} is no address"))
    }

    /// The rows of a query, each as an object with its columns.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Value>> {
        match self.url.strip_prefix("sqlite:") {
            Some(file) => file_rows(Path::new(file), sql),
            None => rows(&self.url, sql).await,
        }
    }

    /// Every value in every table of a `PostgreSQL` database, by table; bytes as they are. Fails for a `SQLite` file.
    pub async fn dump(&self) -> Result<Vec<(String, Vec<u8>)>> {
        ensure!(
            !matches!(self.owned, Owned::Folder { .. }),
            "only a PostgreSQL database is dumped: the other is a file"
        );
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls)
            .await
            .context("cannot connect to the test server")?;
        let dumping = async move { dump(&client).await };
        let (dumped, closed) = tokio::join!(dumping, connection);
        closed.context("the connection to the test server broke")?;
        dumped
    }

    /// Runs statements on it, over a separate connection.
    pub async fn execute(&self, sql: &str) -> Result<()> {
        execute(self.url(), sql.to_owned()).await
    }

    /// Runs one statement, over a separate connection. Returns the number of changed rows.
    pub async fn change(&self, sql: &str) -> Result<u64> {
        if let Some(file) = self.url.strip_prefix("sqlite:") {
            let file = rusqlite::Connection::open(file)?;
            file.busy_timeout(std::time::Duration::from_secs(10))?;
            return Ok(u64::try_from(file.execute(sql, ())?)?);
        }
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls)
            .await
            .context("cannot connect to the test server")?;
        let statement = async move { client.execute(sql, &[]).await };
        let (done, closed) = tokio::join!(statement, connection);
        closed.context("the connection to the test server broke")?;
        done.context("a statement failed on the test server")
    }

    /// Returns the only value of a query, its column `v`, as text, over a separate connection.
    pub async fn value(&self, sql: &str) -> Result<String> {
        let sql = format!("SELECT CAST(t.v AS TEXT) AS v FROM ({sql}) AS t");
        if let Some(file) = self.url.strip_prefix("sqlite:") {
            let file = rusqlite::Connection::open(file)?;
            file.busy_timeout(std::time::Duration::from_secs(10))?;
            return Ok(file.query_row(&sql, (), |row| row.get(0))?);
        }
        let rows = rows(&self.url, &sql).await?;
        let value = rows.first().and_then(|row| row["v"].as_str());
        Ok(value.context("the query has no value")?.to_owned())
    }

    /// Ends every connection to it, as a restart of the server would.
    pub async fn disconnect_all(&self) -> Result<()> {
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        execute(self.url(), others.to_owned()).await
    }

    /// The address, as the store takes it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Owned::Database { session, name } = mem::replace(&mut self.owned, Owned::Nothing) else {
            return;
        };
        // Drop may run on a runtime, which must not be blocked from inside, so another thread with its own runtime
        // removes the database. If that fails, the end of the server cleans up.
        let sql = format!("DROP DATABASE {name} WITH (FORCE)");
        let dropped = thread::spawn(move || runtime()?.block_on(session.execute(&sql)));
        drop(dropped.join());
    }
}

async fn dump(client: &tokio_postgres::Client) -> Result<Vec<(String, Vec<u8>)>> {
    let tables = client
        .query(
            "SELECT tablename::text, quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()",
            &[],
        )
        .await?;
    let mut dumped = Vec::new();
    for table in tables {
        let (name, quoted): (String, String) = (table.try_get(0)?, table.try_get(1)?);
        let rows = client
            .query(&format!("SELECT row_to_json(t)::text FROM {quoted} t"), &[])
            .await?;
        let mut values = Vec::new();
        for row in rows {
            let row: serde_json::Map<String, Value> = serde_json::from_str(row.try_get(0)?)?;
            for value in row.values() {
                match value.as_str() {
                    Some(text) => values.extend(bytes_of(text)),
                    None => values.extend(value.to_string().into_bytes()),
                }
                values.push(b'\n');
            }
        }
        dumped.push((name, values));
    }
    Ok(dumped)
}

/// Reads a value of a column: bytes are hexadecimal after `\x`.
fn bytes_of(text: &str) -> Vec<u8> {
    let decoded = text.strip_prefix("\\x").and_then(|hex| {
        hex.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect()
    });
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Address of the server of the tests.
fn server() -> Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test command hands the server over in the environment"
    )]
    std::env::var(SERVER).map_err(|_| {
        anyhow!(
            "{SERVER} is not set: this test needs a PostgreSQL server; run the tests through \
             scripts/test-postgres, as `make test` does"
        )
    })
}

/// Address of another database of the server that has the database at `server`.
fn url_of(server: &str, name: &str) -> Result<String> {
    let (address, _) = server
        .rsplit_once('/')
        .with_context(|| format!("{server} does not end with the name of a database"))?;
    Ok(format!("{address}/{name}"))
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Returns the option that makes a server of this version copy a database file by file. Since version 15 every page is
/// otherwise written to the log as well, which takes twice as long. Version 14 has no such option.
fn copying(version: Option<&str>) -> &'static str {
    let major = version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next());
    match major.map(str::parse::<u32>) {
        Some(Ok(15..)) => "STRATEGY file_copy",
        _ => "",
    }
}

/// A new name for a database of this process.
fn next_name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

/// Connection for sequential statements. A separate thread drives it, so that it also works after the runtime of the
/// test has ended.
#[derive(Debug)]
struct Session {
    client: tokio_postgres::Client,
    /// Option that makes the server copy a database file by file.
    strategy: &'static str,
}

impl Session {
    async fn connect(server: &str) -> Result<Self> {
        let server = server.to_owned();
        let (connected, session) = oneshot::channel();
        thread::spawn(move || {
            let Ok(runtime) = runtime() else { return };
            runtime.block_on(async {
                match tokio_postgres::connect(&server, NoTls).await {
                    Ok((client, connection)) => {
                        let strategy = copying(connection.parameter("server_version"));
                        if connected.send(Ok(Self { client, strategy })).is_ok() {
                            // The statement that meets a broken connection fails.
                            let _closed = connection.await;
                        }
                    }
                    // The caller is gone, or handles the error.
                    Err(error) => drop(connected.send(Err(error))),
                }
            });
        });
        let session = session.await.context("cannot make a runtime")?;
        session.context("cannot connect to the test server")
    }

    async fn execute(&self, sql: &str) -> Result<()> {
        let done = self.client.batch_execute(sql).await;
        done.with_context(|| format!("a statement failed on the test server: {sql}"))
    }

    /// Drops the databases of an earlier process with the same id.
    async fn drop_database(&self, name: &str) -> Result<()> {
        self.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await
    }

    /// Copies a template. Returns false if it does not exist.
    async fn copy(&self, template: &str, name: &str) -> Result<bool> {
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template} {}", self.strategy);
        match self.client.batch_execute(&sql).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::INVALID_CATALOG_NAME) => Ok(false),
            Err(error) => Err(error).context("cannot copy a template"),
        }
    }

    /// Makes a template of a database. The template gets its name only once it is complete and unused.
    async fn make_template(&self, database: &TestDatabase, template: &str) -> Result<()> {
        let (_, name) = database
            .url
            .rsplit_once('/')
            .context("no database in the address")?;
        self.execute(&format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false"))
            .await?;
        self.execute(&format!("ALTER DATABASE {name} RENAME TO {template}"))
            .await
    }
}
