//! Metadata, registration, token and revocation endpoint. `docs/OAUTH.md` is the guide for applications.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE},
};
use serde::Serialize;
use sortie_accounts::{ClientMetadata, OauthErrorCode, OauthFailure, TokenRequest};
use sortie_api::Role;
use sortie_base::network;
use sortie_store::access::Actor;
use utoipa::ToSchema;

use crate::{
    kit::{ApiError, Json, is_form, is_json, shown_once, small_body},
    org::OrgApp,
};

/// Maximum size of a registration, in bytes.
const REGISTRATION: usize = 8 * 1_024;
/// Maximum size of a form, in bytes.
const FORM: usize = 16 * 1_024;

/// Error of an OAuth endpoint (RFC 6749, section 5.2).
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OauthErrorBody {
    /// Machine-readable name of the error.
    error: &'static str,
    /// Parameter and the rule that it breaks.
    error_description: String,
}

/// Registered client (RFC 7591, section 3.2.1).
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClientInformation {
    /// ID that the client sends.
    client_id: String,
    /// Time of the registration, in seconds since 1970.
    client_id_issued_at: i64,
    /// Secret of a confidential client. It is returned once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_secret: Option<String>,
    /// End of the secret; 0 as it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_secret_expires_at: Option<u32>,
    /// Name that the client calls itself by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_name: Option<String>,
    /// Addresses that a browser may bring codes to.
    redirect_uris: Vec<String>,
    /// Proof of identity at the token endpoint.
    token_endpoint_auth_method: &'static str,
    /// Ways in which the client gets tokens.
    grant_types: [&'static str; 2],
    /// Responses of the authorization endpoint.
    response_types: [&'static str; 1],
}

/// Tokens (RFC 6749, section 5.1).
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenAnswer {
    /// Access token, for the `Authorization` header of the engine API.
    access_token: String,
    /// Type of the token: `Bearer`.
    token_type: &'static str,
    /// Lifetime of the access token, in seconds.
    expires_in: u64,
    /// Refresh token, which works once.
    refresh_token: String,
    /// Scope of the tokens.
    scope: Role,
}

/// Response of a failure at an OAuth endpoint.
#[derive(Debug)]
pub(crate) struct OauthRefused(OauthFailure);

impl<E: Into<OauthFailure>> From<E> for OauthRefused {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for OauthRefused {
    fn into_response(self) -> Response {
        let error = match self.0 {
            OauthFailure::Protocol(error) => error,
            OauthFailure::Reused => OauthErrorCode::InvalidGrant
                .because("the code or token was used before: the access of the application has ended"),
            OauthFailure::Other(refusal) => return not_stored(ApiError::from(refusal).into_response()),
        };
        let mut response = Json(OauthErrorBody {
            error: error.code.as_str(),
            error_description: error.description,
        })
        .into_response();
        *response.status_mut() = StatusCode::BAD_REQUEST;
        if error.code == OauthErrorCode::InvalidClient {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            let challenge = HeaderValue::from_static(r#"Basic realm="Sortie""#);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        not_stored(response)
    }
}

fn not_stored(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

/// Get the authorization server metadata
///
/// Returns the OAuth 2.0 metadata of the authorization server (RFC 8414): its endpoints and their capabilities.
#[utoipa::path(
    get, path = "/.well-known/oauth-authorization-server", tag = "oauth",
    responses((status = 200, description = "The metadata.", body = serde_json::Value, example = json!({
        "issuer": "https://accounts.example.com", "authorization_endpoint": "https://accounts.example.com/oauth/authorize",
        "token_endpoint": "https://accounts.example.com/oauth/token", "code_challenge_methods_supported": ["S256"]
    }))),
)]
pub(crate) async fn get_authorization_server(State(app): State<Arc<OrgApp>>) -> Json<serde_json::Value> {
    Json(app.accounts.oauth_metadata())
}

/// Register an OAuth client
///
/// Registers an application (RFC 7591). Unknown members are ignored. A network can register 20
/// clients an hour; a client that no person allows is deleted after 30 days.
#[utoipa::path(
    post, path = "/oauth/register", tag = "oauth",
    request_body(content = serde_json::Value, description = "Client metadata, at most 8 KiB.", example = json!({
        "client_name": "App", "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"
    })),
    responses(
        (status = 201, description = "The registered client.", body = ClientInformation, example = json!({
            "client_id": "client_01kafs6w1cefkstv6qr1ptb0mp", "client_id_issued_at": 1_763_674_200, "client_name": "App",
            "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"]
        })),
        (status = 400, description = "The metadata break a rule.", body = OauthErrorBody),
    ),
)]
pub(crate) async fn register_oauth_client(
    State(app): State<Arc<OrgApp>>,
    Extension(actor): Extension<Actor>,
    request: Request,
) -> Result<Response, OauthRefused> {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let rule = "Content-Type: must be application/json";
        return Err(OauthErrorCode::InvalidClientMetadata.because(rule).into());
    }
    let body = small_body(body, REGISTRATION).await?;
    let network = actor
        .address
        .map_or_else(String::new, |address| network(address).to_string());
    let client = app.accounts.register_client(&body, &network).await?;
    let ClientMetadata {
        client_name,
        redirect_uris,
        token_endpoint_auth_method,
    } = client.metadata;
    let secret = client.secret.as_ref().map(|secret| secret.expose().to_owned());
    let registered = ClientInformation {
        client_id: client.id.to_string(),
        client_id_issued_at: client.at.as_micros() / 1_000_000,
        client_secret_expires_at: secret.is_some().then_some(0),
        client_secret: secret,
        client_name,
        redirect_uris,
        token_endpoint_auth_method: token_endpoint_auth_method.as_str(),
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
    };
    Ok(shown_once(StatusCode::CREATED, &registered))
}

