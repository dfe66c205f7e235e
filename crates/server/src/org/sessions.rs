//! `/v1/auth/sessions`: sessions of a person.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{
    SessionId,
    account::{Session, SessionClient},
};
use sortie_store::people::{SessionKind, SessionRow};

use super::{OrgApp, Person};
use crate::kit::{ApiResult, Json, Path};

pub(super) fn shown(session: SessionRow, current: SessionId) -> Session {
    Session {
        id: session.id,
        kind: match session.kind {
            SessionKind::Api => SessionClient::Api,
            SessionKind::Web => SessionClient::Web,
        },
        current: session.id == current,
        created_at: session.created_at,
        expires_at: session.expires_at,
        seen_at: session.seen_at,
        address: session.address,
        agent: session.agent,
    }
}

/// List your sessions
///
/// Lists where the signed-in person is signed in, newest first, at most 100.
#[utoipa::path(
    get, path = "/v1/auth/sessions", tag = "account",
    responses((status = 200, description = "The sessions.", body = [Session])),
)]
pub(crate) async fn list_sessions(
    State(app): State<Arc<OrgApp>>,
    who: Person,
) -> ApiResult<Json<Vec<Session>>> {
    let sessions = app.accounts.sessions(who.user).await?;
    let shown = sessions.into_iter().map(|session| shown(session, who.session));
    Ok(Json(shown.collect()))
}

/// End a session
///
/// Ends one of the person's sessions: its token stops working, on other nodes within five seconds.
#[utoipa::path(
    delete, path = "/v1/auth/sessions/{id}", tag = "account",
    params(("id" = SessionId, Path, description = "The session.", example = "sess_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 204, description = "The session has ended.")),
)]
pub(crate) async fn end_session(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    Path(id): Path<SessionId>,
) -> ApiResult<StatusCode> {
    app.accounts.end_session(who.user, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
