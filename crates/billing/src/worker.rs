//! Task of a node that processes events, checks purchases, compares payments, and buys credits automatically. Nodes claim each
//! piece of work, so they share it without a leader.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{Billing, error::Result, service::Parts};

/// Longest time between two turns.
const POLL: Duration = Duration::from_secs(15);

/// Pause after a turn that has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Billing {
    /// Runs until `stop` is cancelled.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::join!(self.work(&stop), self.0.run_auto_topups(&stop));
    }

    async fn work(&self, stop: &CancellationToken) {
        loop {
            // A turn may wait for Stripe many times. It can be cancelled anywhere: other nodes get its claimed work after the
            // lease.
            let pause = match stop.run_until_cancelled(self.turn()).await {
                None => return,
                Some(Ok(pause)) => pause,
                Some(Err(error)) => {
                    tracing::error!(%error, "the work on payments failed");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.0.rung.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does all due work. Returns the time until the next turn.
    pub async fn turn(&self) -> Result<Duration> {
        let parts = &self.0;
        // A failed search does not block other work.
        if let Err(error) = parts.search_events().await {
            tracing::warn!(%error, "searching for events of Stripe failed; the search is retried");
        }
        // A failure of one kind of work does not block the others: it is returned after them.
        let mut failed = Ok(());
        let next = loop {
            let (handled, next) = or_failed(&mut failed, parts.handle_events().await);
            let reconciled = or_failed(&mut failed, parts.reconcile_topups().await);
            let compared = or_failed(&mut failed, parts.compare_payments().await);
            let closed = or_failed(&mut failed, parts.close_accounts().await);
            let refunded = or_failed(&mut failed, parts.carry_out_refunds().await);
            if failed.is_err() || handled + reconciled + compared + closed + refunded == 0 {
                break next;
            }
        };
        or_failed(&mut failed, parts.tidy_events().await);
        or_failed(&mut failed, parts.measure_auto_topups().await);
        failed?;
        let now = parts.now();
        Ok(next.map_or(POLL, |next| next.since(now).min(POLL)))
    }
}

impl Parts {
    /// Sets the age of the oldest automatic purchase that has not ended.
    async fn measure_auto_topups(&self) -> Result<()> {
        let oldest = self.store.oldest_auto_topup().await?;
        let age = oldest.map_or(Duration::ZERO, |oldest| self.now().since(oldest));
        self.metrics.buys(age);
        Ok(())
    }
}

/// Returns the result of one kind of work. On an error returns the default, and stores the error in `failed`.
fn or_failed<T: Default>(failed: &mut Result<()>, done: Result<T>) -> T {
    done.unwrap_or_else(|error| {
        *failed = Err(error);
        T::default()
    })
}
