//! The OAuth server: registration, consent, tokens, refusals, and the engine API behind them.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use sortie_api::{GrantId, Role};
use sortie_testkit::{
    Answer, Bytes, Client,
    http::{HeaderValue, Method},
};

use crate::{
    browser::{Browser, encoded, form_token, query_of},
    rig::{Rig, Signed},
};

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT: &str = "https://app.example.com/cb";

fn anybody(rig: &Rig) -> Client {
    Client::new(rig.address, None)
}

/// Sends a form to an endpoint of the OAuth server.
async fn form(rig: &Rig, path: &str, fields: &[(&str, &str)]) -> Answer {
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    let client = anybody(rig).with_header("content-type", kind);
    client
        .send(Method::POST, path, encoded(fields).into())
        .await
        .unwrap()
}

/// Registers a client with these members beside the redirect URI.
async fn register(rig: &Rig, more: &Value) -> Value {
    let mut metadata = json!({
        "client_name": "App", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
        "application_type": "native", "scope": "member", "unknown": {"a": 1},
    });
    metadata
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let made = anybody(rig).post("/oauth/register", &metadata).await.unwrap();
    made.expect(201).unwrap().json().unwrap()
}

pub(crate) async fn client_id(rig: &Rig) -> String {
    register(rig, &json!({})).await["client_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Path of an authorization request, with these parameters in the place of the right ones; an empty one is left out.
pub(crate) fn authorize(client: &str, change: &[(&str, &str)]) -> String {
    let mut parameters = BTreeMap::from([
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("state", "a state & more"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ]);
    parameters.extend(change.iter().copied());
    let pairs: Vec<_> = parameters
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    format!("/oauth/authorize?{}", encoded(&pairs))
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.header("location").unwrap().to_owned()
}

/// Lets a person allow a request in an organization. Returns the answer to the decision.
async fn decide(rig: &Rig, person: &Signed, path: &str, organization: &str, decision: &str) -> Answer {
    let browser = Browser::signed_in(rig, &person.token);
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let form = form_token(&page, "/oauth/authorize");
    browser
        .post(
            "/oauth/authorize",
            &[
                ("form", &form),
                ("organization", organization),
                ("decision", decision),
            ],
        )
        .await
}

/// Gets a code for a client.
async fn code(rig: &Rig, person: &Signed, client: &str, scope: &str) -> String {
    let path = authorize(client, &[("scope", scope)]);
    let answer = decide(rig, person, &path, &rig.ours.to_string(), "allow").await;
    let mut query = query_of(&location(&answer));
    assert_eq!(
        (query["state"].as_str(), &query["iss"]),
        ("a state & more", &rig.org_url)
    );
    query.remove("code").unwrap()
}

fn redemption<'a>(client: &'a str, code: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ]
}

/// Tokens of a new grant of a person.
pub(crate) async fn tokens(rig: &Rig, person: &Signed, client: &str, scope: &str) -> Value {
    let code = code(rig, person, client, scope).await;
    let answer = form(rig, "/oauth/token", &redemption(client, &code)).await;
    answer.expect(200).unwrap().json().unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Checks an error of the OAuth server, which nobody may keep.
fn refused(answer: &Answer, status: u16, error: &str) {
    assert_eq!(
        (answer.status, answer.json().unwrap()["error"].as_str()),
        (status, Some(error)),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("cache-control").unwrap(), "no-store");
    assert_eq!(answer.header("access-control-allow-origin").unwrap(), "*");
}

async fn me(rig: &Rig, token: &str) -> Answer {
    rig.engine_client(token).get("/v1/me").await.unwrap()
}

async fn refresh(rig: &Rig, client: &str, token: &str) -> Answer {
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", client),
        ("refresh_token", token),
    ];
    form(rig, "/oauth/token", &fields).await
}

#[tokio::test]
async fn metadata_lead_from_the_engine_to_the_server() {
    let rig = Rig::start().await;
    let engine = Client::new(rig.engine_address, None);
    let engine_url = format!("http://{}", rig.engine_address);
    let refusal = engine.get("/v1/me").await.unwrap();
    refusal.failure(401, "unauthorized").unwrap();
    let metadata = format!(r#"resource_metadata="{engine_url}/.well-known/oauth-protected-resource""#);
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        format!(r#"Bearer scope="member", {metadata}"#)
    );
    for wrong in ["sto_x", &rig.owner.token] {
        let refusal = me(&rig, wrong).await;
        refusal.failure(401, "unauthorized").unwrap();
        assert_eq!(
            refusal.header("www-authenticate").unwrap(),
            format!(r#"Bearer error="invalid_token", scope="member", {metadata}"#)
        );
    }

    let resource = engine
        .get("/.well-known/oauth-protected-resource")
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert_eq!(resource.header("access-control-allow-origin").unwrap(), "*");
    let resource = resource.json().unwrap();
    assert_eq!(resource["resource"], engine_url);
    assert_eq!(resource["authorization_servers"], json!([rig.org_url]));
    let other = engine
        .get("/.well-known/oauth-protected-resource/v1/me")
        .await
        .unwrap();
    other.failure(404, "not_found").unwrap();

    let server = anybody(&rig)
        .get("/.well-known/oauth-authorization-server")
        .await
        .unwrap();
    assert_eq!(server.header("access-control-allow-origin").unwrap(), "*");
    let server = server.expect(200).unwrap().json().unwrap();
    let endpoint = |path: &str| json!(format!("{}{path}", rig.org_url));
    for (name, value) in [
        ("issuer", endpoint("")),
        ("authorization_endpoint", endpoint("/oauth/authorize")),
        ("token_endpoint", endpoint("/oauth/token")),
        ("registration_endpoint", endpoint("/oauth/register")),
        ("revocation_endpoint", endpoint("/oauth/revoke")),
        ("response_types_supported", json!(["code"])),
        ("code_challenge_methods_supported", json!(["S256"])),
        (
            "grant_types_supported",
            json!(["authorization_code", "refresh_token"]),
        ),
        ("authorization_response_iss_parameter_supported", json!(true)),
        ("client_id_metadata_document_supported", json!(true)),
        (
            "token_endpoint_auth_methods_supported",
            json!(["none", "client_secret_basic", "client_secret_post"]),
        ),
    ] {
        assert_eq!(server[name], value, "{name}");
    }
    rig.end().await;
}

#[tokio::test]
async fn a_resource_with_a_path_has_its_metadata_behind_it() {
    let rig =
        Rig::start_with(|options| options.engine_url = "https://sortie.example/engine".to_owned()).await;
    let engine = Client::new(rig.engine_address, None);
    for path in ["", "/engine"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let metadata = engine
            .get(&path)
            .await
            .unwrap()
            .expect(200)
            .unwrap()
            .json()
            .unwrap();
        assert_eq!(metadata["resource"], "https://sortie.example/engine");
    }
    let refusal = engine.get("/v1/me").await.unwrap();
    let url = r#"resource_metadata="https://sortie.example/.well-known/oauth-protected-resource/engine""#;
    assert!(refusal.header("www-authenticate").unwrap().ends_with(url));
    rig.end().await;
}

#[tokio::test]
async fn a_client_registers_itself() {
    let rig = Rig::start().await;
    let public = register(&rig, &json!({"client_name": "\u{202e}<b>App</b>"})).await;
    assert_eq!(public["client_name"], "<b>App</b>");
    assert_eq!(public["redirect_uris"], json!([REDIRECT]));
    assert_eq!(public["token_endpoint_auth_method"], "none");
    assert_eq!(public.get("client_secret"), None);
    assert_eq!(public.get("unknown"), None);
    let basic = register(&rig, &json!({"token_endpoint_auth_method": null})).await;
    assert_eq!(basic["token_endpoint_auth_method"], "client_secret_basic");
    assert!(text(&basic, "client_secret").starts_with("stc_"));
    assert_eq!(basic["client_secret_expires_at"], 0);

    let post = async |body: &str| {
        let body = Bytes::copy_from_slice(body.as_bytes());
        anybody(&rig)
            .send(Method::POST, "/oauth/register", body)
            .await
            .unwrap()
    };
    refused(
        &post(r#"{"redirect_uris": ["http://a.example/"]}"#).await,
        400,
        "invalid_redirect_uri",
    );
    refused(
        &post(r#"{"redirect_uris": ["https://a.example/"], "client_name": 7}"#).await,
        400,
        "invalid_client_metadata",
    );
    refused(&post("{").await, 400, "invalid_client_metadata");
    let form = form(&rig, "/oauth/register", &[("redirect_uris", REDIRECT)]).await;
    refused(&form, 400, "invalid_client_metadata");
    post(&format!("{{\"a\": \"{}\"}}", "x".repeat(8_192)))
        .await
        .failure(413, "payload_too_large")
        .unwrap();
    rig.end().await;
}

#[tokio::test]
async fn a_network_registers_twenty_clients_an_hour() {
    let rig = Rig::start().await;
    for _ in 0..20 {
        register(&rig, &json!({})).await;
    }
    let metadata = json!({"redirect_uris": [REDIRECT]});
    let refusal = anybody(&rig).post("/oauth/register", &metadata).await.unwrap();
    refusal.failure(429, "rate_limited").unwrap();
    assert!(refusal.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    rig.clock.set(rig.clock.now() + Duration::from_hours(1));
    register(&rig, &json!({})).await;
    rig.end().await;
}

#[tokio::test]
async fn an_application_acts_for_a_person_until_the_person_ends_it() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let issued = tokens(&rig, &rig.member, &client, "").await;
    assert_eq!(
        (text(&issued, "token_type"), &issued["expires_in"]),
        ("Bearer", &json!(3_600))
    );
    assert_eq!(text(&issued, "scope"), "member");
    let access = text(&issued, "access_token");
    assert!(access.starts_with("sto_") && text(&issued, "refresh_token").starts_with("str_"));
    let info = me(&rig, access).await.expect(200).unwrap().json().unwrap();
    assert_eq!(
        (info["organization_id"].as_str(), info["role"].as_str()),
        (Some(&*rig.ours.to_string()), Some("member"))
    );
    // The organization API takes sessions only.
    let own = anybody(&rig)
        .with_key(access)
        .get("/v1/auth/grants")
        .await
        .unwrap();
    own.failure(401, "unauthorized").unwrap();

    let listed = rig
        .member
        .client
        .get("/v1/auth/grants")
        .await
        .unwrap()
        .expect(200)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(listed[0]["client_id"], client.as_str());
    assert_eq!(
        (text(&listed[0], "client_name"), text(&listed[0], "scope")),
        ("App", "member")
    );
    assert_eq!(listed[0]["organization"], json!({"id": rig.ours, "name": "ours"}));
    let path = format!("/v1/auth/grants/{}", text(&listed[0], "id"));
    let delete = async |person: &Signed| {
        person
            .client
            .send(Method::DELETE, &path, Bytes::new())
            .await
            .unwrap()
    };
    delete(&rig.owner).await.failure(404, "not_found").unwrap();
    assert_eq!(me(&rig, access).await.status, 200);
    assert_eq!(delete(&rig.member).await.status, 204);
    me(&rig, access).await.failure(401, "unauthorized").unwrap();
    delete(&rig.member).await.failure(404, "not_found").unwrap();
    refused(
        &refresh(&rig, &client, text(&issued, "refresh_token")).await,
        400,
        "invalid_grant",
    );
    let left = rig
        .member
        .client
        .get("/v1/auth/grants")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(left, json!([]));
    rig.end().await;
}

#[tokio::test]
async fn the_role_of_a_token_is_the_lesser_of_its_scope_and_the_role_of_now() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let member = tokens(&rig, &rig.admin, &client, "member").await;
    let admin = tokens(&rig, &rig.admin, &client, "admin").await;
    let role = async |tokens: &Value| {
        let info = me(&rig, text(tokens, "access_token"))
            .await
            .expect(200)
            .unwrap()
            .json()
            .unwrap();
        text(&info, "role").to_owned()
    };
    assert_eq!(
        (role(&member).await, role(&admin).await),
        ("member".to_owned(), "admin".to_owned())
    );

    let usage = async |tokens: &Value| {
        let client = rig.engine_client(text(tokens, "access_token"));
        client.get("/v1/admin/usage").await.unwrap()
    };
    usage(&admin).await.expect(200).unwrap();
    let refusal = usage(&member).await;
    refusal.failure(403, "forbidden").unwrap();
    let url = format!(
        "http://{}/.well-known/oauth-protected-resource",
        rig.engine_address
    );
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        format!(r#"Bearer error="insufficient_scope", scope="admin", resource_metadata="{url}""#)
    );

    rig.set_role(rig.ours, rig.admin.user, Role::Member);
    rig.engine
        .forget_credentials(grant_of(&rig, &rig.admin, "admin").await);
    let refusal = usage(&admin).await;
    refusal.failure(403, "forbidden").unwrap();
    assert!(
        refusal.header("www-authenticate").is_err(),
        "another scope would not help"
    );
    rig.end().await;
}

async fn grant_of(rig: &Rig, person: &Signed, scope: &str) -> sortie_store::By {
    let listed = person
        .client
        .get("/v1/auth/grants")
        .await
        .unwrap()
        .json()
        .unwrap();
    let grant = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|grant| grant["scope"] == scope);
    let grant: GrantId = text(grant.unwrap(), "id").parse().unwrap();
    assert_eq!(listed[0]["organization"]["id"], rig.ours.to_string());
    sortie_store::By::Grant(grant)
}

#[tokio::test]
async fn a_wrong_client_or_redirect_ends_on_a_page() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let browser = Browser::signed_in(&rig, &rig.member.token);
    let mut wrong = vec![
        authorize("", &[]),
        authorize("client_01kafs6w1cefkstv6qr1ptb0mp", &[]),
        authorize("https://127.0.0.1/client.json", &[]),
        authorize("https://169.254.169.254/latest/meta-data", &[]),
        authorize("x", &[]),
        format!("{}&client_id={client}", authorize(&client, &[])),
        format!("{}&redirect_uri={REDIRECT}", authorize(&client, &[])),
    ];
    let spellings = [
        "https://evil.example/cb",
        "https://app.example.com/cb/",
        "https://app.example.com/cb?x=1",
        "https://app.example.com//cb",
        "https://app.example.com/./cb",
        "https://app.example.com/CB",
        "https://app.example.com/%63b",
        "https://app.example.com/cb#x",
        "https://app.example.com:443/cb",
        "https://app.example.com:8443/cb",
        "https://app.example.com./cb",
        "http://app.example.com/cb",
        "HTTPS://app.example.com/cb",
        "//app.example.com/cb",
        "///evil.example/cb",
        "/\\evil.example/cb",
        "/cb",
        "https:/app.example.com/cb",
        "https:app.example.com/cb",
        "https:\\\\app.example.com\\cb",
        "https://app.example.com@evil.example/cb",
        "https://user@app.example.com/cb",
        "https://app.example.com.evil.example/cb",
        "https://evil.example/https://app.example.com/cb",
        "https://evil.example?@app.example.com/cb",
        "https://evil.example#@app.example.com/cb",
        "https://evil.example\\@app.example.com/cb",
        "https://app.example.com\\.evil.example/cb",
        "https://app.example.com%2eevil.example/cb",
        "https://app.example.com/cb ",
        " https://app.example.com/cb",
        "https://app.example.com/cb\t",
        "https://app.example.com/cb\n",
        "https://app.example.com/cb\u{0}",
        "https://app.example.com/cb;x",
        "https://app.example.com/x/../cb",
        "javascript:alert(1)",
        "data:text/html,x",
        "javascript://app.example.com/cb%0aalert(1)",
        "https://äpp.example.com/cb",
    ];
    assert!(spellings.len() >= 40);
    wrong.extend(
        spellings
            .iter()
            .map(|uri| authorize(&client, &[("redirect_uri", uri)])),
    );
    for path in wrong {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 400, "{path}");
        assert!(page.header("location").is_err(), "{path}");
        assert!(
            page.header("content-type").unwrap().starts_with("text/html"),
            "{path}"
        );
    }
    rig.end().await;
}

#[tokio::test]
async fn every_other_error_is_told_to_the_client() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    // Nobody needs to be signed in for that.
    let browser = Browser::new(&rig);
    for (change, error) in [
        (("response_type", ""), "invalid_request"),
        (("response_type", "token"), "unsupported_response_type"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("scope", "owner"), "invalid_scope"),
        (("resource", "https://other.example"), "invalid_target"),
    ] {
        let location = location(&browser.get(&authorize(&client, &[change])).await);
        assert!(location.starts_with(&format!("{REDIRECT}?")), "{location}");
        let query = query_of(&location);
        assert_eq!(query["error"], error, "{change:?}");
        assert_eq!(
            (query["state"].as_str(), &query["iss"]),
            ("a state & more", &rig.org_url),
            "{change:?}"
        );
        assert!(!query.contains_key("code"));
    }
    let twice = format!("{}&scope=member&scope=member", authorize(&client, &[]));
    assert_eq!(
        query_of(&location(&browser.get(&twice).await))["error"],
        "invalid_request"
    );
    for slash in ["", "/"] {
        let resource = format!("http://{}{slash}", rig.engine_address);
        let there = location(&browser.get(&authorize(&client, &[("resource", &resource)])).await);
        assert!(there.starts_with("/sign-in?return="), "{there}");
    }
    rig.end().await;
}

