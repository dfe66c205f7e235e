//! Connections: accepted, served over HTTP/1.1, and closed in good order.
//!
//! A client that sends its header too slowly, or keeps an idle connection for too long, is let go. Once the node is about
//! to stop, each connection is closed behind the answer it is at. At the stop
//! no connection is accepted, each one finishes the request it is at, and what is not done after a short grace is cut.

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderValue, Request, header::CONNECTION};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use sortie_engine::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::gate::Gate;

/// Time for the header of a request, counted from the answer before it: also how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// Time a request at work at the stop has to finish.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// Pause after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`; returns when every connection is closed.
pub(crate) async fn serve(listener: TcpListener, gate: Arc<Gate>, engine: Engine, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let served = (Arc::clone(&gate), engine.clone());
                connections.spawn(serve_connection(stream, peer, served, stop.clone()));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The client was gone before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    (gate, engine): (Arc<Gate>, Engine),
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let (gate, engine) = (Arc::clone(&gate), engine.clone());
        async move {
            let mut response = gate.handle(peer.ip(), request.map(Body::new)).await;
            if engine.is_draining() {
                // The next request of this client comes by a connection that it makes then, to another node.
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(CLOSE_GRACE, connection).await {
                Ok(ended) => ended,
                Err(_late) => {
                    tracing::warn!("a connection was cut at the stop");
                    Ok(())
                }
            }
        }
    };
    if let Err(error) = ended {
        // Clients that go away and clients that do not speak HTTP: their affair.
        tracing::debug!(%error, "a connection ended");
    }
}
