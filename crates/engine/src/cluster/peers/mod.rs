//! Requests to other nodes, for the content of runs that only the memory of one node has.
//!
//! A node forwards a client's request to the node that has the content. A forwarded request is not forwarded again: a node
//! without the content refuses it. Nodes sign these requests with a key that they derive from the shared master key. While
//! the node with the content does not answer, the client gets an error. Once that node is declared lost, the store has the
//! outcome of the run.

#[cfg(test)]
mod recorded_tests;
mod signature;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use reqwest::{Method, RequestBuilder, Response, header};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use sortie_api::{ErrorBody, ErrorCode, Run, RunId, Timestamp};
use sortie_net::{
    EngineClient, Timeouts, read_body,
    sse::{self, Parser},
};
use sortie_store::{ContentHolder, EventRow};
use url::Url;

pub(crate) use signature::Signer;
pub use signature::{PEER_HEADER, Peer};

use crate::{
    error::Error,
    kit::{caller::Caller, traces::with_trace},
    runs::hub::{Batch, Deltas, Message, TextDelta},
};
use sortie_base::Clock;

/// Origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// A client. The request may be forwarded.
    First,
    /// Another node. The request is not forwarded again.
    Second,
}

/// Maximum size of a run in an answer. JSON escapes can make its output of 1 MiB six times as long.
const RUN_BYTES: usize = 8 << 20;

/// Maximum size of one event of a stream.
const EVENT_BYTES: usize = 8 << 20;

/// Read timeout. A stream sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// Timeout of an answer that is no stream, beyond the wait that the client asked for, and of the beginning of an array.
const ANSWER: Duration = Duration::from_secs(10);

const X_REQUEST_ID: &str = "x-request-id";

/// Client for other nodes, and verifier of their requests.
#[derive(Clone)]
pub(crate) struct Peers(Arc<Inner>);

struct Inner {
    http: EngineClient,
    signer: Option<Signer>,
    clock: Clock,
}

impl Peers {
    /// Makes the client. Without a signer, which needs a master key, the node neither sends nor accepts requests between
    /// nodes.
    pub(crate) fn new(signer: Option<Signer>, clock: Clock) -> Result<Self, Error> {
        let timeouts = Timeouts {
            connect: Duration::from_secs(2),
            read: SILENCE,
            total: None,
        };
        let http = EngineClient::new(timeouts).map_err(|error| {
            Error::Internal(format!("the client for other nodes cannot be made: {error}"))
        })?;
        Ok(Self(Arc::new(Inner { http, signer, clock })))
    }

    /// Returns the client on whose behalf another node has signed a request. None for a request without a valid signature, and
    /// for every request that nodes do not send: a signature gives read access to two routes.
    pub(crate) fn verify(&self, method: &str, target: &str, header: &str) -> Option<Peer> {
        let signer = self
            .0
            .signer
            .as_ref()
            .filter(|_| is_asked_by_nodes(method, target))?;
        signer.verify((method, target), header, self.0.clock.now())
    }

    /// Gets a run from the node that has its content.
    pub(crate) async fn run(
        &self,
        holder: &ContentHolder,
        caller: &Caller,
        id: RunId,
        wait: Duration,
    ) -> Result<Run, Error> {
        let target = format!("/v1/runs/{id}?wait={}", wait.as_secs());
        let request = self.request(holder, caller, &target)?.timeout(wait + ANSWER);
        read(answer(request).await?, RUN_BYTES).await
    }

    /// Gets the recorded events of a run from the node that has its content: a JSON array, piece by piece.
    pub(crate) async fn events(
        &self,
        holder: &ContentHolder,
        caller: &Caller,
        id: RunId,
        after: i64,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let target = format!("/v1/runs/{id}/events?after={after}");
        let request = self
            .request(holder, caller, &target)?
            .header(header::ACCEPT, "application/json");
        let response = tokio::time::timeout(ANSWER, answer(request))
            .await
            .map_err(|_| no_answer(&"no answer in time"))??;
        Ok(stream::try_unfold(response, |mut response| async move {
            let piece = response
                .chunk()
                .await
                .map_err(|error| no_answer(&sortie_net::Error::from(error)))?;
            Ok::<_, Error>(piece.map(|piece| (piece, response)))
        })
        .boxed())
    }

