//! Sign-in and sign-up. Each new session has a new secret; the form cookie never becomes a session.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{StatusCode, header::SET_COOKIE};
use maud::{Markup, html};
use sortie_accounts::{LoggedIn, SignUp, SignedUp};
use sortie_api::{
    Credential, ErrorCode, Mode,
    account::{self, LogIn},
};

use super::{
    forms::{HOME, PageError, PageResult, Posted, Purpose, Visit, message, see_other, sentence},
    invitation,
    layout::{Content, page},
    oidc,
};
use crate::org::OrgApp;

const SIGN_IN: Purpose = Purpose::of("sign-in");
const SIGN_UP: Purpose = Purpose::of("sign-up");

/// Content of a form: empty, or the previous input with the reason of a refusal.
#[derive(Clone, Copy, Debug, Default)]
struct Again<'a> {
    name: &'a str,
    email: &'a str,
    error: Option<&'a str>,
    asks_code: bool,
}

/// Shows the sign-in.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let back = visit.way_back(&app).unwrap_or_else(|| HOME.to_owned());
    if visit.person.is_some() {
        return see_other(&back);
    }
    sign_in_page(&app, &visit, &back, (StatusCode::OK, Again::default()))
}

/// Signs a person in and redirects to the return path.
pub(super) async fn sign_in(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let back = match visit.opened_to_sign_in(&app, SIGN_IN, &fields)? {
        Ok(back) => back,
        Err(home) => return Ok(home),
    };
    let email = fields.get("email").unwrap_or_default();
    let code = fields.get("code").filter(|code| !code.is_empty());
    let request = LogIn {
        email: email.clone().into_owned(),
        password: Credential::new(fields.get("password").unwrap_or_default()),
        code: code.as_deref().map(Credential::new),
    };
    let again = |error| Again {
        email: &email,
        error: Some(error),
        asks_code: code.is_some(),
        ..Again::default()
    };
    match app.accounts.log_in(request, &visit.client()).await {
        Ok(person) => signed_in(&app, &person, &back),
        Err(error) if error.code == ErrorCode::SecondFactorRequired => {
            let error = if code.is_some() {
                "The code is wrong or was used already."
            } else {
                "Enter your password again, and the code of your authenticator or a recovery code."
            };
            let again = Again {
                asks_code: true,
                ..again(error)
            };
            sign_in_page(&app, &visit, &back, (StatusCode::UNAUTHORIZED, again))
        }
        Err(error) if matches!(error.code, ErrorCode::Unauthorized | ErrorCode::InvalidRequest) => {
            sign_in_page(
                &app,
                &visit,
                &back,
                (StatusCode::UNAUTHORIZED, again(&error.text)),
            )
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows the sign-up.
pub(super) async fn show_sign_up(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let back = visit.way_back(&app).unwrap_or_else(|| HOME.to_owned());
    if visit.person.is_some() {
        return see_other(&back);
    }
    if app.accounts.options().sign_up == SignUp::Closed {
        let text = "Ask the operator of this service for an account.";
        return Err(PageError::new(StatusCode::FORBIDDEN, "Sign-up is closed", text));
    }
    sign_up_page(&app, &visit, &back, (StatusCode::OK, Again::default()))
}

/// Signs a person up and redirects to the return path.
pub(super) async fn sign_up(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let back = match visit.opened_to_sign_in(&app, SIGN_UP, &fields)? {
        Ok(back) => back,
        Err(home) => return Ok(home),
    };
    let (name, email) = (
        fields.get("name").unwrap_or_default(),
        fields.get("email").unwrap_or_default(),
    );
    let applicant = account::SignUp {
        email: email.clone().into_owned(),
        password: Credential::new(fields.get("password").unwrap_or_default()),
        name: name.clone().into_owned(),
        invitation: invitation::token_of(&back).map(Credential::new),
    };
    match app.accounts.sign_up(applicant, &visit.client()).await {
        Ok(SignedUp::LoggedIn(person)) => signed_in(&app, &person, &back),
        Ok(SignedUp::ByMail) => {
            let body = html! {
                p.sub { "A mail to " b { (email) } " says how to go on. You can close this page." }
            };
            Ok(message(StatusCode::ACCEPTED, "Look into your mail", &body))
        }
        Err(error) if matches!(error.code, ErrorCode::InvalidRequest | ErrorCode::Conflict) => {
            let again = Again {
                name: &name,
                email: &email,
                error: Some(&error.text),
                asks_code: false,
            };
            sign_up_page(&app, &visit, &back, (StatusCode::BAD_REQUEST, again))
        }
        Err(error) => Err(error.into()),
    }
}

/// Sets the cookie of a new session and redirects the browser.
pub(super) fn signed_in(app: &OrgApp, person: &LoggedIn, back: &str) -> PageResult<Response> {
    let mut response = see_other(back)?;
    let seconds = app.accounts.options().session_length().as_secs();
    let cookies = [
        app.cookie.set(person.token.expose(), seconds),
        app.form_cookie.set("", 0),
    ];
    for cookie in cookies.into_iter().flatten() {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

fn sign_in_page(
    app: &OrgApp,
    visit: &Visit,
    back: &str,
    (status, again): (StatusCode, Again<'_>),
) -> PageResult {
    let form = visit.form(app, SIGN_IN, back)?;
    let with_way_back = Visit::link(&app.accounts, "/sign-up", back)?;
    let providers = oidc::buttons(&app.accounts, back)?;
    let has_passwords = app.accounts.options().mode == Mode::Hosted;
    let body = html! {
        (reason(again.error))
        (providers)
        @if has_passwords {
        form method="post" action="/sign-in" {
            input type="hidden" name="form" value=(form.sealed);
            (email(again.email))
            (password("Password", "current-password"))
            @if again.asks_code {
                div {
                    label.lab for="code" { "Code" }
                    input.input #code name="code" autocomplete="one-time-code" autofocus;
                }
            }
            button.btn.primary type="submit" { "Sign in" }
        }
        }
        @if has_passwords && app.accounts.options().sign_up != SignUp::Closed {
            p.dim { "No account yet? " a href=(with_way_back) { "Sign up" } }
        }
        @if has_passwords {
            p.dim { a href="/forgot-password" { "Forgot the password?" } }
        }
    };
    let content = Content {
        title: "Sign in to Sortie".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(status, &content)))
}

fn sign_up_page(
    app: &OrgApp,
    visit: &Visit,
    back: &str,
    (status, again): (StatusCode, Again<'_>),
) -> PageResult {
    let form = visit.form(app, SIGN_UP, back)?;
    let with_way_back = Visit::link(&app.accounts, "/sign-in", back)?;
    let providers = oidc::buttons(&app.accounts, back)?;
    let body = html! {
        (reason(again.error))
        (providers)
        form method="post" action="/sign-up" {
            input type="hidden" name="form" value=(form.sealed);
            div {
                label.lab for="name" { "Name" }
                input.input #name name="name" value=(again.name) autocomplete="name" required;
            }
            (email(again.email))
            (password("Password, 12 to 72 characters", "new-password"))
            button.btn.primary type="submit" { "Sign up" }
        }
        p.dim { "Have an account? " a href=(with_way_back) { "Sign in" } }
    };
    let content = Content {
        title: "Sign up for Sortie".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(status, &content)))
}

/// Reason of a refusal.
pub(super) fn reason(error: Option<&str>) -> Markup {
    html! {
        @if let Some(error) = error {
            p.error role="alert" { (sentence(error)) }
        }
    }
}

/// Field of an email address.
pub(super) fn email(value: &str) -> Markup {
    html! {
        div {
            label.lab for="email" { "Email address" }
            input.input #email type="email" name="email" value=(value) autocomplete="username" required;
        }
    }
}

/// Field of a password.
pub(super) fn password(label: &str, autocomplete: &str) -> Markup {
    html! {
        div {
            label.lab for="password" { (label) }
            input.input #password type="password" name="password" autocomplete=(autocomplete) required;
        }
    }
}
