//! A deployment that sells credits: the binary with the double of Stripe.

use std::{io::Write as _, process::Output, time::Instant};

use sortie_testkit::{
    StripeDouble,
    stripe::{Call, Card, Fault, SubscriptionChange},
};
use tempfile::NamedTempFile;

use crate::prelude::*;

both_databases![
    credits_are_bought_and_refunded,
    a_refund_is_made_once_however_often_its_line_is_typed,
    a_node_stops_while_stripe_is_silent,
    nobody_is_asked_to_pay_without_mail,
    licenses_are_sold
];

/// Status of a command that is wrong, or that the state of a payment does not allow.
const USAGE: i32 = 64;

/// Status of a command with an unknown result.
const UNAVAILABLE: i32 = 69;

/// Events that wait for an answer of Stripe. A request waits ten seconds, and a node makes eight at once.
const WAITING: usize = 40;

/// Text of a failure after which the command is to be repeated.
const TYPE_AGAIN: &str = "the payment provider is unavailable, retry later";

const SECRET: &str = "whsec_of_the_test";

/// A node that takes payments, and the double that sends it webhooks.
async fn selling(database: Database, options: NodeOptions) -> Result<(HostedNode, StripeDouble)> {
    let double = StripeDouble::start().await?;
    let options = options
        .env("SORTIE_STRIPE_SECRET_KEY", double.secret_key())
        .env("SORTIE_STRIPE_WEBHOOK_SECRETS", SECRET)
        .env("SORTIE_STRIPE_API_URL", &double.url());
    let node = crate::hosted_with(database, options).await?;
    double.send_webhooks(&format!("{}/v1/webhooks/stripe", node.org_url()), &[SECRET])?;
    Ok((node, double))
}

/// Signs up a person, and creates an organization. Returns the person's client and the organization.
async fn organization(node: &HostedNode) -> Result<(Client, String)> {
    let person = json!({"email": "ann@example.com", "name": "Ann", "password": "plum-anchor-violet-42"});
    let signed = node.anybody().post("/v1/auth/signup", &person).await?;
    let ann = node.client(signed.expect(201)?.json()?["token"].as_str().context("a token")?);
    let made = ann.post("/v1/organizations", &json!({"name": "Plum"})).await?;
    let org = made.expect(201)?.json()?["id"]
        .as_str()
        .context("an id")?
        .to_owned();
    Ok((ann, org))
}

/// Buys credits. Returns the payment.
async fn bought(
    (node, double): (&HostedNode, &StripeDouble),
    (person, org): (&Client, &str),
    cents: i64,
) -> Result<String> {
    let billing = format!("/v1/organizations/{org}/billing");
    let order = json!({"amount_cents": cents});
    let page = person
        .post(&format!("{billing}/checkout"), &order)
        .json(200)
        .await?;
    let session = page["url"].as_str().and_then(|url| url.rsplit('/').next());
    double.pay(session.context("a session")?, Card::Good)?;
    node.node.until_logged("credited a purchase").await?;
    let payments = person.get(&format!("{billing}/payments")).json(200).await?;
    Ok(payments["payments"][0]["id"]
        .as_str()
        .context("a payment")?
        .to_owned())
}

/// `docs/BILLING.md#buy-credits`: the worker of the node handles a webhook at once, and the operator refunds the payment.
async fn credits_are_bought_and_refunded(database: Database) -> Checked {
    let (node, double) = selling(database, NodeOptions::default()).await?;
    let (ann, org) = organization(&node).await?;
    let payment = bought((&node, &double), (&ann, &org), 2_500).await?;
    let balance = async || -> Result<Value> {
        let balance = ann.get(&format!("/v1/organizations/{org}/balance")).await?;
        Ok(balance.expect(200)?.json()?["balance_micros"].clone())
    };
    assert_eq!(balance().await?, 25_000_000);
    // The double answers on this thread.
    let refund = async |more: &[&str], code: i32| -> Result<Output> {
        let refund = ["credits", "refund", payment.as_str()];
        let command = node.node.sortie(&[&refund[..], more].concat());
        tokio::task::spawn_blocking(move || exits(command, code)).await?
    };
    let seven = ["--amount-cents", "700", "--reference", "seven", "--json"];
    let repeated = refund(&seven, 0).await?;
    let part = refund(&seven, 0).await?;
    assert_eq!(repeated.stdout, part.stdout, "one refund");
    let part: Value = serde_json::from_slice(&part.stdout)?;
    assert_eq!(
        (&part["refunded_cents"], &part["refund_status"]),
        (&700.into(), &"partial".into())
    );
    let rest = text(&refund(&[], 0).await?.stdout);
    ensure!(rest.contains("REFUNDED") && rest.contains("2500"), "{rest}");
    assert_eq!(balance().await?, 0);
    let again = refund(&[], USAGE).await?;
    ensure!(text(&again.stderr).contains("refunded before"), "{again:?}");
    exits(node.node.sortie(&["admin", "check-ledger"]), 0)?;
    assert_eq!(double.holdings().total().refunded_cents, 2_500);
    Ok(())
}

