//! Benchmark of the store alone, in runs per second: creates with and without budgets, idempotency keys and
//! credits, and complete cycles (create, claim, start, finish). On PostgreSQL the cycles are also measured
//! beside the hints of a busy node.
//!
//! `cargo run --release -p sortie-store --example throughput -- sqlite:/var/tmp/bench.db`, or with the
//! address of an empty PostgreSQL database instead, behind `scripts/test-postgres --durable`. With a kind of
//! creates, a number of clients and a number of runs behind the address it does only those, for a profiler:
//! `… sqlite:/var/tmp/bench.db PaidEach 64 20000`.

#![expect(clippy::print_stdout, reason = "it prints its figures")]

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sortie_api::{
    AuditId, BudgetPeriod, BudgetScope, LedgerKind, Micros, OrgId, PutBudget, Role, RunId, RunStatus,
    Timestamp, UserId, event::EventType, id::KeyId,
};
use sortie_store::{
    Store,
    access::{Actor, Audit, NewKey},
    money::{NewLedgerEntry, Payment},
    nodes::{NewNode, NodeId},
    people::NewOrganization,
    runs::{Claim, Fence, Finish, Journal, NewEvent, NewRun, Receiver, StoredCredentials},
};
use tokio::{sync::Notify, task::JoinSet};

/// Number of runs in each measurement.
const RUNS: usize = 20_000;

/// Number of clients at once.
const CLIENTS: usize = 64;

/// Workflow that has a budget.
const BUDGETED: &str = "budgeted";
/// Number of keys that have a budget, and of organizations that have credits.
const KEYS: u8 = 64;

/// Interval between the hints of a node at its limit.
const HINTS: Duration = Duration::from_millis(20);
/// Size of such a hint, which names about a hundred runs.
const HINT_BYTES: usize = 4_000;

/// Maximum number of runs in one claim.
const CLAIM: u32 = 64;

/// Kinds of creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Each run is of one of 64 organizations.
    PlainEach,
    /// Every run has the same budget.
    Budgeted,
    /// Each run has one of 64 keys without a budget.
    Keyed,
    /// Each run has one of 64 budgets, by its key.
    BudgetOfKey,
    /// Each run has an idempotency key.
    Named,
    /// Every run is paid with the credits of the same organization.
    Paid,
    /// Each run is paid with the credits of one of 64 organizations.
    PaidEach,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Plain,
        Self::PlainEach,
        Self::Budgeted,
        Self::Keyed,
        Self::BudgetOfKey,
        Self::Named,
        Self::Paid,
        Self::PaidEach,
    ];
}

struct Bench {
    store: Store,
    org: OrgId,
    ticks: AtomicI64,
}

impl Bench {
    fn tick(&self) -> (Timestamp, [u8; 10]) {
        let number = self.ticks.fetch_add(1, Ordering::Relaxed);
        let mut random = [0; 10];
        if let Some(tail) = random.get_mut(2..) {
            tail.copy_from_slice(&number.to_be_bytes());
        }
        (
            Timestamp::from_micros(1_700_000_000_000_000 + number * 10),
            random,
        )
    }

