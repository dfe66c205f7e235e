//! Tails of commands: amounts for rows that many commands share, written last in each transaction.

use std::time::Duration;

use futures_util::future::{join, join_all};
use sortie_api::{BudgetPeriod, BudgetScope, OrgId, PutBudget, Timestamp};

use super::{
    backend::hold_up,
    both,
    budgets::{labels, micros, workflow},
    fixture::Fixture,
};
use crate::{
    Error, Result, Store,
    db::{
        Answer, Stmt, Tx,
        tail::{Room, SharedRow, Sums, Tail, WindowChange, WindowKey},
    },
    licenses::MonthlyRuns,
    money::shared_rows,
    nodes::NodeId,
    runs::{Created, Fence, Finish, Labels, NewRun},
};

const ORG: BudgetScope = BudgetScope::Organization;
const THREADS: usize = crate::CONNECTIONS as usize;
const TRANSACTIONS: &str = "SELECT COUNT(DISTINCT CAST(xmin AS TEXT)) FROM run";
const SPENT: &str = "SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM budget_window";
const HELD: &str = "SELECT CAST(COALESCE(SUM(held_micros), 0) AS BIGINT) FROM budget_window";

fn costing(fixture: &Fixture, org: OrgId, max_cost: u64) -> NewRun {
    NewRun {
        max_cost: micros(max_cost),
        ..fixture.new_run(org)
    }
}

/// Runs these commands. They all arrive while no thread is free, so on `SQLite` they share one transaction.
pub(super) async fn at_once<T>(
    store: &Store,
    commands: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    let threads = if store.db.is_shared() { THREADS } else { 1 };
    let (release, held_up) = hold_up(store, threads).await;
    let (done, _) = join(
        join_all(commands),
        join(async { drop(release) }, join_all(held_up)),
    )
    .await;
    done
}

async fn create_at_once(store: &Store, runs: Vec<NewRun>) -> Vec<Result<Created>> {
    at_once(store, runs.into_iter().map(|run| store.create_run(run))).await
}

pub(super) fn is_made(created: &Result<Created>) -> bool {
    matches!(created, Ok(Created::New(_)))
}

/// Numbers of groups in savepoints to begin a round with: on `SQLite` none, and then all.
fn guards(fixture: &Fixture) -> impl Iterator<Item = u32> {
    let rounds = if fixture.store.db.is_shared() { 1 } else { 2 };
    [0, u32::MAX].into_iter().take(rounds)
}

/// Faults in the statements of commands fail only these if each has a savepoint, or a transaction that others can do
/// without: all but those in tails. A group without savepoints runs again, so only a fault in the first statement of a
/// command is seen.
fn assert_faults_fail(fixture: &Fixture, failed: usize, guarded: u32, least: usize) {
    if fixture.store.db.is_shared() || guarded > 0 {
        assert!(failed >= least, "{failed}");
    } else {
        assert!((1..least).contains(&failed), "{failed}");
    }
}

fn costing_seven(fixture: &Fixture) -> Finish {
    Finish {
        cost: micros(7),
        ..fixture.succeeded("out")
    }
}

/// Makes eight runs that a node works on.
async fn eight_running(fixture: &Fixture, org: OrgId, node: NodeId) -> Vec<Fence> {
    let runs = (0..8).map(|_| NewRun {
        labels: labels(),
        ..costing(fixture, org, 100)
    });
    let created = create_at_once(&fixture.store, runs.collect()).await;
    assert!(created.iter().all(is_made));
    let mut fences = Vec::new();
    for claim in fixture.claim(node, 8).await {
        fences.push(fixture.start(claim.fence).await.unwrap());
    }
    fences
}

#[tokio::test]
async fn on_sqlite_a_command_is_decided_again_with_the_refused_one_of_its_group() {
    let fixture = Fixture::sqlite().await;
    let org = fixture.org().await;
    fixture.budget(org, &ORG, 10).await;
    let named = |max_cost| NewRun {
        idempotency_key: Some("once".to_owned()),
        ..costing(&fixture, org, max_cost)
    };
    let created = create_at_once(
        &fixture.store,
        vec![named(6), costing(&fixture, org, 5), named(6)],
    )
    .await;
    assert!(
        matches!(&created[..], [Ok(Created::New(first)), Err(Error::OverBudget(_)), Ok(Created::Existing(same))] if first.id == same.id)
    );
    assert_eq!(fixture.count(HELD).await, 6);
    let other = fixture.org().await;
    fixture.budget(other, &ORG, 10).await;
    let named = |max_cost| NewRun {
        idempotency_key: Some("once".to_owned()),
        ..costing(&fixture, other, max_cost)
    };
    // The second one finds the run of the first one, which is undone.
    let created = create_at_once(&fixture.store, vec![named(11), named(4)]).await;
    assert!(
        matches!(&created[..], [Err(Error::OverBudget(refused)), Ok(Created::New(_))] if refused.available == micros(10))
    );
    assert_eq!(fixture.count(HELD).await, 6 + 4);
}

