//! Customers, cards, payment intents, charges and refunds.

use serde_json::{Value, json};

use super::{
    cards::Card,
    failure::{Failure, LARGEST_AMOUNT, LEAST_AMOUNT},
    form::Parameters,
    records::{Charge, Customer, Intent, PaymentMethod, Record as _, Refund, list},
    state::{PageRequest, State, new_id},
};

/// Presence of the customer, who can authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    OnSession,
    OffSession,
}

/// Outcome of a payment that was processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The money has come.
    Paid,
    /// The bank declined in the end.
    Failed,
}

/// Refuses amounts that no payment can have.
pub(super) fn check_amount(amount: i64, param: &str) -> Result<(), Failure> {
    if amount < LEAST_AMOUNT {
        let message = "Amount must be at least $0.50 usd";
        return Err(Failure::parameter("amount_too_small", param, message));
    }
    if amount > LARGEST_AMOUNT {
        let message = "Amount must be no more than $999,999.99";
        return Err(Failure::parameter("amount_too_large", param, message));
    }
    Ok(())
}

impl State {
    pub(super) fn create_customer(&mut self, mut parameters: Parameters) -> Result<Value, Failure> {
        let customer = Customer {
            id: new_id("cus_"),
            created: self.now(),
            email: parameters.text("email")?,
            name: parameters.text("name")?,
            description: parameters.text("description")?,
            metadata: parameters.metadata()?,
            default_card: None,
        };
        parameters.finish()?;
        let object = customer.render();
        self.customers.push(customer);
        self.tell("customer.created", object.clone());
        Ok(object)
    }

    pub(super) fn create_payment_method(&mut self, mut parameters: Parameters) -> Result<Value, Failure> {
        let kind = parameters.needed_text("type")?;
        let mut card = parameters.object("card")?;
        let number = card.needed_text("number")?;
        let (_month, _year) = (
            card.needed_integer("exp_month")?,
            card.needed_integer("exp_year")?,
        );
        let _code = card.text("cvc")?;
        card.finish()?;
        parameters.finish()?;
        let card = Card::of_number(&number)
            .filter(|_| kind == "card")
            .ok_or_else(|| {
                Failure::parameter(
                    "incorrect_number",
                    "card[number]",
                    "Your card number is incorrect.",
                )
            })?;
        let id = self.add_card(None, card);
        self.payment_methods.read(&id)
    }

    /// Adds a card. Saves it for a customer if one is named.
    pub(super) fn add_card(&mut self, customer: Option<String>, card: Card) -> String {
        let id = new_id("pm_");
        self.payment_methods.push(PaymentMethod {
            id: id.clone(),
            created: self.now(),
            customer,
            card,
            is_detached: false,
        });
        id
    }

    pub(super) fn attach_payment_method(
        &mut self,
        id: &str,
        mut parameters: Parameters,
    ) -> Result<Value, Failure> {
        let customer = parameters.needed_text("customer")?;
        parameters.finish()?;
        self.payment_methods.read(id)?;
        self.customers.named(&customer, "customer")?;
        self.save_card(id, &customer);
        self.payment_methods.read(id)
    }

    /// Saves a card for a customer.
    pub(super) fn save_card(&mut self, id: &str, customer: &str) {
        self.payment_methods
            .change(id, |method| method.customer = Some(customer.to_owned()));
        if let Ok(object) = self.payment_methods.read(id) {
            self.tell("payment_method.attached", object);
        }
    }

    /// Removes the saved cards of a customer.
    pub(super) fn remove_cards(&mut self, customer: &str) -> Result<(), Failure> {
        self.customers.named(customer, "customer")?;
        let saved: Vec<_> = self
            .payment_methods
            .all()
            .filter(|method| method.customer.as_deref() == Some(customer))
            .map(|method| method.id.clone())
            .collect();
        for id in saved {
            self.payment_methods.change(&id, |method| {
                method.customer = None;
                method.is_detached = true;
            });
            if let Ok(object) = self.payment_methods.read(&id) {
                self.tell("payment_method.detached", object);
            }
        }
        self.customers
            .change(customer, |customer| customer.default_card = None);
        Ok(())
    }

    pub(super) fn list_payment_methods(
        &self,
        customer: &str,
        mut parameters: Parameters,
    ) -> Result<Value, Failure> {
        let asked = PageRequest::read(&mut parameters)?;
        let _kind = parameters.one_of("type", &["card"])?;
        parameters.finish()?;
        self.customers.read(customer)?;
        let url = format!("/v1/customers/{customer}/payment_methods");
        let saved = |method: &PaymentMethod| method.customer.as_deref() == Some(customer);
        self.payment_methods.page(&url, &asked, saved)
    }

