//! Calls of operations of the API.

use reqwest::Method;

/// Request for an operation, with its body.
#[derive(Debug)]
pub(crate) struct Call<'a, B = ()> {
    pub(super) method: Method,
    pub(super) path: String,
    /// Sent as JSON.
    pub(super) body: Option<&'a B>,
}

impl<'a, B> Call<'a, B> {
    fn new(method: Method, path: impl Into<String>, body: Option<&'a B>) -> Self {
        let path = path.into();
        Self { method, path, body }
    }
}

pub(crate) fn get(path: impl Into<String>) -> Call<'static> {
    Call::new(Method::GET, path, None)
}

pub(crate) fn post(path: impl Into<String>) -> Call<'static> {
    Call::new(Method::POST, path, None)
}

pub(crate) fn post_json<B>(path: impl Into<String>, body: &B) -> Call<'_, B> {
    Call::new(Method::POST, path, Some(body))
}

pub(crate) fn put<B>(path: impl Into<String>, body: &B) -> Call<'_, B> {
    Call::new(Method::PUT, path, Some(body))
}

pub(crate) fn patch<B>(path: impl Into<String>, body: &B) -> Call<'_, B> {
    Call::new(Method::PATCH, path, Some(body))
}

pub(crate) fn delete(path: impl Into<String>) -> Call<'static> {
    Call::new(Method::DELETE, path, None)
}
