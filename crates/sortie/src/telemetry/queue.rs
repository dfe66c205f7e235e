//! Queue of spans. Its length is bounded; spans beyond it are dropped, counted and logged now and then. Ending a span
//! never waits for the collector.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, UNIX_EPOCH},
};

use opentelemetry::{Array, Context, Value};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};
use parking_lot::Mutex;

/// Spans that wait at most.
const WAITING: usize = 8_192;

/// Spans in one request.
const BATCH: usize = 512;

/// Time for which a span waits for others.
const DELAY: Duration = Duration::from_secs(1);

/// Interval of the log lines about lost spans.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// Timeout of the last spans when the process ends.
pub(super) const LAST_EXPORT: Duration = Duration::from_secs(5);

/// Takes spans for `exporter`.
pub(super) fn bounded<E: SpanExporter + 'static>(exporter: E) -> impl SpanProcessor {
    let count = Arc::new(Count::default());
    let exporter = Exporter {
        to: exporter,
        count: Arc::clone(&count),
    };
    let config = BatchConfigBuilder::default()
        // With room for the batch that is being sent: spans are dropped by this queue, not by the library.
        .with_max_queue_size(WAITING + BATCH)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    Queue {
        batches: BatchSpanProcessor::builder(exporter)
            .with_batch_config(config)
            .build(),
        count,
    }
}

/// Numbers of waiting spans, and of spans lost since the last log line.
#[derive(Debug, Default)]
struct Count {
    waiting: AtomicUsize,
    lost: AtomicUsize,
    told: Mutex<Option<Instant>>,
}

impl Count {
    fn admits(&self) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) < WAITING {
            return true;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.lost.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn sent(&self, spans: usize) {
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
    }

    /// Returns the number of lost spans to log at `now`, if any.
    fn to_tell(&self, now: Instant) -> Option<usize> {
        let mut told = self.told.lock();
        let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_EVERY);
        let lost = if is_due {
            self.lost.swap(0, Ordering::Relaxed)
        } else {
            0
        };
        if lost > 0 {
            *told = Some(now);
        }
        (lost > 0).then_some(lost)
    }
}

#[derive(Debug)]
struct Queue {
    batches: BatchSpanProcessor,
    count: Arc<Count>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.count.admits() {
            self.batches.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Counts the exported and the lost spans.
#[derive(Debug)]
struct Exporter<E> {
    to: E,
    count: Arc<Count>,
}

impl<E: SpanExporter> SpanExporter for Exporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let sent = self
            .to
            .export(batch.into_iter().map(by_convention).collect())
            .await;
        self.count.sent(spans);
        let error = sent.as_ref().err();
        if error.is_some() {
            self.count.lost.fetch_add(spans, Ordering::Relaxed);
        }
        if let Some(lost) = self.count.to_tell(Instant::now()) {
            let error = error.map(tracing::field::display);
            tracing::warn!(
                lost,
                error,
                "spans were lost: the collector does not take them, or not fast enough"
            );
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.to.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.to.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.to.set_resource(resource);
    }
}

/// Completes a span with facts that an open span cannot hold: an earlier start, a list, and a name that was found
/// later.
fn by_convention(mut span: SpanData) -> SpanData {
    let (mut began, mut route) = (None, None);
    span.attributes
        .retain_mut(|attribute| match (attribute.key.as_str(), &mut attribute.value) {
            ("sortie.began_at_micros", Value::I64(micros)) => {
                began = u64::try_from(*micros).ok().map(Duration::from_micros);
                false
            }
            ("gen_ai.response.finish_reasons", value @ Value::String(_)) => {
                if let Value::String(reason) = &*value {
                    *value = Value::Array(Array::String(vec![reason.clone()]));
                }
                true
            }
            ("http.route", Value::String(found)) => {
                route = Some(found.clone());
                true
            }
            _ => true,
        });
    if let Some(began) = began.and_then(|since| UNIX_EPOCH.checked_add(since)) {
        span.start_time = began.min(span.end_time);
    }
    if let Some(route) = route {
        span.name = format!("{} {route}", span.name).into();
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_bound_is_refused_and_counted() {
        let count = Count::default();
        let admitted = (0..WAITING + 7).filter(|_| count.admits()).count();
        assert_eq!(admitted, WAITING);
        count.sent(1);
        assert!(count.admits() && !count.admits());
        assert_eq!(count.to_tell(Instant::now()), Some(8));
    }

    #[test]
    fn losses_are_told_once_a_minute_and_none_is_forgotten() {
        let (count, began) = (Count::default(), Instant::now());
        assert_eq!(count.to_tell(began), None, "nothing was lost");
        count.lost.store(3, Ordering::Relaxed);
        assert_eq!(count.to_tell(began), Some(3));
        count.lost.store(4, Ordering::Relaxed);
        assert_eq!(count.to_tell(began + Duration::from_secs(59)), None);
        assert_eq!(count.to_tell(began + TELL_EVERY), Some(4));
    }
}
