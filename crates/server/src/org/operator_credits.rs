//! `/v1/operator`: credits of organizations, and the check of the ledger.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{
    OrgId,
    billing::{Balance, LedgerCheck, LedgerDifference, MoveCredits},
};
use sortie_store::money::Appended;

use super::{Operator, OrgApp, billing::shown};
use crate::kit::{ApiResult, Json, JsonBody, PageQuery, Path, Query};

/// Move credits
///
/// Gives credits to an organization, or corrects them. The reference names the movement: a repetition with the same
/// reference and amount changes nothing and is answered with 200. A correction may take credits, also those that were spent:
/// the balance is negative then, and new runs are refused.
#[utoipa::path(
    post, path = "/v1/operator/organizations/{id}/credits", tag = "operator",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = MoveCredits, description = "Amount, reason and reference.", example = json!(
        {"amount_micros": 5_000_000, "reason": "welcome credits", "reference": "ticket-4711"}
    )),
    responses(
        (status = 201, description = "The credits have moved. The answer has the credits of the organization.", body = Balance,
            example = json!({"balance_micros": 5_000_000, "reserved_micros": 0, "available_micros": 5_000_000})),
        (status = 200, description = "The movement was made before. The answer has the credits of the organization.", body = Balance,
            example = json!({"balance_micros": 5_000_000, "reserved_micros": 0, "available_micros": 5_000_000})),
        (status = 409, description = "The reference was used for another organization or amount.", body = sortie_api::ErrorBody,
            example = json!({"error": "the reference was used before, for another organization, amount or kind of movement", "code": "conflict"})),
    ),
)]
pub(crate) async fn move_credits(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(org): Path<OrgId>,
    JsonBody(request, _room): JsonBody<MoveCredits>,
) -> ApiResult<(StatusCode, Json<Balance>)> {
    let (appended, credit) = app.accounts.move_credits(&who.actor, org, &request).await?;
    let status = match appended {
        Appended::New => {
            tracing::info!(organization = %org, amount_micros = request.amount_micros, "moved credits");
            StatusCode::CREATED
        }
        Appended::Before => StatusCode::OK,
    };
    Ok((status, Json(shown(credit))))
}

/// Get the credits of an organization
///
/// Returns the credits of an organization of the deployment.
#[utoipa::path(
    get, path = "/v1/operator/organizations/{id}/credits", tag = "operator",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The credits.", body = Balance, example = json!(
        {"balance_micros": 5_000_000, "reserved_micros": 0, "available_micros": 5_000_000}
    ))),
)]
pub(crate) async fn get_operated_credits(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Path(org): Path<OrgId>,
) -> ApiResult<Json<Balance>> {
    Ok(Json(shown(app.accounts.credits(org).await?)))
}

/// Check the ledger
///
/// Compares the balances of organizations with the ledger, reserved credits with the runs that are not settled, the
/// charges with the costs of the runs, and the payments with their entries in the ledger. A difference is a defect of the
/// engine. Each page checks organizations in the order of their creation.
#[utoipa::path(
    get, path = "/v1/operator/ledger/check", tag = "operator",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Organizations on a page. Default: 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "Result for a page of organizations.", body = LedgerCheck, example = json!(
        {"organizations": 1, "runs": 12, "differences": [], "next_cursor": ""}
    ))),
)]
pub(crate) async fn check_ledger(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<LedgerCheck>> {
    let checked = app.engine.check_ledger(page.after()?, page.limit()).await?;
    let next_cursor = checked
        .next_after
        .map_or_else(String::new, |last| last.to_string());
    let count = |number| i64::try_from(number).unwrap_or(i64::MAX);
    Ok(Json(LedgerCheck {
        organizations: count(checked.organizations),
        runs: count(checked.runs),
        differences: checked.differences.into_iter().map(difference).collect(),
        next_cursor,
    }))
}

fn difference(found: sortie_store::money::LedgerDifference) -> LedgerDifference {
    LedgerDifference {
        organization_id: found.org,
        rule: found.rule.as_str().to_owned(),
        run_id: found.run,
        payment_id: found.payment,
        expected_micros: found.expected,
        found_micros: found.found,
    }
}
