//! The only crate that knows SQL: what is durable, and every command on it.
//!
//! A command is one method of [`Store`] and one transaction. Tenant commands take the organization first and
//! their SQL says so; the few system commands (claim, sweep, nodes) live in files that say so. Every write of a
//! worker carries its [`Fence`]: a worker whose run was cancelled or taken over writes nothing and learns it as
//! [`Error::Fenced`]. Times and identifiers are arguments: nothing here reads a clock or makes a random number.

mod audit;
mod authorizations;
mod backup;
mod blobs;
mod channel;
mod checks;
mod connections;
mod db;
mod deliveries;
mod files;
mod keys;
mod metrics;
mod money;
mod nodes;
mod observe;
mod principal;
mod rates;
mod reseal;
mod runs;
mod schedules;
mod sealed;
#[cfg(test)]
mod tests;
mod types;
mod workflows;

pub use audit::Audit;
pub use authorizations::{AWAITING, Confirmed, OauthFlow, RefreshHolder, SeenTokens};
pub use backup::{DatabaseCopy, ReferredBlob, Referrer, Summary};
pub use blobs::{DoomedBlob, NewBlob};
pub use channel::{Heard, LONGEST_SAID, Speaker};
pub use checks::{Backlog, DatabaseInfo};
pub use connections::{ConnectionRow, OldTokens, SaveConnection};
pub use deliveries::{AfterAttempt, ClaimedDelivery, DueHost, MadeAttempt, Order, SCANNED};
pub use files::{FileRow, NewFile};
pub use money::usage::{UsageDue, UsageQuery};
pub use observe::{MOST_COUNTED, Observed};
pub use principal::{By, Principal, UnknownSubject};
pub use rates::{GrantedBlock, Leased, WantedBlock};
pub use reseal::{CredentialRow, NodeMasterKeys, Resealed, RowKey, SealedColumn, SealedRow};
pub use runs::artifacts::{KeptArtifact, NewArtifacts, RunArtifacts};
pub use runs::retention::{Batch, Deleted, Expiry};
pub use runs::{ContentHolder, Counted, PlainError, Position, UnretainedFinish};
pub use schedules::{
    Due, FireRow, Fires, NextInstant, ReplacedRun, SaveSchedule, ScheduleRow, ScheduleSpec, ScheduleState,
    SealedCallback,
};
pub use types::{
    Actor, Append, AuditFilter, Cancelled, Claim, Created, Definition, Error, EventRow, Fence, Finish,
    Followed, Heartbeat, Held, InlineCredentials, Journal, Labels, NewCallback, NewEntries, NewEvent, NewKey,
    NewNode, NewRun, NodeId, NodeRow, Origin, OverBudget, Progress, Receiver, Result, Retention, Rotation,
    RunFilter, SeenLease, StoredCredentials, StoredDefinition, Sweep, Swept, Unretained, Watched,
};
pub use workflows::{PutWorkflow, SavedWorkflow, WorkflowRow};

use std::sync::Arc;

use self::{
    db::{Db, vals},
    money::refusals::Refusals,
};

/// A database server in memory whose network, clock and faults a seed drives.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::db::simulated::{
        Faults, SeenBudget, SeenNode, SeenRun, SimulatedDatabase, SimulatedLink, SimulatedServer, Trouble,
    };
}

/// Connections for commands on `PostgreSQL` where nobody says how many.
pub const CONNECTIONS: u32 = 4;

/// The database of a node. Cheap to clone; the last clone that goes closes it.
#[derive(Clone)]
pub struct Store {
    db: Db,
    /// Budgets that have refused a run a moment ago.
    refusals: Arc<Refusals>,
}

impl Store {
    /// Opens `sqlite:PATH` or `postgres://…`, and migrates it to this version.
    ///
    /// A `SQLite` file and its folder are made where they are missing, for this user alone; a second process on
    /// the same file is refused. On `PostgreSQL`, `sslmode=require` in the URL means TLS with a certificate that
    /// the public roots vouch for; anything else means no TLS.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, CONNECTIONS).await
    }

    /// As [`open`](Self::open), with so many connections for commands on `PostgreSQL`; there are up to three more of other kinds.
    pub async fn open_with(url: &str, connections: u32) -> Result<Self> {
        Ok(Self::over(Db::open(url, connections).await?))
    }

    /// A simulated server behind `link`, with so many connections for commands.
    #[cfg(feature = "simulation")]
    pub fn simulated(link: &simulation::SimulatedLink, connections: u32) -> Self {
        Self::over(Db::simulated(link, connections))
    }

    fn over(db: Db) -> Self {
        Self {
            db,
            refusals: Arc::default(),
        }
    }

    /// Registers what the store measures of itself, as `store_…`.
    pub fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.db.register_metrics(registry);
    }

    /// Whether other nodes can work on the same database: not on `SQLite`, which belongs to one process.
    pub fn is_shared(&self) -> bool {
        self.db.is_shared()
    }

    /// Answers when a write would get its turn now: readiness. Writes nothing and takes no lock.
    pub async fn ping(&self) -> Result<()> {
        self.db
            .write(|tx| tx.query_one("SELECT 1", vals![]).map(drop))
            .await
    }
}
