use sortie_api::{InvitationId, MailId};

use super::prelude::*;
use crate::{
    Result,
    organizations::OperatedOrganization,
    outbox::NewMail,
    people::{Invited, NewInvitation},
};

const DAY: Duration = Duration::from_hours(24);

/// Open invitations that the tests allow.
const MOST: u32 = 5;

/// Members of an organization, with their roles.
async fn members(fixture: &Fixture, org: OrgId) -> Vec<(UserId, Role)> {
    let found = fixture.store.list_members(org, None, 100).await.unwrap();
    found.into_iter().map(|of| (of.user, of.role)).collect()
}

/// Addresses that an organization has invited.
async fn invited(fixture: &Fixture, org: OrgId, at: Timestamp) -> Vec<String> {
    let found = fixture.store.list_invitations(org, at).await.unwrap();
    found.into_iter().map(|of| of.email).collect()
}

async fn entries(fixture: &Fixture, org: OrgId) -> usize {
    let filter = AuditFilter {
        limit: 1_000,
        ..AuditFilter::default()
    };
    fixture.store.list_audit(org, filter).await.unwrap().items.len()
}

/// Claims all runs that `node` may claim.
async fn claimed(fixture: &Fixture, node: NodeId) -> Vec<RunId> {
    let claims = fixture.claim(node, 100).await;
    claims.into_iter().map(|claim| claim.fence.run).collect()
}

/// Number of runs that `node` claims by the name of `run`.
async fn claimed_by_name(fixture: &Fixture, node: NodeId, run: RunId) -> usize {
    let claims = fixture.store.claim_named(node, vec![run], None, fixture.now());
    claims.await.unwrap().len()
}

fn conflicts<T: std::fmt::Debug>(done: &Result<T>) {
    assert!(matches!(done, Err(Error::Conflict(_))), "{done:?}");
}

