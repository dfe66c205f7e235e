use std::{collections::HashMap, sync::atomic::AtomicU64};

use futures_util::{FutureExt as _, future::join_all};
use parking_lot::Mutex;
use proptest::{prelude::*, test_runner::TestRunner};
use sortie_api::Timestamp;
use sortie_store::{
    Store,
    nodes::{GrantedBlock, NewNode, NodeId},
};
use tokio::sync::Semaphore;

use super::{super::tests::key, *};
use crate::kit::rate_limit::{Counting, Quota, Standing};

/// Clock that a test sets, in seconds.
#[derive(Default)]
struct Seconds(AtomicU64);

impl Seconds {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Time for which a request waits for a block.
const PATIENCE: Duration = Duration::from_secs(1);

fn limits(quota: u32) -> RateLimits {
    let quota = Quota::per_minute(quota);
    RateLimits::new(quota.clone(), quota, Counting::Together { patience: PATIENCE })
}

/// Grants all requests while the quota lasts, one statement for each permit.
struct Scripted {
    quota: u32,
    out: Mutex<HashMap<(i64, String), u32>>,
    calls: Mutex<Vec<Vec<WantedBlock>>>,
    permits: Semaphore,
    fails: AtomicBool,
    nodes: u32,
    forgotten: Mutex<Vec<i64>>,
}

impl Scripted {
    fn new(quota: u32, nodes: u32, permits: usize) -> Self {
        Self {
            quota,
            out: Mutex::default(),
            calls: Mutex::default(),
            permits: Semaphore::new(permits),
            fails: AtomicBool::new(false),
            nodes,
            forgotten: Mutex::default(),
        }
    }

    fn calls(&self) -> Vec<Vec<WantedBlock>> {
        self.calls.lock().clone()
    }

    fn grant(&self, wanted: &WantedBlock) -> GrantedBlock {
        let mut out = self.out.lock();
        let out = out.entry((wanted.minute, wanted.subject.clone())).or_insert(0);
        let requests = (i64::from(wanted.target) - wanted.unused).clamp(0, i64::from(self.quota - *out));
        let requests = u32::try_from(requests).unwrap();
        *out += requests;
        GrantedBlock {
            requests,
            rest: self.quota - *out,
        }
    }
}

impl Lessor for Scripted {
    async fn lease(&self, wanted: Vec<WantedBlock>, _: u32) -> Result<Leased, StoreError> {
        if wanted.is_empty() {
            return if self.fails.load(Ordering::Relaxed) {
                Err(StoreError::Unavailable("the database is away".to_owned()))
            } else {
                Ok(Leased {
                    blocks: Vec::new(),
                    nodes: self.nodes,
                })
            };
        }
        self.calls.lock().push(wanted.clone());
        self.permits.acquire().await.unwrap().forget();
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("the database is away".to_owned()));
        }
        Ok(Leased {
            blocks: wanted.iter().map(|wanted| self.grant(wanted)).collect(),
            nodes: self.nodes,
        })
    }

    async fn forget(&self, before_minute: i64) -> Result<u64, StoreError> {
        self.forgotten.lock().push(before_minute);
        Ok(0)
    }
}

