//! Objects of Stripe, with the fields that are read. Amounts are in cents.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Reads the identifier of an object that may be expanded.
fn identifier<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        Identifier(String),
        Object { id: String },
    }
    let named = Option::<Named>::deserialize(from)?;
    Ok(named.map(|named| match named {
        Named::Identifier(id) | Named::Object { id } => id,
    }))
}

/// Account of the secret key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Account {
    /// Identifier: `acct_…`.
    pub id: String,
    /// Whether the account can take payments.
    pub charges_enabled: bool,
}

/// Customer: an organization.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Customer {
    /// Identifier: `cus_…`.
    pub id: String,
    /// Whether the customer was deleted at the dashboard.
    #[serde(default)]
    pub deleted: bool,
    /// Settings of invoices; absent for a deleted customer.
    #[serde(default)]
    invoice_settings: Option<InvoiceSettings>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct InvoiceSettings {
    default_payment_method: Option<PaymentMethod>,
}

impl Customer {
    /// Returns the card that the customer has chosen in the portal.
    pub fn default_card(&self) -> Option<&PaymentMethod> {
        self.invoice_settings.as_ref()?.default_payment_method.as_ref()
    }
}

/// Saved payment method.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PaymentMethod {
    /// Identifier: `pm_…`.
    pub id: String,
    /// Card; absent for other kinds of payment.
    pub card: Option<Card>,
}

/// Card as a customer knows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Card {
    /// Brand, such as `visa`.
    pub brand: String,
    /// Last four digits of the number.
    pub last4: String,
    /// Month of expiry, from 1.
    pub exp_month: u8,
    /// Year of expiry, with four digits.
    pub exp_year: u16,
}

/// Checkout session: a page on which a customer pays.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Checkout {
    /// Identifier: `cs_…`.
    pub id: String,
    /// Address of the page; absent once the session has ended.
    pub url: Option<String>,
    /// `open`, `complete` or `expired`.
    pub status: Option<String>,
    /// `paid`, `unpaid` or `no_payment_required`.
    pub payment_status: String,
    /// Sum that is paid.
    pub amount_total: Option<i64>,
    /// Currency, in lower case.
    pub currency: Option<String>,
    /// Customer who pays.
    pub customer: Option<String>,
    /// Payment, once the customer has tried to pay.
    pub payment_intent: Option<String>,
    /// Subscription, once it was bought.
    pub subscription: Option<String>,
    /// Metadata from the creation of the session.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Payment, from its first attempt to its end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PaymentIntent {
    /// Identifier: `pi_…`.
    pub id: String,
    /// Status, such as `succeeded`, `processing`, `requires_action` or `requires_payment_method`.
    pub status: String,
    /// Sum that is asked for.
    pub amount: i64,
    /// Currency, in lower case.
    pub currency: String,
    /// Customer who pays.
    pub customer: Option<String>,
    /// Latest attempt to charge the card.
    #[serde(default, deserialize_with = "identifier")]
    pub latest_charge: Option<String>,
    /// Card that is charged.
    pub payment_method: Option<String>,
    /// Failure of the latest attempt.
    #[serde(default)]
    pub last_payment_error: Option<PaymentFailure>,
    /// Metadata from the creation of the payment.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Failure of an attempt to charge a card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PaymentFailure {
    /// Code, such as `card_declined` or `authentication_required`.
    #[serde(default)]
    pub code: Option<String>,
    /// Code of the bank, such as `insufficient_funds`.
    #[serde(default)]
    pub decline_code: Option<String>,
}

/// Attempt to charge a card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Charge {
    /// Identifier: `ch_…`.
    pub id: String,
    /// Sum of the charge.
    pub amount: i64,
    /// Refunded part of the sum.
    pub amount_refunded: i64,
    /// Whether the card was charged.
    pub paid: bool,
    /// Whether the customer disputes it.
    pub disputed: bool,
    /// Payment that it belongs to.
    pub payment_intent: Option<String>,
    /// Address of the receipt.
    #[serde(default)]
    pub receipt_url: Option<String>,
}

/// Refund of a charge, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refund {
    /// Identifier: `re_…`.
    pub id: String,
    /// Sum that goes back.
    pub amount: i64,
    /// `pending`, `requires_action`, `succeeded`, `failed` or `canceled`.
    pub status: Option<String>,
    /// Charge that is refunded.
    pub charge: Option<String>,
    /// Payment that is refunded.
    pub payment_intent: Option<String>,
    /// Metadata from the creation of the refund.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Dispute of a charge.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Dispute {
    /// Identifier: `du_…` or `dp_…`.
    pub id: String,
    /// Sum that is disputed.
    pub amount: i64,
    /// Status, such as `needs_response`, `won`, `lost` or `warning_needs_response`.
    pub status: String,
    /// Charge that is disputed.
    pub charge: String,
    /// Payment that is disputed.
    pub payment_intent: Option<String>,
    /// Movements of funds: negative for a withdrawal, positive for a reinstatement.
    pub balance_transactions: Vec<FundsMovement>,
}

impl Dispute {
    /// Whether the funds are withdrawn. An inquiry of a bank withdraws none, and a won dispute returns them.
    pub fn is_withdrawn(&self) -> bool {
        let moved: i64 = self.balance_transactions.iter().map(|of| of.amount).sum();
        moved < 0
    }
}

/// Movement of money in the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct FundsMovement {
    /// Sum that was added.
    pub amount: i64,
}

/// Subscription to a licence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Subscription {
    /// Identifier: `sub_…`.
    pub id: String,
    /// Status, such as `active`, `past_due` or `canceled`.
    pub status: String,
    /// Customer who pays.
    pub customer: String,
    /// Whether the subscription is cancelled at the end of the period.
    pub cancel_at_period_end: bool,
    /// Time for which it was cancelled, in seconds since 1970.
    pub cancel_at: Option<i64>,
    /// Time at which it has ended, in seconds since 1970.
    pub ended_at: Option<i64>,
    /// Prices that are paid.
    pub items: Page<SubscriptionItem>,
    /// Metadata from the creation of the subscription.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Price in a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SubscriptionItem {
    price: PriceId,
    /// Number of units.
    pub quantity: Option<u64>,
    /// Start of the period, in seconds since 1970.
    pub current_period_start: i64,
    /// End of the period, in seconds since 1970.
    pub current_period_end: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct PriceId {
    id: String,
}

impl SubscriptionItem {
    /// Returns the identifier of the price: `price_…`.
    pub fn price(&self) -> &str {
        &self.price.id
    }
}

/// Hint that an object has changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// Identifier: `evt_…`.
    pub id: String,
    /// Type, such as `checkout.session.completed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the change, in seconds since 1970.
    pub created: i64,
    data: EventData,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct EventData {
    object: EventObject,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct EventObject {
    /// Empty for an object without an identifier, such as the balance of the account.
    #[serde(default)]
    id: String,
}

impl Event {
    /// Returns the identifier of the changed object. The rest of the object is not trusted.
    pub fn object_id(&self) -> &str {
        &self.data.object.id
    }
}

/// Page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Page<T> {
    /// Objects of this page.
    pub data: Vec<T>,
    /// Whether there are older ones.
    pub has_more: bool,
}

/// Session in the customer portal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PortalSession {
    /// Address of the portal for this customer.
    pub url: String,
}
