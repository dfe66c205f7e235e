//! Verification of email addresses. The link of a mail has a token in its query. Only the form submits the token, after a click on
//! its button, because programs that scan mails open the links in them.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use sortie_api::{ErrorCode, Refusal, UserId};
use sortie_store::people::{PersonRow, Purpose as MailPurpose};

use super::{
    errors::{PageError, PageResult},
    forms::{HOME, Posted, Purpose, Visit, main_link, message, parameter, see_other},
    layout::{Content, page},
};
use crate::org::OrgApp;

const VERIFY: Purpose = Purpose::of("verify-email");
const RESEND: Purpose = Purpose::of("resend-verification");

/// Person who gets another mail, and the page that the person continues with.
#[derive(Serialize, Deserialize)]
struct Recipient {
    user: UserId,
    back: String,
}

/// Returns true if the person has to verify the address before an organization is created or joined.
pub(super) fn is_missing(app: &OrgApp, person: &PersonRow) -> bool {
    person.email_verified_at.is_none() && app.accounts.options().mail.is_some()
}

/// Path of the page that the link of a mail leads back to: the start page unless the link names another one.
pub(super) fn way_back(app: &OrgApp, query: &str) -> String {
    let token = parameter(query, "token").unwrap_or_default();
    let sealed = parameter(query, "return");
    sealed
        .and_then(|sealed| app.accounts.way_back(&token, &sealed))
        .unwrap_or_else(|| HOME.to_owned())
}

/// Part of a page that asks a person to verify the address, with a button for another mail. The person continues with `back`.
pub(super) fn notice(app: &OrgApp, visit: &Visit, person: &PersonRow, back: &str) -> PageResult<Markup> {
    let recipient = Recipient {
        user: person.id,
        back: back.to_owned(),
    };
    let text = serde_json::to_string(&recipient).map_err(Refusal::internal)?;
    let form = visit.form(app, RESEND, &text)?;
    Ok(html! {
        p.note {
            "Verify your email address first: we sent a mail to " b { (person.email) } ". Open the link in it, then continue here."
        }
        (main_link(back, "Continue"))
        form method="post" action="/verify-email/send" {
            input type="hidden" name="form" value=(form.sealed);
            button.btn type="submit" { "Send another mail" }
        }
    })
}

/// Page with the notice alone.
pub(super) fn required(
    app: &OrgApp,
    visit: &Visit,
    (person, back): (&PersonRow, &str),
    status: StatusCode,
) -> PageResult {
    let body = notice(app, visit, person, back)?;
    Ok(message(status, "Verify your email address", &body))
}

/// Sends another mail.
pub(super) async fn resend(State(app): State<Arc<OrgApp>>, posted: Posted) -> PageResult {
    let Posted(visit, fields) = posted;
    let text = visit.opened(&app, RESEND, &fields)?;
    let Recipient { user, back } = serde_json::from_str(&text).map_err(|_| PageError::stale())?;
    let with_way_back = Some(back.as_str()).filter(|back| *back != HOME);
    match app.accounts.send_verification(user, with_way_back).await {
        Ok(()) => {}
        // The address was verified in the meantime.
        Err(error) if error.code == ErrorCode::Conflict => return see_other(&back),
        Err(error) => return Err(PageError::from(error).with_link(back, "Continue")),
    }
    let account = app.accounts.store().account(user).await?;
    let body = html! {
        p.sub {
            "We sent another mail to " b { (account.person.email) } ". Open the link in it, then continue. Links in earlier mails have \
             expired."
        }
        (main_link(&back, "Continue"))
    };
    Ok(message(StatusCode::ACCEPTED, "Check your email", &body))
}

/// Shows the button that verifies an address.
pub(super) async fn show(State(app): State<Arc<OrgApp>>, visit: Visit) -> PageResult {
    let token = visit.parameter("token").unwrap_or_default();
    let person = app
        .accounts
        .person_of_mail(&token, MailPurpose::VerifyEmail)
        .await?;
    let Some(person) = person else {
        return ended(&app, &visit, &visit.query).await;
    };
    let form = visit.form(&app, VERIFY, &visit.query)?;
    let body = html! {
        p.sub { "Confirm that " b { (person.email) } " is your email address." }
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
    let query = visit.opened(&app, VERIFY, &fields)?;
    let token = parameter(&query, "token").unwrap_or_default();
    match app.accounts.verify_email(&token).await {
        Ok(()) => Ok(verified(&way_back(&app, &query))),
        Err(error) if error.code == ErrorCode::InvalidRequest => ended(&app, &visit, &query).await,
        Err(error) => Err(error.into()),
    }
}

fn verified(back: &str) -> Response {
    let body = html! {
        p.sub { "Your email address is verified." }
        (main_link(back, "Continue"))
    };
    message(StatusCode::OK, "Address verified", &body)
}

/// Answers a link with a used or expired token: offers another mail to a person who needs one.
async fn ended(app: &OrgApp, visit: &Visit, query: &str) -> PageResult {
    const TITLE: &str = "This link has expired";
    let back = way_back(app, query);
    let Some(person) = visit.person else {
        let sign_in = Visit::link(&app.accounts, "/sign-in", &back)?;
        let body = html! {
            p.sub {
                "It was used already or has expired. Sign in: if your address is not verified yet, the next page sends another mail."
            }
            (main_link(&sign_in, "Sign in"))
        };
        return Ok(message(StatusCode::BAD_REQUEST, TITLE, &body));
    };
    let person = app.accounts.store().account(person.user).await?.person;
    if !is_missing(app, &person) {
        return Ok(verified(&back));
    }
    let body = html! {
        p.sub { "It was used already or has expired, or a later mail replaced it." }
        (notice(app, visit, &person, &back)?)
    };
    Ok(message(StatusCode::BAD_REQUEST, TITLE, &body))
}
