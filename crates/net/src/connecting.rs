//! Observes the connections of a client: records if a request opened one, and adds the proxy to the cause of a failure.

use std::{
    cell::Cell,
    error::Error as StdError,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tower::{Layer, Service};

use crate::proxy::ProxyServer;

/// An error of any type, as connectors return it.
type AnyError = Box<dyn StdError + Send + Sync>;

tokio::task_local! {
    /// Whether the request of this task has opened a connection.
    static OPENED: Cell<bool>;
}

/// Runs a request, and returns whether it opened a connection. Otherwise it used a pooled one.
pub(crate) async fn noticing<F: Future>(request: F) -> (F::Output, bool) {
    let scoped = OPENED.scope(Cell::new(false), async {
        let output = request.await;
        (output, OPENED.with(Cell::get))
    });
    scoped.await
}

/// A failure to connect to or through a proxy.
#[derive(Debug, thiserror::Error)]
#[error("through the proxy {proxy}")]
pub(crate) struct ThroughProxy {
    pub(crate) proxy: ProxyServer,
    #[source]
    cause: AnyError,
}

/// Observes the connections of a client. `proxy` is its proxy, if any.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) proxy: Option<ProxyServer>,
}

impl<S> Layer<S> for Watch {
    type Service = Watched<S>;

    fn layer(&self, connector: S) -> Watched<S> {
        Watched {
            connector,
            proxy: self.proxy.clone(),
        }
    }
}

/// A connector with observation.
#[derive(Clone)]
pub(crate) struct Watched<S> {
    connector: S,
    proxy: Option<ProxyServer>,
}

impl<S, R> Service<R> for Watched<S>
where
    S: Service<R, Error = AnyError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, AnyError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // Only requests within `noticing` have the flag.
        let _nobody_asks = OPENED.try_with(|opened| opened.set(true));
        let (connecting, proxy) = (self.connector.call(request), self.proxy.clone());
        Box::pin(async move {
            connecting.await.map_err(|cause| match proxy {
                Some(proxy) => ThroughProxy { proxy, cause }.into(),
                None => cause,
            })
        })
    }
}
