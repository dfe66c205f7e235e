//! A hosted node compared with a self-hosted one: creates that reserve credits, and complete runs that are paid with credits.

use anyhow::{Context, Result};
use http::Method;
use sortie_testkit::{HostedNode, Node, NodeOptions};

use crate::{
    Bench,
    connection::Connection,
    load::{complete_for, create_on, per_second, request},
    people::{organization, sign_up, start_with},
    report::Report,
    run::Run,
    samples::{Millis, Samples},
};

/// Number of organizations of each node, with a key each.
const ORGANIZATIONS: u8 = 64;
/// Number of organizations of a person.
const OF_A_PERSON: u8 = 8;
/// Numbers of clients.
const CLIENTS: [usize; 3] = [1, 16, 64];
/// Number of clients with complete runs.
const RUNS: usize = 64;

/// A node with the keys of its clients.
struct Side {
    node: Node,
    keys: Vec<String>,
}

/// Rate and times of the creates of one measurement.
#[derive(Default)]
struct Created {
    /// Creates per second, from all measurements of a side.
    rates: Vec<f64>,
    samples: Samples,
}

impl Created {
    fn rate(&self) -> Result<f64> {
        let count = u32::try_from(self.rates.len())?;
        Ok(self.rates.iter().sum::<f64>() / f64::from(count.max(1)))
    }
}

/// Measures creates and complete runs on both nodes alternately.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("hosted") {
        return Ok(());
    }
    creates(bench, report).await?;
    runs(bench, report).await
}

/// Measures creates per second of one organization and of 64, by 1, 16 and 64 clients. Runs stay queued.
async fn creates(bench: &Bench, report: &mut Report) -> Result<()> {
    let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let free = self_hosted(bench, options.clone(), ORGANIZATIONS).await?;
    let paid = hosted(bench, options, ORGANIZATIONS).await?;
    for side in [&free, &paid] {
        let first = side.keys.first().context("no key")?;
        let mut connection = Connection::at(side.node.address()?, first);
        let _: Run = connection
            .call(Method::POST, "/v1/runs", request("```wait 3000000\n```\n"), 202)
            .await?;
    }
    for clients in CLIENTS {
        for organizations in [1, ORGANIZATIONS] {
            compare(&free, &paid, (organizations, clients), bench.seconds, report).await?;
        }
    }
    Ok(())
}

/// Compares creates by this number of clients and organizations. The sides alternate every second, so that changes of the machine
/// affect both.
async fn compare(
    free: &Side,
    paid: &Side,
    (count, clients): (u8, usize),
    seconds: u64,
    report: &mut Report,
) -> Result<()> {
    let (mut without, mut with) = (Created::default(), Created::default());
    for _ in 0..seconds {
        for (side, is_paid) in [(free, false), (paid, true), (paid, true), (free, false)] {
            let created = if is_paid { &mut with } else { &mut without };
            let (rate, samples) = side.create_for(count.into(), clients, 1).await?;
            created.rates.push(rate);
            created.samples.extend(samples);
        }
    }
    let organizations = match count {
        1 => "one organization".to_owned(),
        more => format!("{more} organizations"),
    };
    let (rate, plain) = (with.rate()?, without.rate()?);
    report.add(
        format!("hosted: creates of {organizations}, {clients} at once"),
        format!("{rate:.0}/s, {:.2} of {plain:.0}/s self-hosted", rate / plain),
    );
    report.reach(
        format!("hosted: creates of {organizations} against self-hosted, {clients} at once"),
        rate / plain,
    );
    if (count, clients) == (1, 1) {
        let (with, without) = (with.samples.percentile(50), without.samples.percentile(50));
        report.add(
            "hosted: one create alone, p50 hosted / self-hosted",
            format!("{} / {}", Millis(with), Millis(without)),
        );
        report.reach(
            "hosted: p50 of one create alone beyond self-hosted",
            with.as_secs_f64() - without.as_secs_f64(),
        );
    }
    Ok(())
}

/// Measures complete runs per second, 64 at once.
async fn runs(bench: &Bench, report: &mut Report) -> Result<()> {
    let free = self_hosted(bench, NodeOptions::default(), 0).await?;
    let mut paid = hosted(bench, NodeOptions::default(), 1).await?;
    let key = paid.keys.first().context("no key")?.clone();
    paid.node.set_key(&key);
    let (mut with, mut without) = (Created::default(), Created::default());
    for (side, is_paid) in [(&free, false), (&paid, true), (&paid, true), (&free, false)] {
        let done = if is_paid { &mut with } else { &mut without };
        let loaded = complete_for(&[&side.node], RUNS, bench.seconds, || request("hello")).await?;
        done.rates.push(per_second(loaded.completed, bench.seconds)?);
    }
    let (rate, plain) = (with.rate()?, without.rate()?);
    report.add(
        format!("hosted: complete runs, {RUNS} at once"),
        format!("{rate:.0}/s, {:.2} of {plain:.0}/s self-hosted", rate / plain),
    );
    report.reach(
        format!("hosted: complete runs against self-hosted, {RUNS} at once"),
        rate / plain,
    );
    Ok(())
}

/// Starts a self-hosted node with this number of additional organizations, each with a key.
async fn self_hosted(bench: &Bench, options: NodeOptions, organizations: u8) -> Result<Side> {
    let mut node = bench.node_with(options).await?;
    node.stop().await?;
    let mut keys = Vec::with_capacity(organizations.into());
    for nth in 0..organizations {
        keys.push(node.add_organization(nth).await?);
    }
    node.restart().await?;
    Ok(Side { node, keys })
}

/// Starts a hosted node with this number of organizations, each with credits and a key.
async fn hosted(bench: &Bench, options: NodeOptions, organizations: u8) -> Result<Side> {
    let deployment = start_with(bench, options).await?;
    let (mut keys, mut session) = (Vec::with_capacity(organizations.into()), String::new());
    for nth in 0..organizations {
        if nth % OF_A_PERSON == 0 {
            session = sign_up(&deployment, usize::from(nth / OF_A_PERSON)).await?;
        }
        keys.push(organization(&deployment, &session).await?.1);
    }
    let HostedNode { node, .. } = deployment;
    Ok(Side { node, keys })
}

impl Side {
    /// Runs clients that create runs and share the first `keys` keys. Returns the rate, and the times of the creates.
    async fn create_for(&self, keys: usize, clients: usize, seconds: u64) -> Result<(f64, Samples)> {
        let address = self.node.address()?;
        let keys = self.keys.iter().take(keys).cycle().take(clients);
        create_on(keys.map(|key| Connection::at(address, key)).collect(), seconds).await
    }
}
