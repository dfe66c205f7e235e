//! A service that runs call through connections: an API that sends back all it was sent, in many forms, a small MCP
//! server that does the same, and an authorization server with single-use refresh tokens.
//!
//! `/echo…` answers every caller, `/guarded…` only callers with the newest access token, `/guarded/never` no caller,
//! `/guarded/scoped` only callers with the scope `write`. `/mcp` speaks MCP. `/authorize` agrees at once and redirects
//! the browser back; `/token` checks PKCE. `/guarded` can be discovered as a protected resource, and `/register`
//! accepts any client.

use std::{collections::HashMap, fmt::Write as _, io, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, WWW_AUTHENTICATE},
};
use parking_lot::{Mutex, MutexGuard};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::form_urlencoded;

use crate::serve::Serving;

/// A request that reached the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Method of the request.
    pub method: String,
    /// Path of the request.
    pub path: String,
    /// Query of the request, as in the URL.
    pub query: String,
    /// Headers of the request. Of two headers with one name, the last one.
    pub headers: HashMap<String, String>,
}

/// A running service.
#[derive(Debug)]
pub struct Service {
    server: Serving,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    received: Vec<Received>,
    /// Code challenges by code.
    codes: HashMap<String, String>,
    /// The newest tokens, by number; 0 if none were issued.
    newest: u32,
    /// Scopes of the last authorization.
    scope: String,
    /// Refresh tokens that were refused.
    refused: u32,
    revoked: bool,
    lifetime_seconds: Option<u64>,
    /// Whether tokens are issued without a refresh token.
    is_final: bool,
    /// Issuer that the protected resource names; itself by default.
    authorization_server: Option<String>,
    /// Issuer that callbacks name.
    named: Option<String>,
    /// Account in the `id_token` of grants.
    account: Option<String>,
    /// Forms that the token endpoint received, each after its `Authorization` header.
    token_requests: Vec<String>,
}

type Known = State<Arc<Mutex<Shared>>>;

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock()
}

fn access(number: u32) -> String {
    format!("access-token-{number}-3f9c/+")
}

fn refresh(number: u32) -> String {
    format!("refresh-token-{number}-a81b/+")
}

impl Service {
    /// Starts it on a free port.
    pub async fn start() -> io::Result<Self> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let router = Router::new()
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/register", post(register))
            .route("/.well-known/oauth-protected-resource/guarded", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/mcp", any(mcp))
            .fallback(any(api))
            .with_state(Arc::clone(&shared));
        Ok(Self {
            server: Serving::start(router).await?,
            shared,
        })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.server.base_url()
    }

    /// Returns the requests that reached the API so far, in order.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared).received.clone()
    }

    /// Returns the number of times that tokens were issued.
    pub fn grants(&self) -> u32 {
        lock(&self.shared).newest
    }

    /// Returns the number of refused refresh tokens: unknown, used before, or revoked.
    pub fn refused(&self) -> u32 {
        lock(&self.shared).refused
    }

    /// Tokens issued from now on expire after this many seconds.
    pub fn give_tokens_for(&self, seconds: u64) {
        lock(&self.shared).lifetime_seconds = Some(seconds);
    }

    /// Tokens issued from now on have no refresh token.
    pub fn give_no_refresh_tokens(&self) {
        lock(&self.shared).is_final = true;
    }

    /// From now on all tokens are invalid and none is issued.
    pub fn revoke(&self) {
        lock(&self.shared).revoked = true;
    }

    /// From now on the protected resource names this authorization server.
    pub fn name_authorization_server(&self, issuer: &str) {
        lock(&self.shared).authorization_server = Some(issuer.to_owned());
    }

    /// From now on callbacks name this issuer.
    pub fn call_back_as(&self, issuer: &str) {
        lock(&self.shared).named = Some(issuer.to_owned());
    }

    /// Tokens issued from now on name this account.
    pub fn give_tokens_of(&self, account: &str) {
        lock(&self.shared).account = Some(account.to_owned());
    }

    /// Requests to the token endpoint so far: the `Authorization` header, a space, and the form.
    pub fn token_requests(&self) -> Vec<String> {
        lock(&self.shared).token_requests.clone()
    }

    /// Every token that was given so far.
    pub fn tokens(&self) -> Vec<String> {
        (1..=self.grants())
            .flat_map(|number| [access(number), refresh(number)])
            .collect()
    }
}

