//! A new password by mail. The link has a token in its query, which only the form submits.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use maud::html;
use sortie_api::{Credential, ErrorCode};
use sortie_store::people::Purpose as MailPurpose;

use super::{
    destination::Destination,
    errors::{PageError, PageResult},
    forms::{HOME, Posted, Purpose, Visit, main_link, message, parameter},
    layout::{Content, page},
    sign_in, verification,
};
use crate::org::OrgApp;

const FORGOT: Purpose = Purpose::of("forgot-password");
const RESET: Purpose = Purpose::of("reset-password");

/// Asks for the address of an account with a forgotten password.
pub(super) async fn show_forgot(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    if app.accounts.options().mail.is_none() {
        let text = "This service sends no mail. Ask its operator for a link that sets a new password.";
        let sign_in = Visit::link(&app.accounts, "/sign-in", &visit.way_back(&app))?;
        let error = PageError::new(StatusCode::CONFLICT, "Forgot your password?", text);
        return Err(error.with_link(sign_in, "Back to the sign-in"));
    }
    let back = visit.way_back(&app);
    let destination = Destination::of(&app, &visit, &back).await?;
    forgot_page(&app, &visit, &back, (StatusCode::OK, destination.email(), None))
}

/// Sends the mail if the address has an account. The response does not reveal whether it has one.
pub(super) async fn forgot(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let back = visit.opened(&app, FORGOT, &fields)?;
    let email = fields.get("email").unwrap_or_default();
    let with_way_back = Some(back.as_str()).filter(|back| *back != HOME);
    match app.accounts.forgot_password(&email, with_way_back) {
        Ok(()) => {}
        Err(error) if error.code == ErrorCode::InvalidRequest => {
            let again = (StatusCode::BAD_REQUEST, &*email, Some(&*error.text));
            return forgot_page(&app, &visit, &back, again);
        }
        Err(error) => return Err(error.into()),
    }
    let body = html! {
        p.sub { "If " b { (email) } " has an account, a mail is on its way. Its link sets a new password and works for an hour." }
        a.btn href=(Visit::link(&app.accounts, "/sign-in", &back)?) { "Back to the sign-in" }
    };
    Ok(message(StatusCode::ACCEPTED, "Check your email", &body))
}

fn forgot_page(
    app: &OrgApp,
    visit: &Visit,
    back: &str,
    (status, email, error): (StatusCode, &str, Option<&str>),
) -> PageResult {
    let form = visit.form(app, FORGOT, back)?;
    let body = html! {
        p.sub { "We send a link that sets a new password to the address of your account." }
        (sign_in::reason(error))
        form method="post" action="/forgot-password" {
            input type="hidden" name="form" value=(form.sealed);
            (sign_in::email(email))
            button.btn.primary type="submit" { "Send the link" }
        }
        p.dim { a href=(Visit::link(&app.accounts, "/sign-in", back)?) { "Back to the sign-in" } }
    };
    let content = Content {
        title: "Forgot your password?".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(status, &content)))
}

/// Asks for the new password.
pub(super) async fn show_reset(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    reset_page(&app, &visit, &visit.query, (StatusCode::OK, None)).await
}

/// Sets the new password.
pub(super) async fn reset(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let query = visit.opened(&app, RESET, &fields)?;
    let token = parameter(&query, "token").unwrap_or_default();
    let new = Credential::new(fields.get("password").unwrap_or_default());
    match app.accounts.reset_password(&token, new).await {
        Ok(()) => {
            let sign_in = Visit::link(&app.accounts, "/sign-in", &verification::way_back(&app, &query))?;
            let body = html! {
                p.sub { "You are signed out everywhere, and applications have lost their access." }
                (main_link(&sign_in, "Sign in with the new password"))
            };
            Ok(message(StatusCode::OK, "The password is set", &body))
        }
        // A token that has ended shows no form again.
        Err(error) if error.code == ErrorCode::InvalidRequest => {
            reset_page(&app, &visit, &query, (StatusCode::BAD_REQUEST, Some(&error.text))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Page with the form for the new password, or with the reason why the link has none.
async fn reset_page(
    app: &OrgApp,
    visit: &Visit,
    query: &str,
    (status, error): (StatusCode, Option<&str>),
) -> PageResult<Response> {
    let token = parameter(query, "token").unwrap_or_default();
    let person = app
        .accounts
        .person_of_mail(&token, MailPurpose::ResetPassword)
        .await?;
    let Some(person) = person else {
        let forgot = Visit::link(
            &app.accounts,
            "/forgot-password",
            &verification::way_back(app, query),
        )?;
        let body = html! {
            p.sub { "It was used already or has expired. Your password stays as it is." }
            (main_link(&forgot, "Ask for another link"))
        };
        return Ok(message(StatusCode::BAD_REQUEST, "This link has expired", &body));
    };
    let form = visit.form(app, RESET, query)?;
    let body = html! {
        p.sub { "For the account of " b { (person.email) } "." }
        (sign_in::reason(error))
        form method="post" action="/reset-password" {
            input type="hidden" name="form" value=(form.sealed);
            // Password managers save the password for this name.
            input type="text" name="username" value=(person.email) autocomplete="username" hidden;
            (sign_in::new_password("New password"))
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
