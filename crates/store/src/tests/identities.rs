use super::{people::conflicts, prelude::*};
use crate::{
    Result,
    people::{GivenRole, Identity, ProvenIdentity},
};

pub(super) fn identity(subject: &str) -> Identity {
    Identity {
        issuer: "https://idp.example".to_owned(),
        subject: subject.to_owned(),
    }
}

pub(super) fn proved(proven: ProvenIdentity) -> SignIn {
    SignIn {
        identity: Some(proven),
        ..SignIn::default()
    }
}

pub(super) fn linked(subject: &str, name: &str) -> ProvenIdentity {
    ProvenIdentity::Linked {
        identity: identity(subject),
        email_key: format!("{name}@example.com"),
    }
}

/// Link of an identity of another issuer.
pub(super) fn linked_at(issuer: &str, name: &str) -> ProvenIdentity {
    ProvenIdentity::Linked {
        identity: Identity {
            issuer: issuer.to_owned(),
            ..identity(name)
        },
        email_key: format!("{name}@example.com"),
    }
}

impl Fixture {
    /// A person without a password.
    fn newcomer(&self, name: &str) -> NewPerson {
        NewPerson {
            password: String::new(),
            ..self.new_person(name)
        }
    }

    /// A role that a provider gives.
    pub(super) fn given(&self, org: OrgId, role: Role) -> GivenRole {
        let audit = self.audit(org);
        GivenRole { org, role, audit }
    }

    /// Signs a person in, past the look-up of the person.
    async fn enters(&self, user: sortie_api::UserId, proven: ProvenIdentity) -> Result<()> {
        self.store.sign_in(self.new_session(user), proved(proven)).await
    }

    /// Uses every statement of identities.
    pub(super) async fn use_identities(&self) {
        let person = self.newcomer("plan-identity");
        let org = self.store.own_organization().await.unwrap().unwrap();
        let given = self.given(org, Role::Member);
        let (id, session) = (person.id, self.new_session(person.id));
        self.store
            .sign_up_with_identity(person, identity("p"), session, Some(given))
            .await
            .unwrap();
        self.store.find_identity(&identity("p")).await.unwrap().unwrap();
        self.enters(id, ProvenIdentity::Known(identity("p")))
            .await
            .unwrap();
        let elsewhere = linked_at("https://other.example", "plan-identity");
        self.enters(id, elsewhere).await.unwrap();
        self.store.list_identities(id).await.unwrap();
        self.store.list_member_sessions(org, self.now()).await.unwrap();
        let session = self.new_session(id);
        let ended = session.id;
        self.store.sign_in(session, SignIn::default()).await.unwrap();
        self.store
            .end_member_session(org, ended, self.audit(org))
            .await
            .unwrap();
        let keep = self.new_session(id).id;
        self.store
            .unlink_identity(id, &identity("p"), keep)
            .await
            .unwrap();
        self.store.unlink_person(id, vec![self.audit(org)]).await.unwrap();
    }
}

