//! `/v1/webhooks/stripe`: signed events of the payment provider.

use std::sync::Arc;

use axum::{body::Body, extract::State};
use http::{HeaderMap, StatusCode};

use super::OrgApp;
use crate::kit::{ApiResult, small_body};

/// Path of the webhooks.
pub(crate) const STRIPE_WEBHOOK: &str = "/v1/webhooks/stripe";

/// Maximum size of an event, in bytes.
const LARGEST: usize = 1_024 * 1_024;

/// Receive an event of Stripe
///
/// Takes a webhook of Stripe. The header `Stripe-Signature` must have a signature of the body under a webhook secret of the
/// deployment, made within the last 5 minutes. The event is recorded and handled later; the same one twice is recorded once. An
/// event of a type that is not handled is recorded as ignored.
#[utoipa::path(
    post, path = "/v1/webhooks/stripe", tag = "billing",
    params(("Stripe-Signature" = String, Header, description = "Time and signatures.", example = "t=1763674200,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd")),
    request_body(content = serde_json::Value, description = "The event, at most 1 MiB.", example = json!(
        {"id": "evt_1", "type": "checkout.session.completed", "created": 1_763_674_200, "data": {"object": {"id": "cs_1"}}}
    )),
    responses((status = 200, description = "The event is recorded.")),
)]
pub(crate) async fn receive_stripe_event(
    State(app): State<Arc<OrgApp>>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let billing = app.billing()?;
    let body = small_body(body, LARGEST).await?;
    let signature = headers
        .get("stripe-signature")
        .and_then(|value| value.to_str().ok());
    billing.receive(signature, &body).await?;
    Ok(StatusCode::OK)
}
