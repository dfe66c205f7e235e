//! Creates with budgets and with idempotency keys, compared with creates without.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use sortie_api::{Budget, key::CreatedKey};
use sortie_testkit::{Node, NodeOptions};
use tokio::task::JoinSet;

use crate::{
    Bench,
    connection::Connection,
    load::{WARM_UP, per_second, request},
    report::Report,
    run::Run,
};

/// Number of keys with a separate budget.
const KEYS: usize = 64;

/// A limit that is never reached.
const AMPLE: u64 = 1_000_000_000_000_000;

const ORGANIZATION: &str = "/v1/budgets/organization";

/// Numbers of clients.
const CLIENTS: [usize; 3] = [1, 16, 64];

/// Kind of creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Each client has a separate key without a budget.
    PlainKeys,
    Named,
    Organization,
    Keys,
    BesideRefused,
}

impl Kind {
    /// Kinds that are compared with plain creates.
    const COMPARED: [Self; 4] = [Self::Named, Self::Organization, Self::Keys, Self::BesideRefused];

    fn name(self) -> &'static str {
        match self {
            Self::Plain | Self::PlainKeys => "without a budget",
            Self::Named => "with an Idempotency-Key",
            Self::Organization => "one budget on the organization",
            Self::Keys => "64 budgets on 64 keys",
            Self::BesideRefused => "beside a client that is refused in a loop",
        }
    }

    /// Returns the creates without a budget to compare this kind with. They use the same number of keys.
    fn without(self) -> Self {
        match self {
            Self::Plain | Self::Named | Self::Organization | Self::BesideRefused => Self::Plain,
            Self::PlainKeys | Self::Keys => Self::PlainKeys,
        }
    }
}

/// A node, and clients whose keys have budgets.
struct Rig {
    node: Node,
    /// Keys with an ample budget.
    keys: Vec<String>,
    /// Keys without a budget.
    free: Vec<String>,
    /// A key with a budget of zero.
    refused: String,
    names: Arc<AtomicU64>,
}

/// Measures creates per second of each kind by 1, 16 and 64 clients. Runs stay queued.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("creates under budgets") {
        return Ok(());
    }
    let rig = Rig::new(bench).await?;
    for clients in CLIENTS {
        for kind in Kind::COMPARED {
            let (plain, rate) = rig.compare(kind, clients, bench.seconds).await?;
            report.add(
                format!("creates under budgets: {}, {clients} at once", kind.name()),
                format!(
                    "{rate:.0}/s, {:.2} of {plain:.0}/s without a budget",
                    rate / plain
                ),
            );
            report.reach(figure(kind, clients), rate / plain);
        }
    }
    Ok(())
}

/// Name of the ratio between a kind and creates without a budget.
fn figure(kind: Kind, clients: usize) -> String {
    format!(
        "creates under budgets: {} (ratio), {clients} at once",
        kind.name()
    )
}

impl Rig {
    async fn new(bench: &Bench) -> Result<Self> {
        let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
        let node = bench.node_with(options).await?;
        let mut admin = Connection::to(&node)?;
        let _: Run = admin
            .call(Method::POST, "/v1/runs", request("```wait 3000000\n```\n"), 202)
            .await?;
        let (mut keys, mut free) = (Vec::with_capacity(KEYS), Vec::with_capacity(KEYS));
        for _ in 0..KEYS {
            keys.push(key_with_budget(&mut admin, AMPLE).await?);
            free.push(new_key(&mut admin).await?.key);
        }
        let refused = key_with_budget(&mut admin, 0).await?;
        Ok(Self {
            node,
            keys,
            free,
            refused,
            names: Arc::default(),
        })
    }

    /// Returns the creates per second without a budget, and of this kind. They alternate every second, so that the growing queue
    /// and other work of the machine affect both equally.
    async fn compare(&self, kind: Kind, clients: usize, seconds: u64) -> Result<(f64, f64)> {
        let (mut plain, mut rate) = (0.0, 0.0);
        for _ in 0..seconds {
            for turn in [kind.without(), kind, kind, kind.without()] {
                let measured = self.measure(turn, clients, 1).await?;
                *if turn == kind { &mut rate } else { &mut plain } += measured;
            }
        }
        let windows = 2.0 * f64::from(u32::try_from(seconds)?);
        Ok((plain / windows, rate / windows))
    }

