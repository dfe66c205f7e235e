use std::time::Duration;

use sortie_api::{
    AuditEntry, EmailDelivery, ErrorCode, OrgId, Role, SignUpRule, UserId, limits, operator::CreateUser,
};
use sortie_store::{
    access::{Actor, AuditFilter, By, Caller},
    people::OwnOrganization,
};
use sortie_testkit::list;

use super::invitations::NewInvitationLink;
use crate::{Result, rig::Rig};

/// Actor without a session, which is enough for these tests.
fn actor() -> Actor {
    Actor {
        by: Some(By::Operator),
        ..Actor::default()
    }
}

fn caller(org: OrgId) -> Caller {
    Caller { org, actor: actor() }
}

async fn organization(rig: &Rig, owner: UserId) -> OrgId {
    rig.create(owner, " Ours ").await.unwrap().id
}

impl Rig {
    async fn create(&self, owner: UserId, name: &str) -> Result<OwnOrganization> {
        self.accounts.create_organization((owner, &actor()), name).await
    }

    async fn invite(&self, (by, org): (UserId, OrgId), role: Role, email: &str) -> Result<NewInvitationLink> {
        self.accounts.invite((&caller(org), by), role, email).await
    }

    async fn accept(&self, user: UserId, link: &NewInvitationLink) -> Result<OwnOrganization> {
        let (actor, token) = (actor(), link.token.expose());
        self.accounts.accept_invitation((user, &actor), token).await
    }
}

/// Actions of the audit log. The clock does not advance, so entries are ordered by their random ids.
fn sorted(audit: &[AuditEntry]) -> Vec<&str> {
    let mut actions: Vec<_> = audit.iter().map(|entry| entry.action.as_str()).collect();
    actions.sort_unstable();
    actions
}

