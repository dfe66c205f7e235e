//! Refunds that an operator orders, and repeats after every possible failure of the request. `docs/BILLING.md#refund-a-payment`

use std::{collections::BTreeSet, time::Duration};

use sortie_api::{ErrorCode, PaymentId, RefundOrderId, billing::RefundPayment};
use sortie_store::{
    access::Actor,
    money::{NewRefundOrder, PaymentRow},
};
use sortie_testkit::{
    Checked, Database, both_databases,
    stripe::{Call, Card, Fault},
};
use tokio::task::JoinSet;

use super::{BOUGHT, Rig};
use crate::Error;

both_databases! {
    a_refund_that_is_repeated_after_any_failure_is_made_once,
    a_node_that_is_killed_in_a_refund_leaves_it_to_the_next_command,
    many_commands_with_one_reference_are_one_refund,
    a_refund_on_which_stripe_fails_for_good_is_abandoned_and_counted_if_it_appears,
    no_key_of_a_refund_is_used_after_23_hours,
    a_refund_that_was_never_sent_is_made_by_the_next_command,
    a_refund_among_more_than_a_hundred_is_found,
}

const FAULTS: [Fault; 6] = [
    Fault::ErrorBefore,
    Fault::ErrorKept,
    Fault::ErrorAfter,
    Fault::TooMany,
    Fault::LostBefore,
    Fault::LostAfter,
];

fn part(amount_cents: i64, reference: &str) -> RefundPayment {
    RefundPayment {
        amount_cents: Some(amount_cents),
        reference: Some(reference.to_owned()),
    }
}

impl Rig {
    /// A node with one payment of $50.
    pub(super) async fn paid(database: Database) -> (Self, PaymentId) {
        let rig = Self::start(database).await;
        rig.enable(Card::Good).await;
        rig.buy().await;
        let payments = rig
            .billing
            .0
            .store
            .list_payments(rig.org, None, 10)
            .await
            .unwrap();
        let payment = payments[0].id;
        (rig, payment)
    }

    async fn refund(&self, payment: PaymentId, request: &RefundPayment) -> Result<PaymentRow, Error> {
        self.billing.refund(payment, request, &Actor::default()).await
    }

    /// Processes the events since the last call, from webhooks or from the search.
    async fn hear(&self) {
        self.pass(Duration::from_hours(1));
        self.billing.turn().await.unwrap();
    }

    /// Idempotency keys of the refund requests.
    fn keys(&self) -> BTreeSet<Option<String>> {
        let sent = self.double.requests(Call::CreateRefund);
        sent.into_iter().map(|sent| sent.key).collect()
    }

    /// Returns the cents that Stripe has refunded. Checks that the credits changed by the same amount.
    async fn went_back(&self) -> i64 {
        let refunded = self.double.holdings().total().refunded_cents;
        assert_eq!(self.balance().await, BOUGHT - refunded * 10_000);
        refunded
    }
}

async fn a_refund_that_is_repeated_after_any_failure_is_made_once(database: Database) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    let mut expected = 0;
    for (number, fault) in FAULTS.into_iter().enumerate() {
        let request = part(100, &format!("refund {number}"));
        rig.double.fail(Call::CreateRefund, 1, fault);
        let first = rig.refund(payment, &request).await;
        // The webhook of the refund arrives before the operator repeats the command.
        rig.hear().await;
        let repeated = rig.refund(payment, &request).await;
        let is_made = fault != Fault::ErrorKept;
        assert_eq!(
            repeated.is_ok(),
            is_made,
            "{fault:?}: {first:?}, then {repeated:?}"
        );
        expected += if is_made { 100 } else { 0 };
        rig.hear().await;
        assert_eq!(rig.went_back().await, expected, "{fault:?}");
    }
    Ok(())
}

async fn a_node_that_is_killed_in_a_refund_leaves_it_to_the_next_command(database: Database) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    for (number, fault) in [Fault::HeldBefore, Fault::HeldAfter].into_iter().enumerate() {
        let (request, keys) = (part(100, &format!("refund {number}")), number + 1);
        let sent = rig.double.requests(Call::CreateRefund).len() + 1;
        rig.double.fail(Call::CreateRefund, 1, fault);
        let mut node = JoinSet::new();
        let (billing, asked) = (rig.billing.clone(), request.clone());
        node.spawn(async move { billing.refund(payment, &asked, &Actor::default()).await });
        rig.double.wait_for_requests(Call::CreateRefund, sent).await?;
        node.shutdown().await;
        rig.double.release();
        rig.hear().await;
        for _ in 0..2 {
            rig.refund(payment, &request).await.unwrap();
        }
        rig.hear().await;
        let expected = (keys, 100 * i64::try_from(keys)?);
        assert_eq!((rig.keys().len(), rig.went_back().await), expected, "{fault:?}");
    }
    Ok(())
}

