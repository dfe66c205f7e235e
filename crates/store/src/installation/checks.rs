//! System: queries of an operator who checks a database.

use sortie_api::Timestamp;

use crate::{
    Result, Store,
    db::{Stmt, Turn, Tx, batch, inspect, row, select, vals},
    schema::SCHEMA,
};

/// Kind and version of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// `SQLite` or `PostgreSQL`.
    pub kind: String,
    /// Version of the database, as it reports it.
    pub version: String,
    /// Newest applied migration; 0 before the first one.
    pub migration: i64,
    /// Newest migration that this program knows.
    pub known_migration: i64,
}

/// Waiting runs, and nodes that have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of runs that wait for a worker, counted up to a limit.
    pub waiting: i64,
    /// Creation time of the run that has waited longest.
    pub waiting_since: Option<Timestamp>,
    /// Number of nodes that have an expired lease but are not declared lost.
    pub silent_nodes: i64,
    /// Number of lost nodes that hold runs which no node has taken over.
    pub lost_nodes: i64,
}

row! {
    struct About {
        kind: String = "{DATABASE}",
        version: String = "{VERSION}",
    }
}

impl About {
    fn at(self, migration: i64) -> DatabaseInfo {
        DatabaseInfo {
            kind: self.kind,
            version: self.version,
            migration,
            known_migration: SCHEMA.newest_known(),
        }
    }
}

row! {
    struct Inspected {
        about: About,
        is_migrated: bool = "{IS_MIGRATED}",
    }
}

/// Returns the kind and version of a database. Its schema may be that of another version of this program.
fn inspected(tx: &mut dyn Tx) -> Result<DatabaseInfo> {
    let found: Inspected = tx.read_one(select!(Inspected, ""), vals![])?;
    let migration = if found.is_migrated {
        SCHEMA.recorded(tx)?
    } else {
        0
    };
    Ok(found.about.at(migration))
}

impl Store {
    /// Examines the database at a URL without changing it: does not migrate or create it. Nodes of any version may use a
    /// `PostgreSQL` database at the same time. A `SQLite` database must not be in use by another process.
    ///
    /// # Errors
    /// As [`open`](Self::open), but not because the schema is newer than this program.
    pub async fn inspect(url: &str) -> Result<DatabaseInfo> {
        inspect(url, inspected).await
    }

    /// Returns the kind and version of the database, and its migrations.
    pub async fn database_info(&self) -> Result<DatabaseInfo> {
        self.db
            .read(|tx| {
                let [about, newest] = batch(
                    tx,
                    &[
                        Stmt::new(select!(About, ""), vals![]),
                        Stmt::new(
                            "SELECT version FROM migration WHERE version > 0 ORDER BY version DESC LIMIT 1",
                            vals![],
                        ),
                    ],
                )?;
                let about = about.one::<About>()?;
                Ok(about.at(newest.value()?))
            })
            .await
    }

    /// Returns the runs that wait at `now`, counted up to `limit`, and the nodes that have failed.
    pub async fn backlog(&self, now: Timestamp, limit: u32) -> Result<Backlog> {
        self.db
            .scan(Turn::System, move |tx| {
                let [waiting, oldest, silent, lost] = batch(
                    tx,
                    &[
                        Stmt::new(
                            "SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.org_id > '' AND q.node_id IS NULL \
                             LIMIT $1) AS counted",
                            vals![limit],
                        ),
                        // Jumps from organization to organization, as a claim does.
                        Stmt::new(
                            "WITH RECURSIVE w (org) AS (\
                               SELECT (SELECT q.org_id FROM queue q WHERE q.org_id > '' AND q.node_id IS NULL \
                                 ORDER BY q.org_id, q.enqueued_at, q.run_id LIMIT 1) \
                               UNION ALL \
                               SELECT (SELECT q.org_id FROM queue q WHERE q.org_id > w.org AND q.node_id IS NULL \
                                 ORDER BY q.org_id, q.enqueued_at, q.run_id LIMIT 1) FROM w WHERE w.org IS NOT NULL) \
                             SELECT MIN((SELECT q.enqueued_at FROM queue q WHERE q.org_id = w.org AND q.node_id IS NULL \
                               ORDER BY q.org_id, q.enqueued_at, q.run_id LIMIT 1)) FROM w WHERE w.org IS NOT NULL",
                            vals![],
                        ),
                        Stmt::new(
                            "SELECT COUNT(*) FROM node WHERE ended_at IS NULL AND lease_until < $1",
                            vals![now],
                        ),
                        Stmt::new(
                            "SELECT COUNT(*) FROM node WHERE ended_at IS NOT NULL \
                             AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NOT NULL",
                            vals![],
                        ),
                    ],
                )?;
                let count = |answer: &crate::db::Answer| answer.value();
                let since = oldest.opt_value()?.flatten();
                Ok(Backlog {
                    waiting: count(&waiting)?,
                    waiting_since: since,
                    silent_nodes: count(&silent)?,
                    lost_nodes: count(&lost)?,
                })
            })
            .await
    }
}
