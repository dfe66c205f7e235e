//! Purchases: orders, their credits, refunds and disputes, and Stripe's events.

use sortie_api::{PaymentId, TopupId, TopupKind};

use super::prelude::*;
use crate::money::{
    AfterEvent, NewCustomer, NewRefundOrder, NewStripeEvent, NewTopup, OTHER_AMOUNT, OrderedRefund,
    PAID_TWICE, RemovedCard, ReplacedCustomer, SavedCard, TOO_MANY_OPEN, TakeBack, TookBack, TopupMove,
};

/// Micros of a cent.
pub(super) const CENT: i64 = 10_000;

const LEASE: Duration = Duration::from_mins(2);
const MINUTE: Duration = Duration::from_mins(1);

impl Fixture {
    /// Makes an order, without storing it.
    pub(super) fn new_topup(&self, org: OrgId) -> NewTopup {
        let at = self.now();
        NewTopup {
            id: TopupId::new(at, self.random()),
            org,
            kind: TopupKind::Checkout,
            amount_cents: 500,
            save_card: false,
            payment_method: None,
            created_by: None,
            created_at: at,
            check_at: at + MINUTE,
        }
    }

    /// Stores an order.
    pub(super) async fn ordered(&self, new: NewTopup) -> NewTopup {
        let audit = self.audit(new.org);
        self.store.create_topup(new.clone(), 1_000, audit).await.unwrap();
        new
    }

    /// Makes the payment of an order, without storing it.
    pub(super) fn paid_for(&self, topup: &NewTopup) -> PaidTopup {
        let audit = self.audit(topup.org);
        PaidTopup {
            topup: topup.id,
            payment: PaymentId::new(audit.at, self.random()),
            intent: format!("pi_{}", topup.id),
            charge: Some(format!("ch_{}", topup.id)),
            amount_cents: topup.amount_cents,
            card: None,
            description: "purchase".to_owned(),
            compare_at: audit.at + MINUTE,
            refund: RefundOrderId::new(audit.at, self.random()),
            audit,
        }
    }

    /// Stores a payment of this amount, with its order.
    pub(super) async fn bought(&self, org: OrgId, amount_cents: i64) -> PaidTopup {
        let topup = self
            .ordered(NewTopup {
                amount_cents,
                ..self.new_topup(org)
            })
            .await;
        let paid = self.paid_for(&topup);
        let credited = self.store.credit_purchase(paid.clone()).await;
        assert_eq!(credited, Ok(Appended::New));
        paid
    }

    /// Makes a report of a refund or a dispute, without storing it.
    pub(super) fn report(
        &self,
        paid: &PaidTopup,
        (kind, id): (TakeBackKind, &str),
        amount_cents: i64,
        state: TakeBackState,
    ) -> TakeBack {
        TakeBack {
            kind,
            id: id.to_owned(),
            payment: paid.payment,
            amount_cents,
            state,
            order: None,
            mail: None,
            audit: self.audit(paid.audit.org),
        }
    }

    pub(super) fn new_customer(&self, org: OrgId, missing: &str, customer: &str) -> NewCustomer {
        NewCustomer {
            missing: missing.to_owned(),
            customer: customer.to_owned(),
            mail: None,
            audit: self.audit(org),
        }
    }

    pub(super) fn stripe_event(&self, id: &str) -> NewStripeEvent {
        let at = self.now();
        NewStripeEvent {
            id: id.to_owned(),
            kind: "charge.refunded".to_owned(),
            object: "ch_1".to_owned(),
            made_at: at,
            received_at: at,
            is_handled: true,
        }
    }