fn fields(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// Set of the characters that every escape of a URL covers: all but the unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn percent(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        let _written = write!(all, "{byte:02x}");
        all
    })
}

/// A text in every form in which a service might send it back: unchanged, percent-encoded, in base64 at each of the
/// three offsets, and in hexadecimal.
pub fn forms(text: &str) -> Vec<String> {
    let mut forms = vec![text.to_owned(), percent(text), hex(text)];
    for before in 0..3_usize {
        let encoded = STANDARD.encode(format!("{}{text}", "#".repeat(before)));
        // Keep only the characters that depend on this text, and drop those that it shares with its neighbours.
        let from = (before * 8).div_ceil(6);
        let to = (before + text.len()) * 8 / 6;
        forms.extend(encoded.get(from..to).map(str::to_owned));
    }
    forms
}

fn to_forms(value: &str) -> Value {
    let secret = value.split_once(' ').map_or(value, |(_, rest)| rest);
    json!({
        "plain": value,
        "percent": percent(value),
        "hex": hex(secret),
        "base64": [STANDARD.encode(value), STANDARD.encode(format!("#{secret}")), URL_SAFE_NO_PAD.encode(secret)],
    })
}

/// Everything that was sent, in many forms.
fn echoed(received: &Received) -> Value {
    let headers = received
        .headers
        .iter()
        .filter(|(name, _)| *name != "host" && *name != "content-length");
    json!({
        "method": received.method,
        "path": received.path,
        "query": received.query,
        "decoded": fields(&received.query),
        "headers": headers.map(|(name, value)| (name.clone(), to_forms(value))).collect::<serde_json::Map<_, _>>(),
    })
}

async fn api(State(shared): Known, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let received = Received {
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect(),
    };
    let mut state = lock(&shared);
    let newest = format!("Bearer {}", access(state.newest));
    let is_guarded = received.path.starts_with("/guarded");
    let is_good = state.newest > 0
        && !state.revoked
        && received.path != "/guarded/never"
        && received.headers.get("authorization") == Some(&newest);
    let lacks_scope =
        received.path == "/guarded/scoped" && !state.scope.split(' ').any(|scope| scope == "write");
    state.received.push(received.clone());
    drop(state);
    if is_guarded && !is_good {
        return (StatusCode::UNAUTHORIZED, "no").into_response();
    }
    if lacks_scope {
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
        return (StatusCode::FORBIDDEN, [(WWW_AUTHENTICATE, challenge)], "no").into_response();
    }
    let status = fields(&received.query)
        .get("status")
        .and_then(|status| status.parse().ok())
        .and_then(|status| StatusCode::from_u16(status).ok())
        .unwrap_or(StatusCode::OK);
    let mut response = (status, echoed(&received).to_string()).into_response();
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(authorization) = headers.get(AUTHORIZATION) {
        answer.insert("x-you-are", authorization.clone());
        answer.insert("location", authorization.clone());
    }
    response
}

