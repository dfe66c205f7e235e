//! Requests to the double, one by one: credential, version, key, fault, operation.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, request::Parts};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    VERSION,
    calls::Call,
    failure::Failure,
    faults::Fault,
    form,
    idempotency::Kept,
    pages,
    shared::{Answer, Shared, StripeRequest, lock, respond},
    state::{State, new_id},
};

/// End of a connection without an answer.
#[derive(Debug)]
struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is lost")
    }
}

impl std::error::Error for Lost {}

/// Accepts connections until the double is dropped.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&shared), request));
            let builder = Builder::new(TokioExecutor::new());
            // A lost connection is an error here, and the test has asked for it.
            let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Lost> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
    if let Some(page) = pages::answer(&shared, &parts, &body) {
        return Ok(page);
    }
    let id = new_id("req_");
    let asked = match shared.read(&parts, &body) {
        Ok(asked) => asked,
        Err(failure) => return Ok(refusal(&id, &failure)),
    };
    let fault = lock(&shared.faults).take(asked.call);
    match fault {
        Some(Fault::LostBefore) => Err(Lost),
        Some(Fault::ErrorBefore) => Ok(refusal(&id, &Failure::internal())),
        Some(Fault::TooMany) => Ok(refusal(&id, &Failure::too_many())),
        Some(
            Fault::ErrorKept | Fault::ErrorAfter | Fault::LostAfter | Fault::HeldBefore | Fault::HeldAfter,
        )
        | None => shared.work(&id, (asked, parts.uri.path()), fault).await,
    }
}

/// Key of a request in progress. Dropping it forgets the key, unless an answer is kept.
struct Begun<'a> {
    shared: &'a Shared,
    key: Option<String>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            lock(&self.shared.keys).forget(key);
        }
    }
}

impl Shared {
    /// Changes the state, and passes the resulting events to the sender of webhooks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let done = change(&mut state);
        let news: Vec<_> = std::mem::take(&mut state.news)
            .iter()
            .map(super::webhook)
            .collect();
        // Under the lock, so that the order of events is kept.
        self.webhooks.take(news);
        done
    }

    /// Reads a request after checking its credential and its version.
    fn read(&self, parts: &Parts, body: &Bytes) -> Result<StripeRequest, Failure> {
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let credential = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match credential {
            None => return Err(Failure::unauthorized("You did not provide an API key.")),
            Some(key) if key.replacen("_live_", "_test_", 1) != self.secret_key => {
                let last = key.get(key.len().saturating_sub(4)..).unwrap_or_default();
                let message = format!("Invalid API Key provided: sk_test_****{last}");
                return Err(Failure::unauthorized(&message));
            }
            Some(_) => {}
        }
        if let Some(version) = text("stripe-version").filter(|version| *version != VERSION) {
            return Err(Failure::invalid(format!("Invalid Stripe API version: {version}")));
        }
        let path = parts.uri.path();
        let (call, id) =
            Call::of(&parts.method, path).ok_or_else(|| Failure::unrecognized(&parts.method, path))?;
        let is_post = parts.method == Method::POST;
        let is_form =
            text("content-type").is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        if is_post && !body.is_empty() && !is_form {
            return Err(Failure::invalid("Requests must be form-encoded."));
        }
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        Ok(StripeRequest {
            call,
            id,
            parameters: form::decode(if is_post { body } else { query })?,
            key: text("idempotency-key").filter(|_| is_post).map(ToOwned::to_owned),
            is_replayed: false,
        })
    }

    async fn work(
        &self,
        id: &str,
        (asked, path): (StripeRequest, &str),
        fault: Option<Fault>,
    ) -> Result<Answer, Lost> {
        let now = lock(&self.state).now();
        let begun = match &asked.key {
            Some(key) => lock(&self.keys).begin(key, (path, &asked.parameters), now),
            None => Ok(None),
        };
        let mut released = self.released.subscribe();
        self.requests.send_modify(|all| {
            all.push(StripeRequest {
                is_replayed: matches!(begun, Ok(Some(_))),
                ..asked.clone()
            });
        });
        match begun {
            Ok(Some(kept)) => return Ok(answered(id, &kept, asked.key.as_deref())),
            Err(failure) => return Ok(refusal(id, &failure)),
            Ok(None) => {}
        }
        // If the client disconnects before the end, the key is free again.
        let begun = Begun {
            shared: self,
            key: asked.key.clone(),
        };
        if fault == Some(Fault::HeldBefore) {
            let _released = released.changed().await;
        }
        let done = match fault {
            Some(Fault::ErrorKept) => {
                let mut failure = Failure::internal();
                failure.was_begun = true;
                Err(failure)
            }
            _ => self.perform(id, &asked),
        };
        let kept = match done {
            Err(failure) if !failure.was_begun => return Ok(refusal(id, &failure)),
            Err(failure) => kept(id, failure.status, failure.body(id)),
            Ok(_) if fault == Some(Fault::ErrorAfter) => {
                let failure = Failure::internal();
                kept(id, failure.status, failure.body(id))
            }
            Ok(object) => kept(id, StatusCode::OK, object),
        };
        if let Some(key) = &asked.key {
            lock(&self.keys).keep(key, kept.clone());
        }
        drop(begun);
        match fault {
            Some(Fault::LostAfter) => return Err(Lost),
            Some(Fault::HeldAfter) => {
                let _released = released.changed().await;
            }
            _ => {}
        }
        Ok(answered(id, &kept, asked.key.as_deref()))
    }

    fn perform(&self, id: &str, asked: &StripeRequest) -> Result<Value, Failure> {
        self.change(|state| {
            state.request = Some((id.to_owned(), asked.key.clone()));
            let done = state.perform((asked.call, &asked.id), asked.parameters.clone());
            state.request = None;
            done
        })
    }
}

fn kept(request: &str, status: StatusCode, body: Value) -> Kept {
    Kept {
        status,
        body,
        request: request.to_owned(),
    }
}

fn refusal(id: &str, failure: &Failure) -> Answer {
    answered(id, &kept(id, failure.status, failure.body(id)), None)
}

/// Returns an answer. It is a repetition if it was stored for another request.
fn answered(id: &str, kept: &Kept, key: Option<&str>) -> Answer {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &'static str, value: &str| {
        if let Ok(value) = value.try_into() {
            headers.insert(name, value);
        }
    };
    insert("content-type", "application/json");
    insert("request-id", id);
    insert("stripe-version", VERSION);
    if let Some(key) = key {
        insert("idempotency-key", key);
        insert("original-request", &kept.request);
        if kept.request != id {
            insert("idempotent-replayed", "true");
        }
    }
    respond(kept.status, headers, kept.body.to_string())
}
