//! Verification of an address, and a new password by mail. The link has a token in its query. Only the form submits the token,
//! after a click on its button, because programs that scan mails open the links in them.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use maud::html;
use sortie_api::{Credential, ErrorCode};

use super::{
    forms::{PageResult, Posted, Purpose, Visit, message},
    layout::{Content, page},
    sign_in,
};
use crate::org::OrgApp;

const VERIFY: Purpose = Purpose::of("verify-email");
const FORGOT: Purpose = Purpose::of("forgot-password");
const RESET: Purpose = Purpose::of("reset-password");

/// Shows the button that verifies an address.
pub(super) async fn show_verify(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let token = visit.parameter("token").unwrap_or_default();
    let form = visit.form(&app, VERIFY, &token)?;
    let body = html! {
        form method="post" action="/verify-email" {
            input type="hidden" name="form" value=(form.sealed);
            button.btn.primary type="submit" { "Verify this address" }
        }
    };
    let content = Content {
        title: "Verify your email address".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(StatusCode::OK, &content)))
}

/// Verifies an address.
pub(super) async fn verify(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let token = visit.opened(&app, VERIFY, &fields)?;
    match app.accounts.verify_email(&token).await {
        Ok(()) => {}
        Err(error) if error.code == ErrorCode::InvalidRequest => {
            let verified_by =
                "If your address is not verified yet, set a new password: that mail verifies it, too.";
            return Ok(ended_link(verified_by, "Set a new password"));
        }
        Err(error) => return Err(error.into()),
    }
    let body = html! { p.sub { "Your email address is verified." } p { a href="/" { "Go on" } } };
    Ok(message(StatusCode::OK, "Address verified", &body))
}

/// Page for a link with a used or expired token. `remedy` is the text before the link to another mail.
fn ended_link(remedy: &str, label: &str) -> Response {
    let body = html! {
        p.sub { "It was used already, or is too old. " (remedy) }
        p { a href="/forgot-password" { (label) } }
    };
    message(StatusCode::BAD_REQUEST, "This link no longer works", &body)
}

/// Asks for the address of an account with a forgotten password.
pub(super) async fn show_forgot(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let form = visit.form(&app, FORGOT, "")?;
    let body = html! {
        p.sub { "A mail to your address has a link that sets a new password." }
        form method="post" action="/forgot-password" {
            input type="hidden" name="form" value=(form.sealed);
            (sign_in::email(""))
            button.btn.primary type="submit" { "Send the mail" }
        }
    };
    let content = Content {
        title: "Forgot the password".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(StatusCode::OK, &content)))
}

/// Sends the mail if the address has an account. The response does not reveal whether it has one.
pub(super) async fn forgot(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    visit.opened(&app, FORGOT, &fields)?;
    app.accounts
        .forgot_password(&fields.get("email").unwrap_or_default())?;
    let body = html! {
        p.sub { "If the address has an account, a mail is on its way. Its link works for an hour." }
    };
    Ok(message(StatusCode::ACCEPTED, "Look into your mail", &body))
}

/// Asks for the new password.
pub(super) async fn show_reset(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let token = visit.parameter("token").unwrap_or_default();
    reset_page(&app, &visit, &token, (StatusCode::OK, None))
}

/// Sets the new password.
pub(super) async fn reset(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let token = visit.opened(&app, RESET, &fields)?;
    let new = Credential::new(fields.get("password").unwrap_or_default());
    match app.accounts.reset_password(&token, new).await {
        Ok(()) => {
            let body = html! {
                p.sub { "You are signed out everywhere, and applications have lost their access." }
                p { a href="/sign-in" { "Sign in with the new password" } }
            };
            Ok(message(StatusCode::OK, "The password is set", &body))
        }
        Err(error) if error.code == ErrorCode::InvalidRequest && error.text.starts_with("token: ") => {
            Ok(ended_link("Nothing was changed.", "Ask for another link"))
        }
        Err(error) if error.code == ErrorCode::InvalidRequest => {
            reset_page(&app, &visit, &token, (StatusCode::BAD_REQUEST, Some(&error.text)))
        }
        Err(error) => Err(error.into()),
    }
}

fn reset_page(
    app: &OrgApp,
    visit: &Visit,
    token: &str,
    (status, error): (StatusCode, Option<&str>),
) -> PageResult<Response> {
    let form = visit.form(app, RESET, token)?;
    let body = html! {
        (sign_in::reason(error))
        form method="post" action="/reset-password" {
            input type="hidden" name="form" value=(form.sealed);
            (sign_in::password("New password, 12 to 72 characters", "new-password"))
            button.btn.primary type="submit" { "Set the password" }
        }
    };
    let content = Content {
        title: "Set a new password".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(status, &content)))
}
