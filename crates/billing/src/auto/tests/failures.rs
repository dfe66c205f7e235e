//! Failed requests, and nodes killed between any two steps: a purchase still has one payment.

use std::time::Duration;

use futures_util::future::join_all;
use sortie_store::{money::SentAutoTopup, outbox::PaymentNotice};
use sortie_testkit::{
    Checked, Database, both_databases,
    stripe::{Call, Card, Fault, Settlement},
};
use tokio::task::JoinSet;

use super::{HOUR, Rig, checkout};
use crate::checkout::purchase::SyncOutcome;

both_databases! {
    every_failure_of_every_request_ends_within_three_minutes_as_if_it_had_not_been,
    a_node_that_is_killed_in_any_request_leaves_the_purchase_to_the_others,
    a_node_that_is_killed_between_two_steps_leaves_the_purchase_to_the_others,
    many_nodes_at_once_make_one_payment,
    no_key_is_used_after_23_hours,
    a_stripe_that_only_fails_is_given_up_after_ten_minutes_and_tried_an_hour_later,
    events_that_cannot_be_handled_do_not_keep_purchases_from_being_looked_at,
    the_age_of_a_purchase_that_hangs_is_measured,
    a_charge_on_which_stripe_fails_for_good_has_failed_within_three_minutes,
    a_charge_that_stripe_finishes_later_is_credited,
    the_mail_to_a_cardholder_has_a_page_although_stripe_fails_on_it,
    a_page_that_stripe_makes_later_changes_nothing,
}

/// Final state of a purchase with a card.
fn end_of(card: Card) -> &'static str {
    match card {
        Card::Good => "paid",
        Card::Declined | Card::InsufficientFunds => "failed",
        Card::NeedsAuthentication | Card::AwaitsAuthentication => "requires_action",
        Card::Slow => "processing",
    }
}

/// Requests of a purchase with a card.
fn calls_of(card: Card) -> &'static [Call] {
    match card {
        Card::Good | Card::Declined | Card::InsufficientFunds | Card::Slow => &[Call::CreateIntent],
        Card::NeedsAuthentication | Card::AwaitsAuthentication => {
            &[Call::CreateIntent, Call::CancelIntent, Call::CreateSession]
        }
    }
}

/// Makes a purchase in which one request fails.
async fn fails(database: Database, card: Card, call: Call, fault: Fault) {
    let at = format!("{card:?}, {call:?}, {fault:?}");
    let rig = Rig::start(database).await;
    rig.enable(card).await;
    if call == Call::ListIntents {
        // The search runs only after a failed charge.
        rig.double.fail(Call::CreateIntent, 1, Fault::ErrorAfter);
    }
    rig.double.fail(call, 1, fault);
    rig.buy().await;
    rig.work_for(Duration::from_mins(3)).await;
    assert_eq!(rig.states().await, [end_of(card)], "{at}");
    rig.check(&at).await;
}

async fn every_failure_of_every_request_ends_within_three_minutes_as_if_it_had_not_been(
    database: Database,
) -> Checked {
    let faults = [
        Fault::ErrorBefore,
        Fault::ErrorKept,
        Fault::ErrorAfter,
        Fault::TooMany,
        Fault::LostBefore,
        Fault::LostAfter,
    ];
    for card in Card::ALL {
        for call in calls_of(card).iter().chain([&Call::ListIntents]) {
            let is_certain = |fault: &Fault| (*call, *fault) != (Call::CreateIntent, Fault::ErrorKept);
            let faults = faults.into_iter().filter(is_certain);
            join_all(faults.map(|fault| fails(database, card, *call, fault))).await;
        }
    }
    Ok(())
}

/// `docs/BILLING.md#automatic-purchases`: Stripe may still finish a failed request, so the card is not charged a second time.
async fn a_charge_on_which_stripe_fails_for_good_has_failed_within_three_minutes(
    database: Database,
) -> Checked {
    for card in Card::ALL {
        let rig = Rig::start(database).await;
        rig.enable(card).await;
        rig.double.fail(Call::CreateIntent, 1, Fault::ErrorKept);
        rig.buy().await;
        rig.work_for(Duration::from_mins(3)).await;
        assert_eq!(rig.states().await, ["failed"], "{card:?}");
        let sent = rig.double.requests(Call::CreateIntent);
        assert!(
            sent.len() > 1 && sent.iter().all(|of| of.key == sent[0].key),
            "{card:?}"
        );
        let (failures, paused_until) = rig.failures().await.unwrap();
        assert!(
            failures == 0 && paused_until.is_some(),
            "the card was not declined"
        );
        assert_eq!(rig.notices(), []);
        rig.check("failed for good").await;
    }
    Ok(())
}

