//! Automatic purchases over the API: their settings, their representation, and the purchase after a run.

use sortie_testkit::stripe::{Call, Card};

use super::{Shop, session};
use crate::{prelude::*, rig::CREDITS};

crate::settings::everywhere! {
    automatic_purchases_need_consent_and_a_card,
    low_credits_are_bought_for_and_the_status_is_shown,
}

impl Shop {
    fn put_auto_topup(&self, body: &Value) -> Pending {
        self.rig.admin.put(&self.path("/auto-topup"), body)
    }

    /// Buys credits, and saves the card.
    async fn save(&self, card: Card) {
        let page = self.checkout(500, true).must(200).await;
        self.double.pay(&session(&page), card).unwrap();
        self.hear().await;
    }
}

fn settings() -> Value {
    json!({"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "consent": true})
}

async fn automatic_purchases_need_consent_and_a_card() {
    let shop = Shop::open().await;
    let off = json!({"enabled": false, "threshold_cents": null, "amount_cents": null, "payment_method_saved": false,
        "last_topup_status": null});
    assert_eq!(shop.billing().await["auto_topup"], off);
    shop.put_auto_topup(&settings()).must_refuse("conflict").await;
    shop.save(Card::Good).await;
    for (field, value, rule) in rows! {
        "consent", json!(false), "consent: must be true";
        "amount_cents", json!(499), "amount_cents: must be from 500 to 1000000";
        "threshold_cents", json!(499), "threshold_cents: must be from 500 to 1000000";
    } {
        let mut wrong = settings();
        wrong[field] = value;
        let refused = shop.put_auto_topup(&wrong).must_refuse("invalid_request").await;
        assert!(refused.error.starts_with(rule), "{refused:?}");
        wrong.as_object_mut().unwrap().remove(field);
        shop.put_auto_topup(&wrong).must_refuse("invalid_request").await;
    }
    assert_eq!(shop.billing().await["auto_topup"]["enabled"], false);
    let on = json!({"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "payment_method_saved": true,
        "last_topup_status": null});
    let put = shop.put_auto_topup(&settings()).must(200).await;
    assert_eq!(put.json().unwrap(), on);
    assert_eq!(shop.billing().await["auto_topup"], on);
    let agreed = "SELECT consent_by || ' ' || consent_text AS v FROM auto_topup";
    let agreed = shop.rig.text(agreed).await;
    assert!(
        agreed.starts_with(&format!("{} Charge $50.00 to", shop.rig.admin.user)),
        "{agreed}"
    );
    let disorderly = json!({"enabled": false, "amount_cents": 499});
    let refused = shop.put_auto_topup(&disorderly).await.unwrap();
    refused.refused("invalid_request").unwrap();
    let put = shop.put_auto_topup(&json!({"enabled": false})).must(200).await;
    assert_eq!(put.json().unwrap()["enabled"], false);
    for (action, count) in [("billing.auto_topup.put", 1), ("billing.auto_topup.disable", 1)] {
        let sql =
            format!("SELECT COUNT(*) AS v FROM audit WHERE action = '{action}' AND user_id IS NOT NULL");
        assert_eq!(shop.rig.count(&sql).await, count, "{action}");
    }
    shop.rig.end().await;
}

async fn low_credits_are_bought_for_and_the_status_is_shown() {
    let shop = Shop::open().await;
    shop.save(Card::Good).await;
    shop.put_auto_topup(&settings()).must(200).await;
    let mut working = tokio::task::JoinSet::new();
    for billing in &shop.rig.billing {
        let (billing, ended) = (billing.clone(), shop.rig.stop.clone());
        working.spawn(async move { billing.run(ended).await });
    }
    // The reservation of the run leaves less than the threshold.
    let run = json!({"prompt": "hello", "shell": false, "model": "runbook", "max_cost_micros": 100_000_000});
    let path = format!("/engine/{}/v1/runs", shop.rig.ours);
    for _ in 0..10 {
        shop.rig.owner.post(&path, &run).must(202).await;
    }
    shop.double
        .wait_for_requests(Call::CreateIntent, 1)
        .await
        .unwrap();
    let look = async || Ok(shop.billing().await);
    let is_credited = |billing: &Value| billing["auto_topup"]["last_topup_status"] == "succeeded";
    let billing = until("the top-up", look, is_credited).await.unwrap();
    assert_eq!(billing["balance_micros"], CREDITS + 55_000_000, "{billing}");
    assert_eq!(shop.double.requests(Call::CreateIntent).len(), 1);
    let payments = shop.payments("").await;
    let amounts = payments["payments"].as_array().unwrap().iter();
    let mut amounts: Vec<_> = amounts
        .map(|payment| payment["amount_cents"].as_i64().unwrap())
        .collect();
    amounts.sort_unstable();
    assert_eq!(amounts, [500, 5_000], "{payments}");
    shop.rig.end().await;
}
