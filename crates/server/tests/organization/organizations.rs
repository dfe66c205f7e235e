//! Organizations over HTTP: roles, members, invitations and keys, and isolation of a second organization.

use sortie_api::{AuditEntry, OrgId};
use sortie_store::{access::AuditFilter, people::Avatar};

use crate::prelude::*;

crate::settings::everywhere! {
    members_are_listed_with_their_pictures,
    a_person_creates_renames_and_lists_organizations,
    members_get_403_and_strangers_404_where_admins_manage,
    roles_change_but_for_the_owner_and_the_ownership_is_handed_over,
    an_invited_person_accepts_with_the_invited_address_alone,
    a_withdrawn_or_old_invitation_is_not_found,
    a_key_opens_the_engine_until_it_is_revoked_also_the_last_one,
    each_change_is_in_the_audit_log_with_its_person,
}

pub(crate) fn send(client: &Client, method: Method, path: &str, body: &Value) -> Pending {
    client.send(method, path, body.to_string().into())
}

pub(crate) async fn get(client: &Client, path: &str) -> Value {
    client.get(path).must_json(200).await
}

async fn members_are_listed_with_their_pictures() {
    let rig = Rig::start().await;
    let path = rig.path("/members");
    let before = get(&rig.admin, &path).await;
    assert!(
        before
            .as_array()
            .unwrap()
            .iter()
            .all(|of| of.get("avatar_url").is_none())
    );
    let avatar = Avatar {
        content_type: "image/png".to_owned(),
        bytes: b"x".to_vec(),
        sha256: [7; 32],
        updated_at: AT,
    };
    rig.accounts
        .store()
        .put_avatar(rig.member.user, avatar)
        .await
        .unwrap();
    let members = get(&rig.admin, &path).await;
    let member = members
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["id"] == json!(rig.member.user));
    let url = rig.accounts.url_of_avatar(rig.member.user, &[7; 32]);
    assert_eq!(member.unwrap()["avatar_url"], url);
    assert_eq!(members.to_string().matches("avatar_url").count(), 1);
    rig.end().await;
}

/// Members of `ours` with their roles, by address.
async fn roles(rig: &Rig) -> Vec<(String, String)> {
    let members = get(&rig.owner, &rig.path("/members")).await;
    let text = |member: &Value, field: &str| member[field].as_str().unwrap().to_owned();
    let members = members.as_array().unwrap().iter();
    members.map(|of| (text(of, "email"), text(of, "role"))).collect()
}

async fn a_person_creates_renames_and_lists_organizations() {
    let rig = Rig::start().await;
    let client = &rig.stranger;
    let created = client
        .post("/v1/organizations", &json!({"name": "  New Ltd "}))
        .must_json(201)
        .await;
    assert_has!(created, {"name": "New Ltd", "role": "owner"});
    let path = format!("/v1/organizations/{}", created["id"].as_str().unwrap());
    let renamed = client
        .patch(&path, &json!({"name": " Newer "}))
        .must_json(200)
        .await;
    assert_eq!(
        renamed,
        json!({"id": created["id"], "name": "Newer", "role": "owner"})
    );
    let listed = get(client, "/v1/organizations").await;
    let expected = json!([{"id": rig.theirs, "name": "theirs", "role": "owner"}, renamed]);
    let mut listed = listed.as_array().unwrap().clone();
    listed.sort_by_key(|of| of["name"] != "theirs");
    assert_eq!(json!(listed), expected);
    for bad in [
        json!({"name": " "}),
        json!({"name": "x".repeat(201)}),
        json!({"name": 1}),
        json!({}),
    ] {
        client.patch(&path, &bad).must_refuse("invalid_request").await;
        client
            .post("/v1/organizations", &bad)
            .must_refuse("invalid_request")
            .await;
    }
    rig.end().await;
}

