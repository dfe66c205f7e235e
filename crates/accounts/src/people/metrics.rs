//! Metrics of people: sign-ins and hashes of passwords. No label names a person, an address or an organization.

use std::time::Duration;

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

/// Upper bounds of the waits for a slot, in seconds.
const WAITS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Metrics of people of one node. Clones share the counts.
#[derive(Clone)]
pub(crate) struct Metrics {
    sign_ins: Family<OutcomeLabel, Counter>,
    waits: Histogram,
    refused: Counter,
}

/// Outcome of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum SignInOutcome {
    /// A session began.
    Succeeded,
    /// The address, the password, or the person is unknown, wrong or disabled.
    Refused,
    /// The second factor is missing or wrong.
    SecondFactor,
    /// A limit was reached before the password was compared.
    Limited,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: SignInOutcome,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            sign_ins: Family::default(),
            waits: Histogram::new(WAITS),
            refused: Counter::default(),
        };
        for outcome in [
            SignInOutcome::Succeeded,
            SignInOutcome::Refused,
            SignInOutcome::SecondFactor,
            SignInOutcome::Limited,
        ] {
            drop(metrics.sign_ins.get_or_create(&OutcomeLabel { outcome }));
        }
        metrics
    }
}

impl Metrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "sign_ins",
            "Sign-ins of people, by outcome",
            self.sign_ins.clone(),
        );
        registry.register(
            "password_hash_wait_seconds",
            "Time from a password to its hash's slot; the count is the number of computed hashes",
            self.waits.clone(),
        );
        registry.register(
            "password_hashes_refused",
            "Passwords that were refused because too many waited",
            self.refused.clone(),
        );
    }

    pub(crate) fn sign_in(&self, outcome: SignInOutcome) {
        self.sign_ins.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn hash_began(&self, waited: Duration) {
        self.waits.observe(waited.as_secs_f64());
    }

    pub(crate) fn hash_refused(&self) {
        self.refused.inc();
    }
}
