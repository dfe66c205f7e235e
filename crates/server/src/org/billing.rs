//! `/v1/organizations/{id}/balance` and `…/billing`: credits of an organization, and its ledger.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{
    OrgId,
    billing::{Balance, Billing, LedgerPage, PaymentMethod, PaymentMethodSync, PurchaseLimits},
    limits,
};
use sortie_billing::shown_auto_topup;
use sortie_store::money::{Credit, LedgerPosition, SavedCard};

use super::OrgApp;
use crate::kit::{Admin, ApiResult, Json, PageQuery, Query};

pub(super) fn shown(credit: Credit) -> Balance {
    Balance {
        balance_micros: credit.balance_micros,
        reserved_micros: credit.reserved,
        available_micros: credit.available(),
    }
}

/// Get the balance
///
/// Returns the credits of the organization: held, reserved for runs that are not settled, and available for new runs.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/balance", tag = "billing",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The credits.", body = Balance, example = json!(
        {"balance_micros": 5_000_000, "reserved_micros": 1_000_000, "available_micros": 4_000_000}
    ))),
)]
pub(crate) async fn get_balance(State(app): State<Arc<OrgApp>>, who: Admin) -> ApiResult<Json<Balance>> {
    let credit = app.accounts.store().credit(who.org).await?;
    Ok(Json(shown(credit)))
}

/// Get the billing information
///
/// Returns the credits of the organization with the newest movements, and how it pays. The saved card is read at the payment
/// provider at most once a minute; where that does not answer within two seconds, the answer has the last known card.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/billing", tag = "billing",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The billing information.", body = Billing, example = json!({
        "balance_micros": 4_998_750, "reserved_micros": 0, "available_micros": 4_998_750,
        "ledger": [
            {"kind": "charge", "amount_micros": -1250, "description": "run", "created_at": "2026-11-20T21:31:00.000Z",
                "run_id": "run_01kafs6w1cefkstv6qr1ptb0mp"},
            {"kind": "grant", "amount_micros": 5_000_000, "description": "welcome credits", "created_at": "2026-11-20T21:30:00.000Z"}
        ],
        "purchase_limits": {"min_amount_cents": 500, "max_amount_cents": 1_000_000, "min_threshold_cents": 500},
        "auto_topup": {"enabled": false, "threshold_cents": null, "amount_cents": null, "payment_method_saved": false,
            "last_topup_status": null},
        "payment_method": null, "payment_method_sync": "synced", "stripe_configured": false
    }))),
)]
pub(crate) async fn get_billing(State(app): State<Arc<OrgApp>>, who: Admin) -> ApiResult<Json<Billing>> {
    let store = app.accounts.store();
    // Read this before the balance: the balance then contains every purchase that is shown as successful.
    let automatic = store.auto_topup(who.org).await?;
    let (credit, entries) = store.billing(who.org, limits::PAGE).await?;
    let (card, sync) = match &app.billing {
        Some(billing) => billing.card(who.org).await?,
        None => (None, PaymentMethodSync::Synced),
    };
    Ok(Json(Billing {
        balance: shown(credit),
        ledger: entries.into_iter().map(|(_, entry)| entry).collect(),
        purchase_limits: PurchaseLimits::default(),
        auto_topup: shown_auto_topup(automatic, card.is_some()),
        payment_method: card.map(shown_card),
        payment_method_sync: sync,
        stripe_configured: app.billing.is_some(),
    }))
}

fn shown_card(card: SavedCard) -> PaymentMethod {
    PaymentMethod {
        brand: card.brand,
        last4: card.last4,
        exp_month: card.exp_month,
        exp_year: card.exp_year,
        source: card.source,
    }
}

/// List movements of credits
///
/// Lists all movements of the organization's credits, newest first. The balance is their sum.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/billing/ledger", tag = "billing",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Movements on a page. Default: 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "A page of movements.", body = LedgerPage, example = json!({
        "ledger": [{"kind": "charge", "amount_micros": -1250, "description": "run", "created_at": "2026-11-20T21:31:00.000Z",
            "run_id": "run_01kafs6w1cefkstv6qr1ptb0mp"}],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_ledger(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<LedgerPage>> {
    let list = app.cursors.list(["ledger".to_owned(), who.org.to_string()]);
    let before = page
        .before(&list)?
        .map(|(at, cause)| LedgerPosition { at, cause });
    let store = app.accounts.store();
    let mut entries = store.list_ledger(who.org, before, page.rows()).await?;
    let next_cursor = page.cut(&mut entries, |(oldest, _)| list.after((oldest.at, &oldest.cause)));
    Ok(Json(LedgerPage {
        ledger: entries.into_iter().map(|(_, entry)| entry).collect(),
        next_cursor,
    }))
}
