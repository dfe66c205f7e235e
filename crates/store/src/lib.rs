//! Durable data of Sortie and every command on it. No other crate contains SQL.
//!
//! A command is one method of [`Store`] and one transaction. A command of a tenant takes the organization as its first
//! argument, and its SQL has the organization as a condition. The few system commands (claim, sweep, nodes) are marked
//! "System". Every write of a worker carries its [`Fence`]: after its run was cancelled or taken over, the worker changes
//! nothing and gets [`Error::Fenced`]. Times and identifiers are arguments: this crate reads no clock and makes no random
//! numbers.

pub mod access;
pub mod connections;
mod error;
pub mod files;
mod found;
pub mod installation;
pub mod licenses;
pub mod money;
pub mod nodes;
pub mod oauth;
pub mod organizations;
pub mod outbox;
pub mod people;
pub mod runs;
pub mod schedules;
mod schema;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(test)]
mod tests;
pub mod workflows;

pub use error::{Error, Result};
pub use found::Found;
pub use sortie_db::{CONNECTIONS, OpenOptions, UrgentLimits};

use std::sync::Arc;

use sortie_db as db;

use self::{
    access::lookups::Lookups,
    db::{Db, tail::SharedRows, vals},
    money::{allowance::UsedUp, refusals::Refusals, shared_rows::MoneyRows},
    schema::SCHEMA,
};

/// Database of a node. Cheap to clone; dropping the last clone closes the database.
#[derive(Clone)]
pub struct Store {
    db: Db,
    /// Writer of the rows of money that many commands share.
    money: Arc<MoneyRows>,
    /// Budgets and credits that have refused a run recently.
    refusals: Arc<Refusals>,
    /// Allowance that has refused a run recently.
    used_up: Arc<UsedUp>,
    /// Look-ups of credentials.
    lookups: Lookups,
}

impl Store {
    /// Opens `sqlite:PATH` or `postgres://…`, and migrates it to this version.
    ///
    /// Creates a missing `SQLite` file and its folder with permissions for this user only, and refuses a file that another
    /// process has open. On `PostgreSQL`, `sslmode=require` in the URL means TLS with a certificate from a public
    /// certificate authority; any other URL means no TLS.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, OpenOptions::default()).await
    }

    /// Opens a database like [`open`](Self::open), with these settings.
    pub async fn open_with(url: &str, options: OpenOptions) -> Result<Self> {
        let money = Arc::<MoneyRows>::default();
        let rows = Arc::clone(&money) as Arc<dyn SharedRows>;
        Ok(Self::over(Db::open(url, options, SCHEMA, rows).await?, money))
    }

    /// Opens a simulated server through `link`, with a number of connections for commands.
    #[cfg(feature = "simulation")]
    pub fn simulated(link: &simulation::SimulatedLink, connections: u32) -> Self {
        let money = Arc::<MoneyRows>::default();
        let rows = Arc::clone(&money) as Arc<dyn SharedRows>;
        Self::over(Db::simulated(link, connections, rows), money)
    }

    fn over(db: Db, money: Arc<MoneyRows>) -> Self {
        Self {
            db,
            money,
            refusals: Arc::default(),
            used_up: Arc::default(),
            lookups: Lookups::default(),
        }
    }

    /// Registers the metrics of the store, with names that begin with `store_`.
    pub fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.db.register_metrics(registry);
    }

    /// Registers the metrics of credits, with names that begin with `store_`. Only a hosted deployment has them.
    pub fn register_credit_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.money.metrics.register(registry);
    }

    /// Whether other nodes can use the same database. A `SQLite` database belongs to one process.
    pub fn is_shared(&self) -> bool {
        self.db.is_shared()
    }

    /// Size of the write-ahead log of a `SQLite` database in bytes. It grows for as long as another process reads the database
    /// in one transaction. `None` on a server.
    pub fn log_bytes(&self) -> Option<u64> {
        self.db.log_bytes()
    }

    /// Runs a query in the queue of the writes, for the readiness check. Writes nothing and takes no lock. If the disk of a
    /// `SQLite` database was full at the last write, this fails until a trial file can be written in the directory of the
    /// database.
    pub async fn ping(&self) -> Result<()> {
        self.db.check_space().await?;
        self.db
            .write(|tx| tx.query_one("SELECT 1", vals![]).map(drop))
            .await
    }
}
