//! Durable data of Sortie and every command on it. No other crate knows SQL.
//!
//! A command is one method of [`Store`] and one transaction. A command of a tenant takes the organization as its first
//! argument, and its SQL has the organization as a condition. The few system commands (claim, sweep, nodes) are
//! marked "System". Every write of a worker carries its [`Fence`]: a worker whose run was cancelled or taken
//! over changes nothing and gets [`Error::Fenced`]. Times and identifiers are arguments: this crate reads no clock and makes
//! no random numbers.

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
mod found;
mod installation;
mod keys;
mod large;
mod licenses;
mod mail;
mod metrics;
mod money;
mod nodes;
mod notices;
mod oauth;
mod observe;
mod operators;
mod organizations;
mod people;
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
pub use blobs::{BlobPosition, Checked, NewBlob, PendingDelete};
pub use channel::{ChannelMessage, LONGEST_HINT, Speaker};
pub use checks::{Backlog, DatabaseInfo};
pub use connections::{ConnectionRow, OldTokens, SaveConnection};
pub use deliveries::{
    AfterAttempt, ClaimedDeliveries, ClaimedDelivery, DueHost, MadeAttempt, Order, SCANNED,
};
pub use files::{FileRow, NewFile};
pub use found::Found;
pub use keys::{NewKey, Rotation};
pub use large::{LargeText, ListedEvent, ListedRun};
pub use licenses::{
    Allowance, LicenseRefusal, MonthlyRuns,
    deployments::{DeploymentRow, NewDeployment},
    entitlements::{EntitlementRow, PutEntitlement},
    installed::{InstalledLicense, LicenseUse},
    subscriptions::{ReadSubscription, RecordedSubscription, SubscribedPlan, SubscriptionRow},
};
pub use mail::{AfterSending, ClaimedMail, NewMail, OwnerRow};
pub use money::{
    check::{LedgerChecked, LedgerDifference, LedgerRule},
    credit::{Credit, CreditSums, InsufficientCredit, Payment},
    ledger::{Appended, LedgerPosition, NewLedgerEntry, OTHER_ENTRY},
    purchases::{
        accounts::{BillingAccount, ClosingAccount, NewCustomer, RemovedCard, ReplacedCustomer, SavedCard},
        auto::{
            AfterAutoTopup, AutoTopupRow, BeginAutoTopup, NewAutoTopup, SETTINGS_CHANGED, SentAutoTopup,
            UnpaidAutoTopup,
        },
        events::{AfterEvent, ClaimedEvent, NewStripeEvent},
        payments::{OTHER_AMOUNT, PAID_TWICE, PaidTopup, PaymentRow},
        refund_orders::{
            NewRefundOrder, OTHER_REFUND, OrderedRefund, RefundOrderRow, RefundOrderState,
            UnknownRefundOrderState,
        },
        take_backs::{TakeBack, TakeBackKind, TakeBackState, TookBack, UnknownTakeBackState},
        topups::{NewTopup, TOO_MANY_OPEN, TopupMove, TopupRow},
    },
    usage::{UsagePosition, UsageQuery},
    usage_counts::{CountedPart, Unsettled, UsageDue, UsagePart},
};
pub use notices::{NoticeWriter, PaymentNotice};
pub use oauth::{
    clients::{OauthClientKind, OauthClientRow, UnknownOauthClientKind},
    grants::{EndedGrant, GRANTS_OF_A_PERSON, GrantAudit, GrantRow, NewGrant},
    tokens::{CodeRedemption, Exchange, IssuedTokens, NewTokens, TokenRefresh},
};
pub use observe::{DeadRows, MOST_COUNTED, Observed};
pub use operators::{OperatedOrganization, OperatedPerson};
pub use organizations::deletion::OrganizationDeletion;
pub use people::{
    attempts::{Attempt, PARTS},
    avatars::Avatar,
    deletion::PersonDeletion,
    identities::{IDENTITY_CHANGED, Identity, IdentityRow, ONLY_WAY, OTHER_IDENTITY, ProvenIdentity},
    invitations::{InvitationRow, Invited, NewInvitation},
    memberships::{GivenRole, MemberRow, NewOrganization, OwnOrganization},
    one_time::{NewOneTime, OneTimeMail, Purpose, UnknownPurpose},
    persons::{Account, NewPerson, PasswordChange, PersonRow},
    second_factor::{CODE_USED, Factor},
    sessions::{MemberSession, NewSession, SessionKind, SessionRow, SignIn, SignedIn, UnknownSessionKind},
};
pub use principal::{By, Principal, UnknownSubject};
pub use rates::{GrantedBlock, Leased, WantedBlock};
pub use reseal::{NodeMasterKeys, Resealed, RowKey, SealedColumn, SealedRow};
pub use runs::artifacts::{KeptArtifact, NewArtifacts, RunArtifacts};
pub use runs::retention::{Batch, Deleted, Expiry, OpenCallbacks, Undeletable};
pub use runs::{ContentHolder, Counted, FinalCost, PlainError, Position, Settled, UnretainedFinish};
pub use schedules::{
    Due, FireRow, Fires, ListedSchedule, NextOccurrence, ReplacedRun, SaveSchedule, ScheduleRow,
    ScheduleSpec, ScheduleState, SealedCallback,
};
pub use types::{
    Actor, Append, AuditFilter, Cancelled, Claim, Created, Definition, Error, EventRow, Fence, Finish,
    Followed, Heartbeat, Held, InlineCredentials, Journal, Labels, NewCallback, NewEntries, NewEvent,
    NewNode, NewRun, NodeId, NodeRow, Origin, OverBudget, Progress, Receiver, Result, Retention, RunFilter,
    SeenLease, StoredCredentials, StoredDefinition, Sweep, Swept, Unretained, Watched,
};
pub use workflows::{PutWorkflow, SavedWorkflow, WorkflowRow};

