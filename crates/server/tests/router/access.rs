//! Access to each operation, for every kind of caller and both deployment modes. The tests compare the answers with the access
//! table of the server and the description document. An operation without a call fails.

#[path = "../shared/operations.rs"]
mod operations;
mod table;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use sortie_api::{
    Mode, OrgId, Role, RunStatus,
    key::{CreateKey, RotateKey},
    secret::{RUN_TOKEN, signed_text},
};
use sortie_engine::Clock;
use sortie_server::{Access, Api, Modes, Options, RequiredRole};
use sortie_store::access::{Actor, Caller};

use self::{
    operations::{Expected, access},
    table::{CALLS, Call, Foreign},
};
use crate::{prelude::*, rig::MASTER_KEY};

/// Operations that another node calls, on behalf of a client that it has authenticated.
const OF_NODES: [&str; 3] = ["get_run", "follow_run", "follow_ui_messages"];

/// Kinds of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nobody,
    Malformed,
    Unknown,
    Expired,
    Revoked,
    RotatedOut,
    Member,
    Admin,
    AdminOfAnother,
    Node,
    /// Tokens for the run `{run}`.
    RunReader,
    RunCanceller,
    /// Token for the run `{left}`, with both permissions.
    OtherRun,
    AlteredToken,
    /// Token of an API key that is revoked.
    TokenOfRevoked,
}

/// Computes the expected answer to a caller from the access of the operation.
fn expected(call: &Call, kind: Kind, mode: Mode) -> Expected {
    let Access { role, modes, .. } = access(Api::Engine, call.operation);
    let allowed = call.refused.map_or(Expected::Success, Expected::Status);
    if mode == Mode::Hosted && *modes != Modes::All {
        return Expected::NotFound;
    }
    let theirs = match call.foreign {
        Foreign::NotFound => Expected::NotFound,
        Foreign::ItsOwn => allowed,
    };
    let is_of_run = matches!(
        (kind, call.path.contains("{run}"), call.path.contains("{left}")),
        (Kind::RunReader | Kind::RunCanceller, true, _) | (Kind::OtherRun, _, true)
    );
    let has_tokens = matches!(role, RequiredRole::RunReader | RequiredRole::RunCanceller);
    let needed = if has_tokens { RequiredRole::Member } else { *role };
    match (needed, kind) {
        (RequiredRole::Public, _) => allowed,
        (_, Kind::RunReader | Kind::RunCanceller | Kind::OtherRun) => match (role, kind, is_of_run) {
            (RequiredRole::RunReader | RequiredRole::RunCanceller, _, false) => Expected::NotFound,
            (RequiredRole::RunReader, Kind::RunReader | Kind::OtherRun, true)
            | (RequiredRole::RunCanceller, Kind::RunCanceller | Kind::OtherRun, true) => allowed,
            _ => Expected::Forbidden,
        },
        (RequiredRole::Member, Kind::Member) | (RequiredRole::Member | RequiredRole::Admin, Kind::Admin) => {
            allowed
        }
        (RequiredRole::Admin, Kind::Member) => Expected::Forbidden,
        (RequiredRole::Member | RequiredRole::Admin, Kind::AdminOfAnother) => theirs,
        (RequiredRole::Member, Kind::Node) if OF_NODES.contains(&call.operation) => allowed,
        (
            RequiredRole::Member | RequiredRole::Admin,
            Kind::Nobody
            | Kind::Malformed
            | Kind::Unknown
            | Kind::Expired
            | Kind::Revoked
            | Kind::RotatedOut
            | Kind::AlteredToken
            | Kind::TokenOfRevoked
            | Kind::Node,
        ) => Expected::Unauthorized,
        (
            RequiredRole::RunReader
            | RequiredRole::RunCanceller
            | RequiredRole::SignedIn
            | RequiredRole::Owner
            | RequiredRole::Operator
            | RequiredRole::Signature,
            _,
        ) => panic!("{}: no caller of this kind exists", call.operation),
    }
}

