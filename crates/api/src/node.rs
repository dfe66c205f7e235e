//! The nodes of an engine, as its administrators see them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// A node: one process that works on runs, or has until it was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// This start of the node: another one at each start, and after it was declared lost. Decimal digits.
    #[schema(pattern = "^[0-9]{1,19}$", example = "4316709281746219841")]
    pub id: String,
    /// Its name, the same at each start.
    #[schema(example = "node-a")]
    pub name: String,
    /// Where other nodes reach it; absent where they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "http://10.0.0.5:8080")]
    pub address: Option<String>,
    /// The version of its program; absent where it is older than this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0.1.0")]
    pub version: Option<String>,
    /// Whether it works.
    pub state: NodeState,
    /// When it started.
    pub started_at: Timestamp,
    /// Its runs are its own until then; it renews this every few seconds.
    pub lease_until: Timestamp,
    /// Runs that it holds, also those that are cancelled and not settled yet.
    #[schema(minimum = 0)]
    pub runs_at_work: i64,
}

/// Whether a node works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It takes requests and works on runs.
    Ready,
    /// It is about to stop: load balancers send it no new clients, and what it works on is finished or handed over.
    Draining,
    /// Its lease is over, or it signed off with runs left: others take its runs over.
    Lost,
}

impl NodeState {
    /// As it stands in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Lost => "lost",
        }
    }
}