use std::{sync::Arc, time::Duration};

use self::{
    db::{Db, vals},
    money::{allowance::UsedUp, refusals::Refusals},
};

/// Database server in memory. A seed drives its network, its clock and its faults.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::db::simulated::{
        Faults, Outage, SeenBudget, SeenNode, SeenRun, SimulatedDatabase, SimulatedLink, SimulatedServer,
    };
}

/// Default number of connections for commands on `PostgreSQL`.
pub const CONNECTIONS: u32 = 4;

/// Settings of an open database.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Number of connections for commands on `PostgreSQL`. Up to four more connections serve other purposes.
    pub connections: u32,
    /// Time limits of urgent commands.
    pub urgent: UrgentLimits,
    /// Time without a write after which the write-ahead log of a `SQLite` database is checkpointed.
    pub checkpoint_after: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            urgent: UrgentLimits::default(),
            checkpoint_after: Duration::from_secs(1),
        }
    }
}

/// Time limits of urgent commands: a database that does not answer must not use up the time of a lease.
#[derive(Clone, Copy, Debug)]
pub struct UrgentLimits {
    /// Time limit of a heartbeat, and of a look at the clock of the database.
    pub heartbeat: Duration,
    /// Time limit for registering a node, which may wait for the lock of dispatch.
    pub register: Duration,
    /// Time limit for connecting to `PostgreSQL`, and for an answer of it.
    pub connection: Duration,
}

impl Default for UrgentLimits {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(2),
            register: Duration::from_secs(6),
            connection: Duration::from_secs(2),
        }
    }
}

/// Database of a node. Cheap to clone; dropping the last clone closes the database.
#[derive(Clone)]
pub struct Store {
    db: Db,
    /// Budgets and credits that have refused a run recently.
    refusals: Arc<Refusals>,
    /// Allowance that has refused a run recently.
    used_up: Arc<UsedUp>,
}

impl Store {
    /// Opens `sqlite:PATH` or `postgres://…`, and migrates it to this version.
    ///
    /// Creates a missing `SQLite` file and its folder with permissions for this user alone, and refuses a file that another
    /// process has open. On `PostgreSQL`, `sslmode=require` in the URL means TLS with a certificate from a public certificate
    /// authority; any other URL means no TLS.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, OpenOptions::default()).await
    }

    /// Opens a database like [`open`](Self::open), with these settings.
    pub async fn open_with(url: &str, options: OpenOptions) -> Result<Self> {
        Ok(Self::over(Db::open(url, options).await?))
    }

    /// Opens a simulated server behind `link`, with a number of connections for commands.
    #[cfg(feature = "simulation")]
    pub fn simulated(link: &simulation::SimulatedLink, connections: u32) -> Self {
        Self::over(Db::simulated(link, connections))
    }

    fn over(db: Db) -> Self {
        Self {
            db,
            refusals: Arc::default(),
            used_up: Arc::default(),
        }
    }

    /// Registers the metrics of the store, whose names begin with `store_`.
    pub fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.db.register_metrics(registry);
    }

    /// Registers the metrics of credits, whose names begin with `store_`. Only a hosted deployment has them.
    pub fn register_credit_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.db.metrics().register_credits(registry);
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

    /// Runs a query in the queue of the writes, for the readiness check. Writes nothing and takes no lock. After a write has
    /// found no space on the disk of a `SQLite` database, this fails until a trial file beside it can be written.
    pub async fn ping(&self) -> Result<()> {
        self.db.check_space().await?;
        self.db
            .write(|tx| tx.query_one("SELECT 1", vals![]).map(drop))
            .await
    }
}
