//! The log of a run's completion callback (`docs/CALLBACKS.md#what-became-of-it`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// Attempt to deliver a run's completion callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryAttempt {
    /// Number of the attempt within the run, from 1.
    #[schema(minimum = 1)]
    pub attempt: i64,
    /// Time at which the attempt began.
    pub at: Timestamp,
    /// The HTTP status of the answer; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 100, maximum = 999)]
    pub status: Option<u16>,
    /// Reason of the failure; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// Duration of the attempt, in milliseconds.
    #[schema(minimum = 0)]
    pub duration_ms: i64,
    /// Time of the next attempt, as scheduled at the end of this one. Absent after a success, and on the last attempt
    /// before the delivery was abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_at: Option<Timestamp>,
}

/// Delivery that is to be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Redelivery {
    /// The number that the next attempt will have in the list of attempts.
    #[schema(minimum = 1)]
    pub attempt: i64,
}