/// Get OAuth tokens
///
/// Exchanges an authorization code or a refresh token for an access token and the next refresh token. Each of them works
/// once; a second use ends the grant with all its tokens.
#[utoipa::path(
    post, path = "/oauth/token", tag = "oauth",
    request_body(content = serde_json::Value, content_type = "application/x-www-form-urlencoded",
        description = "Parameters of RFC 6749 and RFC 7636, at most 16 KiB."),
    responses(
        (status = 200, description = "The tokens.", body = TokenAnswer, example = json!({
            "access_token": "sto_…", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "str_…", "scope": "member"
        })),
        (status = 400, description = "A parameter breaks a rule, or the code or token does not work.", body = OauthErrorBody),
        (status = 401, description = "The client is unknown, or its secret is wrong.", body = OauthErrorBody),
    ),
)]
pub(crate) async fn issue_oauth_tokens(
    State(app): State<Arc<OrgApp>>,
    Extension(actor): Extension<Actor>,
    request: Request,
) -> Result<Response, OauthRefused> {
    let sent = Sent::read(request).await?;
    let request = sent.by(&actor);
    let pair = app.accounts.issue_tokens(request).await?;
    let answer = TokenAnswer {
        access_token: pair.access.expose().to_owned(),
        token_type: "Bearer",
        expires_in: pair.lifetime.as_secs(),
        refresh_token: pair.refresh.expose().to_owned(),
        scope: pair.scope,
    };
    Ok(shown_once(StatusCode::OK, &answer))
}

/// Revoke an OAuth token
///
/// Ends the grant of an access or refresh token of the client that asks (RFC 7009). The answer is the same for a token that
/// the client does not have.
#[utoipa::path(
    post, path = "/oauth/revoke", tag = "oauth",
    request_body(content = serde_json::Value, content_type = "application/x-www-form-urlencoded",
        description = "`token`, and the client as at the token endpoint."),
    responses(
        (status = 200, description = "The token is revoked."),
        (status = 400, description = "A parameter breaks a rule.", body = OauthErrorBody),
        (status = 401, description = "The client is unknown, or its secret is wrong.", body = OauthErrorBody),
    ),
)]
pub(crate) async fn revoke_oauth_token(
    State(app): State<Arc<OrgApp>>,
    Extension(actor): Extension<Actor>,
    request: Request,
) -> Result<Response, OauthRefused> {
    let sent = Sent::read(request).await?;
    let request = sent.by(&actor);
    app.accounts.revoke_token(request).await?;
    Ok(not_stored(StatusCode::OK.into_response()))
}

/// Parts of a request at the token or the revocation endpoint.
struct Sent {
    authorization: Option<String>,
    form: bytes::Bytes,
}

impl Sent {
    async fn read(request: Request) -> Result<Self, OauthRefused> {
        let (parts, body) = request.into_parts();
        if !is_form(&parts.headers) {
            let rule = "Content-Type: must be application/x-www-form-urlencoded";
            return Err(OauthErrorCode::InvalidRequest.because(rule).into());
        }
        Ok(Self {
            authorization: authorization(&parts.headers),
            form: small_body(body, FORM).await?,
        })
    }

    fn by<'a>(&'a self, actor: &'a Actor) -> TokenRequest<'a> {
        TokenRequest {
            authorization: self.authorization.as_deref(),
            form: &self.form,
            actor,
        }
    }
}

/// Returns the `Authorization` header; two of them, and one that is not text, are a header that proves nothing.
fn authorization(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().unwrap_or_default();
    Some(if values.next().is_none() { value } else { "" }.to_owned())
}
