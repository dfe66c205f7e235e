//! Random runs, ends, movements, purchases, refunds, disputes and suspensions of two organizations against a small model.
//! Balance and reserve are always those of the model, no run is admitted that is not covered, every settled run is charged
//! once, and no command changes the figures of the other organization. At the end a script that does not use the code of the
//! product adds up the tables.

use proptest::prelude::*;
use sortie_testkit::recompute_records;

use super::{prelude::*, purchases::CENT};
use crate::money::OTHER_ENTRY;

/// Steps of one sequence.
const STEPS: usize = 500;

/// Steps between two checks of everything.
const CHECKED_EVERY: usize = 50;

/// Runs on a page of the check: a sequence needs several pages, but a page is more than a few runs.
const RUNS_ON_A_PAGE: u32 = 50;

/// Command of one of the two organizations.
#[derive(Clone, Debug)]
enum Command {
    /// Adds credits, or subtracts some although they may be spent.
    Move { amount: i64 },
    /// Repeats a movement, with the same amount or another one.
    Repeat { movement: usize, other: bool },
    /// Buys credits, and reports the payment several times.
    Buy { cents: i64, times: u8 },
    /// Reports a refund or a dispute of a payment. The number identifies it, so it is reported repeatedly, and in any order.
    TakeBack {
        payment: usize,
        kind: TakeBackKind,
        number: u8,
        state: TakeBackState,
    },
    /// Creates a run, perhaps with an idempotency key.
    Create { max_cost: u64, key: Option<u8> },
    /// Lets a worker begin a waiting run. A run of a suspended organization keeps waiting.
    Start { run: usize },
    /// Cancels a run that waits.
    Cancel { run: usize },
    /// Moves a running run to an end of this kind, also while the organization is suspended.
    End { run: usize, end: End, cost: u64 },
    /// Suspends the organization, or ends its suspension.
    Suspend { on: bool },
    /// Uses a movement, a payment and runs of the other organization as if they belonged to this one.
    Trespass { other: usize },
}

/// Kinds of ends of a running run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Cancelled,
    /// The worker is lost; another one takes the run over and finishes it.
    TakenOver,
    Lost,
    CancelledAndLost,
}

fn command() -> impl Strategy<Value = Command> {
    let end = prop::sample::select(vec![
        End::Finished,
        End::Cancelled,
        End::TakenOver,
        End::Lost,
        End::CancelledAndLost,
    ]);
    let kind = prop::sample::select(vec![TakeBackKind::Refund, TakeBackKind::Dispute]);
    let state = prop::sample::select(vec![TakeBackState::Taken, TakeBackState::Returned]);
    prop_oneof![
        3 => (1..400_i64).prop_map(|amount| Command::Move { amount }),
        1 => (1..300_i64).prop_map(|amount| Command::Move { amount: -amount }),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(movement, other)| Command::Repeat { movement, other }),
        1 => (1..4_i64, 1..4_u8).prop_map(|(cents, times)| Command::Buy { cents, times }),
        4 => (any::<usize>(), kind, 0..4_u8, state)
            .prop_map(|(payment, kind, number, state)| Command::TakeBack { payment, kind, number, state }),
        2 => (5_000..15_000_u64).prop_map(|max_cost| Command::Create { max_cost, key: None }),
        10 => (1..150_u64, prop::option::weighted(0.2, 0..8_u8))
            .prop_map(|(max_cost, key)| Command::Create { max_cost, key }),
        8 => any::<usize>().prop_map(|run| Command::Start { run }),
        1 => any::<usize>().prop_map(|run| Command::Cancel { run }),
        8 => (any::<usize>(), end, 0..170_u64).prop_map(|(run, end, cost)| Command::End { run, end, cost }),
        1 => prop::bool::weighted(0.4).prop_map(|on| Command::Suspend { on }),
        1 => any::<usize>().prop_map(|other| Command::Trespass { other }),
    ]
}

/// Run that is not settled.
struct Open {
    id: RunId,
    max_cost: i64,
}

/// Run that a worker has begun.
struct AtWork {
    run: Open,
    fence: Fence,
}

/// Payment with the reports about it.
struct Bought {
    paid: PaidTopup,
    told: BTreeMap<(bool, u8), TakeBackState>,
}

impl Bought {
    /// Cents that are taken back: the sum of refunds and disputes, and never more than the payment. The amount of each
    /// refund and dispute is its number plus one cent.
    fn taken(&self) -> i64 {
        let taken = self
            .told
            .iter()
            .filter(|(_, state)| **state == TakeBackState::Taken);
        let sum: i64 = taken.map(|((_, number), _)| i64::from(*number) + 1).sum();
        sum.min(self.paid.amount_cents)
    }
}

