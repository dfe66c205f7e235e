//! An organization that runs agents and buys credits for them, on pages and with its saved card.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use sortie_testkit::{
    StripeDouble,
    stripe::{Authentication, Card},
};

use crate::{
    people::{Call, Requests, Ways, text},
    prelude::*,
};

/// Maximum cost of one run, in micros: slightly more than its seconds.
const MAX_COST: i64 = 13_000_000;
/// Credits that the operator grants at first, in micros.
const GIFT: i64 = 100_000_000;
/// Attempts at a refund. Refunds that are still open do not count as a difference of the books.
const REPEATED: usize = 4;
/// Credits are bought automatically when less than this is available, in cents.
const THRESHOLD: i64 = 6_000;

/// An organization with its owner.
#[derive(Debug)]
pub(super) struct Customer {
    pub(super) name: String,
    requests: Requests,
    double: Arc<StripeDouble>,
    /// The operator's key.
    operator: String,
    pub(super) organization: String,
    /// Token of the session of the owner.
    token: String,
    /// API key of the organization.
    key: String,
    /// Customer of Stripe that belongs to the organization, as far as known.
    pub(super) known_as: Option<String>,
    /// Sessions of pages that can be paid.
    pages: Vec<String>,
    /// Acknowledged runs.
    pub(super) runs: BTreeSet<String>,
    /// Runs that credits did not cover.
    pub(super) refused: usize,
}

impl Customer {
    /// Signs up an owner, who creates an organization and a key, and gets credits from the operator.
    pub(super) async fn new(
        name: String,
        (ways, double): (Ways, Arc<StripeDouble>),
        operator: &str,
        random: fastrand::Rng,
    ) -> Result<Self> {
        let requests = Requests::new(ways, random);
        let made = async |call: Call| requests.ask(&call).await?.expect(201)?.json();
        let person = json!({"email": format!("{name}@example.com"), "name": name,
            "password": format!("plum anchor violet {name}")});
        let token = text(&made(Call::post("/v1/auth/signup", &person)).await?, "token")?;
        let wanted = Call::post("/v1/organizations", &json!({"name": name})).by(&token);
        let organization = text(&made(wanted).await?, "id")?;
        let path = format!("/v1/organizations/{organization}/keys");
        let key = text(
            &made(Call::post(path, &json!({"name": "runs"})).by(&token)).await?,
            "key",
        )?;
        let gift = json!({"amount_micros": GIFT, "reason": "welcome", "reference": name});
        let path = format!("/v1/operator/organizations/{organization}/credits");
        made(Call::post(path, &gift).by(operator)).await?;
        Ok(Self {
            name,
            requests,
            double,
            operator: operator.to_owned(),
            organization,
            token,
            key,
            known_as: None,
            pages: Vec::new(),
            runs: BTreeSet::new(),
            refused: 0,
        })
    }

    fn path(&self, end: &str) -> String {
        format!("/v1/organizations/{}/billing/{end}", self.organization)
    }

    fn number(&self, range: std::ops::Range<usize>) -> usize {
        self.requests.draw(|random| random.usize(range))
    }

    fn cents(&self, range: std::ops::Range<i64>) -> i64 {
        self.requests.draw(|random| random.i64(range))
    }

    /// Buys credits, saves the card, and allows automatic charges, before any fault begins.
    pub(super) async fn buy_the_first(&mut self) -> Result<()> {
        let session = self.order(true).await?.context("no page")?;
        self.double.pay(&session, Card::Good)?;
        self.come_back(&session)
            .await?
            .context("no answer")?
            .expect(200)?;
        self.allow_charges().await?.context("no answer")?.expect(200)?;
        Ok(())
    }

