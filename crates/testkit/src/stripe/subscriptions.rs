//! Subscriptions to licences: their prices, and their changes by the portal and by time.

use serde_json::{Value, json};

use super::{
    failure::Failure,
    form::{Metadata, Parameters},
    records::{Price, Record, Subscription, list, with_nulls},
    state::{State, new_id},
};

/// Length of a period, in seconds.
const PERIOD: i64 = 30 * 86_400;

/// Change of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// The next period begins, and was paid.
    Renewed,
    /// The next period begins, and its payment failed.
    PastDue,
    /// The customer pays a period that was past due.
    Paid,
    /// No attempt to charge has succeeded, and the settings of the account keep the subscription.
    Unpaid,
    /// The customer cancels at the end of the period.
    CanceledAtPeriodEnd,
    /// The customer takes the cancellation back.
    Resumed,
    /// The subscription ends.
    Ended,
}

impl State {
    /// Makes a monthly price. Replaces the one with this identifier; subscriptions keep theirs.
    pub(super) fn add_price(&mut self, id: &str, amount: i64) {
        let price = Price {
            id: id.to_owned(),
            created: self.now(),
            product: new_id("prod_"),
            amount,
        };
        self.prices.insert(id.to_owned(), price);
    }

    /// Subscribes a customer. Returns the subscription.
    pub(super) fn subscribe(
        &mut self,
        customer: &str,
        (price, quantity): (&str, i64),
        metadata: Metadata,
    ) -> Result<String, Failure> {
        self.customers.named(customer, "customer")?;
        let price = self.prices.get(price).cloned();
        let price = price.ok_or_else(|| Failure::no_such("price", "", "line_items[0][price]"))?;
        let (id, created) = (new_id("sub_"), self.now());
        let subscription = Subscription {
            id: id.clone(),
            item: new_id("si_"),
            created,
            customer: customer.to_owned(),
            price,
            quantity,
            metadata,
            status: "active",
            period_start: created,
            period_end: created + PERIOD,
            cancel_at_period_end: false,
            canceled_at: None,
            ended_at: None,
        };
        let object = subscription.render();
        self.subscriptions.push(subscription);
        self.tell("customer.subscription.created", object);
        Ok(id)
    }

    /// Changes a subscription.
    pub(super) fn change_subscription(
        &mut self,
        id: &str,
        change: SubscriptionChange,
    ) -> Result<(), Failure> {
        self.subscriptions.named(id, "subscription")?;
        let now = self.now();
        self.subscriptions.change(id, |subscription| match change {
            SubscriptionChange::Renewed => {
                subscription.status = "active";
                subscription.begin_period();
            }
            SubscriptionChange::PastDue => {
                subscription.status = "past_due";
                subscription.begin_period();
            }
            SubscriptionChange::Paid => subscription.status = "active",
            SubscriptionChange::Unpaid => subscription.status = "unpaid",
            SubscriptionChange::CanceledAtPeriodEnd => {
                subscription.cancel_at_period_end = true;
                subscription.canceled_at = Some(now);
            }
            SubscriptionChange::Resumed => {
                subscription.cancel_at_period_end = false;
                subscription.canceled_at = None;
            }
            SubscriptionChange::Ended => {
                subscription.status = "canceled";
                subscription.canceled_at = subscription.canceled_at.or(Some(now));
                subscription.ended_at = Some(now);
            }
        });
        let kind = match change {
            SubscriptionChange::Renewed
            | SubscriptionChange::PastDue
            | SubscriptionChange::Paid
            | SubscriptionChange::Unpaid
            | SubscriptionChange::CanceledAtPeriodEnd
            | SubscriptionChange::Resumed => "customer.subscription.updated",
            SubscriptionChange::Ended => "customer.subscription.deleted",
        };
        if let Some(object) = self.subscriptions.get(id).map(Record::render) {
            self.tell(kind, object);
        }
        Ok(())
    }

    /// Ends a subscription at once, as a request asks for it.
    pub(super) fn cancel_subscription(&mut self, id: &str, parameters: Parameters) -> Result<Value, Failure> {
        parameters.finish()?;
        let subscription = self.subscriptions.named(id, "id")?;
        if subscription.ended_at.is_some() {
            return Err(Failure::no_such("subscription", id, "id"));
        }
        self.change_subscription(id, SubscriptionChange::Ended)?;
        self.subscriptions.read(id)
    }

