//! Credits: what runs reserve and are charged, and the ledger.

use super::prelude::*;
use crate::{
    Result,
    db::{
        Answer,
        tail::{CreditChange, Tail},
    },
    money::{Credit, CreditSums, InsufficientCredit, LedgerDifference, OTHER_ENTRY, Payment, shared_rows},
    runs::UnretainedFinish,
};

impl Fixture {
    /// Makes a grant of credits with a new reference, without storing it.
    pub(super) fn grant(&self, org: OrgId, amount_micros: i64) -> NewLedgerEntry {
        NewLedgerEntry {
            cause: format!("grant:{}", self.number()),
            org,
            kind: LedgerKind::Grant,
            amount_micros,
            description: "for tests".to_owned(),
            payment: None,
            topup: None,
            user: None,
            at: self.now(),
        }
    }

    /// Adds credits to an organization, or subtracts some.
    pub(super) async fn give(&self, org: OrgId, amount_micros: i64) {
        let (entry, audit) = (self.grant(org, amount_micros), self.audit(org));
        assert_eq!(self.store.move_credits(entry, audit).await, Ok(Appended::New));
    }

    /// Adds an organization with credits.
    pub(super) async fn paying_org(&self, amount_micros: i64) -> OrgId {
        let org = self.org().await;
        self.give(org, amount_micros).await;
        org
    }

    /// Makes a run that is paid with credits.
    pub(super) fn paid(&self, org: OrgId, max_cost: u64) -> NewRun {
        NewRun {
            max_cost: micros(max_cost),
            payment: Payment::Credit,
            ..self.new_run(org)
        }
    }

    /// Balance and reserved amount.
    pub(super) async fn credits(&self, org: OrgId) -> (i64, i64) {
        let credit = self.store.credit(org).await.unwrap();
        (credit.balance_micros, credit.reserved.get())
    }

    /// Differences that the check of all organizations finds.
    pub(super) async fn differences(&self) -> Vec<LedgerDifference> {
        // Pages of three runs, so that there are several.
        self.differences_by(3).await
    }

    /// Differences that the check of all organizations finds, with pages of one organization and of `runs` runs.
    pub(super) async fn differences_by(&self, runs: u32) -> Vec<LedgerDifference> {
        let (mut found, mut last) = (Vec::new(), None);
        loop {
            let checked = self.store.check_credits(last, 1).await.unwrap();
            found.extend(checked.differences);
            last = checked.looked_at.last().copied();
            let Some(org) = last else { return found };
            found.extend(self.store.check_payments(org).await.unwrap());
            let mut run = None;
            loop {
                let checked = self.store.check_charges(org, run, runs).await.unwrap();
                found.extend(checked.differences);
                run = checked.looked_at.last().copied();
                if run.is_none() {
                    break;
                }
            }
        }
    }

    /// Amounts in the ledger of an organization, newest first, each with its kind.
    async fn entered(&self, org: OrgId) -> Vec<(LedgerKind, i64)> {
        let entries = self.store.list_ledger(org, None, 100).await.unwrap();
        entries
            .into_iter()
            .map(|(_, entry)| (entry.kind, entry.amount_micros))
            .collect()
    }

    /// Runs every command on credits.
    pub(super) async fn use_credits(&self) {
        let (org, node) = (self.paying_org(10_000).await, self.node().await);
        self.give(org, -1).await;
        for _ in 0..2 {
            self.store.create_run(self.paid(org, 100)).await.unwrap();
        }
        for _ in 0..2 {
            self.store.create_run(self.paid(org, 10_000)).await.unwrap_err();
        }
        let claims = self.claim(node, 100).await;
        for claim in claims {
            let fence = self.start(claim.fence).await.unwrap();
            self.store.finish_run(fence, self.succeeded("x")).await.unwrap();
        }
        self.credits(org).await;
        self.entered(org).await;
        self.store.billing(org, 10).await.unwrap();
        self.store.credit_sums().await.unwrap();
        self.differences().await;
    }

