//! Sessions at the console, and the codes that begin one.

use super::prelude::*;
use crate::access::{Actor, CONSOLE_SESSION, KeySecret, NewConsoleCode, NewConsoleSession, NewKey};

const HOUR: Duration = Duration::from_hours(1);
const HOUR_MICROS: i64 = 3_600_000_000;
const CODE: [u8; 32] = [77; 32];

/// Start of the hour of a time.
fn hour(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_micros() - at.as_micros().rem_euclid(HOUR_MICROS))
}

/// The secret that a new key has.
fn secret(key: &NewKey) -> KeySecret {
    KeySecret {
        org: key.org,
        key: key.id,
        hash: key.hash,
    }
}

impl Fixture {
    pub(super) fn new_console_session(&self) -> NewConsoleSession {
        let at = self.now();
        let mut hash = [5; 32];
        hash[..8].copy_from_slice(&self.number().to_be_bytes());
        NewConsoleSession {
            id: SessionId::new(at, self.random()),
            hash,
            created_at: at,
            actor: Actor::default(),
            audit_random: self.random(),
        }
    }

    /// A session of a new key.
    pub(super) async fn console_session(&self, org: OrgId) -> (NewConsoleSession, NewKey) {
        let (session, key) = (self.new_console_session(), self.key(org, Role::Admin).await);
        self.store
            .begin_console_session(session.clone(), secret(&key))
            .await
            .unwrap();
        (session, key)
    }

    /// A code of the key that works for a minute.
    pub(super) fn new_console_code(&self, key: &NewKey) -> NewConsoleCode {
        let expires_at = self.now() + Duration::from_mins(1);
        NewConsoleCode {
            hash: CODE,
            secret: secret(key),
            expires_at,
        }
    }

    /// Calls every command of the console, for the test of the query plans.
    pub(super) async fn use_console(&self, org: OrgId) {
        let (session, key) = self.console_session(org).await;
        let later = hour(self.now()) + HOUR;
        self.store.find_principal(session.hash).await.unwrap().unwrap();
        self.store
            .note_console_use((session.id, key.id), later)
            .await
            .unwrap();
        self.store
            .keep_console_code(self.new_console_code(&key))
            .await
            .unwrap();
        self.store
            .redeem_console_code(CODE, self.new_console_session())
            .await
            .unwrap();
        self.store.end_console_session(session.id).await.unwrap();
        self.store.delete_ended_console_rows(later, 10).await.unwrap();
    }
}

