//! Home page of a signed-in person, and the sign-out.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{StatusCode, header::SET_COOKIE};
use maud::{Markup, html};

use super::{
    forms::{HOME, PageResult, Posted, Purpose, Visit, message, see_other},
    layout::{Content, page},
};
use crate::org::OrgApp;

/// Purpose of the form that signs out.
const SIGN_OUT: Purpose = Purpose::of("sign-out");

/// Shows who is signed in.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let person = match visit.signed_in(&app, HOME)? {
        Ok(person) => person,
        Err(redirect) => return Ok(redirect),
    };
    let account = app.accounts.store().account(person.user).await;
    let person = account?.person;
    let is_unverified = person.email_verified_at.is_none() && app.accounts.options().mail.is_some();
    let form = visit.form(&app, SIGN_OUT, "")?;
    let body = html! {
        p.sub { "You are signed in on this device as " b { (person.email) } "." }
        @if is_unverified {
            p.note { "Verify this address: we sent a mail with a link to it." }
        }
        form method="post" action="/sign-out" {
            input type="hidden" name="form" value=(form.sealed);
            button.btn type="submit" { "Sign out" }
        }
    };
    let content = Content {
        title: "Signed in".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(StatusCode::OK, &content)))
}

/// Form that signs a person out who is not the one that a page is for.
pub(super) fn sign_out_form(app: &OrgApp, visit: &Visit) -> PageResult<Markup> {
    let form = visit.form(app, SIGN_OUT, "")?;
    Ok(html! {
        form.aside method="post" action="/sign-out" {
            input type="hidden" name="form" value=(form.sealed);
            button.link type="submit" { "Not you? Sign out" }
        }
    })
}

/// Ends the session of the browser.
pub(super) async fn sign_out(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult<Response> {
    let Posted(visit, fields) = posted;
    let Some(person) = visit.person else {
        return see_other("/sign-in");
    };
    visit.opened(&app, SIGN_OUT, &fields)?;
    app.accounts.end_session(person.user, person.session).await?;
    let body = html! {
        p.sub { "Your session on this device has ended." }
        p { a href="/sign-in" { "Sign in again" } }
    };
    let mut response = message(StatusCode::OK, "Signed out", &body);
    if let Some(cookie) = app.cookie.set("", 0) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}
