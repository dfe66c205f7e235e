//! Access to each operation. The table is held against the description document: an operation without a line fails.

mod table;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sortie_api::{KeyId, Mode, Timestamp};
use sortie_testkit::{Answer, Bytes, Client, http::Method};

use self::table::{Foreign, TABLE};
use crate::rig::{Rig, options, plain, waiting};

/// Beside the table because its answer is made once.
const CREATE_KEY: (&str, &str, &str) = ("create_key", "/v1/admin/keys", r#"{"name":"x"}"#);

/// Beside the table because it needs the code of a page that a person has seen.
const CONFIRM: (&str, &str, &str) = (
    "confirm_authorization",
    "/v1/connections/ours/oauth/confirm",
    r#"{"code":"BCDF-GHJK"}"#,
);

/// Beside the table because its body is a form, and a file is deleted once: `files` has what a member may do.
const CREATE_FILE: (&str, &str) = ("create_file", "/v1/files");

/// Public operations, and their status for a request without parameters.
const PUBLIC: [(&str, &str, u16); 9] = [
    ("list_models", "/v1/models", 200),
    ("get_health", "/healthz", 200),
    ("get_readiness", "/readyz", 200),
    ("get_metrics", "/metrics", 200),
    ("get_description", "/openapi.json", 200),
    ("finish_authorization", "/v1/oauth/callback", 400),
    ("finish_own_authorization", "/v1/oauth/callback/0", 400),
    ("get_client_metadata", "/v1/oauth/client-metadata.json", 404),
    ("get_own_client_metadata", "/v1/oauth/client-metadata/0", 404),
];

#[test]
fn every_documented_operation_has_a_line_in_the_access_table() {
    let document = sortie_server::openapi();
    let documented: BTreeSet<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let mut lines: BTreeSet<&str> = TABLE.iter().map(|line| line.0).collect();
    lines.extend(PUBLIC.iter().map(|line| line.0));
    lines.insert(CREATE_KEY.0);
    lines.insert(CREATE_FILE.0);
    lines.insert(CONFIRM.0);
    assert_eq!(documented, lines);
}

struct Resources {
    run: String,
    schedule: String,
    /// A run that left an artifact.
    left: String,
    key: String,
}

impl Resources {
    async fn of(rig: &Rig) -> Self {
        let mut request = waiting();
        request["callback"] = json!({"url": "http://127.0.0.1:9/", "secret": "s"});
        let run = rig.admin.create(&request).await.unwrap().id.to_string();
        let left =
            json!({"prompt": "x", "shell": false, "files": [{"path": "outputs/a/b.txt", "content": "b"}]});
        let (_, left) = rig.admin.complete(&left).await.unwrap();
        let left = left.id.to_string();
        let key = rig
            .admin
            .post("/v1/admin/keys", &json!({"name": "mine"}))
            .await
            .unwrap();
        let key = key.json().unwrap()["id"].as_str().unwrap().to_owned();
        let ours = json!({"type": "http", "url": "http://127.0.0.1:9/", "auth": {
            "type": "oauth", "client_id": "c", "authorization_url": "http://127.0.0.1:9/a", "token_url": "http://127.0.0.1:9/t",
        }});
        for (path, body) in [
            ("/v1/connections/ours", ours.to_string()),
            ("/v1/workflows/ours", r#"{"prompt":"x"}"#.to_owned()),
            (
                "/v1/budgets/workflow:ours",
                r#"{"limit_micros":1,"period":"day"}"#.to_owned(),
            ),
        ] {
            let put = rig
                .admin
                .send(Method::PUT, path, Bytes::from(body))
                .await
                .unwrap();
            put.expect(201).unwrap();
        }
        for client in [&rig.admin, &rig.stranger] {
            let timed = Bytes::from_static(br#"{"prompt":"x","shell":false}"#);
            let put = client
                .send(Method::PUT, "/v1/workflows/timed", timed)
                .await
                .unwrap();
            put.expect(201).unwrap();
        }
        rig.admin.upload("ours.txt", "ours").await.unwrap();
        let schedule = json!({"workflow": "timed", "cron": "@yearly"});
        let made = rig.admin.post("/v1/schedules", &schedule).await.unwrap();
        let made = made.expect(201).unwrap().json().unwrap();
        let schedule = made["id"].as_str().unwrap().to_owned();
        Self {
            run,
            schedule,
            left,
            key,
        }
    }

    async fn call(&self, client: &Client, method: &Method, path: &str, body: &'static str) -> Answer {
        let path = path
            .replace("{run}", &self.run)
            .replace("{schedule}", &self.schedule)
            .replace("{left}", &self.left)
            .replace("{key}", &self.key);
        client
            .clone()
            .with_header(
                "accept",
                sortie_testkit::http::HeaderValue::from_static("application/json"),
            )
            .send(method.clone(), &path, Bytes::from_static(body.as_bytes()))
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn without_a_valid_key_nothing_but_the_public_routes_answers() {
    let rig = Rig::start().await;
    let resources = Resources::of(&rig).await;
    let revoked = rig.new_key("revoked").await;
    let path = format!("/v1/admin/keys/{}", revoked.id);
    rig.admin
        .send(Method::DELETE, &path, Bytes::new())
        .await
        .unwrap()
        .expect(204)
        .unwrap();
    let rotated = rig.new_key("rotated").await;
    rig.admin
        .post(
            &format!("/v1/admin/keys/{}/rotate", rotated.id),
            &json!({"grace_seconds": 0}),
        )
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    let expired = rig.expired_key().await;
    let never = [
        rig.admin.with_key("sts_guess"),
        revoked.client,
        rotated.client,
        rig.admin.with_key(expired.expose()),
    ];

    let mut lines: Vec<_> = TABLE
        .iter()
        .map(|line| (line.0, line.1.clone(), line.2, line.3))
        .collect();
    lines.push((CREATE_KEY.0, Method::POST, CREATE_KEY.1, CREATE_KEY.2));
    lines.push((CREATE_FILE.0, Method::POST, CREATE_FILE.1, ""));
    lines.push((CONFIRM.0, Method::POST, CONFIRM.1, CONFIRM.2));
    for (name, method, path, body) in lines {
        let none = rig.admin.anonymous();
        let invalid = never
            .iter()
            .map(|client| (client, r#"Bearer error="invalid_token""#));
        for (client, challenge) in [(&none, "Bearer")].into_iter().chain(invalid) {
            let answer = resources.call(client, &method, path, body).await;
            answer
                .failure(401, "unauthorized")
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(answer.header("www-authenticate").unwrap(), challenge, "{name}");
        }
    }
    for (name, path, status) in PUBLIC {
        for client in [&rig.admin.anonymous(), &never[3], &rig.admin] {
            let answer = client.get(path).await.unwrap();
            assert_eq!(answer.status, status, "{name}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_role_that_is_too_small_is_forbidden() {
    let rig = Rig::start().await;
    let resources = Resources::of(&rig).await;
    for (name, method, path, body, role, _) in TABLE
        .iter()
        .filter(|line| !matches!(line.0, "delete_key" | "delete_file"))
    {
        let answer = resources.call(&rig.member, method, path, body).await;
        if *role == "admin" {
            answer
                .failure(403, "forbidden")
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        } else {
            assert!(answer.status < 300, "{name}: {}", answer.text());
            if *method == Method::DELETE {
                continue;
            }
        }
        let answer = resources.call(&rig.admin, method, path, body).await;
        assert!(answer.status < 300, "{name}: {}", answer.text());
    }
    let refused = [
        (Method::POST, CREATE_KEY.1, CREATE_KEY.2),
        (Method::POST, CONFIRM.1, CONFIRM.2),
        (Method::DELETE, "/v1/admin/keys/{key}", ""),
    ];
    for (method, path, body) in refused {
        let answer = resources.call(&rig.member, &method, path, body).await;
        answer.failure(403, "forbidden").unwrap();
    }
    assert!(
        listed_keys(&rig.admin).await.contains(&resources.key),
        "a refused call changes nothing"
    );
}

async fn listed_keys(client: &Client) -> Vec<String> {
    let keys = client
        .get("/v1/admin/keys")
        .await
        .unwrap()
        .expect(200)
        .unwrap()
        .json()
        .unwrap();
    keys.as_array()
        .unwrap()
        .iter()
        .map(|key| key["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn another_organization_sees_and_changes_nothing_of_ours() {
    let rig = Rig::start().await;
    let resources = Resources::of(&rig).await;
    for (name, method, path, body, _, foreign) in TABLE {
        let answer = resources.call(&rig.stranger, method, path, body).await;
        match foreign {
            Foreign::NotFound => {
                answer
                    .failure(404, "not_found")
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            Foreign::ItsOwn => assert!(answer.status < 300, "{name}: {}", answer.text()),
        }
        assert!(!answer.text().contains(&resources.run), "{name}");
        assert!(!answer.text().contains(&resources.key), "{name}");
    }
    let run = rig.admin.run(&resources.run).await.unwrap();
    assert!(!run.status.is_final(), "a stranger's cancel does nothing");
    assert!(
        listed_keys(&rig.admin).await.contains(&resources.key),
        "nor does its revocation"
    );
    assert!(!listed_keys(&rig.stranger).await.contains(&resources.key));
}

#[tokio::test]
async fn an_idempotency_key_and_a_cursor_are_of_one_organization() {
    let rig = Rig::start().await;
    let keyed = |client: &Client| {
        client.clone().with_header(
            "idempotency-key",
            sortie_testkit::http::HeaderValue::from_static("same"),
        )
    };
    let ours: Value = keyed(&rig.admin)
        .post("/v1/runs", &plain("a"))
        .await
        .unwrap()
        .expect(202)
        .unwrap()
        .json()
        .unwrap();
    let theirs = keyed(&rig.stranger)
        .post("/v1/runs", &plain("a"))
        .await
        .unwrap()
        .expect(202)
        .unwrap();
    assert_ne!(ours["id"], theirs.json().unwrap()["id"]);
    rig.admin.create(&plain("b")).await.unwrap();
    let page = rig.admin.get("/v1/runs?limit=1").await.unwrap().json().unwrap();
    let path = format!("/v1/runs?cursor={}", page["next_cursor"].as_str().unwrap());
    rig.admin.get(&path).await.unwrap().expect(200).unwrap();
    rig.stranger
        .get(&path)
        .await
        .unwrap()
        .failure(400, "invalid_request")
        .unwrap();
}

#[tokio::test]
async fn a_hosted_engine_has_no_administration_of_keys_licenses_and_nodes() {
    let rig = Rig::start_with(Mode::Hosted, options()).await;
    let id = KeyId::new(Timestamp::from_micros(0), [1; 10]);
    for (method, path, body) in [
        (Method::GET, "/v1/admin/keys".to_owned(), ""),
        (Method::POST, "/v1/admin/keys".to_owned(), r#"{"name":"x"}"#),
        (Method::DELETE, format!("/v1/admin/keys/{id}"), ""),
        (Method::POST, format!("/v1/admin/keys/{id}/rotate"), "{}"),
        (Method::GET, "/v1/admin/license".to_owned(), ""),
        (Method::GET, "/v1/admin/nodes".to_owned(), ""),
        (Method::GET, "/v1/admin/checks".to_owned(), ""),
        (Method::GET, "/v1/admin/master-key".to_owned(), ""),
        (Method::POST, "/v1/admin/master-key/reseal".to_owned(), ""),
    ] {
        let answer = rig.admin.send(method, &path, Bytes::from(body)).await.unwrap();
        answer.failure(404, "not_found").unwrap();
    }
}
