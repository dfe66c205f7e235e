//! Stores and databases that tests begin with.

use sortie_testkit::{Database, PATIENCE, postgres::TestDatabase};

use super::prelude::*;
use crate::{OpenOptions, UrgentLimits};

/// Settings of stores of tests. Urgent commands never time out, because the machine may be under load.
pub(super) fn options(connections: u32) -> OpenOptions {
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
