//! A scripted identity provider: it signs in the person that the test names, and makes configured mistakes.

use std::{collections::HashMap, io, sync::Arc};

use anyhow::{Context, Result, anyhow, ensure};
use axum::{
    Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{
    HeaderMap, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use parking_lot::{Mutex, MutexGuard};
use ring::{
    rand::SystemRandom,
    rsa,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use crate::serve::Serving;

/// RSA key of the tests, in PKCS #8.
const RSA_KEY: &[u8] = include_bytes!("rsa_test_key.der");

/// Client that the provider knows.
pub const CLIENT_ID: &str = "sortie";
/// Secret of the client, with characters that its encoding changes.
pub const CLIENT_SECRET: &str = "secret:with/odd+signs";

/// Signature of an ID token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// By the published RSA key.
    Rs256,
    /// By the published key on the curve P-256.
    Es256,
    /// With a key that has the same name but was not published.
    OtherKey,
    /// None (`alg` is `none`).
    None,
    /// HMAC with the public RSA key as secret.
    Hs256,
}

/// Keys that sign tokens.
pub struct Signer {
    rsa: RsaKeyPair,
    ecdsa: EcdsaKeyPair,
    other: EcdsaKeyPair,
    /// Name of the published keys.
    kid: String,
    random: SystemRandom,
}

/// Answer that the provider gives next.
#[derive(Clone, Debug)]
pub struct ProviderScript {
    /// Seconds since 1970.
    pub now: i64,
    /// Signature of the ID token.
    pub signature: Signature,
    /// Claims that override the usual ones; null removes a claim.
    pub claims: Map<String, Value>,
    /// Claims that only the userinfo endpoint has.
    pub userinfo: Map<String, Value>,
    /// Changes of the metadata; null removes a member.
    pub metadata: Map<String, Value>,
    /// Issuer in the redirect to the browser; `None` omits `iss`.
    pub answer_issuer: Option<String>,
    /// Whether the keys are published.
    pub publishes_keys: bool,
    /// Whether every endpoint answers 500.
    pub fails: bool,
}

struct Code {
    nonce: String,
    challenge: String,
    redirect_uri: String,
}

struct Shared {
    issuer: Mutex<String>,
    script: Mutex<ProviderScript>,
    signer: Mutex<Signer>,
    codes: Mutex<HashMap<String, Code>>,
    requests: Mutex<Vec<String>>,
}

/// A running provider.
pub struct ScriptedProvider {
    server: Serving,
    shared: Arc<Shared>,
}

impl Signer {
    /// Makes keys with this name. The RSA key is always the same one.
    pub fn new(kid: &str) -> Result<Self> {
        let random = SystemRandom::new();
        let ecdsa = || {
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| anyhow!("no key"))?;
            EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
                .map_err(|error| anyhow!("{error}"))
        };
        Ok(Self {
            rsa: RsaKeyPair::from_pkcs8(RSA_KEY).map_err(|error| anyhow!("{error}"))?,
            ecdsa: ecdsa()?,
            other: ecdsa()?,
            kid: kid.to_owned(),
            random,
        })
    }

    /// Returns the document with the public keys.
    pub fn keys(&self) -> Value {
        let rsa: rsa::PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let point = self.ecdsa.public_key().as_ref();
        let (x, y) = (point.get(1..33), point.get(33..65));
        json!({"keys": [
            {"kty": "RSA", "kid": self.kid, "use": "sig", "alg": "RS256", "n": encoded(&rsa.n), "e": encoded(&rsa.e)},
            {"kty": "EC", "crv": "P-256", "kid": self.kid, "use": "sig",
                "x": encoded(x.unwrap_or_default()), "y": encoded(y.unwrap_or_default())},
        ]})
    }

    /// Signs claims. Returns the token.
    pub fn sign(&self, claims: &Value, signature: Signature) -> Result<String> {
        let algorithm = match signature {
            Signature::Rs256 => "RS256",
            Signature::Es256 | Signature::OtherKey => "ES256",
            Signature::None => "none",
            Signature::Hs256 => "HS256",
        };
        let header = json!({"alg": algorithm, "kid": self.kid, "typ": "JWT"});
        let text = |value: &Value| encoded(value.to_string().as_bytes());
        let signed = format!("{}.{}", text(&header), text(claims));
        let bytes = self.signature(signed.as_bytes(), signature)?;
        Ok(format!("{signed}.{}", encoded(&bytes)))
    }

    fn signature(&self, message: &[u8], signature: Signature) -> Result<Vec<u8>> {
        let ecdsa = |key: &EcdsaKeyPair| {
            let made = key
                .sign(&self.random, message)
                .map_err(|_| anyhow!("no signature"))?;
            Ok(made.as_ref().to_vec())
        };
        match signature {
            Signature::Es256 => ecdsa(&self.ecdsa),
            Signature::OtherKey => ecdsa(&self.other),
            Signature::None => Ok(Vec::new()),
            Signature::Rs256 => {
                let mut made = vec![0; self.rsa.public().modulus_len()];
                self.rsa
                    .sign(&RSA_PKCS1_SHA256, &self.random, message, &mut made)
                    .map_err(|_| anyhow!("no signature"))?;
                Ok(made)
            }
            Signature::Hs256 => {
                let rsa: rsa::PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
                let mut mac = Hmac::<Sha256>::new_from_slice(&rsa.n)?;
                mac.update(message);
                Ok(mac.finalize().into_bytes().to_vec())
            }
        }
    }
}

impl ScriptedProvider {
    /// Starts a provider with its clock set to `now`, in seconds since 1970.
    pub async fn start(now: i64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            issuer: Mutex::default(),
            script: Mutex::new(ProviderScript {
                now,
                signature: Signature::Es256,
                claims: Map::new(),
                userinfo: Map::new(),
                metadata: Map::new(),
                answer_issuer: None,
                publishes_keys: true,
                fails: false,
            }),
            signer: Mutex::new(Signer::new("first").map_err(io::Error::other)?),
            codes: Mutex::default(),
            requests: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/userinfo", get(userinfo))
            .with_state(Arc::clone(&shared));
        let server = Serving::start(router).await?;
        *lock(&shared.issuer) = server.base_url();
        Ok(Self { server, shared })
    }

    /// Issuer of the provider.
    pub fn issuer(&self) -> String {
        self.server.base_url()
    }

    /// Changes what the provider answers from now on.
    pub fn script(&self, change: impl FnOnce(&mut ProviderScript)) {
        change(&mut lock(&self.shared.script));
    }

    /// Names the person who signs in from now on: subject and verified address.
    pub fn person(&self, subject: &str, email: &str) {
        self.script(|script| {
            script.claims = Map::from_iter([
                ("sub".to_owned(), json!(subject)),
                ("email".to_owned(), json!(email)),
                ("email_verified".to_owned(), json!(true)),
            ]);
        });
    }

    /// Signs with other keys from now on.
    pub fn rotate_keys(&self, kid: &str) -> Result<()> {
        *lock(&self.shared.signer) = Signer::new(kid)?;
        Ok(())
    }

    /// Takes the requests since the last call: the last segment of each path.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.requests))
    }

    /// Handles an authorization request as the provider does for a browser: signs the person in. Returns the path and
    /// the query to which the browser is redirected.
    pub fn authorize(&self, address: &str) -> Result<String> {
        let (endpoint, query) = address.split_once('?').context("a request has a query")?;
        ensure!(endpoint == format!("{}/authorize", self.issuer()), "{endpoint}");
        let pairs = pairs_of(query.as_bytes());
        let get = |name: &str| {
            pairs
                .get(name)
                .cloned()
                .with_context(|| format!("{name} is missing"))
        };
        ensure!(get("response_type")? == "code" && get("client_id")? == CLIENT_ID);
        ensure!(get("code_challenge_method")? == "S256");
        ensure!(get("scope")?.split(' ').any(|scope| scope == "openid"));
        let redirect_uri = get("redirect_uri")?;
        let mut codes = lock(&self.shared.codes);
        let code = format!("code-{}", get("nonce")?);
        let kept = Code {
            nonce: get("nonce")?,
            challenge: get("code_challenge")?,
            redirect_uri: redirect_uri.clone(),
        };
        codes.insert(code.clone(), kept);
        let (_, rest) = redirect_uri
            .split_once("://")
            .context("a redirect URI has a scheme")?;
        let path = rest.split_once('/').context("a redirect URI has a path")?.1;
        let named = lock(&self.shared.script).answer_issuer.clone();
        let named = named.map(|named| format!("&iss={named}")).unwrap_or_default();
        Ok(format!("/{path}?code={code}&state={}{named}", get("state")?))
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Merges members into an object; null removes one.
fn laid(mut object: Value, over: &Map<String, Value>) -> Value {
    for (name, value) in over {
        match (&mut object, value) {
            (Value::Object(members), Value::Null) => drop(members.remove(name)),
            (Value::Object(members), value) => drop(members.insert(name.clone(), value.clone())),
            _ => {}
        }
    }
    object
}

/// Pairs of a query or a form.
fn pairs_of(text: &[u8]) -> HashMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let json = [(CONTENT_TYPE, "application/json")];
    (status, json, body.to_string()).into_response()
}

fn refused(status: StatusCode, error: &str) -> Response {
    answer(status, &json!({"error": error}))
}

impl Shared {
    /// Records a request. Returns the script; `None` if every endpoint fails.
    fn asked(&self, what: &str) -> Option<ProviderScript> {
        lock(&self.requests).push(what.to_owned());
        let script = lock(&self.script).clone();
        (!script.fails).then_some(script)
    }
}

fn failed() -> Response {
    refused(StatusCode::INTERNAL_SERVER_ERROR, "server_error")
}

async fn metadata(State(shared): State<Arc<Shared>>) -> Response {
    let Some(script) = shared.asked("metadata") else {
        return failed();
    };
    let issuer = lock(&shared.issuer).clone();
    let document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "userinfo_endpoint": format!("{issuer}/userinfo"),
        "jwks_uri": format!("{issuer}/keys"),
    });
    answer(StatusCode::OK, &laid(document, &script.metadata))
}

