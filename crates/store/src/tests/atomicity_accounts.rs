//! Atomicity of the commands of people, organizations, mail, the operator and the OAuth server.

use super::{
    atomicity::{proves, proves_step},
    identities::{identity, linked_at, proved},
    people::attempt,
    prelude::*,
    purchases::{card, moved_to},
};
use crate::{
    money::AfterEvent,
    oauth::{OauthClientKind, OauthClientRow},
    outbox::AfterSending,
};

commands! {
    async fn note_key_use_is_one_transaction(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Member).await;
        let hour = fixture.now();
        proves(fixture, async || fixture.store.note_key_use(key.id, hour).await).await;
        let earlier = Timestamp::from_micros(hour.as_micros() - 1);
        fixture.store.note_key_use(key.id, earlier).await.unwrap();
        assert_eq!(fixture.store.list_keys(org, None, 1).await.unwrap()[0].last_used_at, Some(hour));
    }

    async fn sign_ins_at_the_console_are_one_transaction_each(fixture: &Fixture, store: &Store, org: OrgId) {
        let (first, key) = fixture.console_session(org).await;
        let secret = crate::access::KeySecret { org, key: key.id, hash: key.hash };
        let second = fixture.new_console_session();
        proves(fixture, async || store.begin_console_session(second.clone(), secret).await).await;
        let code = fixture.new_console_code(&key);
        proves(fixture, async || store.keep_console_code(code).await).await;
        let third = fixture.new_console_session();
        proves(fixture, async || store.redeem_console_code(code.hash, third.clone()).await).await;
        let later = third.created_at + std::time::Duration::from_hours(2);
        proves(fixture, async || store.note_console_use((third.id, key.id), later).await).await;
        proves(fixture, async || store.end_console_session(first.id).await).await;
        store.keep_console_code(code).await.unwrap();
        let ended = later + std::time::Duration::from_hours(1_000);
        proves(fixture, async || store.delete_ended_console_rows(ended, 10).await).await;
    }

    async fn sign_up_and_sign_in_are_one_transaction_each(fixture: &Fixture, store: &Store) {
        let person = fixture.new_person("ann");
        let first = fixture.new_session(person.id);
        let by_mail = NewOneTime { hash: [9; 32], purpose: Purpose::VerifyEmail, user: person.id, expires_at: first.expires_at };
        let verify = fixture.sent(by_mail);
        proves(fixture, async || store.sign_up(person.clone(), Some(first.clone()), Some(verify.clone())).await).await;
        let (ann, second) = (person.id, fixture.new_session(person.id));
        let change = |old: &str, new: &str| PasswordChange { user: ann, old: old.to_owned(), new: new.to_owned() };
        let rehash = change("hash of ann", "b");
        proves(fixture, async || store.sign_in(second.clone(), SignIn { password: Some(rehash.clone()), ..SignIn::default() }).await).await;
        let new = change("b", "c");
        proves(fixture, async || store.change_password(new.clone(), second.id).await).await;
        let later = second.created_at + std::time::Duration::from_hours(1);
        proves(fixture, async || store.session_seen(second.id, later).await).await;
        proves(fixture, async || store.rename_person(ann, "new").await).await;
        let token = |number, purpose| NewOneTime { hash: [number; 32], purpose, user: ann, expires_at: later };
        let at = fixture.now();
        let verify = fixture.sent(token(1, Purpose::VerifyEmail));
        proves(fixture, async || store.keep_one_time(verify.clone()).await).await;
        proves(fixture, async || store.verify_by_token([1; 32], at).await).await;
        store.keep_one_time(fixture.sent(token(2, Purpose::ResetPassword))).await.unwrap();
        proves(fixture, async || store.reset_password(([2; 32], at), "d".to_owned(), None).await).await;
        let third = fixture.new_session(ann);
        store.sign_in(third.clone(), SignIn::default()).await.unwrap();
        proves(fixture, async || store.end_session(ann, third.id).await).await;
        let bob = fixture.person("bob").await;
        proves(fixture, async || store.verify_email(bob, at).await).await;
    }

    async fn sign_ins_with_an_identity_are_one_transaction_each(fixture: &Fixture, store: &Store, org: OrgId) {
        let person = NewPerson { password: String::new(), ..fixture.new_person("ann") };
        let (ann, first) = (person.id, fixture.new_session(person.id));
        let given = || Some(fixture.given(org, Role::Admin));
        proves(fixture, async || store.sign_up_with_identity(person.clone(), identity("a"), first.clone(), given()).await).await;
        let second = fixture.new_session(ann);
        let with = SignIn { role: Some(fixture.given(org, Role::Member)), ..proved(linked_at("https://other.example", "ann")) };
        proves(fixture, async || store.sign_in(second.clone(), with.clone()).await).await;
    }

    async fn changes_of_an_account_are_one_transaction_each(fixture: &Fixture) {
        let (store, ann, at) = (&fixture.store, fixture.person("ann").await, fixture.now());
        proves(fixture, async || store.enrol_totp(ann, b"key".to_vec()).await).await;
        let codes: Vec<_> = [1, 2]
            .map(|number| NewOneTime { hash: [number; 32], purpose: Purpose::Recovery, user: ann, expires_at: at })
            .into();
        let key = || (ann, b"key".to_vec());
        proves(fixture, async || store.confirm_totp(key(), (7, at), codes.clone()).await).await;
        let session = fixture.new_session(ann);
        let tried = attempt("x", at);
        store.count_attempts(vec![(tried.clone(), 9)]).await.unwrap();
        let with = SignIn { factor: Some(Factor::Step(8)), forgotten: Some(tried), ..SignIn::default() };
        proves(fixture, async || store.sign_in(session.clone(), with.clone()).await).await;
        proves(fixture, async || store.remove_totp(ann, Factor::Recovery([1; 32])).await).await;
        let avatar = Avatar { content_type: "image/png".to_owned(), bytes: vec![1], sha256: [1; 32], updated_at: at };
        proves(fixture, async || store.put_avatar(ann, avatar.clone()).await).await;
        proves(fixture, async || store.delete_avatar(ann).await).await;
        let org = fixture.org_of(ann).await;
        let deletion = PersonDeletion {
            user: ann,
            password: "hash of ann".to_owned(),
            audits: vec![fixture.audit(org)],
            deleted: vec![org],
            at,
        };
        proves(fixture, async || store.delete_person(deletion.clone()).await).await;
    }

    async fn queueing_claiming_and_recording_a_mail_are_one_transaction_each(fixture: &Fixture) {
        let (store, lease) = (&fixture.store, std::time::Duration::ZERO);
        let (mail, kept, at) = (fixture.new_mail(Some("a")), fixture.new_mail(None), fixture.now());
        proves(fixture, async || store.queue_mails(vec![mail.clone()]).await).await;
        proves_step(fixture, async || store.claim_mails(at, lease, 10).await).await;
        let attempt = fixture.count("SELECT MAX(attempts) FROM mail").await;
        let later = AfterSending::RetryIn(std::time::Duration::from_secs(1));
        proves_step(fixture, async || store.record_mail(mail.id, attempt, at, later).await).await;
        proves(fixture, async || store.record_mail(mail.id, attempt, at, AfterSending::Ended).await).await;
        store.queue_mails(vec![kept.clone()]).await.unwrap();
        proves(fixture, async || store.record_mail(kept.id, 0, at, AfterSending::Ended).await).await;
    }

    async fn orders_and_their_payments_are_one_transaction_each(fixture: &Fixture) {
        let (store, org) = (&fixture.store, fixture.paying_org(1).await);
        proves(fixture, async || store.keep_customer(org, "cus_1").await).await;
        let at = fixture.now();
        proves(fixture, async || store.ask_for_card(org, at, at).await).await;
        let saved = Some(card("pm_1", "portal"));
        proves(fixture, async || store.keep_card(org, saved.clone(), at).await).await;
        let topup = fixture.new_topup(org);
        proves(fixture, async || store.create_topup(topup.clone(), 10, fixture.audit(org)).await).await;
        let open = moved_to(&topup, TopupState::Open);
        proves(fixture, async || store.move_topup(open.clone()).await).await;
        let late = topup.check_at;
        proves_step(fixture, async || store.claim_topups(late, Duration::ZERO, 10).await).await;
        let checks = fixture.count("SELECT MAX(checks) FROM topup").await;
        let next = late + Duration::from_hours(1);
        proves(fixture, async || store.check_topup_at(topup.id, checks, next).await).await;
        let paid = fixture.paid_for(&topup);
        proves(fixture, async || store.credit_purchase(paid.clone()).await).await;
        proves_step(fixture, async || store.claim_comparisons(next, Duration::ZERO, 10).await).await;
        proves(fixture, async || store.compared(paid.payment, None).await).await;
        for kind in [TakeBackKind::Refund, TakeBackKind::Dispute] {
            for state in [TakeBackState::Taken, TakeBackState::Returned] {
                let report = fixture.report(&paid, (kind, &format!("{kind:?}")), 200, state);
                proves(fixture, async || store.take_back(report.clone()).await).await;
            }
        }
    }

    async fn recording_claiming_and_ending_an_event_are_one_transaction_each(fixture: &Fixture) {
        let (store, event) = (&fixture.store, fixture.stripe_event("evt_1"));
        let at = event.received_at;
        proves(fixture, async || store.record_stripe_events(vec![event.clone()]).await).await;
        proves_step(fixture, async || store.claim_stripe_events(at, Duration::ZERO, 10).await).await;
        let tries = fixture.count("SELECT MAX(tries) FROM stripe_event").await;
        let id = || "evt_1".to_owned();
        proves(fixture, async || store.record_stripe_attempt(id(), tries, AfterEvent::Done).await).await;
        let later = at + Duration::from_hours(1);
        proves(fixture, async || store.delete_stripe_events(later, 10).await).await;
        let minute = Duration::from_mins(1);
        proves(fixture, async || store.claim_stripe_search(at, minute, minute).await).await;
        proves(fixture, async || store.postpone_stripe_search(at).await).await;
        proves(fixture, async || store.record_stripe_search(at, later).await).await;
    }

    async fn what_ends_is_deleted_in_one_transaction_each(fixture: &Fixture, store: &Store) {
        let (ann, at) = (fixture.person("ann").await, fixture.now());
        let later = at + std::time::Duration::from_hours(10_000);
        let token = NewOneTime { hash: [1; 32], purpose: Purpose::VerifyEmail, user: ann, expires_at: at };
        store.keep_one_time(fixture.sent(token)).await.unwrap();
        let tried = attempt("x", at);
        proves_step(fixture, async || store.count_attempts(vec![(tried.clone(), 100)]).await).await;
        proves_step(fixture, async || store.refund_attempts(vec![tried.clone()]).await).await;
        store.count_attempts(vec![(tried.clone(), 100)]).await.unwrap();
        proves(fixture, async || store.forget_attempts(tried.clone()).await).await;
        store.count_attempts(vec![(tried.clone(), 100)]).await.unwrap();
        proves(fixture, async || store.delete_old_attempts(later, 10).await).await;
        proves(fixture, async || store.delete_ended_one_times(later, 10).await).await;
        proves(fixture, async || store.delete_ended_sessions(later, 10).await).await;
    }

    async fn changes_of_an_organization_are_one_transaction_each(fixture: &Fixture, store: &Store) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let new = fixture.new_organization(ann);
        let org = new.id;
        proves(fixture, async || store.create_organization(new.clone(), fixture.audit(org)).await).await;
        proves(fixture, async || store.rename_organization(org, "new", fixture.audit(org)).await).await;
        fixture.member(org, bob, Role::Member).await;
        proves(fixture, async || store.set_role(org, bob, Role::Admin, fixture.audit(org)).await).await;
        proves(fixture, async || store.transfer_ownership(org, (ann, bob), Vec::new(), fixture.audit(org)).await).await;
        proves(fixture, async || store.remove_member(org, ann, fixture.audit(org)).await).await;
    }

    async fn the_deletion_of_an_organization_is_one_transaction_and_so_is_each_step_after_it(fixture: &Fixture, store: &Store) {
        let (org, ann) = fixture.full_organization().await;
        let deletion = fixture.deletion(org, ann);
        proves(fixture, async || store.delete_organization(deletion.clone(), fixture.audit(org)).await).await;
        for (_, run) in store.unsettled_runs(org, None, 10).await.unwrap() {
            store.cancel_run(org, run, fixture.now()).await.unwrap();
        }
        let schedule = store.schedules_to_erase(org, 10).await.unwrap()[0];
        proves(fixture, async || store.erase_schedule(org, schedule).await).await;
        proves(fixture, async || store.erase_files(org, fixture.now(), 10).await).await;
        proves(fixture, async || store.erase_settings(org, 10).await).await;
        fixture.erase(org).await;
        store.mark_unreferenced_blobs(fixture.now(), None, 10).await.unwrap();
        let later = fixture.now();
        proves(fixture, async || store.organization_erased(org, later, later).await).await;
    }

    async fn invitations_change_in_one_transaction_each(fixture: &Fixture, store: &Store) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let org = fixture.org_of(ann).await;
        let new = fixture.new_invitation(org, ann, "bob", Role::Member);
        let (at, later) = (fixture.now(), new.expires_at + std::time::Duration::from_hours(1));
        proves(fixture, async || store.create_invitation(new.clone(), 5, None, fixture.audit(org)).await).await;
        let found = store.find_invitation(new.hash, at).await.unwrap().unwrap();
        proves(fixture, async || store.accept_invitation(&found, bob, at, fixture.audit(org)).await).await;
        let id = fixture.invite(org, ann, "cat", Role::Member).await.invitation.id;
        proves(fixture, async || store.withdraw_invitation(org, id, fixture.audit(org)).await).await;
        fixture.invite(org, ann, "dan", Role::Member).await;
        proves(fixture, async || store.delete_ended_invitations(later, 10).await).await;
    }

    async fn commands_of_the_operator_are_one_transaction_each(fixture: &Fixture, store: &Store, org: OrgId, at: Timestamp) {
        proves(fixture, async || store.set_first_operator_key([1; 32], at).await).await;
        fixture.queued(org).await;
        proves(fixture, async || store.suspend_organization(org, None, at, fixture.audit(org)).await).await;
        proves(fixture, async || store.park_runs(org, 10).await).await;
        proves(fixture, async || store.unpark_runs(org, 10).await).await;
        store.park_runs(org, 10).await.unwrap();
        proves(fixture, async || store.resume_organization(org, fixture.audit(org)).await).await;
        let ann = fixture.new_person("ann");
        let reset = NewOneTime { hash: [1; 32], purpose: Purpose::ResetPassword, user: ann.id, expires_at: at };
        proves(fixture, async || store.create_person(ann.clone(), reset.clone()).await).await;
        proves(fixture, async || store.disable_person(ann.id, at, vec![fixture.audit(org)]).await).await;
        proves(fixture, async || store.enable_person(ann.id, vec![fixture.audit(org)]).await).await;
        store.verify_email(ann.id, at).await.unwrap();
        for name in ["https://one.example", "https://two.example"] {
            let proven = linked_at(name, "ann");
            store.sign_in(fixture.new_session(ann.id), proved(proven)).await.unwrap();
        }
        let session = fixture.new_session(ann.id);
        let ended = session.id;
        store.sign_in(session, SignIn::default()).await.unwrap();
        let theirs = fixture.org_of(ann.id).await;
        proves(fixture, async || store.end_member_session(theirs, ended, fixture.audit(theirs)).await).await;
        let one = crate::people::Identity { issuer: "https://one.example".to_owned(), subject: "ann".to_owned() };
        let keep = fixture.new_session(ann.id).id;
        proves(fixture, async || store.unlink_identity(ann.id, &one, keep).await).await;
        proves(fixture, async || store.unlink_person(ann.id, vec![fixture.audit(org)]).await).await;
    }

    async fn the_commands_of_licenses_are_one_transaction_each(fixture: &Fixture, store: &Store, org: OrgId, at: Timestamp) {
        let license = fixture.license(7);
        proves(fixture, async || store.put_license(license.clone(), fixture.audit(org)).await).await;
        let run = fixture.licensed(org, 7);
        proves(fixture, async || store.create_run(run.clone()).await).await;
        proves(fixture, async || store.delete_license(fixture.audit(org)).await).await;
        let put = fixture.entitlement(org, 3);
        proves(fixture, async || store.put_entitlement(put.clone(), fixture.audit(org)).await).await;
        let bought = fixture.reading(org, "sub_1");
        proves(fixture, async || store.record_subscription(bought.clone(), fixture.audit(org)).await).await;
        let new = fixture.new_deployment(org, 'a');
        proves(fixture, async || store.create_deployment(new.clone(), fixture.audit(org)).await).await;
        proves(fixture, async || store.end_deployment(org, new.id, at, fixture.audit(org)).await).await;
    }

    async fn the_commands_of_the_oauth_server_are_one_transaction_each(fixture: &Fixture, store: &Store) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        let (new, other) = (fixture.new_grant(org, ann, Role::Admin), fixture.new_grant(org, ann, Role::Member));
        let client = OauthClientRow {
            id: new.client_id.clone(),
            kind: OauthClientKind::Registered,
            metadata: "{}".to_owned(),
            secret_hash: None,
            created_at: new.created_at,
            expires_at: new.created_at,
        };
        proves(fixture, async || store.keep_oauth_client(client.clone()).await).await;
        proves(fixture, async || store.create_grant(new.clone(), fixture.audit(org)).await).await;
        store.create_grant(other.clone(), fixture.audit(org)).await.unwrap();
        let redemption = fixture.redemption(&new);
        proves_step(fixture, async || store.redeem_code(redemption.clone(), fixture.grant_audit()).await).await;
        let refresh = fixture.refresh(redemption.tokens.refresh_hash, redemption.at);
        proves_step(fixture, async || store.refresh_tokens(refresh.clone(), fixture.grant_audit()).await).await;
        let token = refresh.tokens.access_hash;
        proves(fixture, async || store.revoke_token(token, &new.client_id, fixture.grant_audit()).await).await;
        proves(fixture, async || store.end_grant(ann, other.id, fixture.grant_audit()).await).await;
        let reused = fixture.new_grant(org, ann, Role::Member);
        store.create_grant(reused.clone(), fixture.audit(org)).await.unwrap();
        let redemption = fixture.redemption(&reused);
        store.redeem_code(redemption.clone(), fixture.grant_audit()).await.unwrap();
        let replay = async || store.redeem_code(redemption.clone(), fixture.grant_audit()).await;
        proves(fixture, replay).await;
        let later = new.created_at + std::time::Duration::from_hours(10_000);
        proves(fixture, async || store.delete_ended_oauth(later, 10).await).await;
    }
}
