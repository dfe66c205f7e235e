//! Sign-in and sign-up. Each new session has a new secret; the form cookie never becomes a session.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{StatusCode, header::SET_COOKIE};
use maud::{Markup, html};
use sortie_accounts::{LoggedIn, PASSWORD_BYTES, SignedUp};
use sortie_api::SignUpRule;
use sortie_api::{
    Credential, ErrorCode, Mode,
    account::{self, LogIn},
    limits,
};

use super::{
    destination::Destination,
    errors::{PageError, PageResult, sentence},
    forms::{HOME, Posted, Purpose, Visit, message, see_other},
    invitation,
    layout::{Content, page},
    oidc, verification,
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
    let back = visit.way_back(&app);
    if visit.person.is_some() {
        return see_other(&back);
    }
    sign_in_page(&app, &visit, &back, (StatusCode::OK, Again::default())).await
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
        Ok(person) => signed_in(&app, &visit, &person, &back),
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
            sign_in_page(&app, &visit, &back, (StatusCode::UNAUTHORIZED, again)).await
        }
        Err(error) if matches!(error.code, ErrorCode::Unauthorized | ErrorCode::InvalidRequest) => {
            let again = again(&error.text);
            sign_in_page(&app, &visit, &back, (StatusCode::UNAUTHORIZED, again)).await
        }
        Err(error) if error.code == ErrorCode::Forbidden => {
            // The password is right, so the page may show that the account is not verified.
            match app.accounts.find_person(&email).await? {
                Some(person) if verification::is_missing(&app, &person) => {
                    let status = StatusCode::FORBIDDEN;
                    verification::required(&app, &visit, (&person, &back), status)
                }
                Some(_) | None => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows the sign-up.
pub(super) async fn show_sign_up(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let back = visit.way_back(&app);
    if visit.person.is_some() {
        return see_other(&back);
    }
    let destination = Destination::of(&app, &visit, &back).await?;
    let refused = match app.accounts.options().sign_up {
        SignUpRule::Open | SignUpRule::VerifyFirst => None,
        SignUpRule::Invited => (!destination.is_invitation()).then_some((
            "Sign-up needs an invitation",
            "Ask for an invitation, and open the link in it.",
        )),
        SignUpRule::Closed => Some((
            "Sign-up is closed",
            "Ask the operator of this service for an account.",
        )),
    };
    if let Some((title, text)) = refused {
        let sign_in = Visit::link(&app.accounts, "/sign-in", &back)?;
        let error = PageError::new(StatusCode::FORBIDDEN, title, text);
        return Err(error.with_link(sign_in, "Go to the sign-in page"));
    }
    sign_up_page(&app, &visit, &back, (StatusCode::OK, Again::default())).await
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
    let with_way_back = Some(back.as_str()).filter(|back| *back != HOME);
    match app
        .accounts
        .sign_up(applicant, &visit.client(), with_way_back)
        .await
    {
        Ok(SignedUp::LoggedIn(person)) => signed_in(&app, &visit, &person, &back),
        Ok(SignedUp::ByMail) => {
            let body = html! {
                p.sub { "We sent a mail to " b { (email) } ". Open the link in it to continue. You can close this page." }
            };
            Ok(message(StatusCode::ACCEPTED, "Check your email", &body))
        }
        Err(error)
            if matches!(
                error.code,
                ErrorCode::InvalidRequest | ErrorCode::Conflict | ErrorCode::Forbidden
            ) =>
        {
            let again = Again {
                name: &name,
                email: &email,
                error: Some(&error.text),
                asks_code: false,
            };
            sign_up_page(&app, &visit, &back, (StatusCode::BAD_REQUEST, again)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Sets the cookie of a new session and redirects the browser.
pub(super) fn signed_in(app: &OrgApp, visit: &Visit, person: &LoggedIn, back: &str) -> PageResult<Response> {
    let mut response = see_other(back)?;
    let seconds = app.accounts.options().session_length().as_secs();
    let cookies = [
        app.browsers
            .cookie
            .set(person.token.expose(), seconds, visit.transport),
        app.form_cookie.set("", 0, visit.transport),
    ];
    for cookie in cookies.into_iter().flatten() {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn sign_in_page(
    app: &OrgApp,
    visit: &Visit,
    back: &str,
    (status, again): (StatusCode, Again<'_>),
) -> PageResult {
    let form = visit.form(app, SIGN_IN, back)?;
    let destination = Destination::of(app, visit, back).await?;
    let providers = oidc::buttons(&app.accounts, back)?;
    let has_passwords = app.accounts.options().mode == Mode::Hosted;
    let signs_up = match app.accounts.options().sign_up {
        SignUpRule::Open | SignUpRule::VerifyFirst => has_passwords,
        SignUpRule::Invited => has_passwords && destination.is_invitation(),
        SignUpRule::Closed => false,
    };
    let body = html! {
        (destination.sentence())
        (reason(again.error))
        (providers)
        @if has_passwords {
            form method="post" action="/sign-in" {
                input type="hidden" name="form" value=(form.sealed);
                (email(again.email_for(&destination)))
                (password("Password", "current-password", None))
                @if again.asks_code {
                    div {
                        label.lab for="code" { "Code" }
                        input.input #code name="code" autocomplete="one-time-code" autofocus;
                    }
                }
                button.btn.primary type="submit" { "Sign in" }
            }
            p.dim.foot {
                @if signs_up {
                    span { "No account yet? " a href=(Visit::link(&app.accounts, "/sign-up", back)?) { "Sign up" } }
                }
                a href=(Visit::link(&app.accounts, "/forgot-password", back)?) { "Forgot your password?" }
            }
        }
    };
    let content = Content {
        title: "Sign in to Sortie".to_owned(),
        body,
        leads_to: None,
    };
    Ok(form.attach(page(status, &content)))
}

async fn sign_up_page(
    app: &OrgApp,
    visit: &Visit,
    back: &str,
    (status, again): (StatusCode, Again<'_>),
) -> PageResult {
    let form = visit.form(app, SIGN_UP, back)?;
    let destination = Destination::of(app, visit, back).await?;
    let with_way_back = Visit::link(&app.accounts, "/sign-in", back)?;
    let providers = oidc::buttons(&app.accounts, back)?;
    let body = html! {
        (destination.sentence())
        (reason(again.error))
        (providers)
        form method="post" action="/sign-up" {
            input type="hidden" name="form" value=(form.sealed);
            div {
                label.lab for="name" { "Name" }
                input.input #name name="name" value=(again.name) autocomplete="name" maxlength=(limits::NAME_CHARS) required;
            }
            (email(again.email_for(&destination)))
            (new_password("Password"))
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

impl<'a> Again<'a> {
    /// Value of the field of the address: the previous input, or the invited address.
    fn email_for(self, destination: &'a Destination) -> &'a str {
        if self.email.is_empty() {
            destination.email()
        } else {
            self.email
        }
    }
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

/// Field of a new password, with the rule for its length.
pub(super) fn new_password(label: &str) -> Markup {
    let (least, most) = PASSWORD_BYTES.into_inner();
    let hint =
        format!("{least} to {most} bytes: one for a plain letter, digit or sign, more for others such as ü.");
    password(label, "new-password", Some(&hint))
}

/// Field of a password.
fn password(label: &str, autocomplete: &str, hint: Option<&str>) -> Markup {
    html! {
        div {
            label.lab for="password" { (label) }
            input.input #password type="password" name="password" autocomplete=(autocomplete)
                aria-describedby=[hint.map(|_| "password-hint")] required;
            @if let Some(hint) = hint { p.hint #password-hint { (hint) } }
        }
    }
}
