//! Rules of `auth`. Each type requires its own fields and allows no others.

use sortie_api::{
    Credential, Refusal,
    connection::{AuthType, ConnectionAuth},
    limits,
};

use super::{
    fields::{At, header_name, header_value, is_name},
    secrets::{AuthSecret, OAuthClient},
};

/// Headers that the transport sets itself.
const UNFIT: [&str; 6] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "expect",
];

impl AuthSecret {
    /// Returns the type of the authentication.
    pub(crate) const fn kind(&self) -> AuthType {
        match self {
            Self::None => AuthType::None,
            Self::Bearer { .. } => AuthType::Bearer,
            Self::Basic { .. } => AuthType::Basic,
            Self::Header { .. } => AuthType::Header,
            Self::Query { .. } => AuthType::Query,
            Self::OAuth(_) => AuthType::OAuth,
        }
    }
}

/// Checks `auth` and reads its credentials.
pub(super) fn check(at: At<'_>, auth: &ConnectionAuth) -> Result<AuthSecret, Refusal> {
    check_fields(at, auth)?;
    match auth.kind {
        AuthType::None => Ok(AuthSecret::None),
        AuthType::Bearer => {
            let token = required(at, "auth.token", auth.token.as_ref())?;
            header_value(at, "auth.token", &token)?;
            Ok(AuthSecret::Bearer { token })
        }
        AuthType::Basic => basic(at, auth),
        AuthType::Header => {
            let name = named(at, auth)?;
            if UNFIT.contains(&header_name(at, "auth.name", &name)?.as_str()) {
                return Err(at.broken("auth.name", "belongs to the engine"));
            }
            let value = required(at, "auth.value", auth.value.as_ref())?;
            header_value(at, "auth.value", &value)?;
            Ok(AuthSecret::Header { name, value })
        }
        AuthType::Query => {
            let name = named(at, auth)?;
            let value = required(at, "auth.value", auth.value.as_ref())?;
            bounded(at, "auth.value", &value, limits::CREDENTIAL_BYTES)?;
            Ok(AuthSecret::Query { name, value })
        }
        AuthType::OAuth => oauth(at, auth).map(AuthSecret::OAuth),
    }
}

/// Refuses fields of other types: an unused credential must not look as if it were used.
fn check_fields(at: At<'_>, auth: &ConnectionAuth) -> Result<(), Refusal> {
    let fields = [
        ("token", auth.token.is_some(), &[AuthType::Bearer][..]),
        ("username", auth.username.is_some(), &[AuthType::Basic]),
        ("password", auth.password.is_some(), &[AuthType::Basic]),
        ("name", auth.name.is_some(), &[AuthType::Header, AuthType::Query]),
        (
            "value",
            auth.value.is_some(),
            &[AuthType::Header, AuthType::Query],
        ),
        ("client_id", auth.client_id.is_some(), &[AuthType::OAuth]),
        ("client_secret", auth.client_secret.is_some(), &[AuthType::OAuth]),
        (
            "authorization_url",
            auth.authorization_url.is_some(),
            &[AuthType::OAuth],
        ),
        ("token_url", auth.token_url.is_some(), &[AuthType::OAuth]),
        ("scopes", auth.scopes.is_some(), &[AuthType::OAuth]),
        ("issuer", auth.issuer.is_some(), &[AuthType::OAuth]),
    ];
    match fields
        .iter()
        .find(|(_, is_there, of)| *is_there && !of.contains(&auth.kind))
    {
        Some((name, _, _)) => {
            Err(at.broken(format!("auth.{name}"), format!("is not for type {}", auth.kind)))
        }
        None => Ok(()),
    }
}

fn required(at: At<'_>, field: &str, value: Option<&Credential>) -> Result<String, Refusal> {
    value
        .map(|value| value.expose().to_owned())
        .ok_or_else(|| at.broken(field, "required"))
}

fn bounded(at: At<'_>, field: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if (1..=most).contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(at.broken(
        field,
        format!("must be 1 to {most} bytes without control characters"),
    ))
}

fn named(at: At<'_>, auth: &ConnectionAuth) -> Result<String, Refusal> {
    let name = auth
        .name
        .clone()
        .ok_or_else(|| at.broken("auth.name", "required"))?;
    if !is_name(&name) {
        return Err(at.broken("auth.name", "must be 1 to 128 bytes without control characters"));
    }
    Ok(name)
}

fn basic(at: At<'_>, auth: &ConnectionAuth) -> Result<AuthSecret, Refusal> {
    let username = required(at, "auth.username", auth.username.as_ref())?;
    bounded(at, "auth.username", &username, limits::CREDENTIAL_BYTES)?;
    if username.contains(':') {
        return Err(at.broken("auth.username", "must not contain a colon"));
    }
    let password = required(at, "auth.password", auth.password.as_ref())?;
    if !password.is_empty() {
        bounded(at, "auth.password", &password, limits::CREDENTIAL_BYTES)?;
    }
    Ok(AuthSecret::Basic { username, password })
}

fn oauth(at: At<'_>, auth: &ConnectionAuth) -> Result<OAuthClient, Refusal> {
    if let Some(client_id) = &auth.client_id {
        bounded(at, "auth.client_id", client_id, limits::CONNECTION_URL_CHARS)?;
    }
    let client_secret = auth
        .client_secret
        .as_ref()
        .map(|secret| secret.expose().to_owned());
    if let Some(secret) = &client_secret {
        bounded(at, "auth.client_secret", secret, limits::CREDENTIAL_BYTES)?;
        if auth.client_id.is_none() {
            return Err(at.broken("auth.client_id", "required together with client_secret"));
        }
    }
    let endpoints = match (&auth.authorization_url, &auth.token_url) {
        (Some(authorization_url), Some(token_url)) => Some((authorization_url.clone(), token_url.clone())),
        (None, None) => None,
        (Some(_), None) => {
            return Err(at.broken("auth.token_url", "required together with authorization_url"));
        }
        (None, Some(_)) => {
            return Err(at.broken("auth.authorization_url", "required together with token_url"));
        }
    };
    if auth.issuer.is_some() && auth.client_id.is_none() {
        return Err(at.broken("auth.client_id", "required together with issuer"));
    }
    let scopes = auth.scopes.clone().unwrap_or_default();
    if scopes.len() > limits::SCOPES {
        return Err(at.broken(
            "auth.scopes",
            format!("must have at most {} entries", limits::SCOPES),
        ));
    }
    for (number, scope) in scopes.iter().enumerate() {
        // RFC 6749: visible ASCII without quotes and backslashes.
        let fits = scope
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if !fits || !is_name(scope) {
            let rule = "must be 1 to 128 visible ASCII characters, without quotes and backslashes";
            return Err(at.broken(format!("auth.scopes[{number}]"), rule));
        }
    }
    Ok(OAuthClient {
        client_id: auth.client_id.clone(),
        client_secret,
        endpoints,
        scopes,
        issuer: auth.issuer.clone(),
    })
}
