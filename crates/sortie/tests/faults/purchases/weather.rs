//! Faults of Stripe in one round: the fate of webhooks, and the calls that fail.

use sortie_testkit::{
    StripeDouble,
    stripe::{Call, Fault, WebhookMode, WebhookOrder},
};

use crate::prelude::*;

/// Calls that change something.
const WRITES: [Call; 5] = [
    Call::CreateCustomer,
    Call::CreateSession,
    Call::CreateIntent,
    Call::CreateRefund,
    Call::CancelIntent,
];
/// Calls that look at something.
const READS: [Call; 9] = [
    Call::ReadSession,
    Call::ListSessions,
    Call::ReadIntent,
    Call::ReadRefund,
    Call::ReadDispute,
    Call::ReadCustomer,
    Call::ListIntents,
    Call::ListRefunds,
    Call::ListPaymentMethods,
];
const FAULTS_OF_WRITES: [Fault; 8] = [
    Fault::ErrorBefore,
    Fault::ErrorKept,
    Fault::ErrorAfter,
    Fault::TooMany,
    Fault::LostBefore,
    Fault::LostAfter,
    Fault::HeldBefore,
    Fault::HeldAfter,
];
const FAULTS_OF_READS: [Fault; 3] = [Fault::ErrorBefore, Fault::TooMany, Fault::LostBefore];

/// Number of calls of a kind in which failures occur.
const AMONG: usize = 8;
/// Failures of a kind of calls in one round.
const FAILURES: usize = 10;

/// Faults of one round.
#[derive(Debug)]
pub(super) struct Weather {
    webhooks: WebhookMode,
    /// Seed of the order of held webhooks.
    order: u64,
    faults: Vec<(Call, usize, Fault)>,
    /// Whether purchases become due under the load. Then no reads fail, because a failed check is repeated only after
    /// minutes.
    pub(super) jumps: bool,
}

impl Weather {
    pub(super) fn draw(random: &mut fastrand::Rng) -> Self {
        let webhooks = match random.usize(..6) {
            0 => WebhookMode::Sent,
            1 => WebhookMode::Repeated(3),
            2 => WebhookMode::Delayed(Duration::from_millis(random.u64(..1_500))),
            3 => WebhookMode::Held,
            _ => WebhookMode::Dropped,
        };
        let jumps = random.bool();
        let mut faults = Vec::new();
        for _ in 0..FAILURES {
            let call = WRITES[random.usize(..WRITES.len())];
            let fault = FAULTS_OF_WRITES[random.usize(..FAULTS_OF_WRITES.len())];
            // One organization is no customer yet.
            let among = if call == Call::CreateCustomer { 1 } else { AMONG };
            faults.push((call, random.usize(1..=among), fault));
        }
        for _ in 0..if jumps { 0 } else { FAILURES } {
            let call = READS[random.usize(..READS.len())];
            let fault = FAULTS_OF_READS[random.usize(..FAULTS_OF_READS.len())];
            faults.push((call, random.usize(1..=AMONG), fault));
        }
        Self {
            webhooks,
            order: random.u64(..),
            faults,
            jumps,
        }
    }

    pub(super) fn begin(&self, double: &StripeDouble) {
        double.set_webhooks(self.webhooks);
        for (call, nth, fault) in &self.faults {
            double.fail(*call, *nth, *fault);
        }
    }

    /// Ends all faults. Held webhooks are sent, in any order and twice; dropped ones stay lost.
    pub(super) fn end(&self, double: &StripeDouble) {
        double.forget_failures();
        double.release();
        double.set_webhooks(WebhookMode::Sent);
        double.release_webhooks(WebhookOrder::Shuffled(self.order), 2);
    }
}