/// `docs/BILLING.md#refund-a-payment`: the command that an operator runs after any failure, and repeats.
async fn a_refund_is_made_once_however_often_its_line_is_typed(database: Database) -> Checked {
    let (mut node, double) = selling(database, NodeOptions::default()).await?;
    let (ann, org) = organization(&node).await?;
    let payment = bought((&node, &double), (&ann, &org), 2_500).await?;
    let start = ["credits", "refund", payment.as_str()];
    let typed = async |node: &HostedNode, more: &[&str], code: i32| -> Result<String> {
        let command = node.node.sortie(&[&start[..], more].concat());
        // The double answers on this thread.
        let output = tokio::task::spawn_blocking(move || exits(command, code)).await??;
        Ok(text(&output.stdout) + &text(&output.stderr))
    };
    let nameless = typed(&node, &["--amount-cents", "500"], USAGE).await?;
    ensure!(nameless.contains("--reference <TEXT>"), "{nameless}");

    // Stripe makes the refund, and its answer is lost. A webhook reports it before the command is repeated.
    let first = ["--amount-cents", "500", "--reference", "ticket-4711"];
    double.fail(Call::CreateRefund, 1, Fault::LostAfter);
    let lost = typed(&node, &first, UNAVAILABLE).await?;
    ensure!(lost.contains(TYPE_AGAIN), "{lost}");
    node.node
        .until_logged("recorded a refund or dispute of Stripe")
        .await?;
    for _ in 0..2 {
        let made = typed(&node, &first, 0).await?;
        ensure!(made.contains("REFUNDED") && made.contains(" 500 "), "{made}");
    }
    // The request does not reach Stripe.
    let second = ["--amount-cents", "500", "--reference", "ticket-4711-2"];
    double.fail(Call::CreateRefund, 1, Fault::LostBefore);
    typed(&node, &second, UNAVAILABLE).await?;
    for _ in 0..2 {
        let made = typed(&node, &second, 0).await?;
        ensure!(made.contains(" 1000 "), "{made}");
    }
    // The node is killed while Stripe works on the request.
    let third = ["--amount-cents", "500", "--reference", "ticket-4711-3"];
    let sent = double.requests(Call::CreateRefund).len() + 1;
    double.fail(Call::CreateRefund, 1, Fault::HeldAfter);
    let command = node.node.sortie(&[&start[..], &third].concat());
    let waiting = tokio::task::spawn_blocking(move || exits(command, UNAVAILABLE));
    double.wait_for_requests(Call::CreateRefund, sent).await?;
    node.node.kill()?;
    waiting.await??;
    double.release();
    node.node.restart().await?;
    for _ in 0..2 {
        let made = typed(&node, &third, 0).await?;
        ensure!(made.contains(" 1500 "), "{made}");
    }
    let other = ["--amount-cents", "400", "--reference", "ticket-4711"];
    let refused = typed(&node, &other, USAGE).await?;
    ensure!(refused.contains("another amount"), "{refused}");
    assert_eq!(double.holdings().total().refunded_cents, 1_500);
    exits(node.node.sortie(&["admin", "check-ledger"]), 0)?;
    Ok(())
}

