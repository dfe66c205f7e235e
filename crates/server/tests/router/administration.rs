//! The audit log, usage and the license. Every operation that changes a resource writes its entry: the table is compared with
//! the OpenAPI document, so that a new operation cannot be forgotten.

use std::collections::BTreeSet;

use crate::prelude::*;

/// Operations that change a resource, in a working order: name, method, path, body, action.
const AUDITED: &[(&str, Method, &str, &str, &str)] = &rows! {
    "create_key", Method::POST, "/v1/admin/keys", r#"{"name":"audited"}"#, "key.create";
    "rotate_key", Method::POST, "/v1/admin/keys/{key}/rotate", "{}", "key.rotate";
    "delete_key", Method::DELETE, "/v1/admin/keys/{key}", "", "key.delete";
    "put_connection",
    Method::PUT,
    "/v1/connections/audited",
    r#"{"type":"http","url":"http://127.0.0.1:9/","auth":{"type":"oauth","client_id":"c",
        "authorization_url":"http://127.0.0.1:9/a","token_url":"http://127.0.0.1:9/t"}}"#,
    "connection.put";
    "authorize_connection", Method::POST, "/v1/connections/audited/oauth", "", "connection.authorize";
    "delete_connection", Method::DELETE, "/v1/connections/audited", "", "connection.delete";
    "put_workflow", Method::PUT, "/v1/workflows/audited", r#"{"prompt":"x","shell":false}"#, "workflow.put";
    "create_schedule", Method::POST, "/v1/schedules", r#"{"workflow":"audited","cron":"@yearly"}"#, "schedule.create";
    "update_schedule", Method::PATCH, "/v1/schedules/{schedule}", r#"{"name":"audited"}"#, "schedule.update";
    "delete_schedule", Method::DELETE, "/v1/schedules/{schedule}", "", "schedule.delete";
    "delete_workflow", Method::DELETE, "/v1/workflows/audited", "", "workflow.delete";
    "reseal", Method::POST, "/v1/admin/master-key/reseal", "", "master_key.reseal";
    "put_budget", Method::PUT, "/v1/budgets/workflow:audited", r#"{"limit_micros":1,"period":"day"}"#, "budget.put";
    "delete_budget", Method::DELETE, "/v1/budgets/workflow:audited", "", "budget.delete";
    "rename_file", Method::PATCH, "/v1/files/{file}", r#"{"name":"audited"}"#, "file.rename";
    "delete_file", Method::DELETE, "/v1/files/{file}", "", "file.delete";
};

/// Audited like the table; its body is a form.
const UPLOAD: &str = "create_file";

/// Not in the table because it needs the code of a page that a person has seen.
const CONFIRM: &str = "confirm_authorization";

/// Not in the table because it needs a signed-in person: see the tests of sign-in at a self-hosted engine.
const END_SESSION: &str = "end_person_session";
/// A sign-in has its key in the body and needs the headers of a page, so the tests of the console check its audit entry.
const SIGN_IN: &str = "begin_console_session";
/// Not in the table because they need a signed token: `license.rs`.
const LICENSE: [&str; 2] = ["put_license", "delete_license"];

/// Operations that change no resource. Their effects are recorded elsewhere.
const UNAUDITED: [&str; 9] = [
    // The sign-in at the console is recorded.
    "create_console_code",
    "end_console_session",
    // Runs have their own list and events, schedules a history, callbacks a log.
    "create_run",
    "cancel_run",
    "cancel_runs",
    "trigger_schedule",
    "redeliver_run",
    // A token permits no more than the key that made it, and is no resource.
    "create_run_token",
    // It changes nothing except the status of the connection.
    "test_connection",
];

