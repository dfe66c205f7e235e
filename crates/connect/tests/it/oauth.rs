//! The OAuth flow with a correct authorization server, and with a single fault at a time.

mod issuers;
mod scopes;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::any,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sortie_connect::{
    Target,
    oauth::{Callback, Client, Error, Grant, Home, Settings, Started, is_tag},
};
use sortie_net::{Network, Reach};
use sortie_testkit::rows;
use tokio::net::TcpListener;
use url::Url;

use crate::rig::Serving;

/// A resource and its authorization server at one address. Tests can change its documents.
struct World {
    base: String,
    documents: Arc<Documents>,
    _serving: Serving,
}

#[derive(Default)]
struct Documents {
    /// Responses by path: status and JSON.
    at: Mutex<std::collections::BTreeMap<String, (u16, Value)>>,
    challenge: Mutex<String>,
    /// Requests to the token and registration endpoints.
    asked: Mutex<Vec<(String, HeaderMap, String)>>,
}

async fn answer(
    State(documents): State<Arc<Documents>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    let body = String::from_utf8(body.to_vec()).unwrap();
    documents.asked.lock().push((path.clone(), headers, body));
    let found = documents.at.lock().get(&path).cloned();
    match found {
        Some((status, Value::String(text))) => (StatusCode::from_u16(status).unwrap(), text).into_response(),
        Some((status, value)) => (StatusCode::from_u16(status).unwrap(), value.to_string()).into_response(),
        None if path == "/mcp" => {
            let challenge = documents.challenge.lock().clone();
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl World {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let documents = Arc::new(Documents::default());
        let router = Router::new()
            .fallback(any(answer))
            .with_state(Arc::clone(&documents));
        let world = Self {
            base,
            documents,
            _serving: Serving::on(listener, router),
        };
        let base = &world.base;
        *world.documents.challenge.lock() = format!(
            "Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\", scope=\"tools\""
        );
        world.set(
            "/.well-known/oauth-protected-resource/mcp",
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}),
        );
        world.set("/.well-known/oauth-authorization-server", world.metadata());
        world.set("/register", json!({"client_id": "registered"}));
        world.set(
            "/token",
            json!({"access_token": "at-1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "rt-1"}),
        );
        world
    }

    fn metadata(&self) -> Value {
        let base = &self.base;
        json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize?tenant=1"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": true
        })
    }

    fn set(&self, path: &str, document: Value) {
        self.answer(path, 200, document);
    }

    fn answer(&self, path: &str, status: u16, document: Value) {
        self.documents
            .at
            .lock()
            .insert(path.to_owned(), (status, document));
    }

    fn remove(&self, path: &str) {
        self.documents.at.lock().remove(path).unwrap();
    }

    /// Returns the form or JSON of the last request to a path.
    fn sent(&self, path: &str) -> (HeaderMap, String) {
        let asked = self.documents.asked.lock();
        let (_, headers, body) = asked.iter().rfind(|(at, _, _)| at == path).unwrap();
        (headers.clone(), body.clone())
    }

    fn target(&self) -> Target {
        Target::Mcp {
            url: format!("{}/mcp", self.base).parse().unwrap(),
            allowed_tools: None,
        }
    }

    async fn start(&self) -> Result<Started, Error> {
        client()
            .start(&self.target(), &Settings::default(), &home())
            .await
    }

    /// Runs a flow to its end, with the person's consent.
    async fn grant(&self) -> Grant {
        let started = self.start().await.unwrap();
        let query = self.agreed(&started);
        finish(&started, &query).await.unwrap()
    }

    fn agreed(&self, started: &Started) -> String {
        let state = parameter(&started.authorization_url, "state").unwrap();
        format!("code=code-1&state={state}&iss={}", self.base)
    }
}

fn client() -> Client {
    Client::new(&Network::new(Reach::Private, Vec::new()).into()).unwrap()
}

fn home() -> Home {
    Home {
        redirect_uri: "https://sortie.example/v1/oauth/callback".parse().unwrap(),
        client_document: Some("https://sortie.example/clients".parse().unwrap()),
    }
}

const CALLBACK: &str = "https://sortie.example/v1/oauth/callback";

