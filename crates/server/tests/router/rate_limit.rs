//! Rate limits (`docs/API.md#rate-limits`) with a clock that the tests control.

use std::sync::Arc;

use futures_util::future::join_all;
use sortie_api::{
    Mode, Timestamp,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_base::spawn_short;
use sortie_engine::{Clock, Engine};
use sortie_server::Options;
use sortie_store::Store;
use sortie_testkit::postgres::TestDatabase;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{prelude::*, refusals::check_headers};

/// Beginning of a minute.
const MINUTE: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

/// A rig with its clock set 20 seconds before the end of a minute.
async fn rig(options: Options) -> (Rig, Clock) {
    let clock = Clock::manual(MINUTE + Duration::from_secs(40));
    let engine = sortie_engine::Options {
        clock: clock.clone(),
        ..sortie_engine::Options::default()
    };
    (Rig::start_engine(Mode::SelfHosted, options, engine).await, clock)
}

fn remaining(answer: &Answer) -> u64 {
    answer.header("x-ratelimit-remaining").unwrap().parse().unwrap()
}

#[tokio::test]
async fn past_a_limit_429_says_when_to_come_back_and_others_go_on() {
    let limits = Options {
        requests_per_minute: 3,
        anonymous_requests_per_minute: 2,
        ..options()
    };
    let (rig, clock) = rig(limits).await;
    for left in [2, 1, 0] {
        let answer = rig.member.get("/v1/me").must(200).await;
        assert_eq!(remaining(&answer), left);
    }
    let answer = rig.member.get("/v1/me").await.unwrap();
    answer.refused("rate_limited").unwrap();
    check_headers(&answer, "429");
    assert_eq!(answer.header("retry-after").unwrap(), "20");
    assert_eq!(answer.header("x-ratelimit-reset").unwrap(), "20");
    assert_eq!(remaining(&answer), 0);

    // An invalid key and a missing key count together against the address.
    let nobody = rig.admin.anonymous();
    nobody.get("/v1/models").must(200).await;
    let guessing = rig.admin.with_key("sts_guess");
    guessing.get("/v1/me").must(401).await;
    for refused in [&nobody, &guessing] {
        refused.get("/v1/models").must_refuse("rate_limited").await;
    }

    rig.admin.get("/v1/me").must(200).await;
    for _ in 0..10 {
        nobody.get("/healthz").must(200).await;
        nobody.get("/readyz").must(200).await;
        nobody.get("/metrics").must(200).await;
    }

    clock.set(MINUTE + Duration::from_secs(59));
    let answer = rig.member.get("/v1/me").await.unwrap();
    answer.refused("rate_limited").unwrap();
    assert_eq!(answer.header("retry-after").unwrap(), "1");
    clock.set(MINUTE + Duration::from_mins(1));
    let answer = rig.member.get("/v1/me").must(200).await;
    assert_eq!(remaining(&answer), 2);
    nobody.get("/v1/models").must(200).await;
}

/// `docs/API.md#rate-limits`: a stream counts once, not per event.
#[tokio::test]
async fn an_event_stream_counts_once() {
    let (rig, _clock) = rig(Options {
        requests_per_minute: 50,
        ..options()
    })
    .await;
    let before = remaining(&rig.member.get("/v1/me").await.unwrap());
    rig.member.complete(&plain("x")).await.unwrap();
    let after = remaining(&rig.member.get("/v1/me").await.unwrap());
    assert_eq!(before - after, 3, "the create, the stream and the look itself");
}

/// Three nodes on one `PostgreSQL` with a fixed clock. A node never continues without the database, however long it is
/// unavailable.
struct ThreeNodes {
    /// Clients with the admin key, one for each node.
    clients: Vec<Client>,
    stop: CancellationToken,
    serving: TaskTracker,
    _dir: TempDir,
    _database: TestDatabase,
}

impl ThreeNodes {
    async fn start(limits: Options) -> Self {
        let (database, dir) = (
            TestDatabase::postgres().await.unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let key = Secret::new(SELF_HOSTED_KEY, [0; 32]);
        let (stop, serving) = (CancellationToken::new(), TaskTracker::new());
        let (clock, mut clients) = (Clock::manual(MINUTE), Vec::new());
        for name in ["a", "b", "c"] {
            let engine = sortie_engine::Options {
                clock: clock.clone(),
                data_dir: dir.path().join(name),
                node_name: name.to_owned(),
                ..sortie_engine::Options::default()
            };
            let store = Store::open(database.url()).await.unwrap();
            let no_sandbox = Err("this test has no sandbox.".to_owned());
            let engine = Engine::start(engine, store, no_sandbox).await.unwrap();
            assert_eq!(engine.bootstrap(&key).await.unwrap(), name == "a");
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            clients.push(Client::new(address, Some(key.expose().to_owned())));
            let limits = Arc::new(limits.clone());
            spawn_short(
                &serving,
                sortie_server::serve(listener, engine, limits, stop.clone()),
            );
        }
        serving.close();
        Self {
            clients,
            stop,
            serving,
            _dir: dir,
            _database: database,
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.serving.wait().await;
    }
}

/// Sends a request. Returns true if it was admitted. A refused one must have no requests left.
async fn is_let_through(client: &Client, path: &str) -> bool {
    let answer = client.get(path).await.unwrap();
    if answer.status == 200 {
        return true;
    }
    answer.refused("rate_limited").unwrap();
    assert_eq!(remaining(&answer), 0);
    false
}

/// Sends requests to a node, a few concurrently, until it refuses some from each sender. Returns the number of admitted requests.
async fn hammer(client: &Client) -> u64 {
    let senders = (0..4).map(|_| async {
        let (mut admitted, mut refused) = (0, 0);
        while refused < 5 {
            let is_admitted = is_let_through(client, "/v1/me").await;
            admitted += u64::from(is_admitted);
            refused += u64::from(!is_admitted);
        }
        admitted
    });
    join_all(senders).await.into_iter().sum()
}

/// `docs/API.md#rate-limits-on-several-nodes`: never more than the quota, and two other nodes hold back at most a
/// twelfth of it each.
#[tokio::test]
async fn three_nodes_share_the_quota_of_a_credential_and_of_an_address() {
    let nodes = ThreeNodes::start(Options {
        requests_per_minute: 600,
        anonymous_requests_per_minute: 120,
        rate_limit_patience: Duration::from_hours(1),
        ..options()
    })
    .await;
    // A node that starts late finds the quota used up, so each gets one request first.
    for client in &nodes.clients {
        assert!(is_let_through(client, "/v1/me").await);
    }
    let admitted = join_all(nodes.clients.iter().map(hammer)).await;
    let sum: u64 = 3 + admitted.iter().sum::<u64>();
    assert!((500..=600).contains(&sum), "{admitted:?} of 600, at least 500");
    // What one client may have without a credential does not depend on the nodes that it asks either.
    let mut anonymous = 0;
    for client in nodes.clients.iter().cycle().take(3 * 120) {
        anonymous += u64::from(is_let_through(&client.anonymous(), "/v1/models").await);
    }
    assert!(
        (100..=120).contains(&anonymous),
        "{anonymous} of 120, at least 100"
    );
    nodes.end().await;
}
