//! Subscriptions to licenses: the effect of a reading, and the precedence of a grant (`docs/LICENSES.md`).

use sortie_api::deployment::{
    EntitlementSource,
    EntitlementState::{self, Active, Ended, PastDue},
};

use super::{people::conflicts, prelude::*};
use crate::{
    Result,
    licenses::{
        LicenseRefusal, PutEntitlement, ReadSubscription,
        RecordedSubscription::{self, Changed, Known, NoPlan, Outdated, Second},
        SubscribedPlan,
    },
};

const DAY: Duration = Duration::from_hours(24);
const ENTRIES: &str = "SELECT COUNT(*) FROM audit WHERE action = 'license.subscription'";

fn plan(name: &str, deployments: i64) -> SubscribedPlan {
    SubscribedPlan {
        name: name.to_owned(),
        monthly_runs: 1_000,
        deployments,
    }
}

impl Fixture {
    /// Makes an unrecorded reading of an active subscription to two deployments.
    pub(super) fn reading(&self, org: OrgId, id: &str) -> ReadSubscription {
        ReadSubscription {
            id: id.to_owned(),
            org,
            plan: Some(plan("team", 2)),
            state: Active,
            period_end: self.now() + 30 * DAY,
            renews: true,
            since: None,
        }
    }

    /// Records a reading that began now.
    async fn reads(&self, reading: &ReadSubscription) -> Result<RecordedSubscription> {
        let since = self.store.subscription_revision(&reading.id).await.unwrap();
        let reading = ReadSubscription {
            since,
            ..reading.clone()
        };
        self.records(&reading).await
    }

    async fn records(&self, reading: &ReadSubscription) -> Result<RecordedSubscription> {
        let audit = crate::access::Audit {
            action: "license.subscription",
            ..self.audit(reading.org)
        };
        self.store.record_subscription(reading.clone(), audit).await
    }

    /// Runs every statement of subscriptions.
    pub(super) async fn use_subscriptions(&self) {
        let org = self.org().await;
        assert_eq!(self.reads(&self.reading(org, "sub_plans")).await, Ok(Changed));
        self.store.subscription(org).await.unwrap().unwrap();
    }
}

