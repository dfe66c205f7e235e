//! Access to each operation of the organization API, for every kind of caller. The tests compute the expected answer from the
//! access table of the server. An operation without a call fails.

#[path = "../shared/operations.rs"]
mod operations;
mod origin;
mod table;

use sortie_api::{
    KeyId,
    key::CreateKey,
    secret::{HOSTED_KEY, OPERATOR_KEY, SESSION_TOKEN, Secret},
};
use sortie_server::{Api, RequiredRole};
use sortie_store::access::{Actor, Caller};

use self::{
    operations::{Expected, access},
    table::{CALLS, Call, WHILE_SUSPENDED},
};
use crate::{
    oauth::{client_id, tokens},
    prelude::*,
};

crate::settings::everywhere! {
    without_a_session_nothing_but_the_public_operations_answers,
    members_admins_and_the_owner_may_do_what_their_role_allows,
    who_lost_a_role_a_moment_ago_has_lost_it,
    the_operator_has_operations_of_its_own,
    another_organization_sees_and_changes_nothing_of_ours,
}

/// Kinds of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nobody,
    Malformed,
    UnknownSession,
    EndedSession,
    ExpiredSession,
    /// Key of the organization with the role member.
    MemberKey,
    /// Key of the organization with the role admin.
    AdminKey,
    /// Deleted key.
    DeletedKey,
    /// Access token of an application.
    AccessToken,
    /// Owner of another organization.
    Stranger,
    Member,
    Admin,
    Owner,
    /// Member who was an admin a moment ago.
    Demoted,
    /// Person who was a member a moment ago.
    Removed,
    /// Owner, while the operator has suspended the organization.
    OwnerOfSuspended,
    Operator,
}

/// Callers without a credential for this API.
const WITHOUT_CREDENTIAL: [Kind; 7] = [
    Kind::Nobody,
    Kind::Malformed,
    Kind::UnknownSession,
    Kind::EndedSession,
    Kind::ExpiredSession,
    Kind::DeletedKey,
    Kind::AccessToken,
];

impl Kind {
    /// Role of the caller in the organization; `None` without a session of a member.
    const fn role(self) -> Option<Role> {
        match self {
            Self::Member | Self::Demoted => Some(Role::Member),
            Self::Admin => Some(Role::Admin),
            Self::Owner | Self::OwnerOfSuspended => Some(Role::Owner),
            Self::Nobody
            | Self::Malformed
            | Self::UnknownSession
            | Self::EndedSession
            | Self::ExpiredSession
            | Self::MemberKey
            | Self::AdminKey
            | Self::DeletedKey
            | Self::AccessToken
            | Self::Stranger
            | Self::Removed
            | Self::Operator => None,
        }
    }
}

/// Computes the expected answer to a caller from the access of the operation.
fn expected(call: &Call, kind: Kind) -> Expected {
    let allowed = call.refused.map_or(Expected::Success, Expected::Status);
    let access = access(Api::Organization, call.operation);
    let least = match access.role {
        RequiredRole::Public | RequiredRole::Signature => return allowed,
        RequiredRole::Operator => None,
        RequiredRole::SignedIn => Some(None),
        RequiredRole::RunReader | RequiredRole::RunCanceller | RequiredRole::Member => {
            Some(Some(Role::Member))
        }
        RequiredRole::Admin => Some(Some(Role::Admin)),
        RequiredRole::Owner => Some(Some(Role::Owner)),
    };
    if WITHOUT_CREDENTIAL.contains(&kind) {
        return Expected::Unauthorized;
    }
    let Some(least) = least else {
        return if kind == Kind::Operator {
            allowed
        } else {
            Expected::Forbidden
        };
    };
    if matches!(kind, Kind::MemberKey | Kind::AdminKey | Kind::Operator) {
        return Expected::Forbidden;
    }
    match (least, kind.role()) {
        (Some(_), None) => Expected::NotFound,
        (Some(least), Some(role)) if role < least => Expected::Forbidden,
        // The operation is permitted, but the owner cannot leave.
        (Some(_), Some(_)) if kind == Kind::OwnerOfSuspended && call.operation == "leave_organization" => {
            Expected::Status(409)
        }
        (Some(_), Some(_))
            if kind == Kind::OwnerOfSuspended && call.method != "GET" && !access.while_suspended =>
        {
            Expected::Forbidden
        }
        (None, _) | (Some(_), Some(_)) => allowed,
    }
}

