//! `/metrics`: what the engine, its store, this server and its process measure, as `OpenMetrics` text.
//!
//! Whoever reaches it reads it, so nothing of an organization is in it: no ids, no keys, no names, no content. Labels are
//! route templates, models of the catalog and words of lists in the code.

mod http;
mod process;

use std::{net::IpAddr, sync::Arc};

use ::http::{HeaderValue, Method, Request, header::CONTENT_TYPE};
use axum::{body::Body, response::Response};
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::info::Info,
    registry::Registry,
};
use sortie_engine::Engine;

pub(crate) use self::http::{HttpMetrics, OpenStream, Refused, tell_route};
use self::process::Process;
use crate::{
    connections::Answers,
    kit::{ApiError, ApiResult, Fault},
    routes,
};

/// What the text is (`OpenMetrics` 1.0, "Text format"); Prometheus reads it since 2.5.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is measured, ready to be written.
pub(crate) struct Exposition {
    engine: Engine,
    registries: Arc<[Registry; 2]>,
}

impl Exposition {
    /// Of `engine`, the server that measures with `http`, and this process.
    pub(crate) fn new(engine: Engine, http: &HttpMetrics) -> Self {
        let mut own = Registry::with_prefix("sortie");
        own.register(
            "build",
            "The version of this node",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        engine.register_metrics(&mut own);
        http.register(&mut own);
        // Under the names that dashboards of any process look for.
        let mut process = Registry::with_prefix("process");
        process.register_collector(Box::new(Process));
        Self {
            engine,
            registries: Arc::new([own, process]),
        }
    }

    /// The text, within about two seconds even where the database does not answer.
    pub(crate) async fn answer(&self) -> ApiResult<Response> {
        self.engine.look_around().await;
        let registries = Arc::clone(&self.registries);
        // It reads files of the kernel, and counts open files one by one on old ones.
        let written = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            for registry in &*registries {
                encode_registry(&mut text, registry)?;
            }
            encode_eof(&mut text).map(|()| text)
        });
        let text = written
            .await
            .map_err(ApiError::internal)?
            .map_err(ApiError::internal)?;
        let mut response = Response::new(Body::from(text));
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
        Ok(response)
    }
}

/// A listener that has nothing but `/metrics`.
impl Answers for Exposition {
    async fn answers(&self, _: IpAddr, request: Request<Body>) -> Response {
        use axum::response::IntoResponse as _;
        if request.uri().path() != routes::METRICS {
            return ApiError::not_found(format!("only {} is here", routes::METRICS)).into_response();
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return ApiError::method_not_allowed().into_response();
        }
        let mut answer = self.answer().await.into_response();
        if let Some(Fault(chain)) = answer.extensions_mut().remove::<Fault>() {
            tracing::error!(error = %chain, "the metrics could not be written");
        }
        answer
    }
}
