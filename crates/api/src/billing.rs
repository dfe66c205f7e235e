//! Credits of an organization and its ledger (`docs/BILLING.md`).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{OrgId, PaymentId, RunId, TopupId},
    limits,
    money::Micros,
    object::objects,
    time::Timestamp,
};

/// Kind of a movement of credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerKind {
    /// Cost of a run.
    Charge,
    /// Credits that were bought.
    Purchase,
    /// Credits that were taken back because a payment was refunded.
    Refund,
    /// Credits of a refund that failed.
    RefundFailed,
    /// Credits that were taken back because a payment is disputed.
    Dispute,
    /// Credits of a dispute that was won.
    DisputeWon,
    /// Credits that the operator has given.
    Grant,
    /// Correction by the operator.
    Correction,
}

/// A text that is not the kind of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of charge, purchase, refund, refund_failed, dispute, dispute_won, grant, correction")]
pub struct UnknownLedgerKind;

impl LedgerKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Charge,
        Self::Purchase,
        Self::Refund,
        Self::RefundFailed,
        Self::Dispute,
        Self::DisputeWon,
        Self::Grant,
        Self::Correction,
    ];

    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Purchase => "purchase",
            Self::Refund => "refund",
            Self::RefundFailed => "refund_failed",
            Self::Dispute => "dispute",
            Self::DisputeWon => "dispute_won",
            Self::Grant => "grant",
            Self::Correction => "correction",
        }
    }
}

impl fmt::Display for LedgerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LedgerKind {
    type Err = UnknownLedgerKind;

    fn from_str(text: &str) -> Result<Self, UnknownLedgerKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(UnknownLedgerKind)
    }
}

/// Answer of `GET /v1/organizations/{id}/balance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Balance {
    /// Credits of the organization. Negative if a refund or dispute took back credits that were already spent.
    #[schema(example = 5_000_000)]
    pub balance_micros: i64,
    /// Credits reserved for runs that are not settled.
    pub reserved_micros: Micros,
    /// Credits available for new runs: the balance minus reserved credits, at least 0.
    pub available_micros: Micros,
}

/// Movement of credits. Entries are never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerEntry {
    /// Kind of the movement. New kinds may be added.
    pub kind: LedgerKind,
    /// Micros added to the balance; negative if deducted.
    #[schema(example = -1_250)]
    pub amount_micros: i64,
    /// Text for people.
    #[schema(example = "run")]
    pub description: String,
    /// Time of the movement.
    pub created_at: Timestamp,
    /// Run that was charged; absent for other movements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_id: Option<RunId>,
    /// Payment that the movement belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub payment_id: Option<String>,
    /// Purchase that the movement belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub topup_id: Option<String>,
}

/// Page of the ledger, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerPage {
    /// The movements.
    pub ledger: Vec<LedgerEntry>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Answer of `GET /v1/organizations/{id}/billing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Billing {
    /// Credits of the organization.
    #[serde(flatten)]
    pub balance: Balance,
    /// The newest movements of credits, at most 100.
    pub ledger: Vec<LedgerEntry>,
    /// Limits of purchases.
    pub purchase_limits: PurchaseLimits,
    /// Automatic purchases.
    pub auto_topup: AutoTopup,
    /// Saved card; `null` without one.
    #[schema(required = true)]
    pub payment_method: Option<PaymentMethod>,
    /// State of `payment_method`: `unavailable` does not mean that there is no card.
    pub payment_method_sync: PaymentMethodSync,
    /// Whether the deployment takes payments.
    pub stripe_configured: bool,
}

/// Limits of purchases, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PurchaseLimits {
    /// Least amount of a purchase.
    #[schema(example = 500)]
    pub min_amount_cents: i64,
    /// Greatest amount of a purchase.
    #[schema(example = 1_000_000)]
    pub max_amount_cents: i64,
    /// Least threshold of automatic purchases.
    #[schema(example = 500)]
    pub min_threshold_cents: i64,
}

impl Default for PurchaseLimits {
    fn default() -> Self {
        Self {
            min_amount_cents: limits::PURCHASE_CENTS_MIN,
            max_amount_cents: limits::PURCHASE_CENTS_MAX,
            min_threshold_cents: limits::TOPUP_THRESHOLD_CENTS_MIN,
        }
    }
}

/// Automatic purchases of credits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AutoTopup {
    /// Whether credits are bought automatically.
    pub enabled: bool,
    /// Credits are bought when fewer than this are available; `null` while disabled.
    #[schema(required = true)]
    pub threshold_cents: Option<i64>,
    /// Amount of a purchase; `null` while disabled.
    #[schema(required = true)]
    pub amount_cents: Option<i64>,
    /// Whether a card is saved for automatic purchases.
    pub payment_method_saved: bool,
    /// Result of the last automatic purchase: `succeeded`, `processing`, `failed` or `requires_action`; `null` before the
    /// first one.
    #[schema(required = true)]
    pub last_topup_status: Option<String>,
}

/// Saved card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentMethod {
    /// Brand of the card.
    #[schema(example = "visa")]
    pub brand: String,
    /// Last four digits of its number.
    #[schema(example = "4242")]
    pub last4: String,
    /// Month of its end.
    #[schema(minimum = 1, maximum = 12)]
    pub exp_month: i64,
    /// Year of its end.
    #[schema(example = 2030)]
    pub exp_year: i64,
    /// Page on which the card was saved: `checkout` or `portal`.
    #[schema(example = "checkout")]
    pub source: String,
}

/// State of the saved card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PaymentMethodSync {
    /// The card is that of the payment provider, or there is no payment provider.
    Synced,
    /// The payment provider could not be reached, and may have another card.
    Unavailable,
}

objects!(MoveCredits CreateCheckout RefundPayment);

/// Body of `POST /v1/organizations/{id}/billing/checkout`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateCheckout {
    /// Amount to pay, in cents.
    #[schema(minimum = 500, maximum = 1_000_000, example = 2_500)]
    pub amount_cents: i64,
    /// Whether the card is saved for later purchases. Default: `false`.
    #[serde(default)]
    #[schema(default = false)]
    pub save_payment_method: bool,
}

/// Page of the payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderPage {
    /// Address of the page.
    #[schema(example = "https://checkout.stripe.com/c/pay/cs_live_a1b2c3")]
    pub url: String,
}

/// Payment of a purchase of credits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Payment {
    /// ID of the payment.
    pub id: PaymentId,
    /// Amount that was paid, in cents.
    #[schema(example = 2_500)]
    pub amount_cents: i64,
    /// Cents that were refunded.
    #[schema(example = 0)]
    pub refunded_cents: i64,
    /// Cents in disputes of the cardholder that are open or lost.
    #[schema(example = 0)]
    pub disputed_cents: i64,
    /// Part of the payment that was refunded.
    pub refund_status: RefundStatus,
    /// Time of the payment.
    pub created_at: Timestamp,
    /// Purchase that was paid.
    pub topup_id: TopupId,
    /// Path of the operation that returns the receipt.
    #[schema(
        example = "/v1/organizations/org_01kafs6w1cefkstv6qr1ptb0mp/billing/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/receipt"
    )]
    pub receipt_endpoint: String,
}

/// Part of a payment that was refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    /// Nothing was refunded.
    None,
    /// A part was refunded.
    Partial,
    /// The whole payment was refunded.
    Full,
}

impl RefundStatus {
    /// Returns the status of a payment of which some cents were refunded.
    pub const fn of(amount_cents: i64, refunded_cents: i64) -> Self {
        if refunded_cents <= 0 {
            Self::None
        } else if refunded_cents < amount_cents {
            Self::Partial
        } else {
            Self::Full
        }
    }
}

/// Page of payments, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentPage {
    /// The payments.
    pub payments: Vec<Payment>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Body of `POST /v1/operator/payments/{id}/refund`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RefundPayment {
    /// Cents to refund. Default: all that is left of the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, example = 500)]
    pub amount_cents: Option<i64>,
    /// Name of the refund: the same one twice is one refund of the payment. Required with `amount_cents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_length = 1, max_length = 200, example = "ticket-4711")]
    pub reference: Option<String>,
}

