//! Stripe's official libraries read the double's objects, and verify the same webhooks as Sortie.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};
use sortie_billing::{
    CheckoutOrder, EventFilter, Part, RefundOrder, SavedCardPayment, SubscriptionOrder, verify_signature,
};
use sortie_testkit::rows;
use sortie_testkit::{
    Client, StripeDouble,
    peers::{Peer, installed},
    stripe::{Call, Card, DisputeStage, SubscriptionChange, Verdict, signature},
};

use crate::rig::{Api, python, script};

const SECRET: &str = "whsec_peers";

/// Double with an object of each kind, and their identifiers.
async fn furnished() -> (StripeDouble, Value) {
    let double = StripeDouble::start().await.unwrap();
    let stripe = Api::of_double(&double).client();
    let customer = stripe
        .create_customer("org_1", "org_1", "Äcme & Co")
        .await
        .unwrap()
        .id;
    let order = CheckoutOrder {
        customer: &customer,
        amount_cents: 2_500,
        description: "Sortie credits",
        topup: "topup_1",
        saves_card: true,
        expires_at: double.now() + 3_600,
        success_url: "https://accounts.example/paid",
        cancel_url: "https://accounts.example/",
    };
    let session = stripe.create_checkout("topup_1", &order).await.unwrap().id;
    let refused = double.pay(&session, Card::Declined).unwrap_err();
    assert_eq!(refused.to_string(), "Your card was declined.");
    double.pay(&session, Card::Good).unwrap();
    let intent = stripe.checkout(&session).await.unwrap().payment_intent.unwrap();
    let refund = double.refund(&intent, 500).unwrap();
    let dispute = double.dispute(&intent, 2_000, DisputeStage::Chargeback).unwrap();
    double.decide(&dispute, Verdict::Won).unwrap();
    double.add_price("price_team", 49_900);
    let subscription = double.subscribe(&customer, "price_team", 1).unwrap();
    let plan = SubscriptionOrder {
        customer: &customer,
        price: "price_team",
        organization: "org_1",
        expires_at: double.now() + 3_600,
        success_url: "https://accounts.example/subscribed",
        cancel_url: "https://accounts.example/",
    };
    let page = stripe
        .create_subscription_checkout("license_1", &plan)
        .await
        .unwrap()
        .id;
    double.pay(&page, Card::Good).unwrap();
    let bought = stripe.checkout(&page).await.unwrap().subscription.unwrap();
    for change in [
        SubscriptionChange::PastDue,
        SubscriptionChange::CanceledAtPeriodEnd,
    ] {
        double.change_subscription(&bought, change).unwrap();
    }
    let card = |card| double.save_card(&customer, card).unwrap();
    let ids = json!({
        "customer": customer,
        "session": session,
        "intent": intent,
        "charge": stripe.intent(&intent).await.unwrap().latest_charge,
        "refund": refund,
        "dispute": dispute,
        "subscription": subscription,
        "subscription_page": page,
        "late_subscription": bought,
        "declined": card(Card::Declined),
        "needs_authentication": card(Card::NeedsAuthentication),
        "good": card(Card::Good),
    });
    (double, ids)
}

/// Webhooks with the expected result of each: the identifier of the event, or `None`.
fn webhooks(double: &StripeDouble) -> (Vec<Value>, Vec<Option<String>>) {
    let event = double.events("checkout.session.completed").remove(0);
    let body = double.event_body(&event).unwrap();
    let now = double.now();
    let signed = |secrets: &[&str], at| signature(secrets, at, body.as_bytes()).unwrap();
    let cases = rows! {
        signed(&[SECRET], now), body.clone(), true;
        signed(&["whsec_other", SECRET], now), body.clone(), true;
        signed(&["whsec_other"], now), body.clone(), false;
        signed(&[SECRET], now - 301), body.clone(), false;
        signed(&[SECRET], now), body.replace("paid", "dead"), false;
        signed(&[SECRET], now).replace(",v1=", ",v0="), body.clone(), false;
        signed(&[SECRET], now).to_uppercase().replace("T=", "t=").replace("V1=", "v1="), body.clone(), false;
    };
    cases
        .into_iter()
        .map(|(header, body, is_good)| {
            let own = verify_signature(&header, body.as_bytes(), [SECRET], u64::try_from(now).unwrap());
            assert_eq!(own.is_ok(), is_good, "{header}");
            let webhook = json!({"header": header, "body": body, "secret": SECRET});
            (webhook, is_good.then(|| event.clone()))
        })
        .unzip()
}

