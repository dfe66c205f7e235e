//! The saved card, the customer portal, and receipts.

use sortie_testkit::stripe::{Call, Card, Fault, WebhookMode};

use super::{Shop, session};
use crate::prelude::*;

crate::settings::everywhere! {
    a_card_is_saved_with_a_purchase_and_changed_in_the_portal,
    while_stripe_is_away_the_last_known_card_is_shown,
    a_payment_without_a_receipt_has_none,
}

impl Shop {
    /// Buys credits, and saves the card. Returns the customer.
    async fn buy_and_save(&self) -> String {
        let page = self.checkout(500, true).must(200).await;
        self.double.pay(&session(&page), Card::Good).unwrap();
        self.hear().await;
        self.rig.text("SELECT customer AS v FROM billing_account").await
    }
}

async fn a_card_is_saved_with_a_purchase_and_changed_in_the_portal() {
    let shop = Shop::open().await;
    let nothing = shop.billing().await;
    assert_has!(nothing, {"payment_method": null, "payment_method_sync": "synced"});
    shop.buy(500).await;
    shop.hear().await;
    assert_eq!(
        shop.billing().await["payment_method"],
        Value::Null,
        "nobody agreed to it"
    );
    shop.advance(Duration::from_mins(1));
    let customer = shop.buy_and_save().await;
    let reads = |shop: &Shop| shop.double.requests(Call::ReadCustomer).len();
    let before = reads(&shop);
    let billing = shop.billing().await;
    let card = &billing["payment_method"];
    assert_has!(card, {"last4": "4242", "exp_year": 2034, "source": "checkout"});
    assert_eq!(billing["auto_topup"]["payment_method_saved"], true);
    for _ in 0..3 {
        assert_eq!(shop.billing().await["payment_method_sync"], "synced");
    }
    assert!(reads(&shop) <= before + 1, "once a minute");
    let portal = shop
        .rig
        .owner
        .post(&shop.path("/portal"), &json!({}))
        .await
        .unwrap();
    let url = portal.expect(200).unwrap().json().unwrap()["url"].clone();
    assert!(url.as_str().unwrap().contains("/p/session/"), "{url}");
    shop.double.save_card(&customer, Card::Slow).unwrap();
    assert_eq!(shop.billing().await["payment_method"]["source"], "checkout");
    shop.advance(Duration::from_mins(1));
    let changed = shop.billing().await;
    assert_has!(changed["payment_method"], {"source": "portal", "last4": "0077"});
    shop.double.remove_cards(&customer).unwrap();
    shop.advance(Duration::from_mins(1));
    let removed = shop.billing().await;
    assert_has!(removed, {"payment_method": null, "payment_method_sync": "synced"});
    shop.close().await;
}

async fn while_stripe_is_away_the_last_known_card_is_shown() {
    let shop = Shop::open().await;
    shop.buy_and_save().await;
    shop.billing().await;
    for fault in [Fault::ErrorBefore, Fault::TooMany, Fault::HeldBefore] {
        shop.advance(Duration::from_mins(1));
        shop.double.fail(Call::ReadCustomer, 1, fault);
        for _ in 0..2 {
            let billing = shop.billing().await;
            assert_eq!(billing["payment_method_sync"], "unavailable");
            assert_eq!(billing["payment_method"]["last4"], "4242");
        }
        shop.double.release();
    }
    shop.advance(Duration::from_mins(1));
    assert_eq!(shop.billing().await["payment_method_sync"], "synced");
    shop.close().await;
}

async fn a_payment_without_a_receipt_has_none() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Sent);
    shop.double.without_receipts();
    shop.buy(500).await;
    shop.hear().await;
    let payment = shop.payment().await;
    let path = payment["receipt_endpoint"].as_str().unwrap();
    shop.rig.owner.get(path).must_refuse("not_found").await;
    shop.double.fail_always(Some(Fault::ErrorBefore));
    shop.rig.owner.get(path).must_refuse("unavailable").await;
    let unknown = shop.path("/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/receipt");
    shop.rig.owner.get(&unknown).must_refuse("not_found").await;
    shop.close().await;
}
