//! Deletion of an organization over HTTP, and the data that remains.

use sortie_api::key::CreateKey;
use sortie_store::access::{Actor, Caller};

use crate::{
    access::key,
    oauth::{client_id, tokens},
    prelude::*,
    rig::CREDITS,
    settings::Setting,
};

crate::settings::everywhere! {
    the_owner_deletes_an_organization_by_its_name,
    a_deletion_needs_the_password_or_a_recent_sign_in,
    everything_of_a_deleted_organization_is_refused_and_erased,
    an_account_takes_the_organization_along_in_which_it_was_alone,
}

/// Longer than the look-ups of credentials and the margin of the erasure.
const LATER: Duration = Duration::from_mins(10);

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().status
}

/// Saves a file of the first organization.
async fn save(rig: &Rig, caller: &Caller, content: &str) {
    let mut upload = rig.engine.begin_upload(caller).await.unwrap();
    upload.write(content.as_bytes()).await.unwrap();
    let saved = rig.engine.create_file(caller, upload, "notes".to_owned(), None);
    saved.await.unwrap();
}

/// Removes the password of a person: from then on a recent sign-in is the proof.
pub(super) async fn without_password(rig: &Rig, person: &Signed) {
    let user = person.user;
    rig.meddle(&format!("UPDATE person SET password = '' WHERE id = '{user}'"))
        .await;
}

/// Lets the nodes erase the deleted organizations.
async fn erased(rig: &Rig) {
    // The job has already begun. The active run is settled a moment after its cancellation.
    rig.clock.set(AT + LATER);
    let store = rig.accounts.store();
    let look = async || {
        rig.engine.erase_deleted();
        Ok(store.deleted_organizations(None, 10).await?.items)
    };
    until("the erasure", look, Vec::is_empty).await.unwrap();
}

async fn the_owner_deletes_an_organization_by_its_name() {
    let rig = Rig::start().await;
    let path = format!("/v1/organizations/{}", rig.ours);
    let delete = async |client: &Client, name: &str| {
        send(client, Method::DELETE, &path, &json!({"name": name}))
            .await
            .unwrap()
    };
    for client in [&rig.member, &rig.admin] {
        delete(client, "ours").await.refused("forbidden").unwrap();
    }
    delete(&rig.stranger, "ours").await.refused("not_found").unwrap();
    for name in ["", "Ours", "theirs"] {
        let refused = delete(&rig.owner, name).await.refused("invalid_request").unwrap();
        assert_eq!(refused.error, "name: must be the name of the organization");
    }
    let without = send(&rig.owner, Method::DELETE, &path, &json!({})).await.unwrap();
    without.refused("invalid_request").unwrap();
    without_password(&rig, &rig.owner).await;
    delete(&rig.owner, " ours ").await.expect(204).unwrap();
    delete(&rig.owner, "ours").await.refused("not_found").unwrap();
    for client in [&rig.owner, &rig.admin, &rig.member] {
        let listed = client.get("/v1/organizations").await.unwrap().json().unwrap();
        assert_eq!(listed, json!([]));
        for read in ["members", "keys", "invitations"] {
            client
                .get(&format!("{path}/{read}"))
                .must_refuse("not_found")
                .await;
        }
    }
    assert_eq!(status(&rig.stranger, "/v1/organizations").await, 200);
    let store = rig.accounts.store();
    let entries = store.list_audit(
        rig.ours,
        sortie_store::access::AuditFilter {
            action: Some("organization.delete".to_owned()),
            limit: 10,
            ..Default::default()
        },
    );
    let entries = entries.await.unwrap().items;
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| (entry.user_id, entry.target.clone()))
        .collect();
    assert_eq!(seen, [(Some(rig.owner.user), rig.ours.to_string())]);
    rig.end().await;
}

async fn a_deletion_needs_the_password_or_a_recent_sign_in() {
    let rig = Rig::start().await;
    let path = format!("/v1/organizations/{}", rig.ours);
    let delete = async |body: Value| send(&rig.owner, Method::DELETE, &path, &body).await.unwrap();
    for (body, rule) in rows! {
        json!({"name": "ours"}), "password: must be set";
        json!({"name": "ours", "password": "seventeen purple elephants"}), "password: is not the password of the account";
    } {
        let refused = delete(body).await.refused("invalid_request").unwrap();
        assert_eq!(refused.error, rule);
    }
    without_password(&rig, &rig.owner).await;
    rig.clock.set(AT + Duration::from_mins(10));
    let refused = delete(json!({"name": "ours"}))
        .await
        .refused("forbidden")
        .unwrap();
    assert!(refused.error.contains("sign in again"), "{}", refused.error);
    assert_eq!(status(&rig.owner, &format!("{path}/members")).await, 200);
    rig.end().await;
}

