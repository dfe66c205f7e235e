//! Metrics of model calls: number, duration, tokens, cost and outcome. Handles are made once for each model of the
//! catalog.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use futures_util::future::BoxFuture;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use sortie_agent::{
    Media, Model,
    model::{Deltas, ErrorKind, Kind, ModelError, Reply, Request},
};
use sortie_api::{event::ModelCall, model::ModelInfo};

/// Bucket bounds in seconds of a model call.
const SECONDS: [f64; 14] = [
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 600.0,
];

type Labels<const N: usize> = [(&'static str, Arc<str>); N];
type Histograms = Family<Labels<2>, Histogram, fn() -> Histogram>;

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// Metrics of the models of a node.
#[derive(Debug)]
pub(crate) struct ModelFigures {
    calls: Family<Labels<3>, Counter>,
    errors: Family<Labels<3>, Counter>,
    tokens: Family<Labels<3>, Counter>,
    clamped: Family<Labels<2>, Counter>,
    cost: Family<Labels<2>, Counter>,
    duration: Histograms,
    first_output: Histograms,
    under_way: Gauge,
    /// Set once, with the catalog.
    by_id: OnceLock<BTreeMap<String, Arc<Figures>>>,
}

impl Default for ModelFigures {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            errors: Family::default(),
            tokens: Family::default(),
            clamped: Family::default(),
            cost: Family::default(),
            duration: Histograms::new_with_constructor(seconds),
            first_output: Histograms::new_with_constructor(seconds),
            under_way: Gauge::default(),
            by_id: OnceLock::new(),
        }
    }
}

/// Metrics of one model.
#[derive(Debug)]
struct Figures {
    replied: Counter,
    failed: Counter,
    given_up: Counter,
    errors: Vec<(ErrorKind, Counter)>,
    input: Counter,
    output: Counter,
    cache_read: Counter,
    cache_write: Counter,
    clamped: Counter,
    cost: Counter,
    duration: Histogram,
    first_output: Histogram,
    under_way: Gauge,
}

impl ModelFigures {
    /// Returns the handles of a model.
    fn of(&self, info: &ModelInfo) -> Figures {
        let (provider, model): (Arc<str>, Arc<str>) =
            (info.provider.as_str().into(), info.id.as_str().into());
        let base = || [("provider", Arc::clone(&provider)), ("model", Arc::clone(&model))];
        let with = |name, value: &str| {
            let [provider, model] = base();
            [provider, model, (name, Arc::from(value))]
        };
        let called = |outcome| self.calls.get_or_create_owned(&with("outcome", outcome));
        let read = |kind| self.tokens.get_or_create_owned(&with("type", kind));
        let failed = |kind: ErrorKind| {
            let counter = self.errors.get_or_create_owned(&with("kind", kind.as_str()));
            (kind, counter)
        };
        Figures {
            replied: called("ok"),
            failed: called("error"),
            given_up: called("given_up"),
            errors: ErrorKind::ALL.into_iter().map(failed).collect(),
            input: read("input"),
            output: read("output"),
            cache_read: read("cache_read"),
            cache_write: read("cache_write"),
            clamped: self.clamped.get_or_create_owned(&base()),
            cost: self.cost.get_or_create_owned(&base()),
            duration: self.duration.get_or_create_owned(&base()),
            first_output: self.first_output.get_or_create_owned(&base()),
            under_way: self.under_way.clone(),
        }
    }

    /// Counts a call with clamped usage.
    pub(crate) fn clamped(&self, model: &str) {
        if let Some(figures) = self.by_id.get().and_then(|known| known.get(model)) {
            figures.clamped.inc();
        }
    }

