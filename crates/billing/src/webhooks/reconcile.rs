//! Reconciler: finds changes that no webhook has reported.
//!
//! It lists the events of all used types every hour, and every two minutes while a purchase waits for the payment of its page, so
//! that lost events are processed. It also checks every unfinished purchase at intervals of 2, 5, 15 and then 60 minutes. Each
//! day it compares every payment of the last 120 days with its charge.

use std::time::Duration;

use futures_util::future::join_all;
use sortie_api::{Timestamp, TopupKind, TopupState};
use sortie_store::money::{PaymentRow, TopupRow};

use crate::{
    EventFilter,
    checkout::{
        end_of_page,
        purchase::{COMPARED_EVERY, SyncOutcome},
    },
    error::{Error, Result},
    service::{LEASE, Parts, seconds},
    webhooks::{event_types::kinds, recorded},
};

/// Pauses after each check of a purchase with a page. The last one repeats.
const PAUSES: [Duration; 3] = [
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_hours(1),
];

/// Pauses after each check of an automatic purchase, and of a purchase with an unknown page. The last one repeats.
const SHORT_PAUSES: [Duration; 6] = [
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_hours(1),
];

/// Number of purchases or payments that a node checks concurrently.
const SLOTS: u32 = 8;

/// Interval between two searches for events while a page waits for its payment. Together with the pause of the worker and the
/// failover from a dead node, a payment is found within three minutes.
const SEARCHED_EVERY: Duration = Duration::from_mins(2);

/// Interval between two searches for events while no page can be paid.
const SEARCHED_RARELY: Duration = Duration::from_hours(1);

/// Lease on the search: longer than one request takes. Each page of events extends it.
const SEARCH_LEASE: Duration = Duration::from_secs(30);

/// Pause after a failed search.
const SEARCHED_AGAIN: Duration = Duration::from_secs(15);

/// Overlap with the previous search: Stripe may list an event late.
const OVERLAP: Duration = Duration::from_mins(10);

/// Time for which Stripe keeps events in the list.
const LISTED: Duration = Duration::from_hours(30 * 24);

/// Events of a page.
const PAGE: u8 = 100;

/// Time for which payments are compared: refunds and disputes happen within it.
const COMPARED: Duration = Duration::from_hours(120 * 24);

/// Pause after a check of a purchase in this state, by the number of checks.
fn pause_after(kind: TopupKind, state: TopupState, checks: i64) -> Duration {
    let pauses = match (kind, state) {
        (TopupKind::Checkout, TopupState::Created) | (TopupKind::Auto, _) => &SHORT_PAUSES[..],
        (TopupKind::Checkout, _) => &PAUSES[..],
    };
    let at = usize::try_from(checks.saturating_sub(1)).unwrap_or(0);
    let pause = pauses.get(at).or(pauses.last());
    pause.copied().unwrap_or(LEASE)
}

impl Parts {
    /// Checks due purchases. Returns their number.
    pub(crate) async fn reconcile_topups(&self) -> Result<usize> {
        let topups = self.store.claim_topups(self.now(), LEASE, SLOTS).await?;
        join_all(topups.iter().map(|topup| self.reconcile(topup))).await;
        Ok(topups.len())
    }

    async fn reconcile(&self, topup: &TopupRow) {
        let seen = match topup.kind {
            TopupKind::Checkout => self.reconcile_checkout(topup).await,
            TopupKind::Auto => self.sync_auto_topup(topup).await,
        };
        if let Err(error) = &seen {
            tracing::warn!(topup = %topup.id, %error, "processing a purchase failed; it is retried");
        }
        if matches!(seen, Ok(SyncOutcome::Recorded)) {
            return;
        }
        let state = match seen {
            Ok(_) => TopupState::Open,
            Err(_) => topup.state,
        };
        let next = self.now() + pause_after(topup.kind, state, topup.checks);
        if let Err(error) = self.store.check_topup_at(topup.id, topup.checks, next).await {
            tracing::warn!(topup = %topup.id, %error, "recording the state of a purchase failed");
        }
    }

