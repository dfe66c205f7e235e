//! Nodes with a license are killed while clients create runs. The allowance neither loses nor invents a run: after each
//! kill its count is the number of runs, and the runs are exactly the acknowledged ones.

use std::sync::atomic::{AtomicBool, Ordering};

use sortie_api::{DeploymentId, OrgId, Timestamp};
use sortie_base::{LicenseClaims, LicenseSigner};
use tokio::task::JoinSet;

use crate::{
    people::kills,
    prelude::*,
    world::{Doors, seeded},
};

every_deployment![allowance_of_a_deployment_survives_its_kills];

/// Clients at once.
const CLIENTS: usize = 12;
/// Runs that the last license has left.
const LEFT: i64 = 40;
/// Pause of a client before it repeats an unanswered request.
const AGAIN: Duration = Duration::from_millis(20);

async fn allowance_of_a_deployment_survives_its_kills(database: Database, count: usize) -> Checked {
    let rounds = kills()?;
    let mut licensed = Licensed::start(database, count).await?;
    for round in 1..=rounds {
        let is_last = round == rounds;
        if is_last {
            // The allowance is used up while a node is killed.
            let used = licensed.counts().await?.0;
            licensed.install(used + LEFT).await?;
        }
        licensed
            .round(is_last)
            .await
            .with_context(|| format!("round {round} of {rounds}"))?;
    }
    licensed.report(rounds)
}

/// Nodes with a license on one database.
struct Licensed {
    name: String,
    nodes: Vec<Node>,
    doors: Doors,
    random: fastrand::Rng,
    signer: LicenseSigner,
    /// Runs that the node has acknowledged.
    acknowledged: BTreeSet<String>,
    /// Requests that were refused because the allowance was used up.
    refused: usize,
    /// Requests that lost their connection.
    lost: usize,
}

/// Record of a client.
#[derive(Default)]
struct Record {
    acknowledged: Vec<String>,
    refused: usize,
    lost: usize,
}

impl Licensed {
    async fn start(database: Database, count: usize) -> Result<Self> {
        let name = format!("allowance of {count} on {}", database.as_str());
        let random = seeded(&name, database)?;
        let signer: LicenseSigner = "11".repeat(32).parse()?;
        let options = NodeOptions::default()
            .env("SORTIE_MASTER_KEY", &"5a".repeat(32))
            .env("SORTIE_RATE_LIMIT_PER_MINUTE", "1000000")
            .env("SORTIE_LICENSE_PUBLIC_KEYS", &signer.public().to_string());
        let first = Node::start_with(env!("CARGO_BIN_EXE_sortie"), database, options).await?;
        let doors = Doors::of_key(first.key());
        let mut licensed = Self {
            name,
            nodes: vec![first],
            doors,
            random,
            signer,
            acknowledged: BTreeSet::new(),
            refused: 0,
            lost: 0,
        };
        // Nodes that start later have the license from the beginning.
        licensed.install(1_000_000).await?;
        while licensed.nodes.len() < count {
            let node = licensed.nodes[0].beside().await?;
            licensed.nodes.push(node);
        }
        for (nth, node) in licensed.nodes.iter().enumerate() {
            licensed.doors.open(nth, node.address()?);
        }
        Ok(licensed)
    }

    async fn install(&self, monthly_runs: i64) -> Checked {
        let client = self.nodes[0].client()?;
        let license = client.get("/v1/admin/license").json(200).await?;
        let at: Timestamp = "2026-01-01T00:00:00Z".parse()?;
        let claims = LicenseClaims {
            serial: format!("{monthly_runs}"),
            deployment: DeploymentId::new(at, [1; 10]),
            organization: OrgId::new(at, [2; 10]),
            name: "kills".to_owned(),
            machine_id: license["machine_id"]
                .as_str()
                .context("no machine ID")?
                .to_owned(),
            monthly_runs,
            issued_at: at,
            expires_at: "9999-01-01T00:00:00Z".parse()?,
        };
        let token = self.signer.sign(&claims)?;
        let body = Bytes::from(json!({"token": *token}).to_string());
        let put = client.send(Method::PUT, "/v1/admin/license", body).await?;
        put.expect(200).map(drop)
    }