/// Organization with its expected figures.
struct Account<'a> {
    fixture: &'a Fixture,
    org: OrgId,
    node: NodeId,
    balance: i64,
    reserved: i64,
    suspended: bool,
    movements: Vec<NewLedgerEntry>,
    bought: Vec<Bought>,
    /// Keys of runs that exist, settled or not.
    keys: Vec<u8>,
    waiting: Vec<Open>,
    at_work: Vec<AtWork>,
    entries: i64,
}

impl<'a> Account<'a> {
    async fn new(fixture: &'a Fixture, node: NodeId) -> Self {
        Self {
            fixture,
            // Every organization of a hosted deployment has its credits.
            org: fixture.paying_org(1).await,
            node,
            balance: 1,
            reserved: 0,
            suspended: false,
            movements: Vec::new(),
            bought: Vec::new(),
            keys: Vec::new(),
            waiting: Vec::new(),
            at_work: Vec::new(),
            entries: 1,
        }
    }

    async fn move_credits(&mut self, amount: i64) {
        let mut entry = self.fixture.grant(self.org, amount);
        if amount < 0 {
            entry.kind = LedgerKind::Correction;
        }
        self.movements.push(entry.clone());
        assert_eq!(self.append(entry).await, Ok(Appended::New));
        self.balance += amount;
        self.entries += 1;
    }

    async fn repeat(&self, movement: usize, other: bool) {
        if self.movements.is_empty() {
            return;
        }
        let mut entry = self.movements[movement % self.movements.len()].clone();
        entry.amount_micros += i64::from(other);
        let expected = if other {
            Err(OTHER_ENTRY)
        } else {
            Ok(Appended::Before)
        };
        assert_eq!(self.append(entry).await, expected);
    }

    async fn buy(&mut self, amount_cents: i64, times: u8) {
        let paid = self.fixture.bought(self.org, amount_cents).await;
        for _ in 1..times {
            let again = self.fixture.store.credit_purchase(paid.clone()).await;
            assert_eq!(again, Ok(Appended::Before));
        }
        self.balance += amount_cents * CENT;
        self.entries += 1;
        self.bought.push(Bought {
            paid,
            told: BTreeMap::new(),
        });
    }

    async fn take_back(&mut self, payment: usize, (kind, number): (TakeBackKind, u8), state: TakeBackState) {
        if self.bought.is_empty() {
            return;
        }
        let payment = payment % self.bought.len();
        let bought = &mut self.bought[payment];
        let id = format!("{kind:?} {number} of {}", bought.paid.payment);
        let cents = i64::from(number) + 1;
        let report = self.fixture.report(&bought.paid, (kind, &id), cents, state);
        let before = bought.taken();
        let known = bought
            .told
            .entry((kind == TakeBackKind::Refund, number))
            .or_insert(state);
        *known = state.max(*known);
        let moved = (before - bought.taken()) * CENT;
        let took = self.fixture.store.take_back(report).await.unwrap();
        assert_eq!(took.moved_micros, moved);
        self.balance += moved;
        self.entries += i64::from(moved != 0);
    }

    async fn append(&self, entry: NewLedgerEntry) -> crate::Result<Appended> {
        let audit = self.fixture.audit(self.org);
        self.fixture.store.move_credits(entry, audit).await
    }

    async fn create(&mut self, max_cost: u64, key: Option<u8>) {
        let run = NewRun {
            idempotency_key: key.map(|key| key.to_string()),
            ..self.fixture.paid(self.org, max_cost)
        };
        let (id, amount) = (run.id, i64::try_from(max_cost).unwrap());
        let available = (self.balance - self.reserved).max(0);
        match self.fixture.store.create_run(run).await {
            Ok(Created::Existing(_)) => {
                assert!(key.is_some_and(|key| self.keys.contains(&key)));
            }
            Ok(Created::New(_)) => {
                assert!(!self.suspended && amount <= available, "it is not covered");
                assert!(!key.is_some_and(|key| self.keys.contains(&key)));
                self.reserved += amount;
                assert!(self.balance - self.reserved >= 0);
                self.keys.extend(key);
                self.waiting.push(Open { id, max_cost: amount });
            }
            Err(Error::InsufficientCredit(refused)) => {
                assert!(!self.suspended && amount > available, "it is covered");
                assert_eq!(
                    (refused.max_cost.get(), refused.available.get()),
                    (amount, available)
                );
            }
            Err(Error::Suspended) => assert!(self.suspended),
            Err(error) => panic!("{error}"),
        }
    }

