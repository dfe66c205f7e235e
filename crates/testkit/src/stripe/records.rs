//! Records of the double, and their form in version 2026-10-28.endive of the API.

use serde_json::{Map, Value, json};

use super::{VERSION, cards::Card, form::Metadata};

/// Month and year in which cards of the double expire.
const CARD_EXPIRY: (i64, i64) = (12, 2034);

/// Record that is an object of the API.
pub(super) trait Record {
    /// Kind as messages name it.
    const KIND: &'static str;

    fn id(&self) -> &str;
    fn created(&self) -> i64;
    fn render(&self) -> Value;
}

#[derive(Clone, Debug)]
pub(super) struct Customer {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) email: Option<String>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) metadata: Metadata,
    /// Card for invoices, which the customer chooses in the portal.
    pub(super) default_card: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct PaymentMethod {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) customer: Option<String>,
    pub(super) card: Card,
    /// Whether a customer has removed it. A removed card can never be charged again.
    pub(super) is_detached: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) customer: Option<String>,
    pub(super) payment_method: Option<String>,
    pub(super) metadata: Metadata,
    pub(super) description: Option<String>,
    pub(super) setup_future_usage: Option<String>,
    pub(super) status: &'static str,
    pub(super) latest_charge: Option<String>,
    pub(super) last_error: Option<Value>,
    pub(super) canceled_at: Option<i64>,
    pub(super) cancellation_reason: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) customer: Option<String>,
    pub(super) intent: String,
    pub(super) payment_method: String,
    pub(super) card: Card,
    pub(super) metadata: Metadata,
    pub(super) description: Option<String>,
    pub(super) status: &'static str,
    pub(super) refunded: i64,
    pub(super) disputed: bool,
    pub(super) receipt_url: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Refund {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) customer: Option<String>,
    pub(super) charge: String,
    pub(super) intent: String,
    pub(super) payment_method: String,
    pub(super) reason: Option<String>,
    pub(super) metadata: Metadata,
    pub(super) status: &'static str,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) kind: &'static str,
    /// Object as it was then.
    pub(super) object: Value,
    /// Request that caused the event, with its key.
    pub(super) request: Option<(String, Option<String>)>,
}

/// Merges members into an object that has null for them.
pub(super) fn with_nulls(names: &str, known: Value) -> Value {
    let mut members: Map<_, _> = names
        .split_whitespace()
        .map(|name| (name.to_owned(), Value::Null))
        .collect();
    if let Value::Object(known) = known {
        members.extend(known);
    }
    Value::Object(members)
}

/// List of objects, in the form of an answer.
pub(super) fn list(url: &str, data: &[Value], has_more: bool) -> Value {
    json!({"object": "list", "url": url, "has_more": has_more, "data": data})
}

fn billing_details() -> Value {
    with_nulls("email name phone tax_id", json!({"address": no_address()}))
}

fn no_address() -> Value {
    with_nulls("city country line1 line2 postal_code state", json!({}))
}

fn checks() -> Value {
    let names = "address_line1_check address_postal_code_check";
    with_nulls(names, json!({"cvc_check": "pass"}))
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) expires_at: i64,
    pub(super) mode: String,
    pub(super) status: &'static str,
    pub(super) payment_status: &'static str,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) customer: Option<String>,
    pub(super) client_reference_id: Option<String>,
    pub(super) metadata: Metadata,
    pub(super) intent: Option<String>,
    pub(super) intent_metadata: Metadata,
    pub(super) intent_description: Option<String>,
    pub(super) setup_future_usage: Option<String>,
    /// Price of a subscription, with its quantity.
    pub(super) price: Option<(String, i64)>,
    pub(super) subscription_metadata: Metadata,
    pub(super) subscription: Option<String>,
    pub(super) success_url: String,
    pub(super) cancel_url: Option<String>,
    /// Page on which the customer pays.
    pub(super) url: String,
}

