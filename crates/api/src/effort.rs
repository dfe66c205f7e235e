//! How much a model is to think before it answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Effort of a language model, from the least to the most. Each provider's client maps it to the nearest level that the
/// model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As little thinking as the model allows.
    Minimal,
    /// Little thinking.
    Low,
    /// The balance of cost and quality.
    Medium,
    /// Much thinking.
    High,
    /// More than `high`, for long work.
    Xhigh,
    /// As much thinking as the model allows.
    Max,
}
