//! Start page of a signed-in person, and the sign-out.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{StatusCode, header::SET_COOKIE};
use maud::{Markup, html};
use sortie_api::Mode;

use super::{
    errors::PageResult,
    forms::{HOME, Posted, Purpose, Visit, main_link, message, see_other},
    organization, verification,
};
use crate::org::OrgApp;

/// Purpose of the form that signs out.
const SIGN_OUT: Purpose = Purpose::of("sign-out");

/// Shows who is signed in.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let user = match visit.signed_in(&app, HOME)? {
        Ok(person) => person.user,
        Err(redirect) => return Ok(redirect),
    };
    let person = app.accounts.store().account(user).await?.person;
    let organizations = app.accounts.organizations(user).await?;
    let needs_one = organizations.is_empty() && app.accounts.options().mode == Mode::Hosted;
    let body = html! {
        p.sub { "You are signed in on this device as " b { (person.email) } "." }
        @if verification::is_missing(&app, &person) {
            (verification::notice(&app, &visit, &person, HOME)?)
        } @else if needs_one {
            p.sub { "Runs, keys and credits belong to an organization. Name your first one." }
            (organization::form(&app, &visit, HOME, "")?)
        }
        @if !organizations.is_empty() {
            dl.facts {
                dt { "Your organizations" }
                @for organization in &organizations {
                    dd { (organization.name) " " span.dim { (organization.role.as_str()) } }
                }
            }
        }
        (sign_out_form(&app, &visit, ("Sign out", "btn"), "")?)
    };
    Ok(message(StatusCode::OK, "Signed in", &body))
}

/// Form that signs a person out. The person continues with `back`, or with the sign-in if it is empty.
pub(super) fn sign_out_form(
    app: &OrgApp,
    visit: &Visit,
    (label, class): (&str, &str),
    back: &str,
) -> PageResult<Markup> {
    let form = visit.form(app, SIGN_OUT, back)?;
    Ok(html! {
        form method="post" action="/sign-out" {
            input type="hidden" name="form" value=(form.sealed);
            button class=(class) type="submit" { (label) }
        }
    })
}

/// Ends the session of the browser.
pub(super) async fn sign_out(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult<Response> {
    let Posted(visit, fields) = posted;
    let Some(person) = visit.person else {
        return see_other("/sign-in");
    };
    let back = visit.opened(&app, SIGN_OUT, &fields)?;
    app.accounts.end_session(person.user, person.session).await?;
    let mut response = if back.is_empty() {
        let body = html! {
            p.sub { "Your session on this device has ended." }
            (main_link("/sign-in", "Sign in again"))
        };
        message(StatusCode::OK, "Signed out", &body)
    } else {
        see_other(&back)?
    };
    if let Some(cookie) = app.browsers.cookie.set("", 0, visit.transport) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}
