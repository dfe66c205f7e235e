//! Sign-in with an identity provider: the redirect there, the callback, and the code of a second factor.
//!
//! The state that the browser returns is sealed for its form cookie, so a browser cannot be signed in with the callback of
//! another person's sign-in. The cookie ends with the sign-in.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, State},
    response::Response,
};
use http::{StatusCode, request::Parts};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use sortie_accounts::{Accounts, OidcAnswer, OidcFlow, OidcSignIn, OidcVisitor};
use sortie_api::{Credential, ErrorCode, Refusal};

use super::{
    errors::{PageError, PageResult},
    forms::{HOME, Posted, Purpose, Visit, main_link, message, see_other},
    invitation,
    layout::{Content, page},
    sign_in,
};
use crate::{kit::Path, org::OrgApp};

/// Purpose of the state that a provider returns.
const STATE: Purpose = within_ten_minutes("sign-in at a provider");
/// Maximum length of a return path for a sign-in with a provider, in bytes. The sealed state contains it, and the address at the
/// provider must be shorter than the 8 KB that servers accept.
const LONGEST_BACK: usize = 4_096;
const CODE: Purpose = within_ten_minutes("code of a sign-in at a provider");

const fn within_ten_minutes(name: &'static str) -> Purpose {
    Purpose {
        name,
        open: Duration::from_mins(10),
    }
}

/// Name of the provider in the path.
pub(super) struct ProviderName(String);

impl<S: Send + Sync> FromRequestParts<S> for ProviderName {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> PageResult<Self> {
        let name = Path::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name))
            .map_err(|_| Refusal::not_found().into())
    }
}

/// Person with a pending second factor, and the return path.
#[derive(Serialize, Deserialize)]
struct Half {
    person: String,
    back: String,
}

/// Buttons of the identity providers.
pub(super) fn buttons(accounts: &Accounts, back: &str) -> PageResult<Markup> {
    let links: PageResult<Vec<_>> = accounts
        .providers()
        .map(|provider| {
            let path = format!("/sign-in/oidc/{}", provider.name);
            Ok((&provider.label, Visit::link(accounts, &path, back)?))
        })
        .collect();
    let links = links?;
    Ok(html! {
        @for (label, link) in links {
            a.btn href=(link) { "Sign in with " (label) }
        }
    })
}

/// Redirects the person to a provider.
pub(super) async fn start(
    State(app): State<Arc<OrgApp>>,
    ProviderName(name): ProviderName,
    visit: Visit,
) -> PageResult {
    let back = visit.way_back(&app);
    if visit.person.is_some() {
        return see_other(&back);
    }
    if back.len() > LONGEST_BACK {
        return Err(PageError::new(
            StatusCode::BAD_REQUEST,
            "This address is too long",
            "A sign-in cannot return to this address. Sign in, then open the address again.",
        )
        .with_link("/sign-in", "Go to the sign-in page"));
    }
    let request = app.accounts.begin_oidc(&name, &back).await?;
    let state = visit.form(&app, STATE, &request.flow.to_text()?)?;
    let redirect = see_other(&request.url(&state.sealed))?;
    Ok(state.attach(redirect))
}

/// Handles the callback of a provider.
pub(super) async fn callback(
    State(app): State<Arc<OrgApp>>,
    ProviderName(name): ProviderName,
    visit: Visit,
) -> PageResult {
    let state = visit.parameter("state");
    let flow = visit.opened_text(&app, STATE, state.as_deref());
    let Some(flow) = flow.and_then(|text| OidcFlow::parse(&text, &name)) else {
        if visit.person.is_some() {
            // The person has signed in from another tab in the meantime.
            return see_other(HOME);
        }
        return Err(PageError::new(
            StatusCode::FORBIDDEN,
            "This sign-in has expired",
            "It took too long, was begun in another browser, or has ended already. Start again.",
        )
        .with_link("/sign-in", "Go to the sign-in page"));
    };
    let [code, issuer, error] = ["code", "iss", "error"].map(|name| visit.parameter(name));
    let answer = OidcAnswer {
        code: code.as_deref(),
        issuer: issuer.as_deref(),
        error: error.as_deref(),
    };
    let visitor = OidcVisitor {
        client: visit.client(),
        actor: &visit.actor,
        invitation: invitation::token_of(&flow.back).map(Credential::new),
    };
    match app.accounts.finish_oidc(&flow, &answer, &visitor).await {
        Ok(OidcSignIn::SignedIn(person)) => sign_in::signed_in(&app, &visit, &person, &flow.back),
        Ok(OidcSignIn::SecondFactor(person)) => {
            let half = Half {
                person,
                back: flow.back,
            };
            code_page(&app, &visit, &half, (StatusCode::OK, None))
        }
        Err(error) => refused(&app, &flow.back, error),
    }
}

/// Handles the code of the second factor.
pub(super) async fn code(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let text = match visit.opened_to_sign_in(&app, CODE, &fields)? {
        Ok(text) => text,
        Err(home) => return Ok(home),
    };
    let half: Half = serde_json::from_str(&text).map_err(|_| PageError::stale())?;
    let code = Credential::new(fields.get("code").unwrap_or_default());
    let visitor = OidcVisitor {
        client: visit.client(),
        actor: &visit.actor,
        invitation: None,
    };
    match app.accounts.finish_oidc_code(&half.person, &code, &visitor).await {
        Ok(person) => sign_in::signed_in(&app, &visit, &person, &half.back),
        Err(error) if error.code == ErrorCode::SecondFactorRequired => {
            let error = "The code is wrong or was used already.";
            code_page(&app, &visit, &half, (StatusCode::UNAUTHORIZED, Some(error)))
        }
        Err(error) => refused(&app, &half.back, error),
    }
}

/// Explains to a person why the sign-in was refused, with a link to start again.
fn refused(app: &OrgApp, back: &str, error: Refusal) -> PageResult {
    if error.code != ErrorCode::Forbidden {
        return Err(error.into());
    }
    let sign_in = Visit::link(&app.accounts, "/sign-in", back)?;
    let body = html! {
        p.sub { "Reason: " (error.text) "." }
        (main_link(&sign_in, "Go to the sign-in page"))
    };
    Ok(message(StatusCode::FORBIDDEN, "You are not signed in", &body))
}

fn code_page(
    app: &OrgApp,
    visit: &Visit,
    half: &Half,
    (status, error): (StatusCode, Option<&str>),
) -> PageResult<Response> {
    let text = serde_json::to_string(half).map_err(Refusal::internal)?;
    let form = visit.form(app, CODE, &text)?;
    let body = html! {
        (sign_in::reason(error))
        form method="post" action="/sign-in/code" {
            input type="hidden" name="form" value=(form.sealed);
            div {
                label.lab for="code" { "Code of your authenticator, or a recovery code" }
                input.input #code name="code" autocomplete="one-time-code" autofocus required;
            }
            button.btn.primary type="submit" { "Sign in" }
        }
    };
    let content = Content {
        title: "Second factor".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(status, &content)))
}
