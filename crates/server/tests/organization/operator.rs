//! The operator's operations: who may call them, suspension, and accounts of people.

use serde_json::{Value, json};
use sortie_api::{
    RunStatus,
    secret::{OPERATOR_KEY, Secret},
};
use sortie_testkit::{Client, http::Method, until};

use crate::{organizations::send, rig::Rig};

crate::settings::everywhere! {
    the_operators_key_opens_the_operators_operations_alone,
    a_suspended_organization_reads_and_leaves_and_nothing_else,
    runs_at_work_are_cancelled_where_the_operator_asks_for_it,
    organizations_and_people_are_listed_in_pages,
    an_account_is_made_disabled_and_enabled,
    the_operator_sees_the_nodes_and_seals_everything_again,
}

/// A client with the operator's key.
pub(crate) async fn operator(rig: &Rig) -> Client {
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    assert!(rig.accounts.set_first_operator_key(&secret).await.unwrap());
    Client::new(rig.address, Some(secret.expose().to_owned()))
}

pub(crate) async fn ask(client: &Client, method: Method, path: &str, body: Value) -> Value {
    let answer = send(client, method, path, &body).await;
    assert!(answer.status < 300, "{path}: {}", answer.text());
    answer.json().unwrap()
}

async fn the_operators_key_opens_the_operators_operations_alone() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let list = "/v1/operator/organizations";
    ask(&operator, Method::GET, list, Value::Null).await;
    for person in [&rig.owner, &rig.member, &rig.stranger] {
        let refused = person.client.get(list).await.unwrap();
        refused.failure(403, "forbidden").unwrap();
    }
    let other = Secret::new(OPERATOR_KEY, [8; 32]);
    let unknown = Client::new(rig.address, Some(other.expose().to_owned()));
    unknown
        .get(list)
        .await
        .unwrap()
        .failure(401, "unauthorized")
        .unwrap();
    Client::new(rig.address, None)
        .get(list)
        .await
        .unwrap()
        .failure(401, "unauthorized")
        .unwrap();
    // It is no credential of the engine, and no person.
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    let engine = rig.engine_client(secret.expose());
    engine
        .get("/v1/me")
        .await
        .unwrap()
        .failure(401, "unauthorized")
        .unwrap();
    operator
        .get("/v1/organizations")
        .await
        .unwrap()
        .failure(403, "forbidden")
        .unwrap();
    assert!(!rig.accounts.set_first_operator_key(&other).await.unwrap());
    rig.end().await;
}

