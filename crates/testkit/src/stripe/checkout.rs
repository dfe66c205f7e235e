//! Checkout sessions, and the customer who pays on their page.

use serde_json::{Value, json};

use super::{
    cards::Card,
    failure::Failure,
    form::Parameters,
    payments::{Presence, Settlement, check_amount},
    records::{Intent, Record, Session, with_nulls},
    state::{PageRequest, State, new_id},
};

/// Minimum and maximum time until a session expires, in seconds.
const EXPIRY: (i64, i64) = (30 * 60, 24 * 3_600);

/// Goods of a session, with their sum.
struct Order {
    amount: i64,
    currency: String,
    price: Option<(String, i64)>,
}

impl State {
    pub(super) fn create_session(&mut self, mut parameters: Parameters) -> Result<Value, Failure> {
        let mode = parameters.one_of("mode", &["payment", "subscription"])?;
        let mode = mode.ok_or_else(|| Failure::missing("mode"))?;
        let order = self.order(&mode, parameters.objects("line_items")?)?;
        let mut intent_data = parameters.object("payment_intent_data")?;
        let mut subscription_data = parameters.object("subscription_data")?;
        let has_wrong_data = match mode.as_str() {
            "payment" => !subscription_data.is_empty(),
            _ => !intent_data.is_empty(),
        };
        if has_wrong_data {
            let message = format!("You cannot pass these data in `{mode}` mode.");
            return Err(Failure::invalid(message));
        }
        let (id, created) = (new_id("cs_test_"), self.now());
        let (least, most) = EXPIRY;
        let expires_at = parameters.integer("expires_at")?.unwrap_or(created + most);
        let session = Session {
            url: format!("{}/c/pay/{id}", self.base_url),
            id,
            created,
            expires_at,
            status: "open",
            payment_status: "unpaid",
            amount: order.amount,
            currency: order.currency,
            price: order.price,
            customer: parameters.text("customer")?,
            client_reference_id: parameters.text("client_reference_id")?,
            metadata: parameters.metadata()?,
            intent: None,
            intent_metadata: intent_data.metadata()?,
            intent_description: intent_data.text("description")?,
            setup_future_usage: intent_data.one_of("setup_future_usage", &["off_session", "on_session"])?,
            subscription_metadata: subscription_data.metadata()?,
            subscription: None,
            success_url: parameters.needed_text("success_url")?,
            cancel_url: parameters.text("cancel_url")?,
            mode,
        };
        intent_data.finish()?;
        subscription_data.finish()?;
        parameters.finish()?;
        // The clock of the caller may differ by some seconds.
        if !(created + least - 60..=created + most + 60).contains(&expires_at) {
            let message = "The `expires_at` timestamp must be from 30 minutes to 24 hours from Checkout Session creation.";
            return Err(Failure::invalid(message).with("param", "expires_at"));
        }
        if let Some(customer) = &session.customer {
            self.customers.named(customer, "customer")?;
        }
        let object = session.render();
        self.sessions.push(session);
        Ok(object)
    }

    pub(super) fn list_sessions(&self, mut parameters: Parameters) -> Result<Value, Failure> {
        let asked = PageRequest::read(&mut parameters)?;
        let customer = parameters.text("customer")?;
        let status = parameters.one_of("status", &["complete", "expired", "open"])?;
        parameters.finish()?;
        let of = |session: &Session| {
            let is_of_status = status.as_deref().is_none_or(|status| session.status == status);
            is_of_status && (customer.is_none() || session.customer == customer)
        };
        self.sessions.page("/v1/checkout/sessions", &asked, of)
    }

    /// Reads the items of a session: exactly one, with an inline price or the price of a subscription.
    fn order(&self, mode: &str, items: Vec<Parameters>) -> Result<Order, Failure> {
        let mut items = items.into_iter();
        let (Some(mut item), None) = (items.next(), items.next()) else {
            return Err(Failure::missing("line_items"));
        };
        let quantity = item.needed_integer("quantity")?;
        let order = if mode == "subscription" {
            let id = item.needed_text("price")?;
            let price = self.prices.get(&id);
            let price = price.ok_or_else(|| Failure::no_such("price", &id, "line_items[0][price]"))?;
            Order {
                amount: price.amount * quantity,
                currency: "usd".to_owned(),
                price: Some((id, quantity)),
            }
        } else {
            let mut data = item.object("price_data")?;
            let amount = data.needed_integer("unit_amount")? * quantity;
            let currency = data.needed_text("currency")?;
            let mut product = data.object("product_data")?;
            product.needed_text("name")?;
            product.text("description")?;
            product.finish()?;
            data.finish()?;
            check_amount(amount, "line_items[0][price_data][unit_amount]")?;
            Order {
                amount,
                currency,
                price: None,
            }
        };
        item.finish()?;
        Ok(order)
    }

