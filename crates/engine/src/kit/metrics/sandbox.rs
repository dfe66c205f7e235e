//! Metrics of the opening of sandboxes.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use sortie_sandbox::{Backend, Capabilities, Error, Sandbox, Spec, Workdir};

use super::Metrics;
use crate::kit::no_sandbox::NoSandbox;

/// A sandbox backend that counts the sandboxes that it opens, and measures the time of each opening.
pub(crate) struct MeasuredSandbox {
    backend: Arc<dyn Backend>,
    metrics: Arc<Metrics>,
}

impl MeasuredSandbox {
    /// Wraps the host's backend, or one that opens nothing and returns the reason.
    pub(crate) fn over(
        sandbox: Result<Arc<dyn Backend>, String>,
        metrics: &Arc<Metrics>,
    ) -> Arc<dyn Backend> {
        Arc::new(Self {
            backend: sandbox.unwrap_or_else(|reason| Arc::new(NoSandbox::new(reason))),
            metrics: Arc::clone(metrics),
        })
    }
}

impl Backend for MeasuredSandbox {
    fn capabilities(&self) -> &Capabilities {
        self.backend.capabilities()
    }

    fn open<'a>(
        &'a self,
        workdir: &'a Workdir,
        spec: Spec,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async move {
            let began = Instant::now();
            let opened = self.backend.open(workdir, spec).await;
            let outcome = match &opened {
                Ok(_) => "opened",
                Err(Error::Unavailable { .. }) => "unavailable",
                Err(_) => "failed",
            };
            self.metrics
                .sandbox_opens
                .get_or_create(&[("outcome", outcome)])
                .inc();
            self.metrics.sandbox_open.observe(began.elapsed().as_secs_f64());
            opened
        })
    }
}
