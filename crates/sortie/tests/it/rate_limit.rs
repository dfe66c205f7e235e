//! Rate limits and their headers (`docs/API.md#rate-limits`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use sortie_testkit::{Answer, Bytes, Client, Database, Node, NodeOptions, http::Method};

use crate::{Checked, kit::plain, node, node_with};

/// The three numbers, after checking that every header says the same.
fn limits(answer: &Answer) -> Result<(u64, u64, u64)> {
    let number = |name: &str| -> Result<u64> { Ok(answer.header(name)?.parse()?) };
    let (limit, remaining, reset) = (
        number("x-ratelimit-limit")?,
        number("x-ratelimit-remaining")?,
        number("x-ratelimit-reset")?,
    );
    assert_eq!(
        answer.header("ratelimit-policy")?,
        format!(r#""default";q={limit};w=60"#)
    );
    assert_eq!(
        answer.header("ratelimit")?,
        format!(r#""default";r={remaining};t={reset}"#)
    );
    ensure!(remaining <= limit && reset <= 60, "{:?}", answer.headers);
    Ok((limit, remaining, reset))
}

/// Waits until a minute has begun recently enough that a few requests fall into it together.
async fn early_in_a_minute(client: &Client) -> Checked {
    let (_, _, reset) = limits(&client.get("/v1/nothing").await?)?;
    if reset < 10 {
        tokio::time::sleep(Duration::from_secs(reset + 1)).await;
    }
    Ok(())
}

#[tokio::test]
async fn every_engine_answer_carries_the_rate_limit_headers() -> Checked {
    let node = node(Database::Sqlite).await?;
    let client = node.client()?;
    let run = client.create(&plain("x")).await?;
    for (method, path, status) in [
        (Method::GET, "/v1/me".to_owned(), 200),
        (Method::GET, format!("/v1/runs/{}", run.id), 200),
        (Method::POST, format!("/v1/runs/{}/cancel", run.id), 200),
        (Method::GET, format!("/v1/runs/{}/definition", run.id), 200),
        (Method::GET, "/v1/runs?limit=0".to_owned(), 400),
        (Method::GET, "/v1/runs/x".to_owned(), 404),
        (Method::GET, "/v1/nothing".to_owned(), 404),
        (Method::DELETE, "/v1/runs".to_owned(), 405),
        (Method::POST, "/v1/runs".to_owned(), 400),
    ] {
        let answer = client.send(method, &path, Bytes::new()).await?.expect(status)?;
        limits(&answer).with_context(|| path.clone())?;
    }
    let nobody = client.anonymous();
    limits(&nobody.get("/v1/me").await?.expect(401)?)?;
    limits(&nobody.get("/v1/models").await?.expect(200)?)?;
    Ok(())
}

#[tokio::test]
async fn past_the_limit_a_credential_is_told_when_to_come_back() -> Checked {
    let node = node_with(
        Database::Sqlite,
        NodeOptions::default().env("SORTIE_RATE_LIMIT_PER_MINUTE", "5"),
    )
    .await?;
    let client = node.client()?;
    early_in_a_minute(&client.anonymous()).await?;
    for expected in (0..5).rev() {
        let (limit, remaining, _) = limits(&client.get("/v1/me").await?.expect(200)?)?;
        assert_eq!((limit, remaining), (5, expected));
    }
    let refused = client.post("/v1/runs", &plain("x")).await?;
    refused.failure(429, "rate_limited")?;
    let (limit, remaining, reset) = limits(&refused)?;
    assert_eq!((limit, remaining), (5, 0));
    let retry_after: u64 = refused.header("retry-after")?.parse()?;
    ensure!(
        retry_after >= reset.max(1) && retry_after <= 60,
        "{retry_after} {reset}"
    );
    // One without a credential has a count of its own.
    client.anonymous().get("/v1/models").await?.expect(200)?;
    Ok(())
}

/// `docs/API.md#rate-limits`: 120 per minute per client address, also for those who guess at keys.
#[tokio::test]
async fn without_a_credential_an_address_has_120_requests_a_minute() -> Checked {
    let node = node(Database::Sqlite).await?;
    let nobody = node.client()?.anonymous();
    early_in_a_minute(&nobody).await?;
    let mut remaining = limits(&nobody.get("/v1/models").await?)?.1;
    assert_eq!(limits(&nobody.get("/v1/models").await?)?.0, 120);
    while remaining > 0 {
        remaining = limits(&nobody.with_key("sts_guess").get("/v1/me").await?.expect(401)?)?.1;
    }
    nobody
        .with_key("sts_guess")
        .get("/v1/me")
        .await?
        .failure(429, "rate_limited")?;
    nobody.get("/v1/models").await?.failure(429, "rate_limited")?;
    // One with a credential goes on.
    node.client()?.get("/v1/me").await?.expect(200)?;
    Ok(())
}

/// `docs/API.md#rate-limits`: a stream counts once, not per event.
#[tokio::test]
async fn an_event_stream_counts_once() -> Checked {
    let node = node_with(
        Database::Sqlite,
        NodeOptions::default().env("SORTIE_RATE_LIMIT_PER_MINUTE", "50"),
    )
    .await?;
    let client = node.client()?;
    early_in_a_minute(&client.anonymous()).await?;
    let before = limits(&client.get("/v1/me").await?)?.1;
    client.complete(&plain("x")).await?;
    let after = limits(&client.get("/v1/me").await?)?.1;
    assert_eq!(before - after, 3, "the create, the stream and the look itself");
    Ok(())
}

/// Log line of a node whose rate limits go on without the database.
const FALLEN_BACK: &str = "rate limits fall back to this node's share";

/// Time for which a node waits for the database before it lets a request through on its own.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of requests that were let through, and the longest duration of one.
#[derive(Default)]
struct Tally {
    admitted: u64,
    slowest: Duration,
}

impl Tally {
    /// Sends a request; whether it was let through.
    async fn ask(&mut self, client: &Client, path: &str) -> Result<bool> {
        let began = Instant::now();
        let answer = client.get(path).await?;
        self.slowest = self.slowest.max(began.elapsed());
        let (_, remaining, _) = limits(&answer)?;
        if answer.status == 200 {
            self.admitted += 1;
            return Ok(true);
        }
        answer.failure(429, "rate_limited")?;
        ensure!(remaining == 0, "refused with {remaining} left");
        Ok(false)
    }

    fn and(self, other: &Self) -> Self {
        Self {
            admitted: self.admitted + other.admitted,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

/// Sends requests to a node, a few at a time, until it refuses `refusals` of them to each sender.
async fn hammer(client: &Client, refusals: usize) -> Result<Tally> {
    let senders = (0..4).map(|_| async {
        let (mut tally, mut refused) = (Tally::default(), 0);
        while refused < refusals {
            refused += usize::from(!tally.ask(client, "/v1/me").await?);
        }
        anyhow::Ok(tally)
    });
    let tallies = try_join_all(senders).await?;
    Ok(tallies.iter().fold(Tally::default(), Tally::and))
}

/// Returns the requests that three nodes let through in one minute: with a credential by each of them, and without one
/// by all. None where the result is not conclusive: the minute was over, or a node may have gone on without the
/// database, as it does when that takes a second.
async fn let_through() -> Result<Option<(Vec<u64>, u64)>> {
    let options = NodeOptions::default().env("SORTIE_RATE_LIMIT_PER_MINUTE", "600");
    let first = node_with(Database::Postgres, options).await?;
    let mut nodes = [first.beside().await?, first.beside().await?, first];
    let clients = nodes.iter().map(Node::client).collect::<Result<Vec<_>>>()?;
    let watch = clients[0].anonymous();
    // All of it has to fall into one window.
    let (_, _, mut left) = limits(&watch.get("/healthz").await?)?;
    if left < 40 {
        tokio::time::sleep(Duration::from_secs(left + 1)).await;
        left = limits(&watch.get("/healthz").await?)?.2;
    }
    let began = Instant::now();
    // One that begins late finds nothing left: each is asked once before.
    let mut tallies = Vec::new();
    for client in &clients {
        let mut tally = Tally::default();
        ensure!(tally.ask(client, "/v1/me").await?, "refused at once");
        tallies.push(tally);
    }
    let hammered = try_join_all(clients.iter().map(|client| hammer(client, 5))).await?;
    let tallies: Vec<Tally> = tallies
        .into_iter()
        .zip(hammered)
        .map(|(first, rest)| first.and(&rest))
        .collect();
    // What one client may have without a credential does not depend on the nodes that it asks either.
    let mut anonymous = Tally::default();
    for nobody in clients.iter().map(Client::anonymous).cycle().take(3 * 120) {
        anonymous.ask(&nobody, "/v1/models").await?;
    }
    let is_one_minute = began.elapsed() < Duration::from_secs(left - 1);
    let is_prompt = tallies
        .iter()
        .chain([&anonymous])
        .all(|tally| tally.slowest < PATIENCE);
    // Their logs are whole then.
    for node in &mut nodes {
        node.stop().await?;
    }
    let is_shared = nodes.iter().all(|node| !node.log().contains(FALLEN_BACK));
    if !(is_one_minute && is_prompt && is_shared) {
        return Ok(None);
    }
    let admitted = tallies.iter().map(|tally| tally.admitted).collect();
    Ok(Some((admitted, anonymous.admitted)))
}

/// docs/API.md, "Rate limits on several nodes": never more than the quota, and two other nodes hold back at most a
/// twelfth of it each.
#[tokio::test]
async fn three_nodes_share_the_quota_of_a_credential_and_of_an_address() -> Checked {
    for _ in 0..3 {
        let Some((admitted, anonymous)) = let_through().await? else {
            continue;
        };
        let sum: u64 = admitted.iter().sum();
        ensure!((500..=600).contains(&sum), "{admitted:?} of 600, at least 500");
        ensure!(admitted.iter().all(|one| *one > 0), "{admitted:?}");
        ensure!(
            (100..=120).contains(&anonymous),
            "{anonymous} of 120, at least 100"
        );
        return Ok(());
    }
    bail!("the database, or this machine, was too slow each time")
}
