//! `/v1/budgets`: cost limits for the runs of an organization per day or month.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{Budget, BudgetScope, ErrorCode, PutBudget, limits};

use super::listing::{Form, Listing, entries};
use crate::{
    app::App,
    kit::{Admin, ApiResult, Json, JsonBody, Member, Path, Query},
};

/// List budgets
///
/// Lists the organization's budgets by scope, each with its current window.
#[utoipa::path(
    get, path = "/v1/budgets", tag = "budgets",
    responses((status = 200, description = "The budgets.", body = [Budget], example = json!([{
        "scope": "organization", "limit_micros": 50_000_000, "period": "month", "spent_micros": 12_500_000,
        "held_micros": 2_000_000, "available_micros": 35_500_000, "resets_at": "2026-12-01T00:00:00.000Z",
        "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
    }]))),
)]
pub(crate) async fn list_budgets(
    State(app): State<Arc<App>>,
    who: Member,
    Query(()): Query<()>,
) -> ApiResult<Response> {
    let (engine, org) = (app.engine.clone(), who.org);
    let list = Listing {
        stretch: 100,
        read: move |after, limit| {
            let engine = engine.clone();
            async move {
                let budgets = engine.list_budgets(org, after, limit).await?;
                entries(&budgets, |budget| budget.scope.clone())
            }
        },
        after: None,
        limit: limits::BUDGETS,
        form: Form::Array,
    };
    list.respond(&app.bodies).await
}

/// Get a budget
///
/// Returns the budget with the amounts spent, held and available in its current window.
#[utoipa::path(
    get, path = "/v1/budgets/{scope}", tag = "budgets",
    params(("scope" = BudgetScope, Path, description = "The budget's scope.", example = "workflow:nightly-report")),
    responses((status = 200, description = "The budget.", body = Budget, example = json!({
        "scope": "workflow:nightly-report", "limit_micros": 5_000_000, "period": "day", "spent_micros": 1_250_000,
        "held_micros": 0, "available_micros": 3_750_000, "resets_at": "2026-11-21T00:00:00.000Z",
        "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
    }))),
)]
pub(crate) async fn get_budget(
    State(app): State<Arc<App>>,
    who: Member,
    Path(scope): Path<BudgetScope>,
) -> ApiResult<Json<Budget>> {
    Ok(Json(app.engine.get_budget(who.org, scope).await?))
}

/// Set a budget
///
/// Creates the budget or changes it. From then on a run is created only if its `max_cost_micros` fits in what every
/// budget that applies has available; otherwise the answer is 402. The resource that the scope names need not exist. A
/// changed limit counts at once and leaves existing runs alone; a changed period starts a new count.
#[utoipa::path(
    put, path = "/v1/budgets/{scope}", tag = "budgets",
    params(("scope" = BudgetScope, Path, description = "The budget's scope.", example = "workflow:nightly-report")),
    request_body(content = PutBudget, description = "Limit and period of the budget.",
        example = json!({"limit_micros": 5_000_000, "period": "day"})),
    responses(
        (status = 201, description = "The new budget.", body = Budget, links(
            ("get_budget" = (operation_id = "get_budget", parameters(("scope" = "$response.body#/scope")))),
            ("delete_budget" = (operation_id = "delete_budget", parameters(("scope" = "$response.body#/scope")))),
        ), example = json!({
            "scope": "workflow:nightly-report", "limit_micros": 5_000_000, "period": "day", "spent_micros": 0,
            "held_micros": 0, "available_micros": 5_000_000, "resets_at": "2026-11-21T00:00:00.000Z",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
        })),
        (status = 200, description = "The changed budget.", body = Budget, example = json!({
            "scope": "workflow:nightly-report", "limit_micros": 8_000_000, "period": "day", "spent_micros": 1_250_000,
            "held_micros": 0, "available_micros": 6_750_000, "resets_at": "2026-11-21T00:00:00.000Z",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T22:00:00.000Z"
        })),
        (status = 409, description = "The organization has reached its limit of budgets.", body = sortie_api::ErrorBody,
            example = json!({"error": "the organization has reached its limit of budgets", "code": "conflict"})),
    ),
)]
pub(crate) async fn put_budget(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(scope): Path<String>,
    JsonBody(put, _room): JsonBody<PutBudget>,
) -> ApiResult<(StatusCode, Json<Budget>)> {
    let scope: BudgetScope = scope
        .parse()
        .map_err(|rule| ErrorCode::InvalidRequest.because(format!("scope: {rule}")))?;
    let (budget, is_new) = app.engine.put_budget(&who, scope, put).await?;
    tracing::info!(budget = %budget.scope, by = %who.actor, "set a budget");
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(budget)))
}

/// Delete a budget
///
/// Deletes the budget. Existing runs continue. A budget that is set again starts a new count.
#[utoipa::path(
    delete, path = "/v1/budgets/{scope}", tag = "budgets",
    params(("scope" = BudgetScope, Path, description = "The budget's scope.", example = "workflow:nightly-report")),
    responses((status = 204, description = "The budget was deleted.")),
)]
pub(crate) async fn delete_budget(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(scope): Path<BudgetScope>,
) -> ApiResult<StatusCode> {
    app.engine.delete_budget(&who, scope.clone()).await?;
    tracing::info!(budget = %scope, by = %who.actor, "deleted a budget");
    Ok(StatusCode::NO_CONTENT)
}
