//! Licenses: the allowance of a month, the license of an engine, entitlements and deployments (`docs/LICENSES.md`).

use sortie_api::{
    DeploymentId,
    deployment::{EntitlementSource, EntitlementState},
};

use super::{
    prelude::*,
    tails::{at_once, is_made},
};
use crate::{
    Result,
    licenses::{
        Allowance, DeploymentRow, InstalledLicense, LicenseRefusal, MonthlyRuns, NewDeployment,
        PutEntitlement,
    },
};

const DAY: Duration = Duration::from_hours(24);
const USED: &str = "SELECT CAST(COALESCE(SUM(used), 0) AS BIGINT) FROM allowance";
const RUNS: &str = "SELECT COUNT(*) FROM run";

/// Month that contains `at`, with an allowance.
fn month_of(at: Timestamp, most: i64) -> MonthlyRuns {
    let (month, resets_at) = BudgetPeriod::Month.window(at).unwrap();
    MonthlyRuns {
        month,
        resets_at,
        most,
    }
}

impl Fixture {
    /// Makes a run of an engine with a license for `most` runs a month.
    pub(super) fn licensed(&self, org: OrgId, most: i64) -> NewRun {
        let run = self.new_run(org);
        let allowed = month_of(run.created_at, most);
        NewRun {
            allowance: Some(Allowance::Monthly(allowed)),
            ..run
        }
    }

    fn named(&self, org: OrgId, most: i64, key: &str) -> NewRun {
        NewRun {
            idempotency_key: Some(key.to_owned()),
            ..self.licensed(org, most)
        }
    }

    pub(super) fn license(&self, monthly_runs: i64) -> InstalledLicense {
        let at = self.now();
        InstalledLicense {
            serial: "0011".to_owned(),
            deployment: DeploymentId::new(at, [3; 10]),
            organization: OrgId::new(at, [4; 10]),
            name: "north".to_owned(),
            monthly_runs,
            expires_at: at + DAY,
            installed_at: at,
        }
    }

    pub(super) fn entitlement(&self, org: OrgId, deployments: i64) -> PutEntitlement {
        let at = self.now();
        PutEntitlement {
            org,
            monthly_runs: 500,
            deployments,
            period_end: at + 30 * DAY,
            at,
        }
    }

    pub(super) async fn entitle(&self, org: OrgId, deployments: i64) {
        let put = self.entitlement(org, deployments);
        self.store.put_entitlement(put, self.audit(org)).await.unwrap();
    }

    /// Makes a deployment on a machine with an id of 32 times `machine`.
    pub(super) fn new_deployment(&self, org: OrgId, machine: char) -> NewDeployment {
        let created_at = self.now();
        NewDeployment {
            id: DeploymentId::new(created_at, self.random()),
            org,
            name: "north".to_owned(),
            machine_id: machine.to_string().repeat(32),
            serial: "0011".to_owned(),
            created_by: sortie_api::UserId::new(created_at, [5; 10]),
            created_at,
        }
    }

    pub(super) async fn deployed(&self, org: OrgId, machine: char) -> Result<DeploymentRow> {
        let new = self.new_deployment(org, machine);
        self.store.create_deployment(new, self.audit(org)).await
    }

    /// Runs every statement of licenses.
    pub(super) async fn use_licenses(&self) {
        let (org, store, at) = (self.org().await, &self.store, self.now());
        store.put_license(self.license(1), self.audit(org)).await.unwrap();
        store.license().await.unwrap().unwrap();
        store.create_run(self.licensed(org, 1)).await.unwrap();
        // The first one is refused by the tail, the second one by a read, which also checks the key.
        store.create_run(self.licensed(org, 1)).await.unwrap_err();
        store.create_run(self.named(org, 1, "a")).await.unwrap_err();
        store.license_use(month_of(at, 0).month).await.unwrap().unwrap();
        store.delete_license(self.audit(org)).await.unwrap();
        self.entitle(org, 2).await;
        store.entitlement(org, at).await.unwrap().unwrap();
        let made = self.deployed(org, 'a').await.unwrap();
        store.list_deployments(org, at).await.unwrap();
        let ended = store.end_deployment(org, made.id, at, self.audit(org)).await;
        ended.unwrap();
    }
}

/// Stores of several nodes: three on `PostgreSQL`, one on `SQLite`, where one process owns the file.
async fn nodes(fixture: &Fixture) -> Vec<Store> {
    let mut stores = vec![fixture.store.clone()];
    if fixture.store.is_shared() {
        for _ in 0..2 {
            stores.push(Store::open(fixture.url()).await.unwrap());
        }
    }
    stores
}

