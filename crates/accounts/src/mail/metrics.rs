//! Metrics of mails, which name no person and no address.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// End of an attempt to send a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The server has taken the mail.
    Accepted,
    /// The server will never take the mail.
    Refused,
    /// The mail is tried again.
    Failed,
    /// The mail is tried no more, after failures.
    Abandoned,
}

impl Outcome {
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
#[derive(Debug, Default)]
pub(super) struct MailMetrics {
    attempts: Family<[(&'static str, &'static str); 2], Counter>,
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
        self.attempts
            .get_or_create(&[("kind", kind), ("outcome", outcome.as_str())])
            .inc();
    }
}
