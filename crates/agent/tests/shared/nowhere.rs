use futures_util::future::BoxFuture;
use sortie_agent::{Sink, Stopped, journal::Entry};
use sortie_api::{EventType, Micros};
use tokio::time::Instant;

/// Sink that keeps nothing.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, _cost: Micros, _at: Instant) {}
}
