//! Nodes that sell credits are killed while organizations buy, spend and are refunded, while Stripe fails before or
//! after it carries out a call, and while webhooks are lost.
//!
//! The double of Stripe keeps separate books. After each kill the test advances all due times by three minutes, and
//! then compares the books of both.

mod bank;
mod books;
mod customer;
mod weather;

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::anyhow;
use sortie_testkit::{
    StripeDouble,
    stripe::{WebhookMode, signature},
};
use tokio::task::JoinSet;

use self::{bank::Bank, customer::Customer, weather::Weather};
use crate::{
    people::{Ways, check_books, kills},
    prelude::*,
    world::seeded,
};

every_deployment![purchases_of_a_deployment_survive_its_kills];

/// Secret of the webhooks.
const SECRET: &str = "whsec_of_the_test";
/// Path of the webhooks.
const WEBHOOKS: &str = "/v1/webhooks/stripe";
/// Number of organizations that buy concurrently. In each round one is added and one is removed.
const CUSTOMERS: usize = 6;
/// Answers of a round before its kill.
const ANSWERS: usize = 200;
/// Price of a second of a run, in micros.
const RATE: &str = "4000000";
/// Slightly more than the time until a purchase on a page is first checked.
const FIRST_LOOK: Duration = Duration::from_secs(125);
/// Time after which no paid purchase is open.
const THREE_MINUTES: Duration = Duration::from_mins(3);
/// Time after which every page has expired, including those of the engine itself, and events were searched for.
const A_DAY: Duration = Duration::from_mins(23 * 60 + 10);
/// Acts of the bank at the end that cause no webhook.
const UNHEARD: usize = 40;

/// Columns with due times, and the rows that have them. The age of an automatic purchase decides when it is abandoned;
/// the age of a checkout page is in its request to Stripe.
const DUE: [(&str, &str, &str); 6] = [
    ("topup", "check_at", "check_at IS NOT NULL"),
    ("topup", "created_at", "kind = 'auto'"),
    ("stripe_event", "due_at", "due_at IS NOT NULL"),
    ("stripe_search", "due_at", "due_at IS NOT NULL"),
    ("stripe_search", "until_at", "until_at IS NOT NULL"),
    ("auto_topup", "paused_until", "paused_until IS NOT NULL"),
];

async fn purchases_of_a_deployment_survive_its_kills(database: Database, count: usize) -> Checked {
    let rounds = kills()?;
    let mut shop = Shop::open(database, count).await?;
    let begun = Instant::now();
    for round in 1..=rounds {
        shop.round()
            .await
            .with_context(|| format!("round {round} of {rounds}"))?;
    }
    shop.close().await.context("the end of all pages")?;
    shop.report(rounds, begun.elapsed()).await
}

/// Nodes that sell credits, their customers, and the double of Stripe.
struct Shop {
    name: String,
    database: Database,
    random: fastrand::Rng,
    double: Arc<StripeDouble>,
    nodes: Vec<HostedNode>,
    ways: Ways,
    /// The operator's key.
    operator: String,
    bank: Bank,
    customers: Vec<Customer>,
    /// Customers who have stopped.
    gone: Vec<Customer>,
    kills: usize,
}

impl Shop {
    async fn open(database: Database, count: usize) -> Result<Self> {
        let name = format!("purchases of {count} on {}", database.as_str());
        let mut random = seeded(&name, database)?;
        let double = Arc::new(StripeDouble::start().await?);
        let options = NodeOptions::default()
            .env("SORTIE_MASTER_KEY", &"5a".repeat(32))
            // Each request has a different address, or the limits of networks would end the load.
            .env("SORTIE_TRUSTED_PROXIES", "127.0.0.1")
            .env("SORTIE_COMPUTE_MICROS_PER_SECOND", RATE)
            .env("SORTIE_PURCHASES_AUTO_PER_DAY", "1000")
            .env("SORTIE_STRIPE_SECRET_KEY", double.secret_key())
            .env("SORTIE_STRIPE_WEBHOOK_SECRETS", SECRET)
            .env("SORTIE_STRIPE_API_URL", &double.url());
        let first = HostedNode::start_with(env!("CARGO_BIN_EXE_sortie"), database, options.clone()).await?;
        let ways = Ways {
            org_url: first.org_url(),
            ..Ways::default()
        };
        let mut nodes = vec![first];
        while nodes.len() < count {
            nodes.push(nodes[0].beside(options.clone()).await?);
        }
        let operator = std::fs::read_to_string(nodes[0].node.data_dir().join("operator.key"))?;
        let bank = Bank::new(Arc::clone(&double), random.fork());
        let mut shop = Self {
            name,
            database,
            random,
            double,
            nodes,
            ways,
            operator: operator.trim().to_owned(),
            bank,
            customers: Vec::new(),
            gone: Vec::new(),
            kills: 0,
        };
        for nth in 0..count {
            shop.let_in(nth)?;
        }
        while shop.customers.len() < CUSTOMERS {
            shop.welcome().await?;
        }
        for customer in &mut shop.customers {
            customer.buy_the_first().await?;
        }
        Ok(shop)
    }

