//! Requests that need more than an identifier.

use super::form::Form;

/// Purchase of credits on a checkout page of Stripe.
#[derive(Clone, Copy, Debug)]
pub struct CheckoutOrder<'a> {
    /// Customer who pays.
    pub customer: &'a str,
    /// Sum in US cents.
    pub amount_cents: i64,
    /// Text next to the amount.
    pub description: &'a str,
    /// Identifier of the topup, used to find the object again.
    pub topup: &'a str,
    /// Whether the card is saved for payments without the customer.
    pub saves_card: bool,
    /// End of the session, in seconds since 1970: from 30 minutes to 24 hours ahead.
    pub expires_at: i64,
    /// Address for the redirect after the payment.
    pub success_url: &'a str,
    /// Address for the redirect if the customer cancels.
    pub cancel_url: &'a str,
}

impl CheckoutOrder<'_> {
    pub(super) fn form(&self) -> Form {
        let saves = self.saves_card.then_some("off_session");
        Form::default()
            .with("mode", "payment")
            .with("customer", self.customer)
            .with("line_items[0][quantity]", "1")
            .with("line_items[0][price_data][currency]", "usd")
            .with("line_items[0][price_data][unit_amount]", self.amount_cents)
            .with("line_items[0][price_data][product_data][name]", self.description)
            .with("metadata[topup]", self.topup)
            .with("payment_intent_data[metadata][topup]", self.topup)
            .with_some("payment_intent_data[setup_future_usage]", saves)
            .with("expires_at", self.expires_at)
            .with("success_url", self.success_url)
            .with("cancel_url", self.cancel_url)
    }
}

/// Subscription bought on a checkout page of Stripe.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionOrder<'a> {
    /// Customer who pays.
    pub customer: &'a str,
    /// Price of a period.
    pub price: &'a str,
    /// Organization, shown to people who view the subscription.
    pub organization: &'a str,
    /// End of the session, in seconds since 1970: from 30 minutes to 24 hours ahead.
    pub expires_at: i64,
    /// Address for the redirect after the payment.
    pub success_url: &'a str,
    /// Address for the redirect if the customer cancels.
    pub cancel_url: &'a str,
}

impl SubscriptionOrder<'_> {
    pub(super) fn form(&self) -> Form {
        Form::default()
            .with("mode", "subscription")
            .with("customer", self.customer)
            .with("line_items[0][price]", self.price)
            .with("line_items[0][quantity]", "1")
            .with("metadata[organization]", self.organization)
            .with("subscription_data[metadata][organization]", self.organization)
            .with("expires_at", self.expires_at)
            .with("success_url", self.success_url)
            .with("cancel_url", self.cancel_url)
    }
}

/// Payment with a saved card, without the customer.
#[derive(Clone, Copy, Debug)]
pub struct SavedCardPayment<'a> {
    /// Customer who pays.
    pub customer: &'a str,
    /// Card that was saved.
    pub payment_method: &'a str,
    /// Sum in US cents.
    pub amount_cents: i64,
    /// Identifier of the topup, used to find the payment again.
    pub topup: &'a str,
}

impl SavedCardPayment<'_> {
    pub(super) fn form(&self) -> Form {
        Form::default()
            .with("amount", self.amount_cents)
            .with("currency", "usd")
            .with("customer", self.customer)
            .with("payment_method", self.payment_method)
            .with("off_session", true)
            .with("confirm", true)
            .with("metadata[topup]", self.topup)
    }
}

/// Refund request of an operator.
#[derive(Clone, Copy, Debug)]
pub struct RefundOrder<'a> {
    /// Payment that is refunded.
    pub intent: &'a str,
    /// Sum in US cents, or `None` for the whole remaining amount.
    pub amount_cents: Option<i64>,
    /// Name of the refund, used to find it again.
    pub name: &'a str,
}

impl RefundOrder<'_> {
    pub(super) fn form(&self) -> Form {
        Form::default()
            .with("payment_intent", self.intent)
            .with_some("amount", self.amount_cents)
            .with("metadata[refund]", self.name)
    }
}

/// Objects of a page.
pub(super) const LIST: u8 = 100;

/// Part of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// Time of the oldest object, in seconds since 1970.
    pub since: Option<i64>,
    /// Last object of the page before this one.
    pub after: Option<&'a str>,
}

impl Part<'_> {
    /// Adds the part to the form of a list, with the maximum page size.
    pub(super) fn form(&self, form: Form) -> Form {
        form.with("limit", LIST)
            .with_some("created[gte]", self.since)
            .with_some("starting_after", self.after)
    }
}

/// Filter for a list of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventFilter<'a> {
    /// Types of events; empty: all.
    pub kinds: &'a [&'a str],
    /// Time of the oldest event, in seconds since 1970.
    pub since: Option<i64>,
    /// Last event of the page before this one.
    pub after: Option<&'a str>,
    /// Maximum number of events on a page: 1 to 100.
    pub limit: u8,
}

impl EventFilter<'_> {
    pub(super) fn form(&self) -> Form {
        let mut form = Form::default().with("limit", self.limit);
        for (at, kind) in self.kinds.iter().enumerate() {
            form = form.with(&format!("types[{at}]"), *kind);
        }
        form.with_some("created[gte]", self.since)
            .with_some("starting_after", self.after)
    }
}
