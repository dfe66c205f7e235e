//! State that all connections of the double share, and the form of its answers.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::{calls::Call, faults::Faults, idempotency::Keys, state::State, webhooks::Webhooks};

/// Request that reached the double.
#[derive(Clone, Debug, PartialEq)]
pub struct StripeRequest {
    /// Operation that was asked for.
    pub call: Call,
    /// Identifier in the path.
    pub id: String,
    /// Parameters, in the form that JSON has.
    pub parameters: Map<String, Value>,
    /// `Idempotency-Key`.
    pub key: Option<String>,
    /// Whether an earlier answer was given again.
    pub is_replayed: bool,
}

/// State that the handle and all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) secret_key: String,
    pub(super) state: Mutex<State>,
    pub(super) keys: Mutex<Keys>,
    pub(super) faults: Mutex<Faults>,
    pub(super) requests: watch::Sender<Vec<StripeRequest>>,
    /// Counts the releases of held calls.
    pub(super) released: watch::Sender<u64>,
    pub(super) webhooks: Webhooks,
}

/// Answer of the double.
pub(super) type Answer = Response<Full<Bytes>>;

/// Locks a part.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Puts an answer together.
pub(super) fn respond(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}