#[derive(Clone, Debug)]
pub(super) struct Dispute {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) charge: String,
    pub(super) intent: String,
    pub(super) status: &'static str,
    /// Whether Stripe has taken the money, and not returned it.
    pub(super) is_withdrawn: bool,
    /// Movements of the money.
    pub(super) movements: Vec<Movement>,
}

/// Entry in the balance of the account.
#[derive(Clone, Debug)]
pub(super) struct Movement {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) amount: i64,
}

/// Price of a subscription for a month.
#[derive(Clone, Debug)]
pub(super) struct Price {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) product: String,
    pub(super) amount: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) item: String,
    pub(super) created: i64,
    pub(super) customer: String,
    pub(super) price: Price,
    pub(super) quantity: i64,
    pub(super) metadata: Metadata,
    pub(super) status: &'static str,
    pub(super) period_start: i64,
    pub(super) period_end: i64,
    pub(super) cancel_at_period_end: bool,
    pub(super) canceled_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
}

impl Record for Customer {
    const KIND: &'static str = "customer";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let names = "address currency customer_account default_source discount phone shipping test_clock";
        let invoice_settings = with_nulls(
            "custom_fields footer rendering_options",
            json!({"default_payment_method": self.default_card}),
        );
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "customer",
                "balance": 0,
                "created": self.created,
                "delinquent": false,
                "description": self.description,
                "email": self.email,
                "invoice_prefix": self.id.get(4..12),
                "invoice_settings": invoice_settings,
                "livemode": false,
                "metadata": self.metadata,
                "name": self.name,
                "next_invoice_sequence": 1,
                "preferred_locales": [],
                "tax_exempt": "none",
            }),
        )
    }
}

impl Record for PaymentMethod {
    const KIND: &'static str = "PaymentMethod";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let (month, year) = CARD_EXPIRY;
        let card = with_nulls(
            "generated_from wallet",
            json!({
                "brand": "visa",
                "checks": checks(),
                "country": "US",
                "display_brand": "visa",
                "exp_month": month,
                "exp_year": year,
                "fingerprint": "Xt5EWLLDS7FJjR1c",
                "funding": "credit",
                "last4": self.card.last4(),
                "networks": {"available": ["visa"], "preferred": null},
                "regulated_status": "unregulated",
                "three_d_secure_usage": {"supported": true},
            }),
        );
        json!({
            "id": self.id,
            "object": "payment_method",
            "allow_redisplay": "unspecified",
            "billing_details": billing_details(),
            "card": card,
            "created": self.created,
            "customer": self.customer,
            "customer_account": null,
            "livemode": false,
            "metadata": {},
            "type": "card",
        })
    }
}

impl Intent {
    fn next_action(&self) -> Value {
        if self.status != "requires_action" {
            return Value::Null;
        }
        let sdk = json!({"type": "three_d_secure_redirect", "stripe_js": "https://hooks.stripe.com/"});
        json!({"type": "use_stripe_sdk", "use_stripe_sdk": sdk})
    }
}

impl Record for Intent {
    const KIND: &'static str = "payment_intent";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let received = if self.status == "succeeded" {
            self.amount
        } else {
            0
        };
        let names = "allowed_payment_method_types application application_fee_amount automatic_payment_methods \
            customer_account excluded_payment_method_types managed_payments on_behalf_of \
            payment_method_configuration_details payment_record processing receipt_email review shipping source \
            statement_descriptor statement_descriptor_suffix transfer_data transfer_group";
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "payment_intent",
                "amount": self.amount,
                "amount_capturable": 0,
                "amount_details": {"tip": {}},
                "amount_received": received,
                "canceled_at": self.canceled_at,
                "cancellation_reason": self.cancellation_reason,
                "capture_method": "automatic_async",
                "client_secret": format!("{}_secret_double", self.id),
                "confirmation_method": "automatic",
                "created": self.created,
                "currency": self.currency,
                "customer": self.customer,
                "description": self.description,
                "last_payment_error": self.last_error,
                "latest_charge": self.latest_charge,
                "livemode": false,
                "metadata": self.metadata,
                "next_action": self.next_action(),
                "payment_method": self.payment_method,
                "payment_method_options": {},
                "payment_method_types": ["card"],
                "setup_future_usage": self.setup_future_usage,
                "status": self.status,
            }),
        )
    }
}

