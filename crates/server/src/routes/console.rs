//! `/v1/console…`: sign-in of browsers at the console of a self-hosted engine.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, Uri, header::SET_COOKIE};
use sortie_api::{
    ErrorCode, Refusal,
    console::{BeginConsoleSession, BegunConsoleSession, ConsoleInfo, ConsoleSession, CreatedConsoleCode},
};
use sortie_engine::{ConsoleSignIn, Engine};
use sortie_store::access::{Actor, By, CONSOLE_SESSION, Principal};

use crate::{
    app::App,
    browsers::Browsers,
    kit::{ApiResult, Credential, Json, JsonBody, Member, Token, Transport, shown_once},
};

/// Path of the page where people sign in.
pub(crate) const SIGN_IN: &str = "/sign-in";

/// Returns the rules for browsers of a server with a console.
pub(crate) fn with_console(browsers: Option<&Arc<Browsers>>) -> Result<&Arc<Browsers>, Refusal> {
    browsers
        .filter(|browsers| browsers.console.is_some())
        .ok_or_else(|| ErrorCode::NotFound.because("the console is disabled (console = false)"))
}

/// Describes the console. `sign_in` is the page where people sign in.
pub(crate) fn console_info(engine: &Engine, sign_in: Option<&str>) -> ConsoleInfo {
    ConsoleInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mode: engine.mode(),
        sign_in_url: sign_in.map(str::to_owned),
    }
}

/// Answers a sign-out, and deletes the cookie.
pub(crate) fn signed_out(browsers: &Browsers, transport: Transport) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = browsers.cookie.set("", 0, transport) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// Returns the principal of a request with a session, and the end of the session.
fn session(credential: &Credential) -> Result<(Principal, ConsoleSession), Refusal> {
    if let Credential::Principal(principal) = credential
        && let (By::Session(id), Some(expires_at)) = (principal.by, principal.until)
    {
        return Ok((*principal, ConsoleSession { id, expires_at }));
    }
    Err(ErrorCode::NotFound.because("this request has no session: its credential is an API key"))
}

/// Describe the console
///
/// Returns what the sign-in page of the console shows. Needs no credential. 404 if the console is disabled.
#[utoipa::path(
    get, path = "/v1/console", tag = "console",
    responses(
        (status = 200, description = "The console.", body = ConsoleInfo,
            example = json!({"version": "1.0.0", "mode": "self-hosted"})),
        (status = 404, description = "The console is disabled.", body = sortie_api::ErrorBody,
            example = json!({"error": "the console is disabled (console = false)", "code": "not_found"})),
    ),
)]
pub(crate) async fn get_console(State(app): State<Arc<App>>) -> ApiResult<Json<ConsoleInfo>> {
    with_console(app.browsers.as_ref())?;
    let sign_in = app.people.as_ref().map(|_| SIGN_IN);
    Ok(Json(console_info(&app.engine, sign_in)))
}