async fn a_charge_that_stripe_finishes_later_is_credited(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    rig.double.fail(Call::CreateIntent, 1, Fault::ErrorKept);
    rig.buy().await;
    rig.work_for(Duration::from_mins(3)).await;
    assert_eq!(rig.states().await, ["failed"]);
    let topup = rig.double.requests(Call::CreateIntent)[0].key.clone().unwrap();
    let payment_method = rig.card().await;
    let payment = crate::SavedCardPayment {
        customer: &rig.customer,
        payment_method: &payment_method,
        amount_cents: 5_000,
        topup: &topup,
    };
    let stripe = &rig.billing.0.stripe;
    stripe
        .charge_saved_card("of Stripe itself", &payment)
        .await
        .unwrap();
    rig.work_for(2 * HOUR).await;
    assert_eq!(rig.states().await, ["paid"]);
    assert_eq!(rig.balance().await, super::BOUGHT);
    rig.check("later").await;
    Ok(())
}

async fn the_mail_to_a_cardholder_has_a_page_although_stripe_fails_on_it(database: Database) -> Checked {
    for fault in [Fault::ErrorBefore, Fault::ErrorKept, Fault::ErrorAfter] {
        let rig = Rig::start(database).await;
        rig.enable(Card::NeedsAuthentication).await;
        rig.double.fail(Call::CreateSession, 1, fault);
        rig.buy().await;
        let [
            PaymentNotice::CardholderNeeded {
                checkout: Some(url), ..
            },
        ] = &rig.notices()[..]
        else {
            panic!("{fault:?}: {:?}", rig.notices());
        };
        let session = url.rsplit('/').next().unwrap();
        rig.double.pay(session, Card::Good).unwrap();
        rig.work_for(Duration::from_mins(3)).await;
        assert_eq!(rig.balance().await, super::BOUGHT, "{fault:?}");
        rig.check("by hand").await;
    }
    Ok(())
}

async fn a_page_that_stripe_makes_later_changes_nothing(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.double.fail(Call::CreateSession, 1, Fault::ErrorKept);
    let caller = rig.caller();
    let url = rig
        .billing
        .create_checkout(&caller, &checkout(5_000))
        .await
        .unwrap();
    let sent = rig.double.requests(Call::CreateSession);
    let topup = sent[0].key.clone().unwrap();
    assert_eq!(sent[1].key, Some(format!("{topup}-2")));
    assert_eq!(sent[0].parameters, sent[1].parameters);
    let order = crate::CheckoutOrder {
        customer: &rig.customer,
        amount_cents: 5_000,
        description: "Sortie credits",
        topup: &topup,
        saves_card: false,
        expires_at: rig.clock.now().as_micros() / 1_000_000 + 3_600,
        success_url: "https://accounts.example/a",
        cancel_url: "https://accounts.example/b",
    };
    let stripe = &rig.billing.0.stripe;
    let later = stripe.create_checkout("of Stripe itself", &order).await.unwrap();
    assert_eq!(
        rig.billing.0.sync_checkout(&later.id).await.unwrap(),
        SyncOutcome::NotOurs
    );
    rig.double
        .pay(url.rsplit('/').next().unwrap(), Card::Good)
        .unwrap();
    rig.work_for(2 * HOUR).await;
    assert_eq!(rig.balance().await, super::BOUGHT);
    rig.check("two pages").await;
    Ok(())
}

async fn a_node_that_is_killed_in_any_request_leaves_the_purchase_to_the_others(
    database: Database,
) -> Checked {
    for card in Card::ALL {
        for call in calls_of(card).iter().copied() {
            for fault in [Fault::HeldBefore, Fault::HeldAfter] {
                let at = format!("{card:?}, {call:?}, {fault:?}");
                let rig = Rig::start(database).await;
                rig.enable(card).await;
                rig.double.fail(call, 1, fault);
                let billing = rig.billing.clone();
                let mut buying = JoinSet::new();
                buying.spawn(async move { billing.0.buy_for_all().await });
                let asked = rig.double.wait_for_requests(call, 1);
                tokio::select! {
                    asked = asked => drop(asked.unwrap()),
                    done = buying.join_next() => done.unwrap().unwrap().unwrap(),
                }
                buying.shutdown().await;
                rig.double.release();
                rig.work_for(Duration::from_mins(3)).await;
                assert_eq!(rig.states().await, [end_of(card)], "{at}");
                rig.check(&at).await;
            }
        }
    }
    Ok(())
}

async fn a_node_that_is_killed_between_two_steps_leaves_the_purchase_to_the_others(
    database: Database,
) -> Checked {
    for card in Card::ALL {
        for is_marked in [false, true] {
            let rig = Rig::start(database).await;
            rig.enable(card).await;
            let topup = rig.begun().await;
            if is_marked {
                let sent = rig.billing.0.store.send_auto_topup(topup.id).await;
                assert_eq!(sent, Ok(SentAutoTopup::Now));
            }
            rig.work_for(Duration::from_mins(3)).await;
            assert_eq!(rig.states().await, [end_of(card)], "{card:?}");
            // The request was answered, but the answer was not recorded.
            let rig = Rig::start(database).await;
            rig.enable(card).await;
            let topup = rig.begun().await;
            rig.billing.0.store.send_auto_topup(topup.id).await.unwrap();
            let (customer, card_id) = (topup.customer.unwrap(), topup.payment_method.unwrap());
            let id = topup.id.to_string();
            let payment = crate::SavedCardPayment {
                customer: &customer,
                payment_method: &card_id,
                amount_cents: topup.amount_cents,
                topup: &id,
            };
            drop(rig.billing.0.stripe.charge_saved_card(&id, &payment).await);
            rig.work_for(Duration::from_mins(3)).await;
            assert_eq!(rig.states().await, [end_of(card)], "{card:?}");
            rig.check("killed").await;
        }
    }
    Ok(())
}