#[test]
fn every_operation_that_changes_something_has_a_line_here() {
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    let mut documented = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for (method, operation) in item.as_object().unwrap() {
            if method != "get" {
                documented.insert(operation["operationId"].as_str().unwrap());
            }
        }
    }
    let mut lines: BTreeSet<&str> = AUDITED.iter().map(|line| line.0).collect();
    lines.extend(UNAUDITED);
    lines.insert(UPLOAD);
    lines.insert(CONFIRM);
    lines.insert(END_SESSION);
    lines.insert(SIGN_IN);
    lines.extend(LICENSE);
    assert_eq!(documented, lines);
}

async fn page(client: &Client, query: &str) -> Value {
    client
        .get(&format!("/v1/admin/audit{query}"))
        .must_json(200)
        .await
}

async fn entries(client: &Client, query: &str) -> Vec<Value> {
    page(client, query).await["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_change_is_written_down_with_its_key_address_and_request() {
    let rig = Rig::start().await;
    rig.remove_stranger();
    let mine = rig.admin.get("/v1/me").await.unwrap().json().unwrap()["key_id"].clone();
    let file = rig.admin.upload("x", "x").await.unwrap().id.to_string();
    let uploaded = &entries(&rig.admin, "").await[0];
    assert_has!(uploaded, {"action": "file.create", "target": file});
    let first_master_key = sortie_engine::MasterKey::new([7; 32]).id();
    // The id that was created last.
    let mut made = String::new();
    for (name, method, path, body, action) in AUDITED {
        let path = path
            .replace("{key}", &made)
            .replace("{schedule}", &made)
            .replace("{file}", &file);
        // Refused without a key: nothing is changed or recorded.
        let before = entries(&rig.admin, "").await;
        let refused = rig
            .admin
            .anonymous()
            .send(method.clone(), &path, Bytes::from(*body))
            .await
            .unwrap();
        assert_eq!(refused.status, 401, "{name}: {}", refused.text());
        assert_eq!(entries(&rig.admin, "").await, before, "{name}");

        let answer = rig
            .admin
            .send(method.clone(), &path, Bytes::from(*body))
            .await
            .unwrap();
        assert!(answer.status < 300, "{name}: {}", answer.text());
        let target = if name.starts_with("create_") {
            made = answer.json().unwrap()["id"].as_str().unwrap().to_owned();
            made.as_str()
        } else if *name == "reseal" {
            // The key that seals all secrets from now on.
            first_master_key.as_str()
        } else {
            // The path segment after the collection.
            let place = if path.starts_with("/v1/admin/") { 4 } else { 3 };
            path.split('/').nth(place).unwrap()
        };
        let now = entries(&rig.admin, "").await;
        assert_eq!(now.len(), before.len() + 1, "{name}");
        let entry = &now[0];
        assert_eq!(entry["action"], *action, "{name}");
        assert_eq!(entry["target"], target, "{name}");
        assert_eq!(
            (&entry["key_id"], &entry["address"]),
            (&mine, &json!("127.0.0.1")),
            "{name}"
        );
        assert_eq!(
            entry["request_id"],
            answer.header("x-request-id").unwrap(),
            "{name}"
        );
    }
    let first = entries(&rig.admin, &format!("?target={}", mine.as_str().unwrap())).await;
    assert_eq!(first.len(), 1);
    assert_eq!(first[0]["action"], "key.create");
    assert_eq!(
        first[0].get("address"),
        None,
        "the engine made the first key by itself"
    );
}

#[tokio::test]
async fn nodes_and_master_keys_are_the_admins_of_the_only_organization() {
    let rig = Rig::start().await;
    rig.remove_stranger();
    let operations = [
        (Method::GET, "/v1/admin/nodes"),
        (Method::GET, "/v1/admin/checks"),
        (Method::GET, "/v1/admin/master-key"),
        (Method::POST, "/v1/admin/master-key/reseal"),
    ];
    for (method, path) in operations.clone() {
        let answer = rig.admin.send(method.clone(), path, Bytes::new()).await.unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let refused = rig.member.send(method, path, Bytes::new()).await.unwrap();
        let refused = refused.refused("forbidden").unwrap();
        assert_eq!(refused.error, "this needs the role admin", "{path}");
    }
    let other =
        "INSERT INTO organization (id, name, created_at) VALUES ('org_01kafs6w1cefkstv6qr1ptb0mp', 'b', 1)";
    assert_eq!(rig.database().execute(other, []).unwrap(), 1);
    let before = entries(&rig.admin, "").await;
    for (method, path) in operations {
        let refused = rig.admin.send(method, path, Bytes::new()).await.unwrap();
        let refused = refused.refused("forbidden").unwrap();
        assert!(
            refused.error.contains("the operator's"),
            "{path}: {}",
            refused.error
        );
    }
    assert_eq!(entries(&rig.admin, "").await, before, "nothing was sealed again");
}

#[tokio::test]
async fn a_change_that_is_refused_leaves_no_entry() {
    let rig = Rig::start().await;
    let mine = rig.admin.get("/v1/me").await.unwrap().json().unwrap()["key_id"].clone();
    let mine = mine.as_str().unwrap();
    let before = entries(&rig.admin, "").await;
    for (method, path, body, status) in rows! {
        Method::POST, "/v1/admin/keys".to_owned(), r#"{"name":""}"#, 400;
        Method::POST, "/v1/admin/keys".to_owned(), r#"{"name":"x","expires_at":"2001-01-01T00:00:00Z"}"#, 400;
        Method::DELETE, format!("/v1/admin/keys/{mine}"), "", 409;
        Method::POST, format!("/v1/admin/keys/{mine}/rotate"), r#"{"grace_seconds":604801}"#, 400;
        Method::PUT, "/v1/connections/a".to_owned(), "{}", 400;
        Method::DELETE, "/v1/connections/a".to_owned(), "", 404;
        Method::POST, "/v1/connections/a/oauth".to_owned(), "", 404;
    } {
        let answer = rig.admin.send(method, &path, Bytes::from(body)).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    assert_eq!(entries(&rig.admin, "").await, before);
}

#[tokio::test]
async fn a_time_that_cannot_be_is_refused_by_the_same_rule_in_a_body_and_in_a_query() {
    let rig = Rig::start().await;
    let rule = "must be a time from 1970 to 9999-12-30, as RFC 3339 has it: 2026-11-20T21:30:00Z";
    for time in ["9999-12-31T23:59:59.999Z", "1969-12-31T23:59:59Z", "tomorrow"] {
        let body = json!({"name": "x", "expires_at": time});
        let refused = rig.admin.post("/v1/admin/keys", &body).await.unwrap();
        let refused = refused.refused("invalid_request").unwrap();
        assert_eq!(refused.error, format!("expires_at: {rule}"));
        let refused = rig
            .admin
            .get(&format!("/v1/admin/audit?since={time}"))
            .await
            .unwrap();
        let refused = refused.refused("invalid_request").unwrap();
        assert_eq!(refused.error, format!("since: {rule}"));
    }
}

#[tokio::test]
async fn the_audit_log_has_pages_and_filters() {
    let rig = Rig::start().await;
    let keys = [rig.new_key("a").await, rig.new_key("b").await];
    for key in &keys {
        let path = format!("/v1/admin/keys/{}/rotate", key.id);
        keys[0].client.post(&path, &json!({})).must(200).await;
    }
    let all = entries(&rig.admin, "").await;
    let mut paged = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = page(&rig.admin, &query).await;
        paged.extend(page["items"].as_array().unwrap().clone());
        let next = page["next_cursor"].as_str().unwrap().to_owned();
        if next.is_empty() {
            break;
        }
        for wrong in ["action=key.create&", "key=key_01kafs6w1cefkstv6qr1ptb0mp&"] {
            rig.admin
                .get(&format!("/v1/admin/audit?{wrong}cursor={next}"))
                .must_refuse("invalid_request")
                .await;
        }
        rig.stranger
            .get(&format!("/v1/admin/audit?cursor={next}"))
            .must_refuse("invalid_request")
            .await;
        query = format!("?limit=2&cursor={next}");
    }
    assert_eq!(paged, all);
    assert_eq!(entries(&rig.admin, "?action=key.rotate").await, all[..2]);
    assert_eq!(
        entries(&rig.admin, &format!("?key={}", keys[0].id)).await,
        all[..2]
    );
    let of_b = entries(&rig.admin, &format!("?target={}", keys[1].id)).await;
    assert_eq!(
        of_b.iter().map(|entry| &entry["action"]).collect::<Vec<_>>(),
        ["key.rotate", "key.create"]
    );
    assert_eq!(
        entries(&rig.admin, "?until=2000-01-01T00:00:00Z").await,
        [json!(null); 0]
    );
    assert_eq!(entries(&rig.admin, "?since=2000-01-01T00:00:00Z").await, all);
    for (wrong, field) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("cursor=x", "cursor"),
        ("key=x", "key"),
        ("since=yesterday", "since"),
        ("until=2026-11-20", "until"),
    ] {
        let answer = rig.admin.get(&format!("/v1/admin/audit?{wrong}")).await.unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert!(refusal.error.starts_with(field), "{}", refusal.error);
    }
}