    /// Acts until the stop flag is set. Returns the customer.
    pub(super) async fn act(mut self, stop: Arc<AtomicBool>) -> Result<Self> {
        while !stop.load(Ordering::SeqCst) {
            let acted = self.act_once().await;
            acted.with_context(|| format!("customer {}", self.name))?;
            let pause = self.requests.draw(|random| random.u64(0..15));
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(self)
    }

    async fn act_once(&mut self) -> Result<()> {
        match self.number(0..40) {
            0..24 => self.start_run().await,
            24..28 => self.buy().await,
            28..31 => self.pay_late().await,
            31..35 => self.be_refunded().await,
            35..38 => match self.allow_charges().await? {
                // Without a card there is nothing to charge (409), and without Stripe the result is unknown (503).
                Some(answer) if [409, 503].contains(&answer.status) => Ok(()),
                Some(answer) => answer.expect(200).map(drop),
                None => Ok(()),
            },
            38 => self.change_card(),
            _ => {
                let call = Call::get(format!("/v1/organizations/{}/billing", self.organization));
                self.requests
                    .ask(&call.by(&self.token))
                    .await?
                    .expect(200)
                    .map(drop)
            }
        }
    }

    /// Starts a run, and sometimes cancels it. The request is repeated until it is answered.
    async fn start_run(&mut self) -> Result<()> {
        let run = json!({"prompt": format!("```wait {}\n```", self.number(0..400)), "shell": false,
            "model": "runbook", "timeout_seconds": 3, "max_cost_micros": MAX_COST});
        let name = self.requests.draw(|random| format!("{:016x}", random.u64(..)));
        let call = Call::post("/v1/runs", &run).at_engine().by(&self.key);
        let answer = self.requests.ask(&call.named(&name)).await?.answer;
        match answer.status {
            200 | 202 => {
                let id = text(&answer.json()?, "id")?;
                if self.number(0..6) == 0 {
                    let cancel = Call::post(format!("/v1/runs/{id}/cancel"), &Value::Null);
                    let cancel = cancel.at_engine().by(&self.key);
                    let _lost_or_done = self.requests.try_once(&cancel).await?;
                }
                self.runs.insert(id);
            }
            402 => {
                self.refused += 1;
                let text = answer.text();
                ensure!(text.contains("credits: max_cost_micros is"), "{text}");
            }
            status => bail!("{status}: {}", answer.text()),
        }
        Ok(())
    }

    /// Orders credits. Returns the session of the page, if the answer has one.
    async fn order(&mut self, saves_card: bool) -> Result<Option<String>> {
        let order = json!({"amount_cents": self.cents(500..1_500), "save_payment_method": saves_card});
        let call = Call::post(self.path("checkout"), &order).by(&self.token);
        let Some(answer) = self.requests.try_once(&call.or_unavailable()).await? else {
            return Ok(None);
        };
        // Ten pages are open, or Stripe is unavailable.
        if [409, 503].contains(&answer.status) {
            return Ok(None);
        }
        let url = text(&answer.expect(200)?.json()?, "url")?;
        let session = url.rsplit('/').next().context("no session")?;
        Ok(Some(session.to_owned()))
    }

    /// Orders credits, and usually pays them at once.
    async fn buy(&mut self) -> Result<()> {
        let saves_card = self.number(0..3) == 0;
        let Some(session) = self.order(saves_card).await? else {
            return Ok(());
        };
        if self.number(0..8) == 0 {
            self.pages.push(session);
            return Ok(());
        }
        self.pay(&session);
        if self.number(0..4) == 0 {
            // 503 where Stripe does not answer.
            self.come_back(&session).await?;
        }
        Ok(())
    }

    /// Pays on the page. Returns whether the money has arrived.
    fn pay(&mut self, session: &str) -> bool {
        let card = match self.number(0..12) {
            0 => Card::Declined,
            1 => Card::NeedsAuthentication,
            2 => Card::Slow,
            _ => Card::Good,
        };
        let accepted = self.double.pay(session, card).is_ok();
        let authenticated = match card {
            Card::NeedsAuthentication => {
                let answer = if self.number(0..4) == 0 {
                    Authentication::Failed
                } else {
                    Authentication::Passed
                };
                self.double.authenticate(session, answer).is_ok()
            }
            Card::Good
            | Card::Declined
            | Card::InsufficientFunds
            | Card::AwaitsAuthentication
            | Card::Slow => accepted,
        };
        if !authenticated {
            // Another card may do.
            self.pages.push(session.to_owned());
        }
        authenticated && card != Card::Slow
    }

    /// Pays a page of before.
    async fn pay_late(&mut self) -> Result<()> {
        let at = self.number(0..self.pages.len().max(1));
        if at < self.pages.len() {
            let session = self.pages.swap_remove(at);
            if self.pay(&session) && self.number(0..4) == 0 {
                self.come_back(&session).await?;
            }
        }
        Ok(())
    }

    /// Follows the link back from the page.
    async fn come_back(&self, session: &str) -> Result<Option<Answer>> {
        let call = Call::get(format!("/billing/paid?session={session}")).or_unavailable();
        let page = self.requests.try_once(&call).await?;
        if let Some(page) = &page {
            ensure!(
                [200, 503].contains(&page.status),
                "{} {}",
                page.status,
                page.text()
            );
        }
        Ok(page)
    }

    /// Lets the operator refund a payment, fully or partly. The command is repeated until it is answered.
    async fn be_refunded(&self) -> Result<()> {
        let call = Call::get(self.path("payments?limit=100")).by(&self.token);
        let page = self.requests.ask(&call).await?.expect(200)?.json()?;
        let left =
            |payment: &Value| Some(payment["amount_cents"].as_i64()? - payment["refunded_cents"].as_i64()?);
        let payments = page["payments"].as_array().context("no payments")?;
        let payments: Vec<(String, i64)> = payments
            .iter()
            .filter_map(|payment| Some((payment["id"].as_str()?.to_owned(), left(payment)?)))
            .filter(|(_, left)| *left > 0)
            .collect();
        let Some((payment, left)) = self.requests.draw(|random| random.choice(payments)) else {
            return Ok(());
        };
        let part = if self.number(0..6) == 0 {
            json!({})
        } else {
            let reference = self.requests.draw(|random| format!("{:016x}", random.u64(..)));
            json!({"amount_cents": self.cents(1..left.min(800) + 1), "reference": reference})
        };
        let path = format!("/v1/operator/payments/{payment}/refund");
        let call = Call::post(path, &part).by(&self.operator).or_unavailable();
        for _ in 0..REPEATED {
            // The node is killed, or Stripe is unavailable.
            let Some(answer) = self.requests.try_once(&call).await? else {
                continue;
            };
            match answer.status {
                503 => {}
                // The payment is disputed, or Stripe has failed for good.
                200 | 409 => return Ok(()),
                // Another refund was faster.
                400 if answer.text().contains("which is left of the payment") => return Ok(()),
                status => bail!("{status}: {}", answer.text()),
            }
        }
        Ok(())
    }

    /// Allows charging the saved card automatically whenever few credits are left.
    async fn allow_charges(&self) -> Result<Option<Answer>> {
        let settings = json!({"enabled": true, "threshold_cents": THRESHOLD,
            "amount_cents": self.cents(1_000..2_500), "consent": true});
        let call = Call::put(self.path("auto-topup"), &settings).by(&self.token);
        self.requests.try_once(&call.or_unavailable()).await
    }

    /// Disables the automatic purchases.
    pub(super) async fn buy_no_more(&self) -> Result<()> {
        let call = Call::put(self.path("auto-topup"), &json!({"enabled": false})).by(&self.token);
        self.requests.ask(&call).await?.expect(200).map(drop)
    }

    /// Adds a card in the portal, usually one that can be charged.
    fn change_card(&self) -> Result<()> {
        let card = match self.number(0..8) {
            0 => Card::Declined,
            1 => Card::NeedsAuthentication,
            2 => Card::AwaitsAuthentication,
            3 | 4 => Card::Slow,
            _ => Card::Good,
        };
        if let Some(customer) = &self.known_as {
            self.double.save_card(customer, card)?;
        }
        Ok(())
    }
}