#[tokio::test]
async fn on_sqlite_a_command_that_reads_shared_rows_sees_the_tails_of_its_group() {
    let fixture = Fixture::sqlite().await;
    let (org, store) = (fixture.org().await, &fixture.store);
    fixture.budget(org, &ORG, 100).await;
    let put = PutBudget {
        limit_micros: micros(50),
        period: BudgetPeriod::Day,
    };
    let audit = fixture.audit_at(org, "budget.put", fixture.now());
    let create = async |max_cost| is_made(&store.create_run(costing(&fixture, org, max_cost)).await);
    let (release, held_up) = hold_up(store, 1).await;
    let commands = async { tokio::join!(create(40), store.put_budget(ORG, put, 5, audit), create(10)) };
    let ((first, budget, second), _) = join(commands, join(async { drop(release) }, join_all(held_up))).await;
    let budget = budget.unwrap().0;
    assert_eq!(
        (budget.held_micros, budget.available_micros),
        (micros(40), micros(10))
    );
    assert_eq!((first, second, create(1).await), (true, true, false));
    assert_eq!(fixture.count(HELD).await, 50);
}

#[tokio::test]
async fn creates_with_an_idempotency_key_share_a_transaction() {
    let fixture = Fixture::postgres().await;
    let org = fixture.org().await;
    let run = |number: u32| NewRun {
        // Each key is used twice.
        idempotency_key: Some(format!("key {}", number / 2)),
        ..fixture.new_run(org)
    };
    let created = create_at_once(&fixture.store, (0..64).map(run).collect()).await;
    for pair in created.chunks(2) {
        let [
            Ok(Created::New(one) | Created::Existing(one)),
            Ok(Created::New(two) | Created::Existing(two)),
        ] = pair
        else {
            panic!("{pair:?}");
        };
        assert_eq!(one.id, two.id);
    }
    assert_eq!(created.iter().filter(|created| is_made(created)).count(), 32);
    let transactions = fixture.count(TRANSACTIONS).await;
    assert!(transactions <= 16, "{transactions}");
}

#[tokio::test]
async fn groups_of_two_nodes_whose_commands_want_the_same_rows_in_opposite_orders_all_commit() {
    let fixture = Fixture::postgres().await;
    let org = fixture.org().await;
    let other = Store::open(fixture.url()).await.unwrap();
    let scopes = [ORG, workflow(), BudgetScope::Workflow("another".to_owned())];
    for scope in &scopes {
        fixture.budget(org, scope, 1_000_000).await;
    }
    let named = |name: &str| NewRun {
        labels: Labels {
            workflow: Some(name.to_owned()),
            ..Labels::default()
        },
        ..costing(&fixture, org, 1)
    };
    let mut held = 0;
    for _ in 0..5 {
        let first = (0..32).map(|number| named(if number < 16 { "report" } else { "another" }));
        let second = (0..32).map(|number| named(if number < 16 { "another" } else { "report" }));
        let (one, two) = join(
            create_at_once(&fixture.store, first.collect()),
            create_at_once(&other, second.collect()),
        )
        .await;
        assert!(one.iter().chain(&two).all(is_made), "{one:?} {two:?}");
        held += 2 * 64;
    }
    assert_eq!(fixture.count(HELD).await, held);
}