    /// Returns the count of the allowance, and the number of runs.
    async fn counts(&self) -> Result<(i64, i64)> {
        let number = async |sql: &str| {
            let rows = self.nodes[0].rows(sql).await?;
            rows[0]["n"].as_i64().context("no number")
        };
        Ok((
            number("SELECT CAST(COALESCE(SUM(used), 0) AS BIGINT) AS n FROM allowance").await?,
            number("SELECT COUNT(*) AS n FROM run").await?,
        ))
    }

    async fn pause(&mut self, range: std::ops::Range<u64>) {
        let pause = Duration::from_millis(self.random.u64(range));
        tokio::time::sleep(pause).await;
    }

    /// Kills a node under load, starts it again, ends the load, and compares the counts.
    async fn round(&mut self, is_last: bool) -> Checked {
        let stop = Arc::<AtomicBool>::default();
        let mut load = JoinSet::new();
        for _ in 0..CLIENTS {
            let doors = self.doors.clone();
            load.spawn(create(doors, self.random.fork(), Arc::clone(&stop), is_last));
        }
        let before = if is_last { 5..60 } else { 200..1_200 };
        self.pause(before).await;
        let nth = self.random.usize(..self.nodes.len());
        self.nodes[nth].kill()?;
        self.pause(0..100).await;
        self.doors.close(nth);
        self.nodes[nth].restart().await?;
        self.doors.open(nth, self.nodes[nth].address()?);
        self.pause(200..600).await;
        stop.store(true, Ordering::SeqCst);
        while let Some(record) = load.join_next().await {
            let record = record??;
            self.acknowledged.extend(record.acknowledged);
            self.refused += record.refused;
            self.lost += record.lost;
        }
        self.check(is_last).await
    }

    async fn check(&self, is_last: bool) -> Checked {
        let (used, runs) = self.counts().await?;
        ensure!(
            used == runs,
            "the allowance has counted {used}, and there are {runs} runs"
        );
        let acknowledged = self.acknowledged.len();
        ensure!(
            usize::try_from(runs) == Ok(acknowledged),
            "{acknowledged} runs were acknowledged, and there are {runs}"
        );
        let license = self.nodes[0].client()?.get("/v1/admin/license").json(200).await?;
        ensure!(license["runs_used"] == used, "{license}");
        if is_last {
            ensure!(
                license["monthly_runs"] == used,
                "the allowance is not used up: {license}"
            );
            ensure!(self.refused > 0, "nobody was refused");
        } else {
            ensure!(self.refused == 0, "{} requests were refused", self.refused);
        }
        Ok(())
    }

    fn report(&self, rounds: usize) -> Checked {
        let (runs, lost, refused) = (self.acknowledged.len(), self.lost, self.refused);
        println!(
            "{}: {rounds} kills; {runs} runs, all counted once; {lost} attempts lost, {refused} refused",
            self.name
        );
        ensure!(runs > rounds * CLIENTS, "hardly any load: {runs} runs");
        Ok(())
    }
}

/// Creates runs until the stop flag is set, or with `to_the_end` until the allowance is used up. Each request is
/// repeated with its key until it is answered.
async fn create(
    doors: Doors,
    mut random: fastrand::Rng,
    stop: Arc<AtomicBool>,
    to_the_end: bool,
) -> Result<Record> {
    let mut record = Record::default();
    while !stop.load(Ordering::SeqCst) || (to_the_end && record.refused == 0) {
        let key = HeaderValue::try_from(format!("{:016x}", random.u64(..)))?;
        loop {
            let Some(client) = doors.any(&mut random) else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let client = client.with_header("idempotency-key", key.clone());
            let request = json!({"prompt": "x", "shell": false});
            let Ok(answer) = client.post("/v1/runs", &request).await else {
                record.lost += 1;
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            match answer.status {
                200 | 202 => record.acknowledged.push(id_of(&answer.json()?)?),
                402 => record.refused += 1,
                // A node that stops or starts, and a database that another node's kill has left with locks.
                503 => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                status => anyhow::bail!("{status}: {}", answer.text()),
            }
            break;
        }
    }
    Ok(record)
}

fn id_of(run: &Value) -> Result<String> {
    Ok(run["id"].as_str().context("a run has an id")?.to_owned())
}
