//! Comparison of a payment with its charge: changes without an event are recorded, and differences are counted. Refunds of a
//! disputed payment.

use prometheus_client::{encoding::text::encode, registry::Registry};
use sortie_api::{ErrorCode, billing::RefundPayment};
use sortie_store::{access::Actor, money::PaymentRow};
use sortie_testkit::{
    Checked, Database, both_databases,
    stripe::{Card, DisputeStage, Verdict},
};

use super::{BOUGHT, Rig};
use crate::Error;

both_databases! {
    disputes_that_no_event_has_told_are_recorded,
    a_payment_whose_disputed_sum_is_not_that_of_stripe_is_counted,
    a_refund_that_a_dispute_kept_from_being_made_can_be_made_once_it_is_won,
}

impl Rig {
    /// Buys credits. Returns the payment intent.
    async fn bought(&self) -> String {
        self.enable(Card::Good).await;
        self.buy().await;
        self.first_payment().id
    }

    /// Compares the only payment. Returns the payment, and the number of differences so far.
    async fn compared(&self) -> (PaymentRow, u64) {
        let read = async || {
            let payments = self
                .billing
                .0
                .store
                .list_payments(self.org, None, 2)
                .await
                .unwrap();
            let [payment] = &payments[..] else {
                panic!("{payments:?}");
            };
            payment.clone()
        };
        self.billing.0.compare(&read().await).await.unwrap();
        (read().await, self.differences())
    }

    /// Number of payments that need a manual check, from the metric.
    pub(super) fn differences(&self) -> u64 {
        self.metric("payment_differences_total")
    }

    /// Value of a metric without labels.
    pub(super) fn metric(&self, name: &str) -> u64 {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.billing.0.metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap().parse().unwrap()
    }
}

async fn disputes_that_no_event_has_told_are_recorded(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    let intent = rig.bought().await;
    rig.double.dispute(&intent, 700, DisputeStage::Inquiry)?;
    let (payment, differences) = rig.compared().await;
    assert_eq!(
        (payment.disputed_cents, differences),
        (0, 0),
        "a question takes nothing"
    );
    let first = rig.double.dispute(&intent, 2_000, DisputeStage::Chargeback)?;
    let second = rig.double.dispute(&intent, 500, DisputeStage::Chargeback)?;
    let (payment, differences) = rig.compared().await;
    assert_eq!((payment.disputed_cents, differences), (2_500, 0));
    rig.double.decide(&first, Verdict::Won)?;
    rig.double.decide(&second, Verdict::Lost)?;
    let (payment, differences) = rig.compared().await;
    assert_eq!((payment.disputed_cents, differences), (500, 0));
    assert_eq!(rig.balance().await, BOUGHT - 5_000_000);
    Ok(())
}

async fn a_payment_whose_disputed_sum_is_not_that_of_stripe_is_counted(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    let intent = rig.bought().await;
    // Stripe has no dispute.
    rig.database
        .change("UPDATE payment SET disputed_cents = 5")
        .await?;
    assert_eq!(rig.compared().await.1, 1);
    rig.database
        .change("UPDATE payment SET disputed_cents = 0")
        .await?;
    assert_eq!(rig.compared().await.1, 1);
    rig.double.dispute(&intent, 2_000, DisputeStage::Chargeback)?;
    assert_eq!(rig.compared().await.1, 1);
    rig.database
        .change("UPDATE payment SET disputed_cents = 1999")
        .await?;
    assert_eq!(rig.compared().await.1, 2);
    Ok(())
}

async fn a_refund_that_a_dispute_kept_from_being_made_can_be_made_once_it_is_won(
    database: Database,
) -> Checked {
    let rig = Rig::start(database).await;
    let intent = rig.bought().await;
    let (payment, _) = rig.compared().await;
    let operator = Actor::default();
    let request = RefundPayment {
        amount_cents: Some(300),
        reference: Some("a".to_owned()),
    };
    let refund = || rig.billing.refund(payment.id, &request, &operator);
    // The deployment has no record of the dispute, so each command sends the refund to Stripe.
    let dispute = rig.double.dispute(&intent, 5_000, DisputeStage::Chargeback)?;
    for _ in 0..2 {
        let refused = refund().await;
        assert!(
            matches!(&refused, Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict),
            "{refused:?}"
        );
    }
    rig.double.decide(&dispute, Verdict::Won)?;
    assert_eq!(refund().await?.refunded_cents, 300);
    assert_eq!(rig.double.holdings().total().refunded_cents, 300);
    assert_eq!(rig.balance().await, BOUGHT - 3_000_000);
    Ok(())
}
