//! The only place that adds credentials to requests.
//!
//! An [`Outlet`] belongs to one connection of one run. It adds the connection's headers and its authentication to outgoing
//! requests, and registers every credential with the run's redactor before it is first sent.

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

/// Minimum length of a part of a URL that is treated as a credential because of its form, in bytes.
const SECRET_LOOKING: usize = 20;

/// A request of the agent or a protocol, without credentials.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// Reason why there is no response.
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
    /// The connection's headers, and its authentication if that never changes.
    headers: HeaderMap,
    redactor: Arc<Redactor>,
}

impl Outlet {
    /// Fails with a message if a credential is not valid in a header.
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

    /// Returns the failure for a 401 that remains after a refresh of the token.
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

    /// Returns the failure if the response is a 403 that requires more scopes.
    pub(crate) fn refused_scope(&self, response: &Response) -> Option<Failure> {
        let challenge = wanted_scope(response)?;
        let told = match &challenge.scope {
            Some(scope) => format!("the server requires the scope `{scope}` (HTTP 403)"),
            None => "the server requires more scopes than were granted (HTTP 403)".to_owned(),
        };
        Some(match &self.auth {
            Auth::None | Auth::OAuth(_) => Failure::NeedsAuthorization(told),
            Auth::Bearer(_) | Auth::Basic { .. } | Auth::Header { .. } | Auth::Query { .. } => {
                Failure::Error(told)
            }
        })
    }

    /// Whether the engine sets this header. Others must not.
    pub(crate) fn sets_header(&self, name: &HeaderName) -> bool {
        *name == AUTHORIZATION || self.headers.contains_key(name)
    }

    /// Whether the engine sets this query parameter.
    pub(crate) fn sets_query(&self, name: &str) -> bool {
        matches!(&self.auth, Auth::Query { name: own, .. } if own == name)
    }

    /// Sends a request with the credentials, up to the head of the response. After a 401, an access token is refreshed once and
    /// the request is sent again: a request that was refused for its token was not executed. If the token is too new to be the
    /// cause, the 401 is the response.
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

    /// A redirect may have kept the parameter, so it is replaced rather than added twice.
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

/// Passes a challenge to the token source if no available token helps.
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

/// Returns the challenge of a 403 that requires more scopes.
fn wanted_scope(response: &Response) -> Option<Challenge> {
    let is_forbidden = response.status() == StatusCode::FORBIDDEN;
    is_forbidden
        .then(|| Challenge::of(response))
        .filter(Challenge::wants_scope)
}

/// Replaces the parameters `name` of `url` with one at the end.
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

/// Returns every credential of the definition, in the forms in which the engine sends it.
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

/// Adds a header's value, and also the part after its scheme: a server may return `Token abc` as `abc`.
fn push_header(found: &mut Vec<String>, value: &Credential) {
    let value = value.expose();
    if let Some((_, token)) = value.split_once(' ') {
        found.push(token.trim().to_owned());
    }
    found.push(value.to_owned());
}

/// Returns the credentials in a URL: parameters with a typical name, and long parts that contain a digit.
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
