//! OTLP over HTTP to the collector that the operator named, with our own HTTP client.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use reqwest::{Method, header::CONTENT_TYPE};
use sortie_net::{EngineClient, Outbound, Timeouts, read_body};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::{
    config::TraceSettings,
    failure::{Exit, Failure, Result},
};

/// Timeout of a batch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of an answer in bytes: a few numbers and a sentence.
const ANSWER_BYTES: usize = 64 << 10;

/// The exporter for these settings. Its requests are made on the runtime of this task.
pub(super) fn exporter(settings: &TraceSettings, outbound: &Outbound) -> Result<SpanExporter> {
    let timeouts = Timeouts {
        connect: TIMEOUT,
        read: TIMEOUT,
        total: Some(TIMEOUT),
    };
    let client = Collector {
        http: EngineClient::through(outbound, timeouts)
            .map_err(|error| Failure::internal(format!("spans cannot be exported: {error}")))?,
        settings: settings.clone(),
        runtime: Handle::current(),
        requests: TaskTracker::new(),
    };
    let built = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(settings.endpoint.as_str())
        .with_timeout(TIMEOUT)
        .build();
    // Only the address can be wrong here, and the library gives no details.
    built.map_err(|_| {
        Failure::new(
            Exit::Configuration,
            format!(
                "traces.endpoint: no spans can be sent to {}: name the address of a collector, such as \
                 http://127.0.0.1:4318",
                settings.endpoint
            ),
        )
    })
}

/// Sends batches.
#[derive(Debug)]
struct Collector {
    http: EngineClient,
    settings: TraceSettings,
    /// The library calls this from a separate thread, which has no runtime.
    runtime: Handle,
    requests: TaskTracker,
}

#[async_trait]
impl HttpClient for Collector {
    /// Sends the body with the headers of the configuration only, and ignores those that the library has read from the
    /// environment.
    async fn send_bytes(&self, request: Request<Bytes>) -> std::result::Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut post = self.http.request(Method::POST, &self.settings.endpoint)?;
        if let Some(kind) = parts.headers.get(CONTENT_TYPE) {
            post = post.header(CONTENT_TYPE, kind);
        }
        for (name, value) in &self.settings.headers {
            post = post.header(name, value);
        }
        let exchange = async move {
            let answer = post.body(body).send().await.map_err(sortie_net::Error::from)?;
            let status = answer.status();
            let body = read_body(answer, ANSWER_BYTES).await?;
            Ok::<_, sortie_net::Error>((status, body))
        };
        let (status, body) = self.requests.spawn_on(exchange, &self.runtime).await??;
        Ok(Response::builder().status(status).body(body)?)
    }
}