#[expect(clippy::too_many_lines, reason = "one organization goes through all of it")]
async fn a_suspended_organization_reads_and_leaves_and_nothing_else() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let ours = format!("/v1/organizations/{}", rig.ours);
    let body = json!({"name": "x", "role": "admin"});
    let key = rig.owner.client.post(&format!("{ours}/keys"), &body).await;
    let key = key.unwrap().json().unwrap();
    let engine = rig.engine_client(key["key"].as_str().unwrap());
    engine.get("/v1/me").await.unwrap().expect(200).unwrap();

    let path = format!("/v1/operator/organizations/{}", rig.ours);
    let suspended = ask(
        &operator,
        Method::POST,
        &format!("{path}/suspend"),
        json!({"reason": "unpaid"}),
    )
    .await;
    assert_eq!(
        (&suspended["suspension_reason"], &suspended["members"]),
        (&json!("unpaid"), &json!(3))
    );
    assert_eq!(suspended["owner"]["email"], "owner@example.com");
    let run = json!({"prompt": "x", "shell": false, "model": "runbook"});
    for client in [&engine, &rig.member.client] {
        let prefix = if std::ptr::eq(client, &raw const engine) {
            String::new()
        } else {
            format!("/engine/{}", rig.ours)
        };
        for path in ["/v1/me", "/v1/runs", "/v1/workflows"] {
            let path = format!("{prefix}{path}");
            let refused = rig.soon(403, async || client.get(&path).await.unwrap()).await;
            let error = refused.failure(403, "forbidden").unwrap().error;
            assert_eq!(error, "the organization is suspended");
        }
        let refused = client.post(&format!("{prefix}/v1/runs"), &run).await.unwrap();
        refused.failure(403, "forbidden").unwrap();
    }
    for read in ["members", "keys", "invitations"] {
        rig.admin
            .client
            .get(&format!("{ours}/{read}"))
            .await
            .unwrap()
            .expect(200)
            .unwrap();
    }
    let listed = rig
        .member
        .client
        .get("/v1/organizations")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(listed[0]["suspended"], true);
    for (method, rest, body) in [
        (Method::PATCH, "", json!({"name": "x"})),
        (Method::POST, "/keys", json!({"name": "x"})),
        (
            Method::POST,
            "/invitations",
            json!({"email": "x@example.com", "role": "member"}),
        ),
    ] {
        let refused = send(&rig.owner.client, method, &format!("{ours}{rest}"), &body).await;
        refused.failure(403, "forbidden").unwrap();
    }
    let left = send(
        &rig.member.client,
        Method::POST,
        &format!("{ours}/leave"),
        &Value::Null,
    )
    .await;
    left.expect(204).unwrap();
    // The other organization works on.
    let theirs = rig
        .stranger
        .client
        .get(&format!("/engine/{}/v1/me", rig.theirs))
        .await
        .unwrap();
    theirs.expect(200).unwrap();

    let resumed = ask(&operator, Method::POST, &format!("{path}/resume"), Value::Null).await;
    assert_eq!(resumed.get("suspended_at"), None);
    rig.soon(202, async || engine.post("/v1/runs", &run).await.unwrap())
        .await;
    let again = send(&operator, Method::POST, &format!("{path}/resume"), &Value::Null).await;
    again.failure(409, "conflict").unwrap();
    let none = operator
        .get("/v1/operator/organizations/org_01kafs6w1cefkstv6qr1ptb0mp")
        .await
        .unwrap();
    none.failure(404, "not_found").unwrap();
    rig.end().await;
}

async fn runs_at_work_are_cancelled_where_the_operator_asks_for_it() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let engine = format!("/engine/{}/v1/runs", rig.ours);
    let run = json!({"prompt": "```wait 600000\n```", "shell": false, "model": "runbook"});
    let run = rig
        .owner
        .client
        .post(&engine, &run)
        .await
        .unwrap()
        .expect(202)
        .unwrap()
        .json()
        .unwrap();
    let id = run["id"].as_str().unwrap();
    let status = async || {
        let run = rig
            .engine
            .store()
            .get_run(rig.ours, id.parse().unwrap())
            .await
            .unwrap();
        run.status
    };
    let look = async || Ok(status().await);
    until("the start", look, |status| *status != RunStatus::Queued)
        .await
        .unwrap();
    let path = format!("/v1/operator/organizations/{}/suspend", rig.ours);
    ask(&operator, Method::POST, &path, json!({})).await;
    assert!(!status().await.is_final(), "a run at work ends normally");
    ask(&operator, Method::POST, &path, json!({"cancel": true})).await;
    assert_eq!(status().await, RunStatus::Cancelled);
    rig.end().await;
}

async fn organizations_and_people_are_listed_in_pages() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    for (path, count) in [("organizations", 2), ("users", 4)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/operator/{path}?limit=1{cursor}");
            let page = ask(&operator, Method::GET, &path, Value::Null).await;
            assert_eq!(page["items"].as_array().unwrap().len(), 1);
            seen.push(page["items"][0]["id"].clone());
            match page["next_cursor"].as_str().unwrap() {
                "" => break,
                next => cursor = format!("&cursor={next}"),
            }
        }
        assert_eq!(seen.len(), count, "{path}");
    }
    let bad = operator.get("/v1/operator/users?cursor=x").await.unwrap();
    bad.failure(400, "invalid_request").unwrap();
    let found = ask(
        &operator,
        Method::GET,
        "/v1/operator/users?email=OWNER%40example.com",
        Value::Null,
    )
    .await;
    assert_eq!(found["items"][0]["id"], json!(rig.owner.user));
    let none = ask(
        &operator,
        Method::GET,
        "/v1/operator/users?email=x%40example.com",
        Value::Null,
    )
    .await;
    assert_eq!(none["items"], json!([]));
    rig.end().await;
}