fn invalid<T: std::fmt::Debug>(done: Result<T>, field: &str) {
    match done {
        Err(error) if error.code == ErrorCode::InvalidRequest => {
            assert!(error.text.starts_with(field), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_name_is_trimmed_and_has_1_to_200_characters() {
    let rig = Rig::new().await;
    let (ann, _) = rig.signed_in("ann").await;
    let create = async |name: &str| rig.create(ann, name).await;
    let created = create("  Ours\u{a0}").await.unwrap();
    assert_eq!((created.name.as_str(), created.role), ("Ours", Role::Owner));
    create(&"ä".repeat(200)).await.unwrap();
    for bad in list! {
        "", "   ", "a\nb", "a\u{202e}b", "a\u{200b}", "\u{feff}", &"a".repeat(201),
    } {
        invalid(create(bad).await, "name: ");
        invalid(
            rig.accounts.rename_organization(&caller(created.id), bad).await,
            "name: ",
        );
    }
    let renamed = rig
        .accounts
        .rename_organization(&caller(created.id), " New ")
        .await;
    assert_eq!(renamed.unwrap(), "New");
    let listed = rig.accounts.organizations(ann).await.unwrap();
    assert!(listed.iter().any(|of| of.name == "New"), "{listed:?}");
    assert_eq!(listed.len(), 2);
}

#[tokio::test]
async fn a_person_creates_20_organizations_in_an_hour() {
    let rig = Rig::new().await;
    let (ann, _) = rig.signed_in("ann").await;
    for _ in 0..limits::NEW_ORGANIZATIONS_PER_HOUR {
        organization(&rig, ann).await;
    }
    let refused = rig.create(ann, "x").await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::RateLimited),
        "{refused:?}"
    );
    rig.pass(Duration::from_mins(70));
    organization(&rig, ann).await;
}

#[tokio::test]
async fn an_invitation_works_for_its_address_until_it_ends() {
    let rig = Rig::new().await;
    let (ann, _) = rig.signed_in("ann").await;
    let (bob, _) = rig.signed_in("bob").await;
    let (eve, _) = rig.signed_in("eve").await;
    let org = organization(&rig, ann).await;
    let accounts = &rig.accounts;
    let link = rig
        .invite((ann, org), Role::Admin, " BOB@example.com ")
        .await
        .unwrap();
    assert_eq!(link.email_delivery, EmailDelivery::Unavailable);
    let page = format!(
        "https://accounts.example/invitations/accept?token={}",
        link.token.expose()
    );
    assert_eq!(link.url, page);
    assert_eq!(
        accounts.invitations(org).await.unwrap(),
        std::slice::from_ref(&link.invitation)
    );
    let found = accounts
        .find_invitation(link.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.org, found.organization.as_str()), (org, "Ours"));
    for nothing in ["", "sti_x", "sts_x"] {
        assert_eq!(
            accounts.find_invitation(nothing).await.unwrap(),
            None,
            "{nothing}"
        );
    }
    let foreign = rig.accept(eve, &link).await;
    assert!(
        matches!(&foreign, Err(refused) if refused.code == ErrorCode::Forbidden),
        "{foreign:?}"
    );
    rig.pass(Duration::from_hours(7 * 24));
    let late = rig.accept(bob, &link).await;
    assert!(
        matches!(&late, Err(refused) if refused.code == ErrorCode::NotFound),
        "{late:?}"
    );
    let link = rig
        .invite((ann, org), Role::Admin, "bob@example.com")
        .await
        .unwrap();
    let accepted = rig.accept(bob, &link).await.unwrap();
    assert_eq!((accepted.id, accepted.role), (org, Role::Admin));
    let again = rig.accept(bob, &link).await;
    assert!(
        matches!(&again, Err(refused) if refused.code == ErrorCode::NotFound),
        "{again:?}"
    );
    let member = rig.invite((ann, org), Role::Member, "bob@example.com").await;
    assert!(
        matches!(&member, Err(refused) if refused.code == ErrorCode::Conflict),
        "{member:?}"
    );
    invalid(rig.invite((ann, org), Role::Member, "bob").await, "email: ");
    let filter = AuditFilter {
        limit: 10,
        ..AuditFilter::default()
    };
    let audit = accounts.store().list_audit(org, filter).await.unwrap().items;
    assert_eq!(
        sorted(&audit),
        [
            "invitation.accept",
            "invitation.create",
            "invitation.create",
            "organization.create"
        ]
    );
}

#[tokio::test]
async fn an_unverified_address_accepts_no_invitation_where_mail_is_sent() {
    let rig = Rig::with_mail(SignUpRule::Open).await;
    let (ann, _) = rig.signed_in("ann").await;
    let (bob, _) = rig.signed_in("bob").await;
    let org = organization(&rig, ann).await;
    let accounts = &rig.accounts;
    let link = rig
        .invite((ann, org), Role::Member, "bob@example.com")
        .await
        .unwrap();
    let accept = async || rig.accept(bob, &link).await;
    let refused = accept().await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Forbidden),
        "{refused:?}"
    );
    assert_eq!(accounts.members(org).await.unwrap().len(), 1);
    let at = rig.clock.now();
    accounts.store().verify_email(bob, at).await.unwrap();
    accept().await.unwrap();
}

#[tokio::test]
async fn an_organization_sends_20_invitations_in_an_hour() {
    let rig = Rig::new().await;
    let (ann, _) = rig.signed_in("ann").await;
    let (org, other) = (organization(&rig, ann).await, organization(&rig, ann).await);
    let invite = async |org| rig.invite((ann, org), Role::Member, "bob@example.com").await;
    for _ in 0..limits::INVITATIONS_PER_HOUR {
        invite(org).await.unwrap();
    }
    let refused = invite(org).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::RateLimited),
        "{refused:?}"
    );
    invite(other).await.unwrap();
}

