use std::time::Duration;

use sortie_api::Credential;
use sortie_testkit::rows;
use sortie_testkit::{
    StripeDouble,
    stripe::{Call, Card, DisputeStage, Fault, SubscriptionChange, Verdict},
};
use tokio::net::TcpListener;

use super::{
    CheckoutOrder, EventFilter, Part, RefundOrder, SavedCardPayment, Stripe, StripeError, StripeSettings,
    SubscriptionOrder,
};

const TOPUP: &str = "topup_1";

async fn double() -> (StripeDouble, Stripe) {
    let double = StripeDouble::start().await.unwrap();
    let stripe = client(&double.url(), double.secret_key());
    (double, stripe)
}

fn client(url: &str, key: &str) -> Stripe {
    Stripe::new(StripeSettings {
        secret_key: Credential::new(key),
        webhook_secrets: vec![Credential::new("whsec_hush")],
        api_url: url.parse().unwrap(),
        outbound: sortie_net::Outbound::default(),
    })
    .unwrap()
}

fn order<'a>(double: &StripeDouble, customer: &'a str) -> CheckoutOrder<'a> {
    CheckoutOrder {
        customer,
        amount_cents: 2_500,
        description: "Sortie credits",
        topup: TOPUP,
        saves_card: true,
        expires_at: double.now() + 3_600,
        success_url: "https://accounts.example/paid?session={CHECKOUT_SESSION_ID}",
        cancel_url: "https://accounts.example/billing",
    }
}

fn payment<'a>(customer: &'a str, payment_method: &'a str) -> SavedCardPayment<'a> {
    SavedCardPayment {
        customer,
        payment_method,
        amount_cents: 4_000,
        topup: TOPUP,
    }
}

#[tokio::test]
async fn a_purchase_is_read_back_with_all_that_follows_it() {
    let (double, stripe) = double().await;
    let customer = stripe
        .create_customer("org_1", "org_1", "Äcme & Co")
        .await
        .unwrap()
        .id;
    let checkout = stripe
        .create_checkout(TOPUP, &order(&double, &customer))
        .await
        .unwrap();
    assert_eq!(
        (checkout.status.as_deref(), checkout.payment_intent.as_deref()),
        (Some("open"), None)
    );
    assert!(checkout.url.is_some_and(|url| url.starts_with(&double.url())));
    double.pay(&checkout.id, Card::Good).unwrap();

    let paid = stripe.checkout(&checkout.id).await.unwrap();
    assert_eq!(
        (paid.status.as_deref(), paid.payment_status.as_str()),
        (Some("complete"), "paid")
    );
    assert_eq!(
        (paid.amount_total, paid.currency.as_deref()),
        (Some(2_500), Some("usd"))
    );
    assert_eq!(paid.customer.as_deref(), Some(customer.as_str()));
    assert_eq!(paid.metadata.unwrap()["topup"], TOPUP);
    let intent = stripe.intent(&paid.payment_intent.unwrap()).await.unwrap();
    assert_eq!((intent.status.as_str(), intent.amount), ("succeeded", 2_500));
    assert_eq!(intent.metadata["topup"], TOPUP);
    let cards = stripe.saved_cards(&customer).await.unwrap().data;
    assert_eq!(cards.len(), 1);
    assert_eq!(
        (
            cards[0].card.as_ref().unwrap().last4.as_str(),
            cards[0].card.as_ref().unwrap().exp_year
        ),
        ("4242", 2034)
    );
    assert_eq!(stripe.customer(&customer).await.unwrap().default_card(), None);

    let charge = stripe.charge(&intent.latest_charge.unwrap()).await.unwrap();
    assert!(charge.paid && charge.receipt_url.is_some());
    let refund = RefundOrder {
        intent: &intent.id,
        amount_cents: Some(500),
        name: "refund_1",
    };
    let refund = stripe.refund("refund_1", &refund).await.unwrap();
    assert_eq!(
        (refund.amount, refund.status.as_deref()),
        (500, Some("succeeded"))
    );
    assert_eq!(stripe.refunds(&charge.id, None).await.unwrap().data, [refund]);
    let dispute = double
        .dispute(&intent.id, 2_000, DisputeStage::Chargeback)
        .unwrap();
    let taken = |found: &super::Dispute| found.balance_transactions.iter().map(|of| of.amount).sum::<i64>();
    assert_eq!(taken(&stripe.dispute(&dispute).await.unwrap()), -2_000);
    double.decide(&dispute, Verdict::Won).unwrap();
    let won = stripe.dispute(&dispute).await.unwrap();
    assert_eq!((won.status.as_str(), taken(&won)), ("won", 0));
    let charge = stripe.charge(&charge.id).await.unwrap();
    assert_eq!((charge.amount_refunded, charge.disputed), (500, true));
    let portal = stripe
        .create_portal_session("portal_1", &customer, "https://accounts.example/")
        .await;
    assert!(portal.unwrap().url.contains("/p/session/"));
}