async fn the_operator_sees_the_nodes_and_seals_everything_again() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let nodes = ask(&operator, Method::GET, "/v1/operator/nodes", Value::Null).await;
    // The nodes of a test have one name, so that the last one to start is listed.
    let nodes = nodes.as_array().unwrap();
    assert!(nodes.iter().any(|node| node["state"] == "ready"), "{nodes:?}");

    let body =
        json!({"type": "http", "url": "http://127.0.0.1:9/", "auth": {"type": "bearer", "token": "hush"}});
    let path = format!("/engine/{}/v1/connections/crm", rig.ours);
    let put = send(&rig.owner.client, Method::PUT, &path, &body).await;
    put.expect(201).unwrap();
    let master_key = "/v1/operator/master-key";
    let found = ask(&operator, Method::GET, master_key, Value::Null).await;
    assert_eq!(found["nodes"][0]["keys"], found["keys"], "{found}");
    let sealed = found["sealed"].as_array().unwrap();
    let credentials = sealed
        .iter()
        .find(|line| line["place"] == "connection.credentials");
    assert_eq!(credentials.unwrap()["key"], found["keys"][0], "{found}");

    let done = ask(
        &operator,
        Method::POST,
        &format!("{master_key}/reseal"),
        Value::Null,
    )
    .await;
    assert!(done["looked_at"].as_i64().unwrap() >= 2, "{done}");
    assert_eq!(
        (&done["unreadable"], &done["next_cursor"]),
        (&json!(0), &json!(""))
    );
    let wrong = operator.get(&format!("{master_key}?cursor=x")).await.unwrap();
    wrong.failure(400, "invalid_request").unwrap();
    // An organization's audit log has the changes of the organization.
    let path = format!("/engine/{}/v1/admin/audit", rig.ours);
    let log = rig.owner.client.get(&path).await.unwrap().expect(200).unwrap();
    assert!(!log.text().contains("master_key"), "{}", log.text());

    let checks = ask(&operator, Method::GET, "/v1/operator/checks", Value::Null).await;
    let schedules = checks["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "schedules");
    assert_eq!(schedules.unwrap()["found"], "0 instants are overdue", "{checks}");
    // An admin of an organization has no such operations, on either API.
    for path in ["nodes", "checks", "master-key"] {
        let refused = rig
            .admin
            .client
            .get(&format!("/v1/operator/{path}"))
            .await
            .unwrap();
        refused.failure(403, "forbidden").unwrap();
        let path = format!("/engine/{}/v1/admin/{path}", rig.ours);
        let absent = rig.admin.client.get(&path).await.unwrap();
        absent.failure(404, "not_found").unwrap();
    }
    rig.end().await;
}

async fn an_account_is_made_disabled_and_enabled() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let body = json!({"email": "Zoe@example.com", "name": "Zoe"});
    let made = ask(&operator, Method::POST, "/v1/operator/users", body.clone()).await;
    assert_eq!(made["user"]["email"], "Zoe@example.com");
    let url = made["reset_link"]["url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("{}/reset-password?token=stm_", rig.org_url)),
        "{url}"
    );
    let taken = operator.post("/v1/operator/users", &body).await.unwrap();
    taken.failure(409, "conflict").unwrap();

    let member = format!("/v1/operator/users/{}", rig.member.user);
    let disabled = ask(&operator, Method::POST, &format!("{member}/disable"), Value::Null).await;
    assert!(disabled["disabled_at"].is_string());
    let refused = rig.member.client.get("/v1/organizations").await.unwrap();
    refused.failure(401, "unauthorized").unwrap();
    let enabled = ask(&operator, Method::POST, &format!("{member}/enable"), Value::Null).await;
    assert_eq!(enabled.get("disabled_at"), None);
    let link = send(
        &operator,
        Method::POST,
        &format!("{member}/reset-link"),
        &Value::Null,
    )
    .await;
    assert_eq!(link.header("cache-control").unwrap(), "no-store");
    let link = link.expect(201).unwrap().json().unwrap();
    assert!(link["url"].as_str().unwrap().contains("token=stm_"));
    let nobody = "/v1/operator/users/user_01kafs6w1cefkstv6qr1ptb0mp/disable";
    send(&operator, Method::POST, nobody, &Value::Null)
        .await
        .failure(404, "not_found")
        .unwrap();
    rig.end().await;
}