    /// Counts a call that was charged.
    pub(super) fn charged(&self, call: &ModelCall) {
        let Some(figures) = self.by_id.get().and_then(|known| known.get(&call.model)) else {
            return;
        };
        figures.input.inc_by(call.input_tokens);
        figures.output.inc_by(call.output_tokens);
        figures.cache_read.inc_by(call.cache_read_tokens);
        figures.cache_write.inc_by(call.cache_write_tokens);
        figures
            .cost
            .inc_by(u64::try_from(call.cost_micros.get()).unwrap_or(0));
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "model_calls",
            "Model calls that ended; `given_up` if the run ended first",
            self.calls.clone(),
        );
        registry.register(
            "model_errors",
            "Model calls that brought no reply, by the kind of failure",
            self.errors.clone(),
        );
        registry.register(
            "model_call_duration_seconds",
            "Duration of model calls until the whole reply or the failure, without the waits between attempts",
            self.duration.clone(),
        );
        registry.register(
            "model_first_output_seconds",
            "Time from the start of model calls to the first piece of their output",
            self.first_output.clone(),
        );
        registry.register(
            "model_calls_under_way",
            "Model calls that wait for their reply now",
            self.under_way.clone(),
        );
        registry.register(
            "model_tokens",
            "Tokens as the provider counts them; none is counted in two types",
            self.tokens.clone(),
        );
        registry.register(
            "model_usage_clamped",
            "Model calls with more usage reported than possible, which was clamped",
            self.clamped.clone(),
        );
        registry.register(
            "model_cost_micros",
            "Cost of model calls, in millionths of a US dollar; abandoned calls are estimated",
            self.cost.clone(),
        );
    }
}

/// Wraps each model so that its calls are measured.
pub(crate) fn measured(models: Vec<Arc<dyn Model>>, all: &ModelFigures) -> Vec<Arc<dyn Model>> {
    let known = all.by_id.get_or_init(|| {
        let figures = |model: &Arc<dyn Model>| (model.info().id.clone(), Arc::new(all.of(model.info())));
        models.iter().map(figures).collect()
    });
    let measure = |model: Arc<dyn Model>| match known.get(&model.info().id) {
        Some(figures) => Arc::new(Measured {
            figures: Arc::clone(figures),
            model,
        }),
        None => model,
    };
    models.into_iter().map(measure).collect()
}

/// A model that counts its calls.
struct Measured {
    model: Arc<dyn Model>,
    figures: Arc<Figures>,
}

impl Model for Measured {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn kind(&self) -> Kind {
        self.model.kind()
    }

    fn tool_output_bytes(&self) -> usize {
        self.model.tool_output_bytes()
    }

    fn binds_thinking(&self) -> bool {
        self.model.binds_thinking()
    }

    fn media_tokens(&self, media: &Media) -> Option<u64> {
        self.model.media_tokens(media)
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let under_way = UnderWay::begin(&self.figures);
            let watched = FirstOutput {
                deltas,
                began: under_way.began,
                seen: AtomicBool::new(false),
                figures: &self.figures,
            };
            let called = self.model.call(request, &watched).await;
            under_way.ended(called.as_ref().err());
            called
        })
    }
}

/// A call that waits for its reply. Dropping it earlier counts the call as abandoned.
struct UnderWay<'a> {
    figures: &'a Figures,
    began: Instant,
    is_over: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(figures: &'a Figures) -> Self {
        figures.under_way.inc();
        Self {
            figures,
            began: Instant::now(),
            is_over: false,
        }
    }

    fn ended(mut self, error: Option<&ModelError>) {
        self.is_over = true;
        self.figures.duration.observe(self.began.elapsed().as_secs_f64());
        let Some(error) = error else {
            self.figures.replied.inc();
            return;
        };
        self.figures.failed.inc();
        for (_, counter) in self.figures.errors.iter().filter(|(kind, _)| *kind == error.kind) {
            counter.inc();
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.figures.under_way.dec();
        if !self.is_over {
            self.figures.given_up.inc();
        }
    }
}

/// Records the time at which the output of a call begins.
struct FirstOutput<'a> {
    deltas: &'a dyn Deltas,
    began: Instant,
    seen: AtomicBool,
    figures: &'a Figures,
}

impl FirstOutput<'_> {
    fn came(&self) {
        if !self.seen.load(Ordering::Relaxed) && !self.seen.swap(true, Ordering::Relaxed) {
            self.figures
                .first_output
                .observe(self.began.elapsed().as_secs_f64());
        }
    }
}

impl Deltas for FirstOutput<'_> {
    fn text(&self, piece: &str) {
        self.came();
        self.deltas.text(piece);
    }

    fn written(&self, bytes: usize) {
        self.came();
        self.deltas.written(bytes);
    }
}
