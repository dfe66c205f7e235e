//! Metrics of connections.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Metrics of the connections of a node. Clones share the figures.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionMetrics {
    open: Gauge,
    reserved: Gauge,
    gave_way: Counter,
    refused: Counter,
    closed: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Default for ConnectionMetrics {
    fn default() -> Self {
        let closed = Family::<[(&'static str, &'static str); 1], Counter>::default();
        Self {
            open: Gauge::default(),
            reserved: Gauge::default(),
            gave_way: closed.get_or_create_owned(&[("reason", "gave_way")]),
            refused: closed.get_or_create_owned(&[("reason", "refused")]),
            closed,
        }
    }
}

impl ConnectionMetrics {
    pub(crate) fn set_open(&self, connections: usize) {
        self.open.set(i64::try_from(connections).unwrap_or(i64::MAX));
    }

    /// Sets the number of descriptors that connections may not use.
    pub(crate) fn set_reserved(&self, descriptors: u64) {
        self.reserved.set(i64::try_from(descriptors).unwrap_or(i64::MAX));
    }

    /// Counts a connection that was closed for a new one.
    pub(crate) fn gave_way(&self) {
        self.gave_way.inc();
    }

    /// Counts a new connection that was closed at the limit.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "connections_open",
            "Connections of clients that are open now",
            self.open.clone(),
        );
        registry.register(
            "connections_closed",
            "Connections that were closed because there were too many, of the node or of one address",
            self.closed.clone(),
        );
        registry.register(
            "descriptors_reserved",
            "File descriptors that no connection uses up, for runs, the storage and the database",
            self.reserved.clone(),
        );
    }
}
