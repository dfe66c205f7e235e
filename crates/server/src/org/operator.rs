//! `/v1/operator`: organizations and people, for the operator of the deployment.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_accounts::NewLink;
use sortie_api::{
    ErrorCode, OrgId, Refusal, UserId,
    operator::{
        CreateUser, CreatedUser, OperatedOrganization, OperatedOrganizationPage, OperatedOwner, OperatedUser,
        OperatedUserPage, ResetLink, SuspendOrganization,
    },
};
use sortie_store::organizations::{OperatedOrganization as OrganizationRow, OperatedPerson};

use super::{Operator, OrgApp};
use crate::kit::{ApiResult, FromQuery, Json, JsonBody, PageQuery, Pairs, Path, Query, shown_once};

/// Runs of an organization that one query of the store reads.
const RUNS: u32 = 100;

/// Page of people, or the person with an email address.
pub(crate) struct UsersQuery {
    page: PageQuery,
    email: Option<String>,
}

impl FromQuery for UsersQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            page: PageQuery::from_query(pairs)?,
            email: pairs.text("email")?,
        })
    }
}

fn shown(row: OrganizationRow) -> OperatedOrganization {
    OperatedOrganization {
        id: row.id,
        name: row.name,
        created_at: row.created_at,
        owner: row
            .owner
            .zip(row.owner_email)
            .map(|(id, email)| OperatedOwner { id, email }),
        members: row.members,
        stored_bytes: row.stored_bytes,
        suspended_at: row.suspended_at,
        deleted_at: row.deleted_at,
        suspension_reason: row.suspended_why,
    }
}

fn shown_person(person: OperatedPerson) -> OperatedUser {
    OperatedUser {
        id: person.id,
        email: person.email,
        name: person.name,
        created_at: person.created_at,
        email_verified: person.email_verified_at.is_some(),
        disabled_at: person.disabled_at,
    }
}

fn shown_link(link: NewLink) -> ResetLink {
    ResetLink {
        url: link.url,
        expires_at: link.expires_at,
    }
}

/// List all organizations
///
/// Lists the organizations of the deployment in the order of their creation.
#[utoipa::path(
    get, path = "/v1/operator/organizations", tag = "operator",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Organizations on a page. Default: 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "A page of organizations.", body = OperatedOrganizationPage, example = json!({
        "items": [{"id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "created_at": "2026-11-20T21:30:00.000Z",
            "owner": {"id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com"}, "members": 3, "stored_bytes": 70000}],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_operated_organizations(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<OperatedOrganizationPage>> {
    let store = app.accounts.store();
    let rows = store.operated_organizations(page.after()?, page.rows()).await?;
    let mut items: Vec<_> = rows.into_iter().map(shown).collect();
    let next_cursor = page.cut(&mut items, |of| of.id.to_string());
    Ok(Json(OperatedOrganizationPage { items, next_cursor }))
}

/// Get an organization
///
/// Returns an organization of the deployment.
#[utoipa::path(
    get, path = "/v1/operator/organizations/{id}", tag = "operator",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The organization.", body = OperatedOrganization, example = json!({
        "id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "created_at": "2026-11-20T21:30:00.000Z",
        "owner": {"id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com"}, "members": 3, "stored_bytes": 70000
    }))),
)]
pub(crate) async fn get_operated_organization(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Path(org): Path<OrgId>,
) -> ApiResult<Json<OperatedOrganization>> {
    let row = app.accounts.store().operated_organization(org).await?;
    Ok(Json(shown(row)))
}