    async fn start(&mut self, run: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let place = run % self.waiting.len();
        let (fixture, id) = (self.fixture, self.waiting[place].id);
        let claims = fixture
            .store
            .claim_named(self.node, vec![id], None, fixture.now())
            .await
            .unwrap();
        assert_eq!(claims.len(), usize::from(!self.suspended));
        if let [claim] = &claims[..] {
            let fence = fixture.start(claim.fence).await.unwrap();
            let run = self.waiting.remove(place);
            self.at_work.push(AtWork { run, fence });
        }
    }

    async fn cancel(&mut self, run: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let run = self.waiting.remove(run % self.waiting.len());
        self.cancel_run(&run).await;
        self.settled(&run, 0).await;
    }

    async fn end(&mut self, run: usize, end: End, cost: u64) {
        if self.at_work.is_empty() {
            return;
        }
        let AtWork { run, fence } = self.at_work.remove(run % self.at_work.len());
        let cost = self.work((&run, fence), end, cost).await;
        self.settled(&run, cost).await;
    }

    async fn settled(&mut self, run: &Open, cost: i64) {
        self.reserved -= run.max_cost;
        self.balance -= cost;
        self.entries += i64::from(cost > 0);
        assert_eq!(self.fixture.get(self.org, run.id).await.cost_micros.get(), cost);
    }

    async fn cancel_run(&self, run: &Open) {
        let at = self.fixture.now();
        self.fixture.store.cancel_run(self.org, run.id, at).await.unwrap();
    }

    /// Ends a running run. Returns the charged amount.
    async fn work(&self, (run, fence): (&Open, Fence), end: End, cost: u64) -> i64 {
        let (fixture, store) = (self.fixture, &self.fixture.store);
        let retake = async || {
            let at = fixture.now();
            store
                .retake_held(self.node, vec![run.id], at, Micros::ZERO)
                .await
                .unwrap()
        };
        let within = cost.min(u64::try_from(run.max_cost).unwrap());
        let message = vec![fixture.message("x")];
        fixture.append(fence, message, micros(within)).await.unwrap();
        let fence = after(fence, 1);
        let finish = Finish {
            // The store limits a cost to the reserved amount.
            cost: micros(cost),
            ..fixture.finish(RunStatus::Failed, None, Some("x"))
        };
        match end {
            End::Finished => drop(store.finish_run(fence, finish).await.unwrap()),
            End::TakenOver => {
                let taken = retake().await.taken;
                assert_eq!(taken.len(), 1);
                let stale = store.finish_run(fence, finish.clone()).await;
                assert_eq!(stale.unwrap_err(), Error::Fenced);
                store.finish_run(taken[0].fence, finish).await.unwrap();
            }
            End::Cancelled => {
                self.cancel_run(run).await;
                let usage = sortie_api::RunUsage::default();
                store
                    .settle_run(
                        run.id,
                        fence.attempt,
                        FinalCost {
                            usage,
                            ..of_calls(micros(cost))
                        },
                        Vec::new(),
                    )
                    .await
                    .unwrap();
            }
            End::Lost => {
                fixture.tire(run.id).await;
                assert_eq!(retake().await.ended.len(), 1);
            }
            End::CancelledAndLost => {
                self.cancel_run(run).await;
                retake().await;
            }
        }
        i64::try_from(within).unwrap()
    }

    async fn suspend(&mut self, on: bool) {
        if on == self.suspended {
            return;
        }
        let (store, audit) = (&self.fixture.store, self.fixture.audit(self.org));
        if on {
            let at = self.fixture.now();
            store
                .suspend_organization(self.org, None, at, audit)
                .await
                .unwrap();
            let parked = store.park_runs(self.org, u32::MAX).await.unwrap();
            assert_eq!(usize::try_from(parked), Ok(self.waiting.len()));
        } else {
            store.resume_organization(self.org, audit).await.unwrap();
        }
        self.suspended = on;
    }

    /// Uses what belongs to another organization.
    async fn trespass(&self, stranger: &Self, number: usize) {
        let store = &self.fixture.store;
        if let Some(movement) = stranger.movements.get(number % stranger.movements.len().max(1)) {
            let entry = NewLedgerEntry {
                org: self.org,
                ..movement.clone()
            };
            assert_eq!(self.append(entry).await, Err(OTHER_ENTRY));
        }
        if let Some(bought) = stranger.bought.get(number % stranger.bought.len().max(1)) {
            let paid = PaidTopup {
                audit: self.fixture.audit(self.org),
                ..bought.paid.clone()
            };
            let of = (TakeBackKind::Refund, "of another");
            let report = self.fixture.report(&paid, of, 1, TakeBackState::Taken);
            assert_eq!(store.take_back(report).await, Err(Error::NotFound));
            assert_eq!(store.credit_purchase(paid).await, Err(Error::NotFound));
        }
        let at_work = stranger.at_work.first().map(|at_work| &at_work.run);
        for run in stranger.waiting.first().into_iter().chain(at_work) {
            let cancelled = store.cancel_run(self.org, run.id, self.fixture.now()).await;
            assert_eq!(cancelled.unwrap_err(), Error::NotFound);
        }
    }

