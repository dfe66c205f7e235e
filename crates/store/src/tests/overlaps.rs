//! Commands that wait on `PostgreSQL` for another one, which changes the rows they decide by. A statement takes its snapshot
//! before it waits, so a condition on other rows is evaluated on that old snapshot. The lock is therefore a separate
//! statement before the condition.

use super::{
    identities::{identity, linked, proved},
    people::{attempt, conflicts, token},
    prelude::*,
    purchases::card,
};
use crate::{connections::AWAITING, money::SentAutoTopup, oauth::GRANTS_OF_A_PERSON, people::ProvenIdentity};

const HOUR: Duration = Duration::from_hours(1);

impl Fixture {
    /// Runs these statements in one batch.
    async fn batch<const N: usize>(&self, statements: [&'static str; N]) {
        let run = move |tx: &mut dyn Tx| tx.batch(&statements.map(|sql| Stmt::new(sql, vals![]))).map(drop);
        self.store.db.write(run).await.unwrap();
    }

    /// End of the account of a person without an organization.
    fn alone(&self, name: &str, user: UserId) -> PersonDeletion {
        PersonDeletion {
            user,
            password: format!("hash of {name}"),
            audits: Vec::new(),
            deleted: Vec::new(),
            at: self.now(),
        }
    }
}

postgres! {
    async fn nothing_is_bought_by_the_credits_from_before_a_payment(fixture: &Fixture) {
        let org = fixture.buying_org(1).await;
        let paid = fixture.paid_topup(org, fixture.sent_topup(org).await);
        let pay = fixture.store.credit_purchase(paid);
        let (paid, begun) = fixture.overlapped(1, pay, fixture.begun(org)).await;
        assert_eq!((paid, begun), (Ok(Appended::New), None));
    }

    async fn nothing_is_bought_in_the_pause_that_a_declined_card_begins(fixture: &Fixture) {
        let org = fixture.buying_org(1).await;
        let id = fixture.sent_topup(org).await;
        let again = AfterAutoTopup::RetryAt(fixture.now() + HOUR);
        let decline = fixture.store.end_unpaid_auto_topup(fixture.unpaid(org, id, again));
        let (declined, begun) = fixture.overlapped(1, decline, fixture.begun(org)).await;
        assert_eq!((declined, begun), (Ok(true), None));
    }
}

#[tokio::test]
async fn attempts_on_both_sides_of_the_end_of_a_part_count_together() {
    const PART: Duration = Duration::from_mins(10);
    let fixture = Fixture::postgres().await;
    let try_at = |name: &str, part| {
        let limited = [format!("{name} near"), format!("{name} network")];
        let limited = limited.map(|subject| (attempt(&subject, part), 1));
        fixture.store.count_attempts(limited.into())
    };
    let one = fixture.now();
    let next = one + PART;
    for (name, parts) in [("ann", (one, next)), ("bob", (next, one))] {
        // The first command has counted the first of its two subjects.
        let both = fixture
            .overlapped(2, try_at(name, parts.0), try_at(name, parts.1))
            .await;
        assert_eq!(both, (Ok(true), Ok(false)), "{name}");
    }
}

postgres! {
    async fn a_payment_beside_the_deletion_of_its_organization_brings_no_card_back(fixture: &Fixture) {
        let org = fixture.buying_org(1).await;
        let deletion = fixture.batch([
            "UPDATE organization SET deleted_at = 1",
            "UPDATE billing_account SET payment_method = NULL",
            "SELECT 1",
        ]);
        let keep = fixture.store.keep_card(org, Some(card("pm_late", "portal")), fixture.now());
        let ((), kept) = fixture.overlapped(2, deletion, keep).await;
        assert_eq!(kept, Ok(()));
        let cards = "SELECT COUNT(*) FROM billing_account WHERE payment_method IS NOT NULL";
        assert_eq!(fixture.count(cards).await, 0);
    }

    async fn no_credits_are_given_to_an_organization_that_is_being_deleted(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        let deletion = fixture.store.delete_organization(fixture.deletion(org, ann), fixture.audit(org));
        let give = fixture.store.move_credits(fixture.grant(org, 5), fixture.audit(org));
        let (deleted, given) = fixture.overlapped(2, deletion, give).await;
        assert_eq!((deleted, given), (Ok(()), Err(Error::NotFound)));
        assert_eq!(fixture.credits(org).await, (0, 0));
    }

    async fn content_whose_last_reference_goes_during_a_sweep_is_swept_later(fixture: &Fixture, org: OrgId) {
        let file = fixture.file(org, "a", 1).await;
        // The check is due during the sweep, as in the erasure of an organization.
        let delete = fixture.store.delete_file(org, file.id, file.check_at, fixture.audit(org));
        let sweep = fixture.store.mark_unreferenced_blobs(file.check_at + HOUR, None, 10);
        let (deleted, swept) = fixture.overlapped(1, delete, sweep).await;
        deleted.unwrap();
        swept.unwrap();
        let swept = fixture.sweep_blobs(file.check_at + HOUR).await;
        assert_eq!(swept.iter().map(|blob| blob.id).collect::<Vec<_>>(), [file.blob]);
    }

    async fn the_content_of_every_file_of_a_deleted_organization_is_looked_at(fixture: &Fixture) {
        let (org, _) = fixture.full_organization().await;
        let files = [fixture.file(org, "x", 31).await, fixture.file(org, "y", 32).await];
        // A sweep has seen that the contents are used, and does not check them again.
        let later = files[1].check_at + HOUR;
        assert_eq!(fixture.sweep_blobs(later).await, []);
        fixture.batch(["UPDATE organization SET deleted_at = 1"]).await;
        let (store, at) = (&fixture.store, later + HOUR);
        let first = "SELECT id FROM file WHERE created_at >= 0 ORDER BY created_at, id LIMIT 1";
        let first = store.db.read(move |tx| tx.query_one(first, vals![])?.only()).await.unwrap();
        let delete = store.delete_file(org, first, at, fixture.audit(org));
        let (deleted, erased) = fixture.overlapped(1, delete, store.erase_files(org, at, 1)).await;
        assert_eq!((deleted, erased), (Ok(()), Ok(1)));
        while store.erase_files(org, at, 1).await.unwrap() > 0 {}
        fixture.sweep_blobs(at).await;
        let left =
            "SELECT COUNT(*) FROM blob b WHERE NOT EXISTS (SELECT 1 FROM artifact_blob a WHERE a.blob_id = b.id)";
        assert_eq!(fixture.count(left).await, 0);
    }

    async fn no_session_begins_beside_the_end_of_its_identity(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        store.verify_email(ann, fixture.now()).await.unwrap();
        store.sign_in(fixture.new_session(ann), proved(linked("a", "ann"))).await.unwrap();
        let sign_in = || store.sign_in(fixture.new_session(ann), proved(ProvenIdentity::Known(identity("a"))));
        sign_in().await.unwrap();
        let keep = SessionId::new(fixture.now(), [1; 10]);
        let identity = identity("a");
        let unlink = store.unlink_identity(ann, &identity, keep);
        let (unlinked, signed_in) = fixture.overlapped(1, unlink, sign_in()).await;
        assert_eq!(unlinked, Ok(()));
        conflicts(&signed_in);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM session").await, 0);
    }

    async fn nothing_is_added_to_an_account_that_is_being_deleted(fixture: &Fixture, store: &Store) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let new = fixture.new_organization(ann);
        let audit = fixture.audit(new.id);
        // The first batch with more statements follows after the locks.
        let delete = store.delete_person(fixture.alone("ann", ann));
        let (deleted, created) = fixture.overlapped(2, delete, store.create_organization(new, audit)).await;
        assert_eq!((deleted, created), (Ok(()), Err(Error::NotFound)));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM membership").await, 0);
        let avatar = Avatar {
            content_type: "image/png".to_owned(),
            bytes: vec![1],
            sha256: [1; 32],
            updated_at: fixture.now(),
        };
        let delete = store.delete_person(fixture.alone("bob", bob));
        let (deleted, put) = fixture.overlapped(2, delete, store.put_avatar(bob, avatar)).await;
        assert_eq!((deleted, put), (Ok(()), Err(Error::NotFound)));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM avatar").await, 0);
        let cid = fixture.person("cid").await;
        let delete = store.delete_person(fixture.alone("cid", cid));
        let (deleted, renamed) = fixture.overlapped(2, delete, store.rename_person(cid, "Cid")).await;
        assert_eq!((deleted, renamed.err()), (Ok(()), Some(Error::NotFound)));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM person WHERE name <> ''").await, 0);
    }