#[tokio::test]
async fn a_person_refuses() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let answer = decide(&rig, &rig.member, &authorize(&client, &[]), "", "deny").await;
    let query = query_of(&location(&answer));
    assert_eq!(
        (query["error"].as_str(), &query["iss"]),
        ("access_denied", &rig.org_url)
    );
    assert_eq!(query["state"], "a state & more");
    let listed = rig
        .member
        .client
        .get("/v1/auth/grants")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(listed, json!([]));
    rig.end().await;
}

#[tokio::test]
async fn the_consent_page_says_who_asks_for_what() {
    let rig = Rig::start().await;
    let name = format!("<script>alert(1)</script>\u{202e}{}", "x".repeat(1_000));
    let client = register(
        &rig,
        &json!({"client_name": name, "redirect_uris": [REDIRECT, "http://127.0.0.1/cb"]}),
    )
    .await;
    let client = text(&client, "client_id");
    let browser = Browser::signed_in(&rig, &rig.owner.token);
    let page = browser.get(&authorize(client, &[])).await;
    let shown = page.text();
    assert!(!shown.contains("<script") && !shown.contains('\u{202e}') && !shown.contains(&"x".repeat(100)));
    for part in [
        "&lt;script&gt;",
        "app.example.com",
        "owner@example.com",
        "ours",
        "start and cancel runs",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("only on this computer"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("form-action 'self' https://app.example.com;"),
        "{policy}"
    );

    let loopback = authorize(client, &[("redirect_uri", "http://127.0.0.1:3456/cb")]);
    let page = browser.get(&loopback).await;
    assert!(page.text().contains("only on this computer"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("form-action 'self' http://127.0.0.1:3456;"),
        "{policy}"
    );

    // A member has no organization where the role includes the scope.
    let member = Browser::signed_in(&rig, &rig.member.token);
    let page = member.get(&authorize(client, &[("scope", "admin")])).await;
    assert!(page.text().contains("You have no organization"));
    assert!(!page.text().contains("value=\"allow\""));
    rig.end().await;
}

#[tokio::test]
async fn the_person_chooses_an_organization_where_the_role_suffices() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    rig.join(rig.theirs, rig.admin.user, Role::Member);
    let browser = Browser::signed_in(&rig, &rig.admin.token);
    let page = browser.get(&authorize(&client, &[])).await.text();
    assert!(page.contains("<select") && page.contains(">ours<") && page.contains(">theirs<"));
    let page = browser
        .get(&authorize(&client, &[("scope", "admin")]))
        .await
        .text();
    assert!(!page.contains("<select") && !page.contains("theirs"));
    // The role is checked again when the person decides.
    let path = authorize(&client, &[("scope", "admin")]);
    for org in [rig.theirs.to_string(), "org_x".to_owned(), String::new()] {
        let answer = decide(&rig, &rig.admin, &path, &org, "allow").await;
        assert!(matches!(answer.status, 400 | 409), "{org}: {}", answer.status);
        assert!(answer.header("location").is_err());
    }
    let answer = decide(
        &rig,
        &rig.stranger,
        &authorize(&client, &[]),
        &rig.ours.to_string(),
        "allow",
    )
    .await;
    assert_eq!(answer.status, 409);
    rig.end().await;
}

#[tokio::test]
async fn a_decision_is_taken_from_a_form_of_this_session_alone() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let browser = Browser::signed_in(&rig, &rig.member.token);
    let page = browser.get(&authorize(&client, &[])).await;
    let token = form_token(&page, "/oauth/authorize");
    let ours = rig.ours.to_string();
    let fields = [
        ("form", token.as_str()),
        ("organization", &ours),
        ("decision", "allow"),
    ];
    for origin in [
        None,
        Some("null"),
        Some("https://evil.example"),
        Some("http://127.0.0.1"),
    ] {
        let answer = browser.post_from(origin, "/oauth/authorize", &fields).await;
        assert_eq!(answer.status, 403, "{origin:?}");
    }
    let other = Browser::signed_in(&rig, &rig.owner.token);
    assert_eq!(
        other.post("/oauth/authorize", &fields).await.status,
        403,
        "another session"
    );
    assert_eq!(
        Browser::new(&rig).post("/oauth/authorize", &fields).await.status,
        403,
        "no session"
    );
    let purpose = form_token(&page, "/sign-out");
    let wrong = [
        ("form", purpose.as_str()),
        ("organization", &ours),
        ("decision", "allow"),
    ];
    assert_eq!(
        browser.post("/oauth/authorize", &wrong).await.status,
        403,
        "another purpose"
    );
    assert_eq!(
        browser.post("/oauth/authorize", &fields[1..]).await.status,
        403,
        "no token"
    );
    rig.clock.set(rig.clock.now() + Duration::from_mins(10));
    assert_eq!(
        browser.post("/oauth/authorize", &fields).await.status,
        403,
        "too late"
    );
    let listed = rig
        .member
        .client
        .get("/v1/auth/grants")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(listed, json!([]), "nothing was allowed");
    rig.end().await;
}

