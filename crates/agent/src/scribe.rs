//! Writes the run's journal: one entry at a time, each with what the run had spent when it was written, so that neither
//! order nor cost goes back where calls run side by side.

use tokio::sync::Mutex;

use crate::{
    Sink, Stopped,
    journal::{Entry, What},
    meter::Meter,
};

/// The journal of a run, to be written.
pub(crate) struct Scribe<'a> {
    sink: &'a dyn Sink,
    meter: &'a Meter<'a>,
    writing: Mutex<()>,
}

impl<'a> Scribe<'a> {
    pub(crate) fn new(sink: &'a dyn Sink, meter: &'a Meter<'a>) -> Self {
        Self {
            sink,
            meter,
            writing: Mutex::default(),
        }
    }

    /// Writes what happened in turn `step`.
    pub(crate) async fn write(&self, step: u32, what: What) -> Result<(), Stopped> {
        let _in_turn = self.writing.lock().await;
        let entry = Entry {
            step,
            spent_micros: self.meter.spent_on_calls(),
            what,
        };
        self.sink.journal(entry).await
    }

    /// Waits until all of it is durable.
    pub(crate) async fn durable(&self) -> Result<(), Stopped> {
        self.sink.durable().await
    }
}