    async fn create(&self, kind: Kind) -> Result<()> {
        let (at, random) = self.tick();
        let number = u8::try_from(at.as_micros() / 10 % i64::from(KEYS))?;
        let (workflow, key) = match kind {
            Kind::Plain | Kind::PlainEach | Kind::Named | Kind::Paid | Kind::PaidEach => (None, None),
            Kind::Budgeted => (Some(BUDGETED.to_owned()), None),
            Kind::Keyed => (None, Some(numbered_key(KEYS + number))),
            Kind::BudgetOfKey => (None, Some(numbered_key(number))),
        };
        let (org, payment) = match kind {
            Kind::Plain | Kind::Budgeted | Kind::Keyed | Kind::BudgetOfKey | Kind::Named => {
                (self.org, Payment::Free)
            }
            Kind::PlainEach => (paying(number), Payment::Free),
            Kind::Paid => (paying(0), Payment::Credit),
            Kind::PaidEach => (paying(number), Payment::Credit),
        };
        let run = NewRun {
            id: RunId::new(at, random),
            org,
            idempotency_key: (kind == Kind::Named).then(|| at.as_micros().to_string()),
            definition: format!(r#"{{"prompt":"{}"}}"#, "x".repeat(200)).into(),
            inline: None,
            callback: None,
            max_cost: Micros::new(1_000_000)?,
            payment,
            timeout_seconds: 300,
            labels: sortie_store::runs::Labels {
                by: key.map(sortie_store::access::By::Key),
                workflow,
                ..sortie_store::runs::Labels::default()
            },
            created_at: at,
            trace: None,
            allowance: None,
        };
        self.store.create_run(run).await?;
        Ok(())
    }

    async fn work(&self, claim: Claim) -> Result<()> {
        let (at, _) = self.tick();
        let event = |status| NewEvent::new(&EventType::status(status), at);
        let text = |text: &str| {
            NewEvent::new(
                &EventType::Message {
                    text: text.to_owned(),
                    step: 1,
                },
                at,
            )
        };
        let started = vec![event(RunStatus::Running)?, text("worker started")?];
        self.store.start_run(claim.fence, started).await?;
        let fence = Fence {
            last_event: claim.fence.last_event + 2,
            ..claim.fence
        };
        let finish = Finish {
            journal: Journal::Empty,
            stored_credentials: StoredCredentials::Absent,
            receiver: Receiver::Nobody,
            artifacts: None,
            status: RunStatus::Succeeded,
            usage: sortie_api::RunUsage::default(),
            output: Some("the answer".to_owned()),
            error: None,
            cost: Micros::ZERO,
            events: vec![
                text("model call")?,
                text("the answer")?,
                text("result")?,
                event(RunStatus::Succeeded)?,
            ],
            at,
        };
        self.store.finish_run(fence, finish).await?;
        Ok(())
    }
}

/// Id of a key that has a budget.
fn numbered_key(number: u8) -> KeyId {
    KeyId::new(Timestamp::from_micros(1_700_000_000_000_000), [number; 10])
}

/// ID of an organization that has credits.
fn paying(number: u8) -> OrgId {
    OrgId::new(Timestamp::from_micros(1_700_000_000_000_000), [number + 2; 10])
}

/// Adds an organization with credits for every run.
async fn add_paying(store: &Store, number: u8) -> Result<()> {
    let (at, org) = (Timestamp::from_micros(1_700_000_000_000_000), paying(number));
    let audit = |nth: u8, action| Audit {
        id: AuditId::new(at, [nth; 10]),
        org,
        at,
        actor: Actor::default(),
        action,
        target: org.to_string(),
    };
    let new = NewOrganization {
        id: org,
        name: "bench".to_owned(),
        owner: UserId::new(at, [1; 10]),
        created_at: at,
    };
    store
        .create_organization(new, audit(1, "organization.create"))
        .await?;
    let entry = NewLedgerEntry {
        cause: format!("grant:{org}"),
        org,
        kind: LedgerKind::Grant,
        amount_micros: 1_000_000_000_000_000,
        description: "bench".to_owned(),
        payment: None,
        topup: None,
        user: None,
        at,
    };
    store.move_credits(entry, audit(2, "ledger.grant")).await?;
    Ok(())
}

/// Sets a budget that every run fits in.
async fn set_budget(store: &Store, org: OrgId, scope: BudgetScope, number: u8) -> Result<()> {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    let put = PutBudget {
        limit_micros: Micros::new(1_000_000_000_000_000)?,
        period: BudgetPeriod::Month,
    };
    let audit = Audit {
        id: AuditId::new(at, [number; 10]),
        org,
        at,
        actor: Actor::default(),
        action: "budget.put",
        target: scope.to_string(),
    };
    store.put_budget(scope, put, 100, audit).await?;
    Ok(())
}

/// Measures creates of each kind by 1, 16 and 64 clients. The kinds alternate, because the speed of the
/// machine changes from minute to minute.
async fn creates(bench: &Arc<Bench>) -> Result<()> {
    for (clients, runs) in [(1, 500), (16, RUNS / 2), (64, RUNS)] {
        for pass in 1..=2 {
            for kind in Kind::ALL {
                creates_of(bench, kind, clients, runs, pass).await?;
            }
        }
    }
    Ok(())
}

/// Measures creates of one kind.
async fn creates_of(bench: &Arc<Bench>, kind: Kind, clients: usize, runs: usize, pass: u32) -> Result<()> {
    let started = Instant::now();
    let took = repeat(clients, runs, || {
        let bench = Arc::clone(bench);
        async move { bench.create(kind).await }
    })
    .await?;
    let name = format!("creates {clients} {kind:?} {pass}");
    report(&name, runs, started.elapsed(), &took);
    Ok(())
}

/// Does `what` this number of times by this number of clients. Returns the sorted times of the calls.
async fn repeat<F>(clients: usize, times: usize, what: impl Fn() -> F) -> Result<Vec<Duration>>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        if tasks.len() == clients
            && let Some(done) = tasks.join_next().await
        {
            took.push(done??);
        }
        let work = what();
        tasks.spawn(async move {
            let started = Instant::now();
            work.await.map(|()| started.elapsed())
        });
    }
    while let Some(done) = tasks.join_next().await {
        took.push(done??);
    }
    took.sort_unstable();
    Ok(took)
}

fn report(what: &str, count: usize, time: Duration, took: &[Duration]) {
    let rate = f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64();
    let at = |share: usize| took.get(took.len() * share / 100);
    match (at(50), at(99)) {
        (Some(half), Some(most)) => {
            println!("{what:<24} {rate:>8.0}/s   p50 {half:>8.2?}   p99 {most:>8.2?}");
        }
        _ => println!("{what:<24} {rate:>8.0}/s"),
    }
}

