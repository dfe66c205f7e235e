//! Random runs, ends and changes of budgets against a small model. The held and spent amounts always match
//! the model, no run is admitted over a limit, and no hold remains.

use proptest::prelude::*;

use super::{
    budgets::{HOUR, key, labels, schedule, workflow},
    prelude::*,
};

#[derive(Clone, Debug)]
enum Command {
    Put {
        scope: usize,
        limit: u64,
        period: BudgetPeriod,
    },
    Delete {
        scope: usize,
    },
    Create {
        labels: u8,
        max_cost: u64,
    },
    /// Moves a run one step towards an end of this kind.
    Drive {
        run: usize,
        end: End,
        cost: u64,
    },
    Wait {
        hours: u64,
    },
}

/// Kinds of ends of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    CancelledWaiting,
    CancelledAtWork,
    Lost,
    CancelledAndLost,
}

fn command() -> impl Strategy<Value = Command> {
    let period = prop::sample::select(vec![BudgetPeriod::Day, BudgetPeriod::Month]);
    let end = prop::sample::select(vec![
        End::Finished,
        End::CancelledWaiting,
        End::CancelledAtWork,
        End::Lost,
        End::CancelledAndLost,
    ]);
    prop_oneof![
        3 => (0..4_usize, 0..500_u64, period).prop_map(|(scope, limit, period)| Command::Put { scope, limit, period }),
        1 => (0..4_usize).prop_map(|scope| Command::Delete { scope }),
        8 => (0..8_u8, 1..150_u64).prop_map(|(labels, max_cost)| Command::Create { labels, max_cost }),
        6 => (any::<usize>(), end, 0..150_u64).prop_map(|(run, end, cost)| Command::Drive { run, end, cost }),
        2 => (1..500_u64).prop_map(|hours| Command::Wait { hours }),
    ]
}

fn scopes() -> [BudgetScope; 4] {
    [
        BudgetScope::Organization,
        workflow(),
        BudgetScope::Schedule(schedule()),
        BudgetScope::Key(key()),
    ]
}

/// Window of a budget: its scope, the number of times that the budget was recreated, and the start of the
/// window.
type Window = (BudgetScope, u64, Timestamp);

struct ModelBudget {
    limit: i64,
    period: BudgetPeriod,
    begun: u64,
}

/// Run that is not settled.
struct Open {
    id: RunId,
    max_cost: u64,
    windows: Vec<Window>,
}

struct Model<'a> {
    fixture: &'a Fixture,
    org: OrgId,
    node: NodeId,
    elapsed: Duration,
    begun: u64,
    budgets: BTreeMap<BudgetScope, ModelBudget>,
    /// Amounts held and spent, by window.
    windows: BTreeMap<Window, (i64, i64)>,
    open: Vec<Open>,
}

