//! A burst of webhooks on several nodes: every event of many purchases, refunds and disputes arrives several times, in any order.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sortie_testkit::{
    HostedNode, NodeOptions, StripeDouble, recompute_ledger,
    stripe::{Card, DisputeStage, Held, Storm, Verdict, WebhookMode},
};
use tokio::time::sleep;

use crate::{
    Bench, MASTER_KEY,
    people::{on_this_machine, organization, sign_up, text},
    report::Report,
    samples::{Millis, Samples},
};

/// Number of organizations that buy.
const ORGANIZATIONS: usize = 100;
/// Number of organizations of a person.
const OF_A_PERSON: usize = 8;
/// Number of purchases per organization, each with a different outcome ([`Shop::take_back`]).
const PURCHASES: usize = 4;
/// Event types of the endpoint (`docs/BILLING.md#set-up-stripe`).
const KINDS: [&str; 9] = [
    "payment_intent.succeeded",
    "checkout.session.completed",
    "charge.refunded",
    "refund.created",
    "refund.failed",
    "charge.dispute.created",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.funds_reinstated",
    "charge.dispute.closed",
];
/// Number of events of an organization: two per purchase, two for a refund, three for one that fails, four for a dispute that is
/// won, and three for one that is lost.
const OF_AN_ORGANIZATION: usize = 2 * PURCHASES + 2 + 3 + 4 + 3;
/// Total number of events.
const EVENTS: usize = ORGANIZATIONS * OF_AN_ORGANIZATION;
/// Number of times that each event is sent.
const TIMES: usize = 5;
/// Webhooks per second.
const PER_SECOND: u32 = 200;
/// Amount of a purchase, in cents.
const AMOUNT: i64 = 500;
/// Amount of a refund, in cents.
const REFUND: i64 = 200;
/// Micros of a cent.
const CENT: i64 = 10_000;
const SECRET: &str = "whsec_of_the_bench";
const WEBHOOKS: &str = "/v1/webhooks/stripe";
/// Maximum time to process everything.
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of the checks for unprocessed events.
const PAUSE: Duration = Duration::from_millis(100);

/// Nodes that sell credits.
struct Shop {
    double: StripeDouble,
    nodes: Vec<HostedNode>,
}

/// Measures the responses to the webhooks, and the time until all are processed. Fails if a response is not 200, a purchase is
/// not credited exactly once, or the figures of a payment differ from those of the Stripe double.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.has_several() || !report.wants("storm") {
        return Ok(());
    }
    let shop = Shop::open(bench).await?;
    shop.sell().await?;
    shop.take_back()?;
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
        let first = HostedNode::on(&bench.binary, bench.database.fresh().await?, options.clone()).await?;
        let mut others = Vec::new();
        while others.len() + 1 < bench.nodes {
            others.push(first.beside(options.clone()).await?);
        }
        double.send_webhooks(&webhooks(&first), &[SECRET])?;
        double.limit_webhooks(&KINDS);
        // The nodes learn nothing before the burst.
        double.set_webhooks(WebhookMode::Dropped);
        let nodes = std::iter::once(first).chain(others).collect();
        Ok(Self { double, nodes })
    }

    /// Makes every organization buy on as many pages as it may open.
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

    /// Refunds and disputes the purchases of every customer. Of its four purchases, one is partly refunded, one has a failed
    /// refund, one a dispute that is won, and one a dispute that is lost.
    fn take_back(&self) -> Result<()> {
        let mut seen: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for intent in self.double.holdings().topups.into_values().flatten() {
            let nth = seen.entry(intent.customer).or_default();
            let dispute = || self.double.dispute(&intent.id, AMOUNT, DisputeStage::Chargeback);
            match *nth % PURCHASES {
                0 => drop(self.double.refund(&intent.id, REFUND)?),
                1 => self
                    .double
                    .fail_refund(&self.double.refund(&intent.id, REFUND)?)?,
                2 => self.double.decide(&dispute()?, Verdict::Won)?,
                _ => self.double.decide(&dispute()?, Verdict::Lost)?,
            }
            *nth += 1;
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

    /// Checks that each purchase was credited once, and that every payment and the sums of the ledger match the Stripe double.
    async fn check(&self) -> Result<()> {
        let events = self.number("SELECT COUNT(*) AS n FROM stripe_event").await?;
        ensure!(usize::try_from(events)? == EVENTS, "{events} events are recorded");
        let held: BTreeMap<String, Held> = self
            .double
            .holdings()
            .topups
            .into_values()
            .flatten()
            .map(|intent| (intent.id, intent.held))
            .collect();
        let paid = self.paid().await?;
        ensure!(
            held.len() == ORGANIZATIONS * PURCHASES && paid == held,
            "the payments are {paid:?}, and Stripe has {held:?}"
        );
        let sum = async |kinds: &str| {
            let sum =
                format!("SELECT CAST(SUM(amount_micros) AS BIGINT) AS n FROM ledger WHERE kind IN ({kinds})");
            self.number(&sum).await
        };
        let bought = sum("'purchase'").await?;
        let taken = sum("'refund', 'refund_failed', 'dispute', 'dispute_won'").await?;
        let total = self.double.holdings().total();
        let gone = total.refunded_cents + total.disputed_cents;
        ensure!(
            gone > 0 && (bought, taken) == (total.captured_cents * CENT, -gone * CENT),
            "{bought} micros were bought and {taken} came back, and Stripe holds {total:?}"
        );
        recompute_ledger(&self.nodes.first().context("no node")?.node)
    }

    /// Returns the payments in the tables, by intent.
    async fn paid(&self) -> Result<BTreeMap<String, Held>> {
        let node = self.nodes.first().context("no node")?;
        let sql = "SELECT intent_id, amount_cents, refunded_cents, disputed_cents FROM payment";
        let mut paid = BTreeMap::new();
        for row in node.node.rows(sql).await? {
            let cents = |name: &str| {
                let cents = row.get(name).and_then(Value::as_i64);
                cents.with_context(|| format!("no {name} in {row}"))
            };
            let held = Held {
                captured_cents: cents("amount_cents")?,
                refunded_cents: cents("refunded_cents")?,
                disputed_cents: cents("disputed_cents")?,
            };
            paid.insert(text(&row, "intent_id")?, held);
        }
        Ok(paid)
    }
}
