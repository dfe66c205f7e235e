//! Token endpoint and revocation endpoint: exchange of codes and refresh tokens, and revocation.

use std::{borrow::Cow, time::Duration};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};
use sortie_api::{
    Role, Timestamp,
    secret::{ACCESS_TOKEN, AUTHORIZATION_CODE, REFRESH_TOKEN, Secret},
};
use sortie_base::random;
use sortie_store::{
    access::Actor,
    oauth::{CodeRedemption, EndedGrant, Exchange, GrantAudit, NewTokens, TokenRefresh},
};

use super::{
    OauthFailure, OauthResult,
    clients::REMEMBERED,
    error::{OauthError, OauthErrorCode},
    metrics::GrantType,
    parameters::Parameters,
    request::{Scope, check_resource, missing, one},
};
use crate::{Accounts, Result};

/// Lifetime of an access token.
const ACCESS_LIFETIME: Duration = Duration::from_hours(1);
/// Lifetime of a refresh token.
const REFRESH_LIFETIME: Duration = Duration::from_hours(24 * 30);
/// Lifetime of a grant.
const GRANT_LIFETIME: Duration = Duration::from_hours(24 * 180);

/// Result of reading a parameter.
type Parsed<T> = std::result::Result<T, OauthError>;

/// Request at the token or the revocation endpoint.
#[derive(Clone, Copy, Debug)]
pub struct TokenRequest<'a> {
    /// Value of the `Authorization` header.
    pub authorization: Option<&'a str>,
    /// Body, as `application/x-www-form-urlencoded`.
    pub form: &'a [u8],
    /// Actor for the audit log: the address and the request of the client.
    pub actor: &'a Actor,
}

/// Tokens for a client.
#[derive(Clone, Debug)]
pub struct IssuedPair {
    /// Access token.
    pub access: Secret,
    /// Refresh token.
    pub refresh: Secret,
    /// Lifetime of the access token.
    pub lifetime: Duration,
    /// Scope of the tokens: member or admin.
    pub scope: Role,
}

impl IssuedPair {
    fn new() -> Result<Self> {
        Ok(Self {
            access: Secret::new(ACCESS_TOKEN, random()?),
            refresh: Secret::new(REFRESH_TOKEN, random()?),
            lifetime: ACCESS_LIFETIME,
            scope: Role::Member,
        })
    }

    fn stored(&self, at: Timestamp) -> NewTokens {
        NewTokens {
            access_hash: self.access.hash(),
            access_until: at + ACCESS_LIFETIME,
            refresh_hash: self.refresh.hash(),
            refresh_until: at + REFRESH_LIFETIME,
        }
    }
}

impl Accounts {
    /// Handles a request at the token endpoint: exchanges a code or a refresh token for a pair of tokens.
    pub async fn issue_tokens(&self, request: TokenRequest<'_>) -> OauthResult<IssuedPair> {
        let parameters = Parameters::without_empty(request.form);
        let grant_type = one(parameters, "grant_type").map(|given| given.map(|name| GrantType::of(&name)));
        let counted = grant_type.as_ref().ok().copied().flatten();
        let done = self.exchange(parameters, grant_type, request).await;
        self.0.oauth.count(counted.unwrap_or(GrantType::Unknown), &done);
        done
    }

    async fn exchange(
        &self,
        parameters: Parameters<'_>,
        grant_type: Parsed<Option<GrantType>>,
        request: TokenRequest<'_>,
    ) -> OauthResult<IssuedPair> {
        let grant_type = grant_type?.ok_or_else(|| missing("grant_type"))?;
        let client = self.client_of(parameters, request.authorization).await?;
        check_resource(parameters, &self.0.options.resources())?;
        let pair = IssuedPair::new()?;
        let exchange = match grant_type {
            GrantType::AuthorizationCode => self.redeem(parameters, client, &pair, request.actor).await?,
            GrantType::RefreshToken => self.refresh(parameters, client, &pair, request.actor).await?,
            GrantType::Unknown => {
                let rule = "grant_type: must be authorization_code or refresh_token";
                return Err(OauthErrorCode::UnsupportedGrantType.because(rule).into());
            }
        };
        match exchange {
            Exchange::Issued(issued) => Ok(IssuedPair {
                scope: issued.scope,
                ..pair
            }),
            Exchange::Refused => Err(invalid_grant().into()),
            Exchange::OtherScope => {
                let rule = "scope: must be the scope of the grant";
                Err(OauthErrorCode::InvalidScope.because(rule).into())
            }
            Exchange::Reused(_) => Err(OauthFailure::Reused),
        }
    }

    /// Ends the grant of a token of the calling client. Returns `None` if the client has no such token.
    pub async fn revoke_token(&self, request: TokenRequest<'_>) -> OauthResult<Option<EndedGrant>> {
        let parameters = Parameters::without_empty(request.form);
        let client = self.client_of(parameters, request.authorization).await?;
        let token = one(parameters, "token")?.ok_or_else(|| missing("token"))?;
        let secret = Secret::parse(ACCESS_TOKEN, &token).or_else(|_| Secret::parse(REFRESH_TOKEN, &token));
        let Ok(secret) = secret else {
            return Ok(None);
        };
        let audit = self.grant_audit(request.actor)?;
        Ok(self.0.store.revoke_token(secret.hash(), &client, audit).await?)
    }

