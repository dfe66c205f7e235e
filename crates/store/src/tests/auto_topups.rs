//! Automatic purchases: when one begins, how it ends, and its effect on the settings (`docs/BILLING.md`).

use sortie_api::{ConsentId, PaymentId, TopupId};

use super::prelude::*;
use crate::money::{
    BeginAutoTopup, NewAutoTopup, SETTINGS_CHANGED, SavedCard, SentAutoTopup, TakeBack, TopupRow,
    UnpaidAutoTopup,
};

const HOUR: Duration = Duration::from_hours(1);
/// Threshold of the settings, in micros.
const THRESHOLD: i64 = 10_000_000;
const SETTINGS: &str = "SELECT COUNT(*) FROM auto_topup";
const BELOW: &str = "SELECT COUNT(*) FROM credit WHERE topup_below_micros IS NOT NULL";

impl Fixture {
    /// Makes settings of a customer with a card: buy $50 if less than $10 is available.
    pub(super) fn new_auto_topup(&self, org: OrgId) -> NewAutoTopup {
        let at = self.now();
        NewAutoTopup {
            org,
            threshold_cents: 1_000,
            amount_cents: 5_000,
            card: card("pm_agreed"),
            consent: ConsentId::new(at, self.random()),
            consent_by: UserId::new(at, [5; 10]),
            consent_at: at,
            consent_text: "I agree.".to_owned(),
        }
    }

    /// Adds an organization with these credits that buys automatically.
    pub(super) async fn buying_org(&self, amount_micros: i64) -> OrgId {
        let org = self.paying_org(amount_micros).await;
        self.store
            .keep_customer(org, &format!("cus_{org}"))
            .await
            .unwrap();
        let new = self.new_auto_topup(org);
        self.store.put_auto_topup(new, self.audit(org)).await.unwrap();
        org
    }

    pub(super) fn begins(&self, org: OrgId, at: Timestamp) -> BeginAutoTopup {
        BeginAutoTopup {
            id: TopupId::new(at, self.random()),
            org,
            at,
            check_at: at + HOUR,
            per_day: 5,
            cents_per_day: i64::MAX,
        }
    }

    pub(super) async fn begun(&self, org: OrgId) -> Option<TopupRow> {
        let begin = self.begins(org, self.now());
        self.store.begin_auto_topup(begin).await.unwrap()
    }

    /// Begins a purchase, and marks it as sent.
    pub(super) async fn sent_topup(&self, org: OrgId) -> TopupId {
        let id = self.begun(org).await.unwrap().id;
        assert_eq!(self.store.send_auto_topup(id).await, Ok(SentAutoTopup::Now));
        id
    }

    pub(super) fn unpaid(&self, org: OrgId, id: TopupId, after: AfterAutoTopup) -> UnpaidAutoTopup {
        UnpaidAutoTopup {
            id,
            intent: Some(format!("pi_{id}")),
            error: "declined".to_owned(),
            failures: Some(0),
            after,
            mail: Some(self.new_mail(None)),
            audit: self.audit(org),
        }
    }

    pub(super) fn paid_topup(&self, org: OrgId, id: TopupId) -> PaidTopup {
        let audit = self.audit(org);
        PaidTopup {
            topup: id,
            payment: PaymentId::new(audit.at, self.random()),
            intent: format!("pi_{id}"),
            charge: None,
            amount_cents: 5_000,
            card: None,
            description: "purchase".to_owned(),
            compare_at: audit.at + HOUR,
            refund: RefundOrderId::new(audit.at, self.random()),
            audit,
        }
    }

    async fn failures(&self, org: OrgId) -> Option<(i64, Option<Timestamp>)> {
        let settings = self.store.auto_topup(org).await.unwrap().0;
        settings.map(|settings| (settings.failures, settings.paused_until))
    }

