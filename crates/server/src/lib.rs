//! HTTP: the engine API as axum routes, the kit they stand on, and the `OpenAPI` document made from them.
//!
//! A request passes the gate (id, credential, rate limit), the router, one handler with role extractors, one call
//! into engine or store, and the gate again (headers). [`serve`] runs it, [`openapi`] describes it.

mod access;
mod app;
mod connections;
mod description;
mod gate;
mod kit;
mod metrics;
mod routes;
mod spans;

use std::sync::Arc;

use ipnet::IpNet;
use sortie_engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use access::{Access, Api, Modes, RequiredRole};
pub use kit::Deprecation;

use crate::{
    app::App,
    gate::Gate,
    kit::BodyBudget,
    metrics::{Exposition, HttpMetrics},
};

/// Settings of the server at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests a minute with one credential.
    pub requests_per_minute: u32,
    /// Requests a minute without a credential from one address.
    pub anonymous_requests_per_minute: u32,
    /// Networks of proxies whose `X-Forwarded-For` is believed; a lone address is one of a single host.
    pub trusted_proxies: Vec<IpNet>,
    /// The address clients use, for the `servers` of the `OpenAPI` document.
    pub base_url: Option<String>,
    /// End of `/v1`; none while it is the current version.
    pub deprecation: Option<Deprecation>,
}

/// Listeners of the server.
#[derive(Debug)]
pub struct Listeners {
    /// For the API.
    pub api: TcpListener,
    /// For `/metrics` alone, which the API then does not have.
    pub metrics: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(api: TcpListener) -> Self {
        Self { api, metrics: None }
    }
}

/// Serves until `stop` is cancelled, then ends open streams and returns when every connection is closed.
pub async fn serve(
    listeners: impl Into<Listeners>,
    engine: Engine,
    options: Arc<Options>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let seed = getrandom::u64().map_err(std::io::Error::other)?;
    let document = serde_json::to_vec(&description::document(options.base_url.as_deref()))?;
    let Listeners { api, metrics } = listeners.into();
    let http = HttpMetrics::default();
    let exposition = Arc::new(Exposition::new(engine.clone(), &http));
    let app = Arc::new(App {
        engine: engine.clone(),
        bodies: BodyBudget::default(),
        document: document.into(),
        http: http.clone(),
        exposition: metrics.is_none().then(|| Arc::clone(&exposition)),
        stop: stop.clone(),
    });
    let gate = Arc::new(Gate::new(engine, routes::router(app), &options, http, seed));
    let served = connections::serve(api, Arc::clone(&gate), stop.clone());
    let measured = async {
        if let Some(listener) = metrics {
            connections::serve(listener, exposition, stop).await;
        }
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(served, measured) } => {}
        () = gate.share_limits() => {}
    }
    Ok(())
}

/// Access to each operation of the engine API.
pub fn access() -> &'static [Access] {
    routes::ACCESS
}

/// The `OpenAPI` 3.1 document of the engine API, as JSON.
pub fn openapi() -> serde_json::Value {
    description::document(None)
}
