//! Commands that end access, and the look-ups that they drop.

use super::prelude::*;
use crate::{
    access::lookups::Ended,
    organizations::OrganizationDeletion,
    people::{SessionKind, SignedIn},
};

const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
const FRESH: Duration = Duration::from_hours(1);

const KEY: [u8; 32] = [1; 32];
const GRANT: [u8; 32] = [2; 32];
const SESSION: [u8; 32] = [3; 32];
const OTHER: [u8; 32] = [4; 32];

fn key() -> KeyId {
    KeyId::new(AT, [1; 10])
}

fn grant() -> GrantId {
    GrantId::new(AT, [2; 10])
}

fn session() -> SessionId {
    SessionId::new(AT, [3; 10])
}

fn org() -> OrgId {
    OrgId::new(AT, [4; 10])
}

fn user() -> UserId {
    UserId::new(AT, [5; 10])
}

/// Makes the four look-ups of a node.
async fn look_up(fixture: &Fixture) {
    let principal = |by, org, user| Principal {
        org,
        role: Role::Member,
        scope: None,
        session_key: None,
        by,
        until: None,
        user,
        suspended: false,
    };
    let principals = [
        (KEY, principal(By::Key(key()), org(), None)),
        (GRANT, principal(By::Grant(grant()), org(), Some(user()))),
        (
            OTHER,
            principal(By::Key(KeyId::new(AT, [6; 10])), OrgId::new(AT, [7; 10]), None),
        ),
    ];
    for (hash, principal) in principals {
        let found = fixture
            .store
            .look_up(hash, FRESH, || AT, async { Ok(Some(principal)) });
        found.await.unwrap().unwrap();
    }
    let person = SignedIn {
        user: user(),
        session: session(),
        kind: SessionKind::Web,
        until: AT + Duration::from_hours(1),
        seen_at: AT,
        email_verified: true,
    };
    let found = fixture
        .store
        .look_up(SESSION, FRESH, || AT, async { Ok(Some(person)) });
    found.await.unwrap().unwrap();
}

/// Returns the hashes of the cached look-ups.
async fn kept(fixture: &Fixture) -> Vec<[u8; 32]> {
    let mut kept = Vec::new();
    for hash in [KEY, GRANT, SESSION, OTHER] {
        let principal = fixture
            .store
            .look_up::<Principal>(hash, FRESH, || AT, async { Ok(None) });
        let person = fixture
            .store
            .look_up::<SignedIn>(hash, FRESH, || AT, async { Ok(None) });
        if principal.await.unwrap().is_some() || person.await.unwrap().is_some() {
            kept.push(hash);
        }
    }
    kept
}

/// Checks that a command drops every look-up but those of `hashes`. The command fails, because the objects that it names
/// do not exist: it could as well have been committed and have lost its answer.
macro_rules! keeps {
    ($fixture:ident, $hashes:expr, $command:expr) => {
        look_up($fixture).await;
        $command.await.unwrap_err();
        assert_eq!(kept($fixture).await, $hashes, stringify!($command));
    };
}

both! {
    async fn a_command_that_ends_access_drops_its_look_ups_also_when_it_fails(fixture: &Fixture) {
        let (store, audit) = (&fixture.store, || fixture.audit(org()));
        look_up(fixture).await;
        assert_eq!(kept(fixture).await, [KEY, GRANT, SESSION, OTHER]);

        keeps!(fixture, [GRANT, SESSION, OTHER], store.delete_key(org(), key(), audit()));
        let rotation = Rotation { id: key(), hash: [9; 32], at: AT, previous_until: AT };
        keeps!(fixture, [GRANT, SESSION, OTHER], store.rotate_key(org(), rotation, audit()));
        keeps!(fixture, [KEY, SESSION, OTHER], store.end_grant(user(), grant(), fixture.grant_audit()));
        keeps!(fixture, [KEY, GRANT, OTHER], store.end_session(user(), session()));
        keeps!(fixture, [KEY, GRANT, OTHER], store.end_member_session(org(), session(), audit()));

        keeps!(fixture, [SESSION, OTHER], store.set_role(org(), user(), Role::Member, audit()));
        keeps!(fixture, [SESSION, OTHER], store.remove_member(org(), user(), audit()));
        keeps!(fixture, [SESSION, OTHER], store.transfer_ownership(org(), (user(), user()), Vec::new(), audit()));
        keeps!(fixture, [SESSION, OTHER], store.suspend_organization(org(), None, AT, audit()));
        keeps!(fixture, [SESSION, OTHER], store.resume_organization(org(), audit()));
        let deletion = OrganizationDeletion { org: org(), owner: user(), name: "ours".to_owned(), at: AT };
        keeps!(fixture, [SESSION, OTHER], store.delete_organization(deletion, audit()));

        keeps!(fixture, [KEY, OTHER], store.disable_person(user(), AT, vec![audit()]));
        keeps!(fixture, [KEY, OTHER], store.unlink_person(user(), vec![audit()]));
        let change = PasswordChange { user: user(), old: "old".to_owned(), new: "new".to_owned() };
        keeps!(fixture, [KEY, OTHER], store.change_password(change, session()));
        keeps!(fixture, [KEY, OTHER], store.verify_email(user(), AT));
        let deletion = PersonDeletion { user: user(), password: String::new(), audits: Vec::new(), deleted: Vec::new(), at: AT };
        keeps!(fixture, [[0; 32]; 0], store.delete_person(deletion));
    }

    async fn a_token_that_does_not_work_drops_no_look_ups_but_a_lost_answer_drops_all(fixture: &Fixture) {
        let all = [KEY, GRANT, SESSION, OTHER];
        keeps!(fixture, all, fixture.store.reset_password(([8; 32], AT), "hash".to_owned(), None));
        keeps!(fixture, all, fixture.store.verify_by_token([8; 32], AT));
        let lost = Err::<UserId, _>(Error::Unavailable("lost".to_owned()));
        fixture.store.ended(lost, |user| Some(Ended::Person(*user))).unwrap_err();
        assert_eq!(kept(fixture).await, [[0; 32]; 0]);
    }

    async fn a_look_up_that_began_before_an_end_is_not_kept(fixture: &Fixture) {
        let person = SignedIn {
            user: user(),
            session: session(),
            kind: SessionKind::Web,
            until: AT + Duration::from_hours(1),
            seen_at: AT,
            email_verified: true,
        };
        let found = fixture.store.look_up(SESSION, FRESH, || AT, async {
            fixture.store.end_session(user(), session()).await.unwrap_err();
            Ok(Some(person))
        });
        assert_eq!(found.await.unwrap(), Some(person));
        assert_eq!(kept(fixture).await, [[0; 32]; 0]);
    }
}