/// Body of `POST /v1/operator/organizations/{id}/credits`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct MoveCredits {
    /// Micros to add to the balance, up to a million dollars. Only a correction may be negative.
    #[schema(minimum = -1_000_000_000_000_i64, maximum = 1_000_000_000_000_i64, example = 5_000_000)]
    pub amount_micros: i64,
    /// Kind of the movement. Default: `grant`.
    #[serde(default, skip_serializing_if = "MovementKind::is_grant")]
    #[schema(default = "grant")]
    pub kind: MovementKind,
    /// Reason, which the organization sees in its ledger: 1 to 500 characters.
    #[schema(min_length = 1, max_length = 500, example = "welcome credits")]
    pub reason: String,
    /// Idempotency reference: a repetition moves no credits. 1 to 200 characters.
    #[schema(min_length = 1, max_length = 200, example = "ticket-4711")]
    pub reference: String,
}

/// Kind of a movement that the operator makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MovementKind {
    /// Credits that are given.
    #[default]
    Grant,
    /// Correction of a mistake, which may take credits.
    Correction,
}

impl MovementKind {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde gives a reference to the condition of a field"
    )]
    fn is_grant(&self) -> bool {
        *self == Self::Grant
    }
}

impl From<MovementKind> for LedgerKind {
    fn from(kind: MovementKind) -> Self {
        match kind {
            MovementKind::Grant => Self::Grant,
            MovementKind::Correction => Self::Correction,
        }
    }
}

/// Page of a check of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerCheck {
    /// Number of organizations that were checked.
    #[schema(minimum = 0)]
    pub organizations: i64,
    /// Number of runs that were checked.
    #[schema(minimum = 0)]
    pub runs: i64,
    /// Breaches of the rules. Each is a defect.
    pub differences: Vec<LedgerDifference>,
    /// Value for `cursor` to check the next organizations; empty on the last page.
    pub next_cursor: String,
}

/// Breach of a rule of the ledger. Amounts are in micros.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerDifference {
    /// The organization.
    pub organization_id: OrgId,
    /// Rule that does not hold: `balance`, `reserved`, `charge`, `cost`, `purchase`, `taken_back` or `readable`.
    #[schema(example = "balance")]
    pub rule: String,
    /// Run that breaks the rule; absent for a rule of the whole organization or of payments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_id: Option<RunId>,
    /// Payment that breaks the rule; absent for another rule, and for entries of the ledger that name no payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub payment_id: Option<PaymentId>,
    /// Amount by the ledger, the runs and the payments; for `cost` the most that the run may cost.
    pub expected_micros: i64,
    /// Amount that was found.
    pub found_micros: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_from_its_name() {
        for kind in LedgerKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        for (refunded, status) in [
            (0, RefundStatus::None),
            (1, RefundStatus::Partial),
            (499, RefundStatus::Partial),
            (500, RefundStatus::Full),
        ] {
            assert_eq!(RefundStatus::of(500, refunded), status);
        }
        assert_eq!("gift".parse::<LedgerKind>(), Err(UnknownLedgerKind));
    }
}
