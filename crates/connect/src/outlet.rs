//! The one place where credentials meet a request.
//!
//! An [`Outlet`] belongs to one connection of one run. It adds the connection's headers and its authentication to a
//! request on its way out, and tells the run's redactor of every credential before it is first sent.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use reqwest::{
    Method, Response, StatusCode,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use sortie_agent::Redactor;
use sortie_api::Credential;
use sortie_net::Client;
use url::Url;

use crate::{Auth, Connection, Failure, Target, TokenError, Tokens, oauth::Challenge};

/// Minimum length of a piece of a URL that is taken for a credential by its looks, in bytes.
const SECRET_LOOKING: usize = 20;

/// A request as the agent or a protocol makes it, without credentials.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// Reason why no answer came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Net(#[from] sortie_net::Error),
    #[error("the access token cannot be sent in a header")]
    UnusableToken,
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Token(TokenError::NeedsAuthorization(why)) => Self::NeedsAuthorization(why),
            SendError::Token(error @ (TokenError::JustGiven | TokenError::Unavailable(_))) => {
                Self::Error(error.to_string())
            }
            SendError::Net(error) => Self::Error(error.to_string()),
            SendError::UnusableToken => Self::Error(error.to_string()),
        }
    }
}

/// Sends requests of one connection with its credentials.
pub(crate) struct Outlet {
    client: Client,
    auth: Auth,
    /// The connection's own headers, and its authentication where that never changes.
    headers: HeaderMap,
    redactor: Arc<Redactor>,
}