    pub(super) fn expire_session(&mut self, id: &str, parameters: Parameters) -> Result<Value, Failure> {
        parameters.finish()?;
        self.sessions.read(id)?;
        let status = self.sessions.get(id).map_or("", |session| session.status);
        if status != "open" {
            let message = format!(
                "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of \
                 `{status}`."
            );
            return Err(Failure::invalid(message));
        }
        self.end_session(id);
        self.sessions.read(id)
    }

    fn end_session(&mut self, id: &str) {
        self.sessions.change(id, |session| session.status = "expired");
        self.tell_of_session("checkout.session.expired", id);
    }

    /// Expires the sessions that are due.
    pub(super) fn expire_sessions(&mut self) {
        let now = self.now();
        let due: Vec<_> = self
            .sessions
            .all()
            .filter(|session| session.status == "open" && session.expires_at <= now)
            .map(|session| session.id.clone())
            .collect();
        for id in due {
            self.end_session(&id);
        }
    }

    fn open_session(&self, id: &str) -> Result<Session, Failure> {
        let session = self.sessions.named(id, "session")?;
        if session.status == "open" {
            Ok(session.clone())
        } else {
            let message = format!("This session is {}.", session.status);
            Err(Failure::invalid(message))
        }
    }

    /// The customer enters a card and pays. The error is the message that the page shows.
    pub(super) fn pay(&mut self, id: &str, card: Card) -> Result<(), Failure> {
        let session = self.open_session(id)?;
        if session.mode == "subscription" {
            return self.pay_subscription(&session, card);
        }
        let intent = match session.intent.clone() {
            Some(intent) => intent,
            None => self.intent_of_session(&session),
        };
        let method = self.add_card(None, card);
        self.intents
            .change(&intent, |intent| intent.payment_method = Some(method));
        self.attempt(&intent, card, Presence::OnSession)?;
        self.complete(&session, &intent);
        Ok(())
    }

    /// The customer authenticates, or fails to.
    pub(super) fn authenticate(&mut self, id: &str, passes: bool) -> Result<(), Failure> {
        let session = self.open_session(id)?;
        let intent = session
            .intent
            .as_deref()
            .and_then(|id| self.intents.get(id))
            .cloned();
        let intent = intent.filter(|intent| intent.status == "requires_action");
        let intent = intent.ok_or_else(|| Failure::invalid("There is nothing to authenticate."))?;
        let method = intent.payment_method.as_deref();
        let card = method
            .and_then(|id| self.payment_methods.get(id))
            .map(|method| method.card);
        if let Some(card) = card.filter(|_| passes) {
            self.succeed(&intent.id, card);
            self.complete(&session, &intent.id);
            return Ok(());
        }
        self.intents
            .change(&intent.id, |intent| intent.status = "requires_payment_method");
        self.tell_of_intent("payment_intent.payment_failed", &intent.id);
        let message = "We are unable to authenticate your payment method.";
        Err(Failure::card("payment_intent_authentication_failure", message))
    }

    /// Stripe makes the intent of a session when the customer tries to pay.
    fn intent_of_session(&mut self, session: &Session) -> String {
        let id = new_id("pi_");
        self.intents.push(Intent {
            id: id.clone(),
            created: self.now(),
            amount: session.amount,
            currency: session.currency.clone(),
            customer: session.customer.clone(),
            payment_method: None,
            metadata: session.intent_metadata.clone(),
            description: session.intent_description.clone(),
            setup_future_usage: session.setup_future_usage.clone(),
            status: "requires_payment_method",
            latest_charge: None,
            last_error: None,
            canceled_at: None,
            cancellation_reason: None,
        });
        self.sessions
            .change(&session.id, |session| session.intent = Some(id.clone()));
        self.tell_of_intent("payment_intent.created", &id);
        id
    }