#[tokio::test]
async fn usage_is_told_apart_by_what_is_asked() {
    let rig = Rig::start().await;
    let mine = rig.admin.get("/v1/me").await.unwrap().json().unwrap()["key_id"].clone();
    for (client, prompt) in [
        (&rig.admin, "a"),
        (&rig.admin, "b"),
        (&rig.member, "c"),
        (&rig.stranger, "d"),
    ] {
        client.complete(&plain(prompt)).await.unwrap();
    }
    let ask = async |query: &str| {
        rig.admin
            .get(&format!("/v1/admin/usage{query}"))
            .must_json(200)
            .await
    };
    let usage = ask("").await;
    assert_has!(usage["totals"], {"runs": 3, "succeeded": 3});
    assert_eq!(usage["totals"]["usage"]["model_calls"], 3);
    assert_eq!(usage["by"], json!(["day"]));
    let usage = ask("?by=model,key").await;
    let rows = usage["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{usage}");
    assert!(
        rows.iter()
            .all(|row| row["model"] == "runbook" && row.get("day").is_none()),
        "{usage}"
    );
    assert_eq!(
        rig.member.get("/v1/usage?by=model,key").must_json(200).await,
        usage
    );
    let strange = rig.stranger.get("/v1/usage").must_json(200).await;
    assert_eq!(strange["totals"]["runs"], 1);
    let of_mine = rows.iter().find(|row| row["key_id"] == mine).unwrap();
    assert_eq!(of_mine["runs"], 2);
    let early = ask("?from=2001-01-01&to=2001-12-31").await;
    assert_eq!(
        (&early["rows"], &early["totals"]["runs"]),
        (&json!([]), &json!(0))
    );
    for (wrong, field) in [
        ("from=2001-01-02&to=2001-01-01", "from"),
        ("from=2001-01-01&to=2002-01-02", "from"),
        ("from=yesterday", "from"),
        ("to=2001-1-1", "to"),
        ("by=", "by"),
        ("by=day,day", "by"),
        ("by=user", "by"),
    ] {
        let answer = rig.admin.get(&format!("/v1/admin/usage?{wrong}")).await.unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert!(refusal.error.starts_with(field), "{}", refusal.error);
    }
    ask("?from=2001-01-01&to=2002-01-01").await;
}

#[tokio::test]
async fn an_engine_without_a_license_says_so_and_counts_the_month() {
    let rig = Rig::start().await;
    rig.admin.complete(&plain("a")).await.unwrap();
    let license = rig.admin.get("/v1/admin/license").must_json(200).await;
    assert_has!(license, {"licensed": false, "runs_used": 1});
    assert_eq!(license["machine_id"].as_str().unwrap().len(), 32);
    assert!(
        license["resets_at"]
            .as_str()
            .unwrap()
            .ends_with("-01T00:00:00.000Z")
    );
    assert_eq!(license.as_object().unwrap().len(), 4);
}
