//! Atomicity of the commands of automatic purchases.

use super::{atomicity::proves, prelude::*};
use crate::money::UnpaidAutoTopup;

commands! {
    async fn the_commands_of_automatic_purchases_are_one_transaction_each(fixture: &Fixture) {
        let (org, store) = (fixture.paying_org(1).await, &fixture.store);
        store.keep_customer(org, "cus_1").await.unwrap();
        let new = fixture.new_auto_topup(org);
        proves(fixture, async || store.put_auto_topup(new.clone(), fixture.audit(org)).await).await;
        let at = fixture.now();
        let first = fixture.begins(org, at);
        proves(fixture, async || store.begin_auto_topup(first).await).await;
        proves(fixture, async || store.send_auto_topup(first.id).await).await;
        proves(fixture, async || store.keep_intent(first.id, "pi_1").await).await;
        let again = UnpaidAutoTopup { intent: None, ..fixture.unpaid(org, first.id, AfterAutoTopup::RetryAt(at)) };
        proves(fixture, async || store.end_unpaid_auto_topup(again.clone()).await).await;
        let second = fixture.begins(org, at);
        store.begin_auto_topup(second).await.unwrap();
        store.send_auto_topup(second.id).await.unwrap();
        let last = UnpaidAutoTopup { failures: Some(1), ..fixture.unpaid(org, second.id, AfterAutoTopup::Disabled) };
        proves(fixture, async || store.end_unpaid_auto_topup(last.clone()).await).await;
        store.put_auto_topup(fixture.new_auto_topup(org), fixture.audit(org)).await.unwrap();
        let new = fixture.new_customer(org, "cus_1", "cus_2");
        proves(fixture, async || store.replace_customer(new.clone()).await).await;
        store.put_auto_topup(fixture.new_auto_topup(org), fixture.audit(org)).await.unwrap();
        proves(fixture, async || store.disable_auto_topup(org, fixture.audit(org)).await).await;
    }
}