    /// A deleted account has no password, and neither has an account before its first password.
    async fn no_password_is_set_of_an_account_that_is_being_deleted(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        fixture.batch(["UPDATE person SET password = ''"]).await;
        let delete = store.delete_person(PersonDeletion { password: String::new(), ..fixture.alone("ann", ann) });
        let first = PasswordChange { user: ann, old: String::new(), new: "late".to_owned() };
        let set = store.change_password(first, SessionId::new(fixture.now(), [1; 10]));
        let (deleted, set) = fixture.overlapped(2, delete, set).await;
        assert_eq!(deleted, Ok(()));
        conflicts(&set);
        let with = "SELECT COUNT(*) FROM person WHERE password <> ''";
        assert_eq!(fixture.count(with).await, 0);
    }

    async fn two_grants_at_once_do_not_pass_the_limit_of_a_person(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        let grant = || {
            let new = fixture.new_grant(org, ann, Role::Member);
            fixture.store.create_grant(new, fixture.audit(org))
        };
        for _ in 1..GRANTS_OF_A_PERSON {
            grant().await.unwrap();
        }
        let (first, second) = fixture.overlapped(2, grant(), grant()).await;
        assert_eq!(first, Ok(()));
        conflicts(&second);
    }

    async fn what_was_put_off_is_not_deleted_as_ended(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        let new = fixture.new_grant(org, ann, Role::Member);
        let end = new.code_expires_at + HOUR;
        fixture.store.create_grant(new, fixture.audit(org)).await.unwrap();
        let put_off = fixture.batch(["UPDATE oauth_grant SET expires_at = 9000000000000000", "SELECT 1"]);
        let ((), deleted) = fixture.overlapped(1, put_off, fixture.store.delete_ended_oauth(end, 10)).await;
        deleted.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM oauth_grant").await, 1);
    }

