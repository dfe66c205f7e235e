//! Types of the HTTP API, with their limits and validation rules.
//!
//! The crate has no I/O, no clock and no randomness: times and random bytes are arguments. The server, the
//! command line, the store and the tests share these types, so a field exists in one place.

pub mod account;
pub mod audit;
pub mod auto_topup;
pub mod billing;
pub mod budget;
pub mod check;
pub mod connection;
pub mod console;
mod credential;
pub mod delivery;
pub mod deployment;
pub mod digest;
mod effort;
pub mod error;
pub mod event;
pub mod file;
pub mod id;
pub mod json;
pub mod key;
pub mod license;
pub mod limits;
pub mod live;
pub mod mail;
pub mod master_key;
pub mod membership;
pub mod metadata;
pub mod model;
pub mod money;
pub mod node;
mod object;
pub mod operator;
pub mod organization;
pub mod parameters;
pub mod plain;
pub mod request;
pub mod run;
pub mod run_token;
pub mod schedule;
pub mod secret;
pub mod status;
pub mod time;
pub mod topup;
mod trace_context;
pub mod usage;
mod whole;
pub mod workflow;

pub use audit::{ActorKind, AuditEntry, AuditPage};
pub use billing::{LedgerEntry, LedgerKind};
pub use budget::{Budget, BudgetPeriod, BudgetScope, PutBudget};
pub use connection::{Connection, ConnectionStatus};
pub use credential::Credential;
pub use delivery::{Delivery, DeliveryAttempt, DeliveryPage, DeliveryState, Redelivery};
pub use digest::Sha256;
pub use effort::Effort;
pub use error::{ErrorBody, ErrorCode, Refusal};
pub use event::{Event, EventType};
pub use file::{File, FilePage};
pub use id::{
    AuditId, BlobId, ConnectionId, ConsentId, DeploymentId, FileId, GrantId, InvitationId, KeyId, MailId,
    OauthClientId, OrgId, PaymentId, RefundOrderId, RunId, ScheduleId, SessionId, TopupId, UserId,
};
pub use license::License;
pub use mail::EmailDelivery;
pub use metadata::Metadata;
pub use money::Micros;
pub use organization::{Features, Mode, OrganizationInfo, Role, SignUpRule};
pub use request::RunRequest;
pub use run::{Artifact, CancelledRuns, Run, RunDefinition, RunPage, RunUsage};
pub use schedule::{Fire, Schedule};
pub use status::RunStatus;
pub use time::Timestamp;
pub use topup::{TopupKind, TopupState};
pub use trace_context::{SPANS, TraceContext};
pub use workflow::{Workflow, WorkflowDefinition, WorkflowSummary};