#[tokio::test]
async fn a_code_is_bound_to_its_client_redirect_and_verifier() {
    let rig = Rig::start().await;
    let (client, other) = (client_id(&rig).await, client_id(&rig).await);
    let code = code(&rig, &rig.member, &client, "").await;
    let with = |name: &'static str, value: &'static str| {
        let mut fields = redemption(&client, &code);
        fields.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            fields.push((name, value));
        }
        fields
    };
    for (fields, status, error) in [
        (with("grant_type", ""), 400, "invalid_request"),
        (with("grant_type", "password"), 400, "unsupported_grant_type"),
        (with("client_id", ""), 400, "invalid_request"),
        (
            with("client_id", "client_01kafs6w1cefkstv6qr1ptb0mp"),
            401,
            "invalid_client",
        ),
        (with("client_id", "x"), 401, "invalid_client"),
        (with("client_secret", "stc_x"), 401, "invalid_client"),
        (with("code", ""), 400, "invalid_request"),
        (with("code", "sta_x"), 400, "invalid_grant"),
        (with("code_verifier", ""), 400, "invalid_request"),
        (with("code_verifier", "short"), 400, "invalid_request"),
        (
            with("code_verifier", "aBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            400,
            "invalid_grant",
        ),
        (
            with("redirect_uri", "https://app.example.com/other"),
            400,
            "invalid_grant",
        ),
        (with("resource", "https://other.example"), 400, "invalid_target"),
    ] {
        refused(&form(&rig, "/oauth/token", &fields).await, status, error);
    }
    refused(
        &form(&rig, "/oauth/token", &redemption(&other, &code)).await,
        400,
        "invalid_grant",
    );
    let mut twice = redemption(&client, &code);
    twice.push(("code", &code));
    refused(&form(&rig, "/oauth/token", &twice).await, 400, "invalid_request");
    let answer = anybody(&rig)
        .post("/oauth/token", &json!({"grant_type": "x"}))
        .await
        .unwrap();
    refused(&answer, 400, "invalid_request");

    let answer = form(&rig, "/oauth/token", &redemption(&client, &code))
        .await
        .expect(200)
        .unwrap();
    assert_eq!(answer.header("cache-control").unwrap(), "no-store");
    let issued = answer.json().unwrap();
    let access = text(&issued, "access_token");
    // A replay without the verifier ends nothing.
    let wrong = with("code_verifier", "aBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    refused(&form(&rig, "/oauth/token", &wrong).await, 400, "invalid_grant");
    assert_eq!(me(&rig, access).await.status, 200);
    refused(
        &form(&rig, "/oauth/token", &redemption(&client, &code)).await,
        400,
        "invalid_grant",
    );
    me(&rig, access).await.failure(401, "unauthorized").unwrap();
    rig.end().await;
}

#[tokio::test]
async fn a_code_ends_after_a_minute() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let code = code(&rig, &rig.member, &client, "").await;
    rig.clock.set(rig.clock.now() + Duration::from_mins(1));
    refused(
        &form(&rig, "/oauth/token", &redemption(&client, &code)).await,
        400,
        "invalid_grant",
    );
    rig.end().await;
}

