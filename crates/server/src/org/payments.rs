//! `/v1/organizations/{id}/billing/…`: purchases of credits, their payments and receipts. The operator refunds a payment below
//! `/v1/operator`.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{
    OrgId, PaymentId,
    billing::{CreateCheckout, Payment, PaymentPage, ProviderPage, RefundPayment, RefundStatus},
    limits,
};
use sortie_store::money::PaymentRow;

use super::{Operator, OrgApp, VerifiedPerson};
use crate::kit::{Admin, ApiResult, Inner, Json, JsonBody, PageQuery, Path, Query};

fn shown(row: &PaymentRow) -> Payment {
    Payment {
        id: row.id,
        amount_cents: row.amount_cents,
        refunded_cents: row.refunded_cents,
        disputed_cents: row.disputed_cents,
        refund_status: RefundStatus::of(row.amount_cents, row.refunded_cents),
        created_at: row.created_at,
        topup_id: row.topup,
        receipt_endpoint: format!(
            "/v1/organizations/{}/billing/payments/{}/receipt",
            row.org, row.id
        ),
    }
}

/// Buy credits
///
/// Makes a page of the payment provider on which the amount is paid. The credits are there when the payment has succeeded. The
/// page can be paid for an hour, and an organization has at most 10 such pages. Where mail is configured, the address of the
/// signed-in person must be verified.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/billing/checkout", tag = "billing",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = CreateCheckout, description = "Amount, and whether the card is saved.",
        example = json!({"amount_cents": 2_500, "save_payment_method": true})),
    responses(
        (status = 200, description = "The page.", body = ProviderPage,
            example = json!({"url": "https://checkout.stripe.com/c/pay/cs_live_a1b2c3"})),
        (status = 409, description = "The organization has 10 pages that are not paid, the payment provider refuses, or the deployment does not accept payments.", body = sortie_api::ErrorBody,
            example = json!({"error": "the organization has too many checkouts that are not paid: they end after an hour", "code": "conflict"})),
    ),
)]
pub(crate) async fn create_checkout(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    _verified: VerifiedPerson,
    JsonBody(request, _room): JsonBody<CreateCheckout>,
) -> ApiResult<Json<ProviderPage>> {
    let billing = app.billing()?;
    let url = billing.create_checkout(&who, &request).await?;
    Ok(Json(ProviderPage { url }))
}

/// Open the customer portal
///
/// Makes a page of the payment provider on which the organization manages its cards. The address works for a few minutes.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/billing/portal", tag = "billing",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 200, description = "The page.", body = ProviderPage,
            example = json!({"url": "https://billing.stripe.com/p/session/live_a1b2c3"})),
        (status = 409, description = "The payment provider refuses, or the deployment does not accept payments.",
            body = sortie_api::ErrorBody, example = json!({"error": "this deployment does not accept payments", "code": "conflict"})),
    ),
)]
pub(crate) async fn create_portal(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
) -> ApiResult<Json<ProviderPage>> {
    let url = app.billing()?.create_portal(who.org).await?;
    Ok(Json(ProviderPage { url }))
}

/// List payments
///
/// Lists the payments of the organization, newest first.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/billing/payments", tag = "billing",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Payments on a page. Default: 25.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "A page of payments.", body = PaymentPage, example = json!({
        "payments": [{"id": "pay_01kafs6w1cefkstv6qr1ptb0mp", "amount_cents": 2_500, "refunded_cents": 500, "disputed_cents": 0,
            "refund_status": "partial", "created_at": "2026-11-20T21:31:00.000Z", "topup_id": "topup_01kafs6w1cefkstv6qr1ptb0mp",
            "receipt_endpoint": "/v1/organizations/org_01kafs6w1cefkstv6qr1ptb0mp/billing/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/receipt"}],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_payments(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    Query(page): Query<PageQuery<{ limits::PAYMENTS_PAGE }>>,
) -> ApiResult<Json<PaymentPage>> {
    let list = app.cursors.list(["payments".to_owned(), who.org.to_string()]);
    let store = app.accounts.store();
    let mut rows = store
        .list_payments(who.org, page.before(&list)?, page.rows())
        .await?;
    let next_cursor = page.cut(&mut rows, |last| list.after((last.created_at, last.id)));
    Ok(Json(PaymentPage {
        payments: rows.iter().map(shown).collect(),
        next_cursor,
    }))
}

/// Get a receipt
///
/// Returns the address of the receipt of a payment. 404 where the payment provider has made none.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/billing/payments/{payment_id}/receipt", tag = "billing",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("payment_id" = PaymentId, Path, description = "The payment.", example = "pay_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    responses((status = 200, description = "The receipt.", body = ProviderPage,
        example = json!({"url": "https://pay.stripe.com/receipts/payment/a1b2c3"}))),
)]
pub(crate) async fn get_receipt(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    Inner(payment): Inner<PaymentId>,
) -> ApiResult<Json<ProviderPage>> {
    let row = app.accounts.store().payment(who.org, payment).await?;
    let url = app.billing()?.receipt(&row).await?;
    Ok(Json(ProviderPage { url }))
}

/// Refund a payment
///
/// Refunds a payment, or a part of it, and takes the credits back, also those that were spent: the balance is negative then, and
/// new runs are refused. A part needs a `reference`, which names the refund: the same one twice is one refund.
#[utoipa::path(
    post, path = "/v1/operator/payments/{id}/refund", tag = "operator",
    params(("id" = PaymentId, Path, description = "The payment.", example = "pay_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = RefundPayment, description = "Amount, unless all that is left is refunded.",
        example = json!({"amount_cents": 500, "reference": "ticket-4711"})),
    responses(
        (status = 200, description = "The payment.", body = Payment, example = json!({
            "id": "pay_01kafs6w1cefkstv6qr1ptb0mp", "amount_cents": 2_500, "refunded_cents": 500, "disputed_cents": 0,
            "refund_status": "partial", "created_at": "2026-11-20T21:31:00.000Z", "topup_id": "topup_01kafs6w1cefkstv6qr1ptb0mp",
            "receipt_endpoint": "/v1/organizations/org_01kafs6w1cefkstv6qr1ptb0mp/billing/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/receipt"
        })),
        (status = 409, description = "Nothing is left of the payment, the payment provider refuses, or the refund has failed.", body = sortie_api::ErrorBody,
            example = json!({"error": "the payment was refunded before", "code": "conflict"})),
    ),
)]
pub(crate) async fn refund_payment(
    State(app): State<Arc<OrgApp>>,
    who: Operator,
    Path(payment): Path<PaymentId>,
    JsonBody(request, _room): JsonBody<RefundPayment>,
) -> ApiResult<Json<Payment>> {
    let billing = app.billing()?;
    let refunded = billing.refund(payment, &request, &who.actor).await?;
    tracing::info!(%payment, "refunded a payment");
    Ok(Json(shown(&refunded)))
}