    async fn of_two_mails_at_once_one_resets_the_password(fixture: &Fixture) {
        let (ann, at) = (fixture.person("ann").await, fixture.now());
        let mailed = |number| {
            let token = token(number, Purpose::ResetPassword, ann, at + HOUR);
            fixture.store.keep_one_time(fixture.sent(token))
        };
        let (first, second) = fixture.overlapped(2, mailed(1), mailed(2)).await;
        assert_eq!((first, second), (Ok(()), Ok(())));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM one_time").await, 1);
    }

    async fn nothing_is_charged_beside_the_end_of_the_consent(fixture: &Fixture) {
        let org = fixture.buying_org(1).await;
        let (id, store) = (fixture.begun(org).await.unwrap().id, &fixture.store);
        // Another node claims the purchase at the same time: its row is locked by the same transaction as the settings.
        let disable = fixture.batch(["UPDATE topup SET checks = checks + 1", "DELETE FROM auto_topup", "SELECT 1"]);
        let ((), sent) = fixture.overlapped(2, disable, store.send_auto_topup(id)).await;
        assert_eq!(sent, Ok(SentAutoTopup::Never));

        // A person disables them, and is answered only then.
        let org = fixture.buying_org(1).await;
        let (id, audit) = (fixture.begun(org).await.unwrap().id, fixture.audit(org));
        let disable = store.disable_auto_topup(org, audit);
        let (disabled, sent) = fixture.overlapped(1, disable, store.send_auto_topup(id)).await;
        assert_eq!((disabled, sent), (Ok(true), Ok(SentAutoTopup::Never)));
    }

    /// `docs/BILLING.md#the-ledger`
    async fn a_charge_that_waits_for_another_entry_is_newer_than_it(fixture: &Fixture) {
        let (org, node, store) = (fixture.paying_org(1_000).await, fixture.node().await, &fixture.store);
        store.create_run(fixture.paid(org, 100)).await.unwrap();
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        store.cancel_run(org, fence.run, fixture.now()).await.unwrap();
        // The other entry has the credits, and the later time.
        let later = NewLedgerEntry { at: fixture.now() + HOUR, ..fixture.grant(org, 5) };
        let give = store.move_credits(later, fixture.audit(org));
        let settle = store.settle_run(fence.run, fence.attempt, of_calls(micros(7)), Vec::new());
        let (given, settled) = fixture.overlapped(2, give, settle).await;
        assert_eq!(given, Ok(Appended::New));
        settled.unwrap();
        let newest = store.list_ledger(org, None, 2).await.unwrap();
        assert_eq!((newest[0].1.amount_micros, newest[1].1.amount_micros), (-7, 5));
        assert!(newest[0].0.at > newest[1].0.at);
    }