#[test]
fn every_operation_has_an_access_a_description_and_a_call() {
    let called = CALLS.iter().map(|call| call.operation);
    let operations = operations::documented(Api::Organization, called);
    let engine = sortie_server::access(Api::Engine);
    for (operation, role) in operations {
        assert!(
            engine
                .iter()
                .all(|access| operation["operationId"] != access.operation),
            "a name means one operation"
        );
        let security = match role {
            RequiredRole::Public | RequiredRole::Signature => json!([]),
            RequiredRole::SignedIn => json!([{"session": ["signed_in"]}]),
            RequiredRole::RunReader | RequiredRole::RunCanceller => {
                panic!("only runs of the engine have tokens")
            }
            RequiredRole::Member => json!([{"session": ["member"]}]),
            RequiredRole::Admin => json!([{"session": ["admin"]}]),
            RequiredRole::Owner => json!([{"session": ["owner"]}]),
            RequiredRole::Operator => json!([{"operator_key": []}]),
        };
        assert_eq!(operation["security"], security, "{}", operation["operationId"]);
    }
}

#[test]
fn a_suspended_organization_is_paid_for_and_left_and_changed_in_nothing_else() {
    let listed = sortie_server::access(Api::Organization).iter();
    let allowed: Vec<&str> = listed
        .filter(|access| access.while_suspended)
        .map(|access| access.operation)
        .collect();
    assert_eq!(allowed.len(), WHILE_SUSPENDED.len(), "{allowed:?}");
    assert!(
        WHILE_SUSPENDED
            .iter()
            .all(|operation| allowed.contains(operation)),
        "{allowed:?}"
    );
    assert!(
        sortie_server::access(Api::Engine)
            .iter()
            .all(|access| !access.while_suspended)
    );
}

/// Server with resources of the first organization.
struct Resources {
    rig: Rig,
    key: KeyId,
    invitation: String,
}

impl Resources {
    async fn new() -> Self {
        let rig = Rig::start().await;
        let key = key(&rig, "kept", Role::Member).await.0;
        let body = json!({"email": "invited@example.com", "role": "member"});
        let path = rig.path("/invitations");
        rig.owner.post(&path, &body).must(201).await;
        let listed = rig.owner.get(&path).await.unwrap().json().unwrap();
        let invitation = listed[0]["id"].as_str().unwrap().to_owned();
        Self { rig, key, invitation }
    }

    /// Makes the client of a kind of caller.
    async fn client(&self, kind: Kind) -> Client {
        let rig = &self.rig;
        let with = |credential: &str| Client::new(rig.address, Some(credential.to_owned()));
        let ended = async |name: &str, number: u8| rig.sign_up(name, number).await;
        match kind {
            Kind::Nobody => Client::new(rig.address, None),
            Kind::Malformed => with("guess"),
            Kind::UnknownSession => with(Secret::new(SESSION_TOKEN, [99; 32]).expose()),
            Kind::EndedSession => {
                let person: Signed = ended("ended", 50).await;
                rig.meddle(&format!("DELETE FROM session WHERE id = '{}'", person.session))
                    .await;
                person.clone()
            }
            Kind::ExpiredSession => {
                let person: Signed = ended("expired", 51).await;
                let expire = format!(
                    "UPDATE session SET expires_at = 2 WHERE id = '{}'",
                    person.session
                );
                rig.meddle(&expire).await;
                person.clone()
            }
            Kind::MemberKey => with(&key(rig, "member", Role::Member).await.1),
            Kind::AdminKey => with(&key(rig, "admin", Role::Admin).await.1),
            Kind::DeletedKey => {
                let (id, secret) = key(rig, "short", Role::Admin).await;
                rig.engine.delete_key(&caller(rig), id).await.unwrap();
                with(&secret)
            }
            Kind::AccessToken => {
                let client = client_id(rig).await;
                let issued = tokens(rig, &rig.owner, &client, "admin").await;
                with(issued["access_token"].as_str().unwrap())
            }
            Kind::Stranger => rig.stranger.clone(),
            Kind::Member => rig.member.clone(),
            Kind::Admin => rig.admin.clone(),
            Kind::Owner => rig.owner.clone(),
            Kind::Demoted => {
                rig.admin.get("/v1/organizations").must(200).await;
                rig.set_role(rig.ours, rig.admin.user, Role::Member).await;
                rig.admin.clone()
            }
            Kind::Removed => {
                let path = format!("/v1/organizations/{}/members/{}", rig.ours, rig.admin.user);
                rig.owner.delete(&path).must(204).await;
                rig.admin.clone()
            }
            Kind::OwnerOfSuspended => {
                let suspend = format!(
                    "UPDATE organization SET suspended_at = 1 WHERE id = '{}'",
                    rig.ours
                );
                rig.meddle(&suspend).await;
                rig.owner.clone()
            }
            Kind::Operator => {
                let secret = Secret::new(OPERATOR_KEY, [9; 32]);
                assert!(rig.accounts.set_first_operator_key(&secret).await.unwrap());
                with(secret.expose())
            }
        }
    }

