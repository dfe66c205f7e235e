//! How sandboxes open.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use sortie_sandbox::{Backend, Capabilities, Error, Sandbox, Spec, Workdir};

use super::Metrics;

/// A backend whose sandboxes are counted.
pub(crate) struct MeasuredSandbox {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) metrics: Arc<Metrics>,
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
