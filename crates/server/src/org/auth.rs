//! `/v1/auth/…`: sign-up, sign-in and sign-out, and the links of mails.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, header::USER_AGENT};
use sortie_accounts::{Accounts, Client, LoggedIn, SignedUp};
use sortie_api::account::{ForgotPassword, LogIn, Login, ResetPassword, SignUp, VerifyEmail};
use sortie_store::{access::Actor, people::SessionKind};

use super::{OrgApp, Person, organizations, profile};
use crate::kit::{ApiResult, JsonBody, shown_once};

/// Returns the program that signs in.
fn client(actor: &Actor, headers: &HeaderMap) -> Client {
    let agent = headers.get(USER_AGENT);
    Client {
        kind: SessionKind::Api,
        address: actor.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        agent: agent.and_then(|agent| agent.to_str().ok()).map(str::to_owned),
    }
}

fn login(accounts: &Accounts, status: StatusCode, signed_in: LoggedIn) -> Response {
    let body = Login {
        token: signed_in.token.expose().to_owned(),
        user: profile::user(accounts, signed_in.person),
        organizations: signed_in
            .organizations
            .into_iter()
            .map(organizations::shown)
            .collect(),
    };
    shown_once(status, &body)
}

/// Sign up
///
/// Creates an account. A deployment may verify the address first, ask for an invitation, or be closed. At most five sign-ups
/// an hour from one network.
#[utoipa::path(
    post, path = "/v1/auth/signup", tag = "sign-in",
    request_body(content = SignUp, description = "Address, password and name."),
    responses(
        (status = 201, description = "The person is signed in.", body = Login),
        (status = 202, description = "A mail to the address explains how to continue. The response is the same if the address has an account."),
        (status = 403, description = "Sign-up is closed, or needs an invitation.", body = sortie_api::ErrorBody,
            example = json!({"error": "sign-up is closed: ask the operator for an account", "code": "forbidden"})),
        (status = 409, description = "The address has an account.", body = sortie_api::ErrorBody,
            example = json!({"error": "this email address has an account", "code": "conflict"})),
    ),
)]
pub(crate) async fn sign_up(
    State(app): State<Arc<OrgApp>>,
    Extension(actor): Extension<Actor>,
    headers: HeaderMap,
    JsonBody(request, _room): JsonBody<SignUp>,
) -> ApiResult<Response> {
    Ok(
        match app
            .accounts
            .sign_up(request, &client(&actor, &headers), None)
            .await?
        {
            SignedUp::LoggedIn(signed_in) => login(&app.accounts, StatusCode::CREATED, *signed_in),
            SignedUp::ByMail => StatusCode::ACCEPTED.into_response(),
        },
    )
}

/// Sign in
///
/// Begins a session of 30 days. Every failure has the same text. After too many failures the request is refused before the
/// password is checked.
#[utoipa::path(
    post, path = "/v1/auth/login", tag = "sign-in",
    request_body(content = LogIn, description = "Address and password, and a code if the account has a second factor."),
    responses(
        (status = 200, description = "The person is signed in.", body = Login),
        (status = 401, description = "The address or the password is wrong, or a code of the second factor is missing.",
            body = sortie_api::ErrorBody,
            example = json!({"error": "the email address or the password is wrong", "code": "unauthorized"})),
        (status = 403, description = "The address is not verified yet.", body = sortie_api::ErrorBody,
            example = json!({"error": "email: verify your email address first", "code": "forbidden"})),
    ),
)]
pub(crate) async fn log_in(
    State(app): State<Arc<OrgApp>>,
    Extension(actor): Extension<Actor>,
    headers: HeaderMap,
    JsonBody(request, _room): JsonBody<LogIn>,
) -> ApiResult<Response> {
    let signed_in = app.accounts.log_in(request, &client(&actor, &headers)).await?;
    Ok(login(&app.accounts, StatusCode::OK, signed_in))
}

/// Sign out
///
/// Ends the session of this request.
#[utoipa::path(
    post, path = "/v1/auth/logout", tag = "sign-in",
    responses((status = 204, description = "The session has ended.")),
)]
pub(crate) async fn log_out(State(app): State<Arc<OrgApp>>, who: Person) -> ApiResult<StatusCode> {
    app.accounts.end_session(who.user, who.session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Verify an address
///
/// Proves by the token of a mail that an address belongs to the person. The token works once.
#[utoipa::path(
    post, path = "/v1/auth/verify-email", tag = "sign-in",
    request_body(content = VerifyEmail, description = "The token of the mail."),
    responses((status = 204, description = "The address is verified.")),
)]
pub(crate) async fn verify_email(
    State(app): State<Arc<OrgApp>>,
    JsonBody(request, _room): JsonBody<VerifyEmail>,
) -> ApiResult<StatusCode> {
    app.accounts.verify_email(request.token.expose()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ask for another verification mail
///
/// Sends another mail with a token that verifies the address of the signed-in person. Tokens of earlier mails end.
/// Counts against the limit of three mails a day to one address.
#[utoipa::path(
    post, path = "/v1/auth/resend-verification", tag = "sign-in",
    responses(
        (status = 202, description = "The mail is on the way."),
        (status = 409, description = "The address is verified, or the deployment sends no mail.", body = sortie_api::ErrorBody,
            example = json!({"error": "your email address is verified", "code": "conflict"})),
    ),
)]
pub(crate) async fn resend_verification(
    State(app): State<Arc<OrgApp>>,
    who: Person,
) -> ApiResult<StatusCode> {
    app.accounts.send_verification(who.user, None).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Ask for a new password
///
/// Sends a mail with a token that sets a password, where the address has an account. Neither the answer nor its time tells
/// whether it has one. At most three mails a day to one address.
#[utoipa::path(
    post, path = "/v1/auth/forgot-password", tag = "sign-in",
    request_body(content = ForgotPassword, description = "The address."),
    responses(
        (status = 202, description = "A mail is on the way if the address has an account."),
        (status = 409, description = "The deployment sends no mail.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn forgot_password(
    State(app): State<Arc<OrgApp>>,
    JsonBody(request, _room): JsonBody<ForgotPassword>,
) -> ApiResult<StatusCode> {
    app.accounts.forgot_password(&request.email, None)?;
    Ok(StatusCode::ACCEPTED)
}

/// Set a new password
///
/// Sets a password by the token of a mail, which works once. Every session of the person and every permission of an
/// application ends.
#[utoipa::path(
    post, path = "/v1/auth/reset-password", tag = "sign-in",
    request_body(content = ResetPassword, description = "The token of the mail, and the new password."),
    responses((status = 204, description = "The password is set.")),
)]
pub(crate) async fn reset_password(
    State(app): State<Arc<OrgApp>>,
    JsonBody(request, _room): JsonBody<ResetPassword>,
) -> ApiResult<StatusCode> {
    app.accounts
        .reset_password(request.token.expose(), request.new_password)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