both! {
    async fn tails_of_commands_that_share_a_transaction_are_added_up(fixture: &Fixture) {
        let org = fixture.org().await;
        fixture.budget(org, &ORG, 1_000_000).await;
        fixture.budget(org, &workflow(), 1_000_000).await;
        let run = |number: u64| NewRun {
            labels: if number.is_multiple_of(2) {
                labels()
            } else {
                Labels::default()
            },
            ..costing(fixture, org, number)
        };
        fixture.store.db.faults().batches();
        let created = create_at_once(&fixture.store, (1..=64).map(run).collect()).await;
        assert!(created.iter().all(is_made), "{created:?}");
        if fixture.store.db.is_shared() {
            let transactions = fixture.count(TRANSACTIONS).await;
            assert!(transactions <= 32, "{transactions}");
        } else {
            // Each create reads its budgets, as no window exists, and writes its own rows. The windows are one batch.
            assert_eq!(fixture.store.db.faults().batches(), 64 + 64 + 1);
        }
        let held = async |scope: BudgetScope| {
            let budget = fixture.store.get_budget(org, scope, fixture.now()).await.unwrap();
            budget.held_micros.get()
        };
        assert_eq!((held(ORG).await, held(workflow()).await), (64 * 65 / 2, 32 * 33));
    }

    async fn a_refused_command_gets_its_figures_and_the_others_of_its_transaction_are_committed(fixture: &Fixture) {
        let (org, full) = (fixture.org().await, fixture.org().await);
        fixture.budget(org, &ORG, 1_000_000).await;
        fixture.budget(full, &ORG, 10).await;
        let runs = (0..64).map(|number| match number {
            20 => costing(fixture, full, 8),
            21 => costing(fixture, full, 3),
            22 => costing(fixture, full, 2),
            _ => costing(fixture, org, 5),
        });
        let created = create_at_once(&fixture.store, runs.collect()).await;
        for (number, created) in created.iter().enumerate() {
            match created {
                Err(Error::OverBudget(refusal)) if number == 21 => {
                    assert_eq!((refusal.max_cost, refusal.available), (micros(3), micros(2)));
                }
                created => assert!(number != 21 && is_made(created), "{number}: {created:?}"),
            }
        }
        if fixture.store.db.is_shared() {
            let transactions = fixture.count(TRANSACTIONS).await;
            assert!(transactions <= 40, "{transactions}");
        }
        assert_eq!(fixture.count(HELD).await, 61 * 5 + 10);
    }

    async fn a_fault_anywhere_in_a_group_and_in_its_tail_loses_nothing_and_keeps_the_sums_exact(fixture: &Fixture) {
        let (org, mut made) = (fixture.org().await, 0);
        fixture.budget(org, &ORG, 1_000_000).await;
        fixture.budget(org, &workflow(), 1_000_000).await;
        for guarded in guards(fixture) {
            let mut failed = 0;
            // Eight creates have four statements each, and their tails two more. A fault in a tail costs another try.
            let own = 32;
            for statement in 1..=own + 4 {
                fixture.store.db.faults().guard(guarded);
                fixture.store.db.faults().fail_statement(statement);
                let run = || NewRun {
                    labels: labels(),
                    ..costing(fixture, org, 7)
                };
                for created in create_at_once(&fixture.store, (0..8).map(|_| run()).collect()).await {
                    match created {
                        Ok(_) => made += 1,
                        Err(error) => {
                            assert!(matches!(error, Error::Unavailable(_)), "{error}");
                            failed += 1;
                        }
                    }
                }
                assert!(!fixture.store.db.faults().disarm() || statement > own, "{statement} did not fail");
                assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, made);
                assert_eq!(fixture.holds().await, 2 * made);
                assert_eq!(fixture.count(HELD).await, 2 * 7 * made);
            }
            assert_faults_fail(fixture, failed, guarded, 28);
        }
    }

    async fn a_fault_anywhere_in_ends_that_share_a_transaction_settles_each_run_once(fixture: &Fixture) {
        let (org, node, mut ended) = (fixture.org().await, fixture.node().await, 0);
        fixture.budget(org, &ORG, 1_000_000).await;
        fixture.budget(org, &workflow(), 1_000_000).await;
        for guarded in guards(fixture) {
            let mut failed = 0;
            // Eight ends have six statements each, and their tails three more. A fault in a tail costs another try.
            for statement in 1..=51 {
                let fences = eight_running(fixture, org, node).await;
                fixture.store.db.faults().guard(guarded);
                fixture.store.db.faults().fail_statement(statement);
                let ends = fences.iter().map(|fence| fixture.store.finish_run(*fence, costing_seven(fixture)));
                let ends = at_once(&fixture.store, ends).await;
                assert!(!fixture.store.db.faults().disarm() || statement > 48, "{statement} did not fail");
                for (fence, end) in fences.into_iter().zip(ends) {
                    if let Err(error) = end {
                        assert!(matches!(error, Error::Unavailable(_)), "{error}");
                        failed += 1;
                        fixture.store.finish_run(fence, costing_seven(fixture)).await.unwrap();
                    }
                    ended += 1;
                }
                assert_eq!(fixture.count(HELD).await, 0);
                assert_eq!(fixture.count(SPENT).await, 2 * 7 * ended);
                fixture.check().await;
            }
            assert_faults_fail(fixture, failed, guarded, 51 - 4 * 3);
        }
    }

    async fn the_tail_of_a_command_that_fails_is_not_written(fixture: &Fixture) {
        let org = fixture.org().await;
        let budget = fixture.budget(org, &ORG, 1_000_000).await;
        let run = costing(fixture, org, 1);
        let key = WindowKey {
            org,
            scope: ORG.to_string(),
            since: budget.created_at.as_micros(),
            starts_at: BudgetPeriod::Day.window(run.created_at).unwrap().0,
        };
        fixture.store.create_run(run).await.unwrap();
        let commands = (0..64_i64).map(|number| {
            let key = key.clone();
            fixture.store.db.write_own(0, move |tx| {
                tx.tail(Tail::Window(key.clone(), WindowChange::settle(0, 1)));
                if number % 8 == 0 { Err(Error::Conflict("on purpose")) } else { Ok(()) }
            })
        });
        let done = at_once(&fixture.store, commands).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 56);
        assert_eq!(fixture.count(SPENT).await, 56);
    }

    async fn the_end_of_a_run_with_holds_costs_one_batch_more_than_one_without(fixture: &Fixture) {
        let (org, node) = (fixture.org().await, fixture.node().await);
        fixture.budget(org, &workflow(), 1_000_000).await;
        for (labels, batches) in [(Labels::default(), 1), (labels(), 2)] {
            let run = NewRun { labels, ..costing(fixture, org, 100) };
            fixture.store.create_run(run).await.unwrap();
            let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
            fixture.store.db.faults().batches();
            fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
            assert_eq!(fixture.store.db.faults().batches(), batches);
            assert_eq!(fixture.count(HELD).await, 0);
            fixture.check().await;
        }
    }

    async fn a_budget_that_has_refused_a_run_is_read_first_for_five_seconds(fixture: &Fixture) {
        let (org, store) = (fixture.org().await, &fixture.store);
        fixture.budget(org, &ORG, 10).await;
        let at = fixture.now();
        let run = |max_cost, after: u64| NewRun {
            created_at: at + Duration::from_millis(after),
            ..costing(fixture, org, max_cost)
        };
        let named = NewRun { idempotency_key: Some("once".to_owned()), ..run(4, 0) };
        let first = store.create_run(named.clone()).await.unwrap();
        let Created::New(first) = first else { panic!("{first:?}") };
        let refused = store.create_run(run(7, 0)).await.unwrap_err();
        // The second statement of a create fails. A create that is refused by a read has only one statement.
        let second_fails = async |run| {
            store.db.faults().fail_statement(2);
            let created = store.create_run(run).await;
            store.db.faults().disarm();
            created.unwrap_err()
        };
        assert_eq!(second_fails(run(7, 4_999)).await, refused);
        assert_eq!(second_fails(run(7, 9_998)).await, refused, "a refusal by a read counts");
        assert!(matches!(second_fails(run(7, 14_999)).await, Error::Unavailable(_)));
        // A run that fits is created. A key that has a run is answered with it.
        assert_eq!(store.create_run(run(7, 15_000)).await.unwrap_err(), refused);
        let again = NewRun { id: fixture.run_id(), max_cost: micros(7), created_at: run(0, 15_001).created_at, ..named };
        let again = store.create_run(again).await.unwrap();
        assert!(matches!(again, Created::Existing(run) if run.id == first.id));
        assert!(is_made(&store.create_run(run(6, 15_002)).await));
        store.cancel_run(org, first.id, at).await.unwrap();
        assert!(is_made(&store.create_run(run(4, 15_003)).await));
        assert_eq!(fixture.count(HELD).await, 10);
        assert_eq!(fixture.holds().await, 2);
    }

    async fn a_run_over_two_budgets_is_refused_by_the_first_of_them(fixture: &Fixture) {
        let (org, store) = (fixture.org().await, &fixture.store);
        fixture.budget(org, &ORG, 10).await;
        fixture.budget(org, &workflow(), 3).await;
        store.create_run(costing(fixture, org, 8)).await.unwrap();
        let run = NewRun { labels: labels(), ..costing(fixture, org, 5) };
        let refused = store.create_run(run).await.unwrap_err();
        let Error::OverBudget(refused) = refused else { panic!("{refused}") };
        // The run costs more than the whole budget of the workflow, which has no window yet.
        assert_eq!((refused.scope, refused.available), (ORG, micros(2)));
        assert_eq!(fixture.count(HELD).await, 8);
    }

    async fn a_repeated_key_leaves_no_hold_behind(fixture: &Fixture) {
        let (org, store) = (fixture.org().await, &fixture.store);
        fixture.budget(org, &ORG, 100).await;
        let named = NewRun { idempotency_key: Some("once".to_owned()), ..costing(fixture, org, 60) };
        store.create_run(named.clone()).await.unwrap();
        for _ in 0..2 {
            let again = NewRun { id: fixture.run_id(), ..named.clone() };
            assert!(matches!(store.create_run(again).await, Ok(Created::Existing(_))));
        }
        assert_eq!(fixture.holds().await, 1);
        assert_eq!(fixture.count(HELD).await, 60);
    }
}

