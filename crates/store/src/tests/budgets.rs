use sortie_api::{Budget, id::KeyId};

use super::prelude::*;
use crate::money::OverBudget;

pub(super) const HOUR: Duration = Duration::from_hours(1);

pub(super) fn micros(amount: u64) -> Micros {
    Micros::new(amount).unwrap()
}

pub(super) fn schedule() -> ScheduleId {
    "sched_01hf7yat00e0080000000000aa".parse().unwrap()
}

pub(super) fn key() -> KeyId {
    "key_01hf7yat00e0080000000000aa".parse().unwrap()
}

pub(super) fn workflow() -> BudgetScope {
    BudgetScope::Workflow("report".to_owned())
}

/// Labels of a run that all four kinds of budgets apply to.
pub(super) fn labels() -> Labels {
    Labels {
        by: Some(By::Key(key())),
        workflow: Some("report".to_owned()),
        schedule: Some(schedule()),
        ..Labels::default()
    }
}

impl Fixture {
    pub(super) fn audit_at(&self, org: OrgId, action: &'static str, at: Timestamp) -> Audit {
        Audit {
            at,
            ..self.audit_of(org, action, "a target")
        }
    }

    /// Sets a budget for each day.
    pub(super) async fn budget(&self, org: OrgId, scope: &BudgetScope, limit: u64) -> Budget {
        let put = PutBudget {
            limit_micros: micros(limit),
            period: BudgetPeriod::Day,
        };
        let audit = self.audit_at(org, "budget.put", self.now());
        self.store
            .put_budget(scope.clone(), put, 100, audit)
            .await
            .unwrap()
            .0
    }

    /// Number of the holds of runs that are not settled.
    pub(super) async fn holds(&self) -> i64 {
        // An array has one bracket more than it has holds.
        self.count(
            "SELECT CAST(COALESCE(SUM(LENGTH(r.holds) - LENGTH(REPLACE(r.holds, '[', '')) - 1), 0) AS BIGINT) \
             FROM run r WHERE r.billing_pending = 1",
        )
        .await
    }

    pub(super) async fn check_budgets(&self) {
        assert_eq!(
            self.count(
                "SELECT COUNT(*) FROM budget_window w WHERE w.held_micros < 0 OR w.spent_micros < 0 OR w.held_micros <> \
                 (SELECT COALESCE(SUM(r.max_cost_micros), 0) FROM run r WHERE r.org_id = w.org_id \
                  AND r.billing_pending = 1 \
                  AND REPLACE(r.holds, ' ', '') LIKE '%[\"' || w.scope || '\",' || w.since || ',' || w.starts_at || ']%')"
            )
            .await,
            0,
            "a window holds what its runs hold"
        );
    }

    pub(super) fn costing(&self, org: OrgId, max_cost: u64) -> NewRun {
        NewRun {
            max_cost: micros(max_cost),
            ..self.new_run(org)
        }
    }

    pub(super) async fn created(&self, run: NewRun) -> RunId {
        match self.store.create_run(run).await.unwrap() {
            Created::New(run) => run.id,
            Created::Existing(run) => panic!("{} exists", run.id),
        }
    }

    /// Returns the amounts that are held, spent and available.
    pub(super) async fn standing(&self, org: OrgId, scope: &BudgetScope) -> (i64, i64, i64) {
        let budget = self
            .store
            .get_budget(org, scope.clone(), self.now())
            .await
            .unwrap();
        (
            budget.held_micros.get(),
            budget.spent_micros.get(),
            budget.available_micros.get(),
        )
    }

    /// Runs every statement of budgets and holds.
    pub(super) async fn use_budgets(&self) {
        let (fixture, org, node, store) = (self, self.org().await, self.node().await, &self.store);
        let scope = BudgetScope::Organization;
        fixture.budget(org, &scope, 3_500_000).await;
        for _ in 0..3 {
            fixture.queued(org).await;
        }
        store.create_run(fixture.new_run(org)).await.unwrap_err();
        // The run is refused by a read, which also checks the key.
        let named = NewRun {
            idempotency_key: Some("twice".to_owned()),
            ..fixture.new_run(org)
        };
        store.create_run(named).await.unwrap_err();
        let claims = fixture.claim(node, 2).await;
        store
            .cancel_run(org, claims[1].fence.run, fixture.now())
            .await
            .unwrap();
        let named = NewRun {
            idempotency_key: Some("twice".to_owned()),
            ..fixture.new_run(org)
        };
        let usage = sortie_api::RunUsage::default();
        store
            .settle_run(
                claims[1].fence.run,
                claims[1].fence.attempt,
                FinalCost {
                    usage,
                    ..FinalCost::default()
                },
                Vec::new(),
            )
            .await
            .unwrap();
        store.create_run(named.clone()).await.unwrap();
        let again = NewRun {
            id: fixture.run_id(),
            ..named
        };
        // The key has a run already, so the hold of this one is released.
        store.create_run(again).await.unwrap();
        let fence = fixture.start(claims[0].fence).await.unwrap();
        store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        store.get_budget(org, scope.clone(), fixture.now()).await.unwrap();
        store
            .list_budgets(org, fixture.now(), (String::new(), 10))
            .await
            .unwrap();
        let audit = fixture.audit_at(org, "budget.delete", fixture.now());
        store.delete_budget(scope, audit).await.unwrap();
    }
}

