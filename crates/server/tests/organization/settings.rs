//! Settings that tests run in: one node on SQLite, one node on PostgreSQL, three nodes on PostgreSQL.

use std::net::SocketAddr;

use sortie_store::Store;
use sortie_testkit::{Balancer, postgres::TestDatabase};

use crate::prelude::*;

tokio::task_local! {
    /// Setting of the test that runs.
    static SETTING: Setting;
}

/// Database and number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Sqlite,
    Postgres,
    /// Three nodes with a load balancer that sends each request to the next node.
    ThreeNodes,
}

impl Setting {
    /// Setting of the running test. The default is one node on SQLite.
    pub(crate) fn current() -> Self {
        SETTING.try_with(|setting| *setting).unwrap_or(Self::Sqlite)
    }

    /// Runs a test in this setting.
    pub(crate) async fn run(self, test: impl Future<Output = ()>) {
        SETTING.scope(self, test).await;
    }

    /// Number of nodes.
    pub(crate) const fn nodes(self) -> usize {
        match self {
            Self::Sqlite | Self::Postgres => 1,
            Self::ThreeNodes => 3,
        }
    }

    /// A database without rows.
    pub(crate) async fn database(self) -> TestDatabase {
        let database = match self {
            Self::Sqlite => Database::Sqlite,
            Self::Postgres | Self::ThreeNodes => Database::Postgres,
        };
        let migrate = async |url: &str| Ok(Store::open(url).await.map(drop)?);
        TestDatabase::made_by(database, "store", migrate).await.unwrap()
    }
}

/// Address for the clients of these listeners, and the load balancer if there are several.
pub(crate) async fn in_front_of(listeners: &[SocketAddr]) -> (SocketAddr, Option<Balancer>) {
    if let [only] = listeners {
        return (*only, None);
    }
    let balancer = Balancer::start(listeners.iter().copied()).await.unwrap();
    (balancer.address(), Some(balancer))
}

/// Runs a test in several settings, with a separate test name for each.
macro_rules! in_settings {
    ($name:ident: $($setting:ident = $in_it:ident),+) => {
        mod $name {
            $(#[tokio::test]
            async fn $in_it() {
                crate::settings::Setting::$setting.run(super::$name()).await;
            })+
        }
    };
}
pub(crate) use in_settings;

/// Runs each of the named tests of a module on one node with SQLite, and on three nodes with PostgreSQL, which also cover a
/// single node there.
macro_rules! everywhere {
    ($($name:ident),+ $(,)?) => {$(
        crate::settings::in_settings! { $name: Sqlite = on_sqlite, ThreeNodes = on_three_nodes }
    )+};
}
pub(crate) use everywhere;

/// Runs each of the named tests of a module on one node, on both databases.
macro_rules! both_databases {
    ($($name:ident),+ $(,)?) => {$(
        crate::settings::in_settings! { $name: Sqlite = on_sqlite, Postgres = on_postgres }
    )+};
}
pub(crate) use both_databases;