#[tokio::test]
async fn of_a_person_outside_an_organization_nothing_is_told() {
    let rig = Rig::new().await;
    let (ann, _) = rig.signed_in("ann").await;
    let (bob, _) = rig.signed_in("bob").await;
    let org = organization(&rig, ann).await;
    let nobody = UserId::new(rig.clock.now(), [9; 10]);
    for to in [bob, nobody] {
        let refused = rig.accounts.transfer_ownership(&caller(org), (ann, to)).await;
        assert!(
            matches!(&refused, Err(refused) if refused.code == ErrorCode::NotFound),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_suspended_organization_is_resumed_and_refuses_invited_people_until_then() {
    let rig = Rig::new().await;
    let (ann, _) = rig.signed_in("ann").await;
    let (bob, _) = rig.signed_in("bob").await;
    let org = organization(&rig, ann).await;
    let actor = actor();
    let accounts = &rig.accounts;
    let link = rig
        .invite((ann, org), Role::Member, "bob@example.com")
        .await
        .unwrap();
    invalid(
        accounts
            .suspend_organization(&actor, org, Some(&"x".repeat(501)))
            .await,
        "reason: ",
    );
    let suspended = accounts
        .suspend_organization(&actor, org, Some(" unpaid "))
        .await
        .unwrap();
    assert_eq!(suspended.suspended_why.as_deref(), Some("unpaid"));
    let refused = rig.accept(bob, &link).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Forbidden),
        "{refused:?}"
    );
    let resumed = accounts.resume_organization(&actor, org).await.unwrap();
    assert_eq!(resumed.suspended_at, None);
    rig.accept(bob, &link).await.unwrap();
    let again = accounts.resume_organization(&actor, org).await;
    assert!(
        matches!(&again, Err(refused) if refused.code == ErrorCode::Conflict),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_disabled_person_is_signed_out_at_once_and_the_organizations_hear_of_it() {
    let rig = Rig::new().await;
    let (ann, token) = rig.signed_in("ann").await;
    let org = organization(&rig, ann).await;
    let actor = actor();
    let accounts = &rig.accounts;
    assert!(accounts.session(&token).await.unwrap().is_some());
    let found = accounts
        .people(Some("ANN@example.com"), None, 1)
        .await
        .unwrap()
        .remove(0);
    assert_eq!((found.id, found.disabled_at), (ann, None));
    accounts.disable_account(&actor, ann).await.unwrap();
    assert_eq!(accounts.session(&token).await.unwrap(), None);
    accounts.enable_account(&actor, ann).await.unwrap();
    let token = rig.sign_in(ann).await;
    assert!(accounts.session(&token).await.unwrap().is_some());
    let filter = AuditFilter {
        target: Some(ann.to_string()),
        limit: 10,
        ..AuditFilter::default()
    };
    let audit = accounts.store().list_audit(org, filter).await.unwrap().items;
    assert_eq!(sorted(&audit), ["person.disable", "person.enable"]);
}

#[tokio::test]
async fn an_account_of_the_operator_opens_by_its_link() {
    let rig = Rig::new().await;
    let accounts = &rig.accounts;
    let account = |email: &str, name: &str| CreateUser {
        email: email.to_owned(),
        name: name.to_owned(),
    };
    let ann = account("Ann@example.com", " Ann ");
    let made = accounts.create_account(&ann).await.unwrap();
    assert_eq!(
        (made.person.email.as_str(), made.person.name.as_str()),
        ("Ann@example.com", "Ann")
    );
    let (page, token) = made.link.url.split_once("?token=").unwrap();
    assert_eq!(page, "https://accounts.example/reset-password");
    assert!(token.starts_with("stm_"));
    let again = account("ann@example.com", "Ann");
    let refused = accounts.create_account(&again).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Conflict),
        "{refused:?}"
    );
    let next = accounts.make_reset_link(made.person.id).await.unwrap();
    assert_ne!(next.url, made.link.url);
    let nobody = UserId::new(rig.clock.now(), [9; 10]);
    let refused = accounts.make_reset_link(nobody).await;
    assert!(matches!(&refused, Err(refused) if refused.code == ErrorCode::NotFound));
}