fn used_up<T: std::fmt::Debug>(outcome: Result<T>) -> MonthlyRuns {
    match outcome {
        Err(Error::Unlicensed(LicenseRefusal::Used(allowed))) => allowed,
        other => panic!("{other:?}"),
    }
}

both! {
    async fn runs_count_in_their_month_until_the_allowance_is_used(fixture: &Fixture, org: OrgId, store: &Store) {
        for count in 1..=3 {
            assert!(is_made(&store.create_run(fixture.licensed(org, 3)).await));
            assert_eq!(fixture.count(USED).await, count);
        }
        let refused = store.create_run(fixture.licensed(org, 3)).await;
        let text = refused.as_ref().unwrap_err().to_string();
        assert_eq!(
            text,
            "license: all 3 runs of this month are used, the next month begins at 2099-12-01T00:00:00.000Z"
        );
        used_up(refused);
        // A read makes the second refusal. No run was created.
        used_up(store.create_run(fixture.licensed(org, 3)).await);
        let counts = async || (fixture.count(RUNS).await, fixture.count(USED).await);
        assert_eq!(counts().await, (3, 3));
        for table in ["SELECT COUNT(*) FROM queue", "SELECT COUNT(*) FROM event", "SELECT COUNT(*) FROM run_definition"] {
            assert_eq!(fixture.count(table).await, 3, "{table}");
        }
        // A larger license has room immediately, and the next month starts from zero.
        assert!(is_made(&store.create_run(fixture.licensed(org, 4)).await));
        let later = fixture.now() + 40 * DAY;
        let next = NewRun { created_at: later, allowance: Some(Allowance::Monthly(month_of(later, 1))), ..fixture.new_run(org) };
        assert!(is_made(&store.create_run(next).await));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM allowance WHERE used IN (1, 4)").await, 2);
    }

    async fn an_engine_without_a_license_has_no_statement_for_one(fixture: &Fixture, org: OrgId, store: &Store) {
        assert!(is_made(&store.create_run(fixture.new_run(org)).await));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM allowance").await, 0);
        assert!(!store.db.faults().statements().iter().any(|sql| sql.contains("INTO allowance")));
        assert!(is_made(&store.create_run(fixture.licensed(org, 1)).await));
        assert!(store.db.faults().statements().iter().any(|sql| sql.contains("INTO allowance")));
    }

    async fn a_license_of_no_runs_creates_none(fixture: &Fixture, org: OrgId, store: &Store) {
        used_up(store.create_run(fixture.licensed(org, 0)).await);
        assert_eq!((fixture.count(RUNS).await, fixture.count("SELECT COUNT(*) FROM allowance").await), (0, 0));
    }

    async fn a_hundred_creates_at_once_use_an_allowance_of_seven_exactly(fixture: &Fixture) {
        let (org, stores) = (fixture.org().await, nodes(fixture).await);
        for count in [1, stores.len()] {
            let before = fixture.count(USED).await;
            let allowed = before + 7;
            let creates = (0..100).map(|number| {
                let store = &stores[number % count];
                store.create_run(fixture.licensed(org, allowed))
            });
            let answers = at_once(&fixture.store, creates).await;
            assert_eq!(answers.iter().filter(|answer| is_made(answer)).count(), 7);
            for refused in answers.into_iter().filter(|answer| !is_made(answer)) {
                used_up(refused);
            }
            assert_eq!((fixture.count(USED).await, fixture.count(RUNS).await), (allowed, allowed));
        }
    }

    async fn a_repeated_key_uses_nothing_and_is_answered_without_an_allowance(fixture: &Fixture, org: OrgId, store: &Store) {
        let Ok(Created::New(first)) = store.create_run(fixture.named(org, 1, "once")).await else { panic!() };
        let again = async |allowance| {
            let run = NewRun { allowance: Some(allowance), ..fixture.named(org, 1, "once") };
            matches!(store.create_run(run).await, Ok(Created::Existing(run)) if run.id == first.id)
        };
        let month = month_of(fixture.now(), 1);
        assert!(again(Allowance::Monthly(month)).await);
        used_up(store.create_run(fixture.licensed(org, 1)).await);
        assert!(again(Allowance::Monthly(month)).await, "after a refusal, by the read");
        assert!(again(Allowance::Ended(fixture.now())).await);
        assert_eq!((fixture.count(USED).await, fixture.count(RUNS).await), (1, 1));
    }

    async fn an_expired_license_creates_nothing(fixture: &Fixture, org: OrgId, store: &Store, at: Timestamp) {
        let ended = || NewRun { allowance: Some(Allowance::Ended(at)), ..fixture.new_run(org) };
        let refusal = Error::Unlicensed(LicenseRefusal::Expired(at));
        assert_eq!(store.create_run(ended()).await.unwrap_err(), refusal);
        let saved = fixture.schedule(org).await.id;
        // A run that is part of a larger transaction is refused as well, and the transaction leaves nothing.
        let before = store.get_schedule(org, saved).await.unwrap().state;
        assert_eq!(store.trigger_schedule(saved, ended()).await.unwrap_err(), refusal);
        assert_eq!(store.get_schedule(org, saved).await.unwrap().state, before);
        assert_eq!(fixture.count(RUNS).await, 0);
    }

    async fn the_run_of_a_schedule_counts_too(fixture: &Fixture, org: OrgId, store: &Store) {
        let saved = fixture.schedule(org).await.id;
        store.trigger_schedule(saved, fixture.licensed(org, 1)).await.unwrap();
        used_up(store.trigger_schedule(saved, fixture.licensed(org, 1)).await);
        assert_eq!((fixture.count(USED).await, fixture.count(RUNS).await), (1, 1));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM fire").await, 1);
    }

    async fn a_budget_that_refuses_uses_no_allowance_and_the_other_way_round(fixture: &Fixture, org: OrgId, store: &Store) {
        fixture.budget(org, &BudgetScope::Organization, 10).await;
        let costing = |max_cost, most| NewRun { max_cost: micros(max_cost), ..fixture.licensed(org, most) };
        assert!(matches!(store.create_run(costing(11, 1)).await, Err(Error::OverBudget(_))));
        assert_eq!(fixture.count(USED).await, 0);
        assert!(is_made(&store.create_run(costing(6, 1)).await));
        // Both would refuse: the budget is checked first.
        assert!(matches!(store.create_run(costing(6, 1)).await, Err(Error::OverBudget(_))));
        used_up(store.create_run(costing(4, 1)).await);
        let held = "SELECT CAST(COALESCE(SUM(held_micros), 0) AS BIGINT) FROM budget_window";
        assert_eq!((fixture.count(held).await, fixture.holds().await), (6, 1));
    }

    async fn an_ended_run_is_not_given_back(fixture: &Fixture, org: OrgId, node: NodeId, store: &Store) {
        let Ok(Created::New(run)) = store.create_run(fixture.licensed(org, 9)).await else { panic!() };
        store.cancel_run(org, run.id, fixture.now()).await.unwrap();
        store.create_run(fixture.licensed(org, 9)).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert_eq!(fixture.count(USED).await, 2);
    }

    async fn a_license_is_installed_replaced_and_deleted_and_the_count_stays(fixture: &Fixture, org: OrgId, store: &Store) {
        let month = month_of(fixture.now(), 0).month;
        assert_eq!((store.license().await.unwrap(), store.license_use(month).await.unwrap()), (None, None));
        let first = fixture.license(7);
        store.put_license(first.clone(), fixture.audit(org)).await.unwrap();
        assert_eq!(store.license().await.unwrap().as_ref(), Some(&first));
        store.create_run(fixture.licensed(org, 7)).await.unwrap();
        let second = InstalledLicense { serial: "0022".to_owned(), monthly_runs: 8, name: "south".to_owned(), ..fixture.license(8) };
        store.put_license(second.clone(), fixture.audit(org)).await.unwrap();
        let found = store.license_use(month).await.unwrap().unwrap();
        assert_eq!((found.license, found.used), (second, 1));
        store.delete_license(fixture.audit(org)).await.unwrap();
        assert_eq!(store.license().await.unwrap(), None);
        assert_eq!(store.delete_license(fixture.audit(org)).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.count(USED).await, 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM audit").await, 3);
    }

    async fn a_license_that_another_node_has_replaced_counts_at_once(fixture: &Fixture, org: OrgId, store: &Store) {
        store.put_license(fixture.license(2), fixture.audit(org)).await.unwrap();
        // The node still has a license with more runs, and then one with fewer.
        for most in [9, 1] {
            assert!(is_made(&store.create_run(fixture.licensed(org, most)).await));
        }
        used_up(store.create_run(fixture.licensed(org, 9)).await);
        assert_eq!(fixture.count(USED).await, 2);
        store.delete_license(fixture.audit(org)).await.unwrap();
        assert!(is_made(&store.create_run(fixture.licensed(org, 8)).await));
    }

    async fn a_grant_is_set_and_replaced(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store, at: Timestamp) {
        assert_eq!(store.entitlement(org, at).await.unwrap(), None);
        fixture.entitle(org, 2).await;
        fixture.deployed(org, 'a').await.unwrap();
        let more = PutEntitlement { monthly_runs: 9, ..fixture.entitlement(org, 5) };
        store.put_entitlement(more.clone(), fixture.audit(org)).await.unwrap();
        let found = store.entitlement(org, at).await.unwrap().unwrap();
        assert_eq!((found.plan, found.source, found.state), (None, EntitlementSource::Operator, EntitlementState::Active));
        assert_eq!((found.monthly_runs, found.deployments, found.deployments_used), (9, 5, 1));
        assert_eq!(found.period_end, more.period_end);
        assert_eq!(store.entitlement(other, at).await.unwrap(), None);
        let nobody = OrgId::new(fixture.now(), [9; 10]);
        let put = fixture.entitlement(nobody, 1);
        assert_eq!(store.put_entitlement(put, fixture.audit(nobody)).await.unwrap_err(), Error::NotFound);
    }

    async fn deployments_are_as_many_as_the_entitlement_has(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        let not_entitled = Error::Unlicensed(LicenseRefusal::NotEntitled);
        assert_eq!(fixture.deployed(org, 'a').await.unwrap_err(), not_entitled);
        fixture.entitle(org, 3).await;
        fixture.entitle(other, 1).await;
        let machines = ['a', 'b', 'c', 'd', 'e', 'f', '0', '1'];
        let made = at_once(store, machines.map(|machine| Box::pin(fixture.deployed(org, machine)))).await;
        let full = Error::Unlicensed(LicenseRefusal::Deployments(3));
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 3);
        assert!(made.iter().all(|made| made.as_ref().err().is_none_or(|error| *error == full)), "{made:?}");
        let listed = store.list_deployments(org, fixture.now()).await.unwrap();
        let mut created: Vec<_> = made.into_iter().flatten().collect();
        created.sort_by_key(|row| row.id);
        assert_eq!(listed, created);
        assert_eq!((listed[0].monthly_runs, listed[0].expires_at > fixture.now()), (500, true));
        assert_eq!(store.list_deployments(other, fixture.now()).await.unwrap(), []);
        let first = listed[0].id;
        let foreign = store.end_deployment(other, first, fixture.now(), fixture.audit(other)).await;
        assert_eq!(foreign.unwrap_err(), Error::NotFound);
        store.end_deployment(org, first, fixture.now(), fixture.audit(org)).await.unwrap();
        let again = store.end_deployment(org, first, fixture.now(), fixture.audit(org)).await;
        assert_eq!(again.unwrap_err(), Error::NotFound);
        // Its machine is free. The ended one is listed while its license works.
        let machine = listed[0].machine_id.chars().next().unwrap();
        fixture.deployed(org, machine).await.unwrap();
        assert_eq!(store.list_deployments(org, fixture.now()).await.unwrap().len(), 4);
        let expired = fixture.now() + 31 * DAY;
        assert_eq!(store.list_deployments(org, expired).await.unwrap().len(), 3);
        fixture.entitle(org, 4).await;
        let same = fixture.deployed(org, machine).await.unwrap_err();
        assert_eq!(same, Error::Conflict("the installation has a deployment already"));
        fixture.deployed(other, machine).await.unwrap();
    }

    async fn a_grant_that_has_ended_adds_no_deployment(fixture: &Fixture, org: OrgId, store: &Store) {
        let put = PutEntitlement { period_end: fixture.now(), ..fixture.entitlement(org, 3) };
        store.put_entitlement(put, fixture.audit(org)).await.unwrap();
        let refused = fixture.deployed(org, 'a').await.unwrap_err();
        assert_eq!(refused, Error::Unlicensed(LicenseRefusal::NotEntitled));
    }

    async fn deleted_deployments_whose_licenses_work_are_limited(fixture: &Fixture, org: OrgId, store: &Store) {
        fixture.entitle(org, 1).await;
        for _ in 0..100 {
            let made = fixture.deployed(org, 'a').await.unwrap();
            store.end_deployment(org, made.id, fixture.now(), fixture.audit(org)).await.unwrap();
        }
        let refused = fixture.deployed(org, 'a').await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(rule) if rule.starts_with("too many deleted deployments")), "{refused}");
        // Expired ones do not count, and are deleted.
        let later = fixture.now() + 31 * DAY;
        let put = PutEntitlement { period_end: later + DAY, ..fixture.entitlement(org, 1) };
        store.put_entitlement(put, fixture.audit(org)).await.unwrap();
        let new = NewDeployment { created_at: later, ..fixture.new_deployment(org, 'a') };
        store.create_deployment(new, fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM deployment").await, 1);
    }
}
