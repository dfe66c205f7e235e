//! Random runs, ends, movements, purchases, refunds, disputes and suspensions against a small model. Balance and reserve are always those of the model, no
//! run is admitted that is not covered, and every settled run is charged once.

use std::{collections::BTreeMap, time::Duration};

use proptest::{prelude::*, test_runner::TestRunner};
use sortie_api::{Micros, OrgId, RunId, RunStatus};

use super::{
    budgets::micros,
    fixture::{Fixture, after},
    purchases::CENT,
};
use crate::{
    Appended, Created, Error, Fence, Finish, NewLedgerEntry, NewRun, NodeId, PaidTopup, TakeBackKind,
    TakeBackState,
};

/// Steps of one sequence.
const STEPS: usize = 500;

/// Steps between two checks of everything.
const CHECKED_EVERY: usize = 50;

#[derive(Clone, Debug)]
enum Command {
    /// Adds credits, or takes some although they may be spent.
    Move { amount: i64 },
    /// Repeats a movement, with the same amount or another one.
    Repeat { movement: usize, other: bool },
    /// Buys credits, and tells of the payment several times.
    Buy { cents: i64, times: u8 },
    /// Tells of a refund or a dispute of a payment. Its number says which, so that it is told again, and in any order.
    TakeBack {
        payment: usize,
        kind: TakeBackKind,
        number: u8,
        state: TakeBackState,
    },
    /// Creates a run, perhaps with an idempotency key.
    Create { max_cost: u64, key: Option<u8> },
    /// Moves a run to an end of this kind.
    Drive { run: usize, end: End, cost: u64 },
    /// Suspends the organization, or ends its suspension.
    Suspend { on: bool },
}

/// Kinds of ends of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    CancelledWaiting,
    CancelledAtWork,
    /// The worker is lost, another one takes the run over and finishes it.
    TakenOver,
    Lost,
    CancelledAndLost,
}

fn command() -> impl Strategy<Value = Command> {
    let end = prop::sample::select(vec![
        End::Finished,
        End::CancelledWaiting,
        End::CancelledAtWork,
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
        8 => (any::<usize>(), end, 0..170_u64).prop_map(|(run, end, cost)| Command::Drive { run, end, cost }),
        1 => prop::bool::weighted(0.3).prop_map(|on| Command::Suspend { on }),
    ]
}

/// Run that is not settled.
struct Open {
    id: RunId,
    max_cost: i64,
    key: Option<u8>,
}

/// Payment with what was told of it.
struct Bought {
    paid: PaidTopup,
    told: BTreeMap<(bool, u8), TakeBackState>,
}

impl Bought {
    /// Cents that are taken back: the sum of what is refunded and disputed, and never more than the payment. Each refund and
    /// dispute is of one cent more than its number.
    fn taken(&self) -> i64 {
        let taken = self
            .told
            .iter()
            .filter(|(_, state)| **state == TakeBackState::Taken);
        let sum: i64 = taken.map(|((_, number), _)| i64::from(*number) + 1).sum();
        sum.min(self.paid.amount_cents)
    }
}

struct Model<'a> {
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
    open: Vec<Open>,
    entries: i64,
}