async fn drain(bench: &Arc<Bench>, node: NodeId, total: usize, created: &Notify) -> Result<()> {
    let mut tasks = JoinSet::new();
    let mut waiting: VecDeque<Claim> = VecDeque::new();
    let done = Arc::new(AtomicUsize::new(0));
    let mut claimed = 0;
    while done.load(Ordering::Relaxed) < total {
        if waiting.is_empty() && claimed < total {
            let (at, _) = bench.tick();
            let claims = bench.store.claim_runs(node, CLAIM, None, at).await?;
            claimed += claims.len();
            if claims.is_empty() && tasks.is_empty() {
                created.notified().await;
            }
            waiting.extend(claims);
        }
        while tasks.len() < CLIENTS
            && let Some(claim) = waiting.pop_front()
        {
            let (bench, done) = (Arc::clone(bench), Arc::clone(&done));
            tasks.spawn(async move {
                let outcome = bench.work(claim).await;
                done.fetch_add(1, Ordering::Relaxed);
                outcome
            });
        }
        if let Some(outcome) = tasks.join_next().await {
            outcome??;
        }
    }
    Ok(())
}

/// Measures complete cycles while creates go on.
async fn cycles(bench: &Arc<Bench>, node: NodeId, what: &str) -> Result<()> {
    let started = Instant::now();
    let created = Notify::new();
    let feeding = async {
        let took = repeat(CLIENTS, RUNS, || {
            created.notify_one();
            let bench = Arc::clone(bench);
            async move { bench.create(Kind::Plain).await }
        })
        .await;
        created.notify_one();
        took
    };
    let (took, drained) = tokio::join!(feeding, drain(bench, node, RUNS, &created));
    drained?;
    report(what, RUNS, started.elapsed(), &took?);
    Ok(())
}

/// Measures cycles with and without the hints of a busy node. The two alternate, because the speed of the
/// machine changes from minute to minute.
async fn with_hints(bench: &Arc<Bench>, node: NodeId, url: &str) -> Result<()> {
    let Some((speaker, _own)) = bench.store.channel()? else {
        return Ok(());
    };
    let other = Store::open(url).await?;
    let (_silent, mut heard) = other.channel()?.context("nodes can be many")?;
    for _ in 0..2 {
        cycles(bench, node, "the same, no hints").await?;
        let talking = async {
            let mut every = tokio::time::interval(HINTS);
            loop {
                every.tick().await;
                speaker.say("x".repeat(HINT_BYTES)).await?;
            }
        };
        let hearing = async { while heard.recv().await.is_some() {} };
        tokio::select! {
            done = cycles(bench, node, "the same, with hints") => done?,
            failed = talking => return failed,
            () = hearing => {}
        }
    }
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).context("give the database URL")?;
    let store = Store::open(&url).await?;
    let start = Timestamp::from_micros(1_700_000_000_000_000);
    let org = OrgId::new(start, [1; 10]);
    let key = NewKey {
        id: KeyId::new(start, [1; 10]),
        org,
        name: "bench".to_owned(),
        role: Role::Admin,
        hash: [1; 32],
        created_at: start,
        expires_at: None,
    };
    let audit = Audit {
        id: AuditId::new(start, [1; 10]),
        org,
        at: start,
        actor: Actor::default(),
        action: "key.create",
        target: key.id.to_string(),
    };
    anyhow::ensure!(
        store.bootstrap("bench", key, audit).await?,
        "the database is not empty"
    );
    set_budget(&store, org, BudgetScope::Workflow(BUDGETED.to_owned()), 100).await?;
    for number in 0..KEYS {
        set_budget(&store, org, BudgetScope::Key(numbered_key(number)), number + 2).await?;
        add_paying(&store, number).await?;
    }
    let node = NodeId(1);
    store
        .register_node(NewNode {
            id: node,
            name: "bench".to_owned(),
            started_at: start,
            lease_until: start + Duration::from_hours(1),
            address: None,
            version: String::new(),
            master_keys: Vec::new(),
            draining_since: None,
        })
        .await?;
    let bench = Arc::new(Bench {
        store,
        org,
        ticks: AtomicI64::new(1),
    });
    if let Some(name) = std::env::args().nth(2) {
        let kind = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == name);
        let number = |nth| {
            std::env::args()
                .nth(nth)
                .context("give clients and runs")?
                .parse()
                .context("a number")
        };
        return creates_of(&bench, kind.context("no such kind")?, number(3)?, number(4)?, 1).await;
    }
    creates(&bench).await?;

    let started = Instant::now();
    let waiting = usize::try_from(bench.ticks.load(Ordering::Relaxed))? - 1;
    drain(&bench, node, waiting, &Notify::new()).await?;
    report("claim, start, finish", waiting, started.elapsed(), &[]);

    cycles(&bench, node, "complete cycles").await?;
    with_hints(&bench, node, &url).await
}