    /// Runs every command on purchases.
    pub(super) async fn use_purchases(&self) {
        let (org, store, at) = (self.paying_org(1).await, &self.store, self.now());
        store.keep_customer(org, "cus_1").await.unwrap();
        store
            .replace_customer(self.new_customer(org, "cus_1", "cus_2"))
            .await
            .unwrap();
        store.org_of_customer("cus_2").await.unwrap();
        store.billing_account(org).await.unwrap();
        assert!(store.ask_for_card(org, at, at).await.unwrap());
        store
            .keep_card(org, Some(card("pm_1", "portal")), at)
            .await
            .unwrap();
        assert_eq!(store.org_of_card("pm_1").await, Ok(Some(org)));
        let removed = RemovedCard {
            payment_method: "pm_1".to_owned(),
            mail: None,
            audit: self.audit(org),
        };
        assert_eq!(store.forget_card(removed).await, Ok(false));
        let topup = self.ordered(self.new_topup(org)).await;
        assert!(
            store
                .move_topup(moved_to(&topup, TopupState::Open))
                .await
                .unwrap()
        );
        store
            .topup_of_session(&format!("cs_{}", topup.id))
            .await
            .unwrap()
            .unwrap();
        let late = self.now() + Duration::from_hours(1);
        let claimed = store.claim_topups(late, LEASE, 10).await.unwrap();
        store
            .check_topup_at(topup.id, claimed[0].checks, late)
            .await
            .unwrap();
        store.topup(topup.id).await.unwrap();
        let paid = self.bought(org, 700).await;
        store.credit_purchase(paid.clone()).await.unwrap();
        for kind in [TakeBackKind::Refund, TakeBackKind::Dispute] {
            let taken = self.report(&paid, (kind, &format!("{kind:?}")), 100, TakeBackState::Taken);
            store.take_back(taken).await.unwrap();
        }
        self.use_refunds(&paid, late).await;
        store.claim_closing_accounts(late, LEASE, 10).await.unwrap();
        store.close_account_at(org, None).await.unwrap();
        store.payment(org, paid.payment).await.unwrap();
        store.operated_payment(paid.payment).await.unwrap();
        store
            .payment_of(Some("pi_nothing"), paid.charge.as_deref())
            .await
            .unwrap()
            .unwrap();
        store.list_payments(org, None, 10).await.unwrap();
        store.claim_comparisons(late, LEASE, 10).await.unwrap();
        store.compared(paid.payment, Some(late)).await.unwrap();
        let event = self.stripe_event("evt_1");
        store.record_stripe_events(vec![event]).await.unwrap();
        store.oldest_stripe_event().await.unwrap().unwrap();
        let (claimed, _) = store.claim_stripe_events(late, LEASE, 10).await.unwrap();
        let event = &claimed[0];
        store
            .record_stripe_attempt(event.id.clone(), event.tries, AfterEvent::Done)
            .await
            .unwrap();
        store.delete_stripe_events(late, 10).await.unwrap();
        store
            .claim_stripe_search(late, LEASE, LEASE)
            .await
            .unwrap()
            .unwrap();
        store.postpone_stripe_search(late).await.unwrap();
        store.record_stripe_search(late, late).await.unwrap();
    }

    /// Runs every command on refunds that are ordered.
    async fn use_refunds(&self, paid: &PaidTopup, late: Timestamp) {
        let store = &self.store;
        let order = NewRefundOrder {
            id: RefundOrderId::new(self.now(), self.random()),
            payment: paid.payment,
            reference: Some("a".to_owned()),
            amount_cents: Some(1),
            at: self.now(),
        };
        store.order_refund(order.clone()).await.unwrap();
        assert_eq!(store.send_refund(order.id).await, Ok(Some(1)));
        store.abandon_refund(order.id).await.unwrap();
        store.withdraw_refund(order.id).await.unwrap();
        store.claim_refunds(late, LEASE, 10).await.unwrap();
        store.refund_due_at(order.id, 1, None).await.unwrap();
    }
}

pub(super) fn card(payment_method: &str, source: &str) -> SavedCard {
    SavedCard {
        payment_method: payment_method.to_owned(),
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month: 12,
        exp_year: 2034,
        source: source.to_owned(),
    }
}