/// Sign in at the console
///
/// Exchanges an API key or a code for a session with the role of the key, and sets the session's cookie. The session ends twelve
/// hours after its last use, when it is seven days old, and with its key. The request must come from a page of this address
/// (`Sec-Fetch-Site`, or `Origin` where that is missing) and have the header `X-Sortie-Console: 1`. Self-hosted engines only.
#[utoipa::path(
    post, path = "/v1/console/sessions", tag = "console",
    request_body(content = BeginConsoleSession, description = "A key or a code.", example = json!({"key": "sts_…"})),
    responses(
        (status = 201, description = "The browser is signed in.", body = BegunConsoleSession,
            example = json!({"id": "sess_01kafs6w1cefkstv6qr1ptb0mp"})),
        (status = 401, description = "The key is not valid, or the code is unknown, expired or used.", body = sortie_api::ErrorBody,
            example = json!({"error": "code: unknown, expired or used already. A code works once and for a minute: run `sortie console` again", "code": "unauthorized"})),
        (status = 403, description = "The request comes from another page.", body = sortie_api::ErrorBody,
            example = json!({"error": "X-Sortie-Console: a change with the cookie must have this header with the value 1", "code": "forbidden"})),
        (status = 404, description = "The console is disabled.", body = sortie_api::ErrorBody,
            example = json!({"error": "the console is disabled (console = false)", "code": "not_found"})),
    ),
)]
pub(crate) async fn begin_console_session(
    State(app): State<Arc<App>>,
    Extension(actor): Extension<Actor>,
    (headers, uri): (HeaderMap, Uri),
    Extension(transport): Extension<Transport>,
    JsonBody(request, _room): JsonBody<BeginConsoleSession>,
) -> ApiResult<Response> {
    let browsers = with_console(app.browsers.as_ref())?;
    browsers.check_sign_in(uri.path(), &headers, transport)?;
    let sign_in = match (&request.key, &request.code) {
        (Some(key), None) => ConsoleSignIn::Key(key),
        (None, Some(code)) => ConsoleSignIn::Code(code),
        (None, None) | (Some(_), Some(_)) => {
            return Err(ErrorCode::InvalidRequest
                .because("key: give either a key or a code")
                .into());
        }
    };
    let (id, token) = app.engine.begin_console_session(sign_in, &actor).await?;
    tracing::info!(session.id = %id, "signed in at the console");
    let mut response = shown_once(StatusCode::CREATED, &BegunConsoleSession { id });
    let cookie = browsers
        .cookie
        .set(token.expose(), CONSOLE_SESSION.as_secs(), transport);
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Get the current session
///
/// Returns the session of this request: of a key at the console, or of a person. 404 for a request with an API key. Self-hosted
/// engines only.
#[utoipa::path(
    get, path = "/v1/console/sessions/current", tag = "console",
    responses(
        (status = 200, description = "The session.", body = ConsoleSession,
            example = json!({"id": "sess_01kafs6w1cefkstv6qr1ptb0mp", "expires_at": "2026-11-21T09:30:00.000Z"})),
        (status = 404, description = "The request has no session.", body = sortie_api::ErrorBody,
            example = json!({"error": "this request has no session: its credential is an API key", "code": "not_found"})),
    ),
)]
pub(crate) async fn get_console_session(
    State(app): State<Arc<App>>,
    _who: Member,
    Extension(credential): Extension<Credential>,
) -> ApiResult<Json<ConsoleSession>> {
    with_console(app.browsers.as_ref())?;
    Ok(Json(session(&credential)?.1))
}

/// Sign out
///
/// Ends the session of this request and deletes its cookie. 404 for a request with an API key. Self-hosted engines only.
#[utoipa::path(
    delete, path = "/v1/console/sessions/current", tag = "console",
    responses(
        (status = 204, description = "The session has ended."),
        (status = 404, description = "The request has no session.", body = sortie_api::ErrorBody,
            example = json!({"error": "this request has no session: its credential is an API key", "code": "not_found"})),
    ),
)]
pub(crate) async fn end_console_session(
    State(app): State<Arc<App>>,
    _who: Member,
    Extension(credential): Extension<Credential>,
    Extension(transport): Extension<Transport>,
) -> ApiResult<Response> {
    let browsers = with_console(app.browsers.as_ref())?;
    let (principal, session) = session(&credential)?;
    match (principal.user, &app.people) {
        (Some(user), Some(people)) => people.end_session(user, session.id).await?,
        (Some(_), None) | (None, _) => app.engine.end_console_session(session.id).await?,
    }
    Ok(signed_out(browsers, transport))
}

/// Create a code for the console
///
/// Returns a code that begins one session with the role of the key within a minute. `sortie console` opens the console with it.
/// Needs an API key. Self-hosted engines only.
#[utoipa::path(
    post, path = "/v1/console/codes", tag = "console",
    responses(
        (status = 201, description = "The code. It is shown this once.", body = CreatedConsoleCode,
            example = json!({"code": "stl_…", "expires_at": "2026-11-20T21:31:00.000Z"})),
        (status = 403, description = "The credential is not an API key.", body = sortie_api::ErrorBody,
            example = json!({"error": "a code needs an API key: send Authorization: Bearer <API key>", "code": "forbidden"})),
        (status = 404, description = "The console is disabled.", body = sortie_api::ErrorBody,
            example = json!({"error": "the console is disabled (console = false)", "code": "not_found"})),
    ),
)]
pub(crate) async fn create_console_code(
    State(app): State<Arc<App>>,
    who: Member,
    Extension(token): Extension<Token>,
) -> ApiResult<Response> {
    with_console(app.browsers.as_ref())?;
    let Some(By::Key(key)) = who.actor.by else {
        let text = "a code needs an API key: send Authorization: Bearer <API key>";
        return Err(ErrorCode::Forbidden.because(text).into());
    };
    let code = app
        .engine
        .create_console_code((who.org, key), token.hash())
        .await?;
    Ok(shown_once(StatusCode::CREATED, &code))
}