async fn an_account_takes_the_organization_along_in_which_it_was_alone() {
    let rig = Rig::start().await;
    let caller = Caller {
        org: rig.theirs,
        actor: Actor::default(),
    };
    let key = CreateKey {
        name: "k".to_owned(),
        role: Some(Role::Admin),
        expires_at: None,
    };
    let key = rig.engine.create_key(&caller, key).await.unwrap();
    let key = rig.engine_client(&key.key);
    for _ in 0..Setting::current().nodes() {
        key.get("/v1/me").must(200).await;
    }
    save(&rig, &caller, "content of theirs").await;
    let request = json!({"prompt": "```wait 600000\n```", "shell": false, "model": "runbook"});
    let run = key.create(&request).await.unwrap().id;
    without_password(&rig, &rig.stranger).await;
    let delete = async || {
        send(&rig.stranger, Method::DELETE, "/v1/auth/me", &json!({}))
            .await
            .unwrap()
    };
    let refused = delete().await.refused("conflict").unwrap();
    assert!(refused.error.contains("with credits"), "{}", refused.error);
    let credits = format!("/v1/operator/organizations/{}/credits", rig.theirs);
    let taken = json!({"amount_micros": -CREDITS, "kind": "correction", "reason": "x", "reference": "a"});
    operator(&rig).await.post(&credits, &taken).must(201).await;
    delete().await.expect(204).unwrap();
    rig.soon(401, async || key.get("/v1/me").await.unwrap()).await;
    erased(&rig).await;
    let store = rig.accounts.store();
    store.get_run(rig.theirs, run).await.unwrap_err();
    assert_eq!(store.list_files(rig.theirs, None, 10).await.unwrap(), []);
    assert!(
        store
            .operated_organization(rig.theirs)
            .await
            .unwrap()
            .deleted_at
            .is_some()
    );
    assert_eq!(status(&rig.owner, &rig.path("/members")).await, 200);
    rig.end().await;
}

async fn everything_of_a_deleted_organization_is_refused_and_erased() {
    let rig = Rig::start().await;
    let caller = Caller {
        org: rig.ours,
        actor: Actor::default(),
    };
    let (_, key) = key(&rig, "k", Role::Admin).await;
    let application = client_id(&rig).await;
    let issued = tokens(&rig, &rig.owner, &application, "admin").await;
    let (key, token) = (
        rig.engine_client(&key),
        rig.engine_client(issued["access_token"].as_str().unwrap()),
    );
    save(&rig, &caller, "content of ours").await;
    let run = json!({"prompt": "```wait 600000\n```", "shell": false, "model": "runbook"});
    let run = key.post("/v1/runs", &run).must(202).await;
    let id = run.json().unwrap()["id"].as_str().unwrap().parse().unwrap();
    let store = rig.accounts.store();
    let look = async || Ok(store.get_run(rig.ours, id).await?.status);
    until("the start", look, |status| *status != RunStatus::Queued)
        .await
        .unwrap();
    for client in [&key, &token] {
        rig.soon(200, async || client.get("/v1/me").await.unwrap()).await;
    }

    without_password(&rig, &rig.owner).await;
    let path = format!("/v1/organizations/{}", rig.ours);
    let deleted = send(&rig.owner, Method::DELETE, &path, &json!({"name": "ours"}))
        .await
        .unwrap();
    deleted.expect(204).unwrap();
    for client in [&key, &token] {
        rig.soon(401, async || client.get("/v1/me").await.unwrap()).await;
    }
    let page = format!("/engine/{}/v1/me", rig.ours);
    rig.soon(404, async || rig.owner.get(&page).await.unwrap()).await;
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", &application),
        ("refresh_token", issued["refresh_token"].as_str().unwrap()),
    ];
    let refreshed = crate::oauth::form(&rig, "/oauth/token", &refresh).await.unwrap();
    assert_eq!(refreshed.status, 400, "{}", refreshed.text());

    erased(&rig).await;
    store.get_run(rig.ours, id).await.unwrap_err();
    assert_eq!(store.list_files(rig.ours, None, 10).await.unwrap(), []);
    let operator = operator(&rig).await;
    let operated = format!("/v1/operator/organizations/{}", rig.ours);
    let seen: Value = operator.get(&operated).await.unwrap().json().unwrap();
    assert!(seen["deleted_at"].is_string(), "{seen}");
    assert_eq!((&seen["members"], seen.get("owner")), (&json!(0), None));
    for change in ["suspend", "resume"] {
        operator
            .post(&format!("{operated}/{change}"), &json!({}))
            .must_refuse("conflict")
            .await;
    }
    rig.end().await;
}