async fn members_get_403_and_strangers_404_where_admins_manage() {
    let rig = Rig::start().await;
    let org = format!("/v1/organizations/{}", rig.ours);
    let member = format!("{org}/members/{}", rig.member.user);
    let operations = rows! {
        Method::PATCH, org.clone(), json!({"name": "x"});
        Method::GET, format!("{org}/members"), Value::Null;
        Method::PATCH, member.clone(), json!({"role": "admin"});
        Method::DELETE, member, Value::Null;
        Method::POST, format!("{org}/ownership"), json!({"user_id": rig.member.user});
        Method::GET, format!("{org}/invitations"), Value::Null;
        Method::POST, format!("{org}/invitations"), json!({"email": "x@example.com", "role": "member"});
        Method::DELETE, format!("{org}/invitations/inv_01kafs6w1cefkstv6qr1ptb0mp"), Value::Null;
        Method::GET, format!("{org}/keys"), Value::Null;
        Method::POST, format!("{org}/keys"), json!({"name": "x"});
        Method::POST, format!("{org}/keys/key_01kafs6w1cefkstv6qr1ptb0mp/rotate"), json!({});
        Method::DELETE, format!("{org}/keys/key_01kafs6w1cefkstv6qr1ptb0mp"), Value::Null;
    };
    let nothing = rig.stranger.get("/v1/organizations/org_x/members").await.unwrap();
    let nothing = nothing.refused("not_found").unwrap().error;
    for (method, path, body) in &operations {
        let refused = send(&rig.member, method.clone(), path, body).await.unwrap();
        refused.refused("forbidden").unwrap();
        let refused = send(&rig.stranger, method.clone(), path, body).await.unwrap();
        assert_eq!(
            refused.refused("not_found").unwrap().error,
            nothing,
            "{method} {path}"
        );
        let nobody = Client::new(rig.address, None);
        let refused = send(&nobody, method.clone(), path, body).await.unwrap();
        refused.refused("unauthorized").unwrap();
    }
    let (ownership, body) = (format!("{org}/ownership"), json!({"user_id": rig.admin.user}));
    rig.admin.post(&ownership, &body).must_refuse("forbidden").await;
    assert_eq!(
        get(&rig.stranger, "/v1/organizations")
            .await
            .as_array()
            .unwrap()
            .len(),
        1
    );
    rig.end().await;
}

async fn roles_change_but_for_the_owner_and_the_ownership_is_handed_over() {
    let rig = Rig::start().await;
    let org = format!("/v1/organizations/{}", rig.ours);
    let of = |user: &dyn std::fmt::Display| format!("{org}/members/{user}");
    let admin = &rig.admin;
    let changed = admin
        .patch(&of(&rig.member.user), &json!({"role": "admin"}))
        .await
        .unwrap();
    assert_eq!(changed.expect(200).unwrap().json().unwrap()["role"], "admin");
    for (method, body) in [
        (Method::PATCH, json!({"role": "member"})),
        (Method::DELETE, Value::Null),
    ] {
        let refused = send(admin, method, &of(&rig.owner.user), &body).await.unwrap();
        refused.refused("conflict").unwrap();
    }
    admin
        .patch(&of(&rig.member.user), &json!({"role": "owner"}))
        .must_refuse("invalid_request")
        .await;
    for nobody in [
        "user_x",
        "user_01kafs6w1cefkstv6qr1ptb0mp",
        &rig.stranger.user.to_string(),
    ] {
        let refused = admin
            .patch(&of(&nobody), &json!({"role": "admin"}))
            .await
            .unwrap();
        refused.refused("not_found").unwrap();
    }
    let leave = format!("{org}/leave");
    let owner = rig.owner.post(&leave, &Value::Null).await.unwrap();
    owner.refused("conflict").unwrap();
    let handed = json!({"user_id": rig.admin.user});
    rig.owner
        .post(&format!("{org}/ownership"), &handed)
        .must(204)
        .await;
    let expected = [("owner", "admin"), ("admin", "owner"), ("member", "admin")];
    let expected = expected.map(|(name, role)| (format!("{name}@example.com"), role.to_owned()));
    assert_eq!(roles(&rig).await, expected);
    rig.owner.post(&leave, &Value::Null).must(204).await;
    rig.owner
        .get(&format!("{org}/members"))
        .must_refuse("not_found")
        .await;
    admin.delete(&of(&rig.member.user)).must(204).await;
    rig.member
        .get(&format!("/engine/{}/v1/me", rig.ours))
        .must_refuse("not_found")
        .await;
    rig.end().await;
}

