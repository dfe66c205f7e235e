//! Path parameters. A text that is not an id gets a 404, like an absent resource (`docs/API.md#values`).

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use sortie_api::Refusal;

use super::{ApiError, ApiResult};

/// The `{…}` of the route, as `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::not_found())?;
        let first = params.iter().next().and_then(|(_, text)| text.parse().ok());
        Ok(Self(first.ok_or_else(Refusal::not_found)?))
    }
}

/// The second `{…}` of the route, as `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<T>(pub(crate) T);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for Inner<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let Below(_, text) = Below::<String>::from_request_parts(parts, state).await?;
        Ok(Self(text.parse().map_err(|_| Refusal::not_found())?))
    }
}

/// The `{…}` of the route as `T`, and the whole rest of the path, which may contain slashes.
#[derive(Clone, Debug)]
pub(crate) struct Below<T>(pub(crate) T, pub(crate) String);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for Below<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let not_found = Refusal::not_found;
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| not_found())?;
        let mut params = params.iter().map(|(_, text)| text);
        let above = params.next().and_then(|text| text.parse().ok());
        let behind = params.next().map(str::to_owned);
        let (above, behind) = above.zip(behind).ok_or_else(not_found)?;
        Ok(Self(above, behind))
    }
}