/// Checks the results of a library, except for the names of its classes.
fn check(found: &Value, verdicts: &[Option<String>], events: usize) {
    let read = &found["read"];
    assert_eq!(read["topup"], "topup_1");
    assert_eq!(read["charge"], json!([2_500, 500, "4242"]));
    assert_eq!(
        (&read["moved"], &read["price"]),
        (&json!(0), &json!("price_team"))
    );
    assert_eq!(
        read["late"],
        json!(["past_due", 0]),
        "it is cancelled for the end of its period"
    );
    assert_eq!(found["webhooks"], json!(verdicts));
    assert_eq!(
        found["page"],
        json!([events, events]),
        "each event once, in pages of two"
    );
}

fn failures(names: [&str; 5]) -> Value {
    let [card, key, missing, parameter, credential] = names;
    json!([
        [card, 402, "card_declined"],
        [card, 402, "authentication_required"],
        null,
        [key, 400, null],
        [missing, 404, "resource_missing"],
        [parameter, 400, "parameter_unknown"],
        [credential, 401, null],
    ])
}

// This thread waits for the peer, which sends its requests to the double on the other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_for_python_reads_the_double() {
    let (double, ids) = furnished().await;
    let (webhooks, verdicts) = webhooks(&double);
    let (script, ids, webhooks) = (script("sdk.py"), ids.to_string(), json!(webhooks).to_string());
    let (script, url) = (script.to_str().unwrap(), double.url());
    let arguments = [script, &url, double.secret_key(), &ids, &webhooks];
    let found = Peer::start(&python(), &arguments).unwrap().json().unwrap();
    let all = double.all_events().len();
    check(&found, &verdicts, all);
    assert_eq!(found["read"]["card"], "4242");
    let classes = [
        "Customer",
        "Session",
        "PaymentIntent",
        "Charge",
        "Refund",
        "Dispute",
        "Subscription",
        "Event",
        "Charge",
        "Session",
    ];
    assert_eq!(found["read"]["classes"], json!(classes));
    let names = [
        "CardError",
        "IdempotencyError",
        "InvalidRequestError",
        "InvalidRequestError",
        "AuthenticationError",
    ];
    assert_eq!(found["failures"], failures(names));
}

// This thread waits for the peer, which sends its requests to the double on the other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_for_node_reads_the_double_and_signs_as_the_route_checks() {
    let (double, ids) = furnished().await;
    let (webhooks, verdicts) = webhooks(&double);
    installed("npm/node_modules/stripe/package.json").unwrap();
    let (script, npm) = (script("sdk.mjs"), installed("npm").unwrap());
    let (ids, url, text) = (ids.to_string(), double.url(), json!(webhooks).to_string());
    let (script, npm) = (script.to_str().unwrap(), npm.to_str().unwrap());
    let arguments = [script, npm, &url, double.secret_key(), &ids, &text];
    let found = Peer::start(Path::new("node"), &arguments)
        .unwrap()
        .json()
        .unwrap();
    check(&found, &verdicts, double.all_events().len());
    let names = [
        "StripeCardError",
        "StripeIdempotencyError",
        "StripeInvalidRequestError",
        "StripeInvalidRequestError",
        "StripeAuthenticationError",
    ];
    assert_eq!(found["failures"], failures(names));
    let (header, body) = (
        found["signed"].as_str().unwrap(),
        webhooks[0]["body"].as_str().unwrap(),
    );
    let now = u64::try_from(double.now()).unwrap();
    assert_eq!(verify_signature(header, body.as_bytes(), [SECRET], now), Ok(()));
}

/// Objects of the double as constants of the library's types, and requests of the client as its parameters.
async fn program(double: &StripeDouble, ids: &Value) -> String {
    let client = Client::new(double.address(), Some(double.secret_key().to_owned()));
    let mut program = "import type Stripe from 'stripe';\n".to_owned();
    for (name, kind, path) in [
        ("customer", "Customer", "customers"),
        ("session", "Checkout.Session", "checkout/sessions"),
        ("intent", "PaymentIntent", "payment_intents"),
        ("charge", "Charge", "charges"),
        ("refund", "Refund", "refunds"),
        ("dispute", "Dispute", "disputes"),
        ("subscription", "Subscription", "subscriptions"),
        ("subscription_page", "Checkout.Session", "checkout/sessions"),
        ("late_subscription", "Subscription", "subscriptions"),
        ("good", "PaymentMethod", "payment_methods"),
    ] {
        let path = format!("/v1/{path}/{}", ids[name].as_str().unwrap());
        let mut object = client.get(&path).json(200).await.unwrap();
        without_decimals(&mut object);
        writeln!(program, "export const {name}: Stripe.{kind} = {object};").unwrap();
    }
    let account = client.get("/v1/account").await.unwrap().json().unwrap();
    writeln!(program, "export const account: Stripe.Account = {account};").unwrap();
    program
}