    /// Replaces the price of a subscription, as the customer does in the portal.
    pub(super) fn change_price(&mut self, id: &str, price: &str, quantity: i64) -> Result<(), Failure> {
        self.subscriptions.named(id, "subscription")?;
        let price = self.prices.get(price).cloned();
        let price = price.ok_or_else(|| Failure::no_such("price", "", "items[0][price]"))?;
        self.subscriptions.change(id, |subscription| {
            subscription.price = price;
            subscription.quantity = quantity;
        });
        if let Some(object) = self.subscriptions.get(id).map(Record::render) {
            self.tell("customer.subscription.updated", object);
        }
        Ok(())
    }
}

impl Price {
    fn render(&self) -> Value {
        let recurring = json!({
            "interval": "month", "interval_count": 1, "meter": null, "trial_period_days": null, "usage_type": "licensed",
        });
        let names = "custom_unit_amount lookup_key nickname tiers_mode transform_quantity";
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "price",
                "active": true,
                "billing_scheme": "per_unit",
                "created": self.created,
                "currency": "usd",
                "livemode": false,
                "metadata": {},
                "product": self.product,
                "recurring": recurring,
                "tax_behavior": "unspecified",
                "type": "recurring",
                "unit_amount": self.amount,
                "unit_amount_decimal": self.amount.to_string(),
            }),
        )
    }

    /// Price in the older form, which subscriptions still have.
    fn plan(&self) -> Value {
        let names = "meter nickname tiers_mode transform_usage trial_period_days";
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "plan",
                "active": true,
                "amount": self.amount,
                "amount_decimal": self.amount.to_string(),
                "billing_scheme": "per_unit",
                "created": self.created,
                "currency": "usd",
                "interval": "month",
                "interval_count": 1,
                "livemode": false,
                "metadata": {},
                "product": self.product,
                "usage_type": "licensed",
            }),
        )
    }
}

impl Subscription {
    fn begin_period(&mut self) {
        self.period_start = self.period_end;
        self.period_end += PERIOD;
    }

    fn items(&self) -> Value {
        let item = json!({
            "id": self.item,
            "object": "subscription_item",
            "billing_thresholds": null,
            "created": self.created,
            "current_period_end": self.period_end,
            "current_period_start": self.period_start,
            "current_trial": null,
            "discounts": [],
            "metadata": {},
            "plan": self.price.plan(),
            "price": self.price.render(),
            "quantity": self.quantity,
            "subscription": self.id,
            "tax_rates": [],
        });
        list(
            &format!("/v1/subscription_items?subscription={}", self.id),
            &[item],
            false,
        )
    }
}

impl Record for Subscription {
    const KIND: &'static str = "subscription";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let names = "application application_fee_percent billing_cycle_anchor_config billing_thresholds \
            customer_account days_until_due default_payment_method default_source description latest_invoice \
            managed_payments next_pending_invoice_item_invoice on_behalf_of pause_collection \
            pending_invoice_item_interval pending_setup_intent pending_update schedule test_clock transfer_data \
            trial_end trial_settings trial_start";
        let invoice_settings = with_nulls(
            "account_tax_ids custom_fields description footer",
            json!({"issuer": {"type": "self"}}),
        );
        let payment_settings = json!({
            "payment_method_options": null, "payment_method_types": null, "save_default_payment_method": "off",
        });
        let cancellation = with_nulls("comment feedback feedback_option reason", json!({}));
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "subscription",
                "automatic_tax": {"disabled_reason": null, "enabled": false, "liability": null},
                "billing_cycle_anchor": self.created,
                "billing_mode": {"flexible": null, "type": "classic"},
                "billing_schedules": [],
                "cancel_at": self.cancel_at_period_end.then_some(self.period_end),
                "cancel_at_period_end": self.cancel_at_period_end,
                "canceled_at": self.canceled_at,
                "cancellation_details": cancellation,
                "collection_method": "charge_automatically",
                "created": self.created,
                "currency": "usd",
                "customer": self.customer,
                "discounts": [],
                "ended_at": self.ended_at,
                "invoice_settings": invoice_settings,
                "items": self.items(),
                "livemode": false,
                "metadata": self.metadata,
                "payment_settings": payment_settings,
                "start_date": self.created,
                "status": self.status,
            }),
        )
    }
}