impl Model<'_> {
    fn now(&self) -> Timestamp {
        self.fixture.now() + self.elapsed
    }

    async fn apply(&mut self, command: Command) {
        match command {
            Command::Put { scope, limit, period } => self.put(&scopes()[scope], limit, period).await,
            Command::Delete { scope } => {
                let audit = self.fixture.audit_at(self.org, "budget.delete", self.now());
                let deleted = self
                    .fixture
                    .store
                    .delete_budget(scopes()[scope].clone(), audit)
                    .await;
                let was_there = self.budgets.remove(&scopes()[scope]).is_some();
                assert_eq!(deleted, if was_there { Ok(()) } else { Err(Error::NotFound) });
            }
            Command::Create { labels, max_cost } => self.create(labels, max_cost).await,
            Command::Drive { run, end, cost } => {
                if !self.open.is_empty() {
                    let run = self.open.remove(run % self.open.len());
                    self.end(run, end, cost).await;
                }
            }
            Command::Wait { hours } => self.elapsed += u32::try_from(hours).unwrap() * HOUR,
        }
        self.compare().await;
    }

    async fn put(&mut self, scope: &BudgetScope, limit: u64, period: BudgetPeriod) {
        let put = PutBudget {
            limit_micros: micros(limit),
            period,
        };
        let audit = self.fixture.audit_at(self.org, "budget.put", self.now());
        let (_, is_new) = self
            .fixture
            .store
            .put_budget(scope.clone(), put, 10, audit)
            .await
            .unwrap();
        assert_eq!(is_new, !self.budgets.contains_key(scope));
        self.begun += 1;
        let begun = match self.budgets.get(scope) {
            Some(budget) if budget.period == period => budget.begun,
            _ => self.begun,
        };
        let budget = ModelBudget {
            limit: i64::try_from(limit).unwrap(),
            period,
            begun,
        };
        self.budgets.insert(scope.clone(), budget);
    }

    async fn create(&mut self, bits: u8, max_cost: u64) {
        let all = labels();
        let labels = Labels {
            workflow: all.workflow.filter(|_| bits & 1 != 0),
            schedule: all.schedule.filter(|_| bits & 2 != 0),
            by: all.by.filter(|_| bits & 4 != 0),
            ..Labels::default()
        };
        let applies = BTreeSet::from([
            0,
            usize::from(bits & 1),
            usize::from(bits & 2),
            usize::from(bits & 4 != 0) * 3,
        ]);
        let run = NewRun {
            max_cost: micros(max_cost),
            labels,
            created_at: self.now(),
            ..self.fixture.new_run(self.org)
        };
        let (id, at, amount) = (run.id, run.created_at, i64::try_from(max_cost).unwrap());
        let created = self.fixture.store.create_run(run).await;
        let met: Vec<(Window, i64)> = applies
            .into_iter()
            .filter_map(|scope| {
                let budget = self.budgets.get(&scopes()[scope])?;
                let start = budget.period.window(at).unwrap().0;
                Some(((scopes()[scope].clone(), budget.begun, start), budget.limit))
            })
            .collect();
        let fits = met.iter().all(|(window, limit)| {
            let (held, spent) = self.windows.get(window).copied().unwrap_or_default();
            held + spent + amount <= *limit
        });
        match created {
            Ok(Created::New(_)) => assert!(fits, "it got over a limit"),
            Err(Error::OverBudget(_)) => {
                assert!(!fits, "it was refused although it fits");
                return;
            }
            other => panic!("{other:?}"),
        }
        let windows: Vec<Window> = met.into_iter().map(|(window, _)| window).collect();
        for window in &windows {
            self.windows.entry(window.clone()).or_default().0 += amount;
        }
        self.open.push(Open {
            id,
            max_cost,
            windows,
        });
    }

    async fn end(&mut self, run: Open, end: End, cost: u64) {
        let (fixture, store, cost) = (self.fixture, &self.fixture.store, cost.min(run.max_cost));
        let cancel = async || drop(store.cancel_run(self.org, run.id, fixture.now()).await.unwrap());
        let retake = async || {
            let at = fixture.now();
            store
                .retake_held(self.node, vec![run.id], at, Micros::ZERO)
                .await
                .unwrap();
        };
        let cost = if end == End::CancelledWaiting {
            cancel().await;
            0
        } else {
            let claims = store
                .claim_named(self.node, vec![run.id], None, fixture.now())
                .await
                .unwrap();
            let fence: Fence = fixture.start(claims[0].fence).await.unwrap();
            fixture
                .append(fence, vec![fixture.message("x")], micros(cost))
                .await
                .unwrap();
            let fence = after(fence, 1);
            match end {
                End::Finished => {
                    let finish = Finish {
                        cost: micros(cost),
                        ..fixture.finish(RunStatus::Failed, None, Some("x"))
                    };
                    store.finish_run(fence, finish).await.unwrap();
                }
                End::CancelledWaiting | End::CancelledAtWork => {
                    cancel().await;
                    store
                        .settle_run(run.id, fence.attempt, of_calls(micros(cost)), Vec::new())
                        .await
                        .unwrap();
                }
                End::Lost => {
                    fixture.tire(run.id).await;
                    retake().await;
                }
                End::CancelledAndLost => {
                    cancel().await;
                    retake().await;
                }
            }
            cost
        };
        for window in run.windows {
            let (held, spent) = self.windows.get_mut(&window).unwrap();
            *held -= i64::try_from(run.max_cost).unwrap();
            *spent += i64::try_from(cost).unwrap();
        }
    }

    async fn compare(&self) {
        let at = self.now();
        let listed = self
            .fixture
            .store
            .list_budgets(self.org, at, (String::new(), 1_000))
            .await
            .unwrap();
        assert_eq!(listed.len(), self.budgets.len());
        for budget in listed {
            let model = &self.budgets[&budget.scope];
            let (start, next) = model.period.window(at).unwrap();
            let window = (budget.scope, model.begun, start);
            let (held, spent) = self.windows.get(&window).copied().unwrap_or_default();
            assert_eq!(
                (
                    budget.held_micros.get(),
                    budget.spent_micros.get(),
                    budget.available_micros.get()
                ),
                (held, spent, (model.limit - held - spent).max(0)),
                "{window:?}"
            );
            assert_eq!((budget.limit_micros.get(), budget.resets_at), (model.limit, next));
        }
    }

    async fn settle_everything(&mut self) {
        for run in std::mem::take(&mut self.open) {
            self.end(run, End::Finished, 1).await;
        }
        self.compare().await;
        let fixture = self.fixture;
        fixture.check().await;
        assert!(self.windows.values().all(|(held, _)| *held == 0));
        assert_eq!(fixture.holds().await, 0);
        let counted = "SELECT COUNT(*) FROM budget_window WHERE held_micros <> 0";
        assert_eq!(fixture.count(counted).await, 0);
    }
}

fn compare(cases: u32, fixture: impl AsyncFn() -> Fixture) {
    let commands = prop::collection::vec(command(), 1..60);
    with_random(cases, &commands, fixture, &async |fixture, commands| {
        let mut model = Model {
            org: fixture.org().await,
            node: fixture.node().await,
            fixture,
            elapsed: Duration::ZERO,
            begun: 0,
            budgets: BTreeMap::new(),
            windows: BTreeMap::new(),
            open: Vec::new(),
        };
        for command in commands {
            model.apply(command).await;
        }
        model.settle_everything().await;
    });
}

#[test]
fn any_sequence_of_runs_and_budgets_adds_up_on_sqlite() {
    compare(100, Fixture::sqlite);
}

#[test]
fn any_sequence_of_runs_and_budgets_adds_up_on_postgres() {
    compare(10, Fixture::postgres);
}
