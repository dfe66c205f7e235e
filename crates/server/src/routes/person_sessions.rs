//! `/v1/admin/sessions`: sessions of the people who sign in at a self-hosted engine.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{Refusal, SessionId, account::PersonSession};
use sortie_store::people::MemberSession;

use crate::{
    app::App,
    kit::{Admin, ApiResult, Json, Path, Query},
};

fn shown(of: MemberSession) -> PersonSession {
    PersonSession {
        id: of.session.id,
        user_id: of.user,
        email: of.email,
        created_at: of.session.created_at,
        expires_at: of.session.expires_at,
        seen_at: of.session.seen_at,
        address: of.session.address,
        agent: of.session.agent,
    }
}

/// List people's sessions
///
/// Lists the sessions of people who signed in with an identity provider, newest first, at most 1,000. Self-hosted engines only.
#[utoipa::path(
    get, path = "/v1/admin/sessions", tag = "administration",
    responses((status = 200, description = "The sessions.", body = [PersonSession], example = json!([{
        "id": "sess_01kafs6w1cefkstv6qr1ptb0mp", "user_id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com",
        "created_at": "2026-11-20T21:30:00.000Z", "expires_at": "2026-11-21T09:30:00.000Z",
        "seen_at": "2026-11-20T21:30:00.000Z", "address": "203.0.113.7"
    }]))),
)]
pub(crate) async fn list_person_sessions(
    State(app): State<Arc<App>>,
    who: Admin,
    Query(()): Query<()>,
) -> ApiResult<Json<Vec<PersonSession>>> {
    let Some(people) = &app.people else {
        return Ok(Json(Vec::new()));
    };
    let sessions = people.member_sessions(who.org).await?;
    Ok(Json(sessions.into_iter().map(shown).collect()))
}

/// End a person's session
///
/// Ends a session: its token stops working, on other nodes within five seconds. The person can sign in again as long as the
/// identity provider allows it. Self-hosted engines only.
#[utoipa::path(
    delete, path = "/v1/admin/sessions/{id}", tag = "administration",
    params(("id" = SessionId, Path, description = "The session.", example = "sess_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 204, description = "The session has ended.")),
)]
pub(crate) async fn end_person_session(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(id): Path<SessionId>,
) -> ApiResult<StatusCode> {
    let people = app.people.as_ref().ok_or_else(Refusal::not_found)?;
    people.end_member_session(&who, id).await?;
    tracing::info!(session.id = %id, by = %who.actor, "ended the session of a person");
    Ok(StatusCode::NO_CONTENT)
}