async fn keys(State(shared): State<Arc<Shared>>) -> Response {
    let Some(script) = shared.asked("keys") else {
        return failed();
    };
    let keys = if script.publishes_keys {
        lock(&shared.signer).keys()
    } else {
        json!({"keys": []})
    };
    answer(StatusCode::OK, &keys)
}

async fn userinfo(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let Some(script) = shared.asked("userinfo") else {
        return failed();
    };
    if headers
        .get(AUTHORIZATION)
        .is_none_or(|value| value != "Bearer access")
    {
        return refused(StatusCode::UNAUTHORIZED, "invalid_token");
    }
    answer(StatusCode::OK, &Value::Object(script.userinfo))
}

async fn token(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(script) = shared.asked("token") else {
        return failed();
    };
    let form = pairs_of(&body);
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    // The secret was form-encoded before it became part of the header.
    let basic = "Basic c29ydGllOnNlY3JldCUzQXdpdGglMkZvZGQlMkJzaWducw==";
    let by_header = headers.get(AUTHORIZATION).is_some_and(|value| value == basic);
    let by_form = field("client_id") == CLIENT_ID && field("client_secret") == CLIENT_SECRET;
    let wants_form = script
        .metadata
        .contains_key("token_endpoint_auth_methods_supported");
    if by_header == by_form || by_form != wants_form {
        return refused(StatusCode::UNAUTHORIZED, "invalid_client");
    }
    let code = lock(&shared.codes).remove(&field("code"));
    let challenge = encoded(&Sha256::digest(field("code_verifier")));
    let Some(code) = code.filter(|code| {
        field("grant_type") == "authorization_code"
            && code.challenge == challenge
            && code.redirect_uri == field("redirect_uri")
    }) else {
        return refused(StatusCode::BAD_REQUEST, "invalid_grant");
    };
    let claims = json!({
        "iss": *lock(&shared.issuer),
        "aud": CLIENT_ID,
        "nonce": code.nonce,
        "iat": script.now,
        "exp": script.now + 300,
    });
    let claims = laid(claims, &script.claims);
    match lock(&shared.signer).sign(&claims, script.signature) {
        Ok(id_token) => answer(
            StatusCode::OK,
            &json!({"access_token": "access", "token_type": "Bearer", "id_token": id_token}),
        ),
        Err(_) => failed(),
    }
}