    async fn a_connection_that_waits_for_its_confirmation_says_so_beside_the_end_of_another_one(fixture: &Fixture, org: OrgId) {
        let (new, store) = (fixture.connection(org, "a").await, &fixture.store);
        let waits = |number| {
            let note = format!("{AWAITING} {number}");
            store.await_confirmation(Fixture::flow(&new, number), note, fixture.audit(org))
        };
        assert_eq!(waits(1).await, Ok(true));
        store.take_authorization([1; 32], new.at).await.unwrap().unwrap();
        let refuse = store.refuse_confirmation(org, new.id, fixture.audit(org));
        let (awaited, refused) = fixture.overlapped(2, waits(2), refuse).await;
        assert_eq!((awaited, refused), (Ok(true), Ok(())));
        let noted = "SELECT COUNT(*) FROM connection WHERE error LIKE '%confirmation 2'";
        assert_eq!(fixture.count(noted).await, 1);
    }

    /// Two commands that lock in opposite orders deadlock. `PostgreSQL` aborts one after a second, and it is run again.
    async fn commands_lock_in_one_order(fixture: &Fixture) {
        let (ann, store) = (fixture.person("ann").await, &fixture.store);
        let org = fixture.org_of(ann).await;
        fixture.give(org, 1).await;
        store.keep_customer(org, "cus_0").await.unwrap();
        let new = fixture.new_auto_topup(org);
        store.put_auto_topup(new, fixture.audit(org)).await.unwrap();
        // Pauses after the saved card, when the deletion has locked all earlier rows.
        let delete = store.delete_organization(fixture.deletion(org, ann), fixture.audit(org));
        let replace = store.replace_customer(fixture.new_customer(org, "cus_0", "cus_1"));
        let (deleted, replaced) = fixture.overlapped(15, delete, replace).await;
        assert_eq!(deleted, Ok(()));
        replaced.unwrap();

        let org = fixture.org_of(ann).await;
        let invited = fixture.invite(org, ann, "bob", Role::Member).await.invitation.id;
        // Pauses after the mails of the invitations.
        let delete = store.delete_organization(fixture.deletion(org, ann), fixture.audit(org));
        let withdraw = store.withdraw_invitation(org, invited, fixture.audit(org));
        let (deleted, withdrawn) = fixture.overlapped(9, delete, withdraw).await;
        assert_eq!((deleted, withdrawn), (Ok(()), Err(Error::NotFound)));

        let at = fixture.now();
        for (number, purpose) in [(1, Purpose::ResetPassword), (2, Purpose::Recovery)] {
            let token = token(number, purpose, ann, at + HOUR);
            store.keep_one_time(fixture.sent(token)).await.unwrap();
        }
        // Pauses after the person.
        let remove = store.remove_totp(ann, Factor::Recovery([2; 32]));
        let with = SignIn {
            password: Some(PasswordChange {
                user: ann,
                old: "hash of ann".to_owned(),
                new: "hash of ann".to_owned(),
            }),
            factor: Some(Factor::Recovery([2; 32])),
            ..SignIn::default()
        };
        let sign_in = store.sign_in(fixture.new_session(ann), with);
        let (removed, signed_in) = fixture.overlapped(1, remove, sign_in).await;
        assert_eq!(removed, Ok(()));
        conflicts(&signed_in);
        let delete = store.delete_person(fixture.alone("ann", ann));
        let reset = store.reset_password(([1; 32], at), "new".to_owned(), None);
        let (deleted, reset) = fixture.overlapped(2, delete, reset).await;
        assert_eq!(deleted, Ok(()));
        conflicts(&reset);
        assert_eq!(store.db.retries(), 0);
    }
}