/// `docs/OPERATIONS.md#updating`: a stop waits for no answer of Stripe, however many events wait for one.
async fn a_node_stops_while_stripe_is_silent(database: Database) -> Checked {
    let (mut node, double) = selling(database, NodeOptions::default()).await?;
    let (ann, org) = organization(&node).await?;
    bought((&node, &double), (&ann, &org), 500).await?;
    let holdings = double.holdings();
    let customer = holdings.customers.keys().next().context("a customer")?;
    double.add_price("price_team", 9_900);
    double.fail_always(Some(Fault::HeldBefore));
    let before = double.deliveries().len();
    for _ in 0..WAITING {
        double.subscribe(customer, "price_team", 1)?;
    }
    double
        .wait_for_deliveries(|all| all.len() >= before + WAITING)
        .await?;
    // Those that a node handles at once.
    double.wait_for_requests(Call::ReadSubscription, 8).await?;
    let begun = Instant::now();
    node.node.stop().await?;
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(10), "{took:?}");
    Ok(())
}

/// `docs/BILLING.md#buy-credits-automatically`: the link to the page on which a cardholder can pay is sent by mail.
/// Without mail no page is made: the cardholder would never learn of it, and it would count as an unpaid page.
async fn nobody_is_asked_to_pay_without_mail(database: Database) -> Checked {
    let (node, double) = selling(database, NodeOptions::default()).await?;
    let (ann, org) = organization(&node).await?;
    let path = |end: &str| format!("/v1/organizations/{org}/billing{end}");
    let order = json!({"amount_cents": 500, "save_payment_method": true});
    let page = ann.post(&path("/checkout"), &order).json(200).await?;
    let session = page["url"].as_str().and_then(|url| url.rsplit('/').next());
    double.pay(session.context("a session")?, Card::Good)?;
    node.node.until_logged("credited a purchase").await?;
    let holdings = double.holdings();
    let customer = holdings.customers.keys().next().context("a customer")?;
    double.save_card(customer, Card::NeedsAuthentication)?;
    let low = json!({"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "consent": true});
    let auto = path("/auto-topup");
    ann.send(Method::PUT, &auto, low.to_string().into())
        .expect(200)
        .await?;
    node.node
        .until_logged("an automatic purchase was not paid")
        .await?;
    assert_eq!(double.requests(Call::CreateSession).len(), 1);
    Ok(())
}

/// `docs/LICENSES.md#sell-licenses`: a plan of the configuration is bought, and the installation is licensed until the
/// subscription ends.
async fn licenses_are_sold(database: Database) -> Checked {
    let mut config = NamedTempFile::new()?;
    write!(
        config,
        "[[license.plans]]\nname = \"team\"\nprice = \"price_team\"\nmonthly_runs = 1000\ndeployments = 2\n"
    )?;
    let options = NodeOptions::default()
        .env(
            "SORTIE_CONFIG",
            config.path().to_str().context("a path that is no text")?,
        )
        .env("SORTIE_LICENSE_SIGNING_KEY", &"5c".repeat(32));
    let (node, double) = selling(database, options).await?;
    double.add_price("price_team", 49_900);
    let (ann, org) = organization(&node).await?;
    let path = |end: &str| format!("/v1/organizations/{org}/{end}");
    let wanted = json!({"plan": "team"});
    let page = ann.post(&path("license/checkout"), &wanted).json(200).await?;
    let session = page["url"].as_str().and_then(|url| url.rsplit('/').next());
    double.pay(session.context("a session")?, Card::Good)?;
    node.node
        .until_logged("recorded a subscription to licenses")
        .await?;
    let entitled = async || -> Result<Value> {
        let license = ann.get(&path("license")).json(200).await?;
        Ok(license["entitlement"].clone())
    };
    let bought = entitled().await?;
    assert_has!(bought, {"plan": "team", "state": "active"});
    let made = ann
        .post(&path("deployments"), &json!({"name": "north"}))
        .json(201)
        .await?;
    assert_eq!(made["expires_at"], bought["period_end"]);
    let subscription = double.subscriptions().pop().context("a subscription")?;
    double.change_subscription(&subscription, SubscriptionChange::Ended)?;
    node.node.until_logged("state=ended").await?;
    assert_eq!(entitled().await?["state"], "ended");
    ann.post(&path("deployments"), &json!({"name": "south"}))
        .refused("payment_required")
        .await?;
    Ok(())
}
