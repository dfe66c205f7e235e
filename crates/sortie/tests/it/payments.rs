//! A deployment that sells credits: the binary beside the double of Stripe.

use std::{io::Write as _, process::Output};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sortie_testkit::{
    Client, Database, HostedNode, NodeOptions, StripeDouble,
    http::Method,
    stripe::{Call, Card, SubscriptionChange},
};
use tempfile::NamedTempFile;

use crate::{
    Checked, both_databases,
    kit::{exits, text},
};

both_databases![
    credits_are_bought_and_refunded,
    nobody_is_asked_to_pay_without_mail,
    licenses_are_sold
];

/// Status of a command that the state of a payment forbids.
const CONFLICT: i32 = 64;

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

/// Signs a person up, and makes an organization. Returns the person's client and the organization.
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

/// `docs/BILLING.md#buy-credits`: the worker of the node handles a webhook at once, and the operator refunds the payment.
async fn credits_are_bought_and_refunded(database: Database) -> Checked {
    let (node, double) = selling(database, NodeOptions::default()).await?;
    let (ann, org) = organization(&node).await?;
    let path = |end: &str| format!("/v1/organizations/{org}/{end}");
    let order = json!({"amount_cents": 2_500});
    let page = ann
        .post(&path("billing/checkout"), &order)
        .await?
        .expect(200)?
        .json()?;
    let session = page["url"].as_str().and_then(|url| url.rsplit('/').next());
    double.pay(session.context("a session")?, Card::Good)?;
    node.node.until_logged("credited a purchase").await?;
    let balance = async || -> Result<Value> {
        let balance = ann.get(&path("balance")).await?.expect(200)?.json()?;
        Ok(balance["balance_micros"].clone())
    };
    assert_eq!(balance().await?, 25_000_000);

    let payments = ann.get(&path("billing/payments")).await?.expect(200)?.json()?;
    let payment = payments["payments"][0]["id"]
        .as_str()
        .context("a payment")?
        .to_owned();
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
    let again = refund(&[], CONFLICT).await?;
    ensure!(text(&again.stderr).contains("refunded before"), "{again:?}");
    exits(node.node.sortie(&["admin", "check-ledger"]), 0)?;
    assert_eq!(double.holdings().total().refunded_cents, 2_500);
    Ok(())
}

/// `docs/BILLING.md#buy-credits-automatically`: the page on which a cardholder can pay goes with a mail. Without mail none is
/// made: nobody would know of it, and it would stand among the pages that are not paid.
async fn nobody_is_asked_to_pay_without_mail(database: Database) -> Checked {
    let (node, double) = selling(database, NodeOptions::default()).await?;
    let (ann, org) = organization(&node).await?;
    let path = |end: &str| format!("/v1/organizations/{org}/billing{end}");
    let order = json!({"amount_cents": 500, "save_payment_method": true});
    let page = ann.post(&path("/checkout"), &order).await?.expect(200)?.json()?;
    let session = page["url"].as_str().and_then(|url| url.rsplit('/').next());
    double.pay(session.context("a session")?, Card::Good)?;
    node.node.until_logged("credited a purchase").await?;
    let holdings = double.holdings();
    let customer = holdings.customers.keys().next().context("a customer")?;
    double.save_card(customer, Card::NeedsAuthentication)?;
    let low = json!({"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "consent": true});
    let auto = path("/auto-topup");
    let put = ann.send(Method::PUT, &auto, low.to_string().into()).await?;
    put.expect(200)?;
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
    let page = ann.post(&path("license/checkout"), &wanted).await?;
    let page = page.expect(200)?.json()?;
    let session = page["url"].as_str().and_then(|url| url.rsplit('/').next());
    double.pay(session.context("a session")?, Card::Good)?;
    node.node
        .until_logged("recorded a subscription to licenses")
        .await?;
    let entitled = async || -> Result<Value> {
        let license = ann.get(&path("license")).await?.expect(200)?.json()?;
        Ok(license["entitlement"].clone())
    };
    let bought = entitled().await?;
    assert_eq!(
        (&bought["plan"], &bought["state"]),
        (&"team".into(), &"active".into())
    );
    let made = ann.post(&path("deployments"), &json!({"name": "north"})).await?;
    let made = made.expect(201)?.json()?;
    assert_eq!(made["expires_at"], bought["period_end"]);
    let subscription = double.subscriptions().pop().context("a subscription")?;
    double.change_subscription(&subscription, SubscriptionChange::Ended)?;
    node.node.until_logged("state=ended").await?;
    assert_eq!(entitled().await?["state"], "ended");
    let refused = ann.post(&path("deployments"), &json!({"name": "south"})).await?;
    refused.failure(402, "payment_required")?;
    Ok(())
}
