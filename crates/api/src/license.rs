//! The license of a self-hosted engine.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// Answer of `GET /v1/admin/license`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct License {
    /// Whether the engine has a license. Without one it has no monthly allowance to use up.
    pub licensed: bool,
    /// ID of the installation that a license is issued for, the same on every node of one database.
    #[schema(pattern = "^[0-9a-f]{32}$", example = "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b")]
    pub machine_id: String,
    /// Runs that were created in this month, in UTC.
    #[schema(minimum = 0)]
    pub runs_used: i64,
    /// Time at which the next month begins and `runs_used` starts from zero.
    pub resets_at: Timestamp,
}
