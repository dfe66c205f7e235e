//! Lost answers and webhooks, and an unreachable Stripe.

use futures_util::future::join_all;
use sortie_billing::Billing;
use sortie_testkit::stripe::{Call, Card, Fault, Settlement, WebhookMode, WebhookOrder};

use super::{Shop, session};
use crate::prelude::*;

crate::settings::everywhere! {
    without_webhooks_a_payment_is_credited_by_a_look_at_the_purchase,
    without_webhooks_a_payment_is_credited_within_three_minutes_whenever_it_comes,
    one_node_searches_for_events_every_two_minutes_while_a_page_can_be_paid,
    a_search_that_fails_or_whose_node_dies_is_made_soon,
    an_event_whose_webhook_was_lost_is_found_by_the_next_search,
    a_payment_that_no_event_tells_of_is_found_by_the_daily_comparison,
    while_stripe_is_away_nothing_is_sold_and_nothing_is_lost,
    a_page_whose_making_was_interrupted_is_made_once,
    a_page_on_which_stripe_fails_for_good_is_found_or_made_under_another_key,
    a_page_that_stripe_never_makes_is_given_up_within_three_minutes,
    a_page_of_a_purchase_that_was_given_up_is_handed_to_nobody,
    a_customer_whom_stripe_failed_on_can_buy,
    a_payment_that_takes_days_is_credited_when_it_succeeds,
    events_that_cannot_be_handled_are_tried_again_for_three_days,
}

async fn without_webhooks_a_payment_is_credited_by_a_look_at_the_purchase() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    shop.buy(2_500).await;
    shop.work().await;
    assert_eq!(shop.bought().await, 0, "nobody has told of it");
    shop.advance(Duration::from_mins(2));
    // No event can be listed.
    shop.double.fail(Call::ListEvents, 1, Fault::ErrorBefore);
    shop.work().await;
    assert_eq!(shop.bought().await, 2_500);
    shop.audit().await;
    shop.close().await;
}

/// `docs/BILLING.md#what-happens-to-a-webhook`
async fn without_webhooks_a_payment_is_credited_within_three_minutes_whenever_it_comes() {
    // The checks of the purchase run 7 and 82 minutes after the order.
    for minute in [3, 50] {
        let shop = Shop::open().await;
        shop.double.set_webhooks(WebhookMode::Dropped);
        let session = shop.order(2_500).await;
        for _ in 0..minute {
            shop.advance(Duration::from_mins(1));
            shop.work().await;
        }
        shop.double.pay(&session, Card::Good).unwrap();
        for _ in 0..3 {
            shop.advance(Duration::from_mins(1));
            shop.work().await;
        }
        assert_eq!(shop.bought().await, 2_500, "paid at minute {minute}");
        shop.audit().await;
        shop.close().await;
    }
}

/// `docs/BILLING.md#what-happens-to-a-webhook`
async fn one_node_searches_for_events_every_two_minutes_while_a_page_can_be_paid() {
    let shop = Shop::open().await;
    let searches = || shop.double.requests(Call::ListEvents).len();
    let first = searches();
    // All nodes at once, and each twice.
    let work = async || {
        let nodes = || shop.rig.billing.iter();
        for turn in join_all(nodes().chain(nodes()).map(Billing::turn)).await {
            turn.unwrap();
        }
    };
    shop.advance(Duration::from_mins(30));
    work().await;
    assert_eq!(searches(), first, "no page can be paid");
    shop.order(500).await;
    work().await;
    assert_eq!(searches(), first + 1, "the last search was long ago");
    for number in 2..=4 {
        shop.advance(Duration::from_secs(119));
        work().await;
        assert_eq!(searches(), first + number - 1);
        shop.advance(Duration::from_secs(1));
        work().await;
        assert_eq!(searches(), first + number);
    }
    // The page expires, and the last of the frequent searches finds it.
    shop.double.set_webhooks(WebhookMode::Dropped);
    shop.advance(Duration::from_mins(55));
    work().await;
    let (all, waiting) = (searches(), "SELECT COUNT(*) AS v FROM topup WHERE state = 'open'");
    assert_eq!((all, shop.rig.count(waiting).await), (first + 5, 0));
    shop.advance(Duration::from_mins(59));
    work().await;
    assert_eq!(searches(), all);
    shop.advance(Duration::from_mins(1));
    work().await;
    assert_eq!(searches(), all + 1, "each hour all the same");
    shop.close().await;
}