/// Runs a test concurrently with the leasing of a node.
async fn beside(limits: &RateLimits, lessor: &Scripted, clock: &Seconds, test: impl Future<Output = ()>) {
    let now = || clock.read();
    tokio::select! {
        () = limits.keep_leased(lessor, &now) => panic!("leasing ended"),
        () = test => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_first_block_and_for_no_other_while_the_store_keeps_up() {
    let (limits, lessor, clock) = (limits(640), Scripted::new(640, 1, 1), Seconds::default());
    let now = || clock.read();
    let count = || limits.count_subject(key(1), &now);
    let test = async {
        assert!(count().now_or_never().is_none(), "it has nothing yet");
        assert_eq!(count().await.remaining, 639);
        // The store is slow: the block of ten suffices, and more is requested at its half.
        for nth in 2..=10 {
            let standing = count().now_or_never().expect("the block lasts");
            assert_eq!(standing.remaining, 640 - nth);
            tokio::time::sleep(GATHER).await;
            assert_eq!(lessor.calls().len(), if nth < 5 { 1 } else { 2 }, "request {nth}");
        }
        lessor.permits.add_permits(1_000);
        // From here on leasing keeps up: no request waits before the end of the quota.
        for nth in 11..=640 {
            tokio::time::sleep(GATHER * 2).await;
            let standing = count().now_or_never().expect("more was asked for in time");
            assert_eq!((standing.admitted, standing.remaining), (true, 640 - nth));
        }
        let asked = lessor.calls().len();
        assert!(asked < 20, "the blocks grow with what is used: {asked}");
        for _ in 0..100 {
            let over = count()
                .now_or_never()
                .expect("the store has said that nothing is left");
            assert_eq!((over.admitted, over.remaining), (false, 0));
            tokio::time::sleep(GATHER).await;
        }
        assert_eq!(lessor.calls().len(), asked, "nobody asks for what is not there");
        clock.set(60);
        assert_eq!(count().await.remaining, 639);
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn what_many_clients_need_at_once_is_one_statement() {
    let (limits, lessor, clock) = (limits(600), Scripted::new(600, 1, 9), Seconds::default());
    let now = || clock.read();
    let test = async {
        let clients = (0..200).map(|number| limits.count_subject(key(number), &now));
        let networks = (0..=255).map(|last| limits.count_network([192, 0, 2, last].into(), &now));
        let (clients, networks) = tokio::join!(join_all(clients), join_all(networks));
        assert!(
            clients
                .iter()
                .chain(&networks)
                .all(|standing| standing.remaining == 599)
        );
        let sizes: Vec<usize> = lessor.calls().iter().map(Vec::len).collect();
        assert!(sizes.len() <= 2, "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 456);
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn more_clients_than_fit_one_statement_are_served_by_the_next() {
    let (limits, lessor, clock) = (limits(600), Scripted::new(600, 1, 9), Seconds::default());
    let now = || clock.read();
    let test = async {
        let networks = (0..1_200_u32).map(|number| limits.count_network(number.to_be_bytes().into(), &now));
        let networks = join_all(networks).await;
        assert!(networks.iter().all(|standing| standing.admitted));
        let calls = lessor.calls();
        assert!(calls.len() > 1 && calls.iter().all(|wanted| wanted.len() <= AT_ONCE));
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_silent_a_node_lets_its_share_through_and_takes_it_off_the_quota_afterwards() {
    let (limits, lessor, clock) = (limits(600), Scripted::new(600, 3, 1), Seconds::default());
    let now = || clock.read();
    let count = |client| limits.count_subject(key(client), &now);
    let test = async {
        // The first answer reports three nodes; the second one does not arrive.
        assert!(count(1).await.admitted);
        let began = tokio::time::Instant::now();
        assert_eq!(count(2).await.remaining, 199, "a third of the quota");
        assert_eq!(began.elapsed(), PATIENCE);
        // The statement was sent a moment after the request.
        tokio::time::sleep(GATHER * 2).await;
        let mut admitted = 1;
        while count(2).now_or_never().expect("nobody waits any more").admitted {
            admitted += 1;
        }
        assert_eq!(admitted, 200);
        let network = limits.count_network([192, 0, 2, 1].into(), &now).now_or_never();
        assert_eq!(network.unwrap().remaining, 199);
        // The pending grant still arrives, and the debt is settled with the next statement.
        lessor.permits.add_permits(1_000);
        tokio::time::sleep(RETRY).await;
        assert!(count(2).await.admitted);
        let out = lessor.out.lock()[&(0, key(2).to_string())];
        assert!(out >= 201, "{out} are out");
        assert!(
            limits.cluster.as_ref().unwrap().share(600).is_none(),
            "it is not silent any more"
        );
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_leased_nothing_yet_knows_its_share() {
    let (limits, lessor, clock) = (limits(600), Scripted::new(600, 3, 0), Seconds::default());
    let now = || clock.read();
    let test = async {
        let standing = limits.count_subject(key(1), &now).await;
        assert_eq!(
            (standing.admitted, standing.remaining),
            (true, 199),
            "a third of the quota"
        );
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_fails_keeps_nobody_waiting_and_is_tried_again() {
    let (limits, lessor, clock) = (limits(600), Scripted::new(600, 2, 1_000), Seconds::default());
    let now = || clock.read();
    let count = || limits.count_subject(key(1), &now);
    lessor.fails.store(true, Ordering::Relaxed);
    let test = async {
        let began = tokio::time::Instant::now();
        assert_eq!(count().await.remaining, 599, "no other node was ever heard of");
        assert!(began.elapsed() < PATIENCE);
        for _ in 0..50 {
            assert!(count().now_or_never().unwrap().admitted);
        }
        tokio::time::sleep(RETRY / 2).await;
        assert_eq!(lessor.calls().len(), 1, "it is not pressed");
        lessor.fails.store(false, Ordering::Relaxed);
        tokio::time::sleep(RETRY).await;
        assert!(count().await.admitted);
        tokio::time::sleep(RETRY).await;
        let wanted = lessor.calls().pop().unwrap().pop().unwrap();
        assert!(wanted.unused <= -51, "{wanted:?}");
        assert!(limits.cluster.as_ref().unwrap().share(600).is_none());
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_over_the_end_of_the_window_is_counted_in_the_next() {
    let (limits, lessor, clock) = (limits(640), Scripted::new(640, 1, 0), Seconds::default());
    let now = || clock.read();
    clock.set(59);
    let test = async {
        let (counted, ()) = tokio::join!(limits.count_subject(key(1), &now), async {
            tokio::time::sleep(PATIENCE / 2).await;
            clock.set(60);
            assert!(limits.subjects.take(key(2), 60, None).is_none());
            lessor.permits.add_permits(9);
        });
        assert_eq!(
            (counted.admitted, counted.remaining, counted.reset),
            (true, 639, 60)
        );
    };
    beside(&limits, &lessor, &clock, test).await;
}

#[tokio::test(start_paused = true)]
async fn windows_that_are_over_are_forgotten_once_a_minute_with_room_for_clocks_that_differ() {
    let (limits, lessor, clock) = (limits(600), Scripted::new(600, 1, 0), Seconds::default());
    clock.set(100 * 60 + 59);
    let test = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        clock.set(101 * 60 + 59);
        tokio::time::sleep(Duration::from_mins(1)).await;
    };
    beside(&limits, &lessor, &clock, test).await;
    assert_eq!(*lessor.forgotten.lock(), [95, 96]);
}

/// Step of the simulation.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrives {
        node: usize,
        client: u8,
    },
    /// The node runs its leasing once.
    Leases {
        node: usize,
    },
    /// Time passes.
    Passes {
        seconds: u64,
    },
    /// The store stops answering, or answers again.
    Turns,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        // The traffic is distributed unevenly over the nodes.
        12 => (0_usize..9, 0_u8..2).prop_map(|(node, client)| Step::Arrives { node: [0, 0, 0, 0, 0, 1, 1, 2, 3][node], client }),
        2 => (0_usize..4).prop_map(|node| Step::Leases { node }),
        1 => (0_u64..9).prop_map(|seconds| Step::Passes { seconds }),
        1 => Just(Step::Turns),
    ];
    prop::collection::vec(step, 100..700)
}

/// Observations of one client in one window.
#[derive(Default)]
struct Seen {
    admitted: u32,
    refused: bool,
    /// Whether a request arrived while the store did not answer.
    in_silence: bool,
}

/// A SQLite database replaces the shared database of the nodes: the statement is the same.
async fn store_of(dir: &tempfile::TempDir, nodes: u32) -> Store {
    let file = dir.path().join("sortie.db");
    let store = Store::open(&format!("sqlite:{}", file.display())).await.unwrap();
    for number in 0..nodes {
        let node = NewNode {
            id: NodeId(i64::from(number) + 1),
            name: format!("node-{number}"),
            started_at: Timestamp::from_micros(0),
            lease_until: Timestamp::from_micros(i64::MAX),
            address: None,
            version: "0".to_owned(),
            master_keys: Vec::new(),
            draining_since: None,
        };
        store.register_node(node).await.unwrap();
    }
    store
}

/// Lessor for nodes with leases that never expire.
impl Lessor for Store {
    async fn lease(&self, wanted: Vec<WantedBlock>, nodes: u32) -> Result<Leased, StoreError> {
        self.lease_rates(wanted, nodes, Timestamp::from_micros(0)).await
    }

    async fn forget(&self, before_minute: i64) -> Result<u64, StoreError> {
        self.forget_rates(before_minute).await
    }
}

async fn turn(limits: &RateLimits, store: &Store, now: u64) {
    limits
        .lease_once(limits.cluster.as_ref().unwrap(), store, now)
        .await;
}

/// Counts one request with as many statements as it takes. Returns its final standing.
async fn arrive(limits: &RateLimits, store: &Store, client: u8, now: u64) -> Standing {
    loop {
        if let Some(standing) = limits.subjects.take(key(client), now, None) {
            return standing;
        }
        turn(limits, store, now).await;
    }
}

/// Sends the requests of `steps` to `nodes`. The clock of each node is off by its `skew` in seconds.
async fn check(quota: u32, nodes: u32, skew: &[u64], steps: &[Step]) {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(&dir, nodes).await;
    let all: Vec<RateLimits> = (0..nodes).map(|_| limits(quota)).collect();
    let (mut now, mut seen) = (6_000, HashMap::<(u64, u8), Seen>::new());
    let clusters = || all.iter().filter_map(|limits| limits.cluster.as_deref());
    for cluster in clusters() {
        count_once(cluster, &store).await;
    }
    let mut is_silent = false;
    for step in steps {
        match *step {
            Step::Arrives { node, client } => {
                let node = node % all.len();
                let at = now + skew[node];
                let share = all[node].cluster.as_ref().unwrap().share(quota);
                let standing = match share {
                    Some(_) => all[node].subjects.take(key(client), at, share).unwrap(),
                    None => arrive(&all[node], &store, client, at).await,
                };
                let seen = seen.entry((at / 60, client)).or_default();
                seen.in_silence |= is_silent;
                seen.admitted += u32::from(standing.admitted);
                seen.refused |= !standing.admitted;
                assert!(standing.remaining <= quota);
                assert!(standing.admitted || standing.remaining == 0);
            }
            Step::Leases { node } if !is_silent => {
                let node = node % all.len();
                turn(&all[node], &store, now + skew[node]).await;
            }
            Step::Leases { .. } => {}
            Step::Passes { seconds } => now += seconds,
            Step::Turns => {
                is_silent = !is_silent;
                for cluster in clusters() {
                    if is_silent {
                        cluster.is_silent_for(&"a test");
                    } else {
                        cluster.has_answered(nodes);
                    }
                }
            }
        }
    }
    let held_back = (nodes - 1) * quota.div_ceil(4 * nodes);
    for (of, seen) in seen {
        // While the store does not answer, each node also admits its share, which is at least one request.
        let shares = if seen.in_silence { quota.max(nodes) } else { 0 };
        assert!(
            seen.admitted <= quota + shares,
            "{of:?}: {} of {quota}, {shares} in silence",
            seen.admitted
        );
        let least = if seen.refused && !seen.in_silence {
            quota.saturating_sub(held_back)
        } else {
            0
        };
        assert!(
            seen.admitted >= least,
            "{of:?}: {} of at least {least}",
            seen.admitted
        );
    }
}

/// The full guarantee: never more than the quota is admitted, and no client is refused before all but the stated part of it is
/// used.
#[test]
fn nodes_together_never_let_more_through_than_the_quota_and_hold_little_of_it_back() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 40,
        ..ProptestConfig::default()
    });
    let case = (1_u32..120, 1_u32..5, prop::collection::vec(0_u64..3, 4), steps());
    runner
        .run(&case, |(quota, nodes, skew, steps)| {
            runtime.block_on(check(quota, nodes, &skew, &steps));
            Ok(())
        })
        .unwrap();
}