impl Outlet {
    /// Fails with a sentence where a credential cannot stand in a header.
    pub(crate) fn new(
        client: Client,
        connection: &Connection,
        redactor: Arc<Redactor>,
    ) -> Result<Self, String> {
        for secret in secrets(connection) {
            redactor.add(&secret);
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &connection.headers {
            headers.insert(name.clone(), header_value(name.as_str(), value.expose())?);
        }
        match &connection.auth {
            Auth::Bearer(token) => {
                let value = format!("Bearer {}", token.expose());
                headers.insert(AUTHORIZATION, header_value("auth", &value)?);
            }
            Auth::Basic { username, password } => {
                let value = format!("Basic {}", basic(username, password));
                headers.insert(AUTHORIZATION, header_value("auth", &value)?);
            }
            Auth::Header { name, value } => {
                headers.insert(name.clone(), header_value(name.as_str(), value.expose())?);
            }
            Auth::None | Auth::Query { .. } | Auth::OAuth(_) => {}
        }
        Ok(Self {
            client,
            auth: connection.auth.clone(),
            headers,
            redactor,
        })
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the failure for a 401 that a fresh token did not help against.
    pub(crate) fn refused_401(&self) -> Failure {
        match &self.auth {
            Auth::None | Auth::OAuth(_) => {
                Failure::NeedsAuthorization("the server answers HTTP 401".to_owned())
            }
            Auth::Bearer(_) | Auth::Basic { .. } | Auth::Header { .. } | Auth::Query { .. } => {
                Failure::Error("the server refuses the credentials (HTTP 401)".to_owned())
            }
        }
    }

    /// Returns the failure for a 403 that wants more scopes, if the answer is one.
    pub(crate) fn refused_scope(&self, response: &Response) -> Option<Failure> {
        let challenge = wanted_scope(response)?;
        let told = match &challenge.scope {
            Some(scope) => format!("the server wants the scope `{scope}` (HTTP 403)"),
            None => "the server wants more scopes than were granted (HTTP 403)".to_owned(),
        };
        Some(match &self.auth {
            Auth::None | Auth::OAuth(_) => Failure::NeedsAuthorization(told),
            Auth::Bearer(_) | Auth::Basic { .. } | Auth::Header { .. } | Auth::Query { .. } => {
                Failure::Error(told)
            }
        })
    }

    /// Whether the engine sets this header, so that nobody else may.
    pub(crate) fn sets_header(&self, name: &HeaderName) -> bool {
        *name == AUTHORIZATION || self.headers.contains_key(name)
    }

    /// Whether the engine sets this parameter of the query.
    pub(crate) fn sets_query(&self, name: &str) -> bool {
        matches!(&self.auth, Auth::Query { name: own, .. } if own == name)
    }

    /// Sends a request with the credentials, up to the head of the answer. An access token that is refused with 401 is
    /// renewed once, and the request sent again: what is refused for its token was not carried out. Where the token is
    /// too new to be at fault, the 401 is the answer.
    pub(crate) async fn send(&self, request: &Outgoing) -> Result<Response, SendError> {
        let Auth::OAuth(tokens) = &self.auth else {
            return self.send_once(request, None).await;
        };
        let token = self.told(tokens.token(None).await?);
        let response = self.send_once(request, Some(&token)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(noted(&**tokens, &token, response).await);
        }
        match tokens.token(Some(&token)).await {
            Ok(renewed) => {
                let token = self.told(renewed);
                let response = self.send_once(request, Some(&token)).await?;
                Ok(noted(&**tokens, &token, response).await)
            }
            Err(TokenError::JustGiven) => Ok(noted(&**tokens, &token, response).await),
            Err(error @ TokenError::NeedsAuthorization(_)) => {
                noted(&**tokens, &token, response).await;
                Err(error.into())
            }
            Err(error @ TokenError::Unavailable(_)) => Err(error.into()),
        }
    }

    fn told(&self, token: Credential) -> Credential {
        self.redactor.add(token.expose());
        token
    }

    /// A redirect may have brought the parameter along: it stands there once.
    fn signed_url(&self, url: &Url) -> Url {
        match &self.auth {
            Auth::Query { name, value } => with_parameter(url, name, value.expose()),
            Auth::None | Auth::Bearer(_) | Auth::Basic { .. } | Auth::Header { .. } | Auth::OAuth(_) => {
                url.clone()
            }
        }
    }

    async fn send_once(&self, request: &Outgoing, token: Option<&Credential>) -> Result<Response, SendError> {
        let url = self.signed_url(&request.url);
        let mut headers = request.headers.clone();
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(token) = token {
            let value = header_value("token", &format!("Bearer {}", token.expose()))
                .map_err(|_| SendError::UnusableToken)?;
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = self
            .client
            .request(request.method.clone(), &url)?
            .headers(headers);
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        Ok(self.client.send_patiently(builder).await?)
    }
}

/// Tells the keeper of the tokens what an answer to this token asks for that no token helps against.
async fn noted(tokens: &dyn Tokens, token: &Credential, response: Response) -> Response {
    let challenge = match response.status() {
        StatusCode::UNAUTHORIZED => Some(Challenge::of(&response)).filter(|found| !found.is_empty()),
        _ => wanted_scope(&response),
    };
    if let Some(challenge) = challenge {
        tokens.challenged(token, challenge).await;
    }
    response
}

/// The challenge of a 403 that wants more scopes.
fn wanted_scope(response: &Response) -> Option<Challenge> {
    let is_forbidden = response.status() == StatusCode::FORBIDDEN;
    is_forbidden
        .then(|| Challenge::of(response))
        .filter(Challenge::wants_scope)
}

/// `url` with its own parameters, but for those named `name`, and that one at the end.
fn with_parameter(url: &Url, name: &str, value: &str) -> Url {
    let mut signed = url.clone();
    let others = url.query_pairs().filter(|(other, _)| other != name);
    signed
        .query_pairs_mut()
        .clear()
        .extend_pairs(others)
        .append_pair(name, value);
    signed
}

fn header_value(what: &str, value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("{what}: has characters that a header cannot hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn basic(username: &str, password: &Credential) -> String {
    STANDARD.encode(format!("{username}:{}", password.expose()))
}

/// Every credential of the definition, in the forms in which the engine sends it.
fn secrets(connection: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    for (_, value) in &connection.headers {
        push_header(&mut found, value);
    }
    match &connection.auth {
        Auth::None | Auth::OAuth(_) => {}
        Auth::Bearer(token) => found.push(token.expose().to_owned()),
        Auth::Basic { username, password } => {
            found.push(password.expose().to_owned());
            found.push(basic(username, password));
        }
        Auth::Header { value, .. } => push_header(&mut found, value),
        Auth::Query { value, .. } => found.push(value.expose().to_owned()),
    }
    match &connection.target {
        Target::Http { url, .. } | Target::Mcp { url, .. } => found.extend(url_secrets(url)),
        Target::McpStdio { env, .. } => {
            found.extend(env.iter().map(|(_, value)| value.expose().to_owned()));
        }
    }
    found
}

/// A header's value, and what stands behind its scheme: `Token abc` comes back as `abc`, too.
fn push_header(found: &mut Vec<String>, value: &Credential) {
    let value = value.expose();
    if let Some((_, token)) = value.split_once(' ') {
        found.push(token.trim().to_owned());
    }
    found.push(value.to_owned());
}

/// Returns the credentials in a URL: parameters that are named like one, and long pieces with a digit in them.
fn url_secrets(url: &Url) -> Vec<String> {
    let looks_secret = |text: &str| text.len() >= SECRET_LOOKING && text.bytes().any(|b| b.is_ascii_digit());
    let is_named = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["key", "token", "secret", "sig", "pass", "auth", "code"]
            .iter()
            .any(|word| name.contains(word))
    };
    let pieces = url
        .path()
        .split('/')
        .filter(|piece| looks_secret(piece))
        .map(str::to_owned);
    let values = url
        .query_pairs()
        .filter(|(name, value)| is_named(name) || looks_secret(value))
        .map(|(_, value)| value.into_owned());
    pieces.chain(values).collect()
}