    /// Runs every statement of automatic purchases.
    pub(super) async fn use_auto_topups(&self) {
        let (org, store, at) = (self.buying_org(1).await, &self.store, self.now());
        store.due_auto_topups(None, at, 10).await.unwrap();
        assert_eq!(store.is_auto_topup_due(org, at).await, Ok(true));
        store.auto_topup(org).await.unwrap();
        store.owner(org).await.unwrap();
        store.oldest_auto_topup().await.unwrap();
        let id = self.sent_topup(org).await;
        store.keep_intent(id, "pi_1").await.unwrap();
        let again = AfterAutoTopup::RetryAt(at);
        let declined = UnpaidAutoTopup {
            intent: None,
            ..self.unpaid(org, id, again)
        };
        store.end_unpaid_auto_topup(declined).await.unwrap();
        let id = self.sent_topup(org).await;
        let paused = UnpaidAutoTopup {
            failures: Some(1),
            ..self.unpaid(org, id, AfterAutoTopup::Paused)
        };
        store.end_unpaid_auto_topup(paused).await.unwrap();
        store
            .put_auto_topup(self.new_auto_topup(org), self.audit(org))
            .await
            .unwrap();
        let id = self.sent_topup(org).await;
        store
            .end_unpaid_auto_topup(self.unpaid(org, id, AfterAutoTopup::Disabled))
            .await
            .unwrap();
        store.disable_auto_topup(org, self.audit(org)).await.unwrap();
    }
}

fn card(payment_method: &str) -> SavedCard {
    SavedCard {
        payment_method: payment_method.to_owned(),
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month: 1,
        exp_year: 2030,
        source: "portal".to_owned(),
    }
}

/// Organizations that the store has noted until now.
async fn noted(store: &Store) -> BTreeSet<OrgId> {
    let noted = tokio::time::timeout(Duration::from_millis(10), store.low_credits()).await;
    noted.unwrap_or_default()
}

