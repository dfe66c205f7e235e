//! The OAuth flow, from discovery to a refreshed token, with third-party authorization servers.

use std::{path::Path, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sortie_api::Credential;
use sortie_connect::{
    Auth, Connection, Failure, Target, TokenError, Tokens,
    oauth::{Callback, Challenge, Client, Endpoints, Grant, Home, Pending, Settings, Started},
};
use sortie_net::{Network, Reach};
use tokio::{net::TcpListener, task::JoinSet};
use url::Url;

use crate::{
    rig::{Peer, Run, browse, connector, installed, mcp, server},
    tools::python,
};

fn home() -> Home {
    Home {
        redirect_uri: "http://127.0.0.1:9/v1/oauth/callback".parse().unwrap(),
        client_document: None,
    }
}

fn client() -> Client {
    Client::new(&Network::new(Reach::Private, Vec::new()).into()).unwrap()
}

/// Runs the whole flow, and serializes the pending state in between.
async fn authorize(target: &Target, settings: &Settings) -> Grant {
    let Started {
        authorization_url,
        pending,
    } = client().start(target, settings, &home()).await.unwrap();
    let redirect_uri = redirect_uri(&authorization_url);
    let query = browse(&authorization_url, &redirect_uri).await;
    let stored = serde_json::to_string(&pending).unwrap();
    let pending: Pending = serde_json::from_str(&stored).unwrap();
    let tag = redirect_uri.path().strip_prefix("/v1/oauth/callback/");
    let callback = Callback { tag, query: &query };
    client().finish(pending, callback).await.unwrap()
}

fn redirect_uri(authorization_url: &Url) -> Url {
    let mut pairs = authorization_url.query_pairs();
    let (_, uri) = pairs.find(|(name, _)| name == "redirect_uri").unwrap();
    uri.parse().unwrap()
}

/// Stores one grant and refreshes it.
struct Kept(Mutex<Grant>);

impl Tokens for Kept {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(async move {
            let grant = self.0.lock().clone();
            if refused.is_none_or(|refused| refused.expose() != grant.access_token.expose()) {
                return Ok(grant.access_token);
            }
            let renewed = client()
                .refresh(&grant)
                .await
                .map_err(|error| TokenError::NeedsAuthorization(error.to_string()))?;
            *self.0.lock() = renewed.clone();
            Ok(renewed.access_token)
        })
    }

    fn challenged<'a>(&'a self, _: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()> {
        panic!("{challenge:?} of a server that takes every token")
    }
}

#[tokio::test]
async fn fastmcp_is_discovered_registered_with_authorized_called_and_renewed() {
    let peer = python("fastmcp_oauth.py");
    let url = peer.url("/mcp");
    let error = connector(None)
        .open(&[mcp(url.clone(), Auth::None)], &Arc::default())
        .await
        .err()
        .unwrap();
    assert!(matches!(error.failure, Failure::NeedsAuthorization(_)), "{error}");
    let target = Target::Mcp {
        url: url.clone(),
        allowed_tools: None,
    };
    let grant = authorize(&target, &Settings::default()).await;
    assert!(
        grant.is_refreshable() && grant.expires_in_seconds == Some(3600),
        "{grant:?}"
    );
    assert_eq!(grant.scope.as_deref(), Some("read"));
    let tokens = Arc::new(Kept(Mutex::new(grant)));
    let run = Run::open(mcp(url, Auth::OAuth(Arc::clone(&tokens) as Arc<dyn Tokens>))).await;
    assert_eq!(
        run.names(),
        ["peer__who", "peer__forget", "peer__fail", "peer__big"]
    );
    let who: Value = serde_json::from_str(&run.call("peer__who", &json!({})).await.unwrap()).unwrap();
    assert_eq!(who, json!({"token": "[redacted]", "scopes": ["read"]}));
    let failed = run.call("peer__fail", &json!({})).await.unwrap_err();
    assert!(failed.contains("it went wrong"), "{failed}");
    let before = tokens.0.lock().access_token.expose().to_owned();
    assert_eq!(
        run.call("peer__forget", &json!({})).await.as_deref(),
        Ok("forgotten")
    );
    let who: Value = serde_json::from_str(&run.call("peer__who", &json!({})).await.unwrap()).unwrap();
    assert_eq!(who["token"], "[redacted]", "the renewed token is hidden, too");
    assert_ne!(tokens.0.lock().access_token.expose(), before);
    let cut = run.call("peer__big", &json!({"kib": 100})).await.unwrap();
    assert!(cut.len() < 33 * 1024, "{}", cut.len());
}

/// An API with protected-resource metadata that name the provider. It accepts the given token.
struct Api {
    url: Url,
    takes: Arc<Mutex<Option<String>>>,
    issuer: Arc<Mutex<String>>,
    _task: JoinSet<()>,
}

