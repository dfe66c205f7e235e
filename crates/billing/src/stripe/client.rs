//! Client of Stripe's API: one origin, no redirects, a time limit of ten seconds, one version.
//!
//! Each POST carries the identifier of a row as its idempotency key, so that every node can repeat it. For 24 hours a repetition
//! gets the answer of the first request.

use std::{sync::Arc, time::Duration};

use reqwest::{
    Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::de::DeserializeOwned;
use sortie_api::Credential;
use sortie_net::{Client, Network, Outbound, Reach, Timeouts, read_body};
use url::Url;

use super::{
    CheckoutOrder, EventFilter, Part, RefundOrder, SavedCardPayment, StripeError, SubscriptionOrder,
    form::Form,
    objects::{
        Account, Charge, Checkout, Customer, Dispute, Event, Page, PaymentIntent, PaymentMethod,
        PortalSession, Refund, Subscription,
    },
    orders::LIST,
};

/// Version of the API, regardless of the default of the account.
const VERSION: &str = "2026-10-28.endive";
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes: a page of 100 events.
const LARGEST: usize = 4 * 1_024 * 1_024;

/// Settings of the payments.
#[derive(Clone, Debug)]
pub struct StripeSettings {
    /// Secret key of the account: `sk_…` or `rk_…`.
    pub secret_key: Credential,
    /// Secrets of the webhook endpoint, `whsec_…`; several during a rotation.
    pub webhook_secrets: Vec<Credential>,
    /// Origin of the API.
    pub api_url: Url,
    /// Proxies and certificates of the connections to it.
    pub outbound: Outbound,
}

impl StripeSettings {
    /// Origin of Stripe's own API.
    pub const API_URL: &'static str = "https://api.stripe.com";

    /// Whether the key is one of Stripe's test mode, in which no money moves.
    pub fn is_test_mode(&self) -> bool {
        let key = self.secret_key.expose();
        key.starts_with("sk_test_") || key.starts_with("rk_test_")
    }
}

/// Client of Stripe's API.
#[derive(Clone, Debug)]
pub struct Stripe {
    http: Client,
    settings: StripeSettings,
}

/// Result of a request to Stripe.
type Result<T> = std::result::Result<T, StripeError>;

impl Stripe {
    /// Creates a client. Fails if TLS is not available on this machine.
    pub fn new(settings: StripeSettings) -> Result<Self> {
        let timeouts = Timeouts {
            connect: TIMEOUT,
            read: TIMEOUT,
            total: Some(TIMEOUT),
        };
        // The operator configures the address, so it may be private.
        let network = Network::new(Reach::Private, Vec::new()).with_outbound(settings.outbound.clone());
        let http = Client::on(Arc::new(network), timeouts).map_err(|error| unreachable(&error))?;
        Ok(Self { http, settings })
    }

    /// Reads the account of the secret key.
    pub async fn account(&self) -> Result<Account> {
        self.get(&["account"], Form::default()).await
    }

    /// Creates a customer for an organization.
    pub async fn create_customer(&self, key: &str, organization: &str, name: &str) -> Result<Customer> {
        let form = Form::default()
            .with("name", name)
            .with("metadata[organization]", organization);
        self.post(key, &["customers"], form).await
    }

    /// Reads a customer, with the card chosen by the customer.
    pub async fn customer(&self, id: &str) -> Result<Customer> {
        let form = Form::default().with("expand[]", "invoice_settings.default_payment_method");
        self.get(&["customers", id], form).await
    }

    /// Lists the saved cards of a customer.
    pub async fn saved_cards(&self, customer: &str) -> Result<Page<PaymentMethod>> {
        let form = Form::default().with("type", "card").with("limit", LIST);
        self.get(&["customers", customer, "payment_methods"], form).await
    }

    /// Creates a page on which a customer pays.
    pub async fn create_checkout(&self, key: &str, order: &CheckoutOrder<'_>) -> Result<Checkout> {
        self.post(key, &["checkout", "sessions"], order.form()).await
    }

    /// Lists checkout pages of a customer, 100 per page.
    pub async fn checkouts(&self, customer: &str, part: &Part<'_>) -> Result<Page<Checkout>> {
        let form = Form::default().with("customer", customer);
        self.get(&["checkout", "sessions"], part.form(form)).await
    }

    /// Lists open checkout pages of a customer, 100 per page.
    pub async fn open_checkouts(&self, customer: &str, after: Option<&str>) -> Result<Page<Checkout>> {
        let form = Form::default().with("customer", customer).with("status", "open");
        let part = Part { since: None, after };
        self.get(&["checkout", "sessions"], part.form(form)).await
    }

    /// Expires a page that can be paid.
    pub async fn expire_checkout(&self, key: &str, id: &str) -> Result<Checkout> {
        let path = ["checkout", "sessions", id, "expire"];
        self.post(key, &path, Form::default()).await
    }

    /// Creates a page on which a customer subscribes.
    pub async fn create_subscription_checkout(
        &self,
        key: &str,
        order: &SubscriptionOrder<'_>,
    ) -> Result<Checkout> {
        self.post(key, &["checkout", "sessions"], order.form()).await
    }

    /// Reads a checkout session.
    pub async fn checkout(&self, id: &str) -> Result<Checkout> {
        self.get(&["checkout", "sessions", id], Form::default()).await
    }

    /// Charges a saved card. If the bank declines, or requires the customer, returns [`StripeError::Refused`] with the payment.
    pub async fn charge_saved_card(
        &self,
        key: &str,
        payment: &SavedCardPayment<'_>,
    ) -> Result<PaymentIntent> {
        self.post(key, &["payment_intents"], payment.form()).await
    }

    /// Reads a payment.
    pub async fn intent(&self, id: &str) -> Result<PaymentIntent> {
        self.get(&["payment_intents", id], Form::default()).await
    }

    /// Lists payments of a customer, 100 per page.
    pub async fn intents(&self, customer: &str, part: &Part<'_>) -> Result<Page<PaymentIntent>> {
        let form = Form::default().with("customer", customer);
        self.get(&["payment_intents"], part.form(form)).await
    }

    /// Cancels a payment that has not succeeded.
    pub async fn cancel_intent(&self, key: &str, id: &str) -> Result<PaymentIntent> {
        self.post(key, &["payment_intents", id, "cancel"], Form::default())
            .await
    }

    /// Reads a charge.
    pub async fn charge(&self, id: &str) -> Result<Charge> {
        self.get(&["charges", id], Form::default()).await
    }

    /// Refunds a payment, or a part of it.
    pub async fn refund(&self, key: &str, order: &RefundOrder<'_>) -> Result<Refund> {
        self.post(key, &["refunds"], order.form()).await
    }

    /// Reads a refund.
    pub async fn read_refund(&self, id: &str) -> Result<Refund> {
        self.get(&["refunds", id], Form::default()).await
    }

    /// Lists the refunds of a charge after `after`, 100 per page.
    pub async fn refunds(&self, charge: &str, after: Option<&str>) -> Result<Page<Refund>> {
        let form = Form::default().with("charge", charge);
        let part = Part { since: None, after };
        self.get(&["refunds"], part.form(form)).await
    }

    /// Reads a dispute.
    pub async fn dispute(&self, id: &str) -> Result<Dispute> {
        self.get(&["disputes", id], Form::default()).await
    }

    /// Lists the disputes of a charge after `after`, 100 per page.
    pub async fn disputes(&self, charge: &str, after: Option<&str>) -> Result<Page<Dispute>> {
        let form = Form::default().with("charge", charge);
        let part = Part { since: None, after };
        self.get(&["disputes"], part.form(form)).await
    }

    /// Reads a subscription.
    pub async fn subscription(&self, id: &str) -> Result<Subscription> {
        self.get(&["subscriptions", id], Form::default()).await
    }

    /// Ends a subscription at once. Stripe takes no key for this: a repetition is refused.
    pub async fn cancel_subscription(&self, id: &str) -> Result<Subscription> {
        let url = self.url(&["subscriptions", id])?;
        self.send(Method::DELETE, &url, None).await
    }

    /// Lists events, newest first. Stripe keeps them for 30 days.
    pub async fn events(&self, filter: &EventFilter<'_>) -> Result<Page<Event>> {
        self.get(&["events"], filter.form()).await
    }

    /// Opens the customer portal.
    pub async fn create_portal_session(
        &self,
        key: &str,
        customer: &str,
        return_url: &str,
    ) -> Result<PortalSession> {
        let form = Form::default()
            .with("customer", customer)
            .with("return_url", return_url);
        self.post(key, &["billing_portal", "sessions"], form).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], form: Form) -> Result<T> {
        let mut url = self.url(path)?;
        let query = form.encoded();
        url.set_query((!query.is_empty()).then_some(query.as_str()));
        self.send(Method::GET, &url, None).await
    }

    async fn post<T: DeserializeOwned>(&self, key: &str, path: &[&str], form: Form) -> Result<T> {
        let url = self.url(path)?;
        self.send(Method::POST, &url, Some((key, form.encoded()))).await
    }

    fn url(&self, path: &[&str]) -> Result<Url> {
        let mut url = self.settings.api_url.clone();
        let unusable = |()| StripeError::Unreachable("stripe.api_url: must be a base URL".to_owned());
        url.path_segments_mut()
            .map_err(unusable)?
            .clear()
            .push("v1")
            .extend(path);
        Ok(url)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        url: &Url,
        posted: Option<(&str, String)>,
    ) -> Result<T> {
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {}", self.settings.secret_key.expose()))
                .map_err(|_| StripeError::Unauthorized(401))?;
        authorization.set_sensitive(true);
        let mut request = self
            .http
            .request(method, url)
            .map_err(|error| unreachable(&error))?
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, authorization)
            .header("stripe-version", VERSION);
        if let Some((key, form)) = posted {
            request = request
                .header("idempotency-key", key)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form);
        }
        let response = self
            .http
            .send(request)
            .await
            .map_err(|error| unreachable(&error))?;
        let status = response.status();
        let is_repeated = response
            .headers()
            .get("idempotent-replayed")
            .is_some_and(|value| value == "true");
        let body = read_body(response, LARGEST)
            .await
            .map_err(|error| unreachable(&error))?;
        if status != StatusCode::OK {
            let error = StripeError::of_answer(status.as_u16(), &body);
            return Err(if is_repeated { error.repeated() } else { error });
        }
        serde_json::from_slice(&body).map_err(|_| StripeError::Unreadable("not the requested object"))
    }
}

fn unreachable(error: &sortie_net::Error) -> StripeError {
    StripeError::Unreachable(error.to_string())
}