    async fn settle_everything(&mut self) {
        self.suspend(false).await;
        while !self.waiting.is_empty() {
            self.start(0).await;
        }
        while !self.at_work.is_empty() {
            self.end(0, End::Finished, 1).await;
        }
        assert_eq!(self.reserved, 0);
    }
}

/// Figures of an organization: balance, reserved amount, and the number of its entries.
type Figures = (String, i64, i64, i64);

struct Model<'a> {
    fixture: &'a Fixture,
    accounts: [Account<'a>; 2],
}

impl<'a> Model<'a> {
    async fn new(fixture: &'a Fixture) -> Self {
        let lease = Duration::from_hours(24 * 365);
        let node = fixture
            .node_with("worker", |node| node.lease_until = node.lease_until + lease)
            .await;
        Self {
            fixture,
            accounts: [
                Account::new(fixture, node).await,
                Account::new(fixture, node).await,
            ],
        }
    }

    async fn apply(&mut self, is_first: bool, command: Command) {
        let [first, second] = &mut self.accounts;
        let (account, stranger) = if is_first {
            (first, second)
        } else {
            (second, first)
        };
        match command {
            Command::Move { amount } => account.move_credits(amount).await,
            Command::Repeat { movement, other } => account.repeat(movement, other).await,
            Command::Buy { cents, times } => account.buy(cents, times).await,
            Command::TakeBack {
                payment,
                kind,
                number,
                state,
            } => account.take_back(payment, (kind, number), state).await,
            Command::Create { max_cost, key } => account.create(max_cost, key).await,
            Command::Start { run } => account.start(run).await,
            Command::Cancel { run } => account.cancel(run).await,
            Command::End { run, end, cost } => account.end(run, end, cost).await,
            Command::Suspend { on } => account.suspend(on).await,
            Command::Trespass { other } => account.trespass(stranger, other).await,
        }
        self.check_figures().await;
    }

    /// Compares the figures of both organizations, whichever of them has done something.
    async fn check_figures(&self) {
        let sql = "SELECT c.org_id, c.balance_micros, c.reserved_micros, \
             (SELECT COUNT(*) FROM ledger l WHERE l.org_id = c.org_id) FROM credit c ORDER BY c.org_id";
        let read = self.fixture.store.db.read(move |tx| {
            let rows = tx.query_all(sql, vals![])?;
            let figures =
                |row: &crate::db::Row| Ok((row.text(0)?.to_owned(), row.int(1)?, row.int(2)?, row.int(3)?));
            rows.iter().map(figures).collect::<crate::Result<Vec<Figures>>>()
        });
        let mut expected = self.accounts.each_ref().map(|account| {
            (
                account.org.to_string(),
                account.balance,
                account.reserved,
                account.entries,
            )
        });
        expected.sort();
        assert_eq!(read.await.unwrap(), expected);
    }

    async fn check_everything(&self) {
        assert_eq!(self.fixture.differences_by(RUNS_ON_A_PAGE).await, []);
    }

    async fn settle_everything(&mut self) {
        for account in &mut self.accounts {
            account.settle_everything().await;
        }
        self.check_figures().await;
        self.check_everything().await;
        self.fixture.check().await;
    }
}

fn compare(cases: u32, fixture: impl AsyncFn() -> Fixture) {
    let commands = prop::collection::vec((any::<bool>(), command()), STEPS..=STEPS);
    with_random(cases, &commands, fixture, &async |fixture, commands| {
        let mut model = Model::new(fixture).await;
        for (step, (is_first, command)) in commands.into_iter().enumerate() {
            model.apply(is_first, command).await;
            if step % CHECKED_EVERY == 0 {
                model.check_everything().await;
            }
        }
        // The script first sees waiting and running runs, and then only settled ones.
        recompute_records(fixture.url()).unwrap();
        model.settle_everything().await;
        recompute_records(fixture.url()).unwrap();
    });
}

/// 10,000 steps on each database.
const CASES: u32 = 20;

#[test]
fn any_sequence_of_runs_and_movements_adds_up_on_sqlite() {
    compare(CASES, Fixture::sqlite);
}

#[test]
fn any_sequence_of_runs_and_movements_adds_up_on_postgres() {
    compare(CASES, Fixture::postgres);
}
