//! Traffic figures of a call.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
};

use reqwest::StatusCode;

/// Traffic record of a call. The request carries it.
#[derive(Debug, Default)]
pub(super) struct Meter {
    status: AtomicU16,
    bytes: AtomicU64,
    broke_off: OnceLock<String>,
    is_exceeded: AtomicBool,
}

impl Meter {
    /// Returns the status of the response, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }

    /// Returns the number of bytes of the body that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the reason why the stream ended early, if known.
    pub(super) fn broke_off(&self) -> Option<&str> {
        self.broke_off.get().map(String::as_str)
    }

    /// Records the reason why the stream ended early.
    pub(super) fn break_off(&self, why: &str) {
        self.broke_off.get_or_init(|| why.to_owned());
    }

    /// Whether the response exceeds a size limit.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Records that the response exceeds a size limit.
    pub(super) fn exceed(&self) {
        self.is_exceeded.store(true, Ordering::Relaxed);
    }

    /// Adds the traffic of a request that belongs to the call.
    pub(super) fn include(&self, request: &Self) {
        self.bytes.fetch_add(request.bytes(), Ordering::Relaxed);
        if let Some(status) = request.status() {
            self.status.store(status, Ordering::Relaxed);
        }
    }

    pub(super) fn begin(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
