//! Metrics of people: sign-ins and password hashes. No label names a person, an address or an organization.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use sortie_api::{ErrorCode, Refusal};

/// Upper bounds of the waits for a slot, in seconds.
const WAITS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Metrics of people of one node. Clones share the counts.
#[derive(Clone)]
pub(crate) struct Metrics {
    sign_ins: Family<[(&'static str, &'static str); 2], Counter>,
    waits: Histogram,
    refused: Counter,
}

/// Proof that a person signs in with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The password.
    Password,
    /// An identity provider.
    Provider,
}

/// Outcome of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInOutcome {
    /// A session began.
    Succeeded,
    /// The address or the password is wrong, the person is disabled, or the answer of the provider is refused.
    Refused,
    /// The second factor is missing or wrong.
    SecondFactor,
    /// A limit was reached before the password was compared.
    Limited,
    /// The identity provider does not answer.
    Away,
}

impl Method {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Provider => "provider",
        }
    }
}

impl SignInOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Refused => "refused",
            Self::SecondFactor => "second_factor",
            Self::Limited => "limited",
            Self::Away => "away",
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            sign_ins: Family::default(),
            waits: Histogram::new(WAITS),
            refused: Counter::default(),
        };
        for method in [Method::Password, Method::Provider] {
            for outcome in [
                SignInOutcome::Succeeded,
                SignInOutcome::Refused,
                SignInOutcome::SecondFactor,
                SignInOutcome::Limited,
                SignInOutcome::Away,
            ] {
                drop(metrics.of(method, outcome));
            }
        }
        metrics
    }
}

impl Metrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "sign_ins",
            "Sign-ins of people, by method and outcome",
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

    pub(crate) fn sign_in(&self, method: Method, outcome: SignInOutcome) {
        self.of(method, outcome).inc();
    }

    fn of(&self, method: Method, outcome: SignInOutcome) -> Counter {
        let labels = [("method", method.as_str()), ("outcome", outcome.as_str())];
        self.sign_ins.get_or_create(&labels).clone()
    }

    /// Counts a sign-in that ended with an error.
    pub(crate) fn sign_in_failed(&self, method: Method, error: &Refusal) {
        let outcome = match error.code {
            ErrorCode::Unauthorized | ErrorCode::Forbidden => SignInOutcome::Refused,
            ErrorCode::SecondFactorRequired => SignInOutcome::SecondFactor,
            ErrorCode::RateLimited => SignInOutcome::Limited,
            ErrorCode::Unavailable if method == Method::Provider => SignInOutcome::Away,
            ErrorCode::InvalidRequest
            | ErrorCode::PaymentRequired
            | ErrorCode::NotFound
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Conflict
            | ErrorCode::Gone
            | ErrorCode::PreconditionFailed
            | ErrorCode::PayloadTooLarge
            | ErrorCode::RangeNotSatisfiable
            | ErrorCode::Internal
            | ErrorCode::Unavailable => return,
        };
        self.sign_in(method, outcome);
    }

    pub(crate) fn hash_began(&self, waited: Duration) {
        self.waits.observe(waited.as_secs_f64());
    }

    pub(crate) fn hash_refused(&self) {
        self.refused.inc();
    }
}
