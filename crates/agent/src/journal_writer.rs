//! The writer of a run's journal. It writes one entry at a time, each with the cost of the run at that moment. Order and cost
//! therefore never decrease, even if calls run concurrently.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;

use crate::{
    Sink, Stopped,
    journal::{Entry, What},
    meter::Meter,
};

/// Writer of the journal of a run.
pub(crate) struct JournalWriter<'a> {
    sink: &'a dyn Sink,
    meter: &'a Meter<'a>,
    writing: Mutex<()>,
    /// Whether a call has changed the directory since everything was last durable.
    changed: AtomicBool,
}

impl<'a> JournalWriter<'a> {
    pub(crate) fn new(sink: &'a dyn Sink, meter: &'a Meter<'a>) -> Self {
        Self {
            sink,
            meter,
            writing: Mutex::default(),
            changed: AtomicBool::new(false),
        }
    }

    /// Writes an entry about turn `step`.
    pub(crate) async fn write(&self, step: u32, what: What) -> Result<(), Stopped> {
        let _in_turn = self.writing.lock().await;
        let entry = Entry {
            step,
            spent_micros: self.meter.spent_on_calls(),
            what,
        };
        self.sink.journal(entry).await
    }

    /// Waits until every entry is durable.
    pub(crate) async fn durable(&self) -> Result<(), Stopped> {
        self.changed.store(false, Ordering::Relaxed);
        self.sink.durable().await
    }

    /// Records that a call has changed the directory.
    pub(crate) fn changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Waits, before a call that changes the directory, until the change before it is durable. After a loss, at most
    /// the call that was under way is therefore repeated. If two were repeated, the first would meet the changes of the
    /// second.
    pub(crate) async fn changes(&self) -> Result<(), Stopped> {
        if self.changed.load(Ordering::Relaxed) {
            self.durable().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{BoxFuture, join};
    use sortie_api::{EventType, Micros};
    use tokio::time::Instant;

    use super::*;
    use crate::BudgetSpec;

    /// A recorder that lags at the first entry and has caught up at the next.
    #[derive(Default)]
    struct Behind(parking_lot::Mutex<Vec<u32>>);

    impl Sink for Behind {
        fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn journal(&self, entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async move {
                if entry.step == 1 {
                    tokio::task::yield_now().await;
                }
                self.0.lock().push(entry.step);
                Ok(())
            })
        }

        fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn spent(&self, _cost: Micros, _at: tokio::time::Instant) {}
    }

    #[tokio::test]
    async fn an_entry_waits_for_the_one_before_it() {
        let sink = Behind::default();
        let budget = BudgetSpec {
            max_cost: Micros::ZERO,
            compute_micros_per_second: Micros::ZERO,
            started: Instant::now(),
            spent: Micros::ZERO,
        };
        let meter = Meter::new(&budget, &sink);
        let journal_writer = JournalWriter::new(&sink, &meter);
        let entry = |step| journal_writer.write(step, What::Trimmed { turns: 0 });
        let (first, second) = join(entry(1), entry(2)).await;
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(*sink.0.lock(), [1, 2]);
    }
}
