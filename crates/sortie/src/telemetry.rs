//! The export of spans, as commands use it. The export may be disabled.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod contexts;
#[cfg(feature = "otel")]
mod queue;

use sortie_engine::Traces;

#[cfg(feature = "otel")]
pub(crate) use exporting::Telemetry;
#[cfg(not(feature = "otel"))]
pub(crate) use nothing::Telemetry;

#[cfg(feature = "otel")]
mod exporting {
    use std::sync::Arc;

    use opentelemetry::{KeyValue, trace::TracerProvider as _};
    use opentelemetry_sdk::{
        Resource,
        resource::TelemetryResourceDetector,
        trace::{Sampler, SdkTracerProvider},
    };
    use sortie_api::SPANS;
    use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

    use super::{Traces, collector, contexts::Contexts, queue};
    use crate::{
        config::{self, Config, TraceSettings},
        failure::Result,
    };

    /// The export of spans, if configured.
    pub(crate) struct Telemetry {
        exporting: Option<SdkTracerProvider>,
    }

    impl Telemetry {
        /// Validates the settings of the export as a start does, without exporting.
        pub(crate) fn check(config: &Config) -> Result<()> {
            match &config.traces {
                Some(settings) => collector::exporter(settings, &config.outbound).map(drop),
                None => Ok(()),
            }
        }

        /// Starts the export, on the runtime of this task. The layer takes the spans.
        pub(crate) fn start<S>(
            config: &Config,
        ) -> Result<(Self, Option<impl Layer<S> + Send + Sync + use<S>>)>
        where
            S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
        {
            let Some(settings) = &config.traces else {
                return Ok((Self { exporting: None }, None));
            };
            let exporter = collector::exporter(settings, &config.outbound)?;
            let provider = SdkTracerProvider::builder()
                .with_span_processor(queue::bounded(exporter))
                .with_sampler(sampler(settings.sampler))
                .with_resource(resource(settings, config.node_name.as_deref()))
                .build();
            let layer = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("sortie"))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_tracked_inactivity(false)
                .with_context_activation(false)
                .with_filter(filter_fn(|metadata| metadata.target() == SPANS));
            let exporting = Some(provider);
            Ok((Self { exporting }, Some(layer)))
        }

        /// Traces that the node joins.
        pub(crate) fn traces(&self) -> Traces {
            match &self.exporting {
                Some(_) => Traces::exported(Arc::new(Contexts)),
                None => Traces::default(),
            }
        }

        /// Sends the remaining spans, for [`queue::LAST_EXPORT`] at most.
        pub(crate) async fn end(self) {
            let Some(provider) = self.exporting else {
                return;
            };
            // The call blocks this thread, and the export needs the runtime.
            let ended =
                tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(queue::LAST_EXPORT));
            match ended.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cannot export the last spans"),
                Err(error) => tracing::warn!(%error, "span export stopped unexpectedly"),
            }
        }
    }

    fn sampler(configured: config::Sampler) -> Sampler {
        let own = match configured.share {
            share if share >= 1.0 => Sampler::AlwaysOn,
            share if share <= 0.0 => Sampler::AlwaysOff,
            share => Sampler::TraceIdRatioBased(share),
        };
        if configured.follows_parent {
            Sampler::ParentBased(Box::new(own))
        } else {
            own
        }
    }

    fn resource(settings: &TraceSettings, node: Option<&str>) -> Resource {
        let given = settings
            .resource
            .iter()
            .map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attributes(node.map(|node| KeyValue::new("service.instance.id", node.to_owned())))
            .with_attributes(given)
            .with_service_name(settings.service_name.clone())
            .build()
    }
}

#[cfg(not(feature = "otel"))]
mod nothing {
    use tracing_subscriber::layer::Identity;

    use super::Traces;
    use crate::{
        config::Config,
        failure::{Exit, Failure, Result},
    };

    /// The export of spans in a build without one.
    pub(crate) struct Telemetry;

    impl Telemetry {
        /// Refuses settings of an export.
        pub(crate) fn check(config: &Config) -> Result<()> {
            match config.traces {
                Some(_) => Err(Failure::new(
                    Exit::Configuration,
                    "traces.endpoint: this build of sortie exports no traces",
                )),
                None => Ok(()),
            }
        }

        /// Refuses to start if the configuration asks for an export.
        pub(crate) fn start(config: &Config) -> Result<(Self, Identity)> {
            Self::check(config).map(|()| (Self, Identity::new()))
        }

        /// Traces that the node joins.
        #[expect(clippy::unused_self, reason = "as in a build that exports")]
        pub(crate) fn traces(&self) -> Traces {
            Traces::default()
        }

        /// There is nothing to send.
        #[expect(clippy::unused_async, reason = "as in a build that exports")]
        pub(crate) async fn end(self) {}
    }
}