impl Model<'_> {
    async fn apply(&mut self, command: Command) {
        match command {
            Command::Move { amount } => {
                let entry = self.fixture.grant(self.org, amount);
                self.movements.push(entry.clone());
                assert_eq!(self.append(entry).await, Ok(Appended::New));
                self.balance += amount;
                self.entries += 1;
            }
            Command::Repeat { movement, other } => {
                if !self.movements.is_empty() {
                    let mut entry = self.movements[movement % self.movements.len()].clone();
                    entry.amount_micros += i64::from(other);
                    let again = self.append(entry).await;
                    let expected = if other {
                        Err(crate::OTHER_ENTRY)
                    } else {
                        Ok(Appended::Before)
                    };
                    assert_eq!(again, expected);
                }
            }
            Command::Buy { cents, times } => self.buy(cents, times).await,
            Command::TakeBack {
                payment,
                kind,
                number,
                state,
            } => {
                if !self.bought.is_empty() {
                    let payment = payment % self.bought.len();
                    self.take_back(payment, (kind, number), state).await;
                }
            }
            Command::Create { max_cost, key } => self.create(max_cost, key).await,
            Command::Drive { run, end, cost } => {
                if !self.open.is_empty() && !self.suspended {
                    let run = self.open.remove(run % self.open.len());
                    self.end(run, end, cost).await;
                }
            }
            Command::Suspend { on } if on != self.suspended => {
                let (store, audit) = (&self.fixture.store, self.fixture.audit(self.org));
                if on {
                    let at = self.fixture.now();
                    store
                        .suspend_organization(self.org, None, at, audit)
                        .await
                        .unwrap();
                } else {
                    store.resume_organization(self.org, audit).await.unwrap();
                }
                self.suspended = on;
            }
            Command::Suspend { .. } => {}
        }
        assert_eq!(
            self.fixture.credits(self.org).await,
            (self.balance, self.reserved)
        );
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
                self.open.push(Open {
                    id,
                    max_cost: amount,
                    key,
                });
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

    async fn end(&mut self, run: Open, end: End, cost: u64) {
        let cost = if end == End::CancelledWaiting {
            self.cancel(&run).await;
            0
        } else {
            self.work(&run, end, cost).await
        };
        self.reserved -= run.max_cost;
        self.balance -= cost;
        self.entries += i64::from(cost > 0);
        assert_eq!(self.fixture.get(self.org, run.id).await.cost_micros.get(), cost);
        // The key of a run stays taken.
        assert!(run.key.is_none_or(|key| self.keys.contains(&key)));
    }

    async fn cancel(&self, run: &Open) {
        let at = self.fixture.now();
        self.fixture.store.cancel_run(self.org, run.id, at).await.unwrap();
    }

    /// Lets a worker begin the run, and ends it. Returns what it is charged.
    async fn work(&self, run: &Open, end: End, cost: u64) -> i64 {
        let (fixture, store) = (self.fixture, &self.fixture.store);
        let retake = async || {
            let at = fixture.now();
            store
                .retake_held(self.node, vec![run.id], at, Micros::ZERO)
                .await
                .unwrap()
        };
        let claims = store
            .claim_named(self.node, vec![run.id], None, fixture.now())
            .await
            .unwrap();
        let fence: Fence = fixture.start(claims[0].fence).await.unwrap();
        let within = cost.min(u64::try_from(run.max_cost).unwrap());
        let message = vec![fixture.message("x")];
        fixture.append(fence, message, micros(within)).await.unwrap();
        let fence = after(fence, 1);
        let finish = Finish {
            // The store cuts a cost beyond what was reserved.
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
            End::CancelledWaiting | End::CancelledAtWork => {
                self.cancel(run).await;
                let usage = sortie_api::RunUsage::default();
                store
                    .settle_run(run.id, fence.attempt, micros(cost), usage)
                    .await
                    .unwrap();
            }
            End::Lost => {
                fixture.tire(run.id).await;
                assert_eq!(retake().await.ended.len(), 1);
            }
            End::CancelledAndLost => {
                self.cancel(run).await;
                retake().await;
            }
        }
        i64::try_from(within).unwrap()
    }

    async fn check_everything(&self) {
        assert_eq!(self.fixture.differences().await, []);
        let entries = "SELECT COUNT(*) FROM ledger";
        assert_eq!(self.fixture.count(entries).await, self.entries);
    }

    async fn settle_everything(&mut self) {
        if self.suspended {
            self.apply(Command::Suspend { on: false }).await;
        }
        for run in std::mem::take(&mut self.open) {
            self.end(run, End::Finished, 1).await;
        }
        assert_eq!(self.fixture.credits(self.org).await, (self.balance, 0));
        self.check_everything().await;
        self.fixture.check().await;
    }
}

fn compare(cases: u32, fixture: impl AsyncFn() -> Fixture) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    let commands = prop::collection::vec(command(), STEPS..=STEPS);
    TestRunner::new(config)
        .run(&commands, |commands| {
            runtime.block_on(async {
                let fixture = fixture().await;
                let mut model = Model {
                    // Every organization of a hosted deployment has its credits.
                    org: fixture.paying_org(1).await,
                    node: fixture
                        .node_with("worker", |node| {
                            node.lease_until = node.lease_until + Duration::from_hours(24 * 365);
                        })
                        .await,
                    fixture: &fixture,
                    balance: 1,
                    reserved: 0,
                    suspended: false,
                    movements: Vec::new(),
                    bought: Vec::new(),
                    keys: Vec::new(),
                    open: Vec::new(),
                    entries: 1,
                };
                for (step, command) in commands.into_iter().enumerate() {
                    model.apply(command).await;
                    if step % CHECKED_EVERY == 0 {
                        model.check_everything().await;
                    }
                }
                model.settle_everything().await;
            });
            Ok(())
        })
        .unwrap();
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
