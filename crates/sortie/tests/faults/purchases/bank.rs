//! People at the bank and at Stripe's dashboard. The nodes learn of their actions only through Stripe.

use std::sync::atomic::{AtomicBool, Ordering};

use sortie_testkit::{
    StripeDouble,
    stripe::{DisputeStage, Settlement, Verdict},
};

use crate::prelude::*;

/// The bank, and the people at the dashboard.
#[derive(Clone, Debug)]
pub(super) struct Bank {
    double: Arc<StripeDouble>,
    random: fastrand::Rng,
    /// Refunds that have not failed.
    refunds: Vec<String>,
    /// Disputes that are not decided.
    disputes: Vec<String>,
}

impl Bank {
    pub(super) fn new(double: Arc<StripeDouble>, random: fastrand::Rng) -> Self {
        Self {
            double,
            random,
            refunds: Vec::new(),
            disputes: Vec::new(),
        }
    }

    /// Acts until the stop flag is set. Returns the bank.
    pub(super) async fn act(mut self, stop: Arc<AtomicBool>) -> Self {
        while !stop.load(Ordering::SeqCst) {
            self.act_once();
            let pause = Duration::from_millis(self.random.u64(10..60));
            tokio::time::sleep(pause).await;
        }
        self
    }

    /// Does one thing. Stripe refuses impossible actions, such as a refund beyond the payment.
    pub(super) fn act_once(&mut self) {
        match self.random.usize(..20) {
            0..10 => {
                if let Some(intent) = self.some("processing") {
                    let settlement = if self.random.usize(..4) == 0 {
                        Settlement::Failed
                    } else {
                        Settlement::Paid
                    };
                    let _done_or_refused = self.double.settle(&intent, settlement);
                }
            }
            10..15 => {
                if let Some(intent) = self.some("succeeded") {
                    let amount = self.random.i64(1..300);
                    self.refunds.extend(self.double.refund(&intent, amount));
                }
            }
            15 => {
                if let Some(refund) = take(&mut self.random, &mut self.refunds) {
                    let _done_or_refused = self.double.fail_refund(&refund);
                }
            }
            16 | 17 => {
                if let Some(intent) = self.some("succeeded") {
                    let (amount, stage) = (self.random.i64(1..500), DisputeStage::Chargeback);
                    self.disputes.extend(self.double.dispute(&intent, amount, stage));
                }
            }
            _ => {
                if let Some(dispute) = take(&mut self.random, &mut self.disputes) {
                    let verdict = if self.random.bool() {
                        Verdict::Won
                    } else {
                        Verdict::Lost
                    };
                    let _done_or_refused = self.double.decide(&dispute, verdict);
                }
            }
        }
    }

    /// Completes a payment that the bank was slow to process.
    pub(super) fn settle_all(&self) {
        for intent in self.double.intents("processing") {
            let _done_or_refused = self.double.settle(&intent, Settlement::Paid);
        }
    }

    /// Draws a payment with a status.
    fn some(&mut self, status: &str) -> Option<String> {
        let intents = self.double.intents(status);
        self.random.choice(intents)
    }
}

/// Takes something out of a list.
fn take(random: &mut fastrand::Rng, list: &mut Vec<String>) -> Option<String> {
    (!list.is_empty()).then(|| list.swap_remove(random.usize(..list.len())))
}
