//! The answers of a scripted model server, its recorded requests, and the rules they must satisfy.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    rules::{Rules, Seen, chat::ChatProvider},
    turn::{Fault, Turn},
};

/// The part of a request that asks for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streaming {
    /// In `stream` of its body; a request without it is refused.
    InBody,
    /// In its address.
    InPath,
}

/// A model that computes its answer from the request.
pub type Driver = Box<dyn FnMut(&Value) -> Turn + Send>;

enum Source {
    Queue(VecDeque<Turn>),
    Driver(Driver),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue(_) => "Queue",
            Self::Driver(_) => "Driver",
        })
    }
}

/// A script, and the requests so far.
#[derive(Debug)]
pub(crate) struct Script {
    source: Mutex<Source>,
    rules: Mutex<Rules>,
    bytes: AtomicU64,
    pub(crate) requests: watch::Sender<Vec<Value>>,
    pub(crate) released: watch::Sender<bool>,
}

/// The next answer of a script.
pub(crate) struct Answer {
    pub(crate) turn: Turn,
    /// The number of the first tool call of the answer: no two calls of a server share one.
    pub(crate) first_call: u64,
    pub(crate) provider: ChatProvider,
    pub(crate) seen: Seen,
}

/// An error instead of an answer.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) retry_after: Option<u32>,
}

/// Checks a request by the rules of its protocol.
pub(crate) type Check<'a> = &'a (dyn Fn(&mut Rules, &Value) -> Result<Seen, String> + Sync);

impl Script {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Arc<Self> {
        Self::of(Source::Queue(turns.into_iter().collect()))
    }

    pub(crate) fn driven(driver: Driver) -> Arc<Self> {
        Self::of(Source::Driver(driver))
    }

    fn of(source: Source) -> Arc<Self> {
        Arc::new(Self {
            source: Mutex::new(source),
            rules: Mutex::default(),
            bytes: AtomicU64::new(0),
            requests: watch::Sender::default(),
            released: watch::Sender::default(),
        })
    }

    /// The bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.borrow().clone()
    }

    /// The size of all requests so far, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of answers that were not requested yet; zero for a driver.
    pub(crate) fn left(&self) -> usize {
        match &*self.source.lock() {
            Source::Queue(turns) => turns.len(),
            Source::Driver(_) => 0,
        }
    }

    pub(crate) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock()
    }

    /// Records a request, checks it, and takes the next answer after its delay.
    pub(crate) async fn next(
        &self,
        body: &[u8],
        streaming: Streaming,
        check: Check<'_>,
    ) -> Result<Answer, Refusal> {
        let request = match serde_json::from_slice::<Value>(body) {
            Ok(request) => request,
            // Half of a surrogate pair is an error here, as with every provider: anthropics/claude-code#68325.
            Err(error) => {
                let broken = format!("The request body is not valid JSON: {error}");
                self.rules().broken.push(broken.clone());
                return Err(Refusal::bad_request(broken));
            }
        };
        self.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        let streams = request.get("stream").is_some_and(|streams| streams == true);
        self.requests
            .send_modify(|requests| requests.push(request.clone()));
        if streaming == Streaming::InBody && !streams {
            return Err(Refusal::bad_request("this server only streams"));
        }
        let seen = {
            let mut rules = self.rules();
            check(&mut rules, &request).map_err(|broken| {
                rules.broken.push(broken.clone());
                Refusal::bad_request(broken)
            })?
        };
        let Some(turn) = self.take(&request) else {
            return Err(Refusal {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                message: "the script is over".to_owned(),
                retry_after: None,
            });
        };
        tokio::time::sleep(turn.delay).await;
        if turn.held {
            let mut released = self.released.subscribe();
            // Never closed: the sender is ours.
            drop(released.wait_for(|released| *released).await);
        }
        if let Some(Fault::Status(status, retry_after)) = turn.fault {
            return Err(Refusal {
                status,
                message: "as scripted".to_owned(),
                retry_after,
            });
        }
        let mut rules = self.rules();
        Ok(Answer {
            first_call: rules.number_calls(turn.tool_calls.len()),
            provider: rules.provider,
            turn,
            seen,
        })
    }

    fn take(&self, request: &Value) -> Option<Turn> {
        match &mut *self.source.lock() {
            Source::Queue(turns) => turns.pop_front(),
            Source::Driver(driver) => Some(driver(request)),
        }
    }

    /// The broken rules, each with the message of the refusal. Each call returns only new ones.
    pub(crate) fn broken_rules(&self) -> Vec<String> {
        std::mem::take(&mut self.rules().broken)
    }

    /// Fails the test if a request has broken a rule and the test did not expect it.
    pub(crate) fn check_at_drop(&self) {
        let broken = self.broken_rules();
        assert!(
            broken.is_empty() || std::thread::panicking(),
            "requests have broken the rules of the provider: {broken:#?}"
        );
    }
}

impl Refusal {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The answer with this body.
    pub(crate) fn answer(&self, body: &Value) -> Response {
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, content_type, body.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
