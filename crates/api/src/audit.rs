//! The audit log as administrators read it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{AuditId, KeyId},
    time::Timestamp,
};

/// Change of a resource: its kind, time, author and origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// ID of the entry.
    pub id: AuditId,
    /// Time of the change.
    pub at: Timestamp,
    /// Kind of change, as `resource.verb`.
    #[schema(example = "key.create")]
    pub action: String,
    /// Name or id of the changed resource.
    #[schema(example = "key_01kafs6w1cefkstv6qr1ptb0mp")]
    pub target: String,
    /// ID of the key that made the change; absent where no key was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<KeyId>,
    /// Client address of the request; absent for a change by the engine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false, example = "192.0.2.7")]
    pub address: Option<IpAddr>,
    /// ID of the request, which its log lines have too; absent for a change by the engine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
}

/// Page of the audit log, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries.
    pub items: Vec<AuditEntry>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}