both! {
    async fn a_subscription_entitles_its_organization_until_it_ends(fixture: &Fixture, org: OrgId, store: &Store, at: Timestamp) {
        let bought = fixture.reading(org, "sub_1");
        assert_eq!(fixture.reads(&bought).await, Ok(Changed));
        let found = store.entitlement(org, at).await.unwrap().unwrap();
        assert_eq!((found.plan.as_deref(), found.source, found.state), (Some("team"), EntitlementSource::Stripe, Active));
        assert_eq!((found.monthly_runs, found.deployments, found.period_end), (1_000, 2, bought.period_end));
        let made = fixture.deployed(org, 'a').await.unwrap();
        assert_eq!((made.monthly_runs, made.expires_at), (1_000, bought.period_end));

        // The same again changes nothing, and is not in the audit log.
        assert_eq!(fixture.reads(&bought).await, Ok(Known));
        assert_eq!((fixture.count(ENTRIES).await, store.subscription(org).await.unwrap().unwrap().revision), (1, 1));
        let more = ReadSubscription { plan: Some(plan("company", 4)), renews: false, ..bought.clone() };
        assert_eq!(fixture.reads(&more).await, Ok(Changed));
        let row = store.subscription(org).await.unwrap().unwrap();
        assert_eq!((row.id.as_str(), &row.plan, row.renews, row.revision), ("sub_1", &plan("company", 4), false, 2));

        let ended = ReadSubscription { state: Ended, period_end: at, ..more };
        assert_eq!(fixture.reads(&ended).await, Ok(Changed));
        let refused = fixture.deployed(org, 'b').await.unwrap_err();
        assert_eq!(refused, Error::Unlicensed(LicenseRefusal::NotEntitled));
        let found = store.entitlement(org, at).await.unwrap().unwrap();
        assert_eq!((found.state, found.deployments_used), (Ended, 1));
        // Another one takes its place.
        assert_eq!(fixture.reads(&fixture.reading(org, "sub_2")).await, Ok(Changed));
        fixture.deployed(org, 'b').await.unwrap();
        assert_eq!(fixture.count(ENTRIES).await, 4);
        assert_eq!(store.subscription_revision("sub_1").await, Ok(None));
        assert_eq!(store.subscription_revision("sub_2").await, Ok(Some(4)));
    }

    async fn what_was_read_earlier_replaces_nothing_that_was_read_later(fixture: &Fixture, org: OrgId, store: &Store) {
        let (first, second) = (fixture.reading(org, "sub_1"), fixture.reading(org, "sub_1"));
        let ended = ReadSubscription { state: Ended, renews: false, ..first.clone() };
        assert_eq!(fixture.records(&first).await, Ok(Changed));
        // Both readings began before the first one was recorded.
        assert_eq!(fixture.records(&second).await, Ok(Outdated));
        let late = ReadSubscription { since: Some(1), ..second };
        assert_eq!(fixture.records(&ReadSubscription { since: Some(1), ..ended.clone() }).await, Ok(Changed));
        assert_eq!(fixture.records(&late).await, Ok(Outdated));
        assert_eq!(store.subscription(org).await.unwrap().unwrap().state, Ended);
        // Another subscription has replaced it.
        assert_eq!(fixture.reads(&fixture.reading(org, "sub_2")).await, Ok(Changed));
        assert_eq!(fixture.records(&ReadSubscription { since: Some(2), ..late }).await, Ok(Outdated));
        assert_eq!(fixture.reads(&ended).await, Ok(Known));
        assert_eq!(store.subscription(org).await.unwrap().unwrap().id, "sub_2");
    }

    async fn a_second_subscription_and_an_unknown_price_do_not_count(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        let unknown = ReadSubscription { plan: None, ..fixture.reading(org, "sub_1") };
        assert_eq!(fixture.reads(&unknown).await, Ok(NoPlan));
        let ended = ReadSubscription { state: Ended, ..fixture.reading(org, "sub_1") };
        assert_eq!(fixture.reads(&ended).await, Ok(Known), "it was never recorded");
        assert_eq!(store.subscription(org).await, Ok(None));
        assert_eq!(fixture.reads(&fixture.reading(org, "sub_1")).await, Ok(Changed));
        // The plan was removed from the configuration: the purchase stays, and its end is updated.
        let later = ReadSubscription { period_end: unknown.period_end + DAY, ..unknown };
        assert_eq!(fixture.reads(&later).await, Ok(Changed));
        let row = store.subscription(org).await.unwrap().unwrap();
        assert_eq!((row.plan, row.period_end), (plan("team", 2), later.period_end));
        for state in [Active, PastDue] {
            let second = ReadSubscription { state, ..fixture.reading(org, "sub_2") };
            assert_eq!(fixture.reads(&second).await, Ok(Second));
        }
        let late = ReadSubscription { state: PastDue, ..fixture.reading(org, "sub_1") };
        assert_eq!(fixture.reads(&late).await, Ok(Changed));
        assert_eq!(fixture.reads(&fixture.reading(org, "sub_2")).await, Ok(Second));
        assert_eq!(store.subscription(org).await.unwrap().unwrap().id, "sub_1");
        // A subscription belongs to one organization.
        assert!(fixture.records(&ReadSubscription { since: None, ..fixture.reading(other, "sub_1") }).await.is_err());
        let nobody = OrgId::new(fixture.now(), [9; 10]);
        assert_eq!(fixture.reads(&fixture.reading(nobody, "sub_9")).await, Err(Error::NotFound));
        assert_eq!(fixture.count(ENTRIES).await, 3);
    }

    async fn late_payments_in_a_row_keep_the_first_end(fixture: &Fixture, org: OrgId, store: &Store, at: Timestamp) {
        let read = async |state: EntitlementState, days: u32| {
            let reading = ReadSubscription { state, period_end: at + days * DAY, ..fixture.reading(org, "sub_1") };
            fixture.reads(&reading).await.unwrap();
            store.subscription(org).await.unwrap().unwrap().period_end
        };
        read(Active, 30).await;
        assert_eq!(read(PastDue, 44).await, at + 44 * DAY);
        fixture.deployed(org, 'a').await.unwrap();
        assert_eq!(read(PastDue, 74).await, at + 44 * DAY, "another period that was not paid");
        assert_eq!(read(PastDue, 40).await, at + 40 * DAY, "cancelled before");
        assert_eq!(read(Active, 90).await, at + 90 * DAY);
        assert_eq!(read(PastDue, 104).await, at + 104 * DAY);
    }

    async fn a_grant_comes_before_a_subscription_while_it_lasts(fixture: &Fixture, org: OrgId, store: &Store, at: Timestamp) {
        let source = async |after: Duration| {
            let found = store.entitlement(org, at + after).await.unwrap().unwrap();
            (found.source, found.deployments)
        };
        let bought = fixture.reading(org, "sub_1");
        assert_eq!(fixture.reads(&bought).await, Ok(Changed));
        let granted = PutEntitlement { period_end: at + 10 * DAY, ..fixture.entitlement(org, 0) };
        store.put_entitlement(granted, fixture.audit(org)).await.unwrap();
        assert_eq!(source(9 * DAY).await, (EntitlementSource::Operator, 0));
        let refused = fixture.deployed(org, 'a').await.unwrap_err();
        assert_eq!(refused, Error::Unlicensed(LicenseRefusal::Deployments(0)));
        // The grant loses no change of the subscription, and a change of the subscription does not affect the
        // grant.
        let renewed = ReadSubscription { period_end: at + 60 * DAY, ..bought };
        assert_eq!(fixture.reads(&renewed).await, Ok(Changed));
        assert_eq!(source(9 * DAY).await, (EntitlementSource::Operator, 0));
        assert_eq!(source(10 * DAY).await, (EntitlementSource::Stripe, 2));
        // If both have ended, the one that ended last is returned.
        assert_eq!(source(90 * DAY).await, (EntitlementSource::Stripe, 2));
        let ended = ReadSubscription { state: Ended, period_end: at + DAY, ..renewed };
        assert_eq!(fixture.reads(&ended).await, Ok(Changed));
        assert_eq!(source(90 * DAY).await, (EntitlementSource::Operator, 0));
    }

    async fn an_organization_is_not_deleted_while_stripe_charges_it(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, store) = (fixture.org_of(ann).await, &fixture.store);
        let bought = fixture.reading(org, "sub_1");
        assert_eq!(fixture.reads(&bought).await, Ok(Changed));
        conflicts(&store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await);
        let account = PersonDeletion {
            user: ann,
            password: "hash of ann".to_owned(),
            audits: vec![fixture.audit(org)],
            deleted: vec![org],
            at: fixture.now(),
        };
        conflicts(&store.delete_person(account).await);
        let cancelled = ReadSubscription { renews: false, ..bought };
        assert_eq!(fixture.reads(&cancelled).await, Ok(Changed));
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        // A later report about it changes nothing.
        let ended = ReadSubscription { state: Ended, ..cancelled };
        assert_eq!(fixture.reads(&ended).await, Err(Error::NotFound));
        fixture.erase(org).await;
        assert_eq!(store.subscription(org).await, Ok(None));
    }
}