/// Just enough of MCP (2025-06-18): one tool, which sends back the headers of its call.
async fn mcp(State(shared): Known, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(id) = call.get("id").filter(|id| !id.is_null()) else {
        return StatusCode::ACCEPTED.into_response();
    };
    let received = Received {
        method: call
            .get("method")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        path: "/mcp".to_owned(),
        query: String::new(),
        headers: headers
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect(),
    };
    let result = match received.method.as_str() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "service", "version": "1"},
        }),
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "description": "Sends back.", "inputSchema": {"type": "object"}});
            json!({"tools": [tool("echo"), tool("other")]})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": echoed(&received).to_string()}]}),
        _ => {
            let error =
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}});
            return json_answer(StatusCode::OK, &error);
        }
    };
    lock(&shared).received.push(received);
    json_answer(
        StatusCode::OK,
        &json!({"jsonrpc": "2.0", "id": id, "result": result}),
    )
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn authorize(State(shared): Known, uri: Uri) -> Response {
    let asked = fields(uri.query().unwrap_or_default());
    let text = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let mut state = lock(&shared);
    let code = format!("code-{}", state.codes.len() + 1);
    state.codes.insert(code.clone(), text("code_challenge"));
    state.scope = text("scope");
    let iss = state
        .named
        .as_deref()
        .map(|named| format!("&iss={}", percent(named)));
    drop(state);
    let back = format!(
        "{}?code={code}&state={}{}",
        text("redirect_uri"),
        percent(&text("state")),
        iss.unwrap_or_default()
    );
    match HeaderValue::from_str(&back) {
        Ok(back) => (StatusCode::SEE_OTHER, [(LOCATION, back)]).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// The address that a request was sent to.
fn base(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    format!("http://{}", host.unwrap_or_default())
}

async fn resource(State(shared): Known, headers: HeaderMap) -> Response {
    let base = base(&headers);
    let issuer = lock(&shared).authorization_server.clone();
    let issuer = issuer.unwrap_or_else(|| base.clone());
    json_answer(
        StatusCode::OK,
        &json!({"resource": format!("{base}/guarded"), "authorization_servers": [issuer]}),
    )
}

async fn metadata(headers: HeaderMap) -> Response {
    let base = base(&headers);
    json_answer(
        StatusCode::OK,
        &json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
        }),
    )
}

async fn register() -> Response {
    json_answer(StatusCode::CREATED, &json!({"client_id": "registered"}))
}

async fn token(State(shared): Known, headers: HeaderMap, body: Bytes) -> Response {
    let form = fields(&String::from_utf8_lossy(&body));
    let text = |name: &str| form.get(name).cloned().unwrap_or_default();
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let mut state = lock(&shared);
    state.token_requests.push(format!(
        "{} {}",
        authorization.unwrap_or_default(),
        String::from_utf8_lossy(&body)
    ));
    let is_good = match text("grant_type").as_str() {
        "authorization_code" => {
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(text("code_verifier")));
            state.codes.remove(&text("code")) == Some(challenge)
        }
        "refresh_token" => {
            let is_newest = state.newest > 0 && text("refresh_token") == refresh(state.newest);
            // The refresh token was copied: a careful server revokes all of them.
            state.revoked |= !is_newest;
            state.refused += u32::from(!is_newest || state.revoked);
            is_newest
        }
        _ => false,
    };
    if !is_good || state.revoked {
        return json_answer(
            StatusCode::BAD_REQUEST,
            &json!({"error": "invalid_grant", "error_description": "no longer"}),
        );
    }
    state.newest += 1;
    let answer = json!({
        "access_token": access(state.newest), "token_type": "Bearer",
        // Null if the test wants none; clients treat it as absent.
        "refresh_token": (!state.is_final).then(|| refresh(state.newest)),
        "expires_in": state.lifetime_seconds,
        "id_token": state.account.as_ref().map(|account| {
            let claims = URL_SAFE_NO_PAD.encode(json!({"email": account}).to_string());
            format!("e30.{claims}.x")
        }),
    });
    drop(state);
    json_answer(StatusCode::OK, &answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_where_a_text_was_put() {
        let secret = "hush/+ 7\"&";
        let hidden = forms(secret);
        let told = to_forms(secret).to_string();
        assert!(hidden.iter().any(|form| told.contains(form)));
        for (before, form) in hidden.iter().skip(3).enumerate() {
            for after in ["", "x", "xy"] {
                let around = STANDARD.encode(format!("{}{secret}{after}", "z".repeat(before)));
                assert!(around.contains(form), "{before} {form} {around}");
            }
        }
        assert_eq!(fields("a=1%2F2&b=x+y")["a"], "1/2");
        assert_eq!(fields("a=1%2F2&b=x+y")["b"], "x y");
    }
}