impl Api {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}/api", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let takes: Arc<Mutex<Option<String>>> = Arc::default();
        let issuer: Arc<Mutex<String>> = Arc::default();
        let (accepted, named, own) = (Arc::clone(&takes), Arc::clone(&issuer), url.clone());
        let answer = move |request: Request| {
            let response = answer(&request, &own, &accepted, &named);
            async move { response }
        };
        let mut task = JoinSet::new();
        let router = Router::new().fallback(any(answer));
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            takes,
            issuer,
            _task: task,
        }
    }
}

fn answer(request: &Request, own: &Url, takes: &Mutex<Option<String>>, issuer: &Mutex<String>) -> Response {
    if request.uri().path() == "/.well-known/oauth-protected-resource/api" {
        let metadata = json!({
            "resource": own.as_str(),
            "authorization_servers": [issuer.lock().clone()],
            "scopes_supported": ["read"]
        });
        return ([(header::CONTENT_TYPE, "application/json")], metadata.to_string()).into_response();
    }
    let sent = request
        .headers()
        .get(header::AUTHORIZATION)
        .map(|value| value.to_str().unwrap().to_owned());
    let wanted = takes.lock().clone().map(|token| format!("Bearer {token}"));
    if sent.is_some() && sent == wanted {
        return "welcome".into_response();
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response()
}

/// The claims of a JWT.
fn claims(token: &Credential) -> Value {
    let payload = token.expose().split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

fn provider(resource: &Url) -> Peer {
    installed("npm/node_modules/oidc-provider/package.json");
    let script = server("oidc.mjs");
    Peer::start(
        Path::new("node"),
        &[script.to_str().unwrap(), "PORT", resource.as_str()],
        "listening",
    )
}

#[tokio::test]
async fn an_openid_provider_is_discovered_registered_with_authorized_and_renewed() {
    let api = Api::start().await;
    let provider = provider(&api.url);
    *api.issuer.lock() = provider.url("").as_str().trim_end_matches('/').to_owned();
    let target = Target::Http {
        url: api.url.clone(),
        allowed_methods: None,
    };
    let grant = authorize(&target, &Settings::default()).await;
    let granted = claims(&grant.access_token);
    assert_eq!(
        (granted["aud"].as_str(), granted["scope"].as_str()),
        (Some(api.url.as_str()), Some("read"))
    );
    assert!(grant.is_refreshable(), "offline_access was asked for");
    let renewed = client().refresh(&grant).await.unwrap();
    assert_ne!(renewed.access_token.expose(), grant.access_token.expose());
    assert_eq!(
        claims(&renewed.access_token)["aud"].as_str(),
        Some(api.url.as_str())
    );
    let reused = client().refresh(&grant).await.unwrap_err();
    assert!(reused.to_string().contains("invalid_grant"), "{reused}");
    // After a refusal of the first token, the connection continues with a refreshed one.
    let grant = authorize(&target, &Settings::default()).await;
    let kept = Arc::new(Kept(Mutex::new(grant)));
    *api.takes.lock() = Some("another".to_owned());
    let connection = Connection {
        name: "peer".to_owned(),
        target,
        auth: Auth::OAuth(Arc::clone(&kept) as Arc<dyn Tokens>),
        headers: Vec::new(),
        description: None,
    };
    let run = Run::open(connection).await;
    let told = run
        .call("peer__request", &json!({"method": "GET"}))
        .await
        .unwrap_err();
    assert!(told.starts_with("HTTP 401"), "{told}");
    let current = kept.0.lock().access_token.expose().to_owned();
    *api.takes.lock() = Some(current);
    let told = run
        .call("peer__request", &json!({"method": "GET"}))
        .await
        .unwrap();
    assert!(told.ends_with("welcome"), "{told}");
}

#[tokio::test]
async fn a_confidential_client_with_given_endpoints_is_authorized() {
    let resource = "http://127.0.0.1:9/api".parse().unwrap();
    let provider = provider(&resource);
    let settings = Settings {
        client_id: Some("confidential".to_owned()),
        client_secret: Some(Credential::new("oidc-client-secret:with/odd+signs")),
        endpoints: Some(Endpoints {
            authorization_url: provider.url("/auth"),
            token_url: provider.url("/token"),
        }),
        scopes: vec!["openid".to_owned(), "offline_access".to_owned()],
        ..Settings::default()
    };
    let target = Target::Http {
        url: resource,
        allowed_methods: None,
    };
    let grant = authorize(&target, &settings).await;
    assert!(grant.is_refreshable());
    assert!(grant.account.is_some(), "the id_token names the account");
    client().refresh(&grant).await.unwrap();
    let wrong = Settings {
        client_secret: Some(Credential::new("wrong-secret")),
        ..settings
    };
    let started = client().start(&target, &wrong, &home()).await.unwrap();
    let query = browse(&started.authorization_url, &home().redirect_uri).await;
    let callback = Callback {
        tag: None,
        query: &query,
    };
    let error = client().finish(started.pending, callback).await.unwrap_err();
    assert!(
        error.to_string().contains("invalid_client") && !error.to_string().contains("wrong-secret"),
        "{error}"
    );
}
