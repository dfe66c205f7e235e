//! Authorization endpoint: a person decides whether an application may act for them, and in which organization.
//!
//! An invalid client or redirect URI is reported on a page. Every other error, and the decision, is sent to the redirect URI with
//! `iss`.

use std::{sync::Arc, time::Duration};

use axum::extract::State;
use http::StatusCode;
use maud::{Markup, html};
use sortie_accounts::{Authorization, AuthorizationRefusal, Scope};
use sortie_api::{ErrorCode, Refusal};
use sortie_store::people::OwnOrganization;

use super::{
    errors::{PageError, PageResult},
    forms::{Posted, Purpose, Visit, see_other},
    home::sign_out_form,
    layout::{Content, page},
    organization, verification,
};
use crate::org::OrgApp;

/// Purpose of the form for the decision.
const DECISION: Purpose = Purpose {
    name: "consent",
    open: Duration::from_mins(10),
};

/// Beginning of the address of the page, before the query of the application.
const PAGE: &str = "/oauth/authorize?";

/// Query of the application, where a way back leads to this page.
pub(super) fn query_of(path: &str) -> Option<&str> {
    path.strip_prefix(PAGE)
}

/// Name that an application gives itself, for a sentence.
pub(super) fn shown_name(asked: &Authorization) -> String {
    asked
        .client_name()
        .map_or_else(|| "an application".to_owned(), quoted)
}

/// Shows the requested access of an application.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let asked = match app.accounts.authorization(&visit.query, &visit.network()).await {
        Ok(asked) => asked,
        Err(AuthorizationRefusal::Redirect(location)) => return see_other(&location),
        Err(AuthorizationRefusal::Page(rule)) => {
            let text = format!("{rule}. Nothing was sent to the application.");
            let title = "This request cannot be answered";
            return Err(PageError::new(StatusCode::BAD_REQUEST, title, text));
        }
        Err(AuthorizationRefusal::Other(error)) => return Err(error.into()),
    };
    let path = format!("{PAGE}{}", visit.query);
    let person = match visit.signed_in(&app, &path)? {
        Ok(person) => person,
        Err(redirect) => return Ok(redirect),
    };
    let account = app.accounts.store().account(person.user).await?.person;
    let organizations = app.accounts.organizations_for(person.user, &asked).await?;
    let request = serde_json::to_string(&asked).map_err(Refusal::internal)?;
    let form = visit.form(&app, DECISION, &request)?;
    let sign_out = sign_out_form(&app, &visit, ("Not you? Sign out", "link"), &path)?;
    let first_step = if !organizations.is_empty() {
        html! {}
    } else if verification::is_missing(&app, &account) {
        verification::notice(&app, &visit, &account, &path)?
    } else {
        let is_member = !app.accounts.organizations(person.user).await?.is_empty();
        let form = organization::form(&app, &visit, &path, "")?;
        html! {
            p.note {
                @if is_member { "Your role does not allow this in any of your organizations. Ask an owner for the role, or create an organization." }
                @else { "An application needs an organization, and you do not have one yet. Create your first one." }
            }
            (form)
        }
    };
    let shown = ConsentPage {
        asked: &asked,
        email: &account.email,
        organizations: &organizations,
        first_step: &first_step,
        form: &form.sealed,
        sign_out: &sign_out,
    };
    let content = Content {
        title: format!("Allow {} to use Sortie?", shown_name(&asked)),
        body: shown.markup()?,
        leads_to: Some(asked.policy_source()?),
    };
    Ok(form.attach(page(StatusCode::OK, &content)))
}

/// Handles the decision of the person.
pub(super) async fn decide(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let person = visit.person.ok_or_else(PageError::stale)?;
    let request = visit.opened(&app, DECISION, &fields)?;
    let asked: Authorization = serde_json::from_str(&request).map_err(Refusal::internal)?;
    if fields.get("decision").as_deref() != Some("allow") {
        return see_other(&app.accounts.deny(&asked)?);
    }
    let org = fields.get("organization").and_then(|text| text.parse().ok());
    let org = org.ok_or_else(|| ErrorCode::InvalidRequest.because("organization: choose one"))?;
    let allowed = app.accounts.allow(person.user, org, &asked, &visit.actor).await?;
    see_other(&allowed)
}

/// Data for the decision of a person.
struct ConsentPage<'a> {
    asked: &'a Authorization,
    email: &'a str,
    organizations: &'a [OwnOrganization],
    /// First step of a person without a suitable organization, or empty.
    first_step: &'a Markup,
    form: &'a str,
    sign_out: &'a Markup,
}

impl ConsentPage<'_> {
    fn markup(&self) -> PageResult<Markup> {
        let name = self.asked.client_name();
        let host = self.asked.redirect_host()?;
        let is_loopback = self.asked.is_loopback()?;
        Ok(html! {
            dl.facts {
                dt { "Application" }
                dd {
                    @match name {
                        Some(name) => { (quoted(name)) " " span.dim { "(the name it gives itself)" } }
                        None => { "The application has no name" }
                    }
                }
                dt { "Sends you back to" }
                dd {
                    b.mono { (host) }
                    @if is_loopback { " " span.chip { "only on this computer" } }
                }
                dt { "Signed in as" }
                dd { (self.email) }
            }
            section.box {
                h2 { "It may" }
                ul { (allows(self.asked.scope())) }
            }
            (self.first_step)
            form method="post" action="/oauth/authorize" {
                input type="hidden" name="form" value=(self.form);
                (self.choice())
                div.actions {
                    @if !self.organizations.is_empty() {
                        button.btn.primary type="submit" name="decision" value="allow" { "Allow" }
                    }
                    button.btn type="submit" name="decision" value="deny" { "Refuse" }
                }
            }
            @if is_loopback {
                p.dim { "Allow this only if you have just started this application on this computer." }
            } @else {
                p.dim { "Allow this only if you know " b { (host) } " and have just come from there." }
            }
            (self.sign_out)
        })
    }

    /// Choice of the organization.
    fn choice(&self) -> Markup {
        match self.organizations {
            [] => html! {},
            [only] => html! {
                input type="hidden" name="organization" value=(only.id);
                p { "In the organization " b { (only.name) } "." }
            },
            several => html! {
                div {
                    label.lab for="organization" { "In the organization" }
                    select.input #organization name="organization" required {
                        @for organization in several {
                            option value=(organization.id) { (organization.name) }
                        }
                    }
                }
            },
        }
    }
}

/// Returns the name of an application in quotation marks, which delimit the untrusted text. Quotation marks in the name become
/// apostrophes.
fn quoted(name: &str) -> String {
    format!(
        "“{}”",
        name.replace(['"', '“', '”', '„', '‟', '«', '»', '＂'], "'")
    )
}

/// Sentences that describe the permissions of a scope.
fn allows(scope: Scope) -> Markup {
    html! {
        li { "start and cancel runs, which cost money, and read their results" }
        li { "read and change workflows, schedules and files" }
        @match scope {
            Scope::Member => {}
            Scope::Admin => {
                li { "change connections and budgets, and read usage and the audit log, as far as you may" }
            }
        }
        li { "until you end its access, at most for 180 days" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_its_quotation() {
        assert_eq!(quoted("App"), "“App”");
        assert_eq!(quoted("x” is by Sortie. “Allow"), "“x' is by Sortie. 'Allow”");
        assert_eq!(quoted("a \"b\" «c»"), "“a 'b' 'c'”");
    }
}
