//! A double of Stripe's API, version 2026-10-28.endive, for the part of it that Sortie uses.
//!
//! Objects have the complete form that Stripe's own libraries read. Unknown parameters are refused. A request with a
//! used idempotency key is replayed, or refused if its parameters differ. The test plays all other roles: the customer
//! on the checkout page, the bank, the people at the dashboard, and the network, which loses calls and answers.
//! Webhooks are signed, and sent as the test configures. At the end [`StripeDouble::holdings`] returns how much money
//! moved, for comparison with a ledger.

mod calls;
mod cards;
mod checkout;
mod disputes;
mod failure;
mod faults;
mod form;
mod holdings;
mod idempotency;
mod pages;
mod payments;
mod records;
mod server;
mod shared;
mod state;
mod subscriptions;
#[cfg(test)]
mod tests;
mod webhooks;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::timeout};

pub use calls::Call;
pub use cards::Card;
pub use disputes::{DisputeStage, Verdict};
pub use faults::Fault;
pub use holdings::{Held, HeldIntent, Holdings};
pub use payments::Settlement;
pub use shared::StripeRequest;
pub use subscriptions::SubscriptionChange;
pub use webhooks::{WebhookDelivery, WebhookMode, WebhookOrder, signature};

use crate::{PATIENCE, serve::ANY};
use failure::Failure;
use faults::Faults;
use idempotency::Keys;
use records::{Event, Record as _};
use shared::{Shared, lock};
use state::{State, new_id};
use webhooks::{Webhook, Webhooks, shuffle};

/// Version of the API.
pub const VERSION: &str = "2026-10-28.endive";

/// Customer's answer to the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// The bank is convinced.
    Passed,
    /// The bank is not.
    Failed,
}

/// State of the account at Stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// The account takes payments.
    Complete,
    /// Stripe still asks for documents.
    Incomplete,
}

/// Storm of webhooks.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Number of times that each event is sent.
    pub times: usize,
    /// Webhooks that are sent in a second.
    pub per_second: u32,
    /// Seed of the order.
    pub seed: u64,
}

/// A running double. Dropping it stops it.
#[derive(Debug)]
pub struct StripeDouble {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

fn told(failure: &Failure) -> anyhow::Error {
    anyhow!("{}", failure.message())
}

fn webhook(event: &Event) -> Webhook {
    Webhook {
        event: event.id.clone(),
        kind: event.kind.to_owned(),
        body: event.render().to_string().into(),
    }
}

impl StripeDouble {
    /// Starts a double on a free port.
    pub async fn start() -> io::Result<Self> {
        Self::start_at(ANY).await
    }