pub(super) fn moved_to(topup: &NewTopup, to: TopupState) -> TopupMove {
    TopupMove {
        id: topup.id,
        to,
        session: (to == TopupState::Open).then(|| format!("cs_{}", topup.id)),
        intent: None,
        error: None,
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

fn moved(cents: i64, state: TakeBackState) -> TookBack {
    TookBack {
        is_new: true,
        moved_micros: cents * CENT,
        state,
    }
}

/// Result of a report that changes nothing.
fn nothing(state: TakeBackState) -> TookBack {
    TookBack {
        is_new: false,
        ..moved(0, state)
    }
}

both! {
    // `docs/BILLING.md#refund-a-payment`
    async fn a_reference_is_free_again_only_if_its_one_request_was_refused(fixture: &Fixture, org: OrgId, store: &Store) {
        let payment = fixture.bought(org, 1_000).await.payment;
        let ordered = async |reference: &str| {
            let (id, at) = (RefundOrderId::new(fixture.now(), fixture.random()), fixture.now());
            let reference = Some(reference.to_owned());
            store.order_refund(NewRefundOrder { id, payment, reference, amount_cents: Some(1), at }).await.unwrap()
        };
        let OrderedRefund::New(refused) = ordered("a").await else { panic!("the reference is new") };
        assert_eq!(store.send_refund(refused.id).await, Ok(Some(1)));
        store.withdraw_refund(refused.id).await.unwrap();
        let OrderedRefund::New(order) = ordered("a").await else { panic!("the reference is free") };
        // A second command sends the same request before the first one is refused.
        for requests in 1..=2 {
            assert_eq!(store.send_refund(order.id).await, Ok(Some(requests)));
        }
        store.withdraw_refund(order.id).await.unwrap();
        let again = ordered("a").await;
        assert!(matches!(&again, OrderedRefund::Before(known) if known.id == order.id), "{again:?}");
        store.abandon_refund(order.id).await.unwrap();
        assert_eq!(store.send_refund(order.id).await, Ok(None));
    }

    async fn an_order_is_credited_once_however_often_its_payment_is_reported(fixture: &Fixture, org: OrgId, store: &Store) {
        let topup = fixture.ordered(fixture.new_topup(org)).await;
        let paid = fixture.paid_for(&topup);
        let wrong = PaidTopup { amount_cents: 501, ..paid.clone() };
        assert_eq!(store.credit_purchase(wrong).await, Err(OTHER_AMOUNT));
        assert_eq!(fixture.credits(org).await, (0, 0));
        assert_eq!(store.credit_purchase(paid.clone()).await, Ok(Appended::New));
        let again = PaidTopup { payment: fixture.paid_for(&topup).payment, ..paid.clone() };
        assert_eq!(store.credit_purchase(again).await, Ok(Appended::Before));
        let other = PaidTopup { intent: "pi_other".to_owned(), ..fixture.paid_for(&topup) };
        assert_eq!(store.credit_purchase(other).await, Err(PAID_TWICE));
        assert_eq!(fixture.credits(org).await, (500 * CENT, 0));
        let payments = store.list_payments(org, None, 10).await.unwrap();
        assert_eq!(payments.len(), 1);
        assert_eq!((payments[0].id, payments[0].topup), (paid.payment, topup.id));
        let elsewhere = fixture.org().await;
        let stolen = PaidTopup { audit: fixture.audit(elsewhere), ..fixture.paid_for(&topup) };
        assert_eq!(store.credit_purchase(stolen).await, Err(Error::NotFound));
        assert_eq!(store.payment(elsewhere, paid.payment).await, Err(Error::NotFound));
        assert_eq!(fixture.differences().await, []);
    }

    async fn of_all_who_see_a_payment_at_once_one_credits_it(fixture: &Fixture) {
        let (org, nodes) = (fixture.org().await, nodes(fixture).await);
        for _ in 0..10 {
            let topup = fixture.ordered(fixture.new_topup(org)).await;
            let reports = (0..9).map(|number| {
                let paid = fixture.paid_for(&topup);
                nodes[number % nodes.len()].credit_purchase(paid)
            });
            let credited: Vec<_> = join_all(reports).await.into_iter().map(Result::unwrap).collect();
            assert_eq!(credited.iter().filter(|one| **one == Appended::New).count(), 1);
        }
        assert_eq!(fixture.credits(org).await, (10 * 500 * CENT, 0));
    }

    async fn an_order_moves_as_the_table_says_and_late_money_counts(fixture: &Fixture, org: OrgId, store: &Store) {
        for from in TopupState::ALL {
            for to in TopupState::ALL.into_iter().filter(|to| *to != TopupState::Paid) {
                let topup = fixture.ordered(fixture.new_topup(org)).await;
                let (id, state) = (topup.id, from);
                fixture.sql("UPDATE topup SET state = $2 WHERE id = $1", vals![id, state]).await;
                let moved = store.move_topup(moved_to(&topup, to)).await.unwrap();
                assert_eq!(moved, from.may_become(to), "{from} to {to}");
                let row = store.topup(topup.id).await.unwrap();
                assert_eq!(row.state, if moved { to } else { from });
                let credited = store.credit_purchase(fixture.paid_for(&topup)).await;
                assert_eq!(credited.is_ok(), from != TopupState::Paid, "{from} to {to}");
            }
        }
    }

    async fn the_number_of_orders_that_wait_has_an_exact_limit(fixture: &Fixture) {
        let (org, nodes) = (fixture.org().await, nodes(fixture).await);
        let orders = (0..24).map(|number| {
            nodes[number % nodes.len()].create_topup(fixture.new_topup(org), 10, fixture.audit(org))
        });
        let done = join_all(orders).await;
        assert_eq!(done.iter().filter(|one| one.is_ok()).count(), 10);
        assert!(done.iter().all(|one| *one == Ok(()) || *one == Err(TOO_MANY_OPEN)), "{done:?}");
    }

    async fn one_automatic_order_of_an_organization_waits_at_a_time(fixture: &Fixture, org: OrgId, store: &Store) {
        let auto = || NewTopup { kind: TopupKind::Auto, ..fixture.new_topup(org) };
        let first = fixture.ordered(auto()).await;
        store.create_topup(auto(), 10, fixture.audit(org)).await.unwrap_err();
        store.move_topup(moved_to(&first, TopupState::Processing)).await.unwrap();
        store.create_topup(auto(), 10, fixture.audit(org)).await.unwrap_err();
        store.move_topup(moved_to(&first, TopupState::Failed)).await.unwrap();
        fixture.ordered(auto()).await;
    }

    async fn refunds_and_disputes_together_take_at_most_the_payment(fixture: &Fixture) {
        use TakeBackKind::{Dispute, Refund};
        use TakeBackState::{Returned, Taken};
        let (org, store) = (fixture.org().await, &fixture.store);
        let paid = fixture.bought(org, 1_000).await;
        let tell = async |of: (TakeBackKind, &str), cents, state| {
            store.take_back(fixture.report(&paid, of, cents, state)).await.unwrap()
        };
        assert_eq!(tell((Refund, "re_1"), 300, Taken).await, moved(-300, Taken));
        assert_eq!(tell((Refund, "re_1"), 300, Taken).await, nothing(Taken));
        assert_eq!(tell((Dispute, "dp_1"), 1_000, Taken).await, moved(-700, Taken), "the rest of it");
        assert_eq!(tell((Refund, "re_2"), 100, Taken).await, moved(0, Taken));
        let row = store.operated_payment(paid.payment).await.unwrap();
        assert_eq!((row.refunded_cents, row.disputed_cents), (400, 1_000), "as Stripe tells it");
        assert_eq!(fixture.credits(org).await, (0, 0));
        assert_eq!(tell((Refund, "re_1"), 300, Returned).await, moved(0, Returned));
        assert_eq!(tell((Refund, "re_1"), 300, Taken).await, nothing(Returned), "the older report comes later");
        assert_eq!(tell((Dispute, "dp_1"), 1_000, Returned).await, moved(900, Returned), "the other refund stands");
        assert_eq!(tell((Dispute, "dp_2"), 50, Returned).await, moved(0, Returned), "nothing was taken before");
        assert_eq!(tell((Dispute, "dp_2"), 50, Taken).await, nothing(Returned));
        assert_eq!(fixture.credits(org).await, (900 * CENT, 0));
        let other = fixture.org().await;
        let stolen = TakeBack { audit: fixture.audit(other), ..fixture.report(&paid, (Refund, "re_3"), 1, Taken) };
        assert_eq!(store.take_back(stolen).await, Err(Error::NotFound));
        assert_eq!(fixture.differences().await, []);
    }

    async fn reports_that_come_at_once_take_what_their_sum_takes(fixture: &Fixture) {
        let (org, nodes) = (fixture.org().await, nodes(fixture).await);
        let paid = fixture.bought(org, 1_000).await;
        let reports = (0..24).map(|number| {
            let id = format!("re_{}", number % 8);
            let report = fixture.report(&paid, (TakeBackKind::Refund, &id), 100, TakeBackState::Taken);
            nodes[number % nodes.len()].take_back(report)
        });
        let took: i64 = join_all(reports).await.into_iter().map(|took| took.unwrap().moved_micros).sum();
        assert_eq!(took, -800 * CENT);
        assert_eq!(fixture.credits(org).await, (200 * CENT, 0));
    }

    async fn an_event_is_handled_by_the_node_that_holds_its_lease(fixture: &Fixture, store: &Store, at: Timestamp) {
        let late = at + MINUTE;
        let other = NewStripeEvent { is_handled: false, ..fixture.stripe_event("evt_2") };
        let both = vec![fixture.stripe_event("evt_1"), other];
        assert_eq!(store.record_stripe_events(both.clone()).await, Ok(2));
        assert_eq!(store.record_stripe_events(both).await, Ok(0), "once");
        let (first, next) = store.claim_stripe_events(late, LEASE, 10).await.unwrap();
        assert_eq!((first.len(), next), (1, Some(late + LEASE)));
        assert_eq!(store.claim_stripe_events(late, LEASE, 10).await.unwrap().0, []);
        let (second, _) = store.claim_stripe_events(late + LEASE, LEASE, 10).await.unwrap();
        let stale = store.record_stripe_attempt("evt_1".to_owned(), first[0].tries, AfterEvent::Done);
        assert_eq!(stale.await, Err(Error::Fenced));
        let later = late + LEASE + LEASE + LEASE;
        let retry = AfterEvent::RetryAt(later);
        store.record_stripe_attempt("evt_1".to_owned(), second[0].tries, retry).await.unwrap();
        let early = later - Duration::from_secs(1);
        assert_eq!(store.claim_stripe_events(early, LEASE, 10).await.unwrap(), (vec![], Some(later)));
        assert!(store.oldest_stripe_event().await.unwrap().is_some());
        assert_eq!(store.delete_stripe_events(later, 10).await, Ok(1), "the ignored one");
        let (third, _) = store.claim_stripe_events(later, LEASE, 10).await.unwrap();
        store.record_stripe_attempt("evt_1".to_owned(), third[0].tries, AfterEvent::Failed).await.unwrap();
        assert_eq!(store.claim_stripe_events(later + LEASE, LEASE, 10).await.unwrap(), (vec![], None));
        assert_eq!(store.oldest_stripe_event().await, Ok(None));
        assert_eq!(store.delete_stripe_events(later, 10).await, Ok(1));
    }

    async fn a_purchase_or_payment_that_cannot_be_read_does_not_keep_the_others(fixture: &Fixture, org: OrgId, store: &Store) {
        let harm = async |sql| assert_eq!(store.db.write(move |tx| tx.exec(sql, vals![])).await, Ok(1));
        fixture.ordered(fixture.new_topup(org)).await;
        harm("UPDATE topup SET kind = 'nothing', check_at = check_at - 1").await;
        let whole = fixture.ordered(fixture.new_topup(org)).await;
        let claimed = store.claim_topups(whole.check_at, LEASE, 10).await.unwrap();
        assert_eq!(claimed.iter().map(|topup| topup.id).collect::<Vec<_>>(), [whole.id]);
        fixture.bought(org, 500).await;
        harm("UPDATE payment SET org_id = 'nobody'").await;
        let paid = fixture.bought(org, 600).await;
        let claimed = store.claim_comparisons(paid.compare_at, LEASE, 10).await.unwrap();
        assert_eq!(claimed.iter().map(|payment| payment.id).collect::<Vec<_>>(), [paid.payment]);
    }

    async fn looks_and_comparisons_and_searches_are_claimed(fixture: &Fixture, org: OrgId, store: &Store) {
        let topup = fixture.ordered(fixture.new_topup(org)).await;
        let early = topup.check_at - Duration::from_secs(1);
        assert_eq!(store.claim_topups(early, LEASE, 10).await.unwrap(), []);
        let first = store.claim_topups(topup.check_at, LEASE, 10).await.unwrap();
        assert_eq!((first.len(), first[0].checks), (1, 1));
        assert_eq!(store.claim_topups(topup.check_at, LEASE, 10).await.unwrap(), []);
        let ended = topup.check_at + LEASE;
        let second = store.claim_topups(ended, LEASE, 10).await.unwrap();
        // The first node has lost its claim.
        store.check_topup_at(topup.id, first[0].checks, ended).await.unwrap();
        assert_eq!(store.claim_topups(ended, LEASE, 10).await.unwrap(), []);
        store.check_topup_at(topup.id, second[0].checks, ended).await.unwrap();
        assert_eq!(store.claim_topups(ended, LEASE, 10).await.unwrap().len(), 1);
        let paid = fixture.bought(org, 500).await;
        assert_eq!(store.claim_comparisons(paid.compare_at, LEASE, 10).await.unwrap().len(), 1);
        assert_eq!(store.claim_comparisons(paid.compare_at, LEASE, 10).await.unwrap(), []);
        store.compared(paid.payment, None).await.unwrap();
        let never = paid.compare_at + Duration::from_hours(10_000);
        assert_eq!(store.claim_comparisons(never, LEASE, 10).await.unwrap(), []);
        let at = fixture.now();
        let hour = 60 * MINUTE;
        let claim = async |at| store.claim_stripe_search(at, LEASE, hour).await;
        assert_eq!(claim(at).await, Ok(Some(None)), "the first one");
        assert_eq!(claim(at).await, Ok(None));
        store.postpone_stripe_search(at + MINUTE).await.unwrap();
        assert_eq!(claim(at + MINUTE).await, Ok(Some(None)), "one that has failed");
        store.record_stripe_search(at, at + MINUTE).await.unwrap();
        assert_eq!(claim(at + MINUTE).await, Ok(Some(Some(at))), "the first page is open");
        store.record_stripe_search(at, at + MINUTE).await.unwrap();
        assert_eq!(store.move_topup(moved_to(&topup, TopupState::Expired)).await, Ok(true));
        assert_eq!(claim(at + MINUTE).await, Ok(None), "nobody can pay on a page");
        assert_eq!(claim(at + hour).await, Ok(Some(Some(at))));
    }

    async fn an_organization_is_one_customer_with_one_card(fixture: &Fixture, org: OrgId, store: &Store, at: Timestamp) {
        assert_eq!(store.billing_account(org).await, Ok(None));
        assert_eq!(store.keep_customer(org, "cus_1").await, Ok("cus_1".to_owned()));
        assert_eq!(store.keep_customer(org, "cus_2").await, Ok("cus_1".to_owned()));
        assert_eq!(store.org_of_customer("cus_1").await, Ok(Some(org)));
        assert_eq!(store.org_of_customer("cus_2").await, Ok(None));
        store.keep_card(org, Some(card("pm_0", "portal")), at).await.unwrap();
        let replaced = |customer: &str| ReplacedCustomer { customer: customer.to_owned(), disabled_auto_topup: false };
        let new = fixture.new_customer(org, "cus_0", "cus_3");
        assert_eq!(store.replace_customer(new).await, Ok(replaced("cus_1")), "another one is kept by now");
        let new = fixture.new_customer(org, "cus_1", "cus_0");
        assert_eq!(store.replace_customer(new).await, Ok(replaced("cus_0")));
        let account = store.billing_account(org).await.unwrap().unwrap();
        assert_eq!((account.card, account.seen_at), (None, None));
        assert_eq!(store.org_of_customer("cus_1").await, Ok(None));
        let new = fixture.new_customer(org, "cus_0", "cus_1");
        assert_eq!(store.replace_customer(new).await, Ok(replaced("cus_1")));
        let later = at + MINUTE;
        assert_eq!(store.ask_for_card(org, at, at - MINUTE).await, Ok(true));
        assert_eq!(store.ask_for_card(org, later, at - MINUTE).await, Ok(false));
        assert_eq!(store.ask_for_card(org, later, at).await, Ok(true));
        // A card that was saved in a checkout and is later read in the portal still counts as that of the
        // checkout.
        let topup = fixture.ordered(NewTopup { save_card: true, ..fixture.new_topup(org) }).await;
        let saved = Some(card("pm_1", "checkout"));
        let paid = PaidTopup { card: saved.clone(), ..fixture.paid_for(&topup) };
        store.credit_purchase(paid).await.unwrap();
        store.keep_card(org, Some(card("pm_1", "portal")), later).await.unwrap();
        let kept = store.billing_account(org).await.unwrap().unwrap();
        assert_eq!((kept.card, kept.seen_at), (saved, Some(later)));
        // Without consent no card is stored.
        let topup = fixture.ordered(fixture.new_topup(org)).await;
        let paid = PaidTopup { card: Some(card("pm_2", "checkout")), ..fixture.paid_for(&topup) };
        store.credit_purchase(paid).await.unwrap();
        let kept = store.billing_account(org).await.unwrap().unwrap();
        assert_eq!(kept.card.map(|card| card.payment_method), Some("pm_1".to_owned()));
        store.keep_card(org, None, later).await.unwrap();
        assert_eq!(store.billing_account(org).await.unwrap().unwrap().card, None);
    }
}