/// Returns the tag of the redirect URI of a flow.
fn tag(started: &Started) -> Option<String> {
    let redirect_uri = parameter(&started.authorization_url, "redirect_uri").unwrap();
    let tag = redirect_uri.strip_prefix(CALLBACK).unwrap().strip_prefix('/');
    tag.map(str::to_owned)
}

/// Completes a flow with a query at its redirect URI.
async fn finish(started: &Started, query: &str) -> Result<Grant, Error> {
    let tag = tag(started);
    let callback = Callback {
        tag: tag.as_deref(),
        query,
    };
    client().finish(started.pending.clone(), callback).await
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    pairs
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.into_owned())
}

fn form(body: &str, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(body.as_bytes());
    pairs
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.into_owned())
}

#[tokio::test]
async fn the_flow_proves_itself_and_names_the_resource() {
    let world = World::new().await;
    let started = world.start().await.unwrap();
    let url = &started.authorization_url;
    assert_eq!(url.path(), "/authorize");
    let resource = format!("{}/mcp", world.base);
    let own = tag(&started).unwrap();
    assert!(is_tag(&own), "{own}");
    for (name, value) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "registered"),
        ("redirect_uri", &format!("{CALLBACK}/{own}")),
        ("code_challenge_method", "S256"),
        ("scope", "tools"),
        ("resource", &resource),
    ] {
        assert_eq!(parameter(url, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(
        parameter(url, "state").as_deref(),
        Some(started.pending.state.expose())
    );
    assert!(!format!("{:?}", started.pending).contains(started.pending.state.expose()));
    let query = world.agreed(&started);
    let grant = finish(&started, &query).await.unwrap();
    assert_eq!(grant.access_token.expose(), "at-1");
    assert_eq!(
        (grant.expires_in_seconds, grant.scope.as_deref()),
        (Some(3600), Some("tools"))
    );
    assert_eq!(grant.issuer.as_deref(), Some(world.base.as_str()));
    let (_, sent) = world.sent("/token");
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "code-1"),
        ("client_id", "registered"),
        ("redirect_uri", &format!("{CALLBACK}/{own}")),
        ("resource", &resource),
    ] {
        assert_eq!(form(&sent, name).as_deref(), Some(value), "{name}");
    }
    let verifier = form(&sent, "code_verifier").unwrap();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    assert_eq!(
        parameter(&started.authorization_url, "code_challenge"),
        Some(challenge)
    );
    assert!((43..=128).contains(&verifier.len()));
    let again = world.start().await.unwrap();
    assert_ne!(again.pending.state.expose(), started.pending.state.expose());
}

#[tokio::test]
async fn a_grant_survives_being_stored_and_is_renewed() {
    let world = World::new().await;
    let grant = world.grant().await;
    let stored = serde_json::to_string(&grant).unwrap();
    let grant: Grant = serde_json::from_str(&stored).unwrap();
    world.set(
        "/token",
        json!({"access_token": "at-2", "token_type": "bearer", "expires_in": "60"}),
    );
    let renewed = client().refresh(&grant).await.unwrap();
    assert_eq!(
        (renewed.access_token.expose(), renewed.expires_in_seconds),
        ("at-2", Some(60))
    );
    let (_, sent) = world.sent("/token");
    assert_eq!(form(&sent, "refresh_token").as_deref(), Some("rt-1"));
    assert_eq!(form(&sent, "resource"), Some(format!("{}/mcp", world.base)));
    // Without a new refresh token, the old one stays valid.
    world.set("/token", json!({"access_token": "at-3", "refresh_token": "rt-3"}));
    let renewed = client().refresh(&renewed).await.unwrap();
    world.answer(
        "/token",
        400,
        json!({"error": "invalid_grant", "error_description": "reused\nrt-3"}),
    );
    let error = client().refresh(&renewed).await.unwrap_err();
    assert_eq!(
        error,
        Error::NeedsAuthorization(format!(
            "{}/token says invalid_grant: reused [redacted]",
            world.base
        ))
    );
    world.answer("/token", 503, json!("down"));
    assert!(matches!(
        client().refresh(&renewed).await,
        Err(Error::Unavailable(_))
    ));
}

