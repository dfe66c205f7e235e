//! Metrics of mails. No label names a person or an address.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::Letter;

/// End of an attempt to send a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The server accepted the mail.
    Accepted,
    /// The server refused the mail permanently.
    Refused,
    /// The attempt failed, and will be retried.
    Failed,
    /// The last attempt failed, and the mail is abandoned.
    Abandoned,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Accepted, Self::Refused, Self::Failed, Self::Abandoned];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Counters of mails.
#[derive(Debug)]
pub(super) struct MailMetrics {
    attempts: Family<[(&'static str, &'static str); 2], Counter>,
}

impl Default for MailMetrics {
    fn default() -> Self {
        let attempts = Family::default();
        for kind in Letter::KINDS {
            for outcome in Outcome::ALL {
                drop(attempts.get_or_create(&[("kind", kind), ("outcome", outcome.as_str())]));
            }
        }
        Self { attempts }
    }
}

impl MailMetrics {
    /// Registers the counters.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "mail_attempts",
            "Attempts to send a mail, by template and outcome",
            self.attempts.clone(),
        );
    }

    /// Counts an attempt.
    pub(super) fn count(&self, kind: &'static str, outcome: Outcome) {
        debug_assert!(Letter::KINDS.contains(&kind), "no counter begins at 0 for {kind}");
        self.attempts
            .get_or_create(&[("kind", kind), ("outcome", outcome.as_str())])
            .inc();
    }
}