both! {
    async fn an_invitation_makes_a_member_once(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let org = fixture.org_of(ann).await;
        let (store, at) = (&fixture.store, fixture.now());
        let new = fixture.new_invitation(org, ann, "bob", Role::Admin);
        store.create_invitation(new.clone(), MOST, None, fixture.audit(org)).await.unwrap();
        let listed = store.list_invitations(org, at).await.unwrap();
        assert_eq!((listed[0].id, listed[0].email.as_str(), listed[0].role), (new.id, "bob@Example.com", Role::Admin));
        assert_eq!((listed[0].invited_by, listed[0].expires_at), (ann, new.expires_at));
        assert_eq!(store.find_invitation([0; 32], at).await.unwrap(), None);
        assert_eq!(store.find_invitation(new.hash, new.expires_at).await.unwrap(), None);
        let found = store.find_invitation(new.hash, at).await.unwrap().unwrap();
        let expected = Invited {
            invitation: listed[0].clone(),
            email_key: "bob@example.com".to_owned(),
            org,
            organization: "ours".to_owned(),
            suspended: false,
        };
        assert_eq!(found, expected);
        let late = store.accept_invitation(&found, bob, new.expires_at, fixture.audit(org)).await;
        assert_eq!(late.unwrap_err(), Error::NotFound);
        store.accept_invitation(&found, bob, at, fixture.audit(org)).await.unwrap();
        let again = store.accept_invitation(&found, bob, at, fixture.audit(org)).await;
        assert_eq!(again.unwrap_err(), Error::NotFound);
        assert_eq!(members(fixture, org).await, [(ann, Role::Owner), (bob, Role::Admin)]);
        assert_eq!(invited(fixture, org, at).await, [""; 0]);
        assert_eq!(entries(fixture, org).await, 3, "create, invite, accept");

        let again = fixture.new_invitation(org, ann, "bob", Role::Member);
        conflicts(&store.create_invitation(again, MOST, None, fixture.audit(org)).await);
    }

    async fn an_invitation_leaves_the_role_of_a_member_as_it_is(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let org = fixture.org_of(ann).await;
        let found = fixture.invite(org, ann, "bob", Role::Admin).await;
        fixture.member(org, bob, Role::Member).await;
        fixture.store.accept_invitation(&found, bob, fixture.now(), fixture.audit(org)).await.unwrap();
        assert_eq!(members(fixture, org).await, [(ann, Role::Owner), (bob, Role::Member)]);
        assert_eq!(invited(fixture, org, fixture.now()).await, [""; 0]);
    }

    async fn the_next_invitation_of_an_address_replaces_the_one_before(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, other) = (fixture.org_of(ann).await, fixture.org_of(ann).await);
        let first = fixture.invite(org, ann, "bob", Role::Admin).await;
        fixture.invite(other, ann, "bob", Role::Admin).await;
        let second = fixture.invite(org, ann, "bob", Role::Member).await;
        let at = fixture.now();
        assert_eq!(fixture.store.list_invitations(org, at).await.unwrap(), [second.invitation]);
        let withdrawn = fixture.store.withdraw_invitation(org, first.invitation.id, fixture.audit(org)).await;
        assert_eq!(withdrawn.unwrap_err(), Error::NotFound);
        let bob = fixture.person("bob").await;
        let accepted = fixture.store.accept_invitation(&first, bob, at, fixture.audit(org)).await;
        assert_eq!(accepted.unwrap_err(), Error::NotFound);
        assert_eq!(invited(fixture, other, at).await.len(), 1);
    }

    async fn the_mail_of_an_invitation_goes_with_it(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, at, store) = (fixture.org_of(ann).await, fixture.now(), &fixture.store);
        fixture.queued_mail(None).await;
        let mails = async || fixture.count("SELECT COUNT(*) FROM mail").await;
        let invite = async |name: &str| {
            let new = fixture.new_invitation(org, ann, name, Role::Member);
            let mail = NewMail { id: MailId::of_invitation(new.id), ..fixture.new_mail(None) };
            store.create_invitation(new.clone(), MOST, Some(mail), fixture.audit(org)).await.unwrap();
            new
        };
        invite("bob").await;
        invite("cid").await;
        assert_eq!(mails().await, 3);
        let second = invite("bob").await;
        assert_eq!(mails().await, 3, "the mail of the earlier one is gone");
        store.withdraw_invitation(org, second.id, fixture.audit(org)).await.unwrap();
        assert_eq!(mails().await, 2, "and that of a withdrawn one");
        let third = invite("bob").await;
        let found = store.find_invitation(third.hash, at).await.unwrap().unwrap();
        let bob = fixture.person("bob").await;
        store.accept_invitation(&found, bob, at, fixture.audit(org)).await.unwrap();
        assert_eq!(mails().await, 2, "and that of an accepted one");
        store.delete_organization(fixture.deletion(org, ann), fixture.audit(org)).await.unwrap();
        assert_eq!(mails().await, 1, "and those of a deleted organization");
    }

    async fn an_organization_has_a_limit_of_open_invitations(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, other) = (fixture.org_of(ann).await, fixture.org_of(ann).await);
        let create = async |org, name: &str| {
            let new = fixture.new_invitation(org, ann, name, Role::Member);
            fixture.store.create_invitation(new, MOST, None, fixture.audit(org)).await
        };
        for name in ["e", "d", "c", "b", "a"] {
            create(org, name).await.unwrap();
        }
        conflicts(&create(org, "f").await);
        create(org, "a").await.unwrap();
        create(other, "f").await.unwrap();
        let at = fixture.now();
        let addresses = ["a", "b", "c", "d", "e"].map(|name| format!("{name}@Example.com"));
        assert_eq!(invited(fixture, org, at).await, addresses);
        // Ended ones do not count, and are deleted in batches.
        let later = at + DAY * 8;
        assert_eq!(invited(fixture, org, later).await, [""; 0]);
        let mut new = fixture.new_invitation(org, ann, "f", Role::Member);
        (new.created_at, new.expires_at) = (later, later + DAY);
        fixture.store.create_invitation(new, MOST, None, fixture.audit(org)).await.unwrap();
        assert_eq!(fixture.store.delete_ended_invitations(at, 10).await.unwrap(), 0);
        assert_eq!(fixture.store.delete_ended_invitations(later, 4).await.unwrap(), 4);
        assert_eq!(fixture.store.delete_ended_invitations(later, 4).await.unwrap(), 2);
        assert_eq!(invited(fixture, org, later).await, ["f@Example.com"]);
    }

    async fn an_invitation_is_withdrawn_by_its_organization_alone(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (org, other) = (fixture.org_of(ann).await, fixture.org_of(ann).await);
        let id = fixture.invite(org, ann, "bob", Role::Member).await.invitation.id;
        let foreign = fixture.store.withdraw_invitation(other, id, fixture.audit(other)).await;
        assert_eq!(foreign.unwrap_err(), Error::NotFound);
        fixture.store.withdraw_invitation(org, id, fixture.audit(org)).await.unwrap();
        assert_eq!(invited(fixture, org, fixture.now()).await, [""; 0]);
        assert_eq!((entries(fixture, org).await, entries(fixture, other).await), (3, 1));
    }

    async fn of_many_who_accept_one_invitation_one_succeeds(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        for round in 0..4 {
            let bob = fixture.person(&format!("bob{round}")).await;
            let found = fixture.invite(org, ann, &format!("bob{round}"), Role::Member).await;
            let accepts = (0..32).map(|_| {
                fixture.store.accept_invitation(&found, bob, fixture.now(), fixture.audit(org))
            });
            let done = join_all(accepts).await;
            assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
            assert!(done.into_iter().all(|done| done.err().is_none_or(|error| error == Error::NotFound)));
            assert_eq!(members(fixture, org).await.len(), round + 2);
        }
    }

    async fn an_invitation_is_accepted_or_withdrawn_and_never_both(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        for round in 0..16 {
            let bob = fixture.person(&format!("bob{round}")).await;
            let found = fixture.invite(org, ann, &format!("bob{round}"), Role::Member).await;
            let id = found.invitation.id;
            let accepts = join_all((0..16).map(|_| {
                fixture.store.accept_invitation(&found, bob, fixture.now(), fixture.audit(org))
            }));
            let withdrawals =
                join_all((0..16).map(|_| fixture.store.withdraw_invitation(org, id, fixture.audit(org))));
            let (accepted, withdrawn) = if round % 2 == 0 {
                join(accepts, withdrawals).await
            } else {
                let (withdrawn, accepted) = join(withdrawals, accepts).await;
                (accepted, withdrawn)
            };
            let accepted = accepted.iter().filter(|done| done.is_ok()).count();
            let withdrawn = withdrawn.iter().filter(|done| done.is_ok()).count();
            assert_eq!(accepted + withdrawn, 1, "round {round}");
            let is_member = members(fixture, org).await.iter().any(|(user, _)| *user == bob);
            assert_eq!(is_member, accepted == 1, "round {round}");
        }
    }

    async fn one_owner_is_left_where_members_are_removed_and_promoted_at_once(fixture: &Fixture) {
        for round in 0..6 {
            let mut people = Vec::new();
            for name in 0..5 {
                people.push(fixture.person(&format!("{name}in{round}")).await);
            }
            let org = fixture.org_of(people[0]).await;
            for person in &people[1..] {
                fixture.member(org, *person, Role::Admin).await;
            }
            let store = &fixture.store;
            let handed = join_all((0..16).map(|number| {
                let pair = (people[0], people[1 + number % 4]);
                store.transfer_ownership(org, pair, Vec::new(), fixture.audit(org))
            }));
            let removed = join_all(
                (0..16).map(|number| store.remove_member(org, people[number % 5], fixture.audit(org))),
            );
            let promoted = join_all((0..16).map(|number| {
                let role = if number % 2 == 0 { Role::Admin } else { Role::Member };
                store.set_role(org, people[number % 5], role, fixture.audit(org))
            }));
            let (handed, removed, _) = tokio::join!(handed, removed, promoted);
            assert!(handed.iter().filter(|done| done.is_ok()).count() <= 1, "round {round}");
            let left = members(fixture, org).await;
            assert_eq!(left.iter().filter(|(_, role)| *role == Role::Owner).count(), 1, "{left:?}");
            let removed = removed.iter().filter(|done| done.is_ok()).count();
            assert_eq!(left.len(), 5 - removed, "round {round}");
        }
    }

    async fn a_suspended_organization_gets_no_runs_and_keeps_those_that_wait(fixture: &Fixture, org: OrgId, other: OrgId) {
        let (store, node) = (&fixture.store, fixture.node().await);
        let at_work = fixture.running(org, node).await;
        let waiting = [fixture.queued(org).await, fixture.queued(org).await, fixture.queued(org).await];
        let held = fixture.new_unretained(org, node);
        store.create_run(held.clone()).await.unwrap();
        let theirs = fixture.queued(other).await;
        assert_eq!(store.park_runs(org, 10).await.unwrap(), 0, "the organization is not suspended");

        let at = fixture.now();
        store.suspend_organization(org, Some("unpaid".to_owned()), at, fixture.audit(org)).await.unwrap();
        let refused = store.create_run(fixture.new_run(org)).await;
        assert_eq!(refused.unwrap_err(), Error::Suspended);
        let refused = store.create_run(fixture.new_unretained(org, node)).await;
        assert_eq!(refused.unwrap_err(), Error::Suspended);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 6, "a refused run leaves nothing");
        // Claims skip unparked runs of a suspended organization, like parked ones.
        assert_eq!(claimed(fixture, node).await, [theirs]);
        assert_eq!(claimed_by_name(fixture, node, held.id).await, 0);
        assert_eq!(store.park_runs(org, 2).await.unwrap(), 3, "two of the queue, one of its node");
        assert_eq!(store.park_runs(org, 2).await.unwrap(), 1);
        assert_eq!(store.park_runs(org, 2).await.unwrap(), 0);
        assert_eq!(claimed(fixture, node).await, []);
        assert_eq!(claimed_by_name(fixture, node, held.id).await, 0);
        let working = store.runs_at_work(org, None, 10).await.unwrap();
        assert_eq!(working.iter().map(|(_, run)| *run).collect::<Vec<_>>(), [at_work.run]);
        assert_eq!(store.runs_at_work(org, Some(working[0]), 10).await.unwrap(), []);
        // A running run ends as ever, and a parked one can be cancelled.
        store.finish_run(at_work, fixture.succeeded("x")).await.unwrap();
        store.cancel_run(org, waiting[1], fixture.now()).await.unwrap();

        assert_eq!(store.unpark_runs(org, 1).await.unwrap(), 1);
        assert_eq!(claimed(fixture, node).await.len(), 0, "the suspension stands");
        store.resume_organization(org, fixture.audit(org)).await.unwrap();
        conflicts(&store.resume_organization(org, fixture.audit(org)).await);
        assert_eq!(claimed(fixture, node).await, [waiting[0], waiting[2]]);
        assert_eq!(claimed_by_name(fixture, node, held.id).await, 1);
        store.create_run(fixture.new_run(org)).await.unwrap();
        assert_eq!(entries(fixture, org).await, 2);
    }

    async fn content_of_a_parked_run_stays_with_a_node_that_comes_back(fixture: &Fixture, org: OrgId, node: NodeId) {
        let held = fixture.new_unretained(org, node);
        fixture.store.create_run(held.clone()).await.unwrap();
        fixture.suspend(org).await;
        fixture.store.park_runs(org, 10).await.unwrap();
        let row = fixture.store.list_nodes().await.unwrap().into_iter().find(|row| row.node.id == node).unwrap();
        fixture.store.deregister_node(node, fixture.now()).await.unwrap();
        let renewed = NodeId(fixture.number());
        let again = crate::nodes::NewNode { id: renewed, ..row.node };
        fixture.store.register_again(again, vec![held.id]).await.unwrap();
        assert_eq!(fixture.store.content_of(renewed).await.unwrap(), [held.id]);
    }

    async fn a_second_suspension_replaces_the_reason(fixture: &Fixture, org: OrgId, store: &Store, at: Timestamp) {
        for (reason, later) in [(None, Duration::ZERO), (Some("unpaid"), DAY)] {
            let reason = reason.map(str::to_owned);
            store.suspend_organization(org, reason, at + later, fixture.audit(org)).await.unwrap();
        }
        let seen = store.operated_organization(org).await.unwrap();
        assert_eq!((seen.suspended_at, seen.suspended_why.as_deref()), (Some(at), Some("unpaid")));
        let none = OrgId::new(fixture.now(), [9; 10]);
        for done in [
            store.suspend_organization(none, None, at, fixture.audit(none)).await,
            store.resume_organization(none, fixture.audit(none)).await,
        ] {
            assert_eq!(done.unwrap_err(), Error::NotFound);
        }
        assert_eq!(store.operated_organization(none).await.unwrap_err(), Error::NotFound);
    }

    async fn a_suspension_shows_with_each_credential_and_membership(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let org = fixture.org_of(ann).await;
        let key = fixture.key(org, Role::Admin).await;
        let new = fixture.new_invitation(org, ann, "bob", Role::Member);
        fixture.store.create_invitation(new.clone(), MOST, None, fixture.audit(org)).await.unwrap();
        let shows = async || {
            let principal = fixture.store.find_principal(key.hash).await.unwrap().unwrap();
            let membership = fixture.store.membership(org, ann).await.unwrap().unwrap();
            let listed = fixture.store.organizations_of(ann, None, 1).await.unwrap().remove(0);
            let invited = fixture.store.find_invitation(new.hash, fixture.now()).await.unwrap().unwrap();
            [principal.suspended, membership.suspended, listed.suspended, invited.suspended]
        };
        assert_eq!(shows().await, [false; 4]);
        fixture.suspend(org).await;
        assert_eq!(shows().await, [true; 4]);
    }

    async fn no_run_starts_behind_a_suspension_whatever_races_with_it(fixture: &Fixture, node: NodeId) {
        for round in 0..8 {
            let org = fixture.org().await;
            let creates = join_all((0..24).map(|_| fixture.store.create_run(fixture.new_run(org))));
            let claims = join_all((0..8).map(|_| fixture.store.claim_runs(node, 2, None, fixture.now())));
            let suspends = async {
                fixture.suspend(org).await;
                while fixture.store.park_runs(org, 3).await.unwrap() > 0 {}
            };
            let (made, claims, ()) = tokio::join!(creates, claims, suspends);
            let made = made.iter().filter(|done| done.is_ok()).count();
            let claimed: usize = claims.into_iter().map(|claims| claims.unwrap().len()).sum();
            assert_eq!(fixture.claim(node, 100).await.len(), 0, "round {round}");
            fixture.store.resume_organization(org, fixture.audit(org)).await.unwrap();
            assert_eq!(fixture.claim(node, 100).await.len(), made - claimed, "round {round}");
        }
    }

    async fn the_first_operator_key_is_the_only_one(fixture: &Fixture, store: &Store, at: Timestamp) {
        assert!(!store.is_operator_key([1; 32]).await.unwrap());
        let made = join_all((1..17).map(|number| store.set_first_operator_key([number; 32], at))).await;
        assert_eq!(made.iter().filter(|made| *made.as_ref().unwrap()).count(), 1);
        let mut valid = 0;
        for number in 0..17 {
            valid += usize::from(store.is_operator_key([number; 32]).await.unwrap());
        }
        assert_eq!(valid, 1);
    }

    async fn the_operator_sees_every_organization_and_person(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (first, second, bare) = (fixture.org_of(ann).await, fixture.org_of(bob).await, fixture.org().await);
        fixture.member(first, bob, Role::Member).await;
        let store = &fixture.store;
        let listed = store.operated_organizations(None, 10).await.unwrap();
        assert_eq!(listed.iter().map(|of| of.id).collect::<Vec<_>>(), [first, second, bare]);
        let expected = OperatedOrganization {
            owner: Some(ann),
            owner_email: Some("ann@Example.com".to_owned()),
            members: 2,
            ..listed[0].clone()
        };
        assert_eq!((&listed[0], listed[0].name.as_str()), (&expected, "ours"));
        assert_eq!((listed[2].owner, listed[2].members), (None, 0));
        assert_eq!(store.operated_organization(first).await.unwrap(), expected);
        let behind = store.operated_organizations(Some(first), 1).await.unwrap();
        assert_eq!(behind.iter().map(|of| of.id).collect::<Vec<_>>(), [second]);

        let people = store.operated_people(None, 10).await.unwrap();
        assert_eq!(people.iter().map(|of| of.id).collect::<Vec<_>>(), [ann, bob]);
        assert_eq!(store.operated_people(Some(ann), 10).await.unwrap(), people[1..]);
        assert_eq!(store.operated_person("bob@example.com").await.unwrap(), people[1]);
        assert_eq!(store.operated_person_by_id(bob).await.unwrap(), people[1]);
        assert_eq!(store.operated_person("cat@example.com").await.unwrap_err(), Error::NotFound);
    }

    async fn the_operator_makes_an_account_that_sets_its_password_by_a_token(fixture: &Fixture, store: &Store, at: Timestamp) {
        let ann = fixture.new_person("ann");
        let token = |number, user| NewOneTime {
            hash: [number; 32],
            purpose: Purpose::ResetPassword,
            user,
            expires_at: at + DAY,
        };
        store.create_person(ann.clone(), token(1, ann.id)).await.unwrap();
        let again = fixture.new_person("ann");
        conflicts(&store.create_person(again.clone(), token(2, again.id)).await);
        conflicts(&store.reset_password(([2; 32], at), "new".to_owned(), None).await);
        assert_eq!(store.reset_password(([1; 32], at), "new".to_owned(), None).await.unwrap(), ann.id);
        assert_eq!(store.account(ann.id).await.unwrap().password, "new");
        assert_eq!(store.list_sessions(ann.id, at, 10).await.unwrap(), []);
    }

    async fn a_person_who_is_disabled_has_no_session_until_the_next_sign_in(fixture: &Fixture) {
        let (ann, bob) = (fixture.person("ann").await, fixture.person("bob").await);
        let (org, other) = (fixture.org_of(ann).await, fixture.org_of(bob).await);
        let (store, at) = (&fixture.store, fixture.now());
        let disabled = store.disable_person(ann, at, vec![fixture.audit(org)]).await.unwrap();
        assert_eq!((disabled.id, disabled.disabled_at), (ann, Some(at)));
        let again = store.disable_person(ann, at + DAY, Vec::new()).await.unwrap();
        assert_eq!(again.disabled_at, Some(at));
        assert_eq!(store.list_sessions(ann, at, 10).await.unwrap(), []);
        assert_eq!(store.list_sessions(bob, at, 10).await.unwrap().len(), 1);
        let enabled = store.enable_person(ann, vec![fixture.audit(org)]).await.unwrap();
        assert_eq!(enabled.disabled_at, None);
        assert_eq!(store.list_sessions(ann, at, 10).await.unwrap(), []);
        let session = fixture.new_session(ann);
        store.sign_in(session.clone(), SignIn::default()).await.unwrap();
        assert!(store.find_session(session.hash).await.unwrap().is_some());
        let nobody = UserId::new(at, [9; 10]);
        for done in [
            store.disable_person(nobody, at, Vec::new()).await,
            store.enable_person(nobody, Vec::new()).await,
        ] {
            assert_eq!(done.unwrap_err(), Error::NotFound);
        }
        assert_eq!((entries(fixture, org).await, entries(fixture, other).await), (3, 1));
    }

    async fn the_last_admin_key_goes_where_a_person_owns_the_organization(fixture: &Fixture) {
        let ann = fixture.person("ann").await;
        let (owned, bare) = (fixture.org_of(ann).await, fixture.org().await);
        for (org, goes) in [(owned, true), (bare, false)] {
            let key = fixture.key(org, Role::Admin).await;
            let deleted = fixture.store.delete_key(org, key.id, fixture.audit(org)).await;
            assert_eq!(deleted.is_ok(), goes, "{deleted:?}");
        }
    }
}

