//! Accepts connections, serves them over HTTP/1.1, and closes them gracefully.
//!
//! A connection is closed if its client sends a header too slowly, does not read its answer, or keeps the connection idle for too
//! long. The part of an answer that a connection buffers is bounded for every kind of answer. While the node prepares to stop,
//! each connection is closed after its current answer. At the stop no new connection is accepted, each open one may finish its
//! current request, and requests that exceed a short grace period are cut off.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, response::Response};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use sortie_base::spawn_short;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

mod at_work;
mod refusals;
mod registry;
mod stream;

pub(crate) use self::registry::Connections;
use self::{at_work::Requests, refusals::Refusals, registry::Connection, stream::ClientStream};
use crate::kit::{AnswerRoom, LeavesBody};

/// Time limit for the header of a request, counted from the previous answer. It is also the limit for idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// Limit in bytes of the output that a connection buffers before it pauses the answer, and of the header of a request.
const BUFFER_BYTES: usize = 64 * 1024;

/// Time in which an active request has to finish at the stop.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// Pause after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Service that answers the requests of a listener.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Answers one request of the client at `peer`. Failures become answers as well.
    fn answers(&self, peer: IpAddr, request: Request<Body>) -> impl Future<Output = Response> + Send;

    /// Generates the id of a request that could not be read.
    fn new_request_id(&self) -> String;
}

/// Serves until `stop`; returns when every connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    answers: Arc<impl Answers>,
    connections: Connections,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                // The connection is closed if it is not admitted.
                if let Some(place) = connections.admit(peer.ip(), &stop) {
                    let client = (stream, peer, place);
                    spawn_short(
                        &tasks,
                        serve_connection(client, Arc::clone(&answers), stop.clone()),
                    );
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// Returns true if the client disconnected before the accept.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn serve_connection(
    (stream, peer, place): (TcpStream, SocketAddr, Connection),
    answers: Arc<impl Answers>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    serve_stream((stream, peer.ip(), place), answers, stop).await;
}

async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(
    (stream, peer, place): (S, IpAddr, Connection),
    answers: Arc<impl Answers>,
    stop: CancellationToken,
) {
    let requests = Arc::new(Requests::default());
    let stream = ClientStream::new(stream, Arc::clone(&requests), place.stall());
    let ids = Arc::clone(&answers);
    let new_id = Box::new(move || ids.new_request_id());
    let stream = Refusals::new(stream, Arc::clone(&requests), new_id);
    let at = place.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (answers, requests, at) = (Arc::clone(&answers), Arc::clone(&requests), at.clone());
        async move {
            requests.until_sent().await;
            let mut at_work = requests.begin(at.begin_request());
            // Boxed, so that a connection that waits for a request or sends a stream does not keep memory for the handler.
            let mut response = Box::pin(answers.answers(peer, request.map(Body::new))).await;
            if response.extensions().get::<LeavesBody>().is_some() {
                requests.linger();
            }
            if let Some(room) = response.extensions_mut().remove::<AnswerRoom>() {
                at_work.hold(room);
            }
            Ok::<_, Infallible>(response.map(|body| at_work.answer(body)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = place.closes() => {
            if !stop.is_cancelled() {
                // The connection was closed for another one.
                return;
            }
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(CLOSE_GRACE, connection).await {
                Ok(ended) => ended,
                Err(_late) => {
                    tracing::warn!("closed a connection at shutdown");
                    Ok(())
                }
            }
        }
    };
    if let Err(error) = ended {
        // Clients that disconnect or do not speak HTTP are not our failure.
        tracing::debug!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests;