    async fn measure(&self, kind: Kind, clients: usize, seconds: u64) -> Result<f64> {
        let mut admin = Connection::to(&self.node)?;
        if kind == Kind::Organization {
            let _: Budget = admin.call(Method::PUT, ORGANIZATION, budget(AMPLE), 201).await?;
        }
        let from = Instant::now() + WARM_UP;
        let to = from + Duration::from_secs(seconds);
        let mut tasks = JoinSet::new();
        if kind == Kind::BesideRefused {
            let connection = Connection::at(self.node.address()?, &self.refused);
            tasks.spawn(refused_until(connection, to));
        }
        for (budgeted, free) in self.keys.iter().zip(&self.free).cycle().take(clients) {
            let connection = match kind {
                Kind::Keys => Connection::at(self.node.address()?, budgeted),
                Kind::PlainKeys => Connection::at(self.node.address()?, free),
                Kind::Plain | Kind::Named | Kind::Organization | Kind::BesideRefused => {
                    Connection::to(&self.node)?
                }
            };
            let names = (kind == Kind::Named).then(|| Arc::clone(&self.names));
            tasks.spawn(create_until(connection, names, from, to));
        }
        let mut count = 0;
        while let Some(done) = tasks.join_next().await {
            count += done??;
        }
        if kind == Kind::Organization {
            admin.send(Method::DELETE, ORGANIZATION, Bytes::new()).await?;
        }
        per_second(count, seconds)
    }
}

fn budget(limit: u64) -> Bytes {
    json!({"limit_micros": limit, "period": "month"})
        .to_string()
        .into()
}

/// Creates a key with a budget. Returns its secret.
async fn key_with_budget(admin: &mut Connection, limit: u64) -> Result<String> {
    let created = new_key(admin).await?;
    let path = format!("/v1/budgets/key:{}", created.id);
    let _: Budget = admin.call(Method::PUT, &path, budget(limit), 201).await?;
    Ok(created.key)
}

pub(crate) async fn new_key(admin: &mut Connection) -> Result<CreatedKey> {
    let body = json!({"name": "bench"}).to_string().into();
    admin.call(Method::POST, "/v1/admin/keys", body, 201).await
}

/// Posts runs one after another until `to`. Returns the number of creates that started after `from`.
async fn create_until(
    mut connection: Connection,
    names: Option<Arc<AtomicU64>>,
    from: Instant,
    to: Instant,
) -> Result<usize> {
    let request = request("hello");
    let mut count = 0;
    while Instant::now() < to {
        let begun = Instant::now();
        if let Some(names) = &names {
            let name = names.fetch_add(1, Ordering::Relaxed);
            connection.name_next(format!("create {name}"));
        }
        let _: Run = connection
            .call(Method::POST, "/v1/runs", request.clone(), 202)
            .await?;
        count += usize::from(begun >= from);
    }
    Ok(count)
}

/// Posts runs one after another until `to`. The engine must refuse all of them.
async fn refused_until(mut connection: Connection, to: Instant) -> Result<usize> {
    let request = request("hello");
    while Instant::now() < to {
        let response = connection.send(Method::POST, "/v1/runs", request.clone()).await?;
        anyhow::ensure!(response.status() == 402, "{}", response.status());
        response.into_body().collect().await?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::BARS;

    #[test]
    fn each_bar_of_creates_under_budgets_names_a_figure_that_is_measured() {
        let measured: Vec<String> = CLIENTS
            .into_iter()
            .flat_map(|clients| Kind::COMPARED.map(|kind| figure(kind, clients)))
            .collect();
        let named: Vec<&str> = BARS
            .iter()
            .map(|bar| bar.figure)
            .filter(|figure| figure.starts_with("creates under budgets"))
            .collect();
        assert_eq!(named.len(), 10);
        for figure in named {
            assert!(measured.iter().any(|name| name == figure), "{figure}");
        }
    }
}