impl Fixture {
    /// An invitation of the address that begins with `name`, for a week.
    pub(super) fn new_invitation(&self, org: OrgId, by: UserId, name: &str, role: Role) -> NewInvitation {
        let at = self.now();
        let mut hash = [8; 32];
        hash[..8].copy_from_slice(&self.number().to_be_bytes());
        NewInvitation {
            id: InvitationId::new(at, self.random()),
            org,
            email: format!("{name}@Example.com"),
            email_key: format!("{name}@example.com"),
            role,
            hash,
            invited_by: by,
            created_at: at,
            expires_at: at + DAY * 7,
        }
    }

    /// Invites the address that begins with `name`.
    pub(super) async fn invite(&self, org: OrgId, by: UserId, name: &str, role: Role) -> Invited {
        let new = self.new_invitation(org, by, name, role);
        let hash = new.hash;
        let created = self.store.create_invitation(new, 1_000, None, self.audit(org));
        created.await.expect("an invitation");
        let found = self
            .store
            .find_invitation(hash, self.now())
            .await
            .expect("a read");
        found.expect("the invitation is open")
    }

    /// Suspends an organization.
    pub(super) async fn suspend(&self, org: OrgId) {
        let suspended = self
            .store
            .suspend_organization(org, None, self.now(), self.audit(org));
        suspended.await.expect("a suspension");
    }

