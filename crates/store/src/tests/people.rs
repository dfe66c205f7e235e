use super::prelude::*;
use crate::{
    Result,
    people::{
        Attempt, NewOrganization, NewSession, OneTimeMail, OwnOrganization, SessionKind, SignedIn,
        UnknownPurpose, UnknownSessionKind,
    },
};

const HOUR: Duration = Duration::from_hours(1);

/// Organizations of a person, with the role in each.
async fn roles(fixture: &Fixture, user: UserId) -> Vec<(OrgId, Role)> {
    let found = fixture.store.organizations_of(user, None, 100).await.unwrap();
    found.into_iter().map(|of| (of.id, of.role)).collect()
}

/// Members of an organization, with their roles.
async fn members(fixture: &Fixture, org: OrgId) -> Vec<(UserId, Role)> {
    let found = fixture.store.list_members(org, None, 100).await.unwrap();
    found.into_iter().map(|of| (of.user, of.role)).collect()
}

pub(super) fn token(number: u8, purpose: Purpose, user: UserId, expires_at: Timestamp) -> NewOneTime {
    NewOneTime {
        hash: [number; 32],
        purpose,
        user,
        expires_at,
    }
}

/// Length of a part of the window of [`attempt`].
const PART: Duration = Duration::from_mins(10);

pub(super) fn attempt(subject: &str, part: Timestamp) -> Attempt {
    Attempt {
        part,
        length: PART,
        subject: subject.to_owned(),
    }
}

/// Number of attempts that count.
pub(super) async fn tried(store: &Store, of: Attempt) -> i64 {
    let made = store.attempts(of).await.unwrap();
    made.into_iter().map(|(_, count)| count).sum()
}

/// Proof of a sign-in by a password.
fn proved(change: PasswordChange) -> SignIn {
    SignIn {
        password: Some(change),
        ..SignIn::default()
    }
}

pub(super) fn conflicts<T: std::fmt::Debug>(done: &Result<T>) {
    assert!(matches!(done, Err(Error::Conflict(_))), "{done:?}");
}