    /// Follows the event stream of a run on the node that has its content.
    pub(crate) async fn follow(
        &self,
        holder: &ContentHolder,
        caller: &Caller,
        id: RunId,
        (after, deltas): (i64, Deltas),
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Error>>, Error> {
        let deltas = deltas == Deltas::Live;
        let target = format!("/v1/runs/{id}/events?after={after}&deltas={deltas}");
        let request = self
            .request(holder, caller, &target)?
            .header(header::ACCEPT, "text/event-stream");
        let response = answer(request).await?;
        let reading = Some((response, Parser::new(EVENT_BYTES)));
        Ok(stream::try_unfold(reading, |reading| async move {
            let Some((mut response, mut parser)) = reading else {
                return Ok(None);
            };
            let Some(bytes) = response
                .chunk()
                .await
                .map_err(|error| no_answer(&sortie_net::Error::from(error)))?
            else {
                return Ok::<_, Error>(None);
            };
            let mut messages = Vec::new();
            let parsed = parser.push(&bytes, &mut messages);
            let reading = parsed.is_ok().then_some((response, parser));
            let mut batches: Vec<_> = messages
                .iter()
                .filter_map(|message| batch(message).transpose())
                .collect();
            // The error comes after the complete events, and ends the stream.
            batches.extend(
                parsed
                    .err()
                    .map(|error| Err(Error::Internal(format!("another node sends a stream: {error}")))),
            );
            Ok(Some((stream::iter(batches), reading)))
        })
        .try_flatten()
        .boxed())
    }

    fn request(
        &self,
        holder: &ContentHolder,
        caller: &Caller,
        target: &str,
    ) -> Result<RequestBuilder, Error> {
        let unreachable = || {
            Error::Unavailable(
                "the node that has the content of this run cannot be asked from here, retry later".to_owned(),
            )
        };
        let address = holder.address.as_deref().ok_or_else(unreachable)?;
        let signer = self.0.signer.as_ref().ok_or_else(unreachable)?;
        let url: Url = format!("{}{target}", address.trim_end_matches('/'))
            .parse()
            .map_err(|_| unreachable())?;
        let peer = Peer {
            org: caller.org,
            by: caller.actor.by.ok_or_else(unreachable)?,
        };
        let request = self
            .0
            .http
            .request(Method::GET, &url)
            .map_err(|_| unreachable())?
            .header(
                PEER_HEADER,
                signer.sign(("GET", target), peer, self.0.clock.now())?,
            );
        let request = match &caller.actor.request_id {
            Some(id) => request.header(X_REQUEST_ID, id),
            None => request,
        };
        Ok(with_trace(request, caller.actor.trace.as_ref()))
    }
}

/// Whether nodes send such a request: [`Peers::run`], [`Peers::events`] and [`Peers::follow`] do.
fn is_asked_by_nodes(method: &str, target: &str) -> bool {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let run = path.strip_prefix("/v1/runs/").unwrap_or_default();
    let run = run.strip_suffix("/events").unwrap_or(run);
    method == "GET" && run.parse::<RunId>().is_ok()
}

/// Recorded event in the form of the API. The data passes through unchanged, also the data of a later version.
#[derive(Deserialize)]
struct Recorded<'a> {
    id: i64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    data: &'a RawValue,
    created_at: Timestamp,
}

/// Reads a message of another node's stream. None for a message that is not recorded and that only a later version knows.
fn batch(message: &sse::Message) -> Result<Option<Arc<Batch>>, Error> {
    let sse::Message { event, data, .. } = message;
    let message = match event.as_str() {
        "done" => RawValue::from_string(data.clone()).map(|run| Message::Done(run.into())),
        "message_delta" => serde_json::from_str::<TextDelta>(data).map(Message::Delta),
        _ => serde_json::from_str::<Recorded<'_>>(data).map(|event| {
            Message::Event(EventRow {
                seq: event.id,
                kind: event.kind,
                data: event.data.get().to_owned(),
                created_at: event.created_at,
            })
        }),
    };
    match message {
        Ok(message) => Ok(Some(Arc::new(Batch::new(vec![message])))),
        Err(_) if is_without_id(data) => Ok(None),
        Err(error) => Err(Error::Internal(format!(
            "cannot read the stream of another node: {error}"
        ))),
    }
}

/// Whether the data of a message is a JSON object without `id`. Every recorded event has one.
fn is_without_id(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Position {
        id: Option<IgnoredAny>,
    }
    serde_json::from_str::<Position>(data).is_ok_and(|position| position.id.is_none())
}

async fn answer(request: RequestBuilder) -> Result<Response, Error> {
    let response = request
        .send()
        .await
        .map_err(|error| no_answer(&sortie_net::Error::from(error)))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = read_body(response, 64 << 10).await.unwrap_or_default();
    Err(match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(ErrorBody { error, code }) => match code {
            ErrorCode::Gone => Error::Gone(error),
            ErrorCode::NotFound => Error::NotFound,
            ErrorCode::InvalidRequest => Error::Invalid(error),
            ErrorCode::Unauthorized
            | ErrorCode::SecondFactorRequired
            | ErrorCode::PaymentRequired
            | ErrorCode::Forbidden
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Conflict
            | ErrorCode::PreconditionFailed
            | ErrorCode::RangeNotSatisfiable
            | ErrorCode::PayloadTooLarge
            | ErrorCode::RateLimited
            | ErrorCode::Internal
            | ErrorCode::Unavailable => Error::Unavailable(error),
        },
        Err(_) => Error::Unavailable(format!(
            "the node that has the content of this run answers {status}"
        )),
    })
}