/// Requests of the client as constants of the types that the library has for their parameters.
async fn requests(double: &StripeDouble, ids: &Value) -> String {
    let stripe = Api::of_double(double).client();
    let id = |name: &str| ids[name].as_str().unwrap();
    let payment = SavedCardPayment {
        customer: id("customer"),
        payment_method: id("good"),
        amount_cents: 4_000,
        topup: "topup_2",
    };
    stripe.charge_saved_card("topup_2", &payment).await.unwrap();
    let refund = RefundOrder {
        intent: id("intent"),
        amount_cents: Some(100),
        name: "refund_1",
    };
    stripe.refund("refund_1", &refund).await.unwrap();
    let back = "https://accounts.example/";
    stripe
        .create_portal_session("portal_1", id("customer"), back)
        .await
        .unwrap();
    let part = Part {
        since: Some(1),
        after: Some(id("intent")),
    };
    stripe.intents(id("customer"), &part).await.unwrap();
    stripe.saved_cards(id("customer")).await.unwrap();
    stripe.customer(id("customer")).await.unwrap();
    stripe.refunds(id("charge"), None).await.unwrap();
    let filter = EventFilter {
        kinds: &["charge.refunded"],
        since: Some(1),
        after: None,
        limit: 100,
    };
    stripe.events(&filter).await.unwrap();
    let mut program = String::new();
    for (number, sent) in double.requests(Call::CreateSession).into_iter().enumerate() {
        let sent = with_numbers(Value::Object(sent.parameters));
        writeln!(
            program,
            "export const ofSession{number}: Stripe.Checkout.SessionCreateParams = {sent};"
        )
        .unwrap();
    }
    for (call, kind) in [
        (Call::CreateCustomer, "CustomerCreateParams"),
        (Call::ReadCustomer, "CustomerRetrieveParams"),
        (Call::ListPaymentMethods, "CustomerListPaymentMethodsParams"),
        (Call::CreateIntent, "PaymentIntentCreateParams"),
        (Call::ListIntents, "PaymentIntentListParams"),
        (Call::CreateRefund, "RefundCreateParams"),
        (Call::ListRefunds, "RefundListParams"),
        (Call::ListEvents, "EventListParams"),
        (Call::CreatePortalSession, "BillingPortal.SessionCreateParams"),
    ] {
        let sent = double.requests(call).pop().unwrap().parameters;
        let sent = with_numbers(Value::Object(sent));
        writeln!(program, "export const of{call:?}: Stripe.{kind} = {sent};").unwrap();
    }
    program
}

/// Converts texts of a form to numbers and booleans.
fn with_numbers(sent: Value) -> Value {
    match sent {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, with_numbers(member)))
            .collect(),
        Value::Array(items) => items.into_iter().map(with_numbers).collect(),
        Value::String(text) => match (text.parse::<i64>(), text.parse::<bool>()) {
            (Ok(number), _) => number.into(),
            (Err(_), Ok(flag)) => flag.into(),
            (Err(_), Err(_)) => text.into(),
        },
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

/// Removes decimals: the library converts them to objects when it reads an answer.
fn without_decimals(object: &mut Value) {
    match object {
        Value::Object(members) => {
            for (name, member) in members {
                if name.ends_with("_decimal") {
                    *member = Value::Null;
                }
                without_decimals(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_decimals),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn objects_of_the_double_and_requests_of_the_client_have_the_types_of_the_library() {
    let (double, ids) = furnished().await;
    let folder = tempfile::tempdir().unwrap();
    let npm = installed("npm").unwrap();
    std::os::unix::fs::symlink(npm.join("node_modules"), folder.path().join("node_modules")).unwrap();
    let program = program(&double, &ids).await + &requests(&double, &ids).await;
    // The name of a member, and that of a parameter.
    let wrong = program
        .replacen("\"amount_captured\"", "\"captured_amount\"", 1)
        .replacen("\"off_session\":true", "\"offline\":true", 1);
    fs::write(folder.path().join("right.mts"), program).unwrap();
    fs::write(folder.path().join("wrong.mts"), wrong).unwrap();
    let tsc = installed("npm/node_modules/typescript/bin/tsc").unwrap();
    let project = json!({
        "compilerOptions": {"noEmit": true, "strict": true, "skipLibCheck": true, "module": "nodenext"},
        "files": ["right.mts", "wrong.mts"],
    });
    fs::write(folder.path().join("tsconfig.json"), project.to_string()).unwrap();
    let arguments = [
        tsc.to_str().unwrap(),
        "--pretty",
        "false",
        "--project",
        folder.path().to_str().unwrap(),
    ];
    let peer = Peer::start(Path::new("node"), &arguments).unwrap();
    let mut told = Vec::new();
    while let Ok(line) = peer.line() {
        told.push(line);
    }
    let told = told.join("\n");
    assert!(!told.contains("right.mts"), "{told}");
    assert!(
        told.contains("wrong.mts") && told.contains("captured_amount") && told.contains("offline"),
        "{told}"
    );
}