    /// Adds a new customer, who has no card and is not known to Stripe.
    async fn welcome(&mut self) -> Result<()> {
        let name = format!("c{}", self.customers.len() + self.gone.len());
        let part = (self.ways.clone(), Arc::clone(&self.double));
        let customer = Customer::new(name, part, &self.operator, self.random.fork()).await?;
        self.customers.push(customer);
        Ok(())
    }

    fn let_in(&mut self, nth: usize) -> Result<()> {
        let node = &self.nodes[nth];
        self.ways.org.open(nth, node.org_address);
        self.ways.engine.open(nth, node.node.address()?);
        Ok(())
    }

    fn keep_out(&mut self, nth: usize) {
        self.ways.org.close(nth);
        self.ways.engine.close(nth);
    }

    async fn pause(&mut self, range: std::ops::Range<u64>) {
        let pause = Duration::from_millis(self.random.u64(range));
        tokio::time::sleep(pause).await;
    }

    /// Kills some node. Returns its number.
    fn kill(&mut self) -> Result<usize> {
        let nth = self.random.usize(..self.nodes.len());
        self.nodes[nth].node.kill()?;
        self.kills += 1;
        Ok(nth)
    }

    async fn restart(&mut self, nth: usize) -> Result<()> {
        self.nodes[nth].node.restart().await?;
        self.keep_out(nth);
        self.let_in(nth)
    }

    /// Kills a node under load and starts it again. Then ends the load, advances the time by three minutes, and
    /// compares the books.
    async fn round(&mut self) -> Result<()> {
        self.welcome().await?;
        self.gone.push(self.customers.remove(0));
        let weather = Weather::draw(&mut self.random);
        println!("{weather:?}");
        let receiver = self.random.usize(..self.nodes.len());
        let url = format!("http://{}{WEBHOOKS}", self.nodes[receiver].org_address);
        self.double.send_webhooks(&url, &[SECRET])?;
        weather.begin(&self.double);
        let stop = Arc::<AtomicBool>::default();
        let answered = self.answered();
        let (mut load, mut bank) = (JoinSet::new(), JoinSet::new());
        for customer in std::mem::take(&mut self.customers) {
            load.spawn(customer.act(Arc::clone(&stop)));
        }
        bank.spawn(self.bank.clone().act(Arc::clone(&stop)));

        self.pause(800..2_500).await;
        // A busy machine takes longer until there is enough load.
        let look = async || Ok(self.answered() - answered);
        until("a load", look, |answers| *answers >= ANSWERS).await?;
        let nth = self.kill()?;
        // Let the clients discover the kill on their own, before they are kept from the node.
        self.pause(0..100).await;
        self.keep_out(nth);
        self.pause(0..500).await;
        if weather.jumps {
            self.jump(FIRST_LOOK).await?;
        }
        self.restart(nth).await?;
        self.double.release();
        self.pause(100..600).await;
        weather.end(&self.double);
        stop.store(true, Ordering::SeqCst);
        while let Some(customer) = load.join_next().await {
            self.customers.push(customer??);
        }
        self.customers.sort_by(|one, other| one.name.cmp(&other.name));
        self.bank = bank.join_next().await.context("the bank is gone")??;

        self.bank.settle_all();
        let nth = self.kill()?;
        self.jump(THREE_MINUTES).await?;
        self.restart(nth).await?;
        self.catch_up(Time::ThreeMinutes).await?;
        self.learn_customers().await?;
        check_books(&self.nodes[0], &self.operator).await
    }