async fn a_search_that_fails_or_whose_node_dies_is_made_soon() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    // Suppress the checks of purchases.
    let hide = "UPDATE topup SET check_at = check_at + 6000000000 WHERE check_at IS NOT NULL";
    for (number, fault) in [(1, Fault::ErrorBefore), (2, Fault::HeldBefore)] {
        shop.buy(500).await;
        shop.rig.meddle(hide).await;
        shop.double.fail(Call::ListEvents, 1, fault);
        shop.advance(Duration::from_mins(2));
        let asked = shop.double.requests(Call::ListEvents).len();
        tokio::select! {
            turn = shop.rig.billing[0].turn() => drop(turn.unwrap()),
            // The node dies during its request.
            held = shop.double.wait_for_requests(Call::ListEvents, asked + 1), if fault == Fault::HeldBefore => {
                drop(held.unwrap());
            }
        }
        assert_eq!(shop.bought().await, 500 * (number - 1), "{fault:?}");
        shop.advance(Duration::from_secs(30));
        shop.work().await;
        assert_eq!(shop.bought().await, 500 * number, "{fault:?}");
    }
    shop.close().await;
}

async fn an_event_whose_webhook_was_lost_is_found_by_the_next_search() {
    let shop = Shop::open().await;
    let intents = [shop.buy(2_500).await, shop.buy(700).await];
    shop.hear().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    shop.double.refund(&intents[0], 500).unwrap();
    shop.advance(Duration::from_mins(50));
    // A webhook that arrives in between must not hide the lost ones.
    shop.double.set_webhooks(WebhookMode::Sent);
    shop.double.refund(&intents[1], 100).unwrap();
    shop.work_until_heard("refund.created", 1).await;
    assert_eq!(shop.bought().await, 3_100);
    shop.advance(Duration::from_mins(10));
    shop.work().await;
    assert_eq!(shop.bought().await, 2_600);
    shop.audit().await;
    shop.close().await;
}

async fn a_payment_that_no_event_tells_of_is_found_by_the_daily_comparison() {
    let shop = Shop::open().await;
    let intent = shop.buy(2_500).await;
    shop.hear().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    shop.double.refund(&intent, 500).unwrap();
    shop.double
        .dispute(&intent, 2_000, sortie_testkit::stripe::DisputeStage::Chargeback)
        .unwrap();
    // No event can be listed during the whole time.
    shop.advance(Duration::from_hours(25));
    shop.double.fail(Call::ListEvents, 1, Fault::ErrorBefore);
    shop.rig.billing[0].turn().await.unwrap();
    assert_eq!(shop.bought().await, 0);
    let payment = shop.payment().await;
    assert_eq!(payment["refunded_cents"], 500);
    assert_eq!(payment["disputed_cents"], 2_000);
    shop.audit().await;
    shop.close().await;
}

async fn while_stripe_is_away_nothing_is_sold_and_nothing_is_lost() {
    let shop = Shop::open().await;
    let open = shop.order(2_500).await;
    shop.double.pay(&open, Card::Good).unwrap();
    for fault in [Fault::ErrorBefore, Fault::TooMany, Fault::LostBefore] {
        shop.double.fail_always(Some(fault));
        shop.checkout(500, false).must_refuse("unavailable").await;
        shop.work_until_heard("checkout.session.completed", 1).await;
        shop.advance(Duration::from_mins(2));
        shop.work().await;
        assert_eq!(shop.bought().await, 0);
    }
    shop.double.fail_always(None);
    shop.advance(Duration::from_hours(1));
    shop.work().await;
    assert_eq!(shop.bought().await, 2_500);
    let waiting = "SELECT COUNT(*) AS v FROM topup WHERE state IN ('created', 'open', 'processing')";
    shop.advance(Duration::from_hours(2));
    shop.work().await;
    assert_eq!(shop.rig.count(waiting).await, 0);
    shop.audit().await;
    shop.close().await;
}

