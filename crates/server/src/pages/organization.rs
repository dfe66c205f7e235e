//! Creation of an organization, for a person who needs one to continue.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use maud::{Markup, html};
use sortie_api::{ErrorCode, limits};

use super::{
    errors::{PageError, PageResult},
    forms::{Posted, Purpose, Visit, see_other},
    layout::{Content, page},
    sign_in, verification,
};
use crate::org::OrgApp;

const CREATE: Purpose = Purpose::of("create-organization");

/// Form that creates an organization and continues with `back`. `name` is the previous input.
pub(super) fn form(app: &OrgApp, visit: &Visit, back: &str, name: &str) -> PageResult<Markup> {
    let form = visit.form(app, CREATE, back)?;
    Ok(html! {
        form method="post" action="/organizations/new" {
            input type="hidden" name="form" value=(form.sealed);
            div {
                label.lab for="organization-name" { "Name of the organization" }
                input.input #organization-name name="name" value=(name) autocomplete="organization"
                    maxlength=(limits::PERSON_NAME_CHARS) aria-describedby="organization-hint" required;
                p.hint #organization-hint { "You can rename it, and invite others to it, later." }
            }
            button.btn.primary type="submit" { "Create and continue" }
        }
    })
}

/// Creates the organization.
pub(super) async fn create(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let person = visit.person.ok_or_else(PageError::stale)?;
    let back = visit.opened(&app, CREATE, &fields)?;
    let account = app.accounts.store().account(person.user).await?;
    if verification::is_missing(&app, &account.person) {
        let status = StatusCode::FORBIDDEN;
        return verification::required(&app, &visit, (&account.person, &back), status);
    }
    let name = fields.get("name").unwrap_or_default();
    let created = app
        .accounts
        .create_organization((person.user, &visit.actor), &name);
    match created.await {
        Ok(_) => see_other(&back),
        Err(error) if error.code == ErrorCode::InvalidRequest => {
            let body = html! {
                p.sub { "Runs, keys and credits belong to an organization." }
                (sign_in::reason(Some(&error.text)))
                (form(&app, &visit, &back, &name)?)
            };
            let content = Content {
                title: "Name your organization".to_owned(),
                body,
                leads_to: None,
            };
            Ok(page(StatusCode::BAD_REQUEST, &content))
        }
        Err(error) => Err(PageError::from(error).with_link(back, "Continue")),
    }
}
