//! The database of a node: a file in its data folder, or a fresh database on the PostgreSQL server that
//! `scripts/test-postgres` starts.

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};

use crate::{node::binary_command, postgres::TestDatabase, template::sqlite_template};

/// Name of the file in a data folder.
pub(crate) const SQLITE_FILE: &str = "sortie.db";

/// Database that a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The embedded default.
    Sqlite,
    /// A separate database on a PostgreSQL server.
    Postgres,
}

/// Result of a test: the first failure, with its context.
pub type Checked = Result<()>;

/// Runs each of the named tests of a module on SQLite and on PostgreSQL.
#[macro_export]
macro_rules! both_databases {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn on_sqlite() -> $crate::Checked {
                super::$name($crate::Database::Sqlite).await
            }

            #[tokio::test]
            async fn on_postgres() -> $crate::Checked {
                super::$name($crate::Database::Postgres).await
            }
        }
    )+};
}

/// Runs each of the named tests with one node on SQLite, one node on PostgreSQL and three nodes on PostgreSQL.
#[macro_export]
macro_rules! every_deployment {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn on_one_node_on_sqlite() -> $crate::Checked {
                super::$name($crate::Database::Sqlite, 1).await
            }

            #[tokio::test]
            async fn on_one_node_on_postgres() -> $crate::Checked {
                super::$name($crate::Database::Postgres, 1).await
            }

            #[tokio::test]
            async fn on_three_nodes_on_postgres() -> $crate::Checked {
                super::$name($crate::Database::Postgres, 3).await
            }
        }
    )+};
}

/// Number of rounds of a test: from the environment variable, or else `ordinary`.
pub fn rounds(variable: &'static str, ordinary: usize) -> Result<usize> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the long form of a test is asked for in the environment"
    )]
    match std::env::var(variable) {
        Ok(rounds) => rounds.parse().context(variable),
        Err(_) => Ok(ordinary),
    }
}

/// Records of a node.
#[derive(Clone, Debug)]
pub enum Records {
    /// A file in the node's own data folder. The node gets no address, so the default is tested. Some files start as a
    /// copy of another.
    InDataFolder { copy_of: Option<PathBuf> },
    /// A PostgreSQL database, which several nodes may share. It is dropped with the last of them.
    Shared(Arc<TestDatabase>),
}

impl Records {
    /// Address of the database of a node with this data folder.
    pub(crate) fn address(&self, data_dir: &Path) -> String {
        match self {
            Self::InDataFolder { .. } => format!("sqlite:{}", data_dir.join(SQLITE_FILE).display()),
            Self::Shared(database) => database.url().to_owned(),
        }
    }
}

impl Database {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// An empty database of this kind. Fails without a server: a test never passes by being skipped.
    pub async fn fresh(self) -> Result<Records> {
        match self {
            Self::Sqlite => Ok(Records::InDataFolder { copy_of: None }),
            Self::Postgres => Ok(Records::Shared(Arc::new(TestDatabase::postgres().await?))),
        }
    }

    /// A database of this kind without rows: a copy of one that this binary has migrated, which takes a fraction of the
    /// time. Nodes of another version start with a [`fresh`](Self::fresh) one.
    pub(crate) async fn migrated(self, binary: &str) -> Result<Records> {
        let migrate = async |url: &str| migrate(Path::new(binary), url);
        match self {
            Self::Sqlite => Ok(Records::InDataFolder {
                copy_of: Some(sqlite_template("node", migrate).await?),
            }),
            Self::Postgres => {
                let database = TestDatabase::made_by(self, "node", migrate).await?;
                Ok(Records::Shared(Arc::new(database)))
            }
        }
    }
}

/// Migrates an empty database by running a command that needs an organization and stores nothing if there is no
/// organization.
fn migrate(binary: &Path, url: &str) -> Result<()> {
    let data = tempfile::tempdir()?;
    // The command does not create a file, but accepts an empty file as an empty database.
    if let Some(file) = url.strip_prefix("sqlite:") {
        OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(file)?;
    }
    let output = binary_command(binary)
        .args(["keys", "create", "nobody", "--role", "admin", "--offline"])
        .args(["--database-url", url, "--data-dir"])
        .arg(data.path())
        .output()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        said.contains("no engine has started on this database yet"),
        "the database is not migrated: {said}"
    );
    Ok(())
}
