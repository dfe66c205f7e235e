//! The operator's operations: access, suspension, and accounts of people.

use sortie_api::secret::{OPERATOR_KEY, Secret};

use crate::prelude::*;

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
    let answer = send(client, method, path, &body).await.unwrap();
    assert!(answer.status < 300, "{path}: {}", answer.text());
    answer.json().unwrap()
}

async fn the_operators_key_opens_the_operators_operations_alone() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let list = "/v1/operator/organizations";
    ask(&operator, Method::GET, list, Value::Null).await;
    for person in [&rig.owner, &rig.member, &rig.stranger] {
        let refused = person.get(list).await.unwrap();
        refused.refused("forbidden").unwrap();
    }
    let other = Secret::new(OPERATOR_KEY, [8; 32]);
    let unknown = Client::new(rig.address, Some(other.expose().to_owned()));
    unknown.get(list).must_refuse("unauthorized").await;
    Client::new(rig.address, None)
        .get(list)
        .must_refuse("unauthorized")
        .await;
    // The key is neither a credential of the engine nor a person.
    let secret = Secret::new(OPERATOR_KEY, [9; 32]);
    let engine = rig.engine_client(secret.expose());
    engine.get("/v1/me").must_refuse("unauthorized").await;
    operator.get("/v1/organizations").must_refuse("forbidden").await;
    assert!(!rig.accounts.set_first_operator_key(&other).await.unwrap());
    rig.end().await;
}

async fn a_suspended_organization_reads_and_leaves_and_nothing_else() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let ours = format!("/v1/organizations/{}", rig.ours);
    let body = json!({"name": "x", "role": "admin"});
    let key = rig.owner.post(&format!("{ours}/keys"), &body).await;
    let key = key.unwrap().json().unwrap();
    let engine = rig.engine_client(key["key"].as_str().unwrap());
    engine.get("/v1/me").must(200).await;

    let path = format!("/v1/operator/organizations/{}", rig.ours);
    let suspended = ask(
        &operator,
        Method::POST,
        &format!("{path}/suspend"),
        json!({"reason": "unpaid"}),
    )
    .await;
    assert_has!(suspended, {"suspension_reason": "unpaid", "members": 3});
    assert_eq!(suspended["owner"]["email"], "owner@example.com");
    let run = json!({"prompt": "x", "shell": false, "model": "runbook"});
    for client in [&engine, &rig.member] {
        let prefix = if std::ptr::eq(client, &raw const engine) {
            String::new()
        } else {
            format!("/engine/{}", rig.ours)
        };
        for path in ["/v1/me", "/v1/runs", "/v1/workflows"] {
            let path = format!("{prefix}{path}");
            let refused = rig.soon(403, async || client.get(&path).await.unwrap()).await;
            let error = refused.refused("forbidden").unwrap().error;
            assert_eq!(error, "the organization is suspended");
        }
        client
            .post(&format!("{prefix}/v1/runs"), &run)
            .must_refuse("forbidden")
            .await;
    }
    for read in ["members", "keys", "invitations"] {
        rig.admin.get(&format!("{ours}/{read}")).must(200).await;
    }
    let listed = rig.member.get("/v1/organizations").await.unwrap().json().unwrap();
    assert_eq!(listed[0]["suspended"], true);
    for (method, rest, body) in rows! {
        Method::PATCH, "", json!({"name": "x"});
        Method::POST, "/keys", json!({"name": "x"});
        Method::POST, "/invitations", json!({"email": "x@example.com", "role": "member"});
    } {
        let refused = send(&rig.owner, method, &format!("{ours}{rest}"), &body)
            .await
            .unwrap();
        refused.refused("forbidden").unwrap();
    }
    rig.member
        .post(&format!("{ours}/leave"), &Value::Null)
        .must(204)
        .await;
    // The other organization keeps working.
    rig.stranger
        .get(&format!("/engine/{}/v1/me", rig.theirs))
        .must(200)
        .await;

    let resumed = ask(&operator, Method::POST, &format!("{path}/resume"), Value::Null).await;
    assert_eq!(resumed.get("suspended_at"), None);
    rig.soon(202, async || engine.post("/v1/runs", &run).await.unwrap())
        .await;
    operator
        .post(&format!("{path}/resume"), &Value::Null)
        .must_refuse("conflict")
        .await;
    operator
        .get("/v1/operator/organizations/org_01kafs6w1cefkstv6qr1ptb0mp")
        .must_refuse("not_found")
        .await;
    rig.end().await;
}

async fn runs_at_work_are_cancelled_where_the_operator_asks_for_it() {
    let rig = Rig::start().await;
    let operator = operator(&rig).await;
    let engine = format!("/engine/{}/v1/runs", rig.ours);
    let run = json!({"prompt": "```wait 600000\n```", "shell": false, "model": "runbook"});
    let run = rig.owner.post(&engine, &run).must_json(202).await;
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
    operator
        .get("/v1/operator/users?cursor=x")
        .must_refuse("invalid_request")
        .await;
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
    // The nodes of a test share one name, so only the last one to start is listed.
    let nodes = nodes.as_array().unwrap();
    assert!(nodes.iter().any(|node| node["state"] == "ready"), "{nodes:?}");

    let body =
        json!({"type": "http", "url": "http://127.0.0.1:9/", "auth": {"type": "bearer", "token": "hush"}});
    let path = format!("/engine/{}/v1/connections/crm", rig.ours);
    rig.owner.put(&path, &body).must(201).await;
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
    assert_has!(done, {"unreadable": 0, "next_cursor": ""});
    operator
        .get(&format!("{master_key}?cursor=x"))
        .must_refuse("invalid_request")
        .await;
    // An organization's audit log has the changes of the organization.
    let path = format!("/engine/{}/v1/admin/audit", rig.ours);
    let log = rig.owner.get(&path).must(200).await;
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
        rig.admin
            .get(&format!("/v1/operator/{path}"))
            .must_refuse("forbidden")
            .await;
        let path = format!("/engine/{}/v1/admin/{path}", rig.ours);
        rig.admin.get(&path).must_refuse("not_found").await;
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
    operator
        .post("/v1/operator/users", &body)
        .must_refuse("conflict")
        .await;

    let member = format!("/v1/operator/users/{}", rig.member.user);
    let disabled = ask(&operator, Method::POST, &format!("{member}/disable"), Value::Null).await;
    assert!(disabled["disabled_at"].is_string());
    rig.member
        .get("/v1/organizations")
        .must_refuse("unauthorized")
        .await;
    let enabled = ask(&operator, Method::POST, &format!("{member}/enable"), Value::Null).await;
    assert_eq!(enabled.get("disabled_at"), None);
    let link = operator
        .post(&format!("{member}/reset-link"), &Value::Null)
        .await
        .unwrap();
    assert_eq!(link.header("cache-control").unwrap(), "no-store");
    let link = link.expect(201).unwrap().json().unwrap();
    assert!(link["url"].as_str().unwrap().contains("token=stm_"));
    let nobody = "/v1/operator/users/user_01kafs6w1cefkstv6qr1ptb0mp/disable";
    operator.post(nobody, &Value::Null).must_refuse("not_found").await;
    rig.end().await;
}
