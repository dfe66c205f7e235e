//! Invitation into an organization: anyone with its link can see it, and a signed-in person can accept it.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use maud::html;
use sortie_api::ErrorCode;

use super::{
    forms::{PageError, PageResult, Posted, Purpose, Visit, message},
    home::sign_out_form,
    layout::{Content, page},
};
use crate::org::OrgApp;

const ACCEPT: Purpose = Purpose::of("invitation");

/// Beginning of the address of the page, before the token.
const PAGE: &str = "/invitations/accept?token=";

/// Token of the invitation that a way back leads to.
pub(super) fn token_of(path: &str) -> Option<&str> {
    path.strip_prefix(PAGE)
}

fn gone() -> PageError {
    PageError::new(
        StatusCode::NOT_FOUND,
        "This invitation is not open",
        "It was accepted, withdrawn or replaced, or has expired. Ask for another one.",
    )
}

/// Shows an invitation.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let token = visit.parameter("token").unwrap_or_default();
    let invited = app.accounts.find_invitation(&token).await?.ok_or_else(gone)?;
    let back = format!("{PAGE}{token}");
    let form = visit.form(&app, ACCEPT, &token)?;
    let signed_in = match visit.person {
        Some(person) => {
            let account = app.accounts.store().account(person.user).await;
            let email = account?.person.email;
            Some((email, sign_out_form(&app, &visit)?))
        }
        None => None,
    };
    let (sign_in, sign_up) = (
        Visit::link(&app.accounts, "/sign-in", &back)?,
        Visit::link(&app.accounts, "/sign-up", &back)?,
    );
    let body = html! {
        p.sub {
            b { (invited.invitation.email) } " is invited as " b { (invited.invitation.role.as_str()) } "."
        }
        @if let Some((email, sign_out)) = &signed_in {
            p.sub { "You are signed in as " b { (email) } "." }
            form method="post" action="/invitations/accept" {
                input type="hidden" name="form" value=(form.sealed);
                button.btn.primary type="submit" { "Accept" }
            }
            (sign_out)
        } @else {
            p { a href=(sign_in) { "Sign in" } " or " a href=(sign_up) { "sign up" } " with this address to accept." }
        }
    };
    let content = Content {
        title: format!("Join {}", invited.organization),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(StatusCode::OK, &content)))
}

/// Accepts an invitation.
pub(super) async fn accept(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let person = visit.person.ok_or_else(PageError::stale)?;
    let token = visit.opened(&app, ACCEPT, &fields)?;
    let joined = match app
        .accounts
        .accept_invitation((person.user, &visit.actor), &token)
        .await
    {
        Ok(joined) => joined,
        Err(error) if error.code == ErrorCode::NotFound => return Err(gone()),
        Err(error) => return Err(error.into()),
    };
    let body = html! {
        p.sub { "You are now a member of " b { (joined.name) } ", with the role " b { (joined.role.as_str()) } "." }
    };
    Ok(message(StatusCode::OK, "Welcome", &body))
}