    pub(super) fn create_intent(&mut self, mut parameters: Parameters) -> Result<Value, Failure> {
        let amount = parameters.needed_integer("amount")?;
        let currency = parameters.needed_text("currency")?;
        let customer = parameters.text("customer")?;
        let payment_method = parameters.text("payment_method")?;
        let (confirm, off_session) = (parameters.flag("confirm")?, parameters.flag("off_session")?);
        let fails_on_action = parameters.flag("error_on_requires_action")?;
        let intent = Intent {
            id: new_id("pi_"),
            created: self.now(),
            amount,
            currency,
            customer,
            payment_method,
            metadata: parameters.metadata()?,
            description: parameters.text("description")?,
            setup_future_usage: parameters.one_of("setup_future_usage", &["off_session", "on_session"])?,
            status: "requires_payment_method",
            latest_charge: None,
            last_error: None,
            canceled_at: None,
            cancellation_reason: None,
        };
        parameters.finish()?;
        check_amount(amount, "amount")?;
        if off_session && !confirm {
            let message = "You can only set `off_session` to `true` when `confirm` is `true`.";
            return Err(Failure::invalid(message).with("param", "off_session"));
        }
        if let Some(customer) = &intent.customer {
            self.customers.named(customer, "customer")?;
        }
        let card = self.card_of(&intent)?;
        if confirm && card.is_none() {
            return Err(Failure::missing("payment_method"));
        }
        let id = intent.id.clone();
        let status = if card.is_some() {
            "requires_confirmation"
        } else {
            "requires_payment_method"
        };
        self.intents.push(Intent { status, ..intent });
        self.tell_of_intent("payment_intent.created", &id);
        if let Some(card) = card.filter(|_| confirm) {
            let presence = if off_session {
                Presence::OffSession
            } else {
                Presence::OnSession
            };
            self.attempt(&id, card, presence)?;
            if fails_on_action
                && self
                    .intents
                    .get(&id)
                    .is_some_and(|of| of.status == "requires_action")
            {
                return Err(self.refuse_payment(&id, card, "authentication_required"));
            }
        }
        self.intents.read(&id)
    }

    /// Returns the card that an intent names: one of its customer, or one without a customer.
    fn card_of(&self, intent: &Intent) -> Result<Option<Card>, Failure> {
        let Some(id) = &intent.payment_method else {
            return Ok(None);
        };
        let method = self.payment_methods.named(id, "payment_method")?;
        if method.customer.is_some() && method.customer != intent.customer {
            let message = "The provided PaymentMethod cannot be used: it belongs to another Customer.";
            return Err(Failure::invalid(message).with("param", "payment_method"));
        }
        if method.is_detached {
            let message =
                "The provided PaymentMethod was detached from a Customer. It may not be used again.";
            return Err(Failure::invalid(message));
        }
        Ok(Some(method.card))
    }

    /// Charges the card of an intent.
    pub(super) fn attempt(&mut self, id: &str, card: Card, presence: Presence) -> Result<(), Failure> {
        if card.decline_code().is_some() {
            return Err(self.refuse_payment(id, card, "card_declined"));
        }
        match (card, presence) {
            (Card::NeedsAuthentication, Presence::OffSession) => {
                Err(self.refuse_payment(id, card, "authentication_required"))
            }
            _ if card.needs_the_customer() => {
                self.intents
                    .change(id, |intent| intent.status = "requires_action");
                self.tell_of_intent("payment_intent.requires_action", id);
                Ok(())
            }
            (Card::Slow, _) => {
                self.add_charge(id, card, "pending");
                self.intents.change(id, |intent| intent.status = "processing");
                self.tell_of_intent("payment_intent.processing", id);
                Ok(())
            }
            _ => {
                self.succeed(id, card);
                Ok(())
            }
        }
    }

    /// The bank pays.
    pub(super) fn succeed(&mut self, id: &str, card: Card) {
        let charge = self.add_charge(id, card, "succeeded");
        self.intents.change(id, |intent| {
            intent.status = "succeeded";
            intent.last_error = None;
        });
        self.tell_of_charge("charge.succeeded", &charge);
        self.tell_of_intent("payment_intent.succeeded", id);
    }

    fn add_charge(&mut self, intent: &str, card: Card, status: &'static str) -> String {
        let id = new_id("ch_");
        let Some(of) = self.intents.get(intent).cloned() else {
            return id;
        };
        let has_receipt = status == "succeeded" && !self.without_receipts;
        let charge = Charge {
            id: id.clone(),
            created: self.now(),
            amount: of.amount,
            currency: of.currency,
            customer: of.customer,
            intent: intent.to_owned(),
            payment_method: of.payment_method.unwrap_or_default(),
            card,
            metadata: of.metadata,
            description: of.description,
            status,
            refunded: 0,
            disputed: false,
            receipt_url: has_receipt.then(|| format!("https://pay.stripe.com/receipts/payment/{id}")),
        };
        self.charges.push(charge);
        self.intents
            .change(intent, |intent| intent.latest_charge = Some(id.clone()));
        id
    }

