//! `/v1/auth/me/second-factor`: authenticator codes as a second factor.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::account::{
    ConfirmSecondFactor, EnrolSecondFactor, RecoveryCodes, RemoveSecondFactor, SecondFactorKey,
};

use super::{OrgApp, Person};
use crate::kit::{ApiResult, JsonBody, shown_once};

/// Enrol a second factor
///
/// Makes the key of an authenticator, which only this answer shows. Sign-ins need its codes once the key is confirmed.
#[utoipa::path(
    post, path = "/v1/auth/me/second-factor", tag = "account",
    request_body(content = EnrolSecondFactor, description = "The password of the account."),
    responses(
        (status = 201, description = "The key.", body = SecondFactorKey),
        (status = 403, description = "The deployment sends mail and the address is not verified, or the account has no password and the sign-in was more than ten minutes ago.",
            body = sortie_api::ErrorBody, example = json!({"error": "verify your email address first", "code": "forbidden"})),
        (status = 409, description = "The account has a second factor.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn enrol_second_factor(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<EnrolSecondFactor>,
) -> ApiResult<Response> {
    let enrolled = app
        .accounts
        .enrol_totp(who.user, who.proof(request.password))
        .await?;
    let key = SecondFactorKey {
        secret: enrolled.secret.expose().to_owned(),
        uri: enrolled.uri.expose().to_owned(),
    };
    Ok(shown_once(StatusCode::CREATED, &key))
}

/// Confirm a second factor
///
/// Confirms the key of the authenticator by its current code. Returns ten recovery codes, which only this answer shows.
#[utoipa::path(
    post, path = "/v1/auth/me/second-factor/confirm", tag = "account",
    request_body(content = ConfirmSecondFactor, description = "The current code of the authenticator."),
    responses(
        (status = 200, description = "The recovery codes.", body = RecoveryCodes),
        (status = 403, description = "The deployment sends mail and the address is not verified.", body = sortie_api::ErrorBody,
            example = json!({"error": "verify your email address first", "code": "forbidden"})),
        (status = 409, description = "No key waits for its confirmation.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn confirm_second_factor(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<ConfirmSecondFactor>,
) -> ApiResult<Response> {
    let codes = app.accounts.confirm_totp(who.user, &request.code).await?;
    let recovery_codes = codes.iter().map(|code| code.expose().to_owned()).collect();
    Ok(shown_once(StatusCode::OK, &RecoveryCodes { recovery_codes }))
}

/// Remove the second factor
///
/// Removes the second factor and its recovery codes. Needs the password and a code.
#[utoipa::path(
    delete, path = "/v1/auth/me/second-factor", tag = "account",
    request_body(content = RemoveSecondFactor, description = "The password, and a code."),
    responses(
        (status = 204, description = "Sign-ins need only the password."),
        (status = 403, description = "The account has no password, and the sign-in was more than ten minutes ago.", body = sortie_api::ErrorBody,
            example = json!({"error": "this account has no password: sign in again, and repeat this within ten minutes", "code": "forbidden"})),
        (status = 409, description = "The account has no second factor.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn remove_second_factor(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<RemoveSecondFactor>,
) -> ApiResult<StatusCode> {
    app.accounts
        .remove_totp(who.user, who.proof(request.password), &request.code)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
