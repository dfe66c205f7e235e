//! HTTP: the engine API as axum routes, the kit they stand on, and the `OpenAPI` document made from them.

use std::{net::IpAddr, sync::Arc};

use sortie_engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What the server is told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests a minute with one credential.
    pub requests_per_minute: u32,
    /// Requests a minute without a credential from one address.
    pub anonymous_requests_per_minute: u32,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// The address clients use, for the `servers` of the `OpenAPI` document.
    pub base_url: Option<String>,
}

/// Serves until `stop` is cancelled, then ends open streams and returns when every connection is closed.
pub async fn serve(
    _listener: TcpListener,
    _engine: Engine,
    _options: Arc<Options>,
    _stop: CancellationToken,
) -> std::io::Result<()> {
    unimplemented!()
}

/// The `OpenAPI` 3.1 document of the engine API, as JSON.
pub fn openapi() -> serde_json::Value {
    unimplemented!()
}
