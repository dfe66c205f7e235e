//! Invitation into an organization: anyone with its link can see it, and the invited person can accept it.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use maud::{Markup, html};
use sortie_accounts::InvitationStep;
use sortie_api::SignUpRule;
use sortie_api::{ErrorCode, Mode};
use sortie_store::people::Invited;

use super::{
    errors::{PageError, PageResult},
    forms::{HOME, Posted, Purpose, Visit, main_link, message},
    home::sign_out_form,
    layout::{Content, page},
    verification,
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
        "It was accepted, withdrawn or replaced, or it has expired. Ask for a new invitation.",
    )
}

/// Shows an invitation.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let token = visit.parameter("token").unwrap_or_default();
    invitation_page(&app, &visit, &token, StatusCode::OK).await
}

/// Page with the next step of the visitor.
async fn invitation_page(app: &OrgApp, visit: &Visit, token: &str, status: StatusCode) -> PageResult {
    let invited = app.accounts.find_invitation(token).await?.ok_or_else(gone)?;
    let step = match visit.person {
        Some(person) => next_step(app, visit, (&invited, token), person.user).await?,
        None => signed_out(app, token)?,
    };
    let body = html! {
        p.sub { b { (invited.invitation.email) } " is invited as " b { (invited.invitation.role.as_str()) } "." }
        (step)
    };
    let content = Content {
        title: format!("Join {}", invited.organization),
        body,
        leads_to: None,
    };
    Ok(page(status, &content))
}

/// Links to the sign-in and the sign-up.
fn signed_out(app: &OrgApp, token: &str) -> PageResult<Markup> {
    let back = format!("{PAGE}{token}");
    let options = app.accounts.options();
    let (sign_in, sign_up) = (
        Visit::link(&app.accounts, "/sign-in", &back)?,
        Visit::link(&app.accounts, "/sign-up", &back)?,
    );
    let is_open = options.sign_up != SignUpRule::Closed && options.mode == Mode::Hosted;
    Ok(html! {
        @if is_open {
            p.sub { "Sign up with this address to accept, or sign in if it has an account." }
            (main_link(&sign_up, "Sign up"))
            a.btn href=(sign_in) { "Sign in" }
        } @else {
            p.sub { "Sign in with this address to accept." }
            (main_link(&sign_in, "Sign in"))
        }
    })
}

/// Next step of a person who is signed in.
async fn next_step(
    app: &OrgApp,
    visit: &Visit,
    (invited, token): (&Invited, &str),
    user: sortie_api::UserId,
) -> PageResult<Markup> {
    let back = format!("{PAGE}{token}");
    let person = app.accounts.store().account(user).await?.person;
    Ok(match app.accounts.invitation_step(invited, &person)? {
        InvitationStep::Accept => {
            let form = visit.form(app, ACCEPT, token)?;
            html! {
                p.sub { "You are signed in as " b { (person.email) } "." }
                form method="post" action="/invitations/accept" {
                    input type="hidden" name="form" value=(form.sealed);
                    button.btn.primary type="submit" { "Accept" }
                }
            }
        }
        InvitationStep::VerifyAddress => verification::notice(app, visit, &person, &back)?,
        InvitationStep::OtherAddress => html! {
            p.note {
                "You are signed in as " b { (person.email) } ". Only " b { (invited.invitation.email) } " can accept."
            }
            (sign_out_form(app, visit, ("Sign out and continue", "btn primary"), &back)?)
        },
    })
}

/// Accepts an invitation.
pub(super) async fn accept(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let person = visit.person.ok_or_else(PageError::stale)?;
    let token = visit.opened(&app, ACCEPT, &fields)?;
    let invited = app.accounts.find_invitation(&token).await?.ok_or_else(gone)?;
    let account = app.accounts.store().account(person.user).await?;
    // The address may have changed since the page was shown.
    if app.accounts.invitation_step(&invited, &account.person)? != InvitationStep::Accept {
        return invitation_page(&app, &visit, &token, StatusCode::FORBIDDEN).await;
    }
    let accepted = app
        .accounts
        .accept_invitation((person.user, &visit.actor), &token);
    let joined = match accepted.await {
        Ok(joined) => joined,
        Err(error) if error.code == ErrorCode::NotFound => return Err(gone()),
        Err(error) => return Err(error.into()),
    };
    let body = html! {
        p.sub { "You are now a member of " b { (joined.name) } ", with the role " b { (joined.role.as_str()) } "." }
        (main_link(HOME, "Continue"))
    };
    Ok(message(StatusCode::OK, "Welcome", &body))
}