#[tokio::test]
async fn a_second_use_of_a_refresh_token_ends_the_family() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let first = tokens(&rig, &rig.member, &client, "").await;
    let old = text(&first, "refresh_token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", &*client),
        ("refresh_token", old),
        ("scope", "admin"),
    ];
    refused(&form(&rig, "/oauth/token", &fields).await, 400, "invalid_scope");
    refused(
        &refresh(&rig, &client_id(&rig).await, old).await,
        400,
        "invalid_grant",
    );
    refused(&refresh(&rig, &client, "str_x").await, 400, "invalid_grant");

    let second = refresh(&rig, &client, old)
        .await
        .expect(200)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(second["scope"], "member");
    let access = text(&second, "access_token");
    assert_eq!(me(&rig, access).await.status, 200);
    assert_eq!(me(&rig, text(&first, "access_token")).await.status, 200);
    refused(&refresh(&rig, &client, old).await, 400, "invalid_grant");
    me(&rig, access).await.failure(401, "unauthorized").unwrap();
    refused(
        &refresh(&rig, &client, text(&second, "refresh_token")).await,
        400,
        "invalid_grant",
    );
    rig.end().await;
}

#[tokio::test]
async fn a_confidential_client_proves_itself_by_the_header_or_by_the_form() {
    let rig = Rig::start().await;
    let client = register(
        &rig,
        &json!({"token_endpoint_auth_method": "client_secret_basic"}),
    )
    .await;
    let (id, secret) = (text(&client, "client_id"), text(&client, "client_secret"));
    let code = code(&rig, &rig.member, id, "").await;
    let without = redemption(id, &code);
    refused(&form(&rig, "/oauth/token", &without).await, 401, "invalid_client");
    let mut wrong = without.clone();
    wrong.push(("client_secret", "stc_x"));
    let refusal = form(&rig, "/oauth/token", &wrong).await;
    refused(&refusal, 401, "invalid_client");
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        "Basic realm=\"Sortie\""
    );
    let mut right = without.clone();
    right.push(("client_secret", secret));
    let issued = form(&rig, "/oauth/token", &right)
        .await
        .expect(200)
        .unwrap()
        .json()
        .unwrap();

    let basic = format!("Basic {}", base64(&format!("{id}:{secret}")));
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    let with_header = anybody(&rig)
        .with_header("authorization", HeaderValue::try_from(basic).unwrap())
        .with_header("content-type", kind);
    let body = encoded(&[
        ("grant_type", "refresh_token"),
        ("refresh_token", text(&issued, "refresh_token")),
    ]);
    let next = with_header
        .send(Method::POST, "/oauth/token", body.into())
        .await
        .unwrap();
    let next = next.expect(200).unwrap().json().unwrap();
    let body = encoded(&[("token", text(&next, "access_token"))]);
    let revoked = with_header
        .send(Method::POST, "/oauth/revoke", body.into())
        .await
        .unwrap();
    assert_eq!(revoked.status, 200);
    me(&rig, text(&next, "access_token"))
        .await
        .failure(401, "unauthorized")
        .unwrap();
    rig.end().await;
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

