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

#[cfg(test)]
mod tests {
    use futures_util::future::{BoxFuture, join};
    use sortie_api::{EventType, Micros};
    use tokio::time::Instant;

    use super::*;
    use crate::BudgetSpec;

    /// A recorder that is behind at the first entry and not at the next.
    #[derive(Default)]
    struct Behind(std::sync::Mutex<Vec<u32>>);

    impl Sink for Behind {
        fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn journal(&self, entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async move {
                if entry.step == 1 {
                    tokio::task::yield_now().await;
                }
                self.0.lock().unwrap().push(entry.step);
                Ok(())
            })
        }

        fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn spent(&self, _cost: Micros) {}
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
        let scribe = Scribe::new(&sink, &meter);
        let entry = |step| scribe.write(step, What::Trimmed { turns: 0 });
        let (first, second) = join(entry(1), entry(2)).await;
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(*sink.0.lock().unwrap(), [1, 2]);
    }
}