    /// Starts a double at an address.
    pub async fn start_at(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = State::at(format!("http://{address}"));
        let (webhooks, queue) = Webhooks::new();
        let shared = Arc::new(Shared {
            secret_key: new_id("sk_test_"),
            state: Mutex::new(state),
            keys: Mutex::new(Keys::default()),
            faults: Mutex::new(Faults::default()),
            requests: watch::Sender::new(Vec::new()),
            released: watch::Sender::new(0),
            webhooks,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(server::serve(listener, Arc::clone(&shared)));
        let sender = Arc::clone(&shared);
        tasks.spawn(async move {
            let now = || lock(&sender.state).now();
            sender.webhooks.run(queue, now).await;
        });
        Ok(Self {
            address,
            shared,
            _tasks: tasks,
        })
    }

    /// `http://127.0.0.1:PORT`, which takes the place of `https://api.stripe.com`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Address of the double.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Secret key of the account. Each double has another one.
    pub fn secret_key(&self) -> &str {
        &self.shared.secret_key
    }

    /// Identifier of the account.
    pub fn account(&self) -> String {
        lock(&self.shared.state).account.clone()
    }

    /// Secret key of the live mode. It opens the same account.
    pub fn live_key(&self) -> String {
        self.shared.secret_key.replacen("_test_", "_live_", 1)
    }

    /// Sets the state of the account.
    pub fn set_account(&self, state: AccountState) {
        self.shared
            .change(|all| all.is_incomplete = state == AccountState::Incomplete);
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T> {
        self.shared.change(change).map_err(|failure| told(&failure))
    }

    /// Seconds since 1970, by the clock of the double.
    pub fn now(&self) -> i64 {
        lock(&self.shared.state).now()
    }

    /// Sets the clock of the double, in seconds since 1970. The clock keeps running.
    pub fn set_clock(&self, at: i64) {
        self.shared.change(|state| state.set_clock(at));
    }

    /// Moves the clock of the double forward: sessions expire, and keys and events are forgotten.
    pub fn advance(&self, by: Duration) {
        self.shared.change(|state| state.advance(by));
    }

    // Requests, and their failures.

    /// Requests for an operation so far.
    pub fn requests(&self, call: Call) -> Vec<StripeRequest> {
        let all = self.shared.requests.borrow();
        all.iter()
            .filter(|request| request.call == call)
            .cloned()
            .collect()
    }

    /// Waits until an operation was called `count` times.
    pub async fn wait_for_requests(&self, call: Call, count: usize) -> Result<Vec<StripeRequest>> {
        let mut requests = self.shared.requests.subscribe();
        let enough = requests.wait_for(|all| all.iter().filter(|of| of.call == call).count() >= count);
        let waited = timeout(PATIENCE, enough).await;
        waited.with_context(|| format!("{call:?} was not asked for {count} times"))??;
        Ok(self.requests(call))
    }

    /// Fails the `nth` call of an operation from now on, counted from 1.
    pub fn fail(&self, call: Call, nth: usize, fault: Fault) {
        lock(&self.shared.faults).plan(call, nth, fault);
    }

    /// Fails every call that has no other planned failure. `None` ends this.
    pub fn fail_always(&self, fault: Option<Fault>) {
        lock(&self.shared.faults).always(fault);
    }

    /// Cancels all planned failures.
    pub fn forget_failures(&self) {
        lock(&self.shared.faults).forget();
    }

    /// Resumes the held calls.
    pub fn release(&self) {
        self.shared.released.send_modify(|times| *times += 1);
    }

    // The customer.

    /// Pays on the page of a session. The error is the message that the page shows to the customer, and the session
    /// stays open.
    pub fn pay(&self, session: &str, card: Card) -> Result<()> {
        self.change(|state| state.pay(session, card))
    }

    /// Confirms the authentication that the bank of a card requires.
    pub fn authenticate(&self, session: &str, answer: Authentication) -> Result<()> {
        self.change(|state| state.authenticate(session, answer == Authentication::Passed))
    }

    /// Saves a card for a customer, as the portal does. Returns the payment method.
    pub fn save_card(&self, customer: &str, card: Card) -> Result<String> {
        self.change(|state| {
            state.customers.named(customer, "customer")?;
            let method = state.add_card(None, card);
            state.save_card(&method, customer);
            state
                .customers
                .change(customer, |customer| customer.default_card = Some(method.clone()));
            Ok(method)
        })
    }

    /// Removes the saved cards of a customer, as the portal does.
    pub fn remove_cards(&self, customer: &str) -> Result<()> {
        self.change(|state| state.remove_cards(customer))
    }

    // The bank, and people at the dashboard.

    /// Ends a payment that is processing.
    pub fn settle(&self, intent: &str, settlement: Settlement) -> Result<()> {
        self.change(|state| state.settle(intent, settlement))
    }

    /// Identifiers of the payment intents with a status, oldest first.
    pub fn intents(&self, status: &str) -> Vec<String> {
        let state = lock(&self.shared.state);
        let of_status = state.intents.all().filter(|intent| intent.status == status);
        of_status.map(|intent| intent.id.clone()).collect()
    }

    /// Refunds a part of a payment. Returns the refund.
    pub fn refund(&self, intent: &str, amount: i64) -> Result<String> {
        let form = pages::members(&[("payment_intent", intent), ("amount", &amount.to_string())]);
        let refund = self.change(|state| state.perform((Call::CreateRefund, ""), form))?;
        let id = refund.get("id").and_then(Value::as_str);
        id.map(ToOwned::to_owned).context("the refund has no identifier")
    }

    /// Completes the refund with this name, for which the double has answered 500 before.
    pub fn refund_named(&self, intent: &str, amount: i64, name: &str) -> Result<()> {
        let amount = amount.to_string();
        let mut form = pages::members(&[("payment_intent", intent), ("amount", &amount)]);
        form.insert(
            "metadata".to_owned(),
            Value::Object(pages::members(&[("refund", name)])),
        );
        self.change(|state| state.perform((Call::CreateRefund, ""), form))
            .map(drop)
    }

    /// Names of the refunds, as the requests gave them, oldest first.
    pub fn refund_names(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        let names = state
            .refunds
            .all()
            .filter_map(|refund| refund.metadata.get("refund"));
        names.cloned().collect()
    }

    /// Fails a refund because the customer's bank rejects it.
    pub fn fail_refund(&self, refund: &str) -> Result<()> {
        self.change(|state| state.fail_refund(refund))
    }

    /// Disputes a part of a payment. Returns the dispute.
    pub fn dispute(&self, intent: &str, amount: i64, stage: DisputeStage) -> Result<String> {
        self.change(|state| state.dispute(intent, amount, stage))
    }

    /// Decides a dispute.
    pub fn decide(&self, dispute: &str, verdict: Verdict) -> Result<()> {
        self.change(|state| state.decide(dispute, verdict))
    }

    /// Makes payments without a receipt from now on.
    pub fn without_receipts(&self) {
        self.shared.change(|state| state.without_receipts = true);
    }

    /// Makes the price of a subscription, in cents a month.
    pub fn add_price(&self, id: &str, amount: i64) {
        self.shared.change(|state| state.add_price(id, amount));
    }

    /// Subscribes a customer to a price. Returns the subscription.
    pub fn subscribe(&self, customer: &str, price: &str, quantity: i64) -> Result<String> {
        self.change(|state| state.subscribe(customer, (price, quantity), form::Metadata::new()))
    }

    /// Replaces the price of a subscription, as the portal does.
    pub fn change_price(&self, id: &str, price: &str, quantity: i64) -> Result<()> {
        self.change(|state| state.change_price(id, price, quantity))
    }

    /// Identifiers of the subscriptions, oldest first.
    pub fn subscriptions(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        let all = state.subscriptions.all();
        all.map(|subscription| subscription.id.clone()).collect()
    }

    /// Changes a subscription.
    pub fn change_subscription(&self, id: &str, change: SubscriptionChange) -> Result<()> {
        self.change(|state| state.change_subscription(id, change))
    }

    // Webhooks.

    /// Sends events to an address from now on, with a signature for each secret.
    pub fn send_webhooks(&self, url: &str, secrets: &[&str]) -> Result<()> {
        self.shared.webhooks.send_to(url, secrets)
    }

    /// Limits the endpoint to these types of events, as its settings at Stripe do. Before, it receives every type.
    pub fn limit_webhooks(&self, kinds: &[&str]) {
        self.shared.webhooks.limit_to(kinds);
    }

    /// Sets the treatment of events from now on.
    pub fn set_webhooks(&self, mode: WebhookMode) {
        self.shared.webhooks.set_mode(mode);
    }

    /// Sends the held events, each `times`, one after the other.
    pub fn release_webhooks(&self, order: WebhookOrder, times: usize) {
        self.shared.webhooks.release(order, times);
    }

    /// Sends an event again.
    pub fn resend(&self, event: &str) -> Result<()> {
        let webhook = lock(&self.shared.state).events.get(event).map(webhook);
        self.shared.webhooks.resend(webhook.context("no such event")?);
        Ok(())
    }

    /// Identifiers of the events of a type, oldest first.
    pub fn events(&self, kind: &str) -> Vec<String> {
        let state = lock(&self.shared.state);
        let of_kind = state.events.all().filter(|event| event.kind == kind);
        of_kind.map(|event| event.id.clone()).collect()
    }

    /// Identifiers of all events, oldest first.
    pub fn all_events(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        state.events.all().map(|event| event.id.clone()).collect()
    }

    /// Body of an event, for requests that the test signs itself.
    pub fn event_body(&self, event: &str) -> Option<String> {
        let state = lock(&self.shared.state);
        Some(state.events.get(event)?.render().to_string())
    }

    /// Attempts to deliver so far.
    pub fn deliveries(&self) -> Vec<WebhookDelivery> {
        self.shared.webhooks.deliveries()
    }

    /// Waits until there were enough attempts to deliver.
    pub async fn wait_for_deliveries(
        &self,
        enough: impl Fn(&[WebhookDelivery]) -> bool + Send + Sync,
    ) -> Result<Vec<WebhookDelivery>> {
        self.shared.webhooks.wait_for(enough).await
    }

    /// Sends every event so far that the endpoint wants several times, shuffled, to these addresses in turn, and waits
    /// for every answer.
    pub async fn storm(&self, urls: &[String], storm: Storm) -> Result<Vec<WebhookDelivery>> {
        let (mut all, now) = {
            let state = lock(&self.shared.state);
            let each = |event| std::iter::repeat_n(webhook(event), storm.times);
            let webhooks = &self.shared.webhooks;
            let wanted = state.events.all().filter(|event| webhooks.wants(event.kind));
            (wanted.flat_map(each).collect::<Vec<_>>(), state.now())
        };
        shuffle(&mut all, storm.seed);
        let rate = (storm.per_second, now);
        self.shared.webhooks.storm(urls, all, rate).await
    }

    /// Adds up what the double holds.
    pub fn holdings(&self) -> Holdings {
        lock(&self.shared.state).holdings()
    }
}
