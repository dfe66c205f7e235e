//! The database a node stands on: a file in its data folder, or a fresh database on the PostgreSQL server that
//! `scripts/test-postgres` starts.

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use tokio_postgres::NoTls;
use url::Url;

/// The variable in which `scripts/test-postgres` hands over the address of its server.
pub const POSTGRES_VARIABLE: &str = "SORTIE_TEST_POSTGRES_URL";

/// Which database a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The embedded default.
    Sqlite,
    /// A database of its own on a PostgreSQL server.
    Postgres,
}

/// Where a node finds its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A file in the node's own data folder: nothing is passed, the default is tested.
    Default,
    /// A PostgreSQL database, which several nodes may share.
    Postgres(String),
}

impl Database {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// An empty database of this kind. Without a server this is an error: a test never passes by not running.
    pub async fn fresh(self) -> Result<DatabaseUrl> {
        match self {
            Self::Sqlite => Ok(DatabaseUrl::Default),
            Self::Postgres => fresh_postgres().await.map(DatabaseUrl::Postgres),
        }
    }
}

async fn fresh_postgres() -> Result<String> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    #[expect(
        clippy::disallowed_methods,
        reason = "the test command hands the server over in the environment"
    )]
    let server = std::env::var(POSTGRES_VARIABLE).with_context(|| {
        format!(
            "{POSTGRES_VARIABLE} is not set: run the tests through scripts/test-postgres (make test does)"
        )
    })?;
    let name = format!("node_{}_{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let (client, connection) = tokio_postgres::connect(&server, NoTls)
        .await
        .context("cannot connect to the test server")?;
    let create = async move {
        // The server is thrown away at the end; what an earlier process with this id left is in the way.
        let dropped = client
            .batch_execute(&format!("DROP DATABASE IF EXISTS {name}"))
            .await;
        let made = client.batch_execute(&format!("CREATE DATABASE {name}")).await;
        dropped.and(made).map(|()| name)
    };
    let (name, closed) = tokio::join!(create, connection);
    closed.context("the connection to the test server broke")?;
    let mut url = Url::parse(&server).context("the address of the test server is not a URL")?;
    url.set_path(&name.context("cannot make a database")?);
    Ok(url.into())
}