#[tokio::test]
async fn a_callback_that_is_not_ours_is_refused_and_nothing_is_sent() {
    let world = World::new().await;
    let started = world.start().await.unwrap();
    let state = started.pending.state.expose().to_owned();
    let base = &world.base;
    for query in [
        String::new(),
        format!("code=c&iss={base}"),
        format!("code=c&state=other&iss={base}"),
        format!("code=c&state={state}"),
        format!("code=c&state={state}&iss=https://evil.com"),
        format!("code=c&state={state}&iss={base}/"),
        format!("state={state}&iss={base}"),
        format!("code=&state={state}&iss={base}"),
        format!("code=c&code=d&state={state}&iss={base}"),
        format!("code=c&state={state}&state=x&iss={base}"),
        format!("error=access_denied&state={state}&iss=https://evil.com"),
    ] {
        let error = finish(&started, &query).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{query}: {error:?}");
    }
    let denied = format!("error=access_denied&error_description=no%0Athanks&state={state}&iss={base}");
    let error = finish(&started, &denied).await.unwrap_err();
    assert_eq!(
        error,
        Error::NeedsAuthorization("the authorization server says access_denied no thanks".to_owned())
    );
    let asked = world.documents.asked.lock();
    assert!(!asked.is_empty() && asked.iter().all(|(path, _, _)| path != "/token"));
}

async fn is_refused(world: &World, why: &str) {
    let refused = world.start().await;
    let error = refused.err().unwrap_or_else(|| panic!("{why} is let through"));
    assert!(error.to_string().contains(why), "{why}: {error}");
}

#[tokio::test]
async fn metadata_without_what_the_protocol_demands_are_refused() {
    for (field, value, why) in rows! {
        "code_challenge_methods_supported", None, "PKCE";
        "code_challenge_methods_supported", Some(json!(["plain"])), "PKCE";
        "issuer", Some(json!("https://evil.com")), "a different issuer than requested";
        "issuer", None, "a different issuer than requested";
        "token_endpoint", None, "names no token_endpoint";
        "authorization_endpoint", Some(json!("javascript:alert(1)")), "must be an https URL";
        "token_endpoint", Some(json!("http://a:b@127.0.0.1/")), "no user name";
        "registration_endpoint", None, "auth.client_id: required";
    } {
        let world = World::new().await;
        let mut metadata = world.metadata();
        match value {
            Some(value) => metadata[field] = value,
            None => _ = metadata.as_object_mut().unwrap().remove(field),
        }
        world.set("/.well-known/oauth-authorization-server", metadata);
        is_refused(&world, why).await;
    }
}

#[tokio::test]
async fn documents_that_are_huge_malformed_or_of_somebody_else_are_refused() {
    let elsewhere =
        json!({"resource": "https://evil.com/mcp", "authorization_servers": ["https://evil.com"]});
    for (path, status, document, why) in rows! {
        "/register", 400, json!({"error": "invalid_client_metadata"}), "invalid_client_metadata";
        "/register", 200, json!("no json"), "without a JSON object";
        "/.well-known/oauth-authorization-server", 200, json!("x".repeat(100_000)), "larger than";
        "/.well-known/oauth-authorization-server", 200, json!("no json"), "no metadata";
        "/.well-known/oauth-protected-resource/mcp", 200, elsewhere, "another resource";
    } {
        let world = World::new().await;
        world.answer(path, status, document);
        is_refused(&world, why).await;
    }
}

#[tokio::test]
async fn a_challenge_that_leads_to_a_file_or_a_metadata_service_is_refused() {
    for (url, why) in rows! {
        "file:///etc/passwd", "must be an https URL";
        "http://169.254.169.254/latest", "169.254.169.254 is not a public address";
        "no url", "names no URL";
    } {
        let world = World::new().await;
        *world.documents.challenge.lock() = format!("Bearer resource_metadata=\"{url}\"");
        is_refused(&world, why).await;
    }
}

