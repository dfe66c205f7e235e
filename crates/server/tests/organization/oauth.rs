//! The OAuth server: registration, consent, tokens, refusals, and access to the engine API.

mod consent;
mod exchange;

use std::collections::BTreeMap;

use crate::{
    browser::{encoded, query_of},
    prelude::*,
};

crate::settings::everywhere! {
    metadata_lead_from_the_engine_to_the_server,
    a_resource_with_a_path_has_its_metadata_behind_it,
    a_client_registers_itself,
    a_network_registers_twenty_clients_an_hour,
    an_application_acts_for_a_person_until_the_person_ends_it,
    the_role_of_a_token_is_the_lesser_of_its_scope_and_the_role_of_now,
    applications_in_a_browser_may_read_the_open_endpoints_alone,
}

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT: &str = "https://app.example.com/cb";

fn anybody(rig: &Rig) -> Client {
    Client::new(rig.address, None)
}

/// Sends a form to an endpoint of the OAuth server.
pub(crate) fn form(rig: &Rig, path: &str, fields: &[(&str, &str)]) -> Pending {
    let client = anybody(rig).with_header("content-type", "application/x-www-form-urlencoded");
    client.send(Method::POST, path, encoded(fields).into())
}

/// Registers a client with these members and the redirect URI.
async fn register(rig: &Rig, more: &Value) -> Value {
    let mut metadata = json!({
        "client_name": "App", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
        "application_type": "native", "scope": "member", "unknown": {"a": 1},
    });
    metadata
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    anybody(rig)
        .post("/oauth/register", &metadata)
        .must_json(201)
        .await
}