impl Charge {
    fn outcome(&self) -> Value {
        let names = "advice_code network_advice_code network_decline_code reason";
        let decline =
            (self.status == "failed").then(|| self.card.decline_code().unwrap_or("generic_decline"));
        let (status, kind, message) = match decline {
            None => ("approved_by_network", "authorized", "Payment complete."),
            Some(_) => (
                "declined_by_network",
                "issuer_declined",
                "The bank did not return any further details with this decline.",
            ),
        };
        let known = json!({
            "network_status": status, "type": kind, "seller_message": message, "risk_level": "normal",
            "risk_score": 3, "reason": decline,
        });
        with_nulls(names, known)
    }

    fn card_details(&self) -> Value {
        let (month, year) = CARD_EXPIRY;
        with_nulls(
            "authorization_code electronic_commerce_indicator installments mandate network_transaction_id \
             three_d_secure transaction_link_id wallet",
            json!({
                "amount_authorized": self.amount,
                "brand": "visa",
                "checks": checks(),
                "country": "US",
                "exp_month": month,
                "exp_year": year,
                "funding": "credit",
                "last4": self.card.last4(),
                "network": "visa",
                "regulated_status": "unregulated",
            }),
        )
    }
}

impl Record for Charge {
    const KIND: &'static str = "charge";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let (paid, failed) = (self.status == "succeeded", self.status == "failed");
        let names = "application application_fee application_fee_amount balance_transaction \
            failure_balance_transaction on_behalf_of receipt_email receipt_number review shipping source \
            source_transfer statement_descriptor statement_descriptor_suffix transfer_data transfer_group";
        with_nulls(
            names,
            json!({
                "id": self.id,
                "object": "charge",
                "amount": self.amount,
                "amount_captured": if paid { self.amount } else { 0 },
                "amount_refunded": self.refunded,
                "billing_details": billing_details(),
                "calculated_statement_descriptor": "SORTIE",
                "captured": paid,
                "created": self.created,
                "currency": self.currency,
                "customer": self.customer,
                "description": self.description,
                "disputed": self.disputed,
                "failure_code": failed.then_some("card_declined"),
                "failure_message": failed.then_some("Your card was declined."),
                "fraud_details": {},
                "livemode": false,
                "metadata": self.metadata,
                "outcome": self.outcome(),
                "paid": paid,
                "payment_intent": self.intent,
                "payment_method": self.payment_method,
                "payment_method_details": {"type": "card", "card": self.card_details()},
                "receipt_url": self.receipt_url,
                "refunded": paid && self.refunded == self.amount,
                "status": self.status,
            }),
        )
    }
}

impl Record for Refund {
    const KIND: &'static str = "refund";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let mut refund = with_nulls(
            "balance_transaction customer_account receipt_number source_transfer_reversal transfer_reversal",
            json!({
                "id": self.id,
                "object": "refund",
                "amount": self.amount,
                "charge": self.charge,
                "created": self.created,
                "currency": self.currency,
                "customer": self.customer,
                "metadata": self.metadata,
                "payment_intent": self.intent,
                "payment_method": self.payment_method,
                "reason": self.reason,
                "status": self.status,
            }),
        );
        if self.status == "failed"
            && let Some(members) = refund.as_object_mut()
        {
            members.insert("failure_reason".to_owned(), json!("expired_or_canceled_card"));
        }
        refund
    }
}

impl Record for Event {
    const KIND: &'static str = "event";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let request = self.request.as_ref();
        let request = json!({
            "id": request.map(|(id, _)| id), "idempotency_key": request.and_then(|(_, key)| key.as_ref()),
        });
        json!({
            "id": self.id,
            "object": "event",
            "api_version": VERSION,
            "created": self.created,
            "data": {"object": self.object},
            "livemode": false,
            "pending_webhooks": 1,
            "request": request,
            "type": self.kind,
        })
    }
}