/// Suspend an organization
///
/// Refuses every operation of the engine API to the organization with 403, on every node within five seconds. Its queued
/// runs stay queued, and its schedules skip their occurrences. Active runs end normally; with `cancel` they are
/// cancelled. People can still read and leave the organization. A second suspension replaces the reason. An organization that
/// its owner has deleted cannot be suspended.
#[utoipa::path(
    post, path = "/v1/operator/organizations/{id}/suspend", tag = "operator",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = SuspendOrganization, description = "Reason, and whether active runs are cancelled.",
        example = json!({"reason": "unpaid invoice"})),
    responses(
        (status = 200, description = "The organization.", body = OperatedOrganization, example = json!({
            "id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "created_at": "2026-11-20T21:30:00.000Z",
            "members": 3, "stored_bytes": 70000, "suspended_at": "2026-11-20T21:30:00.000Z", "suspension_reason": "unpaid invoice"
        })),
        (status = 409, description = "The owner has deleted the organization.", body = sortie_api::ErrorBody, example = json!(
            {"error": "the organization was deleted by its owner", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn suspend_organization(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(org): Path<OrgId>,
    JsonBody(request, _room): JsonBody<SuspendOrganization>,
) -> ApiResult<Json<OperatedOrganization>> {
    let reason = request.reason.as_deref();
    let suspended = app.accounts.suspend_organization(&who.actor, org, reason).await?;
    let cancelled = if request.cancel {
        cancel_runs(&app, org).await?
    } else {
        0
    };
    tracing::info!(organization = %org, cancelled, "suspended an organization");
    Ok(Json(shown(suspended)))
}

/// Cancels the runs of an organization that nodes work on. Returns their number.
async fn cancel_runs(app: &OrgApp, org: OrgId) -> Result<u64, Refusal> {
    let (mut cancelled, mut after) = (0, None);
    loop {
        let runs = app.accounts.store().runs_at_work(org, after, RUNS).await?;
        let Some(last) = runs.last() else {
            return Ok(cancelled);
        };
        after = Some(*last);
        for (_, run) in runs {
            match app.engine.cancel_run(org, run).await {
                Ok(_) => cancelled += 1,
                Err(error) if error.code != ErrorCode::NotFound => return Err(error),
                // The run has already ended and been deleted.
                Err(_) => {}
            }
        }
    }
}

/// Resume an organization
///
/// Ends the suspension of an organization. Its waiting runs go on in their old order.
#[utoipa::path(
    post, path = "/v1/operator/organizations/{id}/resume", tag = "operator",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 200, description = "The organization.", body = OperatedOrganization, example = json!({
            "id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "created_at": "2026-11-20T21:30:00.000Z", "members": 3, "stored_bytes": 70000
        })),
        (status = 409, description = "The organization is not suspended, or its owner has deleted it.", body = sortie_api::ErrorBody, example = json!(
            {"error": "the organization is not suspended", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn resume_organization(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(org): Path<OrgId>,
) -> ApiResult<Json<OperatedOrganization>> {
    let resumed = app.accounts.resume_organization(&who.actor, org).await?;
    tracing::info!(organization = %org, "resumed an organization");
    Ok(Json(shown(resumed)))
}

/// List people
///
/// Lists the people of the deployment in the order in which they signed up, or finds one by the email address.
#[utoipa::path(
    get, path = "/v1/operator/users", tag = "operator",
    params(
        ("email" = Option<String>, Query, nullable = false, description = "Only the person with this email address.", example = "ann@example.com"),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "People on a page. Default: 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "A page of people.", body = OperatedUserPage, example = json!({
        "items": [{"id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann",
            "created_at": "2026-11-20T21:30:00.000Z", "email_verified": true}],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_users(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Query(UsersQuery { page, email }): Query<UsersQuery>,
) -> ApiResult<Json<OperatedUserPage>> {
    let people = app
        .accounts
        .people(email.as_deref(), page.after()?, page.rows())
        .await?;
    let mut items: Vec<_> = people.into_iter().map(shown_person).collect();
    let next_cursor = page.cut(&mut items, |of| of.id.to_string());
    Ok(Json(OperatedUserPage { items, next_cursor }))
}

/// Create an account
///
/// Creates the account of a person, who sets a password at the page of `reset_link` within a day.
#[utoipa::path(
    post, path = "/v1/operator/users", tag = "operator",
    request_body(content = CreateUser, description = "Address and name of the person.",
        example = json!({"email": "ann@example.com", "name": "Ann"})),
    responses(
        (status = 201, description = "The account, and the link for its person.", body = CreatedUser, example = json!({
            "user": {"id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann",
                "created_at": "2026-11-20T21:30:00.000Z", "email_verified": false},
            "reset_link": {"url": "https://accounts.example.com/reset-password?token=stm_…", "expires_at": "2026-11-21T21:30:00.000Z"}
        })),
        (status = 409, description = "The address has an account.", body = sortie_api::ErrorBody, example = json!(
            {"error": "this email address has an account", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn create_user(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    JsonBody(request, _room): JsonBody<CreateUser>,
) -> ApiResult<Response> {
    let made = app.accounts.create_account(&request).await?;
    tracing::info!(user = %made.person.id, "created an account for a person");
    let created = CreatedUser {
        user: shown_person(made.person),
        reset_link: shown_link(made.link),
    };
    Ok(shown_once(StatusCode::CREATED, &created))
}

/// Disable an account
///
/// Refuses sign-ins of the person and ends the person's sessions.
#[utoipa::path(
    post, path = "/v1/operator/users/{user_id}/disable", tag = "operator",
    params(("user_id" = UserId, Path, description = "The person.", example = "user_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The person.", body = OperatedUser, example = json!({
        "id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann",
        "created_at": "2026-11-20T21:30:00.000Z", "email_verified": true, "disabled_at": "2026-11-20T21:30:00.000Z"
    }))),
)]
pub(crate) async fn disable_user(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(user): Path<UserId>,
) -> ApiResult<Json<OperatedUser>> {
    let disabled = app.accounts.disable_account(&who.actor, user).await?;
    tracing::info!(%user, "disabled the account of a person");
    Ok(Json(shown_person(disabled)))
}

/// Unlink the identities of a person
///
/// Ends all accounts of the person at identity providers as ways to sign in, and the person's sessions. The person signs in by
/// the password, or by a link that sets one. A provider that is trusted for the email address links it again.
#[utoipa::path(
    delete, path = "/v1/operator/users/{user_id}/identities", tag = "operator",
    params(("user_id" = UserId, Path, description = "The person.", example = "user_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The person.", body = OperatedUser, example = json!({
        "id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann",
        "created_at": "2026-11-20T21:30:00.000Z", "email_verified": true
    }))),
)]
pub(crate) async fn unlink_user(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(user): Path<UserId>,
) -> ApiResult<Json<OperatedUser>> {
    let unlinked = app.accounts.unlink_account(&who.actor, user).await?;
    tracing::info!(%user, "unlinked the identities of a person");
    Ok(Json(shown_person(unlinked)))
}

/// Enable an account
///
/// Lets a person sign in again.
#[utoipa::path(
    post, path = "/v1/operator/users/{user_id}/enable", tag = "operator",
    params(("user_id" = UserId, Path, description = "The person.", example = "user_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The person.", body = OperatedUser, example = json!({
        "id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann",
        "created_at": "2026-11-20T21:30:00.000Z", "email_verified": true
    }))),
)]
pub(crate) async fn enable_user(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(user): Path<UserId>,
) -> ApiResult<Json<OperatedUser>> {
    let enabled = app.accounts.enable_account(&who.actor, user).await?;
    tracing::info!(%user, "enabled the account of a person");
    Ok(Json(shown_person(enabled)))
}

/// Make a link to set a password
///
/// Makes a link by which the person sets a password without the old one, within a day. Earlier links end.
#[utoipa::path(
    post, path = "/v1/operator/users/{user_id}/reset-link", tag = "operator",
    params(("user_id" = UserId, Path, description = "The person.", example = "user_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 201, description = "The link.", body = ResetLink, example = json!({
        "url": "https://accounts.example.com/reset-password?token=stm_…", "expires_at": "2026-11-21T21:30:00.000Z"
    }))),
)]
pub(crate) async fn create_reset_link(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Path(user): Path<UserId>,
) -> ApiResult<Response> {
    let link = app.accounts.make_reset_link(user).await?;
    tracing::info!(%user, "made a link to set a password");
    Ok(shown_once(StatusCode::CREATED, &shown_link(link)))
}
