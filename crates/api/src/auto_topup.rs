//! Settings of automatic purchases of credits (`docs/BILLING.md#buy-credits-automatically`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{object::objects, topup::TopupState};

objects!(PutAutoTopup);

/// Body of `PUT /v1/organizations/{id}/billing/auto-topup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PutAutoTopup {
    /// Whether credits are bought automatically. The other fields are needed where they are.
    #[schema(example = true)]
    pub enabled: bool,
    /// Credits are bought when fewer than this are available, in cents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 500, maximum = 1_000_000, example = 1_000)]
    pub threshold_cents: Option<i64>,
    /// Amount of a purchase in cents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 500, maximum = 1_000_000, example = 5_000)]
    pub amount_cents: Option<i64>,
    /// Whether the signed-in person agrees that the saved card is charged without being asked again. Must be `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = true)]
    pub consent: Option<bool>,
}

/// Result of the last automatic purchase.
pub const fn last_topup_status(state: TopupState) -> &'static str {
    match state {
        TopupState::Created | TopupState::Open | TopupState::Processing => "processing",
        TopupState::Paid => "succeeded",
        TopupState::Expired | TopupState::Failed => "failed",
        TopupState::RequiresAction => "requires_action",
    }
}
