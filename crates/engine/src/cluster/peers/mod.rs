//! Requests to other nodes, for the content of runs that only the memory of one node has.
//!
//! A node forwards a client's request to the node that has the content. A forwarded request is not forwarded again: a node
//! without the content refuses it. Nodes sign these requests with a key that they derive from the shared master key. While
//! the node with the content does not answer, the client gets an error. Once that node is declared lost, the store has the
//! outcome of the run.

mod passing;
mod signature;
#[cfg(test)]
mod stream_tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use reqwest::{Method, RequestBuilder, Response, header};
use sortie_api::{ErrorBody, ErrorCode, Refusal, Run, RunId};
use sortie_net::{EngineClient, Outbound, Timeouts, read_body};
use sortie_store::{
    access::Caller,
    runs::{ContentHolder, EventSelection},
};
use url::Url;

pub(crate) use signature::Signer;
pub use signature::{PEER_HEADER, Peer};

use self::passing::Passing;
use crate::{
    kit::traces::with_trace,
    runs::hub::{Batch, Message},
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

/// Maximum size of a piece of an answer that is passed on.
const PIECE_BYTES: usize = 64 * 1024;

/// Read timeout. A stream sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// Timeout of an answer that is no stream, beyond the wait that the client asked for, and of the beginning of an array.
const ANSWER: Duration = Duration::from_secs(10);

const X_REQUEST_ID: &str = "x-request-id";

/// Stream of a run that another node sends.
#[derive(Clone, Debug)]
pub(crate) struct PeerStream {
    /// Path below the run, with the query.
    pub(crate) target: String,
    /// Line that only the last message of the stream has.
    pub(crate) last_line: &'static [u8],
}

/// Client for other nodes, and verifier of their requests.
#[derive(Clone)]
pub(crate) struct Peers(Arc<Inner>);

struct Inner {
    http: EngineClient,
    signer: Option<Signer>,
    clock: Clock,
}

impl Peers {
    /// Makes the client. Without a signer, which needs a master key, the node neither sends nor accepts requests between nodes.
    /// All nodes are on one network, so no proxy is used.
    pub(crate) fn new(signer: Option<Signer>, clock: Clock, outbound: &Outbound) -> Result<Self, Refusal> {
        let timeouts = Timeouts {
            connect: Duration::from_secs(2),
            read: SILENCE,
            total: None,
        };
        let http = EngineClient::through(&outbound.direct(), timeouts).map_err(|error| {
            Refusal::internal(format!("the client for other nodes cannot be made: {error}"))
        })?;
        Ok(Self(Arc::new(Inner { http, signer, clock })))
    }

    /// Returns the client for which another node has signed a request. Returns `None` for a request without a valid signature,
    /// and for every request that nodes do not send: a signature gives read access to three routes.
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
    ) -> Result<Run, Refusal> {
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
        (selection, limit): (&EventSelection, u32),
    ) -> Result<BoxStream<'static, Result<Bytes, Refusal>>, Refusal> {
        let before = (selection.before < i64::MAX).then(|| format!("&before={}", selection.before));
        let types = (!selection.kinds.is_empty()).then(|| format!("&types={}", selection.kinds.join(",")));
        let target = format!(
            "/v1/runs/{id}/events?after={}&limit={limit}{}{}",
            selection.after,
            before.unwrap_or_default(),
            types.unwrap_or_default()
        );
        let request = self
            .request(holder, caller, &target)?
            .header(header::ACCEPT, "application/json");
        let response = tokio::time::timeout(ANSWER, answer(request))
            .await
            .map_err(|_| no_answer(&"no answer in time"))??;
        Ok(stream::try_unfold(Pieces::of(response), async |mut pieces| {
            let piece = pieces.next().await?;
            // A copy, because the piece shares a larger buffer and would keep all of it in memory.
            Ok::<_, Refusal>(piece.map(|piece| (Bytes::copy_from_slice(&piece), pieces)))
        })
        .boxed())
    }

    /// Follows a stream of a run on the node that has its content.
    pub(crate) async fn follow(
        &self,
        holder: &ContentHolder,
        caller: &Caller,
        id: RunId,
        PeerStream { target, last_line }: PeerStream,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        let target = format!("/v1/runs/{id}/{target}");
        let request = self
            .request(holder, caller, &target)?
            .header(header::ACCEPT, "text/event-stream");
        let response = answer(request).await?;
        let reading = Reading {
            pieces: Pieces::of(response),
            passing: Passing::until(last_line),
        };
        Ok(stream::try_unfold(reading, async |mut reading| {
            let batch = reading.next().await?;
            Ok::<_, Refusal>(batch.map(|batch| (batch, reading)))
        })
        .boxed())
    }

    fn request(
        &self,
        holder: &ContentHolder,
        caller: &Caller,
        target: &str,
    ) -> Result<RequestBuilder, Refusal> {
        let unreachable = || {
            ErrorCode::Unavailable
                .because("the node that has the content of this run cannot be asked from here, retry later")
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
    let run = ["/events", "/ui-messages"]
        .iter()
        .find_map(|stream| run.strip_suffix(stream))
        .unwrap_or(run);
    method == "GET" && run.parse::<RunId>().is_ok()
}

/// Body of an answer of another node, in pieces of at most [`PIECE_BYTES`].
struct Pieces {
    response: Response,
    /// Received bytes that are not part of a piece yet.
    rest: Bytes,
}

impl Pieces {
    fn of(response: Response) -> Self {
        Self {
            response,
            rest: Bytes::new(),
        }
    }

    /// Returns the next piece, or `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.rest.is_empty() {
            let read = self.response.chunk().await;
            match read.map_err(|error| no_answer(&sortie_net::Error::from(error)))? {
                Some(bytes) => self.rest = bytes,
                None => return Ok(None),
            }
        }
        Ok(Some(self.rest.split_to(PIECE_BYTES.min(self.rest.len()))))
    }
}

