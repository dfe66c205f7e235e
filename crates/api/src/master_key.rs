//! The keys that credentials are sealed with, by their ids: the keys themselves are never shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /v1/admin/master-key`: a page of what is sealed, and who has which keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MasterKeys {
    /// The ids of the keys that the node that answers has. It seals with the first one and opens with all of them.
    #[schema(example = json!(["9f86d081884c7d65"]))]
    pub keys: Vec<String>,
    /// The keys of every node whose lease is not over.
    pub nodes: Vec<NodeKeys>,
    /// How many values of this page are sealed with which key. The sum over all pages is what there is.
    pub sealed: Vec<SealedValues>,
    /// Continues the list; empty on the last page.
    pub next_cursor: String,
}

/// The keys of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeKeys {
    /// The node's name.
    pub name: String,
    /// The ids of its keys, the one it seals with first; absent where the node does not say, being of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub keys: Option<Vec<String>>,
}

/// How many values are sealed with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedValues {
    /// The id of the key; `unknown` for what is not sealed at all.
    #[schema(example = "9f86d081884c7d65")]
    pub key: String,
    /// Where they are, as `table.column`.
    #[schema(example = "connection.credentials")]
    pub place: String,
    /// How many.
    #[schema(minimum = 1)]
    pub values: i64,
}

/// Answer of `POST /v1/admin/master-key/reseal`: what became of a page of sealed values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reseal {
    /// Values that were looked at.
    #[schema(minimum = 0)]
    pub looked_at: i64,
    /// Those that are sealed with the first key of this node since.
    #[schema(minimum = 0)]
    pub resealed: i64,
    /// Those that somebody wrote at the same time: they may be sealed with another key.
    #[schema(minimum = 0)]
    pub changed_meanwhile: i64,
    /// Those that none of the node's keys opens. They are as they were; the node's log names them.
    #[schema(minimum = 0)]
    pub unreadable: i64,
    /// Continues with the next page; empty on the last one.
    pub next_cursor: String,
}
