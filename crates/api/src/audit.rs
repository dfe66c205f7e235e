//! Audit log in the form that administrators read.

use std::{net::IpAddr, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{AuditId, KeyId, UserId},
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
    /// Kind of the author; absent for a change by the engine itself and for a request without a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub actor_kind: Option<ActorKind>,
    /// ID of the author: of the key, the grant, the session or the schedule; absent for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "key_01kafs6w1cefkstv6qr1ptb0mn")]
    pub actor_id: Option<String>,
    /// ID of the key that made the change; absent if no key was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<KeyId>,
    /// ID of the person who owns the grant or the session; absent for every other author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub user_id: Option<UserId>,
    /// Client address of the request; absent for a change by the engine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false, example = "192.0.2.7")]
    pub address: Option<IpAddr>,
    /// ID of the request, which its log lines have too; absent for a change by the engine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
}

/// Kind of the author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// API key.
    Key,
    /// Person's permission for an OAuth client.
    Grant,
    /// Sign-in of a person.
    Session,
    /// Token for one run.
    RunToken,
    /// Schedule.
    Schedule,
    /// Operator of the installation.
    Operator,
}

/// A text that is no kind of author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of key, grant, session, run_token, schedule, operator")]
pub struct UnknownActorKind;

impl ActorKind {
    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Grant => "grant",
            Self::Session => "session",
            Self::RunToken => "run_token",
            Self::Schedule => "schedule",
            Self::Operator => "operator",
        }
    }
}

impl FromStr for ActorKind {
    type Err = UnknownActorKind;

    fn from_str(text: &str) -> Result<Self, UnknownActorKind> {
        [
            Self::Key,
            Self::Grant,
            Self::Session,
            Self::RunToken,
            Self::Schedule,
            Self::Operator,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
        .ok_or(UnknownActorKind)
    }
}

/// Page of the audit log, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries.
    pub items: Vec<AuditEntry>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}