    /// Checks whether a purchase on a page was paid or has ended.
    async fn reconcile_checkout(&self, topup: &TopupRow) -> Result<SyncOutcome> {
        match &topup.session {
            Some(session) => match self.sync_checkout(session).await {
                // The operator has switched to another Stripe account.
                Err(Error::Stripe(error)) if error.is_missing() && self.now() >= end_of_page(topup) => {
                    let why = Some("Stripe has deleted the page");
                    self.end(topup.id, topup.kind, TopupState::Expired, why).await?;
                    Ok(SyncOutcome::Recorded)
                }
                seen => seen,
            },
            // No client has the address: the response of the request was lost.
            None if topup.customer.is_none() => {
                self.fail(topup.id, topup.kind, "Stripe has made no page").await?;
                Ok(SyncOutcome::Recorded)
            }
            None => match self.open_checkout(topup).await {
                Ok(checkout) => self.sync_checkout(&checkout.id).await,
                // The address of a page that Stripe creates later would not reach any client either.
                Err(Error::Stripe(error)) if error.is_final() || error.is_indefinite() => {
                    self.fail(topup.id, topup.kind, "Stripe has made no page").await?;
                    Ok(SyncOutcome::Recorded)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Lists the events since the last search, if a search is due, and records new ones. One node searches for all nodes.
    pub(crate) async fn search_events(&self) -> Result<()> {
        let now = self.now();
        let claimed = self
            .store
            .claim_stripe_search(now, SEARCH_LEASE, SEARCHED_RARELY)
            .await?;
        let Some(until) = claimed else {
            return Ok(());
        };
        let since = until.unwrap_or(now - LISTED) - OVERLAP;
        if let Err(error) = self.search_events_since(since).await {
            let again_at = self.now() + SEARCHED_AGAIN;
            self.store.postpone_stripe_search(again_at).await?;
            return Err(error);
        }
        self.store.record_stripe_search(now, now + SEARCHED_EVERY).await?;
        Ok(())
    }

    /// Lists events of all types, regardless of which purchases wait: all types share one recorded search time.
    async fn search_events_since(&self, since: Timestamp) -> Result<()> {
        let kinds: Vec<&str> = kinds().collect();
        let mut after: Option<String> = None;
        loop {
            let filter = EventFilter {
                kinds: &kinds,
                since: Some(seconds(since)),
                after: after.as_deref(),
                limit: PAGE,
            };
            let page = self.ask("list_events", self.stripe.events(&filter)).await?;
            let now = self.now();
            let events = page
                .data
                .iter()
                .filter_map(|event| recorded(event, now))
                .collect();
            let found = self.store.record_stripe_events(events).await?;
            if found > 0 {
                tracing::info!(found, "found events of Stripe that no webhook delivered");
            }
            after = page.data.last().map(|event| event.id.clone());
            if !page.has_more || after.is_none() {
                return Ok(());
            }
            self.store.postpone_stripe_search(now + SEARCH_LEASE).await?;
        }
    }

    /// Compares due payments. Returns their number.
    pub(crate) async fn compare_payments(&self) -> Result<usize> {
        let payments = self.store.claim_comparisons(self.now(), LEASE, SLOTS).await?;
        join_all(payments.iter().map(|payment| self.compare_and_record(payment))).await;
        Ok(payments.len())
    }

    async fn compare_and_record(&self, payment: &PaymentRow) {
        if let Err(error) = self.compare(payment).await {
            tracing::warn!(payment = %payment.id, %error, "comparing a payment failed; it is compared again");
            return;
        }
        let next = next_comparison(self.now(), payment.created_at);
        if let Err(error) = self.store.compared(payment.id, next).await {
            tracing::warn!(payment = %payment.id, %error, "recording a comparison failed");
        }
    }
}

/// Time of the next comparison of a payment, or `None` after the last one.
fn next_comparison(now: Timestamp, created_at: Timestamp) -> Option<Timestamp> {
    let next = now + COMPARED_EVERY;
    (next <= created_at + COMPARED).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_a_purchase_are_2_5_15_and_60_minutes_apart() {
        let minutes: Vec<u64> = (1..=5)
            .map(|checks| pause_after(TopupKind::Checkout, TopupState::Open, checks).as_secs() / 60)
            .collect();
        assert_eq!(minutes, [5, 15, 60, 60, 60]);
        let created = pause_after(TopupKind::Checkout, TopupState::Created, 1);
        assert_eq!(created, Duration::from_secs(20));
    }

    #[test]
    fn payments_are_compared_for_120_days() {
        let paid = Timestamp::from_micros(1_763_674_200_000_000);
        let day = |number: u64| paid + Duration::from_hours(24 * number);
        assert_eq!(next_comparison(day(1), paid), Some(day(2)));
        assert_eq!(next_comparison(day(119), paid), Some(day(120)));
        assert_eq!(next_comparison(day(120), paid), None);
    }
}
