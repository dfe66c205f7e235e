//! Atomicity of the commands of refunds, of the closing of customers, and of the sums of the ledger.

use super::{
    atomicity::{proves, proves_step},
    prelude::*,
    purchases::card,
};
use crate::money::{NewRefundOrder, RemovedCard};

async fn set(fixture: &Fixture, sql: &'static str) {
    let set = fixture.store.db.write(move |tx| tx.exec(sql, vals![]));
    assert_eq!(set.await, Ok(1));
}

commands! {
    async fn the_commands_of_refunds_are_one_transaction_each(fixture: &Fixture) {
        let (org, store, at) = (fixture.paying_org(1).await, &fixture.store, fixture.now());
        let payment = fixture.bought(org, 700).await.payment;
        let [abandoned, withdrawn, due] = ["a", "b", "c"].map(|reference| NewRefundOrder {
            id: RefundOrderId::new(at, fixture.random()),
            payment,
            reference: Some(reference.to_owned()),
            amount_cents: Some(1),
            at,
        });
        proves(fixture, async || store.order_refund(abandoned.clone()).await).await;
        proves_step(fixture, async || store.send_refund(abandoned.id).await).await;
        proves(fixture, async || store.abandon_refund(abandoned.id).await).await;
        store.order_refund(withdrawn.clone()).await.unwrap();
        store.send_refund(withdrawn.id).await.unwrap();
        proves(fixture, async || store.withdraw_refund(withdrawn.id).await).await;
        store.order_refund(due.clone()).await.unwrap();
        set(fixture, "UPDATE refund_order SET due_at = 1 WHERE state = 'created'").await;
        proves_step(fixture, async || store.claim_refunds(at, Duration::ZERO, 10).await).await;
        let tries = fixture.count("SELECT MAX(tries) FROM refund_order WHERE due_at IS NOT NULL").await;
        proves(fixture, async || store.refund_due_at(due.id, tries, None).await).await;
    }

    async fn the_commands_of_customers_who_leave_are_one_transaction_each(fixture: &Fixture) {
        let (org, store, at) = (fixture.paying_org(1).await, &fixture.store, fixture.now());
        store.keep_customer(org, "cus_1").await.unwrap();
        store.keep_card(org, Some(card("pm_1", "portal")), at).await.unwrap();
        let removed = RemovedCard { payment_method: "pm_1".to_owned(), mail: None, audit: fixture.audit(org) };
        proves(fixture, async || store.forget_card(removed.clone()).await).await;
        set(fixture, "UPDATE billing_account SET close_at = 1").await;
        proves_step(fixture, async || store.claim_closing_accounts(at, Duration::ZERO, 10).await).await;
        proves(fixture, async || store.close_account_at(org, None).await).await;
    }

    async fn adding_up_the_ledger_is_one_transaction(fixture: &Fixture) {
        let (org, store) = (fixture.paying_org(1).await, &fixture.store);
        for _ in 0..4 {
            fixture.bought(org, 700).await;
        }
        proves_step(fixture, async || store.add_up_ledger(org, 1).await).await;
    }
}
