//! Deletion of organizations, and the rows that remain afterwards.

use sortie_testkit::list;

use super::{people::conflicts, prelude::*, purchases::card, usage::leaving};
use crate::{money::NewTopup, organizations::OrganizationDeletion};

const EVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// Tables that keep rows of a deleted organization.
const KEPT: [&str; 6] = list! {
    "organization", "audit", "usage_day", "usage_month", "credit", "auto_topup_consent",
};

impl Fixture {
    pub(super) fn deletion(&self, org: OrgId, owner: UserId) -> OrganizationDeletion {
        OrganizationDeletion {
            org,
            owner,
            name: "ours".to_owned(),
            at: self.now(),
        }
    }

    /// Makes an organization with rows in every table that has an organization. Returns it and its owner.
    pub(super) async fn full_organization(&self) -> (OrgId, UserId) {
        let (ann, bob) = (self.person("del-a").await, self.person("del-b").await);
        let (org, store) = (self.org_of(ann).await, &self.store);
        self.member(org, bob, Role::Member).await;
        self.invite(org, ann, "del-c", Role::Member).await;
        self.key(org, Role::Admin).await;
        let grant = self.new_grant(org, bob, Role::Member);
        store.create_grant(grant, self.audit(org)).await.unwrap();
        let connection = self.connection(org, "api").await;
        let flow = Self::flow(&connection, 9);
        store
            .begin_authorization(flow, connection.at, self.audit(org))
            .await
            .unwrap();
        self.schedule(org).await;
        self.put_workflow_with(org, "uses", &["api"], &[]).await;
        self.budget(org, &BudgetScope::Organization, 10_000_000).await;
        self.entitle(org, 3).await;
        self.deployed(org, 'a').await.unwrap();
        let cancelled = crate::licenses::ReadSubscription {
            renews: false,
            ..self.reading(org, "sub_1")
        };
        store
            .record_subscription(cancelled, self.audit(org))
            .await
            .unwrap();
        let settings = self.new_auto_topup(org);
        store.put_auto_topup(settings, self.audit(org)).await.unwrap();
        let file = self.new_file(org, "a file", 7).await;
        store.create_file(file, self.audit(org)).await.unwrap();
        let mut run = self.with_callback(org, "del:1");
        run.labels.tags = vec!["red".to_owned()];
        run.labels.metadata = [("color".to_owned(), "red".to_owned())].into();
        run.inline = Some(InlineCredentials {
            sealed: b"x".to_vec(),
            names: "[]".to_owned(),
        });
        store.create_run(run).await.unwrap();
        (org, ann)
    }

    /// Deletes all remaining rows of a deleted organization, step by step as the nodes do.
    pub(super) async fn erase(&self, org: OrgId) {
        let store = &self.store;
        for (_, run) in store.unsettled_runs(org, None, 100).await.unwrap() {
            store.cancel_run(org, run, self.now()).await.unwrap();
        }
        while let Some(due) = store.uncounted_usage(org).await.unwrap() {
            assert_eq!(
                store.count_usage(due, leaving(0)).await.unwrap(),
                crate::money::CountedPart::Counted(0)
            );
        }
        let expiry = Expiry {
            org,
            finished_before: EVER,
            created_before: EVER,
            check_at: self.now(),
            open_callbacks: OpenCallbacks::Drop,
        };
        let batch = Batch {
            runs: 100,
            events: 1_000,
        };
        store
            .delete_expired_runs(expiry, batch, &mut crate::runs::Undeletable::default())
            .await
            .unwrap();
        for schedule in store.schedules_to_erase(org, 10).await.unwrap() {
            store.erase_schedule(org, schedule).await.unwrap();
        }
        while store.erase_files(org, self.now(), 1).await.unwrap() > 0 {}
        while store.erase_settings(org, 1).await.unwrap() > 0 {}
    }

    /// Tables with rows of an organization.
    async fn tables_of(&self, org: OrgId) -> Vec<String> {
        let sql = match self.dialect() {
            Dialect::Sqlite => {
                "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
                 WHERE m.type = 'table' AND (c.name = 'org_id' OR m.name = 'organization' AND c.name = 'id') ORDER BY m.name"
            }
            Dialect::Postgres => {
                "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns \
                 WHERE table_schema = 'public' AND (column_name = 'org_id' OR table_name = 'organization' AND column_name = 'id') \
                 ORDER BY table_name"
            }
        };
        let tables = self
            .store
            .db
            .read(move |tx| tx.query_all(sql, vals![]))
            .await
            .unwrap();
        let mut found = Vec::new();
        for row in &tables {
            let (table, column) = (row.text(0).unwrap().to_owned(), row.text(1).unwrap());
            // The text is leaked, because the store identifies a statement by its address.
            let count: &'static str =
                Box::leak(format!("SELECT COUNT(*) FROM {table} WHERE {column} = $1").into_boxed_str());
            let rows = self
                .store
                .db
                .read(move |tx| tx.query_one(count, vals![org])?.int(0))
                .await;
            if rows.unwrap() > 0 {
                found.push(table);
            }
        }
        found
    }
}