    async fn redeem(
        &self,
        parameters: Parameters<'_>,
        client_id: String,
        pair: &IssuedPair,
        actor: &Actor,
    ) -> OauthResult<Exchange> {
        let code = one(parameters, "code")?.ok_or_else(|| missing("code"))?;
        let verifier = one(parameters, "code_verifier")?.ok_or_else(|| missing("code_verifier"))?;
        let redirect_uri = one(parameters, "redirect_uri")?;
        let is_verifier = (43..=128).contains(&verifier.len()) && verifier.bytes().all(is_unreserved);
        if !is_verifier {
            let rule = "code_verifier: must be 43 to 128 unreserved characters";
            return Err(OauthErrorCode::InvalidRequest.because(rule).into());
        }
        let code = Secret::parse(AUTHORIZATION_CODE, &code).map_err(|_| invalid_grant())?;
        let at = self.0.options.clock.now();
        let redemption = CodeRedemption {
            code_hash: code.hash(),
            client_id,
            challenge: BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())),
            redirect_uri: redirect_uri.map(Cow::into_owned),
            at,
            grant_until: at + GRANT_LIFETIME,
            client_until: at + GRANT_LIFETIME + REMEMBERED,
            tokens: pair.stored(at),
        };
        let audit = self.grant_audit(actor)?;
        Ok(self.0.store.redeem_code(redemption, audit).await?)
    }

    async fn refresh(
        &self,
        parameters: Parameters<'_>,
        client_id: String,
        pair: &IssuedPair,
        actor: &Actor,
    ) -> OauthResult<Exchange> {
        let token = one(parameters, "refresh_token")?.ok_or_else(|| missing("refresh_token"))?;
        let scope = match one(parameters, "scope")? {
            Some(scope) => Some(Scope::parse(Some(&scope))?.into()),
            None => None,
        };
        let token = Secret::parse(REFRESH_TOKEN, &token).map_err(|_| invalid_grant())?;
        let at = self.0.options.clock.now();
        let refresh = TokenRefresh {
            refresh_hash: token.hash(),
            client_id,
            scope,
            at,
            tokens: pair.stored(at),
        };
        let audit = self.grant_audit(actor)?;
        Ok(self.0.store.refresh_tokens(refresh, audit).await?)
    }

    /// Finds the client of a request and authenticates it.
    async fn client_of(
        &self,
        parameters: Parameters<'_>,
        authorization: Option<&str>,
    ) -> OauthResult<String> {
        let (id, secret) = client_credentials(parameters, authorization)?;
        self.authenticate_client(&id, secret.as_deref()).await?;
        Ok(id)
    }

    pub(super) fn grant_audit(&self, actor: &Actor) -> Result<GrantAudit> {
        Ok(GrantAudit {
            at: self.0.options.clock.now(),
            random: random()?,
            actor: actor.clone(),
        })
    }
}

/// Error for a code or token that is not valid.
fn invalid_grant() -> OauthError {
    OauthErrorCode::InvalidGrant
        .because("the code or token is unknown, was used, has expired, or belongs to another client")
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Reads the id and the secret of a client, from the header or from the form (RFC 6749, section 2.3.1).
fn client_credentials(
    parameters: Parameters<'_>,
    authorization: Option<&str>,
) -> Parsed<(String, Option<String>)> {
    let id = one(parameters, "client_id")?;
    let secret = one(parameters, "client_secret")?;
    let Some(authorization) = authorization else {
        let id = id.ok_or_else(|| missing("client_id"))?;
        return Ok((id.into_owned(), secret.map(Cow::into_owned)));
    };
    let wrong =
        || OauthErrorCode::InvalidClient.because("Authorization: must be Basic with the id and the secret");
    let (basic_id, basic_secret) = basic(authorization).ok_or_else(wrong)?;
    if secret.is_some() || id.is_some_and(|id| id != basic_id) {
        let rule = "the client must prove itself once, by the header or by the form";
        return Err(OauthErrorCode::InvalidRequest.because(rule));
    }
    Ok((basic_id, Some(basic_secret)))
}

/// Parses an id and a secret that are form-encoded, joined by a colon, and encoded in base64.
fn basic(authorization: &str) -> Option<(String, String)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        Some(percent_decode_str(&text).decode_utf8().ok()?.into_owned())
    };
    Some((decoded(id)?, decoded(secret)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(form: &str, header: Option<&str>) -> Parsed<(String, Option<String>)> {
        client_credentials(Parameters::without_empty(form.as_bytes()), header)
    }

    #[test]
    fn a_client_names_itself_in_the_header_or_in_the_form() {
        let header = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let pair = |id: &str, secret: Option<&str>| Ok((id.to_owned(), secret.map(str::to_owned)));
        assert_eq!(credentials("client_id=a", None), pair("a", None));
        assert_eq!(credentials("client_id=a&client_secret=", None), pair("a", None));
        assert_eq!(
            credentials("client_id=a&client_secret=b", None),
            pair("a", Some("b"))
        );
        assert_eq!(credentials("", Some(&header("a:b"))), pair("a", Some("b")));
        assert_eq!(
            credentials("client_id=a", Some(&header("a:b%3A+c"))),
            pair("a", Some("b: c"))
        );
        for (form, header, code) in [
            ("", None, "invalid_request"),
            ("client_id=a&client_id=a", None, "invalid_request"),
            ("client_secret=b", Some(header("a:b")), "invalid_request"),
            ("client_id=c", Some(header("a:b")), "invalid_request"),
            ("client_id=a", Some(header("a")), "invalid_client"),
            ("client_id=a", Some("Bearer sto_x".to_owned()), "invalid_client"),
            ("client_id=a", Some("Basic !".to_owned()), "invalid_client"),
        ] {
            let error = credentials(form, header.as_deref()).expect_err(form);
            assert_eq!(error.code.as_str(), code, "{form} {header:?}");
        }
    }
}
