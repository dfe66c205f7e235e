//! `/metrics`: metrics of the engine, its store, this server and its process, as Prometheus text or `OpenMetrics` text.
//!
//! The route needs no credential, so the metrics contain no data of an organization: no ids, no keys, no names, no content.
//! Labels are route templates, models of the catalog and constants in the code.

mod connections;
mod form;
mod http;
mod process;

use std::{net::IpAddr, sync::Arc, time::Duration};

use ::http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{CONTENT_TYPE, VARY},
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::info::Info,
    registry::Registry,
};
use sortie_accounts::Accounts;
use sortie_api::{ErrorCode, Refusal};
use sortie_billing::Billing;
use sortie_engine::Engine;
use tokio::{sync::Mutex, time::Instant};

pub(crate) use self::connections::ConnectionMetrics;
pub(crate) use self::http::{HttpMetrics, OpenStream, Refused, note_route};
use self::{
    form::{Form, prometheus_text},
    process::Process,
};
use crate::{
    connections::Answers,
    kit::{ApiError, Fault, RequestIds, method_not_allowed},
};

/// Path of the metrics.
pub(crate) const METRICS: &str = "/metrics";

/// Time for which a text is cached, which is also the time for which the engine caches its look-ups.
const FRESH: Duration = Duration::from_secs(1);

/// Metrics of this process, ready to be written.
pub(crate) struct Exposition {
    engine: Engine,
    registries: Arc<[Registry; 2]>,
    recent: RecentTexts,
    ids: RequestIds,
}

/// Metrics at one time, in both forms.
#[derive(Clone)]
struct Texts {
    open_metrics: Bytes,
    prometheus: Bytes,
}

/// The last written texts, and their time. Requests for metrics are not rate limited, so they must not cost the node more than
/// one text a second.
#[derive(Default)]
struct RecentTexts {
    /// Locked while a text is written, so that concurrent requests share one text.
    last: Mutex<Option<(Instant, Texts)>>,
}

impl RecentTexts {
    /// Returns the cached texts, or has `write` create new ones if they are too old. A failure is not cached.
    async fn or_written<F>(&self, write: impl FnOnce() -> F) -> Result<Texts, Refusal>
    where
        F: Future<Output = Result<Texts, Refusal>>,
    {
        let mut last = self.last.lock().await;
        if let Some((at, texts)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(texts.clone());
        }
        let texts = write().await?;
        *last = Some((Instant::now(), texts.clone()));
        Ok(texts)
    }
}

impl Exposition {
    /// Creates the metrics of `engine`, the accounts and payments of a hosted deployment, the server that measures with `http`,
    /// and this process. `seed` makes its request ids unique.
    pub(crate) fn new(
        (engine, http): (Engine, &HttpMetrics),
        (accounts, billing): (Option<&Accounts>, Option<&Billing>),
        seed: u64,
    ) -> Self {
        let mut own = Registry::with_prefix("sortie");
        own.register(
            "build",
            "The version of this node",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        engine.register_metrics(&mut own);
        if let Some(accounts) = accounts {
            accounts.register_metrics(&mut own);
        }
        if let Some(billing) = billing {
            billing.register_metrics(&mut own);
        }
        http.register(&mut own);
        // With the names that generic process dashboards expect.
        let mut process = Registry::with_prefix("process");
        process.register_collector(Box::new(Process));
        Self {
            engine,
            registries: Arc::new([own, process]),
            recent: RecentTexts::default(),
            ids: RequestIds::new(seed),
        }
    }

    /// Answers with the text in the form that `request` accepts. It is at most a second old, and arrives within about two seconds
    /// even if the database does not answer.
    pub(crate) async fn answer(&self, request: &HeaderMap) -> Result<Response, Refusal> {
        let texts = self.recent.or_written(|| self.write()).await?;
        let form = Form::accepted_by(request);
        let mut response = Response::new(Body::from(match form {
            Form::Prometheus => texts.prometheus,
            Form::OpenMetrics => texts.open_metrics,
        }));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
        headers.insert(VARY, HeaderValue::from_static("accept"));
        Ok(response)
    }

    async fn write(&self) -> Result<Texts, Refusal> {
        self.engine.look_around().await;
        let registries = Arc::clone(&self.registries);
        // This reads files of the kernel, and on old kernels counts open files one by one.
        let written = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            for registry in &*registries {
                encode_registry(&mut text, registry)?;
            }
            encode_eof(&mut text)?;
            Ok::<_, std::fmt::Error>(Texts {
                prometheus: prometheus_text(&text).into(),
                open_metrics: text.into(),
            })
        });
        written
            .await
            .map_err(Refusal::internal)?
            .map_err(Refusal::internal)
    }
}

/// Listener that serves only `/metrics`.
impl Answers for Exposition {
    fn new_request_id(&self) -> String {
        self.ids.of(&HeaderMap::new()).as_str().to_owned()
    }

    async fn answers(&self, _: IpAddr, request: Request<Body>) -> Response {
        use axum::response::IntoResponse as _;
        if request.uri().path() != METRICS {
            let elsewhere = ErrorCode::NotFound.because(format!("only {METRICS} is here"));
            return ApiError::from(elsewhere).into_response();
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return ApiError::from(method_not_allowed()).into_response();
        }
        let mut answer = self
            .answer(request.headers())
            .await
            .map_err(ApiError::from)
            .into_response();
        if let Some(Fault(chain)) = answer.extensions_mut().remove::<Fault>() {
            tracing::error!(error = %chain, "cannot write the metrics");
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_text_is_written_once_a_second_however_many_ask_for_it() {
        let (recent, written) = (RecentTexts::default(), AtomicUsize::new(0));
        let ask = || {
            recent.or_written(async || {
                let number = written.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
                let text = Bytes::from(number.to_string());
                Ok(Texts {
                    open_metrics: text.clone(),
                    prometheus: text,
                })
            })
        };
        let refused = recent.or_written(async || Err(Refusal::internal("no text")));
        assert!(refused.await.is_err());
        for text in futures_util::future::join_all((0..100).map(|_| ask())).await {
            assert_eq!(text.unwrap().open_metrics, "0");
        }
        tokio::time::sleep(Duration::from_millis(999)).await;
        assert_eq!(ask().await.unwrap().open_metrics, "0");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(ask().await.unwrap().prometheus, "1");
    }
}