both! {
    async fn a_session_acts_with_the_role_of_its_key_as_a_subject_of_its_own(fixture: &Fixture, org: OrgId) {
        let (session, key) = fixture.console_session(org).await;
        let found = fixture.store.find_principal(session.hash).await.unwrap();
        let expected = Principal {
            org,
            role: Role::Admin,
            scope: None,
            by: By::Session(session.id),
            until: Some(hour(session.created_at) + 13 * HOUR),
            user: None,
            suspended: false,
            session_key: Some(key.id),
        };
        assert_eq!(found, Some(expected));
        let filter = AuditFilter { action: Some("console.sign_in".to_owned()), limit: 10, ..AuditFilter::default() };
        let audit = fixture.store.list_audit(org, filter).await.unwrap().items;
        assert_eq!(audit.len(), 1);
        assert_eq!((audit[0].target.as_str(), audit[0].key_id), (&*session.id.to_string(), Some(key.id)));
    }

    async fn a_session_ends_with_the_secret_that_began_it(fixture: &Fixture, org: OrgId) {
        let store = &fixture.store;
        fixture.key(org, Role::Admin).await;
        let (session, key) = fixture.console_session(org).await;
        let until = async || store.find_principal(session.hash).await.unwrap().map(|found| found.until.unwrap());
        let idle = hour(session.created_at) + 13 * HOUR;
        assert_eq!(until().await, Some(idle));
        let rotate = async |hash, grace| {
            let at = fixture.now();
            let rotation = Rotation { id: key.id, hash, at, previous_until: at + grace };
            store.rotate_key(org, rotation, fixture.audit(org)).await.unwrap();
            at + grace
        };
        let grace = rotate([1; 32], HOUR).await;
        assert_eq!(until().await, Some(grace), "the secret works until the end of its grace");
        let next = fixture.new_console_session();
        store.begin_console_session(next.clone(), KeySecret { org, key: key.id, hash: [1; 32] }).await.unwrap();
        assert_eq!(store.find_principal(next.hash).await.unwrap().unwrap().until, Some(hour(next.created_at) + 13 * HOUR));
        rotate([2; 32], HOUR).await;
        assert_eq!(until().await, None, "an older secret has ended");
        store.delete_key(org, key.id, fixture.audit(org)).await.unwrap();
        assert_eq!(store.find_principal(next.hash).await.unwrap(), None);
    }

    async fn a_session_ends_when_its_key_expires(fixture: &Fixture, org: OrgId) {
        let ends = fixture.now() + HOUR;
        let key = NewKey { expires_at: Some(ends), ..fixture.new_key(org, Role::Member) };
        fixture.store.create_key(key.clone(), fixture.audit(org)).await.unwrap();
        let session = fixture.new_console_session();
        fixture.store.begin_console_session(session.clone(), secret(&key)).await.unwrap();
        let found = async || fixture.store.find_principal(session.hash).await.unwrap().unwrap();
        assert_eq!((found().await.until, found().await.role), (Some(ends), Role::Member));
        let at = fixture.now();
        let rotation = Rotation { id: key.id, hash: [1; 32], at, previous_until: ends + HOUR };
        fixture.store.rotate_key(org, rotation, fixture.audit(org)).await.unwrap();
        assert_eq!(found().await.until, Some(ends), "no grace outlives the key");
        let late = NewConsoleSession { created_at: ends, ..fixture.new_console_session() };
        let refused = fixture.store.begin_console_session(late, KeySecret { hash: [1; 32], ..secret(&key) }).await;
        assert_eq!(refused, Err(Error::NotFound));
    }

    async fn no_session_begins_with_a_secret_that_the_key_does_not_have(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Admin).await;
        for wrong in [KeySecret { hash: [9; 32], ..secret(&key) }, KeySecret { key: fixture.new_key(org, Role::Admin).id, ..secret(&key) }] {
            let refused = fixture.store.begin_console_session(fixture.new_console_session(), wrong).await;
            assert_eq!(refused, Err(Error::NotFound));
        }
        let at = fixture.now();
        let rotation = Rotation { id: key.id, hash: [1; 32], at, previous_until: at };
        fixture.store.rotate_key(org, rotation, fixture.audit(org)).await.unwrap();
        let refused = fixture.store.begin_console_session(fixture.new_console_session(), secret(&key)).await;
        assert_eq!(refused, Err(Error::NotFound), "its grace has ended");
        assert_eq!(fixture.count("SELECT COUNT(*) FROM console_session").await, 0);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM audit WHERE action = 'console.sign_in'").await, 0);
    }

    async fn a_used_session_goes_on_for_seven_days(fixture: &Fixture, org: OrgId) {
        let (session, key) = fixture.console_session(org).await;
        let until = async || fixture.store.find_principal(session.hash).await.unwrap().unwrap().until.unwrap();
        let begun = hour(session.created_at);
        let note = async |at| fixture.store.note_console_use((session.id, key.id), at).await.unwrap();
        note(begun + 2 * HOUR).await;
        assert_eq!(until().await, begun + 15 * HOUR);
        note(begun + HOUR).await;
        assert_eq!(until().await, begun + 15 * HOUR, "a note that comes late changes nothing");
        let listed = fixture.store.list_keys(org, None, 10).await.unwrap();
        let used = listed.iter().find(|listed| listed.id == key.id).unwrap().last_used_at;
        assert_eq!(used, Some(begun + 2 * HOUR), "the key is in use as well");
        for use_after in (10..=160).step_by(10) {
            note(begun + use_after * HOUR).await;
        }
        assert_eq!(until().await, session.created_at + CONSOLE_SESSION);
        note(session.created_at + CONSOLE_SESSION).await;
        assert_eq!(until().await, session.created_at + CONSOLE_SESSION);
    }

    async fn a_code_begins_one_session(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Member).await;
        let store = &fixture.store;
        store.keep_console_code(fixture.new_console_code(&key)).await.unwrap();
        let session = fixture.new_console_session();
        store.redeem_console_code(CODE, session.clone()).await.unwrap();
        let found = store.find_principal(session.hash).await.unwrap().unwrap();
        assert_eq!((found.role, found.session_key), (Role::Member, Some(key.id)));
        let again = store.redeem_console_code(CODE, fixture.new_console_session()).await;
        assert_eq!(again, Err(Error::NotFound));
    }

    async fn of_two_that_redeem_a_code_at_once_one_is_signed_in(fixture: &Fixture, org: OrgId) {
        let key = fixture.key(org, Role::Member).await;
        for _ in 0..10 {
            fixture.store.keep_console_code(fixture.new_console_code(&key)).await.unwrap();
            let redeemed = join_all((0..4).map(|_| fixture.store.redeem_console_code(CODE, fixture.new_console_session()))).await;
            assert_eq!(redeemed.iter().filter(|redeemed| redeemed.is_ok()).count(), 1, "{redeemed:?}");
            assert!(redeemed.iter().filter_map(|redeemed| redeemed.as_ref().err()).all(|error| *error == Error::NotFound), "{redeemed:?}");
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM console_session").await, 10);
    }

    async fn an_expired_code_and_the_code_of_a_deleted_key_begin_no_session(fixture: &Fixture, org: OrgId) {
        let (store, key) = (&fixture.store, fixture.key(org, Role::Member).await);
        let code = fixture.new_console_code(&key);
        store.keep_console_code(code).await.unwrap();
        let late = NewConsoleSession { created_at: code.expires_at, ..fixture.new_console_session() };
        assert_eq!(store.redeem_console_code(CODE, late).await, Err(Error::NotFound));
        store.delete_key(org, key.id, fixture.audit(org)).await.unwrap();
        assert_eq!(store.redeem_console_code(CODE, fixture.new_console_session()).await, Err(Error::NotFound));
        assert_eq!(store.redeem_console_code([1; 32], fixture.new_console_session()).await, Err(Error::NotFound));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM console_session").await, 0);
    }

    async fn ended_sessions_and_codes_are_deleted_and_others_stay(fixture: &Fixture, org: OrgId) {
        let (store, (session, key)) = (&fixture.store, fixture.console_session(org).await);
        let code = fixture.new_console_code(&key);
        store.keep_console_code(code).await.unwrap();
        assert_eq!(store.delete_ended_console_rows(code.expires_at, 10).await.unwrap(), 0);
        assert_eq!(store.delete_ended_console_rows(code.expires_at + HOUR, 10).await.unwrap(), 1);
        assert_eq!(store.delete_ended_console_rows(hour(session.created_at) + 13 * HOUR, 10).await.unwrap(), 0);
        assert_eq!(store.delete_ended_console_rows(session.created_at + 14 * HOUR, 10).await.unwrap(), 1);
        assert_eq!(store.end_console_session(session.id).await, Err(Error::NotFound));
    }

    async fn a_key_that_ends_drops_the_look_ups_of_its_sessions(fixture: &Fixture, org: OrgId) {
        let (session, key) = fixture.console_session(org).await;
        let found = async || {
            let find = fixture.store.find_principal(session.hash);
            fixture.store.look_up::<Principal>(session.hash, HOUR, || session.created_at, find).await.unwrap()
        };
        assert!(found().await.is_some());
        fixture.key(org, Role::Admin).await;
        fixture.store.delete_key(org, key.id, fixture.audit(org)).await.unwrap();
        assert_eq!(found().await, None);
    }

    async fn the_budget_of_a_key_holds_for_its_sessions(fixture: &Fixture, org: OrgId) {
        let (session, key) = fixture.console_session(org).await;
        let put = PutBudget { limit_micros: micros(1), period: BudgetPeriod::Day };
        fixture.store.put_budget(BudgetScope::Key(key.id), put, 10, fixture.audit(org)).await.unwrap();
        let mut run = fixture.new_run(org);
        run.labels = Labels { by: Some(By::Session(session.id)), session_key: Some(key.id), ..Labels::default() };
        let refused = fixture.store.create_run(run).await.unwrap_err();
        assert!(refused.to_string().contains("budget"), "{refused}");
    }
}