#[tokio::test]
async fn what_real_servers_do_differently_is_tolerated() {
    // The resource's metadata are only at the well-known URL with the path, and the challenge does not mention them.
    let world = World::new().await;
    *world.documents.challenge.lock() = "Bearer".to_owned();
    world.grant().await;
    // Only at the root.
    world.remove("/.well-known/oauth-protected-resource/mcp");
    world.set(
        "/.well-known/oauth-protected-resource",
        json!({"resource": world.base, "authorization_servers": [format!("{}/", world.base)], "scopes_supported": ["a", "b"]}),
    );
    let started = world.start().await.unwrap();
    assert_eq!(
        parameter(&started.authorization_url, "scope").as_deref(),
        Some("a b")
    );
    assert_eq!(
        parameter(&started.authorization_url, "resource").as_deref(),
        Some(world.base.as_str())
    );
    // Missing: the origin is the authorization server, as before RFC 9728.
    world.remove("/.well-known/oauth-protected-resource");
    world.grant().await;
    // An issuer with a path, and an OpenID metadata URL with the path in front.
    let issuer = format!("{}/tenant", world.base);
    world.set(
        "/.well-known/oauth-protected-resource/mcp",
        json!({"resource": format!("{}/mcp", world.base), "authorization_servers": [issuer]}),
    );
    let mut metadata = world.metadata();
    metadata["issuer"] = json!(issuer);
    metadata["scopes_supported"] = json!(["openid", "offline_access"]);
    metadata["authorization_response_iss_parameter_supported"] = json!(false);
    world.set("/tenant/.well-known/openid-configuration", metadata);
    *world.documents.challenge.lock() = "Bearer scope=\"tools\"".to_owned();
    let started = world.start().await.unwrap();
    assert_eq!(
        parameter(&started.authorization_url, "scope").as_deref(),
        Some("tools offline_access")
    );
    assert_eq!(
        parameter(&started.authorization_url, "prompt").as_deref(),
        Some("consent")
    );
    let state = started.pending.state.expose().to_owned();
    finish(&started, &format!("state={state}&code=c")).await.unwrap();
}

#[tokio::test]
async fn a_client_is_known_by_its_document_where_the_server_reads_such() {
    let world = World::new().await;
    let mut metadata = world.metadata();
    metadata["client_id_metadata_document_supported"] = json!(true);
    world.set("/.well-known/oauth-authorization-server", metadata);
    world.remove("/register");
    let started = world.start().await.unwrap();
    let own = tag(&started).unwrap();
    assert_eq!(
        parameter(&started.authorization_url, "client_id"),
        Some(format!("https://sortie.example/clients/{own}"))
    );
    // A configured client has priority.
    let settings = Settings {
        client_id: Some("given".to_owned()),
        scopes: vec!["x".to_owned(), "y".to_owned()],
        ..Settings::default()
    };
    let started = client().start(&world.target(), &settings, &home()).await.unwrap();
    assert_eq!(
        parameter(&started.authorization_url, "client_id").as_deref(),
        Some("given")
    );
    assert_eq!(
        parameter(&started.authorization_url, "scope").as_deref(),
        Some("x y")
    );
}

#[tokio::test]
async fn a_registration_that_brings_a_secret_is_used_with_it() {
    let world = World::new().await;
    world.set(
        "/register",
        json!({"client_id": "r:1", "client_secret": "s e", "token_endpoint_auth_method": "client_secret_basic"}),
    );
    world.grant().await;
    let (headers, sent) = world.sent("/token");
    // `r%3A1:s+e`, as RFC 6749 requires.
    assert_eq!(headers[header::AUTHORIZATION], "Basic ciUzQTE6cytl");
    assert_eq!(
        (form(&sent, "client_id"), form(&sent, "client_secret")),
        (None, None)
    );
    world.set(
        "/register",
        json!({"client_id": "r", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}),
    );
    world.grant().await;
    let (headers, sent) = world.sent("/token");
    assert!(!headers.contains_key(header::AUTHORIZATION));
    assert_eq!(form(&sent, "client_secret").as_deref(), Some("s"));
}

#[tokio::test]
async fn a_token_answer_that_is_none_is_refused() {
    for (status, document, why) in rows! {
        200, json!({}), "returned no access token";
        200, json!({"access_token": ""}), "returned no access token";
        200, json!({"access_token": "a", "token_type": "mac"}), "not a bearer token";
        200, json!({"error": "bad_verification_code"}), "says bad_verification_code";
        200, json!("access_token=a&token_type=bearer"), "without a JSON object";
        302, json!({}), "answers HTTP 302";
        401, json!({"error": "invalid_client"}), "says invalid_client";
    } {
        let world = World::new().await;
        world.answer("/token", status, document);
        let started = world.start().await.unwrap();
        let query = world.agreed(&started);
        let error = finish(&started, &query).await.unwrap_err();
        assert!(
            matches!(&error, Error::Refused(_)) && error.to_string().contains(why),
            "{why}: {error:?}"
        );
    }
}
