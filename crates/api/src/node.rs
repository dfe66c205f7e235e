//! Nodes of an engine, as shown to its administrators.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// Node: a process that works on runs, or did until it was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// ID of this start of the node: new at each start, and after the node was declared lost. Decimal digits.
    #[schema(pattern = "^[0-9]{1,19}$", example = "4316709281746219841")]
    pub id: String,
    /// Name of the node, the same at each start.
    #[schema(example = "node-a")]
    pub name: String,
    /// Address at which other nodes reach this one; absent where they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "http://10.0.0.5:8080")]
    pub address: Option<String>,
    /// Version of the node's program; absent for versions older than this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0.1.0")]
    pub version: Option<String>,
    /// State of the node.
    pub state: NodeState,
    /// Time at which the node started.
    pub started_at: Timestamp,
    /// End of the node's lease. The node renews it every few seconds and keeps its runs until then.
    pub lease_until: Timestamp,
    /// Number of runs that the node holds, with those that are cancelled and not settled yet.
    #[schema(minimum = 0)]
    pub runs_at_work: i64,
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node takes requests and works on runs.
    Ready,
    /// The node is about to stop: load balancers send no new clients, and its runs are finished or handed over.
    Draining,
    /// The lease has expired, or the node signed off with runs left: other nodes take the runs over.
    Lost,
}

impl NodeState {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Lost => "lost",
        }
    }
}