both! {
    async fn nothing_is_left_of_a_deleted_organization_but_its_row_its_credits_its_audit_log_and_its_usage(fixture: &Fixture) {
        let (org, ann) = fixture.full_organization().await;
        let (other, _) = (fixture.org_of(ann).await, fixture.now());
        fixture.key(other, Role::Admin).await;
        fixture.queued(other).await;
        let theirs = fixture.tables_of(other).await;
        let full = fixture.tables_of(org).await;
        for table in [
            "api_key", "budget", "budget_window", "connection", "delivery", "deployment", "entitlement", "file", "blob",
            "invitation",
            "membership", "oauth_flow", "oauth_grant", "queue", "run", "run_label", "schedule", "subscription", "workflow",
        ] {
            assert!(full.iter().any(|of| of == table), "{table} has no row: {full:?}");
        }
        assert!(fixture.holds().await > 0);
        let store = &fixture.store;
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        let seen = store.operated_organization(org).await.unwrap();
        assert!(seen.deleted_at.is_some() && seen.suspended_at.is_some(), "{seen:?}");
        for gone in ["api_key", "connection", "invitation", "membership", "oauth_flow", "oauth_grant"] {
            assert!(!fixture.tables_of(org).await.iter().any(|of| of == gone), "{gone} gives access at once");
        }
        assert_eq!(store.deleted_organizations(None, 10).await.unwrap().items, [org]);
        assert!(!store.organization_erased(org, fixture.now(), fixture.now()).await.unwrap(), "much is left");
        fixture.erase(org).await;
        let later = fixture.now();
        assert!(!store.organization_erased(org, later, later).await.unwrap(), "the content is left");
        assert_eq!(fixture.sweep_blobs(fixture.now()).await.len(), 1);
        assert!(!store.organization_erased(org, seen.deleted_at.unwrap(), later).await.unwrap(), "it is too early");
        assert!(store.organization_erased(org, later, later).await.unwrap());
        assert!(!store.organization_erased(org, later, later).await.unwrap(), "once");
        let mut kept = KEPT.map(str::to_owned);
        kept.sort();
        assert_eq!(fixture.tables_of(org).await, kept);
        assert_eq!(store.deleted_organizations(None, 10).await.unwrap().items, []);
        // The other organization keeps all of its rows.
        assert_eq!(fixture.tables_of(other).await, theirs);
    }

    async fn the_card_of_a_deleted_organization_is_forgotten_and_its_customer_and_consents_stay(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        let (org, other) = (fixture.org_of(ann).await, fixture.org_of(ann).await);
        for (of, customer) in [(org, "cus_1"), (other, "cus_2")] {
            store.keep_customer(of, customer).await.unwrap();
            store.keep_card(of, Some(card("pm_1", "checkout")), fixture.now()).await.unwrap();
            store.put_auto_topup(fixture.new_auto_topup(of), fixture.audit(of)).await.unwrap();
        }
        let topup = fixture.ordered(NewTopup { save_card: true, ..fixture.new_topup(org) }).await;
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        let forgotten = async || {
            let account = store.billing_account(org).await.unwrap().unwrap();
            assert_eq!((account.customer.as_str(), account.card, account.seen_at), ("cus_1", None, None));
        };
        forgotten().await;
        // A page that is paid late, and a check at Stripe that was in progress.
        let late = PaidTopup { card: Some(card("pm_2", "checkout")), ..fixture.paid_for(&topup) };
        assert_eq!(store.credit_purchase(late).await, Ok(Appended::New));
        store.keep_card(org, Some(card("pm_2", "portal")), fixture.now()).await.unwrap();
        forgotten().await;
        fixture.erase(org).await;
        let consents = "SELECT COUNT(*) FROM auto_topup_consent WHERE card_brand = 'visa' AND card_last4 = '4242'";
        assert_eq!(fixture.count(consents).await, 2, "they prove that the cardholder has agreed");
        let account = store.billing_account(other).await.unwrap().unwrap();
        assert_eq!(account.card, Some(card("pm_1", "checkout")));
    }

    async fn an_organization_is_deleted_by_its_owner_and_its_name(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (org, store) = (fixture.org_of(ann).await, &fixture.store);
        fixture.member(org, bob, Role::Admin).await;
        conflicts(&store.delete_organization(fixture.deletion(org, bob), fixture.audit(org)).await);
        let another = OrganizationDeletion { name: "theirs".to_owned(), ..fixture.deletion(org, ann) };
        conflicts(&store.delete_organization(another, fixture.audit(org)).await);
        assert_eq!(store.organizations_of(bob, None, 10).await.unwrap().len(), 1);
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        assert_eq!(store.organizations_of(bob, None, 10).await.unwrap(), []);
        assert_eq!(store.membership(org, ann).await.unwrap(), None);
        let again = store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await;
        assert_eq!(again.unwrap_err(), Error::NotFound);
        // The operator cannot bring it back.
        conflicts(&store.resume_organization(org, fixture.audit(org)).await);
        conflicts(&store.suspend_organization(org, None, fixture.now(), fixture.audit(org)).await);
    }

    async fn nothing_is_added_to_a_deleted_organization(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, store) = (fixture.org_of(ann).await, &fixture.store);
        let invited = fixture.invite(org, ann, "bob", Role::Member).await;
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        let before = fixture.tables_of(org).await;
        let key = fixture.new_key(org, Role::Member);
        assert_eq!(store.create_key(key, fixture.audit(org)).await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.put_workflow(org, "w", "x").await.unwrap_err(), Error::NotFound);
        let bob = fixture.person("bob").await;
        let accepted = store.accept_invitation(&invited, bob, fixture.now(), fixture.audit(org)).await;
        assert_eq!(accepted.unwrap_err(), Error::NotFound);
        let invitation = fixture.new_invitation(org, ann, "cat", Role::Member);
        let invited = store.create_invitation(invitation, 5, None, fixture.audit(org)).await;
        assert_eq!(invited.unwrap_err(), Error::NotFound);
        assert_eq!(store.create_run(fixture.new_run(org)).await.unwrap_err(), Error::Suspended);
        let grant = fixture.new_grant(org, ann, Role::Member);
        store.create_grant(grant, fixture.audit(org)).await.unwrap_err();
        let renamed = store.rename_organization(org, "new", fixture.audit(org)).await;
        assert_eq!(renamed.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.tables_of(org).await, before);
    }

    async fn of_deletions_and_other_changes_at_once_each_is_done_before_or_not_at_all(fixture: &Fixture) {
        for round in 0..8 {
            let (ann, bob) = (
                fixture.person(&format!("ann{round}")).await,
                fixture.person(&format!("bob{round}")).await,
            );
            let (org, store) = (fixture.org_of(ann).await, &fixture.store);
            let invited = fixture.invite(org, ann, &format!("bob{round}"), Role::Member).await;
            let deletions = join_all((0..4).map(|_| store.delete_organization(fixture.deletion(org, ann), fixture.audit(org))));
            let accepts = join_all((0..4).map(|_| store.accept_invitation(&invited, bob, fixture.now(), fixture.audit(org))));
            let keys = join_all((0..4).map(|_| store.create_key(fixture.new_key(org, Role::Member), fixture.audit(org))));
            let (deleted, _, _) = tokio::join!(deletions, accepts, keys);
            assert_eq!(deleted.iter().filter(|done| done.is_ok()).count(), 1, "{deleted:?}");
            assert_eq!(fixture.tables_of(org).await, ["audit", "credit", "organization"], "round {round}");
        }
    }

    async fn a_run_at_work_is_waited_for_and_counted(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, store, node) = (fixture.org_of(ann).await, &fixture.store, fixture.node().await);
        let fence = fixture.running(org, node).await;
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        let unsettled = store.unsettled_runs(org, None, 10).await.unwrap();
        assert_eq!(unsettled.iter().map(|(_, run)| *run).collect::<Vec<_>>(), [fence.run]);
        assert_eq!(store.unsettled_runs(org, Some(unsettled[0]), 10).await.unwrap(), []);
        let cancelled = store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        assert!(matches!(cancelled, crate::runs::Cancelled::Now(run) if run.status == RunStatus::Cancelled));
        let due = store.uncounted_usage(org).await.unwrap().unwrap();
        assert_eq!(store.count_usage(due, leaving(0)).await.unwrap(), crate::money::CountedPart::Waits, "its cost is not known yet");
        let cost = Micros::new(70).unwrap();
        store.settle_run(fence.run, fence.attempt, of_calls(cost), Vec::new()).await.unwrap();
        assert_eq!(store.count_usage(due, leaving(0)).await.unwrap(), crate::money::CountedPart::Counted(0));
        assert_eq!(store.uncounted_usage(org).await.unwrap(), None);
        fixture.erase(org).await;
        assert_eq!(fixture.tables_of(org).await, ["audit", "credit", "organization", "usage_day", "usage_month"]);
        assert_eq!(fixture.count("SELECT CAST(SUM(cost_micros) AS BIGINT) FROM usage_day").await, 70);
    }
}
