//! Stores and databases that tests begin with.

use std::time::Duration;

use sortie_testkit::{Database, postgres::TestDatabase};

use crate::{OpenOptions, Store, UrgentLimits};

/// Settings of stores of tests. No urgent command is given up: the machine may be under load.
pub(super) fn options(connections: u32) -> OpenOptions {
    const PATIENCE: Duration = Duration::from_mins(1);
    OpenOptions {
        connections,
        urgent: UrgentLimits {
            heartbeat: PATIENCE,
            register: PATIENCE,
            connection: PATIENCE,
        },
        ..OpenOptions::default()
    }
}

/// Returns a database on which every migration was applied.
pub(super) async fn migrated(database: Database) -> TestDatabase {
    let migrate = async |url: &str| Ok(Store::open(url).await.map(drop)?);
    let database = TestDatabase::made_by(database, "store", migrate).await;
    database.expect("a database")
}

/// Returns the file of a `SQLite` database on which every migration was applied.
pub(super) async fn migrated_file() -> Vec<u8> {
    let fresh = || TestDatabase::sqlite().expect("a temporary folder");
    let (database, copy) = (fresh(), fresh());
    let _store = Store::open(database.url()).await.expect("the store opens");
    let session = rusqlite::Connection::open(path(&database)).expect("the database opens");
    session
        .execute("VACUUM INTO ?1", [path(&copy)])
        .expect("the database is copied");
    std::fs::read(path(&copy)).expect("the copy is read")
}

/// Returns the path of a `SQLite` database.
pub(super) fn path(database: &TestDatabase) -> &str {
    let path = database.url().strip_prefix("sqlite:");
    path.expect("a database of SQLite")
}