/// Records the scopes that are written, in order. No statement affects a row.
#[derive(Default)]
struct Noted(Vec<String>);

impl Tx for Noted {
    fn tail(&mut self, _: Tail) {}

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        for statement in statements {
            let text = format!("{statement:?}");
            let scope = text.split("workflow:").nth(1).unwrap();
            self.0.push(scope.split('"').next().unwrap().to_owned());
        }
        Ok(vec![Answer::default(); statements.len()])
    }
}

#[test]
fn shared_rows_are_written_in_the_order_of_their_keys_whoever_asks_first() {
    let at = Timestamp::from_micros(1);
    let tail = |scope: &str, amount| {
        let key = WindowKey {
            org: OrgId::new(at, [1; 10]),
            scope: format!("workflow:{scope}"),
            since: 1,
            starts_at: at,
        };
        let room = Room {
            limit: 100,
            begins_after: None,
            resets_at: at,
        };
        Tail::Window(key, WindowChange::hold(amount, room))
    };
    for order in [["b", "a", "c"], ["c", "b", "a"], ["a", "c", "b"]] {
        let mut noted = Noted::default();
        let tails: Vec<Tail> = order.iter().map(|scope| tail(scope, 1)).collect();
        shared_rows::write(&mut noted, &Sums::of(&tails)).unwrap();
        assert_eq!(noted.0, ["a", "b", "c"]);
    }
}