    /// Lets all pages expire and searches for the events. Then nothing may be open, and the books must agree.
    async fn close(&mut self) -> Result<()> {
        for customer in self.customers.iter().chain(&self.gone) {
            customer.buy_no_more().await?;
        }
        self.double.set_webhooks(WebhookMode::Dropped);
        for _ in 0..UNHEARD {
            self.bank.act_once();
        }
        self.bank.settle_all();
        let now = self.double.now();
        self.double.advance(A_DAY);
        self.double.set_clock(now);
        let nth = self.kill()?;
        self.jump(A_DAY).await?;
        self.restart(nth).await?;
        self.catch_up(Time::TheEnd).await?;
        check_books(&self.nodes[0], &self.operator).await
    }

    /// Advances all due times, so that the test does not wait for minutes. On SQLite the node must be down.
    async fn jump(&self, by: Duration) -> Result<()> {
        let mut sql = "BEGIN; ".to_owned();
        if self.database == Database::Postgres {
            // The nodes change rows of these tables concurrently, in other orders.
            let tables = DUE.map(|(table, ..)| table).join(", ");
            write!(sql, "LOCK TABLE {tables} IN EXCLUSIVE MODE; ")?;
        }
        for (table, column, rows) in DUE {
            let micros = by.as_micros();
            write!(
                sql,
                "UPDATE {table} SET {column} = {column} - {micros} WHERE {rows}; "
            )?;
        }
        self.nodes[0].node.meddle(&(sql + "COMMIT")).await
    }

    /// Wakes the worker of each node, which processes all due rows.
    async fn wake(&mut self) -> Result<()> {
        let at = self.double.now();
        for node in &self.nodes {
            let id = format!("evt_{:016x}", self.random.u64(..));
            let event = json!({"id": id, "type": "test.awake", "created": at, "data": {"object": {}}});
            let body = event.to_string();
            let header = HeaderValue::try_from(signature(&[SECRET], at, body.as_bytes())?)?;
            let sender = node.anybody().with_header("stripe-signature", header);
            sender
                .send(Method::POST, WEBHOOKS, body.into())
                .expect(200)
                .await?;
        }
        Ok(())
    }

    /// Waits until the nodes have processed all due rows, and compares the books with those of the double.
    async fn catch_up(&mut self, time: Time) -> Result<()> {
        self.wake().await?;
        let look = async || {
            // The bank has answered everything by now.
            self.bank.settle_all();
            Ok(match self.left(time).await? {
                // A purchase may begin between the two.
                None => self.compare().await,
                Some(left) => Err(anyhow!(left)),
            })
        };
        let what = format!("the books to agree {}", time.as_str());
        until(&what, look, Result::is_ok).await?
    }

    /// Prints the figures. Fails if there was hardly any load.
    async fn report(&self, rounds: usize, took: Duration) -> Checked {
        let counts = self.counts().await?;
        let runs: usize = self.everybody().map(|customer| customer.runs.len()).sum();
        let refused: usize = self.everybody().map(|customer| customer.refused).sum();
        println!(
            "{}: {} kills in {:.0} s; {} answers, {} attempts lost; {runs} runs, {refused} that credits did not cover; \
             {counts}; nothing wrong",
            self.name,
            self.kills,
            took.as_secs_f64(),
            self.answered(),
            self.ways.figures.lost.load(Ordering::Relaxed),
        );
        ensure!(
            counts.checkouts > rounds * CUSTOMERS && counts.automatic > rounds && counts.refunds > 0,
            "hardly any load: {counts}"
        );
        Ok(())
    }

    /// Number of answers to the requests of all customers so far.
    fn answered(&self) -> usize {
        self.ways.figures.answered.load(Ordering::Relaxed)
    }

    fn everybody(&self) -> impl Iterator<Item = &Customer> {
        self.customers.iter().chain(&self.gone)
    }
}

/// Time of a look at the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// Three minutes later: unpaid pages may be open.
    ThreeMinutes,
    /// A day later: nothing is open.
    TheEnd,
}

impl Time {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ThreeMinutes => "three minutes later",
            Self::TheEnd => "a day later",
        }
    }
}
