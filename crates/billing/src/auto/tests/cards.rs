//! Cards that are declined, slow or removed, and cards of another customer.

use super::*;

both_databases! {
    a_declined_card_is_tried_after_one_hour_and_after_six_and_then_disabled,
    a_good_card_forgives_earlier_failures,
    a_bank_that_asks_for_the_cardholder_pauses_until_a_page_was_paid,
    a_slow_bank_is_waited_for,
    a_card_that_was_removed_is_forgotten,
    a_removed_card_is_forgotten_before_it_is_charged,
    a_card_of_another_customer_is_a_declined_one,
}

async fn a_declined_card_is_tried_after_one_hour_and_after_six_and_then_disabled(
    database: Database,
) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::InsufficientFunds).await;
    let now = || rig.clock.now();
    rig.buy().await;
    let again_at = now() + HOUR;
    assert_eq!(rig.failures().await, Some((1, Some(again_at))));
    assert_eq!(rig.last().await, Some(TopupState::Failed));
    rig.pass(Duration::from_secs(3_599));
    rig.buy().await;
    assert_eq!(rig.states().await.len(), 1);
    rig.pass(Duration::from_secs(1));
    rig.buy().await;
    let then_at = now() + 6 * HOUR;
    assert_eq!(rig.failures().await, Some((2, Some(then_at))));
    rig.pass(6 * HOUR);
    rig.buy().await;
    assert_eq!(rig.failures().await, None);
    let amount_cents = 5_000;
    assert_eq!(
        rig.notices(),
        [
            PaymentNotice::TopupDeclined {
                amount_cents,
                again_at
            },
            PaymentNotice::TopupDeclined {
                amount_cents,
                again_at: then_at
            },
            PaymentNotice::TopupsDisabled { amount_cents },
        ]
    );
    rig.pass(100 * HOUR);
    rig.buy().await;
    assert_eq!(rig.states().await, ["failed"; 3]);
    rig.check("declined").await;
    Ok(())
}

async fn a_good_card_forgives_earlier_failures(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Declined).await;
    rig.buy().await;
    rig.pass(Duration::from_secs(1));
    rig.double.save_card(&rig.customer, Card::Good).unwrap();
    rig.put(REQUEST).await.unwrap();
    assert_eq!(rig.failures().await, Some((0, None)));
    rig.buy().await;
    assert_eq!(
        (rig.last().await, rig.balance().await),
        (Some(TopupState::Paid), BOUGHT)
    );
    rig.check("good").await;
    Ok(())
}

async fn a_bank_that_asks_for_the_cardholder_pauses_until_a_page_was_paid(database: Database) -> Checked {
    for card in [Card::NeedsAuthentication, Card::AwaitsAuthentication] {
        let rig = Rig::start(database).await;
        rig.enable(card).await;
        rig.buy().await;
        assert_eq!(rig.last().await, Some(TopupState::RequiresAction), "{card:?}");
        let cancelled = rig.first_payment();
        assert_eq!(cancelled.status, "canceled");
        let [
            PaymentNotice::CardholderNeeded {
                amount_cents: 5_000,
                checkout: Some(url),
            },
        ] = &rig.notices()[..]
        else {
            panic!("{:?}", rig.notices());
        };
        rig.work_for(2 * HOUR).await;
        rig.buy().await;
        assert_eq!(rig.states().await, ["requires_action"], "{card:?}");
        // The owner follows the link hours later.
        let session = url.split('/').find(|part| part.starts_with("cs_")).unwrap();
        let session = session.split(['?', '#']).next().unwrap();
        rig.double.pay(session, Card::Good).unwrap();
        rig.work_for(2 * HOUR).await;
        assert_eq!(rig.balance().await, BOUGHT, "{card:?}");
        assert_eq!(rig.failures().await, Some((0, None)), "{card:?}");
        rig.give(-BOUGHT).await;
        rig.buy().await;
        assert_eq!(
            rig.states().await,
            ["requires_action", "paid"],
            "the card of the page is charged now"
        );
    }
    Ok(())
}

async fn a_slow_bank_is_waited_for(database: Database) -> Checked {
    for (settlement, state) in [(Settlement::Paid, "paid"), (Settlement::Failed, "failed")] {
        let rig = Rig::start(database).await;
        rig.enable(Card::Slow).await;
        rig.buy().await;
        rig.work_for(3 * HOUR).await;
        rig.buy().await;
        assert_eq!(rig.states().await, ["processing"]);
        let intent = rig.first_payment();
        rig.double.settle(&intent.id, settlement).unwrap();
        rig.work_for(2 * HOUR).await;
        assert_eq!(rig.states().await, [state]);
        rig.check(state).await;
    }
    Ok(())
}

async fn a_card_that_was_removed_is_forgotten(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    rig.double.remove_cards(&rig.customer).unwrap();
    rig.buy().await;
    assert_eq!(
        (rig.last().await, rig.failures().await),
        (Some(TopupState::Failed), None)
    );
    assert_eq!(rig.notices(), [PaymentNotice::CardGone]);
    let account = rig.billing.0.store.billing_account(rig.org).await?.unwrap();
    assert_eq!(account.card, None);
    rig.check("removed").await;
    Ok(())
}

async fn a_removed_card_is_forgotten_before_it_is_charged(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.give(20_000_000).await;
    rig.enable(Card::Good).await;
    rig.double.remove_cards(&rig.customer).unwrap();
    // Billing learns of it by a webhook or by its search for events.
    rig.work_for(2 * HOUR).await;
    assert_eq!(
        (rig.failures().await, rig.notices()),
        (None, vec![PaymentNotice::CardGone])
    );
    let account = rig.billing.0.store.billing_account(rig.org).await?.unwrap();
    assert_eq!(account.card, None);
    Ok(())
}

async fn a_card_of_another_customer_is_a_declined_one(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    // To Stripe this is a card of another customer.
    let other = rig
        .billing
        .0
        .stripe
        .create_customer("other", "other", "other")
        .await
        .unwrap()
        .id;
    let card = rig.double.save_card(&other, Card::Good).unwrap();
    let sql = format!("UPDATE billing_account SET payment_method = '{card}'");
    assert_eq!(rig.database.change(&sql).await.unwrap(), 1);
    rig.buy().await;
    assert_eq!(
        (rig.last().await, rig.failures().await.unwrap().0),
        (Some(TopupState::Failed), 1)
    );
    Ok(())
}