async fn an_invited_person_accepts_with_the_invited_address_alone() {
    let rig = Rig::start().await;
    let path = rig.path("/invitations");
    let admin = &rig.admin;
    let invited = admin
        .post(&path, &json!({"email": "Stranger@Example.com", "role": "admin"}))
        .await
        .unwrap();
    assert_eq!(invited.header("cache-control").unwrap(), "no-store");
    let invited = invited.expect(201).unwrap().json().unwrap();
    assert_eq!(invited["email_delivery"], "unavailable");
    let token = invited["token"].as_str().unwrap();
    let url = format!("{}/invitations/accept?token={token}", rig.org_url);
    assert_eq!(invited["url"], url);
    let listed = get(admin, &path).await;
    assert_eq!(listed[0]["id"], invited["id"]);
    assert!(!listed.to_string().contains("sti_"), "{listed}");

    let accept = json!({"token": token});
    rig.member
        .post("/v1/invitations/accept", &accept)
        .must_refuse("forbidden")
        .await;
    let unknown = json!({"token": "sti_x"});
    rig.stranger
        .post("/v1/invitations/accept", &unknown)
        .must_refuse("not_found")
        .await;
    let accepted = rig
        .stranger
        .post("/v1/invitations/accept", &accept)
        .must_json(200)
        .await;
    assert_eq!(accepted, json!({"id": rig.ours, "name": "ours", "role": "admin"}));
    rig.stranger
        .post("/v1/invitations/accept", &accept)
        .must_refuse("not_found")
        .await;
    let member = json!({"email": "stranger@example.com", "role": "admin"});
    admin.post(&path, &member).must_refuse("conflict").await;
    for bad in [
        json!({"email": "x@example.com", "role": "owner"}),
        json!({"email": "x", "role": "member"}),
        json!({"email": "x@example.com"}),
    ] {
        admin.post(&path, &bad).must_refuse("invalid_request").await;
    }
    rig.end().await;
}

async fn a_withdrawn_or_old_invitation_is_not_found() {
    let rig = Rig::start().await;
    let path = rig.path("/invitations");
    let invite = async || {
        let body = json!({"email": "stranger@example.com", "role": "member"});
        rig.admin.post(&path, &body).must_json(201).await
    };
    let accept = async |invited: &Value| {
        let body = json!({"token": invited["token"]});
        rig.stranger.post("/v1/invitations/accept", &body).await.unwrap()
    };
    let first = invite().await;
    let second = invite().await;
    accept(&first).await.refused("not_found").unwrap();
    let withdraw = format!("{path}/{}", second["id"].as_str().unwrap());
    rig.admin.delete(&withdraw).must(204).await;
    accept(&second).await.refused("not_found").unwrap();
    let third = invite().await;
    rig.clock.set(rig.clock.now() + Duration::from_hours(7 * 24));
    accept(&third).await.refused("not_found").unwrap();
    assert_eq!(get(&rig.admin, &path).await, json!([]));
    rig.end().await;
}