async fn many_nodes_at_once_make_one_payment(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    let buying = (0..16).map(|_| rig.billing.0.buy_for_all());
    for bought in join_all(buying).await {
        bought.unwrap();
    }
    let topup = rig.double.requests(Call::CreateIntent);
    assert_eq!(topup.len(), 1);
    rig.check("at once").await;
    // Two nodes check the same purchase, and a third one reads the payment.
    let rig = Rig::start(database).await;
    rig.enable(Card::NeedsAuthentication).await;
    let topup = rig.begun().await;
    let looks = (0..8).map(|_| rig.billing.0.sync_auto_topup(&topup));
    join_all(looks).await;
    rig.work_for(Duration::from_mins(3)).await;
    assert_eq!(rig.states().await, ["requires_action"]);
    rig.check("looks").await;
    Ok(())
}

async fn no_key_is_used_after_23_hours(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    rig.double.fail_always(Some(Fault::LostBefore));
    rig.buy().await;
    rig.work_for(Duration::from_mins(3)).await;
    assert_eq!(rig.states().await, ["processing"], "nobody knows");
    rig.pass(23 * HOUR);
    let sent = rig.double.requests(Call::CreateIntent).len();
    rig.double.fail_always(None);
    rig.work_for(2 * HOUR).await;
    assert_eq!(rig.states().await, ["failed"]);
    assert_eq!(rig.double.requests(Call::CreateIntent).len(), sent);
    assert_eq!(rig.failures().await.unwrap().0, 0, "the card was not declined");
    // A payment with a lost response is still found.
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    rig.double.fail(Call::CreateIntent, 1, Fault::LostAfter);
    rig.buy().await;
    rig.pass(30 * HOUR);
    rig.work_for(Duration::from_mins(1)).await;
    assert_eq!(rig.states().await, ["paid"]);
    assert_eq!(rig.double.requests(Call::CreateIntent).len(), 1);
    rig.check("lost").await;
    Ok(())
}

async fn a_stripe_that_only_fails_is_given_up_after_ten_minutes_and_tried_an_hour_later(
    database: Database,
) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    for nth in 1..=40 {
        rig.double.fail(Call::CreateIntent, nth, Fault::ErrorBefore);
    }
    rig.buy().await;
    rig.work_for(Duration::from_mins(30)).await;
    rig.buy().await;
    assert_eq!(rig.states().await, ["failed"]);
    assert_eq!(rig.notices(), []);
    rig.pass(HOUR);
    rig.buy().await;
    assert_eq!(rig.states().await.len(), 2);
    Ok(())
}

async fn events_that_cannot_be_handled_do_not_keep_purchases_from_being_looked_at(
    database: Database,
) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    let event = "INSERT INTO stripe_event (id, kind, object_id, made_at, received_at, due_at, tries) \
         VALUES ('evt_1', 'charge.refunded', 'ch_1', 1, 1, 1, 0)";
    let faults: &[&str] = match database {
        Database::Sqlite => &[
            "CREATE TRIGGER injected BEFORE UPDATE ON stripe_event BEGIN SELECT RAISE(ABORT, 'injected'); END",
        ],
        Database::Postgres => &[
            "CREATE FUNCTION injected() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN RAISE EXCEPTION ''injected''; END'",
            "CREATE TRIGGER injected BEFORE UPDATE ON stripe_event FOR EACH ROW EXECUTE FUNCTION injected()",
        ],
    };
    for sql in [event].iter().chain(faults) {
        rig.database.change(sql).await.unwrap();
    }
    rig.double.fail(Call::CreateIntent, 1, Fault::LostAfter);
    rig.buy().await;
    for _ in 0..12 {
        rig.pass(Duration::from_secs(15));
        rig.billing.turn().await.unwrap_err();
    }
    assert_eq!(rig.states().await, ["paid"]);
    Ok(())
}

async fn the_age_of_a_purchase_that_hangs_is_measured(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    let age = async || {
        rig.billing.turn().await.unwrap();
        rig.metric("auto_topups_oldest_seconds")
    };
    rig.enable(Card::Slow).await;
    assert_eq!(age().await, 0);
    rig.buy().await;
    rig.pass(Duration::from_mins(11));
    assert_eq!(age().await, 660);
    let intent = rig.first_payment();
    rig.double.settle(&intent.id, Settlement::Paid)?;
    rig.work_for(2 * HOUR).await;
    assert_eq!((rig.states().await, age().await), (vec!["paid".to_owned()], 0));
    Ok(())
}