    /// Runs every command about organizations and of the operator once, in an order in which each finds its rows.
    pub(super) async fn use_organizations(&self) {
        let (store, at) = (&self.store, self.now());
        let (ann, bob) = (self.person("org-a").await, self.person("org-b").await);
        let org = self.org_of(ann).await;
        let found = self.invite(org, ann, "org-b", Role::Member).await;
        store.list_invitations(org, at).await.unwrap();
        store
            .accept_invitation(&found, bob, at, self.audit(org))
            .await
            .unwrap();
        let other = self.invite(org, ann, "org-c", Role::Member).await.invitation.id;
        store
            .withdraw_invitation(org, other, self.audit(org))
            .await
            .unwrap();
        store.delete_ended_invitations(at, 10).await.unwrap();
        self.queued(org).await;
        self.suspend(org).await;
        assert_eq!(store.park_runs(org, 10).await.unwrap(), 1);
        store.runs_at_work(org, None, 10).await.unwrap();
        store.unpark_runs(org, 10).await.unwrap();
        store.resume_organization(org, self.audit(org)).await.unwrap();
        store.set_first_operator_key([1; 32], at).await.unwrap();
        store.is_operator_key([1; 32]).await.unwrap();
        store.operated_organizations(None, 10).await.unwrap();
        store.operated_organization(org).await.unwrap();
        store.operated_people(None, 10).await.unwrap();
        store.operated_person("org-a@example.com").await.unwrap();
        store.operated_person_by_id(ann).await.unwrap();
        let cat = self.new_person("org-c");
        let reset = NewOneTime {
            hash: [77; 32],
            purpose: Purpose::ResetPassword,
            user: cat.id,
            expires_at: at + DAY,
        };
        store.create_person(cat.clone(), reset).await.unwrap();
        store
            .disable_person(bob, at, vec![self.audit(org)])
            .await
            .unwrap();
        store.enable_person(bob, vec![self.audit(org)]).await.unwrap();
        let (org, ann) = self.full_organization().await;
        let deletion = self.deletion(org, ann);
        store
            .delete_organization(deletion, self.audit(org))
            .await
            .unwrap();
        store.deleted_organizations(None, 10).await.unwrap();
        self.erase(org).await;
        let later = self.now();
        assert_eq!(self.sweep_blobs(later).await.len(), 1);
        store
            .organization_erased(org, self.now(), self.now())
            .await
            .unwrap();
    }
}
