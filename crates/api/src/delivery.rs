//! The log of a run's completion callback (`docs/CALLBACKS.md#what-became-of-it`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// One attempt to deliver a run's completion callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryAttempt {
    /// Its number among the attempts of the run, from 1.
    #[schema(minimum = 1)]
    pub attempt: i64,
    /// When it began.
    pub at: Timestamp,
    /// The HTTP status of the answer; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 100, maximum = 999)]
    pub status: Option<u16>,
    /// Why it did not succeed; absent where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    #[schema(minimum = 0)]
    pub duration_ms: i64,
    /// When it was to be tried again, as decided at the end of this attempt. Absent where it succeeded, and on the last
    /// attempt before the delivery was abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_at: Option<Timestamp>,
}

/// What is to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Redelivery {
    /// The number that the next attempt will have in the list of attempts.
    #[schema(minimum = 1)]
    pub attempt: i64,
}
