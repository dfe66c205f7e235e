//! The token endpoint: exchanges a code or a refresh token for an access token.

use sortie_agent::Redactor;
use sortie_api::Credential;
use url::Url;

use super::{
    Error, Grant, Identity, Method, account,
    wire::{Answer, Wire, without_query},
};
use crate::text;

/// Values that persist from one grant to the next.
pub(super) struct Terms {
    pub(super) token_url: Url,
    pub(super) identity: Identity,
    pub(super) resource: Option<String>,
    pub(super) issuer: Option<String>,
    /// Refresh token to keep if the server returns no new one.
    pub(super) refresh_token: Option<Credential>,
    /// Scope to keep if the server returns none.
    pub(super) scope: Option<String>,
    /// Account to keep if the server returns none.
    pub(super) account: Option<String>,
}

/// Maximum length of the stored scopes of a server, in bytes. They are only displayed, and never sent.
const SCOPE_BYTES: usize = 2_000;

/// Secret fields of a form, which a server may repeat in an error.
const SECRET_FIELDS: [&str; 4] = ["code", "code_verifier", "refresh_token", "client_secret"];

/// Requests a token with this form.
pub(super) async fn ask(wire: &Wire, mut form: Vec<(&str, &str)>, terms: Terms) -> Result<Grant, Error> {
    let identity = &terms.identity;
    let secret = identity.client_secret.as_ref().map(Credential::expose);
    let basic = match (identity.method, secret) {
        (Method::ClientSecretBasic, Some(secret)) => Some((identity.client_id.as_str(), secret)),
        (Method::ClientSecretPost, Some(secret)) => {
            form.push(("client_id", &identity.client_id));
            form.push(("client_secret", secret));
            None
        }
        (Method::None | Method::ClientSecretBasic | Method::ClientSecretPost, _) => {
            form.push(("client_id", &identity.client_id));
            None
        }
    };
    if let Some(resource) = &terms.resource {
        form.push(("resource", resource));
    }
    wire.check("token_url", &terms.token_url)?;
    let secret_fields = form.iter().filter(|(name, _)| SECRET_FIELDS.contains(name));
    let redactor = Redactor::new(secret_fields.map(|(_, value)| *value).chain(secret));
    let answer = wire.post_form(&terms.token_url, &form, basic).await?;
    grant(&answer, terms, &redactor)
}

fn grant(answer: &Answer, terms: Terms, redactor: &Redactor) -> Result<Grant, Error> {
    let place = without_query(&terms.token_url);
    // A few servers return errors with status 200.
    if let Some(why) = answer.error() {
        let told = format!("{place} says {}", redactor.redact(&why));
        return Err(match answer.text("error") {
            Some("invalid_grant") => Error::NeedsAuthorization(told),
            Some("temporarily_unavailable" | "server_error" | "slow_down") => Error::Unavailable(told),
            Some(_) | None => Error::Refused(told),
        });
    }
    if !answer.status.is_success() {
        let told = format!("{place} answers HTTP {}", answer.status.as_u16());
        return Err(if answer.status.is_server_error() {
            Error::Unavailable(told)
        } else {
            Error::Refused(told)
        });
    }
    let access_token = answer
        .text("access_token")
        .ok_or_else(|| Error::Refused(format!("{place} returned no access token")))?;
    let kind = answer.text("token_type").unwrap_or("bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        return Err(Error::Refused(format!(
            "{place} returned a token that is not a bearer token"
        )));
    }
    Ok(Grant {
        access_token: Credential::new(access_token),
        expires_in_seconds: seconds(answer),
        scope: answer
            .text("scope")
            .map(|scope| text::line(scope, SCOPE_BYTES))
            .or(terms.scope),
        issuer: terms.issuer,
        account: answer.text("id_token").and_then(account::of).or(terms.account),
        refresh_token: answer
            .text("refresh_token")
            .map(Credential::new)
            .or(terms.refresh_token),
        token_url: terms.token_url,
        identity: terms.identity,
        resource: terms.resource,
    })
}

/// Parses `expires_in`, which some servers send as text.
fn seconds(answer: &Answer) -> Option<u64> {
    let value = answer.object.get("expires_in")?;
    value
        .as_u64()
        .or_else(|| value.as_str()?.parse().ok())
        .filter(|seconds| *seconds > 0)
}