    /// Completes a session after its payment has succeeded, or is processing.
    fn complete(&mut self, session: &Session, intent: &str) {
        let Some(intent) = self.intents.get(intent).cloned() else {
            return;
        };
        let payment_status = match intent.status {
            "succeeded" => "paid",
            "processing" => "unpaid",
            _ => return,
        };
        if let (Some(_), Some(customer), Some(method)) = (
            &session.setup_future_usage,
            &session.customer,
            &intent.payment_method,
        ) {
            self.save_card(method, customer);
        }
        self.sessions.change(&session.id, |session| {
            session.status = "complete";
            session.payment_status = payment_status;
        });
        self.tell_of_session("checkout.session.completed", &session.id);
    }

    fn pay_subscription(&mut self, session: &Session, card: Card) -> Result<(), Failure> {
        if card != Card::Good {
            return Err(Failure::card("card_declined", "Your card was declined."));
        }
        let customer = session.customer.clone();
        let customer = customer.ok_or_else(|| Failure::missing("customer"))?;
        let (price, quantity) = session.price.clone().unwrap_or_default();
        let method = self.add_card(None, card);
        self.save_card(&method, &customer);
        let metadata = session.subscription_metadata.clone();
        let subscription = self.subscribe(&customer, (&price, quantity), metadata)?;
        self.sessions.change(&session.id, |session| {
            session.subscription = Some(subscription);
            session.status = "complete";
            session.payment_status = "paid";
        });
        self.tell_of_session("checkout.session.completed", &session.id);
        Ok(())
    }

    /// Reports the outcome of a payment that a session left processing.
    pub(super) fn settle_session(&mut self, intent: &str, settlement: Settlement) {
        let session = self
            .sessions
            .all()
            .find(|session| session.intent.as_deref() == Some(intent));
        let Some(id) = session.map(|session| session.id.clone()) else {
            return;
        };
        match settlement {
            Settlement::Paid => {
                self.sessions
                    .change(&id, |session| session.payment_status = "paid");
                self.tell_of_session("checkout.session.async_payment_succeeded", &id);
            }
            Settlement::Failed => self.tell_of_session("checkout.session.async_payment_failed", &id),
        }
    }

    fn tell_of_session(&mut self, kind: &'static str, id: &str) {
        if let Ok(object) = self.sessions.read(id) {
            self.tell(kind, object);
        }
    }
}

impl Record for Session {
    const KIND: &'static str = "checkout.session";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let names = "after_expiration allow_promotion_codes allowed_payment_method_types billing_address_collection \
            client_secret collected_information consent consent_collection currency_conversion customer_account \
            customer_creation customer_details customer_email discounts integration_identifier invoice \
            invoice_creation locale managed_payments origin_context payment_link payment_method_configuration_details \
            permissions recovered_from saved_payment_method_options setup_intent shipping_address_collection \
            shipping_cost submit_type wallet_options";
        let text = with_nulls(
            "after_submit shipping_address submit terms_of_service_acceptance",
            json!({}),
        );
        let url = (self.status == "open").then_some(&self.url);
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "checkout.session",
                "adaptive_pricing": {"enabled": false},
                "amount_subtotal": self.amount,
                "amount_total": self.amount,
                "automatic_tax": {"enabled": false, "liability": null, "provider": null, "status": null},
                "cancel_url": self.cancel_url,
                "client_reference_id": self.client_reference_id,
                "created": self.created,
                "currency": self.currency,
                "custom_fields": [],
                "custom_text": text,
                "customer": self.customer,
                "expires_at": self.expires_at,
                "livemode": false,
                "metadata": self.metadata,
                "mode": self.mode,
                "payment_intent": self.intent,
                "payment_method_collection": if self.mode == "subscription" { "always" } else { "if_required" },
                "payment_method_options": {},
                "payment_method_types": ["card"],
                "payment_status": self.payment_status,
                "shipping_options": [],
                "status": self.status,
                "subscription": self.subscription,
                "success_url": self.success_url,
                "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
                "ui_mode": "hosted_page",
                "url": url,
            }),
        )
    }
}
