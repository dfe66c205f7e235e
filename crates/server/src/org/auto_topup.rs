//! `/v1/organizations/{id}/billing/auto-topup`: automatic purchases of credits.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{OrgId, auto_topup::PutAutoTopup, billing::AutoTopup};

use super::{OrgApp, VerifiedPerson};
use crate::kit::{Admin, ApiResult, Json, JsonBody};

/// Set automatic purchases
///
/// Enables or disables automatic purchases. While they are enabled, the saved card is charged `amount_cents` whenever fewer than
/// `threshold_cents` of credits are available. With `consent: true` the signed-in person agrees to this text, which is kept with
/// the name and the time: "Charge AMOUNT to the saved card of the organization (now BRAND ending in DIGITS) whenever less than
/// THRESHOLD of credits is available, without asking again, until automatic purchases are disabled." Where mail is configured,
/// the address of the signed-in person must be verified. A suspended organization can disable them.
#[utoipa::path(
    put, path = "/v1/organizations/{id}/billing/auto-topup", tag = "billing",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = PutAutoTopup, description = "Amounts and consent, or only `enabled: false`.",
        example = json!({"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "consent": true})),
    responses(
        (status = 200, description = "The automatic purchases.", body = AutoTopup, example = json!(
            {"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "payment_method_saved": true,
                "last_topup_status": null}
        )),
        (status = 409, description = "No card is saved, or the deployment does not accept payments.", body = sortie_api::ErrorBody,
            example = json!({"error": "no card is saved: buy credits with save_payment_method, or add a card in the customer portal, and try again", "code": "conflict"})),
    ),
)]
pub(crate) async fn put_auto_topup(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    VerifiedPerson(person): VerifiedPerson,
    JsonBody(request, _room): JsonBody<PutAutoTopup>,
) -> ApiResult<Json<AutoTopup>> {
    let billing = app.billing()?;
    if request.enabled {
        who.require_active()?;
    }
    Ok(Json(billing.put_auto_topup((&who, person.user), &request).await?))
}
