//! The audit log as administrators read it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{AuditId, KeyId},
    time::Timestamp,
};

/// A change: what was done, when, by whom and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The entry's id.
    pub id: AuditId,
    /// When it was done.
    pub at: Timestamp,
    /// What was done, as `resource.verb`.
    #[schema(example = "key.create")]
    pub action: String,
    /// What it was done to: a name or an id.
    #[schema(example = "key_01kafs6w1cefkstv6qr1ptb0mp")]
    pub target: String,
    /// The key it was done with; absent where no key was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<KeyId>,
    /// The address the request came from; absent where the engine did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false, example = "192.0.2.7")]
    pub address: Option<IpAddr>,
    /// The request's id, which is also on its log lines; absent where the engine did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
}

/// One page of the audit log, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries.
    pub items: Vec<AuditEntry>,
    /// What `cursor` takes for the next page; empty on the last one.
    pub next_cursor: String,
}