async fn a_page_whose_making_was_interrupted_is_made_once() {
    let shop = Shop::open().await;
    for call in [Call::CreateCustomer, Call::CreateSession] {
        shop.double.fail(call, 1, Fault::LostAfter);
        shop.checkout(500, false).must_refuse("unavailable").await;
    }
    shop.advance(Duration::from_mins(2));
    shop.work().await;
    let sent = shop.double.requests(Call::CreateSession);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].parameters, sent[1].parameters);
    let states = "SELECT COUNT(*) AS v FROM topup WHERE state = 'open' AND session_id IS NOT NULL";
    assert_eq!(shop.rig.count(states).await, 1, "the same page");
    let customers = shop.double.requests(Call::CreateCustomer);
    assert_eq!(customers.len(), 2);
    assert_eq!(
        shop.double.events("customer.created").len(),
        1,
        "the same customer"
    );
    let bought = session(&shop.checkout(700, false).must(200).await);
    shop.double.pay(&bought, Card::Good).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 700);
    shop.advance(Duration::from_hours(2));
    shop.work().await;
    assert_eq!(
        shop.rig
            .count("SELECT COUNT(*) AS v FROM topup WHERE state = 'expired'")
            .await,
        1
    );
    shop.close().await;
}

async fn a_page_on_which_stripe_fails_for_good_is_found_or_made_under_another_key() {
    let shop = Shop::open().await;
    let mut bought = 0;
    for fault in [Fault::ErrorKept, Fault::ErrorAfter] {
        // The double replays the error for the key, as Stripe does.
        shop.double.fail(Call::CreateSession, 1, fault);
        shop.buy(500).await;
        shop.hear().await;
        bought += 500;
        assert_eq!(shop.bought().await, bought, "{fault:?}");
    }
    let sent = shop.double.requests(Call::CreateSession);
    assert_eq!(sent.len(), 3, "the page that was made is found");
    assert_eq!(sent[1].key, sent[0].key.as_ref().map(|key| format!("{key}-2")));
    shop.audit().await;
    shop.close().await;
}

async fn a_page_that_stripe_never_makes_is_given_up_within_three_minutes() {
    let shop = Shop::open().await;
    shop.order(500).await;
    for nth in 1..=2 {
        shop.double.fail(Call::CreateSession, nth, Fault::ErrorKept);
    }
    shop.checkout(500, false).must_refuse("unavailable").await;
    shop.double.fail(Call::CreateSession, 1, Fault::LostBefore);
    shop.checkout(700, false).must_refuse("unavailable").await;
    let created = "SELECT COUNT(*) AS v FROM topup WHERE state = 'created'";
    assert_eq!(shop.rig.count(created).await, 2);
    shop.advance(Duration::from_mins(2));
    // The first check of the second one fails as well.
    shop.double.fail(Call::CreateSession, 1, Fault::LostBefore);
    shop.double.fail(Call::CreateSession, 2, Fault::LostBefore);
    shop.work().await;
    shop.advance(Duration::from_secs(20));
    shop.work().await;
    assert_eq!(shop.rig.count(created).await, 0);
    let open = "SELECT COUNT(*) AS v FROM topup WHERE state = 'open'";
    assert_eq!(shop.rig.count(open).await, 2);
    let failed = "SELECT COUNT(*) AS v FROM topup WHERE state = 'failed'";
    assert_eq!(shop.rig.count(failed).await, 1);
    shop.close().await;
}

async fn a_page_of_a_purchase_that_was_given_up_is_handed_to_nobody() {
    let shop = Shop::open().await;
    shop.double.fail(Call::CreateCustomer, 1, Fault::HeldBefore);
    let meanwhile = async {
        shop.double
            .wait_for_requests(Call::CreateCustomer, 1)
            .await
            .unwrap();
        shop.advance(Duration::from_mins(2));
        shop.work().await;
        shop.double.release();
    };
    let checkout = shop.checkout(500, false).must_refuse("conflict");
    let (refused, ()) = tokio::join!(checkout, meanwhile);
    assert_contains!(refused.error, "timed out; start a new one");
    shop.order(700).await;
    shop.close().await;
}

