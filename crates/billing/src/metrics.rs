//! Metrics of payments. No label names an organization, a person or an object of Stripe.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use sortie_api::{TopupKind, TopupState, deployment::EntitlementState};

use crate::webhooks::event_types;

/// Histogram buckets of the duration of a request to Stripe in seconds, up to its time limit.
const SECONDS: [f64; 8] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Metrics of the payments of one node.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<Labels<2>, Counter>,
    seconds: Histogram,
    events: Family<Labels<2>, Counter>,
    refused: Counter,
    oldest: Gauge,
    topups: Family<Labels<2>, Counter>,
    oldest_auto: Gauge,
    subscriptions: Family<Labels<1>, Counter>,
    differences: Counter,
}

/// Outcomes of an attempt to handle an event.
const OUTCOMES: [&str; 4] = ["done", "ignored", "failed", "retried"];

/// Names of requests to Stripe.
const REQUESTS: [&str; 21] = [
    "cancel_intent",
    "cancel_subscription",
    "charge_card",
    "create_checkout",
    "create_customer",
    "create_portal",
    "create_refund",
    "expire_checkout",
    "list_cards",
    "list_checkouts",
    "list_disputes",
    "list_events",
    "list_intents",
    "list_refunds",
    "read_charge",
    "read_checkout",
    "read_customer",
    "read_dispute",
    "read_intent",
    "read_refund",
    "read_subscription",
];

impl Default for Metrics {
    fn default() -> Self {
        let (requests, events, topups) = (Family::default(), Family::default(), Family::default());
        let subscriptions = Family::default();
        for name in REQUESTS {
            drop(requests.get_or_create(&[("request", name), ("outcome", "done")]));
        }
        for kind in event_types::kinds().chain([event_types::OTHER]) {
            for outcome in OUTCOMES {
                drop(events.get_or_create(&event_labels(kind, outcome)));
            }
        }
        for kind in TopupKind::ALL {
            for end in TopupState::ALL.into_iter().filter(|state| !state.is_waiting()) {
                drop(topups.get_or_create(&topup_labels(kind, end)));
            }
        }
        for state in EntitlementState::ALL {
            drop(subscriptions.get_or_create(&[("state", state.as_str())]));
        }
        Self {
            requests,
            seconds: Histogram::new(SECONDS),
            events,
            refused: Counter::default(),
            oldest: Gauge::default(),
            topups,
            oldest_auto: Gauge::default(),
            subscriptions,
            differences: Counter::default(),
        }
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

const fn event_labels(kind: &'static str, outcome: &'static str) -> Labels<2> {
    [("type", kind), ("outcome", outcome)]
}

const fn topup_labels(kind: TopupKind, end: TopupState) -> Labels<2> {
    [("kind", kind.as_str()), ("end", end.as_str())]
}

impl Metrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "stripe_requests",
            "Requests to Stripe, by name and outcome",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "stripe_request",
            "Time of a request to Stripe",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register(
            "stripe_events",
            "Attempts to handle events of Stripe, by type and outcome",
            self.events.clone(),
        );
        registry.register(
            "stripe_webhooks_refused",
            "Webhooks without a valid signature",
            self.refused.clone(),
        );
        registry.register_with_unit(
            "stripe_events_oldest",
            "Age of the oldest event of Stripe that is not handled yet",
            Unit::Seconds,
            self.oldest.clone(),
        );
        registry.register(
            "topups",
            "Purchases of credits that have ended, by kind and end",
            self.topups.clone(),
        );
        registry.register_with_unit(
            "auto_topups_oldest",
            "Age of the oldest automatic purchase of credits that has not ended",
            Unit::Seconds,
            self.oldest_auto.clone(),
        );
        registry.register(
            "license_subscriptions",
            "Changes of subscriptions to licenses, by the state afterwards",
            self.subscriptions.clone(),
        );
        registry.register(
            "payment_differences",
            "Payments with figures that differ from those of Stripe, or that a person must check",
            self.differences.clone(),
        );
    }

    /// Counts a request to Stripe.
    pub(crate) fn asked(&self, name: &'static str, outcome: &'static str, took: Duration) {
        let labels = [("request", name), ("outcome", outcome)];
        self.requests.get_or_create(&labels).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts an attempt to handle an event.
    pub(crate) fn handled(&self, kind: &str, outcome: &'static str) {
        let kind = event_types::kinds()
            .find(|known| *known == kind)
            .unwrap_or(event_types::OTHER);
        self.events.get_or_create(&event_labels(kind, outcome)).inc();
    }

    /// Counts a webhook without a valid signature.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// Sets the age of the oldest unprocessed event.
    pub(crate) fn waits(&self, oldest: Duration) {
        self.oldest.set(seconds(oldest));
    }

    /// Sets the age of the oldest automatic purchase that has not ended.
    pub(crate) fn buys(&self, oldest: Duration) {
        self.oldest_auto.set(seconds(oldest));
    }

    /// Counts a purchase that has ended.
    pub(crate) fn ended(&self, kind: TopupKind, end: TopupState) {
        self.topups.get_or_create(&topup_labels(kind, end)).inc();
    }

    /// Counts a change of a subscription.
    pub(crate) fn subscribed(&self, state: EntitlementState) {
        let labels = [("state", state.as_str())];
        self.subscriptions.get_or_create(&labels).inc();
    }

    /// Counts a payment that an operator has to check.
    pub(crate) fn differs(&self) {
        self.differences.inc();
    }
}
