//! `/v1/console…` of a hosted deployment. People sign in on the pages of this listener; the console uses their session.

use std::sync::Arc;

use axum::{Extension, extract::State, response::Response};
use sortie_api::console::{ConsoleInfo, ConsoleSession};

use super::{OrgApp, Person};
use crate::{
    kit::{ApiResult, Json, Transport},
    routes::{SIGN_IN, console_info, signed_out, with_console},
};

/// Describe the console
///
/// Returns the version of the deployment and the page where people sign in. Needs no credential. 404 if the console is disabled.
#[utoipa::path(
    get, path = "/v1/console", tag = "console",
    responses(
        (status = 200, description = "The console.", body = ConsoleInfo,
            example = json!({"version": "1.0.0", "mode": "hosted", "sign_in_url": "/sign-in"})),
        (status = 404, description = "The console is disabled.", body = sortie_api::ErrorBody,
            example = json!({"error": "the console is disabled (console = false)", "code": "not_found"})),
    ),
)]
pub(crate) async fn get_org_console(State(app): State<Arc<OrgApp>>) -> ApiResult<Json<ConsoleInfo>> {
    with_console(Some(&app.browsers))?;
    Ok(Json(console_info(&app.engine, Some(SIGN_IN))))
}

/// Get the current session
///
/// Returns the session of the signed-in person.
#[utoipa::path(
    get, path = "/v1/console/sessions/current", tag = "console",
    responses(
        (status = 200, description = "The session.", body = ConsoleSession,
            example = json!({"id": "sess_01kafs6w1cefkstv6qr1ptb0mp", "expires_at": "2026-12-20T21:30:00.000Z"})),
        (status = 404, description = "The console is disabled.", body = sortie_api::ErrorBody,
            example = json!({"error": "the console is disabled (console = false)", "code": "not_found"})),
    ),
)]
pub(crate) async fn get_org_console_session(
    State(app): State<Arc<OrgApp>>,
    who: Person,
) -> ApiResult<Json<ConsoleSession>> {
    with_console(Some(&app.browsers))?;
    Ok(Json(ConsoleSession {
        id: who.session,
        expires_at: who.until,
    }))
}

/// Sign out
///
/// Ends the session of this request and deletes its cookie.
#[utoipa::path(
    delete, path = "/v1/console/sessions/current", tag = "console",
    responses(
        (status = 204, description = "The session has ended."),
        (status = 404, description = "The console is disabled.", body = sortie_api::ErrorBody,
            example = json!({"error": "the console is disabled (console = false)", "code": "not_found"})),
    ),
)]
pub(crate) async fn end_org_console_session(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    Extension(transport): Extension<Transport>,
) -> ApiResult<Response> {
    with_console(Some(&app.browsers))?;
    app.accounts.end_session(who.user, who.session).await?;
    Ok(signed_out(&app.browsers, transport))
}