async fn a_key_opens_the_engine_until_it_is_revoked_also_the_last_one() {
    let rig = Rig::start().await;
    let path = rig.path("/keys");
    let admin = &rig.admin;
    let created = admin
        .post(&path, &json!({"name": "deploy", "role": "admin"}))
        .must_json(201)
        .await;
    let secret = created["key"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("sth_"));
    let engine = rig.engine_client(&secret);
    assert_eq!(get(&engine, "/v1/me").await["organization_id"], json!(rig.ours));
    let listed = get(admin, &path).await;
    assert_eq!(
        (listed.as_array().unwrap().len(), &listed[0]["id"]),
        (1, &created["id"])
    );
    assert!(!listed.to_string().contains("sth_"), "{listed}");
    assert_eq!(
        get(&rig.stranger, &format!("/v1/organizations/{}/keys", rig.theirs)).await,
        json!([])
    );

    let key = format!("{path}/{}", created["id"].as_str().unwrap());
    let rotated = admin
        .post(&format!("{key}/rotate"), &json!({"grace_seconds": 0}))
        .must_json(200)
        .await;
    let old = rig.soon(401, async || engine.get("/v1/me").await.unwrap()).await;
    old.refused("unauthorized").unwrap();
    let engine = rig.engine_client(rotated["key"].as_str().unwrap());
    get(&engine, "/v1/me").await;
    // A key of another organization is unknown here.
    let foreign = format!(
        "/v1/organizations/{}/keys/{}",
        rig.theirs,
        created["id"].as_str().unwrap()
    );
    let refused = rig.stranger.delete(&foreign).await.unwrap();
    refused.refused("not_found").unwrap();
    admin.delete(&key).must(204).await;
    let revoked = rig.soon(401, async || engine.get("/v1/me").await.unwrap()).await;
    revoked.refused("unauthorized").unwrap();
    // An API key cannot manage an organization.
    let created = admin
        .post(&path, &json!({"name": "deploy"}))
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(created["role"], "member");
    let key = Client::new(rig.address, Some(created["key"].as_str().unwrap().to_owned()));
    key.get(&path).must_refuse("forbidden").await;
    rig.end().await;
}

async fn audit_log(rig: &Rig, org: OrgId) -> Vec<AuditEntry> {
    let filter = AuditFilter {
        limit: 100,
        ..AuditFilter::default()
    };
    let listed = rig.accounts.store().list_audit(org, filter).await;
    listed.unwrap().items
}

async fn each_change_is_in_the_audit_log_with_its_person() {
    let rig = Rig::start().await;
    let org = format!("/v1/organizations/{}", rig.ours);
    let admin = &rig.admin;
    let body = json!({"email": "x@example.com", "role": "member"});
    let invited = admin
        .post(&format!("{org}/invitations"), &body)
        .await
        .unwrap()
        .json()
        .unwrap();
    let member = format!("{org}/members/{}", rig.member.user);
    let invitation = format!("{org}/invitations/{}", invited["id"].as_str().unwrap());
    let key = admin
        .post(&format!("{org}/keys"), &json!({"name": "x"}))
        .await
        .unwrap()
        .json()
        .unwrap();
    let key = format!("{org}/keys/{}", key["id"].as_str().unwrap());
    for (method, path, body) in [
        (Method::PATCH, &org, json!({"name": "x"})),
        (Method::PATCH, &member, json!({"role": "admin"})),
        (Method::DELETE, &invitation, Value::Null),
        (Method::DELETE, &member, Value::Null),
        (Method::DELETE, &key, Value::Null),
    ] {
        let done = send(admin, method, path, &body).await.unwrap();
        assert!(done.status < 300, "{path}");
    }
    let entries = audit_log(&rig, rig.ours).await;
    let mut actions = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| entry.user_id == Some(rig.admin.user))
    {
        let kind = entry.actor_kind.map(sortie_api::ActorKind::as_str);
        assert_eq!(
            (kind, entry.actor_id.clone()),
            (Some("session"), Some(rig.admin.session.to_string()))
        );
        assert!(entry.address.is_some() && entry.request_id.is_some());
        actions.push(entry.action.as_str());
    }
    actions.sort_unstable();
    let expected = [
        "invitation.create",
        "invitation.withdraw",
        "key.create",
        "key.delete",
        "member.remove",
        "member.role",
        "organization.rename",
    ];
    assert_eq!(actions, expected);
    let theirs = audit_log(&rig, rig.theirs).await;
    assert!(!theirs.is_empty() && theirs.iter().all(|entry| entry.user_id != Some(rig.admin.user)));
    assert_eq!(
        rig.accounts
            .store()
            .membership(rig.ours, rig.owner.user)
            .await
            .unwrap()
            .unwrap()
            .role,
        Role::Owner
    );
    rig.end().await;
}
