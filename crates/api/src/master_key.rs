//! Ids of the keys that seal credentials. The keys themselves are never returned.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /v1/admin/master-key` and `GET /v1/operator/master-key`: a page of sealed values, and the keys of each node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MasterKeys {
    /// IDs of the keys of the node that answers. The node seals with the first key and opens with all of them.
    #[schema(example = json!(["9f86d081884c7d65"]))]
    pub keys: Vec<String>,
    /// Keys of every node with a lease that has not expired.
    pub nodes: Vec<NodeKeys>,
    /// Number of values of this page for each key. The sum over all pages is the total.
    pub sealed: Vec<SealedValues>,
    /// Continues the list; empty on the last page.
    pub next_cursor: String,
}

/// The keys of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeKeys {
    /// The node's name.
    pub name: String,
    /// IDs of the node's keys, the one that seals first.
    pub keys: Vec<String>,
}

/// Number of values that are sealed with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedValues {
    /// ID of the key; `unknown` for values that are not sealed at all.
    #[schema(example = "9f86d081884c7d65")]
    pub key: String,
    /// Column that holds the values, as `table.column`.
    #[schema(example = "connection.credentials")]
    pub place: String,
    /// Number of values.
    #[schema(minimum = 1)]
    pub values: i64,
}

/// Answer of `POST /v1/admin/master-key/reseal` and `POST /v1/operator/master-key/reseal`: the result for a page of sealed
/// values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reseal {
    /// Values that were processed.
    #[schema(minimum = 0)]
    pub looked_at: i64,
    /// Values that were sealed again, with the first key of this node.
    #[schema(minimum = 0)]
    pub resealed: i64,
    /// Values that changed at the same time: they may be sealed with another key.
    #[schema(minimum = 0)]
    pub changed_meanwhile: i64,
    /// Values that the node has no key for. They are unchanged; the node's log names them.
    #[schema(minimum = 0)]
    pub unreadable: i64,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}