#[test]
fn kinds_of_sessions_and_purposes_are_read_from_their_text() {
    for kind in [SessionKind::Api, SessionKind::Web] {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!("cookie".parse::<SessionKind>(), Err(UnknownSessionKind));
    for purpose in [Purpose::VerifyEmail, Purpose::ResetPassword, Purpose::Recovery] {
        assert_eq!(purpose.as_str().parse(), Ok(purpose));
    }
    assert_eq!("email".parse::<Purpose>(), Err(UnknownPurpose));
}

both! {
    async fn a_person_signs_up_once_with_an_address(fixture: &Fixture, store: &Store) {
        let person = fixture.new_person("ann");
        let session = fixture.new_session(person.id);
        store.sign_up(person.clone(), Some(session.clone()), None).await.unwrap();
        let found = store.find_account("ann@example.com").await.unwrap().unwrap();
        assert_eq!((found.person.id, found.person.email.as_str()), (person.id, "ann@Example.com"));
        assert_eq!((found.password.as_str(), found.disabled_at), ("hash of ann", None));
        assert_eq!(found.person.email_verified_at, None);
        assert_eq!(store.account(person.id).await.unwrap(), found);
        assert!(!format!("{found:?}").contains("hash of ann"));
        let signed_in = store.find_session(session.hash).await.unwrap().unwrap();
        let expected = SignedIn {
            user: person.id,
            session: session.id,
            kind: SessionKind::Api,
            until: session.expires_at,
            seen_at: session.created_at,
            email_verified: false,
        };
        assert_eq!(signed_in, expected);

        let again = fixture.new_person("ann");
        let other = fixture.new_session(again.id);
        conflicts(&store.sign_up(again.clone(), Some(other.clone()), None).await);
        assert_eq!(store.find_session(other.hash).await.unwrap(), None);
        assert_eq!(store.account(again.id).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.find_account("bob@example.com").await.unwrap(), None);
    }

    async fn of_many_who_sign_up_with_one_address_at_once_one_is_taken(fixture: &Fixture) {
        let sign_ups = (0..16).map(|_| {
            let person = fixture.new_person("ann");
            let session = fixture.new_session(person.id);
            fixture.store.sign_up(person, Some(session), None)
        });
        let done = join_all(sign_ups).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM session").await, 1);
    }

    async fn a_new_password_ends_the_other_sessions(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let store = &fixture.store;
        let (keep, other) = (fixture.new_session(ann), fixture.new_session(ann));
        for session in [&keep, &other] {
            store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        }
        let change = PasswordChange { user: ann, old: "hash of ann".to_owned(), new: "new".to_owned() };
        store.change_password(change.clone(), keep.id).await.unwrap();
        assert_eq!(store.account(ann).await.unwrap().password, "new");
        let left = store.list_sessions(ann, fixture.now(), 10).await.unwrap();
        assert_eq!(left.iter().map(|session| session.id).collect::<Vec<_>>(), [keep.id]);
        assert_eq!(store.find_session(other.hash).await.unwrap(), None);
        assert_eq!(store.list_sessions(bob, fixture.now(), 10).await.unwrap().len(), 1);

        // Of two changes that compared the same password the second one is refused.
        conflicts(&store.change_password(change.clone(), keep.id).await);
        conflicts(&store.sign_in(fixture.new_session(ann), proved(change)).await);
        assert_eq!(store.list_sessions(ann, fixture.now(), 10).await.unwrap().len(), 1);
    }

    async fn a_sign_in_may_renew_the_hash_of_the_password(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let change = PasswordChange { user: ann, old: "hash of ann".to_owned(), new: "stronger".to_owned() };
        let session = fixture.new_session(ann);
        fixture.store.sign_in(session.clone(), proved(change)).await.unwrap();
        assert_eq!(fixture.store.account(ann).await.unwrap().password, "stronger");
        assert!(fixture.store.find_session(session.hash).await.unwrap().is_some());
    }

    async fn sessions_are_listed_newest_first_until_they_end(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let store = &fixture.store;
        let short = NewSession { expires_at: fixture.now() + HOUR, ..fixture.new_session(ann) };
        let web = NewSession { kind: SessionKind::Web, ..fixture.new_session(ann) };
        for session in [&short, &web] {
            store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        }
        let listed = store.list_sessions(ann, fixture.now(), 2).await.unwrap();
        assert_eq!(listed.iter().map(|session| session.id).collect::<Vec<_>>(), [web.id, short.id]);
        assert_eq!((listed[0].kind, listed[0].address), (SessionKind::Web, web.address));
        assert_eq!(listed[0].agent.as_deref(), Some("curl/8"));
        let late = short.expires_at;
        assert_eq!(store.list_sessions(ann, late, 10).await.unwrap().len(), 2);

        assert_eq!(store.end_session(bob, web.id).await.unwrap_err(), Error::NotFound);
        store.end_session(ann, web.id).await.unwrap();
        assert_eq!(store.end_session(ann, web.id).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.find_session(web.hash).await.unwrap(), None);
        assert_eq!(store.delete_ended_sessions(late, 10).await.unwrap(), 0);
        assert_eq!(store.delete_ended_sessions(late + HOUR, 10).await.unwrap(), 1);
        assert_eq!(store.find_session(short.hash).await.unwrap(), None);
        assert_eq!(store.list_sessions(ann, late, 10).await.unwrap().len(), 1);
    }

    async fn a_use_is_noted_and_never_moved_back(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let session = fixture.new_session(ann);
        fixture.store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        let seen = async || fixture.store.find_session(session.hash).await.unwrap().unwrap().seen_at;
        fixture.store.session_seen(session.id, session.created_at + HOUR).await.unwrap();
        assert_eq!(seen().await, session.created_at + HOUR);
        fixture.store.session_seen(session.id, session.created_at).await.unwrap();
        assert_eq!(seen().await, session.created_at + HOUR);
    }

    async fn a_disabled_person_has_no_session(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let session = fixture.new_session(ann);
        fixture.store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        fixture.sql("UPDATE person SET disabled_at = 1 WHERE id = $1", vals![ann]).await;
        assert_eq!(fixture.store.find_session(session.hash).await.unwrap(), None);
        let account = fixture.store.account(ann).await.unwrap();
        assert_eq!(account.disabled_at, Some(Timestamp::from_micros(1)));
    }

    async fn a_token_verifies_an_address_once(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (store, at) = (&fixture.store, fixture.now());
        store.keep_one_time(fixture.sent(token(1, Purpose::VerifyEmail, ann, at + HOUR))).await.unwrap();
        conflicts(&store.verify_by_token([2; 32], at).await);
        conflicts(&store.verify_by_token([1; 32], at + HOUR).await);
        conflicts(&store.reset_password(([1; 32], at), "new".to_owned(), None).await);
        assert_eq!(store.verify_by_token([1; 32], at).await.unwrap(), ann);
        conflicts(&store.verify_by_token([1; 32], at).await);
        assert_eq!(store.account(ann).await.unwrap().person.email_verified_at, Some(at));
        store.verify_email(ann, at + HOUR).await.unwrap();
        assert_eq!(store.account(ann).await.unwrap().person.email_verified_at, Some(at));
        let session = fixture.new_session(ann);
        store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        assert!(store.find_session(session.hash).await.unwrap().unwrap().email_verified);
    }

    async fn a_later_token_ends_the_earlier_one(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (store, at) = (&fixture.store, fixture.now());
        for (number, purpose, user) in [
            (1, Purpose::VerifyEmail, ann),
            (2, Purpose::VerifyEmail, bob),
            (3, Purpose::ResetPassword, ann),
            (4, Purpose::VerifyEmail, ann),
        ] {
            store.keep_one_time(fixture.sent(token(number, purpose, user, at + HOUR))).await.unwrap();
        }
        conflicts(&store.verify_by_token([1; 32], at).await);
        assert_eq!(store.verify_by_token([2; 32], at).await.unwrap(), bob);
        assert_eq!(store.verify_by_token([4; 32], at).await.unwrap(), ann);
        assert_eq!(store.delete_ended_one_times(at + HOUR, 10).await.unwrap(), 0);
        assert_eq!(store.delete_ended_one_times(at + HOUR + HOUR, 10).await.unwrap(), 1);
        conflicts(&store.reset_password(([3; 32], at), "new".to_owned(), None).await);
    }

    async fn a_reset_sets_the_password_and_ends_every_session(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (store, at) = (&fixture.store, fixture.now());
        store.keep_one_time(fixture.sent(token(1, Purpose::ResetPassword, ann, at + HOUR))).await.unwrap();
        assert_eq!(store.reset_password(([1; 32], at), "new".to_owned(), None).await.unwrap(), ann);
        let account = store.account(ann).await.unwrap();
        assert_eq!((account.password.as_str(), account.person.email_verified_at), ("new", Some(at)));
        assert_eq!(store.list_sessions(ann, at, 10).await.unwrap(), []);
        assert_eq!(store.list_sessions(bob, at, 10).await.unwrap().len(), 1);
        conflicts(&store.reset_password(([1; 32], at), "again".to_owned(), None).await);
    }

    async fn attempts_are_counted_up_to_their_limit_and_not_beyond(fixture: &Fixture, store: &Store, window: Timestamp) {
        let tries = (0..32).map(|_| store.count_attempts(vec![(attempt("login ann", window), 10)]));
        let counted = join_all(tries).await;
        assert_eq!(counted.into_iter().filter(|counted| *counted.as_ref().unwrap()).count(), 10);
        assert_eq!(tried(store, attempt("login ann", window)).await, 10);
        assert!(!store.count_attempts(vec![(attempt("login bob", window), 0)]).await.unwrap());
        let later = attempt("login ann", window + HOUR + PART);
        assert!(store.count_attempts(vec![(later.clone(), 10)]).await.unwrap());
        // This part, and the empty one before it.
        assert_eq!(store.delete_old_attempts(window + HOUR, 10).await.unwrap(), 2);
        assert_eq!(tried(store, attempt("login ann", window)).await, 0);
        store.forget_attempts(later.clone()).await.unwrap();
        assert_eq!(tried(store, later).await, 0);
    }

    async fn attempts_of_the_earlier_parts_of_a_window_count(fixture: &Fixture, store: &Store, begin: Timestamp) {
        let of = |part: u32| attempt("login ann", begin + PART * part);
        let count = async |part| store.count_attempts(vec![(of(part), 3)]).await.unwrap();
        assert!(count(0).await && count(5).await && count(6).await);
        assert_eq!(tried(store, of(6)).await, 3);
        assert!(!count(6).await);
        // On a node with a slow clock.
        assert!(!count(5).await);
        // In a part that has no row yet.
        assert!(!store.count_attempts(vec![(of(4), 1)]).await.unwrap());
        // The first attempt has left the window.
        assert_eq!(tried(store, of(7)).await, 2);
        let tries = join_all((0..8).map(|_| count(7))).await;
        assert_eq!(tries.into_iter().filter(|counted| *counted).count(), 1);
        store.forget_attempts(of(7)).await.unwrap();
        assert_eq!(tried(store, of(7)).await, 0);
    }

    async fn an_attempt_that_one_subject_refuses_counts_for_none(fixture: &Fixture, store: &Store, window: Timestamp) {
        let [ann, net] = ["login ann", "login net"].map(|subject| attempt(subject, window));
        let both = || store.count_attempts(vec![(net.clone(), 20), (ann.clone(), 5)]);
        let counted = join_all((0..16).map(|_| both())).await;
        assert_eq!(counted.into_iter().filter(|counted| *counted.as_ref().unwrap()).count(), 5);
        assert_eq!(tried(store, net.clone()).await, 5);
        store.refund_attempts(vec![net.clone(), attempt("login cat", window)]).await.unwrap();
        assert_eq!(tried(store, net.clone()).await, 4);
        assert_eq!(tried(store, ann.clone()).await, 5);
        assert_eq!(tried(store, attempt("login cat", window)).await, 0);
        assert!(!both().await.unwrap());
    }

    async fn whoever_creates_an_organization_owns_it(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (first, second) = (fixture.org_of(ann).await, fixture.org_of(ann).await);
        assert_eq!(roles(fixture, ann).await, [(first, Role::Owner), (second, Role::Owner)]);
        assert_eq!(roles(fixture, bob).await, []);
        let store = &fixture.store;
        let behind = store.organizations_of(ann, Some(first), 10).await.unwrap();
        assert_eq!(behind.iter().map(|of| of.id).collect::<Vec<_>>(), [second]);
        assert_eq!(store.organizations_of(ann, None, 1).await.unwrap().len(), 1);
        let found = store.membership(first, ann).await.unwrap();
        assert_eq!(found, Some(OwnOrganization { id: first, name: "ours".to_owned(), role: Role::Owner, suspended: false }));
        assert_eq!(store.membership(first, bob).await.unwrap(), None);
        store.rename_organization(first, "new", fixture.audit(first)).await.unwrap();
        assert_eq!(store.organization_name(first).await.unwrap(), "new");
        assert_eq!(store.organization_name(second).await.unwrap(), "ours");
        let none = OrgId::new(fixture.now(), [9; 10]);
        let refused = store.rename_organization(none, "new", fixture.audit(none)).await;
        assert_eq!(refused.unwrap_err(), Error::NotFound);
        assert_eq!(store.list_audit(first, page()).await.unwrap().items.len(), 2);
    }

    async fn roles_change_but_for_the_owner(fixture: &Fixture) {
        let (ann, bob, cat) = (fixture.person("ann").await, fixture.person("bob").await, fixture.person("cat").await);
        let (org, other) = (fixture.org_of(ann).await, fixture.org_of(bob).await);
        fixture.member(org, bob, Role::Member).await;
        let (store, audit) = (&fixture.store, || fixture.audit(org));
        store.set_role(org, bob, Role::Admin, audit()).await.unwrap();
        assert_eq!(members(fixture, org).await, [(ann, Role::Owner), (bob, Role::Admin)]);
        assert_eq!(members(fixture, other).await, [(bob, Role::Owner)]);
        conflicts(&store.set_role(org, ann, Role::Member, audit()).await);
        conflicts(&store.set_role(org, bob, Role::Owner, audit()).await);
        conflicts(&store.remove_member(org, ann, audit()).await);
        for done in [
            store.set_role(org, cat, Role::Admin, audit()).await,
            store.remove_member(org, cat, audit()).await,
            store.transfer_ownership(org, (ann, cat), Vec::new(), audit()).await,
        ] {
            assert_eq!(done.unwrap_err(), Error::NotFound);
        }
        assert_eq!(members(fixture, org).await, [(ann, Role::Owner), (bob, Role::Admin)]);
        let behind = store.list_members(org, Some(ann), 1).await.unwrap();
        assert_eq!((behind[0].email.as_str(), behind[0].name.as_str()), ("bob@Example.com", "bob"));
        store.remove_member(org, bob, audit()).await.unwrap();
        assert_eq!(members(fixture, org).await, [(ann, Role::Owner)]);
        assert_eq!(roles(fixture, bob).await, [(other, Role::Owner)]);
        assert_eq!(store.list_audit(org, page()).await.unwrap().items.len(), 3, "refused changes write nothing down");
    }

    async fn the_ownership_goes_from_hand_to_hand(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let org = fixture.org_of(ann).await;
        fixture.member(org, bob, Role::Member).await;
        let store = &fixture.store;
        conflicts(&store.transfer_ownership(org, (bob, ann), Vec::new(), fixture.audit(org)).await);
        store.transfer_ownership(org, (ann, bob), Vec::new(), fixture.audit(org)).await.unwrap();
        assert_eq!(members(fixture, org).await, [(ann, Role::Admin), (bob, Role::Owner)]);
        conflicts(&store.transfer_ownership(org, (ann, ann), Vec::new(), fixture.audit(org)).await);
        store.remove_member(org, ann, fixture.audit(org)).await.unwrap();
    }

    async fn one_owner_is_left_of_any_race(fixture: &Fixture) {
        let mut people = Vec::new();
        for name in ["ann", "bob", "cat", "dan"] {
            people.push(fixture.person(name).await);
        }
        let org = fixture.org_of(people[0]).await;
        for person in &people[1..] {
            fixture.member(org, *person, Role::Admin).await;
        }
        let store = &fixture.store;
        for round in 0..8 {
            let owner = members(fixture, org).await.into_iter().find(|(_, role)| *role == Role::Owner);
            let owner = owner.unwrap().0;
            let others: Vec<_> = people.iter().copied().filter(|person| *person != owner).collect();
            let handed = others.iter().map(|to| store.transfer_ownership(org, (owner, *to), Vec::new(), fixture.audit(org)));
            let removed = others.iter().map(|of| store.set_role(org, *of, Role::Member, fixture.audit(org)));
            let (handed, _removed) = tokio::join!(join_all(handed), join_all(removed));
            assert_eq!(handed.iter().filter(|done| done.is_ok()).count(), 1, "round {round}");
            let now = members(fixture, org).await;
            assert_eq!(now.len(), 4);
            assert_eq!(now.iter().filter(|(_, role)| *role == Role::Owner).count(), 1, "{now:?}");
        }
    }

    async fn the_database_refuses_a_second_owner(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let org = fixture.org_of(ann).await;
        fixture.store.db.write(move |tx| tx.exec(
                "INSERT INTO membership (org_id, user_id, role, created_at) VALUES ($1, $2, 'owner', 1)",
                crate::db::vals![org, bob],
            )).await.unwrap_err();
        assert_eq!(members(fixture, org).await, [(ann, Role::Owner)]);
    }
}

fn page() -> crate::access::AuditFilter {
    crate::access::AuditFilter {
        limit: 100,
        ..crate::access::AuditFilter::default()
    }
}

impl Fixture {
    /// A session to begin for a person.
    pub(super) fn new_session(&self, user: UserId) -> NewSession {
        let at = self.now();
        let mut hash = [7; 32];
        hash[..8].copy_from_slice(&self.number().to_be_bytes());
        NewSession {
            id: SessionId::new(at, self.random()),
            hash,
            user,
            kind: SessionKind::Api,
            created_at: at,
            expires_at: at + Duration::from_hours(720),
            address: Some("192.0.2.7".parse().expect("an address")),
            agent: Some("curl/8".to_owned()),
        }
    }

    /// A person to sign up with an address that begins with `name`.
    pub(super) fn new_person(&self, name: &str) -> NewPerson {
        let at = self.now();
        NewPerson {
            id: UserId::new(at, self.random()),
            email: format!("{name}@Example.com"),
            email_key: format!("{name}@example.com"),
            name: name.to_owned(),
            password: format!("hash of {name}"),
            created_at: at,
        }
    }

    /// Signs a person up.
    pub(super) async fn person(&self, name: &str) -> UserId {
        let person = self.new_person(name);
        let session = self.new_session(person.id);
        self.store
            .sign_up(person.clone(), Some(session), None)
            .await
            .expect("a person");
        person.id
    }

    /// Creates an organization of a person.
    pub(super) async fn org_of(&self, owner: UserId) -> OrgId {
        let new = self.new_organization(owner);
        let id = new.id;
        self.store
            .create_organization(new, self.audit(id))
            .await
            .expect("an organization");
        id
    }

    pub(super) fn new_organization(&self, owner: UserId) -> NewOrganization {
        let at = self.now();
        NewOrganization {
            id: OrgId::new(at, self.random()),
            name: "ours".to_owned(),
            owner,
            created_at: at,
        }
    }

    /// Makes a person a member directly in the table: the product uses invitations for it.
    pub(super) async fn member(&self, org: OrgId, user: UserId, role: Role) {
        self.sql(
            "INSERT INTO membership (org_id, user_id, role, created_at) VALUES ($1, $2, $3, 1)",
            vals![org, user, role],
        )
        .await;
    }

    /// A one-time token with its mail.
    pub(super) fn sent(&self, token: NewOneTime) -> OneTimeMail {
        OneTimeMail {
            token,
            mail: Some(self.new_mail(None)),
        }
    }

    /// Runs every command about people once, in an order in which each finds its rows.
    pub(super) async fn use_people(&self) {
        let (ann, bob) = (self.person("plan-a").await, self.person("plan-b").await);
        let (store, at) = (&self.store, self.now());
        let session = self.new_session(ann);
        store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        store.find_session(session.hash).await.unwrap().unwrap();
        store.find_account("plan-a@example.com").await.unwrap().unwrap();
        store.account(ann).await.unwrap();
        store.rename_person(ann, "new").await.unwrap();
        store.session_seen(session.id, at + HOUR).await.unwrap();
        store.list_sessions(ann, at, 10).await.unwrap();
        store
            .keep_one_time(self.sent(token(1, Purpose::VerifyEmail, ann, at + HOUR)))
            .await
            .unwrap();
        store.verify_by_token([1; 32], at).await.unwrap();
        store
            .keep_one_time(self.sent(token(2, Purpose::ResetPassword, bob, at + HOUR)))
            .await
            .unwrap();
        store
            .reset_password(([2; 32], at), "new".to_owned(), None)
            .await
            .unwrap();
        let change = PasswordChange {
            user: ann,
            old: "hash of plan-a".to_owned(),
            new: "new".to_owned(),
        };
        store.change_password(change, session.id).await.unwrap();
        let tried = attempt("x", at);
        store.count_attempts(vec![(tried.clone(), 5)]).await.unwrap();
        store.attempts(tried.clone()).await.unwrap();
        store.refund_attempts(vec![tried.clone()]).await.unwrap();
        store.forget_attempts(tried).await.unwrap();
        let org = self.org_of(ann).await;
        self.member(org, bob, Role::Member).await;
        store.organizations_of(ann, None, 10).await.unwrap();
        store.membership(org, ann).await.unwrap();
        store.list_members(org, None, 10).await.unwrap();
        assert_eq!(store.member(org, ann).await.unwrap().unwrap().user, ann);
        store
            .rename_organization(org, "x", self.audit(org))
            .await
            .unwrap();
        store
            .set_role(org, bob, Role::Admin, self.audit(org))
            .await
            .unwrap();
        store
            .transfer_ownership(org, (ann, bob), Vec::new(), self.audit(org))
            .await
            .unwrap();
        store.remove_member(org, ann, self.audit(org)).await.unwrap();
        store.end_session(ann, session.id).await.unwrap();
        self.use_accounts(ann).await;
        self.use_identities().await;
        let later = at + Duration::from_hours(10_000);
        store.delete_ended_sessions(later, 10).await.unwrap();
        store.delete_ended_one_times(later, 10).await.unwrap();
        store.delete_old_attempts(later, 10).await.unwrap();
    }
}
