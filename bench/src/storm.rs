//! A storm of webhooks on several nodes: every event of many purchases several times, in any order.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use sortie_testkit::{
    HostedNode, NodeOptions, StripeDouble, recompute_ledger,
    stripe::{Card, Storm, WebhookMode},
};
use tokio::time::sleep;

use crate::{
    Bench, MASTER_KEY,
    people::{on_this_machine, organization, sign_up, text},
    report::Report,
    samples::{Millis, Samples},
};

/// Organizations that buy.
const ORGANIZATIONS: usize = 100;
/// Organizations of a person.
const OF_A_PERSON: usize = 8;
/// Purchases of an organization: as many pages may be open.
const PURCHASES: usize = 10;
/// Types of the events of a purchase that the endpoint has (`docs/BILLING.md#set-up-stripe`).
const KINDS: [&str; 2] = ["payment_intent.succeeded", "checkout.session.completed"];
/// Events of the storm.
const EVENTS: usize = ORGANIZATIONS * PURCHASES * KINDS.len();
/// Times that each is sent.
const TIMES: usize = 5;
/// Webhooks a second.
const PER_SECOND: u32 = 200;
/// Amount of a purchase, in cents.
const AMOUNT: i64 = 500;
/// Micros of a cent.
const CENT: i64 = 10_000;
const SECRET: &str = "whsec_of_the_bench";
const WEBHOOKS: &str = "/v1/webhooks/stripe";
/// Time in which everything has to be handled.
const PATIENCE: Duration = Duration::from_mins(5);
/// Pause before the next look at what is not handled.
const PAUSE: Duration = Duration::from_millis(100);

/// Nodes that sell credits.
struct Shop {
    double: StripeDouble,
    nodes: Vec<HostedNode>,
}

/// Measures the answers to a storm, and the time until all of it is handled. An error where one is not 200, or a purchase is
/// not credited once.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.has_several() || !report.wants("storm") {
        return Ok(());
    }
    let shop = Shop::open(bench).await?;
    shop.sell().await?;
    let urls: Vec<String> = shop.nodes.iter().map(webhooks).collect();
    let storm = Storm {
        times: TIMES,
        per_second: PER_SECOND,
        seed: 7,
    };
    let begun = Instant::now();
    let sent = shop.double.storm(&urls, storm).await?;
    let answered = Instant::now();
    ensure!(sent.len() == EVENTS * TIMES, "{} webhooks were sent", sent.len());
    let refused = sent.iter().find(|delivery| delivery.status != Some(200));
    ensure!(refused.is_none(), "a webhook was not taken: {refused:?}");
    shop.until_handled().await?;
    let handled = answered.elapsed();
    shop.check().await?;
    let lasted = answered.duration_since(begun);
    let rate = f64::from(u32::try_from(sent.len())?) / lasted.as_secs_f64();
    let mut answers = Samples::default();
    answers.extend(sent.iter().map(|delivery| delivery.took));
    report.add(
        format!(
            "storm: {EVENTS} events {TIMES} times over {} nodes, to the 200; p50 / p99",
            urls.len()
        ),
        format!("{rate:.0}/s; {answers}"),
    );
    report.reach(
        "storm: a webhook to its 200, p99",
        answers.percentile(99).as_secs_f64(),
    );
    let name = "storm: last 200 to all events handled";
    report.add(name, Millis(handled).to_string());
    report.reach(name, handled.as_secs_f64());
    Ok(())
}

fn webhooks(node: &HostedNode) -> String {
    format!("http://{}{WEBHOOKS}", node.org_address)
}

impl Shop {
    async fn open(bench: &Bench) -> Result<Self> {
        let double = StripeDouble::start().await?;
        let options = NodeOptions::default()
            .env("SORTIE_MASTER_KEY", MASTER_KEY)
            .env("SORTIE_STRIPE_SECRET_KEY", double.secret_key())
            .env("SORTIE_STRIPE_WEBHOOK_SECRETS", SECRET)
            .env("SORTIE_STRIPE_API_URL", &double.url());
        let options = on_this_machine(options);
        let first = HostedNode::start_with(&bench.binary, bench.database, options.clone()).await?;
        let mut others = Vec::new();
        while others.len() + 1 < bench.nodes {
            others.push(first.beside(options.clone()).await?);
        }
        double.send_webhooks(&webhooks(&first), &[SECRET])?;
        double.limit_webhooks(&KINDS);
        // Nothing is known before the storm.
        double.set_webhooks(WebhookMode::Dropped);
        let nodes = std::iter::once(first).chain(others).collect();
        Ok(Self { double, nodes })
    }

    /// Lets every organization buy on as many pages as it may open.
    async fn sell(&self) -> Result<()> {
        let node = self.nodes.first().context("no node")?;
        let order = json!({"amount_cents": AMOUNT, "save_payment_method": false});
        let mut session = String::new();
        for nth in 0..ORGANIZATIONS {
            if nth % OF_A_PERSON == 0 {
                session = sign_up(node, nth / OF_A_PERSON).await?;
            }
            let (organization, _) = organization(node, &session).await?;
            let (owner, path) = (
                node.client(&session),
                format!("/v1/organizations/{organization}/billing/checkout"),
            );
            for _ in 0..PURCHASES {
                let page = owner.post(&path, &order).await?.expect(200)?.json()?;
                let page = text(&page, "url")?;
                let session = page.rsplit('/').next().context("a page without a session")?;
                self.double.pay(session, Card::Good)?;
            }
        }
        Ok(())
    }

    async fn number(&self, sql: &str) -> Result<i64> {
        let node = self.nodes.first().context("no node")?;
        let rows = node.node.rows(sql).await?;
        let number = rows.first().and_then(|row| row["n"].as_i64());
        number.with_context(|| format!("no number: {sql}"))
    }

    async fn until_handled(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let waiting = "SELECT COUNT(*) AS n FROM stripe_event WHERE due_at IS NOT NULL";
            let waiting = self.number(waiting).await?;
            if waiting == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{waiting} events are not handled");
            sleep(PAUSE).await;
        }
    }

    /// Checks that each purchase was credited once.
    async fn check(&self) -> Result<()> {
        let events = self.number("SELECT COUNT(*) AS n FROM stripe_event").await?;
        ensure!(usize::try_from(events)? == EVENTS, "{events} events are recorded");
        let of_purchases = "FROM ledger WHERE kind = 'purchase'";
        let count = self
            .number(&format!("SELECT COUNT(*) AS n {of_purchases}"))
            .await?;
        let sum = format!("SELECT CAST(SUM(amount_micros) AS BIGINT) AS n {of_purchases}");
        let sum = self.number(&sum).await?;
        let held = self.double.holdings().total().captured_cents;
        ensure!(
            usize::try_from(count)? == ORGANIZATIONS * PURCHASES && sum == held * CENT,
            "{count} purchases of {sum} micros, and Stripe holds {held} cents"
        );
        recompute_ledger(&self.nodes.first().context("no node")?.node)
    }
}