const ORG: BudgetScope = BudgetScope::Organization;

both! {
    async fn a_budget_is_set_changed_listed_and_deleted(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store, at: Timestamp) {
        let put = PutBudget { limit_micros: micros(500), period: BudgetPeriod::Month };
        let (made, is_new) = store.put_budget(ORG, put, 2, fixture.audit_at(org, "budget.put", at)).await.unwrap();
        assert!(is_new);
        assert_eq!(made, store.get_budget(org, ORG, at).await.unwrap());
        assert_eq!((made.scope, made.limit_micros, made.period), (ORG, micros(500), BudgetPeriod::Month));
        assert_eq!((made.created_at, made.updated_at), (at, at));
        assert_eq!(made.resets_at.to_string(), "2099-12-01T00:00:00.000Z");
        assert_eq!(store.get_budget(other, ORG, at).await.unwrap_err(), Error::NotFound);
        fixture.budget(org, &workflow(), 7).await;
        let put = PutBudget { limit_micros: micros(9), period: BudgetPeriod::Day };
        let later = fixture.now();
        let audit = fixture.audit_at(org, "budget.put", later);
        let (changed, is_new) = store.put_budget(ORG, put, 2, audit).await.unwrap();
        assert!(!is_new);
        assert_eq!((changed.created_at, changed.updated_at, changed.limit_micros), (at, later, micros(9)));
        let audit = fixture.audit_at(org, "budget.put", later);
        let refused = store.put_budget(BudgetScope::Key(key()), put, 2, audit).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the organization has reached its limit of budgets"));
        let scopes = async |org| {
            let listed = store.list_budgets(org, fixture.now(), (String::new(), 10)).await.unwrap();
            listed.into_iter().map(|budget| budget.scope).collect::<Vec<_>>()
        };
        assert_eq!(scopes(org).await, [ORG, workflow()]);
        assert_eq!(scopes(other).await, []);
        let page = async |after: &str| store.list_budgets(org, fixture.now(), (after.to_owned(), 1)).await.unwrap();
        let first = page("").await;
        let second = page(&first[0].scope.to_string()).await;
        assert_eq!((&first[0].scope, &second[0].scope), (&ORG, &workflow()));
        assert_eq!(page(&workflow().to_string()).await, []);
        let audit = fixture.audit_at(other, "budget.delete", later);
        assert_eq!(store.delete_budget(ORG, audit).await.unwrap_err(), Error::NotFound);
        store.delete_budget(ORG, fixture.audit_at(org, "budget.delete", later)).await.unwrap();
        assert_eq!(scopes(org).await, [workflow()]);
        let nobody = OrgId::new(at, [1; 10]);
        let audit = fixture.audit_at(nobody, "budget.put", later);
        assert_eq!(store.put_budget(ORG, put, 2, audit).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM audit WHERE action = 'budget.put'").await, 3);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM audit WHERE action = 'budget.delete'").await, 1);
    }

    async fn a_run_holds_what_it_may_cost_until_its_end_and_then_counts_what_it_cost(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.budget(org, &ORG, 1_000).await;
        fixture.created(fixture.costing(org, 600)).await;
        assert_eq!(fixture.standing(org, &ORG).await, (600, 0, 400));
        let fence = fixture.claim_one(node).await.fence;
        let fence = fixture.start(fence).await.unwrap();
        let mut finish = fixture.succeeded("out");
        finish.cost = micros(42);
        fixture.store.finish_run(fence, finish).await.unwrap();
        assert_eq!(fixture.standing(org, &ORG).await, (0, 42, 958));
    }

    async fn a_cancelled_run_gives_its_hold_back_when_it_is_settled(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.budget(org, &ORG, 1_000).await;
        let waiting = fixture.created(fixture.costing(org, 600)).await;
        fixture.store.cancel_run(fixture.org().await, waiting, fixture.now()).await.unwrap_err();
        assert_eq!(fixture.standing(org, &ORG).await, (600, 0, 400));
        fixture.store.cancel_run(org, waiting, fixture.now()).await.unwrap();
        assert_eq!(fixture.standing(org, &ORG).await, (0, 0, 1_000));

        let working = fixture.created(fixture.costing(org, 700)).await;
        let fence = fixture.claim_one(node).await.fence;
        fixture.store.cancel_run(org, working, fixture.now()).await.unwrap();
        assert_eq!(fixture.standing(org, &ORG).await, (700, 0, 300));
        fixture.store.settle_run(working, fence.attempt, of_calls(micros(30)), Vec::new()).await.unwrap();
        assert_eq!(fixture.standing(org, &ORG).await, (0, 30, 970));
        let again = fixture.store.cancel_run(org, working, fixture.now()).await.unwrap();
        assert!(matches!(again, Cancelled::AlreadyFinal(_)));
        assert_eq!(fixture.standing(org, &ORG).await, (0, 30, 970));
    }

    async fn runs_of_a_lost_node_are_settled_in_their_budgets_by_the_sweep(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.budget(org, &ORG, 1_000_000).await;
        for cost in [70, 5] {
            fixture.created(fixture.costing(org, 100)).await;
            let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
            fixture.append(fence, Vec::new(), micros(cost)).await.unwrap();
            fixture.tire(fence.run).await;
        }
        let cancelled = fixture.created(fixture.costing(org, 100)).await;
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        fixture.append(fence, Vec::new(), micros(6)).await.unwrap();
        fixture.store.cancel_run(org, cancelled, fixture.now()).await.unwrap();
        fixture.created(fixture.costing(org, 100)).await;
        fixture.claim_one(node).await;
        assert_eq!(fixture.standing(org, &ORG).await.0, 400);
        let later = fixture.now() + 5 * HOUR;
        let taker = fixture.node().await;
        let swept = fixture.store.sweep(crate::runs::Sweep { places: 5, ..fixture.declaring(taker, later, 10).await }).await.unwrap();
        assert_eq!((swept.ended.len(), swept.taken.len()), (2, 1));
        assert_eq!(fixture.standing(org, &ORG).await, (100, 81, 999_819), "the one that goes on is held");
    }

    async fn a_run_that_does_not_fit_in_one_of_its_budgets_is_not_made_and_holds_nothing(fixture: &Fixture, org: OrgId) {
        for scope in [ORG, BudgetScope::Schedule(schedule()), BudgetScope::Key(key())] {
            fixture.budget(org, &scope, 10_000).await;
        }
        fixture.budget(org, &workflow(), 100).await;
        let mut run = NewRun { labels: labels(), ..fixture.costing(org, 60) };
        run.idempotency_key = Some("once".to_owned());
        let first = fixture.created(run.clone()).await;
        let next = |max_cost| NewRun { labels: labels(), ..fixture.costing(org, max_cost) };
        let refused = fixture.store.create_run(next(41)).await.unwrap_err();
        let Error::OverBudget(refusal) = refused else { panic!("{refused}") };
        assert_eq!(*refusal, OverBudget {
            scope: workflow(),
            max_cost: micros(41),
            available: micros(40),
            resets_at: fixture.store.get_budget(org, ORG, fixture.now()).await.unwrap().resets_at,
        });
        assert_eq!(
            refusal.to_string(),
            "budget workflow:report: max_cost_micros is 41, and 40 are left until 2099-11-15T00:00:00.000Z"
        );
        for scope in [ORG, BudgetScope::Schedule(schedule()), BudgetScope::Key(key()), workflow()] {
            assert_eq!(fixture.standing(org, &scope).await.0, 60, "{scope}");
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 1);
        // The key has a run already: nothing is held for it again, and nothing is refused.
        run.id = fixture.run_id();
        let again = fixture.store.create_run(run).await.unwrap();
        assert!(matches!(again, Created::Existing(run) if run.id == first));
        fixture.created(next(40)).await;
        // The budget does not apply to a run of another workflow or of another organization.
        fixture.created(fixture.costing(org, 5_000)).await;
        let other = fixture.org().await;
        fixture.created(NewRun { labels: labels(), ..fixture.costing(other, 5_000) }).await;
    }

    async fn a_limit_of_zero_takes_no_run_and_more_than_the_limit_never_fits(fixture: &Fixture, org: OrgId) {
        fixture.budget(org, &ORG, 0).await;
        let refused = fixture.store.create_run(fixture.costing(org, 1)).await.unwrap_err();
        assert!(matches!(refused, Error::OverBudget(refusal) if refusal.available.is_zero()));
        fixture.budget(org, &ORG, 10).await;
        let refused = fixture.store.create_run(fixture.costing(org, 11)).await.unwrap_err();
        assert!(matches!(refused, Error::OverBudget(refusal) if refusal.available == micros(10)));
        fixture.created(fixture.costing(org, 10)).await;
    }

    async fn a_changed_limit_holds_for_new_runs_at_once_and_leaves_the_others_alone(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.budget(org, &ORG, 100).await;
        fixture.created(fixture.costing(org, 90)).await;
        fixture.budget(org, &ORG, 50).await;
        assert_eq!(fixture.standing(org, &ORG).await, (90, 0, 0));
        fixture.store.create_run(fixture.costing(org, 1)).await.unwrap_err();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert_eq!(fixture.standing(org, &ORG).await, (0, 42, 8));
        fixture.created(fixture.costing(org, 8)).await;
        fixture.budget(org, &ORG, 200).await;
        assert_eq!(fixture.standing(org, &ORG).await, (8, 42, 150));
    }

    async fn a_run_is_settled_in_the_window_in_which_it_was_made(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.budget(org, &ORG, 100).await;
        let day = |hours: u64| fixture.now() + Duration::from_hours(hours);
        let run = |hours| NewRun { created_at: day(hours), ..fixture.costing(org, 80) };
        fixture.created(run(0)).await;
        fixture.created(run(24)).await;
        fixture.store.create_run(run(25)).await.unwrap_err();
        let of = async |hours| {
            let budget = fixture.store.get_budget(org, ORG, day(hours)).await.unwrap();
            (budget.held_micros.get(), budget.spent_micros.get())
        };
        assert_eq!((of(0).await, of(24).await, of(48).await), ((80, 0), (80, 0), (0, 0)));
        // The oldest run is claimed first.
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let mut finish = fixture.succeeded("out");
        finish.at = day(30);
        fixture.store.finish_run(fence, finish).await.unwrap();
        assert_eq!((of(0).await, of(24).await), ((0, 42), (80, 0)));
        // A new window deletes windows before the previous one, if they have no holds.
        fixture.created(run(48)).await;
        assert_eq!(fixture.count("SELECT COUNT(*) FROM budget_window").await, 2);
        assert_eq!((of(0).await, of(24).await, of(48).await), ((0, 0), (80, 0), (80, 0)));
        fixture.created(run(72)).await;
        assert_eq!(fixture.count("SELECT COUNT(*) FROM budget_window").await, 3, "the first is still held");
    }

    async fn the_month_before_the_last_one_is_forgotten_and_never_the_last_one(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let put = PutBudget { limit_micros: micros(100), period: BudgetPeriod::Month };
        store.put_budget(ORG, put, 5, fixture.audit_at(org, "budget.put", fixture.now())).await.unwrap();
        let spent = async |at| store.get_budget(org, ORG, at).await.unwrap().spent_micros;
        let mut month = fixture.now();
        let mut last = None;
        for _ in 0..13 {
            let (_, next) = BudgetPeriod::Month.window(month).unwrap();
            fixture.created(NewRun { created_at: month, ..fixture.costing(org, 80) }).await;
            let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
            store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
            assert_eq!(spent(month).await, micros(42));
            if let Some(last) = last {
                assert_eq!(spent(last).await, micros(42), "what was spent before {month}");
                assert_eq!(fixture.count("SELECT COUNT(*) FROM budget_window").await, 2);
            }
            last = Some(month);
            month = next;
        }
    }

    async fn what_a_run_holds_goes_back_to_where_it_was_taken_also_when_the_budget_is_another(fixture: &Fixture) {
        let (org, node, store) = (fixture.org().await, fixture.node().await, &fixture.store);
        fixture.budget(org, &ORG, 100).await;
        let put = async |period| {
            let put = PutBudget { limit_micros: micros(100), period };
            store.put_budget(ORG, put, 5, fixture.audit_at(org, "budget.put", fixture.now())).await.unwrap();
        };
        let finish = async || {
            let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
            store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        };
        fixture.created(fixture.costing(org, 90)).await;
        put(BudgetPeriod::Month).await;
        assert_eq!(fixture.standing(org, &ORG).await, (0, 0, 100), "another period counts from now on");
        fixture.created(fixture.costing(org, 60)).await;
        finish().await;
        assert_eq!(fixture.standing(org, &ORG).await, (60, 0, 40));
        put(BudgetPeriod::Day).await;
        assert_eq!(fixture.standing(org, &ORG).await, (0, 0, 100), "a period that comes back as well");
        put(BudgetPeriod::Day).await;
        finish().await;
        assert_eq!(fixture.standing(org, &ORG).await, (0, 0, 100));
        fixture.created(fixture.costing(org, 70)).await;
        put(BudgetPeriod::Day).await;
        assert_eq!(fixture.standing(org, &ORG).await, (70, 0, 30), "the same period goes on counting");
        store.delete_budget(ORG, fixture.audit_at(org, "budget.delete", fixture.now())).await.unwrap();
        finish().await;
        fixture.budget(org, &ORG, 100).await;
        assert_eq!(fixture.standing(org, &ORG).await, (0, 0, 100), "a new budget counts from now on");
        assert_eq!(fixture.holds().await, 0);
    }

    async fn a_budget_that_comes_after_a_run_does_not_count_it(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        fixture.budget(org, &ORG, 1).await;
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert_eq!(fixture.standing(org, &ORG).await, (0, 0, 1));
    }

    async fn of_32_runs_that_come_at_once_exactly_those_that_fit_are_made(fixture: &Fixture, org: OrgId) {
        for scope in [ORG, BudgetScope::Schedule(schedule()), BudgetScope::Key(key())] {
            fixture.budget(org, &scope, 1_000).await;
        }
        fixture.budget(org, &workflow(), 7 * 13 + 12).await;
        let runs = join_all((0..32).map(|_| {
            fixture.store.create_run(NewRun { labels: labels(), ..fixture.costing(org, 13) })
        }))
        .await;
        let made = runs.iter().filter(|created| matches!(created, Ok(Created::New(_)))).count();
        let refused = runs.iter().filter(|created| matches!(created, Err(Error::OverBudget(_)))).count();
        assert_eq!((made, refused), (7, 25), "{runs:?}");
        for scope in [ORG, BudgetScope::Schedule(schedule()), BudgetScope::Key(key()), workflow()] {
            assert_eq!(fixture.standing(org, &scope).await.0, 7 * 13, "{scope}");
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 7);
    }

    async fn runs_that_are_made_and_settled_at_once_leave_nothing_held(fixture: &Fixture, org: OrgId, node: NodeId) {
        for scope in [ORG, BudgetScope::Schedule(schedule()), BudgetScope::Key(key()), workflow()] {
            fixture.budget(org, &scope, 1_000_000).await;
        }
        let mut spent = 0;
        for round in 0..4 {
            let stacks = [
                labels(),
                Labels { by: Some(By::Key(key())), ..Labels::default() },
                Labels { workflow: Some("report".to_owned()), schedule: Some(schedule()), ..Labels::default() },
                Labels::default(),
            ];
            let create = |number: usize| {
                fixture.store.create_run(NewRun { labels: stacks[number % 4].clone(), ..fixture.costing(org, 1_000) })
            };
            for number in 0..24 {
                create(number).await.unwrap();
            }
            let claims = fixture.claim(node, 16).await;
            let held: HashSet<RunId> = claims.iter().map(|claim| claim.fence.run).collect();
            // Half of the held runs are finished, half are cancelled and settled. The test creates more runs
            // at the same time.
            let (finished, cancelled) = claims.split_at(8);
            let ends = join_all(finished.iter().map(async |claim| {
                let fence = fixture.start(claim.fence).await.unwrap();
                fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
            }));
            let settles = join_all(cancelled.iter().map(async |claim| {
                fixture.store.cancel_run(org, claim.fence.run, fixture.now()).await.unwrap();
                fixture.store.settle_run(claim.fence.run, claim.fence.attempt, of_calls(micros(1)), Vec::new()).await.unwrap();
            }));
            let creates = join_all((0..12).map(create));
            let ((_, _), creates) = join(join(ends, settles), creates).await;
            assert!(creates.iter().all(Result::is_ok), "round {round}: {creates:?}");
            assert_eq!(held.len(), 16);
            spent += 8 * 42 + 8;
            let waiting = fixture.claim(node, 100).await;
            for claim in &waiting {
                fixture.store.cancel_run(org, claim.fence.run, fixture.now()).await.unwrap();
            }
            let ids = waiting.iter().map(|claim| claim.fence.run).collect();
            fixture.store.retake_held(node, ids, fixture.now(), Micros::ZERO).await.unwrap();
            assert_eq!(fixture.standing(org, &ORG).await, (0, spent, 1_000_000 - spent), "round {round}");
        }
        assert_eq!(fixture.holds().await, 0);
    }
}
