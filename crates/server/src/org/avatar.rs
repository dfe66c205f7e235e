//! `/v1/me/avatar` and `/v1/users/{user_id}/avatar`: pictures of people.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use sortie_accounts::PICTURE_BYTES;
use sortie_api::{Refusal, UserId, account::User};

use super::{OrgApp, Person, profile::user};
use crate::kit::{ApiResult, Json, Path, small_body};

/// Headers under which no browser runs anything of a picture, and no shared cache keeps it. The URL changes with the
/// picture.
const SHOWN: [(HeaderName, HeaderValue); 3] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    ),
    (CACHE_CONTROL, HeaderValue::from_static("private, max-age=86400")),
];

/// Upload your picture
///
/// Sets the picture of your account and replaces an earlier one. Removes metadata, colour profiles above 4 KiB and all but the
/// first image of an animation. At most 20 uploads an hour.
#[utoipa::path(
    put, path = "/v1/me/avatar", tag = "account",
    request_body(
        content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/webp")),
        description = "The picture: at most 256 KiB, and 4096 pixels a side.",
    ),
    responses((status = 200, description = "The account with the URL of the picture.", body = User)),
)]
pub(crate) async fn put_avatar(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    request: Request,
) -> ApiResult<Json<User>> {
    let (parts, body) = request.into_parts();
    let content_type = parts.headers.get(CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let file = small_body(body, PICTURE_BYTES).await?;
    let person = app.accounts.put_avatar(who.user, content_type, file).await?;
    Ok(Json(user(&app.accounts, person)))
}

/// Delete your picture
///
/// Takes the picture of your account away, if there is one.
#[utoipa::path(
    delete, path = "/v1/me/avatar", tag = "account",
    responses((status = 204, description = "The account has no picture.")),
)]
pub(crate) async fn delete_avatar(State(app): State<Arc<OrgApp>>, who: Person) -> ApiResult<StatusCode> {
    app.accounts.delete_avatar(who.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get the picture of a person
///
/// Returns the picture of a person who shares an organization with you, or your own. `avatar_url` of a person has the address,
/// which changes with the picture.
#[utoipa::path(
    get, path = "/v1/users/{user_id}/avatar", tag = "account",
    params(("user_id" = String, Path, description = "The person.", example = "user_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((
        status = 200, description = "The picture.",
        content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/webp")),
    )),
)]
pub(crate) async fn get_avatar(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    Path(id): Path<UserId>,
) -> ApiResult<Response> {
    let avatar = app.accounts.avatar(who.user, id).await?;
    let mut response = Response::new(Body::from(avatar.bytes));
    let kind = HeaderValue::try_from(avatar.content_type).map_err(Refusal::internal)?;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.extend(SHOWN);
    Ok(response)
}