both! {
    async fn the_oldest_purchase_without_an_end_is_found(fixture: &Fixture, store: &Store) {
        assert_eq!(store.oldest_auto_topup().await, Ok(None));
        let (org, other) = (fixture.buying_org(1).await, fixture.buying_org(1).await);
        fixture.ordered(fixture.new_topup(org)).await;
        assert_eq!(store.oldest_auto_topup().await, Ok(None), "one that a person pays does not count");
        let first = store.begin_auto_topup(fixture.begins(org, fixture.now())).await.unwrap().unwrap();
        let since = first.created_at;
        assert_eq!(store.oldest_auto_topup().await, Ok(Some(since)));
        store.send_auto_topup(first.id).await.unwrap();
        let second = store.begin_auto_topup(fixture.begins(other, since + HOUR)).await.unwrap().unwrap();
        assert_eq!(store.oldest_auto_topup().await, Ok(Some(since)));
        store.credit_purchase(fixture.paid_topup(org, first.id)).await.unwrap();
        assert_eq!(store.oldest_auto_topup().await, Ok(Some(since + HOUR)));
        store.credit_purchase(fixture.paid_topup(other, second.id)).await.unwrap();
        assert_eq!(store.oldest_auto_topup().await, Ok(None));
    }

    async fn credits_that_fall_below_the_threshold_are_noted_and_nothing_else(fixture: &Fixture, store: &Store, node: NodeId) {
        let (plain, org) = (fixture.paying_org(1).await, fixture.buying_org(THRESHOLD + 500).await);
        assert_eq!(noted(store).await, BTreeSet::new(), "enough is available");
        store.create_run(fixture.paid(org, 500)).await.unwrap();
        assert_eq!(noted(store).await, BTreeSet::new(), "exactly the threshold is available");
        store.create_run(fixture.paid(org, 1)).await.unwrap();
        assert_eq!(noted(store).await, [org].into());
        store.create_run(fixture.paid(org, 1)).await.unwrap();
        assert_eq!(noted(store).await, [org].into(), "each movement below the threshold");
        fixture.give(plain, -1).await;
        assert_eq!(noted(store).await, BTreeSet::new(), "an organization without automatic purchases");
        fixture.give(org, 1_000).await;
        assert_eq!(noted(store).await, BTreeSet::new());
        // Settlements and corrections move the balance as well.
        for _ in 0..3 {
            let claim = fixture.claim_one(node).await;
            let fence = fixture.start(claim.fence).await.unwrap();
            store.finish_run(fence, fixture.succeeded("x")).await.unwrap();
        }
        assert_eq!(noted(store).await, BTreeSet::new());
        fixture.give(org, -2_000).await;
        assert_eq!(noted(store).await, [org].into());
        store.disable_auto_topup(org, fixture.audit(org)).await.unwrap();
        fixture.give(org, -1).await;
        assert_eq!(noted(store).await, BTreeSet::new());
        store.put_auto_topup(fixture.new_auto_topup(org), fixture.audit(org)).await.unwrap();
        assert_eq!(noted(store).await, [org].into(), "the settings come when the credits are low already");
    }

    async fn a_movement_that_is_rolled_back_is_not_noted(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.buying_org(THRESHOLD).await);
        store.create_run(fixture.paid(org, 20_000_000)).await.unwrap_err();
        fixture.store.db.faults().fail_commit();
        store.create_run(fixture.paid(org, 5)).await.unwrap_err();
        assert_eq!(noted(store).await, BTreeSet::new());
    }

    async fn one_purchase_is_under_way_at_a_time(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.buying_org(1).await);
        let at = fixture.now();
        assert_eq!(store.due_auto_topups(None, at, 10).await, Ok(vec![org]));
        assert_eq!(store.due_auto_topups(Some(org), at, 10).await, Ok(vec![]));
        let other = Store::open(fixture.url()).await.ok().filter(|_| store.is_shared());
        let attempts = (0..16).map(|nth| {
            let by = other.as_ref().filter(|_| nth % 2 == 1).unwrap_or(store);
            by.begin_auto_topup(fixture.begins(org, at))
        });
        let begun: Vec<_> = join_all(attempts).await.into_iter().filter_map(Result::unwrap).collect();
        let [topup] = &begun[..] else { panic!("{begun:?}") };
        assert_eq!((topup.state, topup.amount_cents), (TopupState::Created, 5_000));
        assert_eq!(topup.payment_method.as_deref(), Some("pm_agreed"));
        assert_eq!(topup.customer, Some(format!("cus_{org}")));
        assert!(fixture.begun(org).await.is_none());
        assert_eq!(store.send_auto_topup(topup.id).await, Ok(SentAutoTopup::Now));
        assert_eq!(store.send_auto_topup(topup.id).await, Ok(SentAutoTopup::Before));
        assert!(fixture.begun(org).await.is_none(), "it is being charged");
        let paid = fixture.paid_topup(org, topup.id);
        assert_eq!(store.credit_purchase(paid.clone()).await, Ok(Appended::New));
        assert_eq!(store.credit_purchase(paid).await, Ok(Appended::Before));
        assert_eq!(fixture.credits(org).await, (50_000_001, 0));
        assert!(fixture.begun(org).await.is_none(), "enough is available");
        assert_eq!(store.auto_topup(org).await.unwrap().1, Some(TopupState::Paid));
    }

    async fn a_purchase_charges_the_card_that_was_saved_last(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.buying_org(1).await);
        store.keep_card(org, Some(card("pm_new")), fixture.now()).await.unwrap();
        assert_eq!(fixture.begun(org).await.unwrap().payment_method.as_deref(), Some("pm_new"));
    }

    async fn the_limits_of_a_day_hold(fixture: &Fixture) {
        let (store, org, at) = (&fixture.store, fixture.buying_org(1).await, fixture.now());
        let begin = async |at, per_day, cents_per_day| {
            let begin = BeginAutoTopup { per_day, cents_per_day, ..fixture.begins(org, at) };
            store.begin_auto_topup(begin).await.unwrap()
        };
        let decline = async |id: TopupId| {
            store.send_auto_topup(id).await.unwrap();
            let after = AfterAutoTopup::PausedUntil(at);
            assert_eq!(store.end_unpaid_auto_topup(fixture.unpaid(org, id, after)).await, Ok(true));
        };
        assert!(begin(at, 5, 4_999).await.is_none());
        assert!(begin(at, 0, i64::MAX).await.is_none());
        let first = begin(at, 1, 5_000).await.unwrap().id;
        decline(first).await;
        assert!(begin(at, 1, 5_000).await.is_none(), "one a day");
        // A purchase that has failed moved no money.
        let second = begin(at, 2, 5_000).await.unwrap().id;
        store.send_auto_topup(second).await.unwrap();
        store.credit_purchase(fixture.paid_topup(org, second)).await.unwrap();
        fixture.give(org, -50_000_000).await;
        assert!(begin(at, 3, 9_999).await.is_none(), "the second one was paid");
        assert!(begin(at + 23 * HOUR, 2, i64::MAX).await.is_none());
        assert!(begin(at + 24 * HOUR, 1, 5_000).await.is_some());
    }

    async fn a_declined_card_is_tried_again_later_and_disabled_in_the_end(fixture: &Fixture) {
        let (store, org, at) = (&fixture.store, fixture.buying_org(1).await, fixture.now());
        let later = at + HOUR;
        let id = fixture.sent_topup(org).await;
        let declined = fixture.unpaid(org, id, AfterAutoTopup::RetryAt(later));
        let stale = UnpaidAutoTopup { failures: Some(1), ..declined.clone() };
        assert_eq!(store.end_unpaid_auto_topup(stale).await, Err(SETTINGS_CHANGED));
        assert_eq!(store.end_unpaid_auto_topup(declined.clone()).await, Ok(true));
        assert_eq!(store.end_unpaid_auto_topup(declined).await, Ok(false));
        assert_eq!(fixture.failures(org).await, Some((1, Some(later))));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM mail").await, 1);
        assert_eq!(store.auto_topup(org).await.unwrap().1, Some(TopupState::Failed));
        assert_eq!(store.is_auto_topup_due(org, at).await, Ok(false));
        assert!(fixture.begun(org).await.is_none(), "it is paused");
        assert_eq!(store.is_auto_topup_due(org, later).await, Ok(true));
        let id = store.begin_auto_topup(fixture.begins(org, later)).await.unwrap().unwrap().id;
        store.send_auto_topup(id).await.unwrap();
        let last = UnpaidAutoTopup { failures: Some(1), ..fixture.unpaid(org, id, AfterAutoTopup::Disabled) };
        for failures in [0, 2] {
            let stale = UnpaidAutoTopup { failures: Some(failures), ..last.clone() };
            assert_eq!(store.end_unpaid_auto_topup(stale).await, Err(SETTINGS_CHANGED));
        }
        assert_eq!(store.end_unpaid_auto_topup(last).await, Ok(true));
        assert_eq!((fixture.count(SETTINGS).await, fixture.count(BELOW).await), (0, 0));
        assert_eq!(store.auto_topup(org).await.unwrap(), (None, Some(TopupState::Failed)));
        // A late payment is still credited.
        assert_eq!(store.credit_purchase(fixture.paid_topup(org, id)).await, Ok(Appended::New));
    }

    async fn a_payment_ends_the_pause(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.buying_org(1).await);
        let id = fixture.sent_topup(org).await;
        let paused = fixture.unpaid(org, id, AfterAutoTopup::Paused);
        assert_eq!(store.end_unpaid_auto_topup(paused).await, Ok(true));
        assert_eq!(store.topup(id).await.unwrap().state, TopupState::RequiresAction);
        let far = fixture.now() + 10_000 * HOUR;
        assert_eq!(store.is_auto_topup_due(org, far).await, Ok(false));
        store.credit_purchase(fixture.paid_topup(org, id)).await.unwrap();
        assert_eq!(fixture.failures(org).await, Some((0, None)));
        fixture.give(org, -50_000_000).await;
        assert_eq!(store.is_auto_topup_due(org, far).await, Ok(true));
    }

    async fn a_purchase_is_not_sent_once_they_are_disabled(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.buying_org(1).await);
        let id = fixture.begun(org).await.unwrap().id;
        assert_eq!(store.disable_auto_topup(org, fixture.audit(org)).await, Ok(true));
        assert_eq!(store.disable_auto_topup(org, fixture.audit(org)).await, Ok(false));
        assert_eq!(store.send_auto_topup(id).await, Ok(SentAutoTopup::Never));
        assert_eq!(store.send_auto_topup(id).await, Ok(SentAutoTopup::Before));
        assert_eq!(store.topup(id).await.unwrap().state, TopupState::Failed);
        assert_eq!(fixture.count(BELOW).await, 0);
        // A purchase that was already sent to Stripe continues, and its end changes no settings.
        store.put_auto_topup(fixture.new_auto_topup(org), fixture.audit(org)).await.unwrap();
        let id = fixture.sent_topup(org).await;
        store.disable_auto_topup(org, fixture.audit(org)).await.unwrap();
        let gone = UnpaidAutoTopup { failures: None, mail: None, ..fixture.unpaid(org, id, AfterAutoTopup::Disabled) };
        assert_eq!(store.end_unpaid_auto_topup(gone).await, Ok(true));
    }

    async fn a_dispute_disables_them(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.buying_org(1).await);
        let paid = fixture.paid_topup(org, fixture.sent_topup(org).await);
        let payment = paid.payment;
        store.credit_purchase(paid).await.unwrap();
        let report = TakeBack {
            kind: TakeBackKind::Refund,
            id: "re_1".to_owned(),
            payment,
            amount_cents: 100,
            state: TakeBackState::Taken,
            order: None,
            mail: None,
            audit: fixture.audit(org),
        };
        store.take_back(report.clone()).await.unwrap();
        assert_eq!((fixture.count(SETTINGS).await, fixture.count(BELOW).await), (1, 1));
        let dispute = TakeBack { kind: TakeBackKind::Dispute, id: "dp_1".to_owned(), audit: fixture.audit(org), ..report };
        store.take_back(dispute).await.unwrap();
        assert_eq!((fixture.count(SETTINGS).await, fixture.count(BELOW).await), (0, 0));
    }

    async fn every_consent_is_kept_whatever_becomes_of_the_settings(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        let org = fixture.org_of(ann).await;
        let agree = async |text: &str| {
            let new = NewAutoTopup { consent_text: text.to_owned(), ..fixture.new_auto_topup(org) };
            let consent = (new.consent, text.to_owned(), new.consent_by);
            store.put_auto_topup(new, fixture.audit(org)).await.unwrap();
            consent
        };
        let mut agreed = vec![agree("first").await];
        let paid = fixture.paid_topup(org, fixture.sent_topup(org).await);
        store.credit_purchase(paid.clone()).await.unwrap();
        let dispute = TakeBack {
            kind: TakeBackKind::Dispute,
            id: "dp_1".to_owned(),
            payment: paid.payment,
            amount_cents: 5_000,
            state: TakeBackState::Taken,
            order: None,
            mail: None,
            audit: fixture.audit(org),
        };
        store.take_back(dispute).await.unwrap();
        assert_eq!(fixture.count(SETTINGS).await, 0);
        agreed.push(agree("disabled by a person").await);
        store.disable_auto_topup(org, fixture.audit(org)).await.unwrap();
        agreed.push(agree("replaced").await);
        agreed.push(agree("disabled by a declined card").await);
        let id = fixture.sent_topup(org).await;
        let last = fixture.unpaid(org, id, AfterAutoTopup::Disabled);
        assert_eq!(store.end_unpaid_auto_topup(last).await, Ok(true));
        agreed.push(agree("deleted with the organization").await);
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        store.erase_settings(org, 10).await.unwrap();
        assert_eq!(fixture.count(SETTINGS).await, 0);
        let consents = "SELECT id, consent_text, consent_by, at, threshold_cents, amount_cents, card_brand, card_last4, \
                        payment_method FROM auto_topup_consent WHERE org_id = $1 ORDER BY at, id";
        let rows = store.db.read(move |tx| tx.query_all(consents, vals![org])).await.unwrap();
        let agreed_at: Vec<_> = rows.iter().map(|row| row.column::<Timestamp>(3, "at").unwrap()).collect();
        assert!(agreed_at.is_sorted() && agreed_at.last() <= Some(&fixture.now()), "{agreed_at:?}");
        let mut found = Vec::new();
        for row in &rows {
            found.push((row.only().unwrap(), row.text(1).unwrap().to_owned(), row.column(2, "consent_by").unwrap()));
            assert_eq!((row.int(4), row.int(5)), (Ok(1_000), Ok(5_000)));
            assert_eq!([6, 7, 8].map(|column| row.text(column).unwrap()), ["visa", "4242", "pm_agreed"]);
        }
        found.sort();
        agreed.sort();
        assert_eq!(found, agreed);
        // Each purchase names the consent under which the card was charged.
        let under = "SELECT (SELECT c.consent_text FROM auto_topup_consent c WHERE c.id = t.consent_id) FROM topup t \
                     ORDER BY t.created_at, t.id";
        let rows = store.db.read(move |tx| tx.query_all(under, vals![])).await.unwrap();
        let under: BTreeSet<&str> = rows.iter().map(|row| row.text(0).unwrap()).collect();
        assert_eq!(under, ["first", "disabled by a declined card"].into());
    }

    async fn a_consent_is_never_changed(fixture: &Fixture) {
        fixture.buying_org(1).await;
        for change in ["UPDATE auto_topup_consent SET consent_text = 'x'", "DELETE FROM auto_topup_consent"] {
            let changed = fixture.store.db.write(move |tx| tx.exec(change, vals![])).await;
            assert!(changed.unwrap_err().to_string().contains("consents are never"));
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM auto_topup_consent").await, 1);
    }

    async fn a_suspended_or_deleted_organization_buys_nothing(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        let org = fixture.org_of(ann).await;
        store.put_auto_topup(fixture.new_auto_topup(org), fixture.audit(org)).await.unwrap();
        assert_eq!(store.is_auto_topup_due(org, fixture.now()).await, Ok(true));
        // A purchase has begun, but its card is not charged yet.
        let begun = fixture.begun(org).await.unwrap().id;
        fixture.suspend(org).await;
        assert_eq!(store.is_auto_topup_due(org, fixture.now()).await, Ok(false));
        assert_eq!(store.send_auto_topup(begun).await, Ok(SentAutoTopup::Never));
        let resumed = fixture.audit(org);
        let at = resumed.at;
        store.resume_organization(org, resumed).await.unwrap();
        assert_eq!(store.is_auto_topup_due(org, fixture.now()).await, Ok(false), "not at once");
        assert_eq!(store.is_auto_topup_due(org, at + HOUR).await, Ok(true));
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.count(SETTINGS).await, 0);
        let put = store.put_auto_topup(fixture.new_auto_topup(org), fixture.audit(org)).await;
        assert_eq!(put, Err(Error::NotFound));
    }

    async fn the_owner_is_read_with_the_name_of_the_organization(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        let org = fixture.org_of(ann).await;
        let (owner, name) = store.owner(org).await.unwrap().unwrap();
        assert_eq!((owner.user, name.as_str()), (ann, "ours"));
        assert_eq!(store.owner(fixture.org().await).await, Ok(None));
    }

    async fn two_open_ones_of_an_organization_are_refused_by_the_database(fixture: &Fixture) {
        let org = fixture.buying_org(1).await;
        fixture.sent_topup(org).await;
        let insert = "INSERT INTO topup (id, org_id, kind, amount_cents, state, save_card, created_at, checks) \
                      SELECT 'topup_x', org_id, kind, amount_cents, 'created', 0, 1, 0 FROM topup";
        assert!(fixture.store.db.write(move |tx| tx.exec(insert, vals![])).await.is_err());
    }
}