#[tokio::test]
async fn a_card_of_the_portal_is_the_default_one() {
    let (double, stripe) = double().await;
    let customer = stripe.create_customer("org_1", "org_1", "Acme").await.unwrap().id;
    let method = double.save_card(&customer, Card::Slow).unwrap();
    let read = stripe.customer(&customer).await.unwrap();
    assert!(!read.deleted);
    assert_eq!(read.default_card().unwrap().id, method);
}

#[tokio::test]
async fn a_refused_card_is_told_with_its_payment() {
    let (double, stripe) = double().await;
    let customer = stripe.create_customer("org_1", "org_1", "Acme").await.unwrap().id;
    for (card, code, decline) in rows! {
        Card::Declined, "card_declined", "generic_decline";
        Card::InsufficientFunds, "card_declined", "insufficient_funds";
        Card::NeedsAuthentication, "authentication_required", "authentication_required";
    } {
        let method = double.save_card(&customer, card).unwrap();
        let refused = stripe
            .charge_saved_card(&method, &payment(&customer, &method))
            .await;
        let Err(StripeError::Refused(refusal)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(refusal.status, 402);
        assert_eq!(
            (refusal.code.as_deref(), refusal.decline_code.as_deref()),
            (Some(code), Some(decline))
        );
        let intent = refusal.intent.unwrap();
        assert_eq!(
            (intent.status.as_str(), intent.metadata["topup"].as_str()),
            ("requires_payment_method", TOPUP)
        );
        let cancelled = stripe
            .cancel_intent(&format!("{method}-cancel"), &intent.id)
            .await
            .unwrap();
        assert_eq!(cancelled.status, "canceled");
    }
    let method = double.save_card(&customer, Card::AwaitsAuthentication).unwrap();
    let awaits = stripe
        .charge_saved_card("topup_2", &payment(&customer, &method))
        .await
        .unwrap();
    assert_eq!(awaits.status, "requires_action");
    let all = stripe.intents(&customer, &Part::default()).await.unwrap();
    assert_eq!((all.data.len(), all.has_more), (4, false));
    let behind = Part {
        since: Some(double.now() - 60),
        after: Some(&all.data[2].id),
    };
    let older = stripe.intents(&customer, &behind).await.unwrap();
    assert_eq!(older.data, [all.data[3].clone()]);
}

#[tokio::test]
async fn events_are_listed_by_type_and_time_in_pages() {
    let (double, stripe) = double().await;
    let customer = stripe.create_customer("org_1", "org_1", "Acme").await.unwrap().id;
    let began = double.now();
    for key in ["topup_1", "topup_2", "topup_3"] {
        double.advance(Duration::from_secs(10));
        let checkout = stripe
            .create_checkout(key, &order(&double, &customer))
            .await
            .unwrap();
        double.pay(&checkout.id, Card::Good).unwrap();
    }
    let filter = EventFilter {
        kinds: &["checkout.session.completed", "charge.refunded"],
        since: Some(began + 20),
        after: None,
        limit: 1,
    };
    let first = stripe.events(&filter).await.unwrap();
    assert!(first.has_more);
    let [newest] = first.data.as_slice() else {
        panic!("{first:?}")
    };
    assert_eq!(newest.kind, "checkout.session.completed");
    assert!(newest.object_id().starts_with("cs_test_") && newest.created >= began + 30);
    let after = Some(newest.id.as_str());
    let second = stripe.events(&EventFilter { after, ..filter }).await.unwrap();
    assert_eq!((second.data.len(), second.has_more), (1, false));
    double.advance(Duration::from_hours(31 * 24));
    let filter = EventFilter {
        limit: 100,
        ..EventFilter::default()
    };
    assert!(stripe.events(&filter).await.unwrap().data.is_empty());
}

#[tokio::test]
async fn a_subscription_is_read_with_its_price_and_period() {
    let (double, stripe) = double().await;
    let customer = stripe.create_customer("org_1", "org_1", "Acme").await.unwrap().id;
    double.add_price("price_team", 49_900);
    let id = double.subscribe(&customer, "price_team", 2).unwrap();
    let read = stripe.subscription(&id).await.unwrap();
    let [item] = read.items.data.as_slice() else {
        panic!("{read:?}")
    };
    assert_eq!(
        (item.price(), item.quantity, read.status.as_str()),
        ("price_team", Some(2), "active")
    );
    assert!(item.current_period_end > double.now() && item.current_period_start <= double.now());
    assert_eq!((read.cancel_at, read.ended_at), (None, None));
    for change in [SubscriptionChange::CanceledAtPeriodEnd, SubscriptionChange::Ended] {
        double.change_subscription(&id, change).unwrap();
    }
    let ended = stripe.subscription(&id).await.unwrap();
    assert_eq!(ended.cancel_at, Some(item.current_period_end));
    assert_eq!(ended.status, "canceled");
    assert!(ended.ended_at.is_some_and(|at| at <= double.now()));
}

#[tokio::test]
async fn a_plan_is_bought_on_a_page() {
    let (double, stripe) = double().await;
    let customer = stripe.create_customer("org_1", "org_1", "Acme").await.unwrap().id;
    double.add_price("price_team", 49_900);
    let order = SubscriptionOrder {
        customer: &customer,
        price: "price_team",
        organization: "org_1",
        expires_at: double.now() + 3_600,
        success_url: "https://accounts.example/subscribed",
        cancel_url: "https://accounts.example/",
    };
    let page = stripe
        .create_subscription_checkout("license_1", &order)
        .await
        .unwrap();
    assert_eq!(page.subscription, None);
    double.pay(&page.id, Card::Good).unwrap();
    let paid = stripe.checkout(&page.id).await.unwrap();
    let bought = stripe.subscription(&paid.subscription.unwrap()).await.unwrap();
    assert_eq!(
        (bought.customer, bought.status.as_str()),
        (customer.clone(), "active")
    );
    assert_eq!(bought.metadata["organization"], "org_1");
    let again = stripe
        .create_subscription_checkout("license_1", &order)
        .await
        .unwrap();
    assert_eq!(again.id, page.id);
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer() {
    let (double, stripe) = double().await;
    let customer = stripe.create_customer("org_1", "org_1", "Acme").await.unwrap().id;
    let method = double.save_card(&customer, Card::Good).unwrap();
    double.fail(Call::CreateIntent, 1, Fault::LostAfter);
    let lost = stripe
        .charge_saved_card(TOPUP, &payment(&customer, &method))
        .await;
    assert!(matches!(lost, Err(StripeError::Unreachable(_))), "{lost:?}");
    let repeated = stripe
        .charge_saved_card(TOPUP, &payment(&customer, &method))
        .await
        .unwrap();
    assert_eq!(double.holdings().topups[TOPUP].len(), 1);
    assert_eq!(double.holdings().topups[TOPUP][0].id, repeated.id);
    let other = SavedCardPayment {
        amount_cents: 1,
        ..payment(&customer, &method)
    };
    let reused = stripe.charge_saved_card(TOPUP, &other).await;
    assert_eq!(reused, Err(StripeError::KeyReused));
}

#[tokio::test]
async fn each_failure_of_stripe_has_a_name() {
    let (double, stripe) = double().await;
    let create = async |fault| {
        double.fail(Call::CreateCustomer, 1, fault);
        stripe.create_customer("org_1", "org_1", "Acme").await.map(drop)
    };
    assert_eq!(create(Fault::TooMany).await, Err(StripeError::RateLimited));
    assert_eq!(create(Fault::ErrorBefore).await, Err(StripeError::Failed(500)));
    let lost = create(Fault::LostBefore).await;
    assert!(matches!(lost, Err(StripeError::Unreachable(_))), "{lost:?}");
    double.fail(Call::CreateCustomer, 1, Fault::HeldAfter);
    let (held, second) = tokio::join!(stripe.create_customer("org_2", "org_2", "Acme"), async {
        double.wait_for_requests(Call::CreateCustomer, 1).await.unwrap();
        double.fail(Call::CreateCustomer, 1, Fault::HeldBefore);
        let third = stripe.create_customer("org_3", "org_3", "Acme");
        let (_, fourth) = tokio::join!(third, async {
            double.wait_for_requests(Call::CreateCustomer, 2).await.unwrap();
            let fourth = stripe.create_customer("org_3", "org_3", "Acme").await;
            double.release();
            fourth
        });
        fourth
    });
    assert!(held.is_ok());
    assert_eq!(second, Err(StripeError::InProgress));

    let missing = stripe.intent("pi_nothing").await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "Stripe refuses the request: status 404, resource_missing, id"
    );
    let strange = stripe.intent("../customers?x=").await.unwrap_err();
    assert!(
        matches!(strange, StripeError::Refused(_)),
        "an identifier stays in its segment: {strange:?}"
    );
    let wrong = client(&double.url(), "sk_test_wrong");
    assert_eq!(wrong.account().await, Err(StripeError::Unauthorized(401)));
}

#[tokio::test]
async fn a_server_that_is_not_stripe_is_told() {
    for (answer, told) in rows! {
        "200 OK\r\ncontent-length: 2\r\n\r\n{}", "not the requested object";
        "418 Teapot\r\ncontent-length: 2\r\n\r\n{}", "an error without a reason";
        "302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "an unexpected status";
    } {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stripe = client(
            &format!("http://{}", listener.local_addr().unwrap()),
            "sk_test_hush",
        );
        let (read, ()) = tokio::join!(stripe.account(), async {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            let length = stream.read(&mut request).await.unwrap();
            let asked = String::from_utf8_lossy(&request[..length]).to_lowercase();
            assert!(asked.contains("stripe-version: 2026-10-28.endive"), "{asked}");
            stream
                .write_all(format!("HTTP/1.1 {answer}").as_bytes())
                .await
                .unwrap();
        });
        assert_eq!(read, Err(StripeError::Unreadable(told)));
    }
    let nobody = client("http://127.0.0.1:1", "sk_test_hush")
        .account()
        .await
        .unwrap_err();
    assert!(
        nobody.to_string().starts_with("Stripe cannot be reached: "),
        "{nobody}"
    );
}

#[tokio::test]
async fn no_secret_is_shown() {
    let (double, stripe) = double().await;
    let shown = format!("{stripe:?} {:?}", stripe.account().await);
    assert!(
        !shown.contains(double.secret_key()) && !shown.contains("whsec_hush"),
        "{shown}"
    );
    double.fail(Call::ReadAccount, 1, Fault::LostBefore);
    let lost = stripe.account().await.unwrap_err();
    assert!(!format!("{lost} {lost:?}").contains(double.secret_key()));
}

mod signature {
    use proptest::prelude::*;
    use sortie_testkit::stripe::signature;

    use super::super::{InvalidSignature, verify_signature};

    /// Made by the library `stripe` 16.1.0 for Python: `WebhookSignature._compute_signature`.
    const BODY: &str = r#"{"id":"evt_1","object":"event"}"#;
    const SECRET: &str = "whsec_test";
    const AT: u64 = 1_700_000_000;
    const V1: &str = "4c15fb2a43f93ef61eaa3e0893866d57cad9cad4223242cfb96f362480cb4021";

    fn check(header: &str, now: u64) -> Result<(), InvalidSignature> {
        verify_signature(header, BODY.as_bytes(), [SECRET], now)
    }

    #[test]
    fn a_signature_made_by_stripes_library_is_accepted() {
        assert_eq!(check(&format!("t={AT},v1={V1}"), AT), Ok(()));
        let with_others = format!("t={AT},v1={},v0={V1},v1={V1}", "0".repeat(64));
        assert_eq!(
            check(&with_others, AT),
            Ok(()),
            "any v1, and other schemes are ignored"
        );
    }

    #[test]
    fn a_signature_counts_for_five_minutes_both_ways() {
        let header = format!("t={AT},v1={V1}");
        for (now, result) in [
            (AT + 300, Ok(())),
            (AT - 300, Ok(())),
            (AT + 301, Err(InvalidSignature::Stale)),
            (AT - 301, Err(InvalidSignature::Stale)),
        ] {
            assert_eq!(check(&header, now), result, "{now}");
        }
    }

    #[test]
    fn a_header_of_another_form_is_refused() {
        for header in [
            String::new(),
            format!("v1={V1}"),
            format!("t={AT}"),
            format!("t={AT},v0={V1}"),
            format!("t={AT},t={AT},v1={V1}"),
            format!("t=+{AT},v1={V1}"),
            format!("t=,v1={V1}"),
            format!("t=99999999999999999999,v1={V1}"),
            format!("t={AT},v1={}", V1.to_uppercase()),
            format!("t={AT},v1={}", &V1[1..]),
            format!("t={AT},v1={V1},garbage"),
        ] {
            assert_eq!(check(&header, AT), Err(InvalidSignature::Malformed), "{header}");
        }
        let no_secrets = verify_signature(&format!("t={AT},v1={V1}"), BODY.as_bytes(), [], AT);
        assert_eq!(no_secrets, Err(InvalidSignature::Mismatch));
    }

    proptest! {
        #[test]
        fn what_was_signed_under_one_of_the_secrets_is_accepted_and_nothing_else(
            body in prop::collection::vec(any::<u8>(), 0..200),
            secrets in prop::collection::vec("[a-zA-Z0-9]{1,40}", 1..4),
            which in any::<prop::sample::Index>(),
            at in 0_u64..4_000_000_000,
            change in any::<prop::sample::Index>(),
        ) {
            let known: Vec<_> = secrets.iter().map(String::as_str).collect();
            let used = known[which.index(known.len())];
            let header = signature(&["of another endpoint", used], i64::try_from(at).unwrap(), &body).unwrap();
            prop_assert_eq!(verify_signature(&header, &body, known.iter().copied(), at), Ok(()));
            let others = known.iter().copied().filter(|secret| *secret != used);
            prop_assert_eq!(verify_signature(&header, &body, others, at), Err(InvalidSignature::Mismatch));
            let mut longer = body.clone();
            longer.insert(change.index(body.len() + 1), b'x');
            prop_assert_eq!(verify_signature(&header, &longer, known.iter().copied(), at), Err(InvalidSignature::Mismatch));
            let moved = header.replacen(&format!("t={at}"), &format!("t={}", at + 1), 1);
            prop_assert_eq!(verify_signature(&moved, &body, known.iter().copied(), at), Err(InvalidSignature::Mismatch));
        }

        #[test]
        fn no_header_makes_it_panic(header in "\\PC*", of_its_signs in "[tv01=,a-f ]{0,200}") {
            for header in [header, of_its_signs] {
                let refused = verify_signature(&header, b"{}", ["whsec_x"], 0);
                prop_assert!(refused.is_err(), "{}", header);
            }
        }
    }
}
