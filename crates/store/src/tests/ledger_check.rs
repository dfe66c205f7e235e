//! The check of the ledger: the differences that it finds after a manual change of one row.

use super::{
    examined::{Bound, within},
    prelude::*,
    purchases::CENT,
};
use crate::money::{LedgerDifference, LedgerRule};

both! {
    async fn the_check_tells_what_was_expected_and_what_was_found(fixture: &Fixture) {
        let (org, node, store) = (fixture.paying_org(1_000).await, fixture.node().await, &fixture.store);
        fixture.paying_org(3).await;
        store.create_run(fixture.paid(org, 100)).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        let run = store.finish_run(fence, fixture.finish(RunStatus::Failed, None, Some("x"))).await.unwrap().id;
        store.create_run(fixture.paid(org, 100)).await.unwrap();
        assert_eq!(fixture.differences().await, []);
        let org_of = format!("'{org}'");
        for (harm, repair, rule, run, expected, found) in [
            ("balance_micros = balance_micros + 1", "balance_micros = balance_micros - 1", LedgerRule::Balance, None, 958, 959),
            ("reserved_micros = reserved_micros + 5", "reserved_micros = reserved_micros - 5", LedgerRule::Reserved, None, 100, 105),
            ("cost_micros = 43", "cost_micros = 42", LedgerRule::Charge, Some(run), 43, 42),
            ("reserved_micros = 41", "reserved_micros = 100", LedgerRule::Cost, Some(run), 41, 42),
        ] {
            let change = |set: &str| -> &'static str {
                let table = if run.is_some() { "run" } else { "credit" };
                let settled = if run.is_some() { "AND billing_pending = 0" } else { "" };
                Box::leak(format!("UPDATE {table} SET {set} WHERE org_id = {org_of} {settled}").into_boxed_str())
            };
            assert_eq!(fixture.tamper(change(harm)).await, Ok(1));
            assert_eq!(fixture.differences().await, [LedgerDifference { org, rule, run, payment: None, expected, found }]);
            assert_eq!(fixture.tamper(change(repair)).await, Ok(1));
        }
        assert_eq!(fixture.differences().await, []);
    }

    async fn a_long_ledger_is_added_up_in_steps_and_checked_by_its_newest_entries(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.paying_org(1_000).await);
        let paid = fixture.bought(org, 1_000).await;
        store.take_back(fixture.report(&paid, (TakeBackKind::Refund, "re_1"), 300, TakeBackState::Taken)).await.unwrap();
        for _ in 0..200 {
            fixture.give(org, 3).await;
        }
        let mut steps = 0;
        while store.add_up_ledger(org, 20).await.unwrap() {
            steps += 1;
        }
        assert_eq!(steps, 10);
        let bound = Bound { steps: 1_000, rows: 60, of_a_scan: 20 };
        assert_eq!(within(fixture, bound, store.check_credits_of(org)).await, []);
        assert_eq!(within(fixture, bound, store.check_payments(org)).await, []);
        assert_eq!(fixture.differences().await, []);
        // The check finds errors before the position as ever, and errors after it too.
        let balance = 1_600 + 700 * CENT;
        let wrong = LedgerDifference { org, rule: LedgerRule::Balance, run: None, payment: None, expected: balance, found: balance + 1 };
        assert_eq!(fixture.tamper("UPDATE credit SET balance_micros = balance_micros + 1").await, Ok(1));
        assert_eq!(store.check_credits_of(org).await.unwrap(), [wrong]);
        assert_eq!(fixture.tamper("UPDATE payment SET refunded_cents = 299").await, Ok(1));
        let payment = Some(paid.payment);
        let taken = LedgerDifference { org, rule: LedgerRule::TakenBack, run: None, payment, expected: 299 * CENT, found: 300 * CENT };
        assert_eq!(store.check_payments(org).await.unwrap(), [taken]);
        assert_eq!(fixture.tamper("UPDATE payment SET refunded_cents = 300").await, Ok(1));
        store.take_back(fixture.report(&paid, (TakeBackKind::Refund, "re_2"), 1, TakeBackState::Taken)).await.unwrap();
        assert_eq!(store.check_payments(org).await.unwrap(), []);
    }

    async fn nodes_that_add_up_at_once_count_each_entry_once(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.paying_org(1_000).await);
        for _ in 0..40 {
            fixture.give(org, 3).await;
        }
        let all = join_all((0..8).map(|_| async { while store.add_up_ledger(org, 5).await.unwrap() {} })).await;
        assert_eq!((all.len(), fixture.differences().await), (8, Vec::new()));
        assert_eq!(fixture.count("SELECT balance_micros FROM ledger_sum").await, 1_000 + 39 * 3);
    }

    async fn the_check_compares_payments_with_their_entries(fixture: &Fixture) {
        use TakeBackKind::{Dispute, Refund};
        let (store, org, stranger) = (&fixture.store, fixture.paying_org(5).await, fixture.paying_org(5).await);
        let paid = fixture.bought(org, 1_000).await;
        for (of, cents) in [((Refund, "re_1"), 300), ((Dispute, "dp_1"), 1_000)] {
            store.take_back(fixture.report(&paid, of, cents, TakeBackState::Taken)).await.unwrap();
        }
        assert_eq!(fixture.differences().await, []);
        let differs = |org, rule, payment, expected, found| {
            LedgerDifference { org, rule, run: None, payment, expected: expected * CENT, found: found * CENT }
        };
        let of_it = Some(paid.payment);
        for (harm, repair, found) in [
            ("amount_cents = 1001", "amount_cents = 1000", vec![
                differs(org, LedgerRule::Purchase, of_it, 1_001, 1_000), differs(org, LedgerRule::TakenBack, of_it, 1_001, 1_000),
            ]),
            ("disputed_cents = 600", "disputed_cents = 1000", vec![differs(org, LedgerRule::TakenBack, of_it, 900, 1_000)]),
            ("refunded_cents = 0, disputed_cents = 0", "refunded_cents = 300, disputed_cents = 1000", vec![
                differs(org, LedgerRule::TakenBack, of_it, 0, 1_000),
            ]),
        ] {
            for (set, expected) in [(harm, found), (repair, Vec::new())] {
                let sql: &'static str = Box::leak(format!("UPDATE payment SET {set}").into_boxed_str());
                assert_eq!(fixture.tamper(sql).await, Ok(1));
                assert_eq!(fixture.differences().await, expected);
            }
        }
        // Entries that should not exist move the balance, so only their own rule is broken. They cannot be deleted.
        let mut wrong = Vec::new();
        for (of, kind, cause, payment, cents, expected) in [
            (org, LedgerKind::Purchase, "pi_again", of_it, 1_000, differs(org, LedgerRule::Purchase, of_it, 1_000, 2_000)),
            (org, LedgerKind::Refund, "re_beyond", of_it, -1, differs(org, LedgerRule::TakenBack, of_it, 1_000, 1_001)),
            (org, LedgerKind::Purchase, "pi_of_nothing", None, 7, differs(org, LedgerRule::Purchase, None, 0, 7)),
            (stranger, LedgerKind::DisputeWon, "dp_1:won", of_it, 2, differs(stranger, LedgerRule::TakenBack, of_it, 0, -2)),
        ] {
            let entry = NewLedgerEntry {
                kind,
                cause: cause.to_owned(),
                payment: payment.map(|payment| payment.to_string()),
                ..fixture.grant(of, cents * CENT)
            };
            store.move_credits(entry, fixture.audit(of)).await.unwrap();
            wrong.push(expected);
            let found = fixture.differences().await;
            assert_eq!(found.len(), wrong.len(), "{found:?}");
            assert!(wrong.iter().all(|expected| found.contains(expected)), "{found:?}");
        }
    }
}