#[tokio::test]
async fn a_client_revokes_its_own_tokens_and_is_not_told_about_others() {
    let rig = Rig::start().await;
    let (client, other) = (client_id(&rig).await, client_id(&rig).await);
    for kind in ["access_token", "refresh_token"] {
        let issued = tokens(&rig, &rig.member, &client, "").await;
        let (token, access) = (text(&issued, kind), text(&issued, "access_token"));
        assert_eq!(me(&rig, access).await.status, 200);
        for (client, token) in [(other.as_str(), token), (&client, "sto_x"), (&client, "x")] {
            let answer = form(&rig, "/oauth/revoke", &[("client_id", client), ("token", token)]).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, ""));
            assert_eq!(answer.header("cache-control").unwrap(), "no-store");
        }
        assert_eq!(me(&rig, access).await.status, 200);
        let fields = [
            ("client_id", client.as_str()),
            ("token", token),
            ("token_type_hint", "access_token"),
        ];
        assert_eq!(form(&rig, "/oauth/revoke", &fields).await.status, 200);
        me(&rig, access).await.failure(401, "unauthorized").unwrap();
    }
    refused(
        &form(&rig, "/oauth/revoke", &[("client_id", &client)]).await,
        400,
        "invalid_request",
    );
    refused(
        &form(&rig, "/oauth/revoke", &[("client_id", "x"), ("token", "y")]).await,
        401,
        "invalid_client",
    );
    rig.end().await;
}

