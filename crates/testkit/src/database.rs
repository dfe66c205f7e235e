//! The database a node stands on: a file in its data folder, or a fresh database on the PostgreSQL server that
//! `scripts/test-postgres` starts.

use std::sync::Arc;

use anyhow::Result;

use crate::postgres::TestDatabase;

/// Which database a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The embedded default.
    Sqlite,
    /// A database of its own on a PostgreSQL server.
    Postgres,
}

/// Where a node keeps its records.
#[derive(Clone, Debug)]
pub enum Records {
    /// In a file in the node's own data folder: nothing is passed, the default is tested.
    InDataFolder,
    /// In a PostgreSQL database, which several nodes may share. It goes with the last of them.
    Shared(Arc<TestDatabase>),
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
    pub async fn fresh(self) -> Result<Records> {
        match self {
            Self::Sqlite => Ok(Records::InDataFolder),
            Self::Postgres => Ok(Records::Shared(Arc::new(TestDatabase::postgres().await?))),
        }
    }
}