async fn read<T: serde::de::DeserializeOwned>(response: Response, limit: usize) -> Result<T, Error> {
    let body = read_body(response, limit)
        .await
        .map_err(|error| no_answer(&error))?;
    serde_json::from_slice(&body)
        .map_err(|_| Error::Internal("cannot read the answer of another node".to_owned()))
}

fn no_answer(error: &impl std::fmt::Display) -> Error {
    tracing::warn!(%error, "another node does not answer");
    Error::Unavailable("the node that has the content of this run does not answer, retry later".to_owned())
}

#[cfg(test)]
mod tests {
    use sortie_api::{KeyId, OrgId};
    use sortie_store::By;

    use super::*;
    use sortie_base::MasterKey;

    #[test]
    fn a_signature_of_a_node_opens_the_two_routes_that_nodes_ask_and_no_other() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let signer = Signer::new(&[MasterKey::new([1; 32])]).unwrap();
        let peers = Peers::new(Some(signer.clone()), Clock::manual(at)).unwrap();
        let peer = Peer {
            org: OrgId::new(at, [1; 10]),
            by: By::Key(KeyId::new(at, [2; 10])),
        };
        let run = RunId::new(at, [3; 10]);
        let opens = |method: &str, target: &str| {
            let header = signer.sign((method, target), peer, at).unwrap();
            peers.verify(method, target, &header).is_some()
        };
        for target in [
            format!("/v1/runs/{run}"),
            format!("/v1/runs/{run}?wait=20"),
            format!("/v1/runs/{run}/events?after=0&deltas=true"),
        ] {
            assert!(opens("GET", &target), "{target}");
            for method in ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "get"] {
                assert!(!opens(method, &target), "{method} {target}");
            }
        }
        for target in [
            "/v1/runs".to_owned(),
            "/v1/runs/".to_owned(),
            "/v1/runs?limit=100".to_owned(),
            "/v1/runs/x".to_owned(),
            "/v1/runs//events".to_owned(),
            "/v1/runs/events".to_owned(),
            format!("/v1/runs/{run}/"),
            format!("/v1/runs/{run}/events/"),
            format!("/v1/runs/{run}/events/events"),
            format!("/v1/runs/{run}/definition"),
            format!("/v1/runs/{run}/artifacts"),
            format!("/v1/runs/{run}%2Fevents"),
            format!("//v1/runs/{run}"),
            format!("/v1/files?x=/v1/runs/{run}"),
            "/v1/connections".to_owned(),
            "/v1/me".to_owned(),
            "/v1/usage".to_owned(),
            "/v1/admin/nodes".to_owned(),
        ] {
            assert!(!opens("GET", &target), "{target}");
        }
    }

    #[test]
    fn data_of_a_later_version_passes_through_from_another_node() {
        let read = |event: &str, data: &str| {
            batch(&sse::Message {
                event: event.to_owned(),
                data: data.to_owned(),
                last_id: "7".into(),
            })
        };
        let data = r#"{"unknown":[1.50,"\u003c"],"status":"running"}"#;
        let event = format!(
            r#"{{"id":7,"type":"of_tomorrow","data":{data},"created_at":"2026-01-02T03:04:05.006Z"}}"#
        );
        let found = read("of_tomorrow", &event).unwrap().unwrap();
        let [Message::Event(row)] = found.messages() else {
            panic!("{found:?}");
        };
        assert_eq!(
            (row.seq, row.kind.as_str(), row.data.as_str()),
            (7, "of_tomorrow", data)
        );
        assert_eq!(row.created_at.to_string(), "2026-01-02T03:04:05.006Z");

        let run = r#"{"id":"run_1","field_of_tomorrow":1e2}"#;
        let found = read("done", run).unwrap().unwrap();
        let [Message::Done(done)] = found.messages() else {
            panic!("{found:?}");
        };
        assert_eq!(done.get(), run);
        assert!(found.is_last());

        // A message that is not recorded has no position, so followers of this node miss nothing that they could ask for.
        assert!(
            read("progress_of_tomorrow", r#"{"percent":40}"#)
                .unwrap()
                .is_none()
        );
        for broken in [r#"{"id":7}"#, "{", r#"{"id":"x","type":"status"}"#] {
            assert!(
                matches!(read("status", broken), Err(Error::Internal(_))),
                "{broken}"
            );
        }
    }
}
