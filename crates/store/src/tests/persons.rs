//! Accounts of people: sign-in with a second factor, pictures, and the end of an account.

use super::{
    people::{attempt, conflicts, token, tried},
    prelude::*,
};

const HOUR: Duration = Duration::from_hours(1);

fn with(factor: Factor) -> SignIn {
    SignIn {
        factor: Some(factor),
        ..SignIn::default()
    }
}

fn avatar(number: u8, updated_at: Timestamp) -> Avatar {
    Avatar {
        content_type: "image/png".to_owned(),
        bytes: vec![number; 9],
        sha256: [number; 32],
        updated_at,
    }
}

both! {
    async fn the_account_of_a_sign_in_comes_with_the_addresses_of_its_sessions(fixture: &Fixture) {
        let (store, ann) = (&fixture.store, fixture.person("ann").await);
        fixture.person("bob").await;
        let (account, addresses) = store.account_to_sign_in("ann@example.com", fixture.now()).await.unwrap();
        assert_eq!(account.map(|of| of.person.id), Some(ann));
        assert_eq!(addresses, ["192.0.2.7".parse::<std::net::IpAddr>().unwrap()]);
        let later = fixture.now() + Duration::from_hours(721);
        let (account, addresses) = store.account_to_sign_in("ann@example.com", later).await.unwrap();
        assert_eq!((account.is_some(), addresses.len()), (true, 0));
        let nobody = store.account_to_sign_in("cat@example.com", later).await.unwrap();
        assert_eq!(nobody, (None, Vec::new()));
    }

    async fn a_sign_up_may_leave_the_session_to_a_verified_address(fixture: &Fixture) {
        let (store, person) = (&fixture.store, fixture.new_person("ann"));
        let verify = token(1, Purpose::VerifyEmail, person.id, fixture.now() + HOUR);
        store.sign_up(person.clone(), None, Some(fixture.sent(verify))).await.unwrap();
        assert_eq!(store.list_sessions(person.id, fixture.now(), 9).await.unwrap(), []);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM mail").await, 1);
        let owner = store.account_of_token([1; 32], Purpose::VerifyEmail, fixture.now()).await.unwrap();
        assert_eq!(owner.map(|of| of.person.id), Some(person.id));
        let other = store.account_of_token([1; 32], Purpose::ResetPassword, fixture.now()).await.unwrap();
        assert_eq!(other, None);
        store.verify_by_token([1; 32], fixture.now()).await.unwrap();
    }

    async fn a_second_factor_is_confirmed_once_and_its_steps_only_rise(fixture: &Fixture) {
        let (store, ann, at) = (&fixture.store, fixture.person("ann").await, fixture.now());
        let code = |number| token(number, Purpose::Recovery, ann, at);
        conflicts(&store.confirm_totp((ann, b"key".to_vec()), (5, at), vec![code(1)]).await);
        store.enrol_totp(ann, b"first".to_vec()).await.unwrap();
        store.enrol_totp(ann, b"key".to_vec()).await.unwrap();
        assert_eq!(store.account(ann).await.unwrap().person.second_factor_since, None);
        conflicts(&store.confirm_totp((ann, b"first".to_vec()), (5, at), vec![code(1)]).await);
        // Before the confirmation no code counts.
        conflicts(&store.sign_in(fixture.new_session(ann), with(Factor::Step(4))).await);
        store.confirm_totp((ann, b"key".to_vec()), (5, at), vec![code(1), code(2)]).await.unwrap();
        conflicts(&store.confirm_totp((ann, b"key".to_vec()), (6, at), vec![]).await);
        conflicts(&store.enrol_totp(ann, b"other".to_vec()).await);
        let account = store.account(ann).await.unwrap();
        assert_eq!((account.person.second_factor_since, account.totp.as_deref()), (Some(at), Some(&b"key"[..])));

        conflicts(&store.sign_in(fixture.new_session(ann), with(Factor::Step(5))).await);
        let tries = (0..8).map(|_| store.sign_in(fixture.new_session(ann), with(Factor::Step(6))));
        assert_eq!(join_all(tries).await.iter().filter(|done| done.is_ok()).count(), 1);
        conflicts(&store.sign_in(fixture.new_session(ann), with(Factor::Step(4))).await);
        let tries = (0..8).map(|_| store.sign_in(fixture.new_session(ann), with(Factor::Recovery([1; 32]))));
        assert_eq!(join_all(tries).await.iter().filter(|done| done.is_ok()).count(), 1);
        let bob = fixture.person("bob").await;
        conflicts(&store.sign_in(fixture.new_session(bob), with(Factor::Recovery([2; 32]))).await);
        conflicts(&store.remove_totp(bob, Factor::Recovery([2; 32])).await);

        conflicts(&store.remove_totp(ann, Factor::Step(6)).await);
        store.remove_totp(ann, Factor::Recovery([2; 32])).await.unwrap();
        let account = store.account(ann).await.unwrap();
        assert_eq!((account.person.second_factor_since, account.totp), (None, None));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM one_time").await, 0);
    }

    async fn a_reset_removes_the_second_factor_of_an_address_that_nobody_had_proved(fixture: &Fixture, store: &Store, at: Timestamp) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        store.verify_email(bob, at).await.unwrap();
        for (user, number) in [(ann, 1), (bob, 3)] {
            store.enrol_totp(user, b"key".to_vec()).await.unwrap();
            let recovery = token(number, Purpose::Recovery, user, at + HOUR);
            store.confirm_totp((user, b"key".to_vec()), (5, at), vec![recovery]).await.unwrap();
        }
        let reset = async |user, number: u8| {
            let reset = token(number, Purpose::ResetPassword, user, at + HOUR);
            store.keep_one_time(fixture.sent(reset)).await.unwrap();
            store.reset_password(([number; 32], at), "new".to_owned(), None).await.unwrap();
            let account = store.account(user).await.unwrap();
            (account.person.second_factor_since, account.totp)
        };
        let recoveries = "SELECT COUNT(*) FROM one_time WHERE purpose = 'recovery'";
        assert_eq!(reset(ann, 2).await, (None, None));
        assert_eq!(fixture.count(recoveries).await, 1, "the codes of the other person stay");
        let kept = (Some(at), Some(b"key".to_vec()));
        assert_eq!(reset(bob, 4).await, kept);
        // The address is verified now: the next second factor outlasts a reset.
        store.enrol_totp(ann, b"key".to_vec()).await.unwrap();
        let recovery = token(5, Purpose::Recovery, ann, at + HOUR);
        store.confirm_totp((ann, b"key".to_vec()), (6, at), vec![recovery]).await.unwrap();
        assert_eq!(reset(ann, 6).await, kept);
        assert_eq!(fixture.count(recoveries).await, 2);
    }

    async fn a_refused_sign_in_takes_no_attempt_back(fixture: &Fixture) {
        let (store, ann, at) = (&fixture.store, fixture.person("ann").await, fixture.now());
        let [near, far] = ["near", "far"].map(|subject| attempt(subject, at));
        for _ in 0..3 {
            store.count_attempts(vec![(near.clone(), 9), (far.clone(), 9)]).await.unwrap();
        }
        let proofs = |factor| SignIn {
            factor,
            forgotten: Some(near.clone()),
            refunded: vec![far.clone()],
            ..SignIn::default()
        };
        conflicts(&store.sign_in(fixture.new_session(ann), proofs(Some(Factor::Step(1)))).await);
        assert_eq!(tried(store, near.clone()).await, 3);
        store.sign_in(fixture.new_session(ann), proofs(None)).await.unwrap();
        assert_eq!(tried(store, near.clone()).await, 0);
        assert_eq!(tried(store, far.clone()).await, 2);
    }

    async fn a_deleted_person_leaves_the_id_and_the_audit_log(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (own, other) = (fixture.org_of(ann).await, fixture.org_of(bob).await);
        fixture.member(other, ann, Role::Admin).await;
        fixture.member(own, bob, Role::Member).await;
        let (store, at) = (&fixture.store, fixture.now());
        store.put_avatar(ann, avatar(1, at)).await.unwrap();
        for org in [own, other] {
            fixture.key(org, Role::Admin).await;
        }
        let deletion = || PersonDeletion {
            user: ann,
            password: "hash of ann".to_owned(),
            audits: vec![fixture.audit(own), fixture.audit(other)],
            deleted: vec![own],
            at,
        };
        conflicts(&store.delete_person(deletion()).await);
        store.remove_member(own, bob, fixture.audit(own)).await.unwrap();
        let outdated = PersonDeletion { password: "other".to_owned(), ..deletion() };
        conflicts(&store.delete_person(outdated).await);
        let short = PersonDeletion { audits: vec![fixture.audit(own)], ..deletion() };
        conflicts(&store.delete_person(short).await);
        let kept = PersonDeletion { deleted: Vec::new(), ..deletion() };
        conflicts(&store.delete_person(kept).await);
        assert_eq!(store.account(ann).await.unwrap().person.name, "ann");
        store.delete_person(deletion()).await.unwrap();

        let left = store.account(ann).await.unwrap();
        assert_eq!((left.person.email.as_str(), left.person.name.as_str(), left.password.as_str()), ("", "", ""));
        assert_eq!(store.find_account("ann@example.com").await.unwrap(), None);
        assert_eq!(store.list_sessions(ann, at, 9).await.unwrap(), []);
        assert_eq!(store.organizations_of(ann, None, 9).await.unwrap(), []);
        assert_eq!(store.avatar(ann, ann).await, Ok(None));
        assert_eq!(store.deleted_organizations(None, 9).await.unwrap().items, [own], "nobody else is in it");
        assert_eq!(fixture.count("SELECT COUNT(*) FROM api_key").await, 1, "the key of the other organization");
        // The address is free again.
        fixture.person("ann").await;
        conflicts(&store.delete_person(deletion()).await);
    }

    async fn a_suspended_organization_outlives_the_account_of_its_owner(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, store, at) = (fixture.org_of(ann).await, &fixture.store, fixture.now());
        store.suspend_organization(org, Some("abuse".to_owned()), at, fixture.audit(org)).await.unwrap();
        let deletion = |deleted| PersonDeletion {
            user: ann,
            password: "hash of ann".to_owned(),
            audits: vec![fixture.audit(org)],
            deleted,
            at,
        };
        conflicts(&store.delete_person(deletion(vec![org])).await);
        store.delete_person(deletion(Vec::new())).await.unwrap();
        let seen = store.operated_organization(org).await.unwrap();
        assert_eq!((seen.deleted_at, seen.suspended_why.as_deref()), (None, Some("abuse")));
    }

    async fn a_person_finds_the_own_changes_of_every_organization(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (first, second) = (fixture.org_of(ann).await, fixture.org_of(ann).await);
        for org in [first, second] {
            let mut audit = fixture.audit(org);
            audit.actor.user = Some(ann);
            fixture.store.rename_organization(org, "new", audit).await.unwrap();
        }
        let found = fixture.store.audit_of_person(ann, 9).await.unwrap();
        assert_eq!(found.iter().map(|(org, _)| *org).collect::<Vec<_>>(), [second, first]);
        assert!(found.iter().all(|(_, entry)| entry.user_id == Some(ann)));
        assert_eq!(fixture.store.audit_of_person(ann, 1).await.unwrap().len(), 1);
    }
}

impl Fixture {
    /// Runs every command about accounts once.
    pub(super) async fn use_accounts(&self, ann: UserId) {
        let (store, at) = (&self.store, self.now());
        store.account_to_sign_in("plan-a@example.com", at).await.unwrap();
        store
            .account_of_token([3; 32], Purpose::ResetPassword, at)
            .await
            .unwrap();
        store.enrol_totp(ann, b"key".to_vec()).await.unwrap();
        let code = token(4, Purpose::Recovery, ann, at);
        store
            .confirm_totp((ann, b"key".to_vec()), (1, at), vec![code])
            .await
            .unwrap();
        let session = self.new_session(ann);
        store.sign_in(session, with(Factor::Step(2))).await.unwrap();
        store.remove_totp(ann, Factor::Recovery([4; 32])).await.unwrap();
        store.audit_of_person(ann, 9).await.unwrap();
        let cat = self.person("plan-c").await;
        let org = self.org_of(cat).await;
        let deletion = PersonDeletion {
            user: cat,
            password: "hash of plan-c".to_owned(),
            audits: vec![self.audit(org)],
            deleted: vec![org],
            at,
        };
        store.delete_person(deletion).await.unwrap();
    }
}
