//! Records of the double, and the rules that all kinds of objects share.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;

use super::{
    failure::Failure,
    form::Parameters,
    records::{
        Charge, Customer, Dispute, Event, Intent, PaymentMethod, Price, Record, Refund, Session,
        Subscription, list,
    },
};

/// Time for which events can be listed, in seconds.
const EVENTS_KEPT: i64 = 30 * 86_400;
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Records of a kind, oldest first.
#[derive(Debug)]
pub(super) struct Table<T>(Vec<T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Part of a list that a request wants.
#[derive(Debug)]
pub(super) struct PageRequest {
    limit: usize,
    after: Option<String>,
    before: Option<String>,
    created: Vec<(String, i64)>,
}

impl PageRequest {
    /// Takes the parameters that every list has.
    pub(super) fn read(parameters: &mut Parameters) -> Result<Self, Failure> {
        let limit = parameters.integer("limit")?.unwrap_or(10);
        if !(1..=100).contains(&limit) {
            let message = "This value must be from 1 to 100.";
            return Err(Failure::parameter("parameter_invalid_integer", "limit", message));
        }
        let (after, before) = (
            parameters.text("starting_after")?,
            parameters.text("ending_before")?,
        );
        if after.is_some() && before.is_some() {
            return Err(Failure::invalid(
                "You may only specify one of these parameters: starting_after, ending_before.",
            ));
        }
        let mut range = parameters.object("created")?;
        let mut created = Vec::new();
        for bound in ["gt", "gte", "lt", "lte"] {
            if let Some(at) = range.integer(bound)? {
                created.push((bound.to_owned(), at));
            }
        }
        range.finish()?;
        Ok(Self {
            limit: usize::try_from(limit).unwrap_or_default(),
            after,
            before,
            created,
        })
    }

    fn holds(&self, at: i64) -> bool {
        self.created.iter().all(|(bound, limit)| match bound.as_str() {
            "gt" => at > *limit,
            "gte" => at >= *limit,
            "lt" => at < *limit,
            _ => at <= *limit,
        })
    }
}

impl<T: Record> Table<T> {
    pub(super) fn push(&mut self, record: T) {
        self.0.push(record);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(super) fn get(&self, id: &str) -> Option<&T> {
        self.0.iter().rev().find(|record| record.id() == id)
    }

    /// Changes the record with this identifier, if it exists.
    pub(super) fn change(&mut self, id: &str, change: impl FnOnce(&mut T)) {
        if let Some(record) = self.0.iter_mut().rev().find(|record| record.id() == id) {
            change(record);
        }
    }

    /// Returns the record that a parameter names.
    pub(super) fn named(&self, id: &str, param: &str) -> Result<&T, Failure> {
        self.get(id).ok_or_else(|| Failure::no_such(T::KIND, id, param))
    }

    /// Returns the object that a path names.
    pub(super) fn read(&self, id: &str) -> Result<Value, Failure> {
        self.get(id)
            .map(Record::render)
            .ok_or_else(|| Failure::not_found(T::KIND, id))
    }

    /// Returns a page of the records that match, newest first.
    pub(super) fn page(
        &self,
        url: &str,
        asked: &PageRequest,
        matches: impl Fn(&T) -> bool,
    ) -> Result<Value, Failure> {
        let mut found: Vec<&T> = self.0.iter().rev().collect();
        let position = |id: &str, param| {
            let at = found.iter().position(|record| record.id() == id);
            at.ok_or_else(|| Failure::no_such(T::KIND, id, param))
        };
        let after = asked.after.as_deref().map(|id| position(id, "starting_after"));
        let before = asked.before.as_deref().map(|id| position(id, "ending_before"));
        if let Some(end) = before.transpose()? {
            found.truncate(end);
        }
        if let Some(at) = after.transpose()? {
            found.drain(..=at);
        }
        found.retain(|record| matches(record) && asked.holds(record.created()));
        let has_more = found.len() > asked.limit;
        if asked.before.is_some() && has_more {
            // The records next to the object that ends the page.
            found.drain(..found.len() - asked.limit);
        }
        let data: Vec<_> = found.into_iter().take(asked.limit).map(Record::render).collect();
        Ok(list(url, &data, has_more))
    }
}

/// Everything that the double holds.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) base_url: String,
    pub(super) account: String,
    /// Whether the account cannot take payments yet.
    pub(super) is_incomplete: bool,
    pub(super) customers: Table<Customer>,
    pub(super) payment_methods: Table<PaymentMethod>,
    pub(super) intents: Table<Intent>,
    pub(super) charges: Table<Charge>,
    pub(super) refunds: Table<Refund>,
    pub(super) disputes: Table<Dispute>,
    pub(super) sessions: Table<Session>,
    pub(super) subscriptions: Table<Subscription>,
    pub(super) prices: HashMap<String, Price>,
    pub(super) events: Table<Event>,
    /// Events that were not passed to the sender of webhooks yet.
    pub(super) news: Vec<Event>,
    /// Request in progress, with its key.
    pub(super) request: Option<(String, Option<String>)>,
    /// Whether charges have no receipt.
    pub(super) without_receipts: bool,
    /// Time that the test has added to the machine's clock, in seconds.
    ahead: i64,
}

/// Returns an identifier that nothing else has.
pub(super) fn new_id(prefix: &str) -> String {
    let mut bytes = [0; 24];
    // An error means that the kernel has no randomness: later calls then fail because of equal identifiers.
    let _filled = SystemRandom::new().fill(&mut bytes);
    let letter = |byte: u8| ALPHABET.get(usize::from(byte) % ALPHABET.len());
    let letters = bytes.into_iter().filter_map(letter);
    prefix
        .chars()
        .chain(letters.map(|byte| char::from(*byte)))
        .collect()
}

impl State {
    /// Nothing yet, at the address of the double.
    pub(super) fn at(base_url: String) -> Self {
        Self {
            base_url,
            account: new_id("acct_"),
            ..Self::default()
        }
    }

    /// Seconds since 1970.
    #[expect(
        clippy::disallowed_methods,
        reason = "the double is another machine: it has a clock of its own"
    )]
    pub(super) fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX) + self.ahead
    }

    /// Sets the clock, which keeps running from there.
    pub(super) fn set_clock(&mut self, at: i64) {
        self.ahead += at - self.now();
    }

    /// Moves the clock forward.
    pub(super) fn advance(&mut self, by: Duration) {
        self.ahead += i64::try_from(by.as_secs()).unwrap_or_default();
        self.expire_sessions();
    }

    /// Makes an event with the current form of an object.
    pub(super) fn tell(&mut self, kind: &'static str, object: Value) {
        let event = Event {
            id: new_id("evt_"),
            created: self.now(),
            kind,
            object,
            request: self.request.clone(),
        };
        self.news.push(event.clone());
        self.events.push(event);
    }

    /// Returns the event of this identifier as an object, if Stripe would still keep it.
    pub(super) fn event(&self, id: &str) -> Result<Value, Failure> {
        let oldest = self.now() - EVENTS_KEPT;
        match self.events.get(id) {
            Some(event) if event.created >= oldest => Ok(event.render()),
            _ => Err(Failure::not_found(Event::KIND, id)),
        }
    }

    pub(super) fn list_events(&self, mut parameters: Parameters) -> Result<Value, Failure> {
        let asked = PageRequest::read(&mut parameters)?;
        let mut kinds = parameters.texts("types")?;
        if let Some(kind) = parameters.text("type")? {
            if !kinds.is_empty() {
                return Err(Failure::invalid(
                    "You may only specify one of these parameters: type, types.",
                ));
            }
            kinds.push(kind);
        }
        parameters.finish()?;
        let oldest = self.now() - EVENTS_KEPT;
        let wanted = |event: &Event| {
            let of_kind = |kind: &String| match kind.strip_suffix(".*") {
                Some(beginning) => event.kind.starts_with(beginning),
                None => kind == event.kind,
            };
            event.created >= oldest && (kinds.is_empty() || kinds.iter().any(of_kind))
        };
        self.events.page("/v1/events", &asked, wanted)
    }

    /// Replaces the identifiers at a path by their objects, as `expand` asks.
    pub(super) fn expand(&self, value: &mut Value, path: &str) -> Result<(), Failure> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        if let Value::Array(items) = value {
            return items.iter_mut().try_for_each(|item| self.expand(item, path));
        }
        let refunds = (first == "refunds").then(|| self.refunds_of(value)).flatten();
        if let (Some(refunds), Some(members)) = (refunds, value.as_object_mut()) {
            members.insert(first.to_owned(), refunds);
        }
        let Some(member) = value.get_mut(first) else {
            let message = format!("This property cannot be expanded ({first}).");
            return Err(Failure::invalid(message));
        };
        if let Some(object) = member.as_str().and_then(|id| self.object(id)) {
            *member = object;
        }
        match rest {
            Some(rest) if !member.is_null() => self.expand(member, rest),
            _ => Ok(()),
        }
    }

    fn refunds_of(&self, charge: &Value) -> Option<Value> {
        let id = charge.get("id")?.as_str().filter(|id| id.starts_with("ch_"))?;
        let refunds: Vec<_> = self
            .refunds
            .all()
            .filter(|refund| refund.charge == id)
            .map(Record::render)
            .collect();
        Some(list(&format!("/v1/charges/{id}/refunds"), &refunds, false))
    }

    /// Returns the object of an identifier, whatever its kind.
    fn object(&self, id: &str) -> Option<Value> {
        match id.split_once('_')?.0 {
            "cus" => self.customers.get(id).map(Record::render),
            "pm" => self.payment_methods.get(id).map(Record::render),
            "pi" => self.intents.get(id).map(Record::render),
            "ch" => self.charges.get(id).map(Record::render),
            "sub" => self.subscriptions.get(id).map(Record::render),
            _ => None,
        }
    }
}
