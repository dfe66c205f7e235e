//! Sums of all payments in the double, for the audit of a ledger.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{records::Intent, state::State};

/// Money that customers have paid, and money that was returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Sum of the payments that succeeded.
    pub captured_cents: i64,
    /// Sum of the refunds that did not fail.
    pub refunded_cents: i64,
    /// Sum that disputes hold, or have taken for good.
    pub disputed_cents: i64,
}

/// Payment intent as the audit needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldIntent {
    /// Identifier of the intent.
    pub id: String,
    /// Customer who pays.
    pub customer: Option<String>,
    /// Status of the intent.
    pub status: String,
    /// Amount that was asked for.
    pub amount_cents: i64,
    /// Money that moved.
    pub held: Held,
}

/// Everything that the double holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holdings {
    /// Money of each customer.
    pub customers: BTreeMap<String, Held>,
    /// Intents by the topup in their metadata.
    pub topups: BTreeMap<String, Vec<HeldIntent>>,
    /// Intents that name no topup.
    pub others: Vec<HeldIntent>,
}

impl Holdings {
    /// Returns the topups that have more than one successful payment, or more than one intent.
    pub fn paid_twice(&self) -> Vec<&str> {
        let has_two = |intents: &Vec<HeldIntent>| intents.len() > 1;
        let topups = self.topups.iter().filter(|(_, intents)| has_two(intents));
        topups.map(|(topup, _)| topup.as_str()).collect()
    }

    /// Returns the sum over all customers.
    pub fn total(&self) -> Held {
        let mut total = Held::default();
        for held in self.customers.values() {
            total.add(held);
        }
        total
    }
}

impl Held {
    fn add(&mut self, other: &Self) {
        self.captured_cents += other.captured_cents;
        self.refunded_cents += other.refunded_cents;
        self.disputed_cents += other.disputed_cents;
    }
}

impl State {
    /// Adds up what the double holds.
    pub(super) fn holdings(&self) -> Holdings {
        let mut holdings = Holdings::default();
        for intent in self.intents.all() {
            let held = self.held_of(intent);
            if let Some(customer) = &intent.customer {
                holdings.customers.entry(customer.clone()).or_default().add(&held);
            }
            let found = HeldIntent {
                id: intent.id.clone(),
                customer: intent.customer.clone(),
                status: intent.status.to_owned(),
                amount_cents: intent.amount,
                held,
            };
            match intent.metadata.get("topup") {
                Some(topup) => holdings.topups.entry(topup.clone()).or_default().push(found),
                None => holdings.others.push(found),
            }
        }
        holdings
    }

    fn held_of(&self, intent: &Intent) -> Held {
        let captured = self
            .charges
            .all()
            .filter(|charge| charge.intent == intent.id && charge.status == "succeeded");
        let refunded = self
            .refunds
            .all()
            .filter(|refund| refund.intent == intent.id && refund.status != "failed");
        let disputed = self
            .disputes
            .all()
            .filter(|dispute| dispute.intent == intent.id && dispute.is_withdrawn);
        Held {
            captured_cents: captured.map(|charge| charge.amount).sum(),
            refunded_cents: refunded.map(|refund| refund.amount).sum(),
            disputed_cents: disputed.map(|dispute| dispute.amount).sum(),
        }
    }
}
