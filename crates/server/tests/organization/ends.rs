//! Revocation of credentials: a node refuses the credentials revoked on it at once, and all others within five seconds.

use futures_util::future::join_all;
use sortie_api::secret::{OPERATOR_KEY, Secret};

use crate::{
    access::key,
    oauth::{client_id, tokens},
    prelude::*,
    settings::Setting,
};

crate::settings::everywhere! {
    a_credential_ends_on_every_node,
    a_suspension_holds_for_every_credential_on_every_node,
}

/// Sends a request to every node, so that each caches the credential.
async fn known_everywhere(client: &Client, path: &str) {
    for _ in 0..Setting::current().nodes() {
        client.get(path).must(200).await;
    }
}

async fn done(client: &Client, method: Method, path: &str, body: Value) {
    let answer = send(client, method, path, &body).await.unwrap();
    assert!(answer.status < 300, "{path}: {}", answer.text());
}

async fn a_credential_ends_on_every_node() {
    let rig = Rig::start().await;
    let app = client_id(&rig).await;
    let engine_path = format!("/engine/{}/v1/me", rig.ours);
    let token = async |person, scope| {
        let issued = tokens(&rig, person, &app, scope).await;
        rig.engine_client(issued["access_token"].as_str().unwrap())
    };
    let (deleted_key, secret) = key(&rig, "deleted", Role::Member).await;
    let deleted_key = (deleted_key, rig.engine_client(&secret));
    let removed = token(&rig.admin, "member").await;
    let granted = token(&rig.owner, "member").await;
    let disabled = token(&rig.member, "member").await;
    for client in [&deleted_key.1, &removed, &granted, &disabled] {
        known_everywhere(client, "/v1/me").await;
    }
    for client in [&rig.admin, &rig.member] {
        known_everywhere(client, &engine_path).await;
    }

    let ours = format!("/v1/organizations/{}", rig.ours);
    let owner: &Client = &rig.owner;
    let grants = owner.get("/v1/auth/grants").await.unwrap().json().unwrap();
    let grant = grants[0]["id"].as_str().unwrap();
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    assert!(rig.accounts.set_first_operator_key(&secret).await.unwrap());
    let operator = Client::new(rig.address, Some(secret.expose().to_owned()));
    let ends = rows! {
        owner, Method::DELETE, format!("{ours}/keys/{}", deleted_key.0);
        owner, Method::DELETE, format!("{ours}/members/{}", rig.admin.user);
        owner, Method::DELETE, format!("/v1/auth/grants/{grant}");
        &operator, Method::POST, format!("/v1/operator/users/{}/disable", rig.member.user);
    };
    for (client, method, path) in ends {
        done(client, method, &path, Value::Null).await;
    }
    let refused = [
        (401, &deleted_key.1, "/v1/me"),
        (401, &removed, "/v1/me"),
        (401, &granted, "/v1/me"),
        (401, &disabled, "/v1/me"),
        (404, &*rig.admin, engine_path.as_str()),
        (401, &*rig.member, engine_path.as_str()),
    ];
    join_all(refused.map(|(status, client, path)| answers_soon(&rig, status, client, path))).await;
    rig.end().await;
}

async fn answers_soon(rig: &Rig, status: u16, client: &Client, path: &str) -> Answer {
    rig.soon(status, async || client.get(path).await.unwrap()).await
}

async fn a_suspension_holds_for_every_credential_on_every_node() {
    let rig = Rig::start().await;
    let app = client_id(&rig).await;
    let issued = tokens(&rig, &rig.owner, &app, "admin").await;
    let token = rig.engine_client(issued["access_token"].as_str().unwrap());
    let key = rig.engine_client(&key(&rig, "any", Role::Admin).await.1);
    let engine_path = format!("/engine/{}/v1/me", rig.ours);
    for client in [&token, &key] {
        known_everywhere(client, "/v1/me").await;
    }
    known_everywhere(&rig.member, &engine_path).await;
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    assert!(rig.accounts.set_first_operator_key(&secret).await.unwrap());
    let operator = Client::new(rig.address, Some(secret.expose().to_owned()));
    let path = format!("/v1/operator/organizations/{}", rig.ours);
    let credentials = [
        (&token, "/v1/me"),
        (&key, "/v1/me"),
        (&*rig.member, engine_path.as_str()),
    ];
    let suspend = format!("{path}/suspend");
    done(&operator, Method::POST, &suspend, json!({"reason": "unpaid"})).await;
    join_all(credentials.map(|(client, path)| answers_soon(&rig, 403, client, path))).await;
    done(&operator, Method::POST, &format!("{path}/resume"), Value::Null).await;
    join_all(credentials.map(|(client, path)| answers_soon(&rig, 200, client, path))).await;
    rig.end().await;
}
