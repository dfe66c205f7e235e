//! Mail that a request sends.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Outcome of a mail that was sent while the caller waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmailDelivery {
    /// The mail server has taken the mail. Its arrival is not certain.
    Accepted,
    /// No mail server is configured.
    Unavailable,
    /// The mail server has refused the mail, or has not taken it in time.
    Failed,
}