#[test]
fn the_lowest_limit_holds_for_a_sum() {
    let at = Timestamp::from_micros(1);
    let key = WindowKey {
        org: OrgId::new(at, [1; 10]),
        scope: "organization".to_owned(),
        since: 1,
        starts_at: at,
    };
    let room = |limit| Room {
        limit,
        begins_after: None,
        resets_at: at,
    };
    let changes = [
        WindowChange::hold(5, room(30)),
        WindowChange::settle(20, 9),
        WindowChange::hold(6, room(20)),
    ];
    let tails = changes.map(|change| Tail::Window(key.clone(), change));
    let sums = Sums::of(&tails);
    let expected = WindowChange {
        held: -9,
        spent: 9,
        room: Some(room(20)),
        gives_back: true,
    };
    assert_eq!(sums.windows().values().collect::<Vec<_>>(), [&expected]);
}

/// Answers that every statement has affected no row.
struct Missing;

impl Tx for Missing {
    fn tail(&mut self, _: Tail) {}

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        Ok(vec![Answer::default(); statements.len()])
    }
}

#[test]
fn windows_are_written_before_allowances_and_each_row_that_is_missed_is_named() {
    let at = |micros| Timestamp::from_micros(micros);
    let key = |scope: &str| WindowKey {
        org: OrgId::new(at(1), [1; 10]),
        scope: scope.to_owned(),
        since: 1,
        starts_at: at(1),
    };
    let hold = |scope, begins_after| {
        let room = Room {
            limit: 100,
            begins_after,
            resets_at: at(9),
        };
        Tail::Window(key(scope), WindowChange::hold(1, room))
    };
    let month = |start, most| MonthlyRuns {
        month: at(start),
        resets_at: at(start + 1),
        most,
    };
    let (windows, months) = (
        [hold("b", Some(at(0))), hold("a", None), hold("c", Some(at(0)))],
        [(5, 7), (3, 9), (5, 8)].map(|(start, most)| Tail::Allowance(month(start, most))),
    );
    let tails: Vec<Tail> = months.iter().chain(&windows).cloned().collect();
    let sums = Sums::of(&tails);
    let missed = shared_rows::write(&mut Missing, &sums).unwrap().missed;
    let mut expected: Vec<SharedRow> = ["a", "b", "c"].map(|scope| SharedRow::Window(key(scope))).into();
    expected.extend([3, 5].map(|start| SharedRow::Allowance(at(start))));
    assert_eq!(missed, expected);
    // Runs of one month add up, and the lower limit holds.
    let second = sums.allowances()[&at(5)];
    assert_eq!((second.runs, second.allowed.most), (2, 7));
    assert!(months[0].is_for(&missed) && !months[0].is_for(&missed[..4]));
}