    pub(super) async fn tamper(&self, sql: &'static str) -> Result<u64> {
        self.store.db.write(move |tx| tx.exec(sql, vals![])).await
    }
}

/// Transaction in which a credit grows after the first statements, as if another transaction had committed then.
struct Growing<'a> {
    tx: &'a mut dyn Tx,
    org: OrgId,
    by: Option<i64>,
}

impl Tx for Growing<'_> {
    fn tail(&mut self, tail: Tail) {
        self.tx.tail(tail);
    }

    fn is_local(&self) -> bool {
        self.tx.is_local()
    }

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        let answers = self.tx.batch(statements)?;
        if let Some(by) = self.by.take() {
            let grow = "UPDATE credit SET balance_micros = balance_micros + $2 WHERE org_id = $1";
            assert_eq!(self.tx.exec(grow, vals![self.org, by])?, 1);
        }
        Ok(answers)
    }
}

fn insufficient(max_cost: u64, available: u64) -> Error {
    Error::InsufficientCredit(InsufficientCredit {
        max_cost: micros(max_cost),
        available: micros(available),
    })
}

fn metrics(store: &Store) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    store.register_credit_metrics(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

/// Number of rounds of a race, which `SORTIE_RACE_ROUNDS` raises.
#[expect(clippy::disallowed_methods, reason = "the suite's own switch")]
fn rounds() -> usize {
    std::env::var("SORTIE_RACE_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap())
}

both! {
    async fn a_run_reserves_its_budget_and_is_charged_what_it_has_cost(fixture: &Fixture) {
        let (org, node) = (fixture.paying_org(1_000).await, fixture.node().await);
        let run = fixture.paid(org, 300);
        let id = run.id;
        assert!(matches!(fixture.store.create_run(run).await, Ok(Created::New(_))));
        assert_eq!(fixture.credits(org).await, (1_000, 300));
        assert_eq!(fixture.told(org, id).await, ["reserving", "queued"]);
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        assert_eq!(fence.last_event, 4);
        let run = fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert_eq!((run.cost_micros, run.billing_pending), (micros(42), false));
        assert_eq!(fixture.credits(org).await, (958, 0));
        let ledger = fixture.store.list_ledger(org, None, 10).await.unwrap();
        let (_, charge) = ledger.iter().find(|(_, entry)| entry.kind == LedgerKind::Charge).unwrap();
        assert_eq!((charge.amount_micros, charge.run_id, charge.description.as_str()), (-42, Some(id), "run"));
        assert_eq!(fixture.differences().await, []);
        let text = metrics(&fixture.store);
        for line in [
            "store_credit_holds_total 1",
            "store_ledger_entries_total{kind=\"grant\",direction=\"added\"} 1",
            "store_ledger_micros_total{kind=\"charge\",direction=\"taken\"} 42",
            "store_clamped_settlements_total 0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    async fn a_run_that_credits_do_not_cover_leaves_nothing(fixture: &Fixture) {
        let org = fixture.paying_org(1_000).await;
        fixture.store.create_run(fixture.paid(org, 400)).await.unwrap();
        let tables = "SELECT (SELECT COUNT(*) FROM run) + (SELECT COUNT(*) FROM queue) + (SELECT COUNT(*) FROM event)";
        let before = fixture.count(tables).await;
        let refused = fixture.store.create_run(fixture.paid(org, 601)).await.unwrap_err();
        assert_eq!(refused, insufficient(601, 600));
        assert_eq!(refused.to_string(), "credits: max_cost_micros is 601, and 600 are available");
        assert_eq!(fixture.count(tables).await, before);
        fixture.store.create_run(fixture.paid(org, 600)).await.unwrap();
        assert_eq!(fixture.credits(org).await, (1_000, 1_000));
        assert!(metrics(&fixture.store).contains("store_credit_refusals_total 1"));
    }

    async fn a_refusal_names_an_amount_that_was_available(fixture: &Fixture) {
        let org = fixture.paying_org(3).await;
        let reserve = async |by: i64| {
            let reserving = move |tx: &mut dyn Tx| {
                let mut growing = Growing { tx, org, by: Some(by) };
                shared_rows::write_of_one(&mut growing, &[Tail::Credit(org, CreditChange::hold(10))]).map(drop)
            };
            fixture.store.db.write(reserving).await
        };
        assert_eq!(reserve(2).await, Err(insufficient(10, 5)), "3 at first, and 5 then");
        assert_eq!(fixture.credits(org).await, (3, 0));
        assert_eq!(reserve(8).await, Ok(()), "the credits cover it by now");
        assert_eq!(fixture.credits(org).await, (11, 10));
    }

    async fn an_organization_without_credits_creates_no_paid_run(fixture: &Fixture, org: OrgId) {
        assert_eq!(fixture.store.create_run(fixture.paid(org, 1)).await.unwrap_err(), insufficient(1, 0));
        assert_eq!(fixture.store.credit(org).await, Ok(Credit::default()));
    }

    async fn a_repetition_with_its_key_needs_no_credit(fixture: &Fixture) {
        let org = fixture.paying_org(100).await;
        let named = NewRun { idempotency_key: Some("once".to_owned()), ..fixture.paid(org, 100) };
        fixture.store.create_run(named.clone()).await.unwrap();
        for again in 0..3 {
            if again == 1 {
                // The node reads the credits first from here on.
                fixture.store.create_run(fixture.paid(org, 100)).await.unwrap_err();
            }
            let again = NewRun { id: fixture.run_id(), ..named.clone() };
            let Ok(Created::Existing(run)) = fixture.store.create_run(again).await else { panic!() };
            assert_eq!(run.id, named.id);
        }
        assert_eq!(fixture.credits(org).await, (100, 100));
    }

    async fn a_budget_refuses_before_the_credits_do(fixture: &Fixture) {
        let org = fixture.paying_org(10).await;
        fixture.budget(org, &BudgetScope::Organization, 10).await;
        for _ in 0..2 {
            let refused = fixture.store.create_run(fixture.paid(org, 11)).await;
            assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
        }
        fixture.give(org, -5).await;
        assert_eq!(fixture.store.create_run(fixture.paid(org, 9)).await.unwrap_err(), insufficient(9, 5));
    }

    async fn what_was_reserved_returns_however_a_run_ends(fixture: &Fixture) {
        let (org, node, store) = (fixture.paying_org(10_000).await, fixture.node().await, &fixture.store);
        let mut ids = Vec::new();
        for _ in 0..5 {
            let Created::New(run) = store.create_run(fixture.paid(org, 1_000)).await.unwrap() else { panic!() };
            ids.push(run.id);
        }
        assert_eq!(fixture.credits(org).await, (10_000, 5_000));
        assert!(matches!(store.cancel_run(org, ids[4], fixture.now()).await, Ok(Cancelled::Now(_))));
        assert!(matches!(store.cancel_run(org, ids[4], fixture.now()).await, Ok(Cancelled::AlreadyFinal(_))));
        assert_eq!(fixture.credits(org).await, (10_000, 4_000), "a run that waits costs nothing");
        let claims = fixture.claim(node, 4).await;
        store.cancel_run(org, ids[0], fixture.now()).await.unwrap();
        assert_eq!(fixture.credits(org).await, (10_000, 4_000), "its worker has not spoken");
        let (run, attempt) = (claims[0].fence.run, claims[0].fence.attempt);
        store.settle_run(run, attempt, of_calls(micros(7)), Vec::new()).await.unwrap();
        assert_eq!(fixture.credits(org).await, (9_993, 3_000));
        let late = store.settle_run(run, attempt, of_calls(micros(7)), Vec::new()).await;
        assert_eq!(late, Err(Error::Fenced));
        // Lost workers: one run was cancelled, one was resumed too often.
        let fences = [fixture.start(claims[1].fence).await.unwrap(), fixture.start(claims[2].fence).await.unwrap()];
        for fence in fences {
            fixture.append(fence, vec![fixture.message("x")], micros(11)).await.unwrap();
        }
        store.cancel_run(org, ids[1], fixture.now()).await.unwrap();
        fixture.tire(ids[2]).await;
        store.retake_held(node, vec![ids[1], ids[2]], fixture.now(), Micros::ZERO).await.unwrap();
        assert_eq!(fixture.credits(org).await, (9_971, 1_000));
        let free = Finish { cost: Micros::ZERO, ..fixture.succeeded("x") };
        store.finish_run(fixture.start(claims[3].fence).await.unwrap(), free).await.unwrap();
        assert_eq!(fixture.credits(org).await, (9_971, 0));
        let mut entered = fixture.entered(org).await;
        entered.sort_unstable();
        assert_eq!(
            entered,
            [(LedgerKind::Charge, -11), (LedgerKind::Charge, -11), (LedgerKind::Charge, -7), (LedgerKind::Grant, 10_000)],
            "a run that has cost nothing has no entry"
        );
        assert_eq!(fixture.differences().await, []);
    }

    async fn no_run_is_charged_more_than_was_reserved_for_it(fixture: &Fixture) {
        let (org, node, store) = (fixture.paying_org(1_000).await, fixture.node().await, &fixture.store);
        for _ in 0..2 {
            store.create_run(fixture.paid(org, 100)).await.unwrap();
        }
        let dear = Finish { cost: micros(170), ..fixture.succeeded("x") };
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let run = store.finish_run(fence, dear).await.unwrap();
        assert_eq!(run.cost_micros, micros(100));
        let claim = fixture.claim_one(node).await;
        store.cancel_run(org, claim.fence.run, fixture.now()).await.unwrap();
        store.settle_run(claim.fence.run, claim.fence.attempt, of_calls(micros(101)), Vec::new()).await.unwrap();
        assert_eq!(fixture.credits(org).await, (800, 0));
        assert_eq!(fixture.get(org, claim.fence.run).await.cost_micros, micros(100));
        assert!(metrics(&fixture.store).contains("store_clamped_settlements_total 2"));
        assert_eq!(fixture.differences().await, []);
        // A free run keeps its whole cost.
        let fence = fixture.running(org, node).await;
        let dear = Finish { cost: micros(2_000_000), ..fixture.succeeded("x") };
        assert_eq!(store.finish_run(fence, dear).await.unwrap().cost_micros, micros(2_000_000));
        assert_eq!(fixture.credits(org).await, (800, 0));
    }

    async fn a_run_without_retention_is_charged_with_its_surcharge(fixture: &Fixture) {
        let (org, node, store) = (fixture.paying_org(1_000).await, fixture.node().await, &fixture.store);
        for (cost, charged) in [(100, 120), (500, 300)] {
            let run = NewRun { max_cost: micros(300), payment: Payment::Credit, ..fixture.new_unretained(org, node) };
            let id = run.id;
            store.create_run(run).await.unwrap();
            let claims = store.claim_named(node, vec![id], None, fixture.now()).await.unwrap();
            let fence = claims[0].fence;
            assert_eq!(fence.last_event, 3, "reserving, queued and starting are counted");
            store.start_unretained(fence, 1).await.unwrap();
            let last = Counted { cost: micros(cost), ..fixture.unretained_finish().last };
            let finish = UnretainedFinish { last, output_expires_at: None, ..fixture.unretained_finish() };
            let before = fixture.credits(org).await.0;
            let run = store.finish_unretained(after(fence, 1), finish).await.unwrap();
            assert_eq!(run.cost_micros, micros(charged));
            assert!(run.surcharge_micros <= run.cost_micros);
            assert_eq!(fixture.credits(org).await, (before - i64::try_from(charged).unwrap(), 0));
        }
        assert_eq!(fixture.differences().await, []);
    }

    async fn a_free_run_touches_neither_credits_nor_the_ledger(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.finished(org, node).await;
        let cancelled = fixture.cancelled(org, node).await;
        fixture.store.settle_run(cancelled.run, cancelled.attempt, of_calls(micros(7)), Vec::new()).await.unwrap();
        fixture.tired(org, node).await;
        fixture.store.cancel_run(org, fixture.queued(org).await, fixture.now()).await.unwrap();
        for sql in fixture.store.db.faults().statements() {
            assert!(!sql.contains("ledger") && !sql.contains("credit "), "{sql}");
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM ledger").await, 0);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM credit").await, 0);
    }

    async fn the_credits_of_all_organizations_are_summed_up(fixture: &Fixture) {
        assert_eq!(fixture.store.credit_sums().await, Ok(CreditSums::default()));
        let (one, other) = (fixture.paying_org(1_000).await, fixture.paying_org(50).await);
        fixture.store.create_run(fixture.paid(one, 300)).await.unwrap();
        fixture.give(other, -80).await;
        let sums = CreditSums { balance_micros: 970, reserved_micros: 300, negative: 1 };
        assert_eq!(fixture.store.credit_sums().await, Ok(sums));
    }

    async fn the_end_of_a_paid_run_costs_one_batch_more_where_batches_are_round_trips(fixture: &Fixture) {
        let (org, node) = (fixture.paying_org(1_000).await, fixture.node().await);
        fixture.store.create_run(fixture.paid(org, 100)).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        fixture.store.db.faults().batches();
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let more = match fixture.dialect() {
            // A further statement reads whether the credits are low.
            Dialect::Sqlite => 2,
            Dialect::Postgres => 1,
        };
        assert_eq!(fixture.store.db.faults().batches(), 1 + more);
    }

    async fn a_refusal_is_remembered_for_five_seconds_and_a_grant_counts_at_once(fixture: &Fixture) {
        let (org, store) = (fixture.paying_org(10).await, &fixture.store);
        let first = fixture.paid(org, 20);
        let later = |seconds: u64| NewRun {
            id: fixture.run_id(),
            created_at: first.created_at + std::time::Duration::from_secs(seconds),
            ..first.clone()
        };
        store.create_run(first.clone()).await.unwrap_err();
        // A create that is refused by a read has two statements: one for the budgets, one for the credits.
        store.db.faults().fail_statement(3);
        assert_eq!(store.create_run(later(4)).await.unwrap_err(), insufficient(20, 10));
        assert!(store.db.faults().disarm(), "it is refused by a read");
        store.db.faults().fail_statement(3);
        assert!(store.create_run(later(10)).await.unwrap_err().to_string().contains("injected"));
        store.create_run(later(10)).await.unwrap_err();
        fixture.give(org, 10).await;
        store.create_run(later(11)).await.unwrap();
        assert_eq!(fixture.credits(org).await, (20, 20));
    }

    async fn a_suspended_organization_creates_no_run_whatever_it_has(fixture: &Fixture) {
        let (org, store) = (fixture.paying_org(100).await, &fixture.store);
        store.suspend_organization(org, None, fixture.now(), fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.count("SELECT suspended FROM credit").await, 1);
        // The row of the credits refuses even without the suspension time, because a suspension may be committed
        // while the create is in progress.
        fixture.tamper("UPDATE organization SET suspended_at = NULL").await.unwrap();
        for _ in 0..2 {
            assert_eq!(store.create_run(fixture.paid(org, 10)).await.unwrap_err(), Error::Suspended);
        }
        fixture.tamper("UPDATE organization SET suspended_at = 1").await.unwrap();
        store.resume_organization(org, fixture.audit(org)).await.unwrap();
        store.create_run(fixture.paid(org, 10)).await.unwrap();
        assert_eq!(fixture.credits(org).await, (100, 10));
    }

    async fn an_entry_moves_the_balance_once(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        let grant = fixture.grant(org, 50);
        let all = join_all((0..8).map(|_| store.move_credits(grant.clone(), fixture.audit(org)))).await;
        assert_eq!(all.iter().filter(|done| **done == Ok(Appended::New)).count(), 1, "{all:?}");
        assert_eq!(all.iter().filter(|done| **done == Ok(Appended::Before)).count(), 7, "{all:?}");
        assert_eq!(fixture.credits(org).await, (50, 0));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM audit").await, 1);
        for changed in [
            NewLedgerEntry { amount_micros: 51, ..grant.clone() },
            NewLedgerEntry { org: other, ..grant.clone() },
            NewLedgerEntry { kind: LedgerKind::Correction, ..grant.clone() },
        ] {
            assert_eq!(store.move_credits(changed, fixture.audit(org)).await, Err(OTHER_ENTRY));
        }
        assert_eq!((fixture.credits(org).await, fixture.credits(other).await), ((50, 0), (0, 0)));
        fixture.give(org, -80).await;
        assert_eq!(fixture.credits(org).await, (-30, 0));
        assert_eq!(store.credit(org).await.unwrap().available(), Micros::ZERO);
        assert_eq!(store.create_run(fixture.paid(org, 1)).await.unwrap_err(), insufficient(1, 0));
        let nowhere = fixture.grant(OrgId::new(fixture.now(), fixture.random()), 1);
        assert_eq!(store.move_credits(nowhere, fixture.audit(org)).await, Err(Error::NotFound));
        assert_eq!(fixture.differences().await, []);
    }

    async fn the_ledger_is_listed_newest_first_and_in_pages(fixture: &Fixture, org: OrgId) {
        fixture.paying_org(1).await;
        for amount in [10, 20, 30, 40, 50] {
            fixture.give(org, amount).await;
        }
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = fixture.store.list_ledger(org, before, 2).await.unwrap();
            let Some((position, _)) = page.last() else { break };
            before = Some(position.clone());
            seen.extend(page.iter().map(|(_, entry)| entry.amount_micros));
        }
        assert_eq!(seen, [50, 40, 30, 20, 10]);
    }

    async fn nobody_changes_or_deletes_an_entry_of_the_ledger(fixture: &Fixture) {
        fixture.paying_org(10).await;
        let mut forbidden = vec!["UPDATE ledger SET amount_micros = 11", "DELETE FROM ledger"];
        if fixture.dialect() == Dialect::Postgres {
            forbidden.push("TRUNCATE ledger");
        }
        for sql in forbidden {
            let refused = fixture.tamper(sql).await.unwrap_err().to_string();
            assert!(refused.contains("rows of the ledger are never"), "{refused}");
        }
        assert_eq!(fixture.count("SELECT amount_micros FROM ledger").await, 10);
    }

    async fn of_100_runs_that_come_at_once_exactly_the_7_that_are_covered_are_made(fixture: &Fixture) {
        let others = match fixture.dialect() {
            // A SQLite database belongs to one process.
            Dialect::Sqlite => Vec::new(),
            Dialect::Postgres => vec![Store::open(fixture.url()).await.unwrap(), Store::open(fixture.url()).await.unwrap()],
        };
        for round in 0..rounds() {
            for three in [false, true] {
                let org = fixture.paying_org(7 * 13 + 12).await;
                let stores: Vec<&Store> = std::iter::once(&fixture.store).chain(others.iter().filter(|_| three)).collect();
                let runs = join_all((0..100).map(|number| stores[number % stores.len()].create_run(fixture.paid(org, 13)))).await;
                let made = runs.iter().filter(|created| matches!(created, Ok(Created::New(_)))).count();
                let refused = runs.iter().filter(|created| matches!(created, Err(Error::InsufficientCredit(_)))).count();
                assert_eq!((made, refused), (7, 93), "round {round}: {runs:?}");
                assert_eq!(fixture.credits(org).await, (7 * 13 + 12, 7 * 13));
            }
        }
        assert_eq!(fixture.differences().await, []);
    }

    async fn runs_that_end_at_once_are_each_charged_once(fixture: &Fixture) {
        let (org, node) = (fixture.paying_org(100_000).await, fixture.node().await);
        join_all((0..64).map(|_| fixture.store.create_run(fixture.paid(org, 1_000)))).await;
        let claims = fixture.claim(node, 64).await;
        assert_eq!(claims.len(), 64);
        let ends = join_all(claims.iter().map(async |claim| {
            let fence = fixture.start(claim.fence).await.unwrap();
            fixture.store.finish_run(fence, fixture.succeeded("out")).await
        }));
        let creates = join_all((0..36).map(|_| fixture.store.create_run(fixture.paid(org, 1_000))));
        let (ends, creates) = futures_util::future::join(ends, creates).await;
        assert!(ends.iter().all(Result::is_ok) && creates.iter().all(Result::is_ok), "{ends:?} {creates:?}");
        assert_eq!(fixture.credits(org).await, (100_000 - 64 * 42, 36_000));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM ledger").await, 65);
        assert_eq!(fixture.differences().await, []);
    }

    // `docs/BILLING.md#the-ledger`: a reader that reads the newest entries up to a known one misses none.
    async fn a_charge_that_is_entered_late_is_the_newest_entry(fixture: &Fixture) {
        let (org, node, store) = (fixture.paying_org(1_000).await, fixture.node().await, &fixture.store);
        store.create_run(fixture.paid(org, 100)).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        // The worker reports its cost after another movement of credits.
        fixture.give(org, 5).await;
        store.settle_run(fence.run, fence.attempt, of_calls(micros(7)), Vec::new()).await.unwrap();
        let newest = store.list_ledger(org, None, 10).await.unwrap();
        let kinds: Vec<_> = newest.iter().map(|(_, entry)| (entry.kind, entry.amount_micros)).collect();
        assert_eq!(kinds, [(LedgerKind::Charge, -7), (LedgerKind::Grant, 5), (LedgerKind::Grant, 1_000)]);
        // So is a movement of a node with an earlier clock.
        let early = NewLedgerEntry { at: sortie_api::Timestamp::from_micros(1), ..fixture.grant(org, 3) };
        store.move_credits(early, fixture.audit(org)).await.unwrap();
        let newest = store.list_ledger(org, None, 2).await.unwrap();
        assert_eq!((newest[0].1.amount_micros, newest[1].1.amount_micros), (3, -7));
        assert!(newest[0].0.at > newest[1].0.at);
    }

    async fn an_organization_begins_with_credits_of_its_own_and_an_account_with_credits_stays(fixture: &Fixture) {
        let (store, ann) = (&fixture.store, fixture.person("ann").await);
        let org = fixture.org_of(ann).await;
        assert_eq!(fixture.count("SELECT COUNT(*) FROM credit WHERE balance_micros = 0 AND reserved_micros = 0 AND suspended = 0").await, 1);
        fixture.give(org, 5).await;
        let deletion = PersonDeletion {
            user: ann,
            password: "hash of ann".to_owned(),
            audits: vec![fixture.audit(org)],
            deleted: vec![org],
            at: fixture.now(),
        };
        let refused = store.delete_person(deletion.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("you own an organization with credits"), "{refused}");
        assert_eq!(fixture.count("SELECT suspended FROM credit").await, 0);
        fixture.give(org, -5).await;
        store.delete_person(deletion).await.unwrap();
        assert_eq!(fixture.count("SELECT suspended FROM credit").await, 1);
    }
}