    /// The bank declines, or requires authentication. Returns the answer to the request.
    fn refuse_payment(&mut self, id: &str, card: Card, code: &str) -> Failure {
        let charge = self.add_charge(id, card, "failed");
        let method = self
            .intents
            .get(id)
            .and_then(|intent| intent.payment_method.clone());
        let method = method.and_then(|method| self.payment_methods.read(&method).ok());
        let (decline, message) = match card.decline_code() {
            Some("insufficient_funds") => ("insufficient_funds", "Your card has insufficient funds."),
            Some(decline) => (decline, "Your card was declined."),
            None => (
                "authentication_required",
                "Your card was declined. This transaction requires authentication.",
            ),
        };
        let error = json!({
            "type": "card_error", "code": code, "decline_code": decline, "message": message, "charge": charge,
            "payment_method": method,
        });
        self.intents.change(id, |intent| {
            intent.status = "requires_payment_method";
            intent.payment_method = None;
            intent.last_error = Some(error);
        });
        self.tell_of_charge("charge.failed", &charge);
        self.tell_of_intent("payment_intent.payment_failed", id);
        Failure::card(code, message)
            .with("decline_code", decline)
            .with("charge", charge)
            .with("payment_intent", self.intents.read(id).unwrap_or_default())
            .with("payment_method", method)
    }

    /// Ends a payment that was processing.
    pub(super) fn settle(&mut self, id: &str, settlement: Settlement) -> Result<(), Failure> {
        let intent = self.intents.named(id, "intent")?.clone();
        let charge = intent.latest_charge.filter(|_| intent.status == "processing");
        let charge = charge.ok_or_else(|| Failure::invalid("This payment is not processing."))?;
        let (status, of_charge, of_intent) = match settlement {
            Settlement::Paid => ("succeeded", "charge.succeeded", "payment_intent.succeeded"),
            Settlement::Failed => (
                "requires_payment_method",
                "charge.failed",
                "payment_intent.payment_failed",
            ),
        };
        self.charges.change(&charge, |charge| match settlement {
            Settlement::Paid => charge.status = "succeeded",
            Settlement::Failed => charge.status = "failed",
        });
        self.intents.change(id, |intent| intent.status = status);
        self.tell_of_charge(of_charge, &charge);
        self.tell_of_intent(of_intent, id);
        self.settle_session(id, settlement);
        Ok(())
    }

    pub(super) fn list_intents(&self, mut parameters: Parameters) -> Result<Value, Failure> {
        let asked = PageRequest::read(&mut parameters)?;
        let customer = parameters.text("customer")?;
        parameters.finish()?;
        let of = |intent: &Intent| customer.is_none() || intent.customer == customer;
        self.intents.page("/v1/payment_intents", &asked, of)
    }

    pub(super) fn cancel_intent(&mut self, id: &str, mut parameters: Parameters) -> Result<Value, Failure> {
        let reasons = ["abandoned", "duplicate", "fraudulent", "requested_by_customer"];
        let reason = parameters.one_of("cancellation_reason", &reasons)?;
        parameters.finish()?;
        self.intents.read(id)?;
        let status = self.intents.get(id).map_or("", |intent| intent.status);
        if matches!(status, "succeeded" | "canceled" | "processing") {
            let message =
                format!("You cannot cancel this PaymentIntent because it has a status of {status}.");
            return Err(Failure::invalid(message).with("code", "payment_intent_unexpected_state"));
        }
        let now = self.now();
        self.intents.change(id, |intent| {
            intent.status = "canceled";
            intent.canceled_at = Some(now);
            intent.cancellation_reason = reason;
        });
        self.tell_of_intent("payment_intent.canceled", id);
        self.intents.read(id)
    }

    /// Returns the charge of a paid intent.
    pub(super) fn paid_charge(&self, intent: &str) -> Result<Charge, Failure> {
        let intent = self.intents.named(intent, "payment_intent")?;
        let charge = intent
            .latest_charge
            .as_deref()
            .and_then(|id| self.charges.get(id));
        let paid = charge.filter(|charge| charge.status == "succeeded").cloned();
        paid.ok_or_else(|| {
            let message = format!(
                "This PaymentIntent ({}) does not have a successful charge to refund.",
                intent.id
            );
            Failure::invalid(message).with("param", "payment_intent")
        })
    }

