//! Deletion of an organization over HTTP, and what is left of it.

use std::time::Duration;

use serde_json::{Value, json};
use sortie_api::{
    Role,
    secret::{OPERATOR_KEY, Secret},
};
use sortie_engine::Caller;
use sortie_store::Actor;
use sortie_testkit::{Client, http::Method};

use crate::{
    access::key,
    oauth::{client_id, tokens},
    organizations::send,
    rig::{AT, Rig},
};

crate::settings::everywhere! {
    the_owner_deletes_an_organization_by_its_name,
    everything_of_a_deleted_organization_is_refused_and_erased,
}

/// Longer than the look-ups of credentials and the margin of the erasure.
const LATER: Duration = Duration::from_mins(10);

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().status
}

/// Saves a file of the first organization.
async fn save(rig: &Rig, caller: &Caller, content: &str) {
    let mut upload = rig.engine.begin_upload().await.unwrap();
    upload.write(content.as_bytes()).await.unwrap();
    let saved = rig.engine.create_file(caller, upload, "notes".to_owned(), None);
    saved.await.unwrap();
}

async fn the_owner_deletes_an_organization_by_its_name() {
    let rig = Rig::start().await;
    let path = format!("/v1/organizations/{}", rig.ours);
    let delete =
        async |client: &Client, name: &str| send(client, Method::DELETE, &path, &json!({"name": name})).await;
    for client in [&rig.member.client, &rig.admin.client] {
        delete(client, "ours").await.failure(403, "forbidden").unwrap();
    }
    delete(&rig.stranger.client, "ours")
        .await
        .failure(404, "not_found")
        .unwrap();
    for name in ["", "Ours", "theirs"] {
        let refused = delete(&rig.owner.client, name)
            .await
            .failure(400, "invalid_request")
            .unwrap();
        assert_eq!(refused.error, "name: must be the name of the organization");
    }
    let without = send(&rig.owner.client, Method::DELETE, &path, &json!({})).await;
    without.failure(400, "invalid_request").unwrap();
    delete(&rig.owner.client, " ours ").await.expect(204).unwrap();
    delete(&rig.owner.client, "ours")
        .await
        .failure(404, "not_found")
        .unwrap();
    for client in [&rig.owner.client, &rig.admin.client, &rig.member.client] {
        let listed = client.get("/v1/organizations").await.unwrap().json().unwrap();
        assert_eq!(listed, json!([]));
        for read in ["members", "keys", "invitations"] {
            let gone = client.get(&format!("{path}/{read}")).await.unwrap();
            gone.failure(404, "not_found").unwrap();
        }
    }
    assert_eq!(status(&rig.stranger.client, "/v1/organizations").await, 200);
    let store = rig.accounts.store();
    let entries = store.list_audit(
        rig.ours,
        sortie_store::AuditFilter {
            limit: 1,
            ..Default::default()
        },
    );
    assert_eq!(entries.await.unwrap()[0].action, "organization.delete");
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
    let run = key.post("/v1/runs", &run).await.unwrap().expect(202).unwrap();
    let id = run.json().unwrap()["id"].as_str().unwrap().parse().unwrap();
    let store = rig.accounts.store();
    while store.get_run(rig.ours, id).await.unwrap().status == sortie_api::RunStatus::Queued {
        tokio::task::yield_now().await;
    }
    for client in [&key, &token] {
        rig.soon(200, async || client.get("/v1/me").await.unwrap()).await;
    }

    let path = format!("/v1/organizations/{}", rig.ours);
    let deleted = send(&rig.owner.client, Method::DELETE, &path, &json!({"name": "ours"})).await;
    deleted.expect(204).unwrap();
    for client in [&key, &token] {
        rig.soon(401, async || client.get("/v1/me").await.unwrap()).await;
    }
    let page = format!("/engine/{}/v1/me", rig.ours);
    rig.soon(404, async || rig.owner.client.get(&page).await.unwrap())
        .await;
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", &application),
        ("refresh_token", issued["refresh_token"].as_str().unwrap()),
    ];
    let refreshed = crate::oauth::form(&rig, "/oauth/token", &refresh).await;
    assert_eq!(refreshed.status, 400, "{}", refreshed.text());

    // The job began at once. The run at work is settled a moment after its cancellation.
    rig.clock.set(AT + LATER);
    while !store.deleted_organizations(None, 10).await.unwrap().is_empty() {
        rig.engine.erase_deleted();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.get_run(rig.ours, id).await.unwrap_err();
    assert_eq!(store.list_files(rig.ours, None, 10).await.unwrap(), []);
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    assert!(rig.accounts.set_first_operator_key(&secret).await.unwrap());
    let operator = Client::new(rig.address, Some(secret.expose().to_owned()));
    let operated = format!("/v1/operator/organizations/{}", rig.ours);
    let seen: Value = operator.get(&operated).await.unwrap().json().unwrap();
    assert!(seen["deleted_at"].is_string(), "{seen}");
    assert_eq!((&seen["members"], seen.get("owner")), (&json!(0), None));
    for change in ["suspend", "resume"] {
        let refused = send(
            &operator,
            Method::POST,
            &format!("{operated}/{change}"),
            &json!({}),
        )
        .await;
        refused.failure(409, "conflict").unwrap();
    }
    rig.end().await;
}