async fn a_customer_whom_stripe_failed_on_can_buy() {
    let shop = Shop::open().await;
    // The double replays the error for the key, as Stripe does.
    shop.double.fail(Call::CreateCustomer, 1, Fault::ErrorAfter);
    shop.buy(500).await;
    shop.hear().await;
    assert_eq!(shop.bought().await, 500);
    shop.buy(700).await;
    shop.hear().await;
    assert_eq!(shop.bought().await, 1_200);
    assert_eq!(shop.double.requests(Call::CreateCustomer).len(), 2);
    shop.audit().await;
    shop.close().await;
}

async fn a_payment_that_takes_days_is_credited_when_it_succeeds() {
    let shop = Shop::open().await;
    let (good, bad) = (shop.order(2_500).await, shop.order(700).await);
    shop.double.pay(&good, Card::Slow).unwrap();
    shop.double.pay(&bad, Card::Slow).unwrap();
    shop.hear().await;
    shop.advance(Duration::from_hours(24));
    shop.hear().await;
    assert_eq!(shop.bought().await, 0);
    let mut intents: Vec<String> = Vec::new();
    for held in shop.double.holdings().topups.into_values().flatten() {
        assert_eq!(held.status, "processing");
        intents.push(held.id);
    }
    for intent in intents {
        let is_good = shop
            .double
            .holdings()
            .topups
            .values()
            .flatten()
            .any(|held| held.id == intent && held.amount_cents == 2_500);
        let settlement = if is_good {
            Settlement::Paid
        } else {
            Settlement::Failed
        };
        shop.double.settle(&intent, settlement).unwrap();
    }
    shop.hear().await;
    assert_eq!(shop.bought().await, 2_500);
    assert_eq!(
        shop.rig
            .count("SELECT COUNT(*) AS v FROM topup WHERE state = 'failed'")
            .await,
        1
    );
    shop.audit().await;
    shop.close().await;
}

async fn events_that_cannot_be_handled_are_tried_again_for_three_days() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Held);
    let intent = shop.buy(2_500).await;
    shop.double.refund(&intent, 2_500).unwrap();
    // The refund event arrives first.
    shop.double.release_webhooks(WebhookOrder::Reversed, 2);
    shop.double.fail_always(Some(Fault::ErrorBefore));
    shop.hear().await;
    let waiting = "SELECT COUNT(*) AS v FROM stripe_event WHERE due_at IS NOT NULL";
    let all = shop.rig.count(waiting).await;
    assert!(all >= 4, "{all}");
    for _ in 0..6 {
        shop.advance(Duration::from_hours(11));
        shop.work().await;
    }
    assert_eq!(shop.rig.count(waiting).await, all);
    shop.advance(Duration::from_hours(11));
    shop.work().await;
    assert_eq!(shop.rig.count(waiting).await, 0);
    let failed = "SELECT COUNT(*) AS v FROM stripe_event WHERE outcome = 'failed'";
    assert_eq!(shop.rig.count(failed).await, all);
    // The checks of the purchase and the comparison continue.
    shop.double.fail_always(None);
    shop.advance(Duration::from_hours(2));
    shop.work().await;
    shop.advance(Duration::from_hours(25));
    shop.work().await;
    assert_eq!(shop.bought().await, 0);
    assert_eq!(shop.entries().await.len(), 2);
    shop.audit().await;
    shop.close().await;
}

impl Shop {
    /// Waits until this number of webhooks of a type was received, and lets all nodes work.
    async fn work_until_heard(&self, kind: &str, count: usize) {
        let heard = self.double.wait_for_deliveries(|sent| {
            sent.iter()
                .filter(|sent| sent.kind == kind && sent.status == Some(200))
                .count()
                >= count
        });
        heard.await.unwrap();
        self.work().await;
    }
}