pub(crate) async fn client_id(rig: &Rig) -> String {
    register(rig, &json!({})).await["client_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Path of an authorization request. `change` replaces valid parameters; an empty value removes one.
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
    form(rig, "/oauth/token", &redemption(client, &code))
        .must_json(200)
        .await
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Sends a form that is refused with this error of the protocol.
pub(crate) async fn refuses(rig: &Rig, path: &str, fields: &[(&str, &str)], status: u16, error: &str) {
    refused(&form(rig, path, fields).await.unwrap(), status, error);
}

/// Checks an error of the OAuth server. Caches must not store it.
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

fn me(rig: &Rig, token: &str) -> Pending {
    rig.engine_client(token).get("/v1/me")
}

async fn refresh(rig: &Rig, client: &str, token: &str) -> Answer {
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", client),
        ("refresh_token", token),
    ];
    form(rig, "/oauth/token", &fields).await.unwrap()
}

async fn metadata_lead_from_the_engine_to_the_server() {
    let rig = Rig::start().await;
    let engine = Client::new(rig.engine_address, None);
    let engine_url = format!("http://{}", rig.engine_address);
    let refusal = engine.get("/v1/me").await.unwrap();
    refusal.refused("unauthorized").unwrap();
    let metadata = format!(r#"resource_metadata="{engine_url}/.well-known/oauth-protected-resource""#);
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        format!(r#"Bearer scope="member", {metadata}"#)
    );
    for wrong in ["sto_x", &rig.owner.token] {
        let refusal = me(&rig, wrong).await.unwrap();
        refusal.refused("unauthorized").unwrap();
        assert_eq!(
            refusal.header("www-authenticate").unwrap(),
            format!(r#"Bearer error="invalid_token", scope="member", {metadata}"#)
        );
    }

    let resource = engine
        .get("/.well-known/oauth-protected-resource")
        .must(200)
        .await;
    assert_eq!(resource.header("access-control-allow-origin").unwrap(), "*");
    let resource = resource.json().unwrap();
    assert_eq!(resource["resource"], engine_url);
    assert_eq!(resource["authorization_servers"], json!([rig.org_url]));
    engine
        .get("/.well-known/oauth-protected-resource/v1/me")
        .must_refuse("not_found")
        .await;
    let refusal = engine.post("/mcp", &json!({})).await.unwrap();
    let metadata = format!(r#"resource_metadata="{engine_url}/.well-known/oauth-protected-resource/mcp""#);
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        format!(r#"Bearer scope="member", {metadata}"#)
    );
    let resource = engine.get("/.well-known/oauth-protected-resource/mcp");
    let resource = resource.must_json(200).await;
    assert_eq!(resource["resource"], format!("{engine_url}/mcp"));

    let server = anybody(&rig)
        .get("/.well-known/oauth-authorization-server")
        .await
        .unwrap();
    assert_eq!(server.header("access-control-allow-origin").unwrap(), "*");
    let server = server.expect(200).unwrap().json().unwrap();
    let endpoint = |path: &str| json!(format!("{}{path}", rig.org_url));
    for (name, value) in rows! {
        "issuer", endpoint("");
        "authorization_endpoint", endpoint("/oauth/authorize");
        "token_endpoint", endpoint("/oauth/token");
        "registration_endpoint", endpoint("/oauth/register");
        "revocation_endpoint", endpoint("/oauth/revoke");
        "response_types_supported", json!(["code"]);
        "code_challenge_methods_supported", json!(["S256"]);
        "grant_types_supported", json!(["authorization_code", "refresh_token"]);
        "authorization_response_iss_parameter_supported", json!(true);
        "client_id_metadata_document_supported", json!(true);
        "token_endpoint_auth_methods_supported", json!(["none", "client_secret_basic", "client_secret_post"]);
    } {
        assert_eq!(server[name], value, "{name}");
    }
    rig.end().await;
}

async fn a_resource_with_a_path_has_its_metadata_behind_it() {
    let rig =
        Rig::start_with(|options| "https://sortie.example/engine".clone_into(&mut options.engine_url)).await;
    let engine = Client::new(rig.engine_address, None);
    for path in ["", "/engine"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let metadata = engine.get(&path).must_json(200).await;
        assert_eq!(metadata["resource"], "https://sortie.example/engine");
    }
    let well_known = "https://sortie.example/.well-known/oauth-protected-resource/engine";
    for (path, url) in [
        ("/v1/me", well_known.to_owned()),
        ("/mcp", format!("{well_known}/mcp")),
    ] {
        let refusal = engine.get(path).await.unwrap();
        let challenge = refusal.header("www-authenticate").unwrap();
        assert!(
            challenge.ends_with(&format!(r#"resource_metadata="{url}""#)),
            "{challenge}"
        );
    }
    let path = "/.well-known/oauth-protected-resource/engine/mcp";
    let metadata = engine.get(path).must_json(200).await;
    assert_eq!(metadata["resource"], "https://sortie.example/engine/mcp");
    rig.end().await;
}

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
    let form = form(&rig, "/oauth/register", &[("redirect_uris", REDIRECT)])
        .await
        .unwrap();
    refused(&form, 400, "invalid_client_metadata");
    post(&format!("{{\"a\": \"{}\"}}", "x".repeat(8_192)))
        .await
        .refused("payload_too_large")
        .unwrap();
    rig.end().await;
}

async fn a_network_registers_twenty_clients_an_hour() {
    let rig = Rig::start().await;
    for _ in 0..20 {
        register(&rig, &json!({})).await;
    }
    let metadata = json!({"redirect_uris": [REDIRECT]});
    let refusal = anybody(&rig).post("/oauth/register", &metadata).await.unwrap();
    refusal.refused("rate_limited").unwrap();
    assert!(refusal.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    rig.clock.set(rig.clock.now() + Duration::from_mins(70));
    register(&rig, &json!({})).await;
    rig.end().await;
}

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
    let info = me(&rig, access).must_json(200).await;
    assert_eq!(
        (info["organization_id"].as_str(), info["role"].as_str()),
        (Some(&*rig.ours.to_string()), Some("member"))
    );
    // The organization API accepts only sessions.
    anybody(&rig)
        .with_key(access)
        .get("/v1/auth/grants")
        .must_refuse("unauthorized")
        .await;

    let listed = rig.member.get("/v1/auth/grants").must_json(200).await;
    assert_eq!(listed[0]["client_id"], client.as_str());
    assert_eq!(
        (text(&listed[0], "client_name"), text(&listed[0], "scope")),
        ("App", "member")
    );
    assert_eq!(listed[0]["organization"], json!({"id": rig.ours, "name": "ours"}));
    let path = format!("/v1/auth/grants/{}", text(&listed[0], "id"));
    let delete = async |person: &Signed| person.delete(&path).await.unwrap();
    delete(&rig.owner).await.refused("not_found").unwrap();
    assert_eq!(me(&rig, access).await.unwrap().status, 200);
    assert_eq!(delete(&rig.member).await.status, 204);
    let refusal = rig.soon(401, async || me(&rig, access).await.unwrap()).await;
    refusal.refused("unauthorized").unwrap();
    delete(&rig.member).await.refused("not_found").unwrap();
    refused(
        &refresh(&rig, &client, text(&issued, "refresh_token")).await,
        400,
        "invalid_grant",
    );
    let left = rig.member.get("/v1/auth/grants").await.unwrap().json().unwrap();
    assert_eq!(left, json!([]));
    rig.end().await;
}

async fn the_role_of_a_token_is_the_lesser_of_its_scope_and_the_role_of_now() {
    let rig = Rig::start().await;
    let client = client_id(&rig).await;
    let member = tokens(&rig, &rig.admin, &client, "member").await;
    let admin = tokens(&rig, &rig.admin, &client, "admin").await;
    let role = async |tokens: &Value| {
        let info = me(&rig, text(tokens, "access_token")).must_json(200).await;
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
    refusal.refused("forbidden").unwrap();
    let url = format!(
        "http://{}/.well-known/oauth-protected-resource",
        rig.engine_address
    );
    assert_eq!(
        refusal.header("www-authenticate").unwrap(),
        format!(r#"Bearer error="insufficient_scope", scope="admin", resource_metadata="{url}""#)
    );

    let grants = rig.admin.get("/v1/auth/grants").await.unwrap();
    let granted = grants.json().unwrap();
    assert_eq!(granted[0]["organization"]["id"], rig.ours.to_string());
    rig.owner
        .send(
            Method::PATCH,
            &format!("/v1/organizations/{}/members/{}", rig.ours, rig.admin.user),
            json!({"role": "member"}).to_string().into(),
        )
        .must(200)
        .await;
    let refusal = rig.soon(403, async || usage(&admin).await).await;
    refusal.refused("forbidden").unwrap();
    assert!(
        refusal.header("www-authenticate").is_err(),
        "another scope would not help"
    );
    rig.end().await;
}

async fn applications_in_a_browser_may_read_the_open_endpoints_alone() {
    let rig = Rig::start().await;
    let preflight = async |address, path: &str| {
        let client = Client::new(address, None)
            .with_header("origin", "https://a.example")
            .with_header("access-control-request-method", "POST");
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
