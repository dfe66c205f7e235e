//! The log of a run's completion callback (`docs/CALLBACKS.md#what-became-of-it`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{id::RunId, time::Timestamp};

/// Attempt to deliver a run's completion callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryAttempt {
    /// Number of the attempt within the run, from 1.
    #[schema(minimum = 1)]
    pub attempt: i64,
    /// Time at which the attempt began.
    pub at: Timestamp,
    /// HTTP status of the response; absent if none arrived.
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

/// State of the completion callback of a finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// The first attempt is due, or under way.
    Pending,
    /// The last attempt failed, and there is another one.
    Retrying,
    /// The receiver has accepted the callback.
    Delivered,
    /// The callback is not sent again, because its time has expired.
    Abandoned,
}

/// A text that is not the state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of pending, retrying, delivered, abandoned")]
pub struct UnknownDeliveryState;

impl DeliveryState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Retrying, Self::Delivered, Self::Abandoned];

    /// The name on the wire and in queries of the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Abandoned => "abandoned",
        }
    }
}

impl FromStr for DeliveryState {
    type Err = UnknownDeliveryState;

    fn from_str(text: &str) -> Result<Self, UnknownDeliveryState> {
        let mut states = Self::ALL.into_iter();
        states
            .find(|state| state.as_str() == text)
            .ok_or(UnknownDeliveryState)
    }
}

/// Completion callback of a finished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// ID of the run.
    pub run_id: RunId,
    /// Host and port of the receiver.
    #[schema(example = "hooks.example.com:443")]
    pub receiver: String,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Number of attempts so far.
    #[schema(minimum = 0)]
    pub attempts: i64,
    /// Time at which the last attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_attempt_at: Option<Timestamp>,
    /// HTTP status of the last response; absent if none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 100, maximum = 999)]
    pub status: Option<u16>,
    /// Reason why the last attempt failed; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// Time at which the next attempt is due; absent if there is none, and while an attempt is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_at: Option<Timestamp>,
}

/// Page of deliveries, of the newest run first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeliveryPage {
    /// The deliveries.
    pub items: Vec<Delivery>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}