both! {
    async fn an_identity_signs_up_once_with_a_verified_address(fixture: &Fixture, store: &Store) {
        let ann = fixture.newcomer("ann");
        let session = fixture.new_session(ann.id);
        store.sign_up_with_identity(ann.clone(), identity("a"), session.clone(), None).await.unwrap();
        let found = store.find_identity(&identity("a")).await.unwrap().unwrap();
        assert_eq!((found.person.id, found.password.as_str()), (ann.id, ""));
        assert_eq!(found.person.email_verified_at, Some(ann.created_at));
        assert!(store.find_session(session.hash).await.unwrap().unwrap().email_verified);
        let listed = store.list_identities(ann.id).await.unwrap();
        assert_eq!(listed.iter().map(|row| &row.identity).collect::<Vec<_>>(), [&identity("a")]);
        let elsewhere = Identity { issuer: "https://other.example".to_owned(), ..identity("a") };
        assert_eq!(store.find_identity(&elsewhere).await.unwrap(), None);

        // Neither the address nor the identity is taken twice, and no partial rows remain.
        for (name, subject) in [("ann", "b"), ("bob", "a")] {
            let person = fixture.newcomer(name);
            let (id, session) = (person.id, fixture.new_session(person.id));
            conflicts(&store.sign_up_with_identity(person, identity(subject), session, None).await);
            assert_eq!(store.account(id).await.unwrap_err(), Error::NotFound);
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM session").await, 1);
    }

    async fn of_many_sign_ups_of_one_identity_at_once_one_is_taken(fixture: &Fixture) {
        let sign_ups = (0..8).map(|number| {
            let person = fixture.newcomer(&format!("ann-{number}"));
            let session = fixture.new_session(person.id);
            fixture.store.sign_up_with_identity(person, identity("a"), session, None)
        });
        let done = join_all(sign_ups).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM person").await, 1);
    }

    async fn an_identity_is_linked_to_an_account_that_nobody_else_can_have(fixture: &Fixture, store: &Store) {
        // The address was never verified, and another person may know the password.
        let ann = fixture.person("ann").await;
        conflicts(&fixture.enters(ann, linked("a", "ann")).await);
        store.verify_email(ann, fixture.now()).await.unwrap();
        conflicts(&fixture.enters(ann, linked("a", "bob")).await);
        fixture.enters(ann, linked("a", "ann")).await.unwrap();
        fixture.enters(ann, ProvenIdentity::Known(identity("a"))).await.unwrap();
        conflicts(&fixture.enters(ann, ProvenIdentity::Known(identity("b"))).await);
        // This account has had no sign-in yet.
        let bob = fixture.newcomer("bob");
        store.sign_up(bob.clone(), None, None).await.unwrap();
        conflicts(&fixture.enters(bob.id, linked("a", "bob")).await);
        fixture.enters(bob.id, linked("b", "bob")).await.unwrap();
        assert!(store.account(bob.id).await.unwrap().person.email_verified_at.is_some());
        conflicts(&fixture.enters(ann, ProvenIdentity::Known(identity("b"))).await);
        assert_eq!(store.list_identities(ann).await.unwrap().len(), 1);

        fixture.sql("UPDATE person SET disabled_at = 1 WHERE id = $1", vals![ann]).await;
        conflicts(&fixture.enters(ann, ProvenIdentity::Known(identity("a"))).await);
        conflicts(&fixture.enters(ann, linked("c", "ann")).await);
    }

    async fn an_account_has_one_identity_of_an_issuer(fixture: &Fixture, store: &Store) {
        let ann = fixture.person("ann").await;
        store.verify_email(ann, fixture.now()).await.unwrap();
        let subjects: Vec<_> = (0..8).map(|number| format!("a-{number}")).collect();
        let links = subjects.iter().map(|subject| fixture.enters(ann, linked(subject, "ann")));
        let done = join_all(links).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
        let other = Err(Error::Conflict(crate::people::OTHER_IDENTITY));
        assert_eq!(done.iter().filter(|done| **done == other).count(), 7, "{done:?}");
        assert_eq!(fixture.enters(ann, linked("late", "ann")).await, other);
        fixture.enters(ann, linked_at("https://other.example", "ann")).await.unwrap();
        assert_eq!(store.list_identities(ann).await.unwrap().len(), 2);
    }

    async fn a_provider_gives_and_changes_a_role_and_never_that_of_the_owner(fixture: &Fixture, store: &Store, org: OrgId) {
        assert_eq!(store.own_organization().await.unwrap(), Some(org));
        let ann = fixture.newcomer("ann");
        let (id, session) = (ann.id, fixture.new_session(ann.id));
        let given = fixture.given(org, Role::Member);
        store.sign_up_with_identity(ann, identity("a"), session, Some(given)).await.unwrap();
        let role = async || store.membership(org, id).await.unwrap().map(|member| member.role);
        assert_eq!(role().await, Some(Role::Member));
        let enters = async |given| {
            let with = SignIn { role: Some(given), ..proved(ProvenIdentity::Known(identity("a"))) };
            store.sign_in(fixture.new_session(id), with).await
        };
        enters(fixture.given(org, Role::Admin)).await.unwrap();
        assert_eq!(role().await, Some(Role::Admin));
        store.remove_member(org, id, fixture.audit(org)).await.unwrap();
        enters(fixture.given(org, Role::Member)).await.unwrap();
        assert_eq!(role().await, Some(Role::Member));

        fixture.person("bob").await;
        let own = |tx: &mut dyn crate::db::Tx| tx.exec("UPDATE membership SET role = 'owner'", Vec::new());
        store.db.write(own).await.unwrap();
        enters(fixture.given(org, Role::Member)).await.unwrap();
        assert_eq!(role().await, Some(Role::Owner));
        let member = |tx: &mut dyn crate::db::Tx| tx.exec("UPDATE membership SET role = 'member'", Vec::new());
        store.db.write(member).await.unwrap();
        // A sign-in that is refused gives no role.
        store.delete_person(crate::people::PersonDeletion {
            user: id, password: String::new(), audits: vec![fixture.audit(org)], deleted: Vec::new(), at: fixture.now(),
        }).await.unwrap();
        conflicts(&enters(fixture.given(org, Role::Admin)).await);
        assert_eq!(role().await, None);
    }

    async fn an_admin_ends_the_session_of_a_member_alone(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (org, store) = (fixture.org_of(ann).await, &fixture.store);
        let (of_ann, of_bob) = (fixture.new_session(ann), fixture.new_session(bob));
        for session in [&of_ann, &of_bob] {
            store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        }
        let listed = async || {
            let listed = store.list_member_sessions(org, of_ann.created_at).await.unwrap();
            listed.into_iter().map(|of| (of.session.id, of.user, of.email)).collect::<Vec<_>>()
        };
        let of = (of_ann.id, ann, store.account(ann).await.unwrap().person.email);
        assert!(listed().await.contains(&of));
        assert!(listed().await.iter().all(|(_, user, _)| *user == ann));
        let end = async |session| store.end_member_session(org, session, fixture.audit(org)).await;
        assert_eq!(end(of_bob.id).await.unwrap_err(), Error::NotFound);
        end(of_ann.id).await.unwrap();
        assert_eq!(end(of_ann.id).await.unwrap_err(), Error::NotFound);
        assert!(!listed().await.contains(&of));
        assert!(store.find_session(of_bob.hash).await.unwrap().is_some());
    }

    async fn an_identity_is_unlinked_while_another_way_to_sign_in_is_left(fixture: &Fixture, store: &Store) {
        let ann = fixture.newcomer("ann");
        let (id, session) = (ann.id, fixture.new_session(ann.id));
        store.sign_up_with_identity(ann, identity("a"), session.clone(), None).await.unwrap();
        let unlink = async |subject: &str| store.unlink_identity(id, &identity(subject), session.id).await;
        conflicts(&unlink("a").await);
        assert_eq!(unlink("b").await.unwrap_err(), Error::NotFound);
        let bob = fixture.person("bob").await;
        let stranger = store.unlink_identity(bob, &identity("a"), session.id).await;
        assert_eq!(stranger.unwrap_err(), Error::NotFound);
        fixture.enters(id, linked_at("https://other.example", "ann")).await.unwrap();
        unlink("a").await.unwrap();
        assert_eq!(store.find_identity(&identity("a")).await.unwrap(), None);
        assert_eq!(store.list_identities(id).await.unwrap().len(), 1);
        let sessions = store.list_sessions(id, fixture.now(), 9).await.unwrap();
        assert_eq!(sessions.iter().map(|of| of.id).collect::<Vec<_>>(), [session.id], "the other one has ended");
    }

    async fn of_two_identities_unlinked_at_once_one_is_left(fixture: &Fixture) {
        for round in 0..8 {
            let name = format!("ann{round}");
            let ann = fixture.newcomer(&name);
            let (id, session) = (ann.id, fixture.new_session(ann.id));
            fixture.store.sign_up_with_identity(ann, identity(&name), session.clone(), None).await.unwrap();
            let other = Identity { issuer: "https://other.example".to_owned(), ..identity(&name) };
            fixture.enters(id, linked_at("https://other.example", &name)).await.unwrap();
            let ends = [identity(&name), other];
            let done = join_all(ends.iter().map(|of| fixture.store.unlink_identity(id, of, session.id))).await;
            assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
            assert_eq!(fixture.store.list_identities(id).await.unwrap().len(), 1);
        }
    }

    async fn the_operator_ends_all_identities_of_a_person(fixture: &Fixture, store: &Store) {
        let ann = fixture.newcomer("ann");
        let (id, session) = (ann.id, fixture.new_session(ann.id));
        store.sign_up_with_identity(ann, identity("a"), session, None).await.unwrap();
        let org = fixture.org_of(id).await;
        let person = store.unlink_person(id, vec![fixture.audit(org)]).await.unwrap();
        assert_eq!(person.id, id);
        assert_eq!(store.list_identities(id).await.unwrap(), []);
        assert_eq!(store.list_sessions(id, fixture.now(), 9).await.unwrap(), []);
        let nobody = fixture.newcomer("bob").id;
        assert_eq!(store.unlink_person(nobody, Vec::new()).await.unwrap_err(), Error::NotFound);
    }

    async fn the_identities_of_a_person_end_with_the_account(fixture: &Fixture, store: &Store) {
        let ann = fixture.newcomer("ann");
        let (id, session) = (ann.id, fixture.new_session(ann.id));
        store.sign_up_with_identity(ann, identity("a"), session, None).await.unwrap();
        let deletion = crate::people::PersonDeletion { user: id, password: String::new(), audits: Vec::new(), deleted: Vec::new(), at: fixture.now() };
        store.delete_person(deletion).await.unwrap();
        assert_eq!(store.find_identity(&identity("a")).await.unwrap(), None);
        conflicts(&fixture.enters(id, ProvenIdentity::Known(identity("a"))).await);
        conflicts(&fixture.enters(id, linked("a", "ann")).await);
    }
}