#[tokio::test]
async fn applications_in_a_browser_may_read_the_open_endpoints_alone() {
    let rig = Rig::start().await;
    let preflight = async |address, path: &str| {
        let client = Client::new(address, None)
            .with_header("origin", HeaderValue::from_static("https://a.example"))
            .with_header("access-control-request-method", HeaderValue::from_static("POST"));
        client.send(Method::OPTIONS, path, Bytes::new()).await.unwrap()
    };
    for (address, path) in [
        (rig.address, "/oauth/token"),
        (rig.address, "/oauth/register"),
        (rig.address, "/oauth/revoke"),
        (rig.address, "/.well-known/oauth-authorization-server"),
        (rig.engine_address, "/.well-known/oauth-protected-resource"),
    ] {
        let answer = preflight(address, path).await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin").unwrap(), "*");
        assert!(answer.header("access-control-allow-credentials").is_err());
        assert!(
            answer
                .header("access-control-allow-headers")
                .unwrap()
                .contains("content-type")
        );
    }
    for (address, path) in [
        (rig.address, "/oauth/authorize"),
        (rig.address, "/v1/auth/grants"),
        (rig.engine_address, "/v1/me"),
    ] {
        let answer = preflight(address, path).await;
        assert_eq!(answer.status, 405, "{path}");
        assert!(answer.header("access-control-allow-origin").is_err(), "{path}");
    }
    rig.end().await;
}