async fn many_commands_with_one_reference_are_one_refund(database: Database) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    let mut commands = JoinSet::new();
    for _ in 0..8 {
        let billing = rig.billing.clone();
        commands.spawn(async move { billing.refund(payment, &part(300, "a"), &Actor::default()).await });
    }
    // Some commands get the answer that Stripe is still processing the request.
    assert!(commands.join_all().await.iter().any(Result::is_ok));
    rig.refund(payment, &part(300, "a")).await.unwrap();
    assert_eq!((rig.keys().len(), rig.went_back().await), (1, 300));
    let rest = RefundPayment::default();
    let mut commands = JoinSet::new();
    for _ in 0..8 {
        let (billing, rest) = (rig.billing.clone(), rest.clone());
        commands.spawn(async move { billing.refund(payment, &rest, &Actor::default()).await });
    }
    assert!(commands.join_all().await.iter().any(Result::is_ok));
    assert_eq!((rig.keys().len(), rig.went_back().await), (2, 5_000));
    assert!(matches!(
        rig.refund(payment, &rest).await,
        Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict
    ));
    Ok(())
}

async fn a_refund_on_which_stripe_fails_for_good_is_abandoned_and_counted_if_it_appears(
    database: Database,
) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    rig.double.fail(Call::CreateRefund, 1, Fault::ErrorKept);
    let request = part(100, "a");
    assert!(matches!(
        rig.refund(payment, &request).await,
        Err(Error::Stripe(_))
    ));
    rig.pass(Duration::from_secs(91));
    for _ in 0..2 {
        let abandoned = rig.refund(payment, &request).await;
        assert!(
            matches!(&abandoned, Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict && refused.text.contains("has made none"))
        );
    }
    assert_eq!((rig.keys().len(), rig.went_back().await), (1, 0));
    // Stripe still finishes the request.
    let order = rig.database.rows("SELECT id, state FROM refund_order").await?;
    assert_eq!(order[0]["state"], "abandoned");
    let id = order[0]["id"].as_str().unwrap_or_default();
    rig.double.refund_named(&rig.first_payment().id, 100, id)?;
    rig.refund(payment, &request).await.unwrap();
    assert_eq!(rig.went_back().await, 100);
    Ok(())
}

async fn no_key_of_a_refund_is_used_after_23_hours(database: Database) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    rig.double.fail(Call::CreateRefund, 1, Fault::LostBefore);
    let request = part(100, "a");
    assert!(matches!(
        rig.refund(payment, &request).await,
        Err(Error::Stripe(_))
    ));
    rig.pass(Duration::from_hours(23));
    let abandoned = rig.refund(payment, &request).await;
    assert!(
        matches!(&abandoned, Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict),
        "{abandoned:?}"
    );
    assert_eq!(
        (
            rig.double.requests(Call::CreateRefund).len(),
            rig.went_back().await
        ),
        (0, 0)
    );
    Ok(())
}

/// The node was killed between the record and the request: no key has an age.
async fn a_refund_that_was_never_sent_is_made_by_the_next_command(database: Database) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    let at = rig.clock.now();
    let order = NewRefundOrder {
        id: RefundOrderId::new(at, [1; 10]),
        payment,
        reference: Some("a".to_owned()),
        amount_cents: Some(100),
        at,
    };
    rig.billing.0.store.order_refund(order).await?;
    rig.pass(Duration::from_hours(30));
    for _ in 0..2 {
        rig.refund(payment, &part(100, "a")).await.unwrap();
        assert_eq!((rig.keys().len(), rig.went_back().await), (1, 100));
    }
    Ok(())
}

async fn a_refund_among_more_than_a_hundred_is_found(database: Database) -> Checked {
    let (rig, payment) = Rig::paid(database).await;
    rig.double.fail(Call::CreateRefund, 1, Fault::LostAfter);
    let request = part(100, "a");
    assert!(matches!(
        rig.refund(payment, &request).await,
        Err(Error::Stripe(_))
    ));
    let intent = rig.first_payment().id;
    for _ in 0..120 {
        rig.double.refund(&intent, 1)?;
    }
    rig.refund(payment, &request).await.unwrap();
    let charge = rig
        .billing
        .0
        .store
        .operated_payment(payment)
        .await?
        .charge
        .unwrap_or_default();
    rig.billing.0.sync_charge(&charge).await.unwrap();
    assert_eq!(rig.went_back().await, 220);
    Ok(())
}