    fn call(&self, client: &Client, call: &Call) -> Pending {
        let fill = |text: &str| {
            text.replace("{org}", &self.rig.ours.to_string())
                .replace("{user}", &self.rig.member.user.to_string())
                .replace("{admin}", &self.rig.admin.user.to_string())
                .replace("{key}", &self.key.to_string())
                .replace("{invitation}", &self.invitation)
        };
        let method = Method::from_bytes(call.method.as_bytes()).unwrap();
        let (path, body) = (fill(call.path), fill(call.body));
        client.send(method, &path, Bytes::from(body))
    }

    /// Returns a client with another session of the person, or `client` if it has no session.
    async fn another_session(&self, client: &Client) -> Client {
        let me = client.get("/v1/auth/me").await.unwrap();
        if me.status != 200 {
            return client.clone();
        }
        let user = me.json().unwrap()["id"].as_str().unwrap().parse().unwrap();
        let token = self.rig.another_session(user).await;
        Client::new(self.rig.address, Some(token))
    }

    /// Calls every operation once and compares the answers. Callers without a role in the first organization must not see any of
    /// its data.
    async fn compare(&self, kind: Kind) {
        let client = self.client(kind).await;
        for call in CALLS {
            let answer = if matches!(call.operation, "log_out" | "end_org_console_session") {
                self.call(&self.another_session(&client).await, call)
                    .await
                    .unwrap()
            } else {
                self.call(&client, call).await.unwrap()
            };
            let told = format!("{} as {kind:?}: {}", call.operation, answer.text());
            expected(call, kind).check(&answer, &told);
            if kind.role().is_none() && kind != Kind::Operator {
                let text = answer.text();
                for secret in [
                    "ours",
                    "invited@example.com",
                    "owner@example.com",
                    &self.key.to_string(),
                ] {
                    assert!(!text.contains(secret), "{told}");
                }
            }
        }
    }

    /// Checks that no refused call has changed anything.
    async fn stand(&self) {
        let rig = &self.rig;
        let members = rig.owner.get(&rig.path("/members")).await.unwrap();
        assert_contains!(members, &rig.member.user.to_string());
        let keys = rig.engine.store().list_keys(rig.ours, None, 100).await.unwrap();
        assert!(keys.iter().any(|key| key.id == self.key));
    }
}

fn caller(rig: &Rig) -> Caller {
    Caller {
        org: rig.ours,
        actor: Actor::default(),
    }
}

/// Creates an API key of the first organization. Returns the id and the secret.
pub(crate) async fn key(rig: &Rig, name: &str, role: Role) -> (KeyId, String) {
    let request = CreateKey {
        name: name.to_owned(),
        role: Some(role),
        expires_at: None,
    };
    let made = rig.engine.create_key(&caller(rig), request).await.unwrap();
    assert!(made.key.starts_with(HOSTED_KEY));
    (made.id, made.key)
}

/// Runs each kind of caller against a separate server, because successful calls change its resources.
async fn alone(kinds: &[Kind]) {
    for kind in kinds {
        let resources = Resources::new().await;
        resources.compare(*kind).await;
        resources.rig.end().await;
    }
}

async fn without_a_session_nothing_but_the_public_operations_answers() {
    let resources = Resources::new().await;
    for kind in WITHOUT_CREDENTIAL {
        resources.compare(kind).await;
    }
    for kind in [Kind::MemberKey, Kind::AdminKey] {
        resources.compare(kind).await;
    }
    resources.stand().await;
    resources.rig.end().await;
}

async fn members_admins_and_the_owner_may_do_what_their_role_allows() {
    alone(&[Kind::Member, Kind::Admin, Kind::Owner]).await;
}

async fn who_lost_a_role_a_moment_ago_has_lost_it() {
    alone(&[Kind::Demoted, Kind::Removed, Kind::OwnerOfSuspended]).await;
}

async fn the_operator_has_operations_of_its_own() {
    alone(&[Kind::Operator]).await;
}

async fn another_organization_sees_and_changes_nothing_of_ours() {
    let resources = Resources::new().await;
    resources.compare(Kind::Stranger).await;
    resources.stand().await;
    resources.rig.end().await;
}
