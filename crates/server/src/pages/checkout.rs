//! Landing pages after a visit to the payment provider. They need no sign-in: the address of the first one contains the id of
//! the checkout, which only the customer knows, and the others contain no personal data.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use maud::{Markup, html};
use sortie_api::TopupState;

use super::{
    errors::{PageError, PageResult},
    forms::{HOME, Visit, main_link, message},
};
use crate::org::OrgApp;

fn back() -> Markup {
    main_link(HOME, "Continue")
}

/// Tells a customer who has paid whether the credits are available. Checks the payment now, so that the customer need not wait
/// for a webhook.
pub(super) async fn paid(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let session = visit.parameter("session").unwrap_or_default();
    let state = match &app.billing {
        Some(billing) => billing.returned(&session).await.map_err(|error| {
            tracing::warn!(%error, "cannot read a checkout for its customer");
            PageError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Thank you",
                "We cannot read the payment now. Your credits are added when it succeeds.",
            )
        })?,
        None => None,
    };
    let (title, text) = match state {
        Some(TopupState::Paid) => ("Thank you", "The credits are available."),
        Some(TopupState::Created | TopupState::Open | TopupState::Processing) => (
            "Thank you",
            "The payment is on its way. The credits are added when it has succeeded.",
        ),
        Some(TopupState::Expired | TopupState::Failed | TopupState::RequiresAction) => (
            "The payment has not succeeded",
            "No credits were added. Try again, or ask the operator if money was taken.",
        ),
        None => (
            "This page has nothing to show",
            "Its address belongs to no purchase. The billing page has the payments of your organization.",
        ),
    };
    let status = if state.is_some() {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    Ok(message(status, title, &html! { p.sub { (text) } (back()) }))
}

/// Tells a customer who has cancelled that nothing was paid.
pub(super) async fn cancelled() -> PageResult {
    let body = html! { p.sub { "Nothing was paid. The page of the payment works for an hour, so you can still pay there." } (back()) };
    Ok(message(StatusCode::OK, "Not paid", &body))
}

/// Tells a customer who has subscribed to licenses that they become available automatically.
pub(super) async fn subscribed() -> PageResult {
    let text = "Your organization is entitled to its licenses when the payment has succeeded, mostly within seconds.";
    let body = html! { p.sub { (text) } (back()) };
    Ok(message(StatusCode::OK, "Thank you", &body))
}