/// Event stream of another node that is being read.
struct Reading {
    pieces: Pieces,
    passing: Passing,
}

impl Reading {
    /// Returns the next piece of the stream, or `None` at its end. A stream that ends within a message is an error.
    async fn next(&mut self) -> Result<Option<Arc<Batch>>, Refusal> {
        while !self.passing.is_done() {
            let Some(piece) = self.pieces.next().await? else {
                if self.passing.is_within() {
                    return Err(no_answer(&"its stream ended within a message"));
                }
                break;
            };
            let passed = self.passing.take(&piece);
            if !passed.bytes.is_empty() {
                return Ok(Some(Arc::new(Batch::new(vec![Message::Passed(passed)]))));
            }
        }
        Ok(None)
    }
}

async fn answer(request: RequestBuilder) -> Result<Response, Refusal> {
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
        Ok(ErrorBody {
            code: ErrorCode::NotFound,
            ..
        }) => Refusal::not_found(),
        Ok(ErrorBody { error, code }) if matches!(code, ErrorCode::Gone | ErrorCode::InvalidRequest) => {
            code.because(error)
        }
        Ok(ErrorBody { error, .. }) => ErrorCode::Unavailable.because(error),
        Err(_) => ErrorCode::Unavailable.because(format!(
            "the node that has the content of this run answers {status}"
        )),
    })
}

async fn read<T: serde::de::DeserializeOwned>(response: Response, limit: usize) -> Result<T, Refusal> {
    let body = read_body(response, limit)
        .await
        .map_err(|error| no_answer(&error))?;
    serde_json::from_slice(&body).map_err(|_| Refusal::internal("cannot read the answer of another node"))
}

fn no_answer(error: &impl std::fmt::Display) -> Refusal {
    tracing::warn!(%error, "another node does not answer");
    ErrorCode::Unavailable.because("the node that has the content of this run does not answer, retry later")
}

#[cfg(test)]
mod tests {
    use sortie_api::{KeyId, OrgId, Timestamp};
    use sortie_store::access::By;
    use sortie_testkit::list;

    use super::*;
    use sortie_base::MasterKey;

    #[test]
    fn a_signature_of_a_node_opens_the_routes_that_nodes_ask_and_no_other() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let signer = Signer::new(&[MasterKey::new([1; 32])]).unwrap();
        let peers = Peers::new(Some(signer.clone()), Clock::manual(at), &Outbound::default()).unwrap();
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
            format!("/v1/runs/{run}/ui-messages?lastEventId=1.2&deltas=true"),
        ] {
            assert!(opens("GET", &target), "{target}");
            for method in ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "get"] {
                assert!(!opens(method, &target), "{method} {target}");
            }
        }
        for target in list! {
            "/v1/runs".to_owned(), "/v1/runs/".to_owned(), "/v1/runs?limit=100".to_owned(), "/v1/runs/x".to_owned(),
            "/v1/runs//events".to_owned(), "/v1/runs/events".to_owned(), format!("/v1/runs/{run}/"),
            format!("/v1/runs/{run}/events/"), format!("/v1/runs/{run}/events/events"),
            "/v1/runs/ui-messages".to_owned(), format!("/v1/runs/{run}/events/ui-messages"),
            format!("/v1/runs/{run}/definition"), format!("/v1/runs/{run}/artifacts"),
            format!("/v1/runs/{run}%2Fevents"), format!("//v1/runs/{run}"), format!("/v1/files?x=/v1/runs/{run}"),
            "/v1/connections".to_owned(), "/v1/me".to_owned(), "/v1/usage".to_owned(), "/v1/admin/nodes".to_owned(),
        } {
            assert!(!opens("GET", &target), "{target}");
        }
    }
}