#[test]
fn every_operation_has_an_access_a_description_and_a_call() {
    let called = CALLS.iter().map(|call| call.operation);
    for (operation, role) in operations::documented(Api::Engine, called) {
        let security = match role {
            RequiredRole::Public => json!([]),
            RequiredRole::RunReader => json!([{"api_key": ["member"]}, {"run_token": ["read"]}]),
            RequiredRole::RunCanceller => json!([{"api_key": ["member"]}, {"run_token": ["cancel"]}]),
            RequiredRole::Member => json!([{"api_key": ["member"]}]),
            RequiredRole::Admin => json!([{"api_key": ["admin"]}]),
            role @ (RequiredRole::SignedIn
            | RequiredRole::Owner
            | RequiredRole::Operator
            | RequiredRole::Signature) => panic!("no operation needs {role:?} yet"),
        };
        assert_eq!(operation["security"], security, "{}", operation["operationId"]);
    }
}

/// Server with resources of the first organization.
struct Resources {
    rig: Rig,
    run: String,
    schedule: String,
    /// A run with an artifact.
    left: String,
    key: String,
}

impl Resources {
    async fn of(mode: Mode) -> Self {
        let rig = Rig::start_with(mode, options()).await;
        let mut request = waiting();
        request["callback"] = json!({"url": "http://127.0.0.1:9/", "secret": "s"});
        let run = rig.admin.create(&request).await.unwrap().id.to_string();
        let left =
            json!({"prompt": "x", "shell": false, "files": [{"path": "outputs/a/b.txt", "content": "b"}]});
        let (_, left) = rig.admin.complete(&left).await.unwrap();
        let key = new_key(&rig, "mine").await.id.to_string();
        let ours = json!({"type": "http", "url": "http://127.0.0.1:9/", "auth": {
            "type": "oauth", "client_id": "c", "authorization_url": "http://127.0.0.1:9/a", "token_url": "http://127.0.0.1:9/t",
        }});
        for (path, body) in rows! {
            "/v1/connections/ours", ours.to_string();
            "/v1/workflows/ours", r#"{"prompt":"x"}"#.to_owned();
            "/v1/budgets/workflow:ours", r#"{"limit_micros":1,"period":"day"}"#.to_owned();
        } {
            rig.admin
                .send(Method::PUT, path, Bytes::from(body))
                .must(201)
                .await;
        }
        for client in [&rig.admin, &rig.stranger] {
            let timed = Bytes::from_static(br#"{"prompt":"x","shell":false}"#);
            client
                .send(Method::PUT, "/v1/workflows/timed", timed)
                .must(201)
                .await;
        }
        rig.admin.upload("ours.txt", "ours").await.unwrap();
        let yearly = json!({"workflow": "timed", "cron": "@yearly"});
        let created = rig.admin.post("/v1/schedules", &yearly).must_json(201).await;
        let schedule = created["id"].as_str().unwrap().to_owned();
        Self {
            rig,
            run,
            schedule,
            left: left.id.to_string(),
            key,
        }
    }

    /// Makes the client of a kind of caller; another node has a signature for each request instead.
    async fn client(&self, kind: Kind) -> Client {
        let rig = &self.rig;
        let key = new_key(rig, "short").await;
        let caller = caller(rig.org);
        match kind {
            Kind::Nobody | Kind::Node => rig.admin.anonymous(),
            Kind::Malformed => rig.admin.with_key("guess"),
            Kind::Unknown => rig.admin.with_key(rig.unknown_key().expose()),
            Kind::Expired => rig.admin.with_key(rig.expired_key().await.expose()),
            Kind::Revoked => {
                rig.engine.delete_key(&caller, key.id).await.unwrap();
                rig.admin.with_key(&key.key)
            }
            Kind::RotatedOut => {
                let request = RotateKey {
                    grace_seconds: Some(0),
                };
                rig.engine.rotate_key(&caller, key.id, &request).await.unwrap();
                rig.admin.with_key(&key.key)
            }
            Kind::Member => rig.member.clone(),
            Kind::Admin => rig.admin.clone(),
            Kind::AdminOfAnother => rig.stranger.clone(),
            Kind::RunReader => rig
                .admin
                .with_key(&token(&rig.admin, &self.run, json!(["read"])).await),
            Kind::RunCanceller => rig
                .admin
                .with_key(&token(&rig.admin, &self.run, json!(["cancel"])).await),
            Kind::OtherRun => {
                let both = token(&rig.admin, &self.left, json!(["cancel", "read"])).await;
                rig.admin.with_key(&both)
            }
            Kind::AlteredToken => {
                // The checksum is that of the altered text: only the signature is wrong.
                let token = token(&rig.admin, &self.run, json!(["read"])).await;
                let digits = &token[4..token.len() - 6];
                let content: Vec<u8> = (0..digits.len() / 2)
                    .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
                    .collect();
                // The permissions are the last byte before the signature.
                let permissions = content.len() - 17;
                let mut altered = content.clone();
                altered[permissions] |= 0b10;
                assert_eq!(token, signed_text(RUN_TOKEN, &content));
                rig.admin.with_key(&signed_text(RUN_TOKEN, &altered))
            }
            Kind::TokenOfRevoked => {
                let token = token(&rig.admin.with_key(&key.key), &self.run, json!(["read"])).await;
                let client = rig.admin.with_key(&token);
                client.get(&format!("/v1/runs/{}", self.run)).must(200).await;
                rig.engine.delete_key(&caller, key.id).await.unwrap();
                client
            }
        }
    }

    async fn call(&self, client: &Client, kind: Kind, call: &Call) -> Answer {
        if call.operation == "create_file" {
            let name = format!("form-data; name=\"file\"; filename=\"{kind:?}.txt\"");
            return client.send_form(&[(&name, b"theirs")]).await.unwrap();
        }
        let path = call
            .path
            .replace("{run}", &self.run)
            .replace("{schedule}", &self.schedule)
            .replace("{left}", &self.left)
            .replace("{key}", &self.key);
        let client = client.with_header("accept", "application/json");
        let client = if kind == Kind::Node {
            let signature = signature(call.method, &path, self.rig.org, &self.key);
            client.with_header("x-sortie-peer", signature)
        } else {
            client
        };
        let method = Method::from_bytes(call.method.as_bytes()).unwrap();
        client
            .send(method, &path, Bytes::from_static(call.body.as_bytes()))
            .await
            .unwrap()
    }

    /// Calls every operation once and compares the answers.
    async fn compare(&self, kind: Kind, mode: Mode) {
        let client = self.client(kind).await;
        for call in CALLS {
            let answer = self.call(&client, kind, call).await;
            let told = format!("{} as {kind:?}, {mode:?}: {}", call.operation, answer.text());
            let expected = expected(call, kind, mode);
            expected.check(&answer, &told);
            if expected == Expected::Unauthorized {
                let challenge = if matches!(kind, Kind::Nobody | Kind::Node) {
                    "Bearer"
                } else {
                    r#"Bearer error="invalid_token""#
                };
                assert_eq!(answer.header("www-authenticate").unwrap(), challenge, "{told}");
            }
            if kind == Kind::AdminOfAnother {
                assert!(!answer.text().contains(&self.run), "{told}");
                assert!(!answer.text().contains(&self.key), "{told}");
            }
        }
    }

    /// Checks that no refused call has changed anything.
    async fn stand(&self) {
        let rig = &self.rig;
        let run = rig.admin.run(&self.run).await.unwrap();
        assert!(!run.status.is_final(), "the run goes on");
        for path in [
            "/v1/workflows/ours",
            "/v1/files/ours.txt",
            "/v1/connections/ours",
            "/v1/budgets/workflow:ours",
            &format!("/v1/schedules/{}", self.schedule),
        ] {
            rig.admin.get(path).must(200).await;
        }
        let keys = rig.engine.store().list_keys(rig.org, None, 100).await.unwrap();
        assert!(keys.iter().any(|key| key.id.to_string() == self.key));
    }
}

/// Makes a token for a run.
async fn token(client: &Client, run: &str, may: Value) -> String {
    let request = json!({"ttl_seconds": 60, "may": may});
    let created = client
        .post(&format!("/v1/runs/{run}/tokens"), &request)
        .must_json(201)
        .await;
    created["token"].as_str().unwrap().to_owned()
}

fn caller(org: OrgId) -> Caller {
    Caller {
        org,
        actor: Actor::default(),
    }
}

async fn new_key(rig: &Rig, name: &str) -> sortie_api::key::CreatedKey {
    let request = CreateKey {
        name: name.to_owned(),
        role: Some(Role::Admin),
        expires_at: None,
    };
    rig.engine.create_key(&caller(rig.org), request).await.unwrap()
}

/// Signs a request as another node with the same master key does.
fn signature(method: &str, target: &str, org: OrgId, key: &str) -> HeaderValue {
    let mac = |key: &[u8], text: &[u8]| {
        let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.chain_update(text).finalize().into_bytes()
    };
    let at = Clock::system().now().as_micros();
    let derived = mac(&MASTER_KEY, b"sortie requests between nodes");
    let mac = mac(
        &derived,
        format!("1\n{method}\n{target}\n{at}\n{org}\n{key}").as_bytes(),
    );
    let mac = mac
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    HeaderValue::try_from(format!("1 {at} {org} {key} {mac}")).unwrap()
}

/// Callers without a valid credential.
async fn refused_callers(mode: Mode) {
    let resources = Resources::of(mode).await;
    for kind in [
        Kind::Nobody,
        Kind::Malformed,
        Kind::Unknown,
        Kind::Expired,
        Kind::Revoked,
        Kind::RotatedOut,
        Kind::AlteredToken,
        Kind::TokenOfRevoked,
        Kind::Node,
    ] {
        resources.compare(kind, mode).await;
    }
    resources.stand().await;
}

#[tokio::test]
async fn without_a_valid_key_nothing_but_the_public_routes_answers() {
    refused_callers(Mode::SelfHosted).await;
}

#[tokio::test]
async fn without_a_valid_key_nothing_but_the_public_routes_of_a_hosted_engine_answers() {
    refused_callers(Mode::Hosted).await;
}

#[tokio::test]
async fn a_member_may_do_what_needs_no_admin() {
    for mode in [Mode::SelfHosted, Mode::Hosted] {
        let resources = Resources::of(mode).await;
        resources.compare(Kind::Member, mode).await;
    }
}

#[tokio::test]
async fn a_run_token_may_do_what_it_says_and_nothing_else() {
    for mode in [Mode::SelfHosted, Mode::Hosted] {
        let resources = Resources::of(mode).await;
        for kind in [Kind::RunReader, Kind::OtherRun] {
            resources.compare(kind, mode).await;
            resources.stand().await;
        }
        resources.compare(Kind::RunCanceller, mode).await;
        let run = resources.rig.admin.run(&resources.run).await.unwrap();
        assert_eq!(run.status, RunStatus::Cancelled);
    }
}

#[tokio::test]
async fn a_run_token_has_limits_of_its_own() {
    let rig = Rig::start().await;
    let run = rig.admin.create(&plain("a")).await.unwrap().id;
    let path = format!("/v1/runs/{run}/tokens");
    for (request, rule) in rows! {
        json!({}), "ttl_seconds";
        json!({"ttl_seconds": 0}), "ttl_seconds: must be 1 to 86400";
        json!({"ttl_seconds": 86_401}), "ttl_seconds: must be 1 to 86400";
        json!({"ttl_seconds": 60, "may": []}), "may: must have 1 or 2 entries, none twice";
        json!({"ttl_seconds": 60, "may": ["read", "read"]}), "may: must have 1 or 2 entries, none twice";
        json!({"ttl_seconds": 60, "may": ["answer"]}), "may";
    } {
        let refusal = rig
            .admin
            .post(&path, &request)
            .must_refuse("invalid_request")
            .await;
        assert!(refusal.error.contains(rule), "{request}: {}", refusal.error);
    }
    let made = rig
        .admin
        .post(&path, &json!({"ttl_seconds": 86_400}))
        .must_json(201)
        .await;
    assert_eq!(made["may"], json!(["read"]));
    assert_eq!(made["run_id"], run.to_string());
    // The token has a separate quota, and makes no tokens.
    let client = rig.admin.with_key(made["token"].as_str().unwrap());
    let left = async |client: &Client| {
        let answer = client.get(&format!("/v1/runs/{run}")).await.unwrap();
        answer
            .header("x-ratelimit-remaining")
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    let before = left(&rig.admin).await;
    left(&client).await;
    left(&client).await;
    assert_eq!(left(&rig.admin).await, before - 1);
    client
        .post(&path, &json!({"ttl_seconds": 60}))
        .must_refuse("forbidden")
        .await;
}

#[tokio::test]
async fn pages_of_allowed_origins_alone_read_a_run() {
    let allowed = "https://app.example.com";
    let options = Options {
        allowed_origins: vec![allowed.to_owned()],
        ..options()
    };
    let rig = Rig::start_with(Mode::SelfHosted, options).await;
    let run = rig.admin.create(&plain("a")).await.unwrap().id;
    let of = |origin: &'static str| {
        let client = rig.admin.with_header("origin", origin);
        client.with_header("access-control-request-method", "GET")
    };
    let events = format!("/v1/runs/{run}/events");
    let answer = of(allowed)
        .send(Method::OPTIONS, &events, Bytes::new())
        .must(204)
        .await;
    assert_eq!(answer.header("access-control-allow-origin").unwrap(), allowed);
    assert!(
        answer
            .header("access-control-allow-headers")
            .unwrap()
            .contains("last-event-id")
    );
    assert!(answer.header("access-control-allow-credentials").is_err());
    for (origin, path) in [
        ("https://evil.example.com", events.as_str()),
        ("https://app.example.com.evil.com", &events),
        ("null", &events),
        (allowed, "/v1/runs"),
        (allowed, "/v1/me"),
        (allowed, "/v1/runs/cancel"),
    ] {
        let answer = of(origin)
            .send(Method::OPTIONS, path, Bytes::new())
            .await
            .unwrap();
        assert_eq!(answer.status, 405, "{origin} {path}");
        assert!(
            answer.header("access-control-allow-origin").is_err(),
            "{origin} {path}"
        );
    }
    let run = format!("/v1/runs/{run}");
    for (client, origin) in [
        (of(allowed), Some(allowed)),
        (of("https://evil.example.com"), None),
    ] {
        let answer = client.get(&run).must(200).await;
        assert_eq!(answer.header("access-control-allow-origin").ok(), origin);
    }
    // Refusals are readable as well.
    let page = rig.admin.anonymous().with_header("origin", allowed);
    let answer = page.get(&run).await.unwrap();
    assert_eq!(answer.status, 401);
    assert_eq!(answer.header("access-control-allow-origin").ok(), Some(allowed));
}

#[tokio::test]
async fn an_admin_may_do_everything() {
    for mode in [Mode::SelfHosted, Mode::Hosted] {
        let resources = Resources::of(mode).await;
        resources.compare(Kind::Admin, mode).await;
    }
}

#[tokio::test]
async fn another_organization_sees_and_changes_nothing_of_ours() {
    for mode in [Mode::SelfHosted, Mode::Hosted] {
        let resources = Resources::of(mode).await;
        resources.compare(Kind::AdminOfAnother, mode).await;
        resources.stand().await;
    }
}

#[tokio::test]
async fn an_idempotency_key_and_a_cursor_are_of_one_organization() {
    let rig = Rig::start().await;
    let keyed = |client: &Client| client.with_header("idempotency-key", "same");
    let ours: Value = keyed(&rig.admin)
        .post("/v1/runs", &plain("a"))
        .must_json(202)
        .await;
    let theirs = keyed(&rig.stranger).post("/v1/runs", &plain("a")).must(202).await;
    assert_ne!(ours["id"], theirs.json().unwrap()["id"]);
    rig.admin.create(&plain("b")).await.unwrap();
    let page = rig.admin.get("/v1/runs?limit=1").await.unwrap().json().unwrap();
    let path = format!("/v1/runs?cursor={}", page["next_cursor"].as_str().unwrap());
    rig.admin.get(&path).must(200).await;
    rig.stranger.get(&path).must_refuse("invalid_request").await;
}