    pub(super) fn create_refund(&mut self, mut parameters: Parameters) -> Result<Value, Failure> {
        let (charge, intent) = (parameters.text("charge")?, parameters.text("payment_intent")?);
        let amount = parameters.integer("amount")?;
        let reason = parameters.one_of("reason", &["duplicate", "fraudulent", "requested_by_customer"])?;
        let metadata = parameters.metadata()?;
        parameters.finish()?;
        let charge = match (charge, intent) {
            (Some(charge), _) => self.charges.named(&charge, "charge")?.clone(),
            (None, Some(intent)) => self.paid_charge(&intent)?,
            (None, None) => {
                let message = "One of the following params should be provided: payment_intent or charge.";
                return Err(Failure::invalid(message));
            }
        };
        let left = charge.amount - charge.refunded;
        if left <= 0 {
            let message = format!("Charge {} has already been refunded.", charge.id);
            return Err(Failure::invalid(message)
                .with("code", "charge_already_refunded")
                .begun());
        }
        if self.is_charged_back(&charge.id) {
            let message = format!(
                "Charge {} has been charged back; cannot issue a refund.",
                charge.id
            );
            return Err(Failure::invalid(message).with("code", "charge_disputed").begun());
        }
        let amount = amount.unwrap_or(left);
        if amount < 1 {
            return Err(Failure::parameter(
                "parameter_invalid_integer",
                "amount",
                "Invalid positive integer",
            ));
        }
        if amount > left {
            let message =
                format!("Refund amount ({amount}) is greater than unrefunded amount on charge ({left})");
            return Err(Failure::invalid(message).with("param", "amount").begun());
        }
        let refund = Refund {
            id: new_id("re_"),
            created: self.now(),
            amount,
            currency: charge.currency,
            customer: charge.customer,
            charge: charge.id.clone(),
            intent: charge.intent,
            payment_method: charge.payment_method,
            reason,
            metadata,
            status: "succeeded",
        };
        let object = refund.render();
        self.refunds.push(refund);
        self.charges
            .change(&charge.id, |charge| charge.refunded += amount);
        self.tell("refund.created", object.clone());
        self.tell_of_charge("charge.refunded", &charge.id);
        Ok(object)
    }

    fn is_charged_back(&self, charge: &str) -> bool {
        self.disputes
            .all()
            .any(|dispute| dispute.charge == charge && dispute.is_withdrawn)
    }

    pub(super) fn list_refunds(&self, mut parameters: Parameters) -> Result<Value, Failure> {
        let asked = PageRequest::read(&mut parameters)?;
        let (charge, intent) = (parameters.text("charge")?, parameters.text("payment_intent")?);
        parameters.finish()?;
        let of = |refund: &Refund| {
            charge.as_ref().is_none_or(|id| *id == refund.charge)
                && intent.as_ref().is_none_or(|id| *id == refund.intent)
        };
        self.refunds.page("/v1/refunds", &asked, of)
    }

    /// The customer's bank rejects a refund: the money comes back.
    pub(super) fn fail_refund(&mut self, id: &str) -> Result<(), Failure> {
        let refund = self.refunds.named(id, "refund")?.clone();
        if refund.status == "failed" {
            return Err(Failure::invalid("This refund has failed before."));
        }
        self.refunds.change(id, |refund| refund.status = "failed");
        self.charges
            .change(&refund.charge, |charge| charge.refunded -= refund.amount);
        let object = self.refunds.read(id)?;
        for kind in ["refund.updated", "refund.failed", "charge.refund.updated"] {
            self.tell(kind, object.clone());
        }
        Ok(())
    }

    pub(super) fn create_portal_session(&mut self, mut parameters: Parameters) -> Result<Value, Failure> {
        let customer = parameters.needed_text("customer")?;
        let return_url = parameters.text("return_url")?;
        parameters.finish()?;
        self.customers.named(&customer, "customer")?;
        let id = new_id("bps_");
        Ok(json!({
            "id": id,
            "object": "billing_portal.session",
            "configuration": "bpc_double",
            "created": self.now(),
            "customer": customer,
            "customer_account": null,
            "flow": null,
            "livemode": false,
            "locale": null,
            "on_behalf_of": null,
            "return_url": return_url,
            "url": format!("{}/p/session/{id}", self.base_url),
        }))
    }

    pub(super) fn read_account(&self) -> Value {
        json!({
            "id": self.account,
            "object": "account",
            "business_type": "company",
            "charges_enabled": !self.is_incomplete,
            "country": "US",
            "default_currency": "usd",
            "details_submitted": !self.is_incomplete,
            "email": "operator@example.com",
            "external_accounts": list("/v1/accounts/external_accounts", &[], false),
            "payouts_enabled": true,
            "type": "standard",
        })
    }

    pub(super) fn tell_of_intent(&mut self, kind: &'static str, id: &str) {
        if let Ok(object) = self.intents.read(id) {
            self.tell(kind, object);
        }
    }

    fn tell_of_charge(&mut self, kind: &'static str, id: &str) {
        if let Ok(object) = self.charges.read(id) {
            self.tell(kind, object);
        }
    }
}
