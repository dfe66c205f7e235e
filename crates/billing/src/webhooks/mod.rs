//! Events of Stripe: the server receives webhooks, and a task processes the objects they name.
//!
//! A webhook with a valid signature is recorded and answered. Its content is not trusted: the engine reads the named object
//! again, so the order, the age and the repetition of events do not matter. [`TYPES`] lists the types that are processed. Other
//! types are recorded as `ignored`.

pub(crate) mod event_types;
mod reconcile;

use std::time::Duration;

use futures_util::future::join_all;
use sortie_api::{Credential, ErrorCode, Timestamp};
use sortie_store::{
    Error as StoreError,
    money::{AfterEvent, ClaimedEvent, NewStripeEvent},
};

use crate::{
    Billing, Event,
    checkout::purchase::SyncOutcome,
    error::{Error, Result},
    service::{LEASE, Parts, seconds},
    verify_signature,
    webhooks::event_types::{Subject, subject},
};

/// Maximum length of a stored identifier or type, in bytes.
const LONGEST: usize = 255;

/// Number of events that a node processes concurrently.
const SLOTS: u32 = 8;

/// Pause after the first failed attempt. It doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Time after which an event is abandoned.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(3 * 24);

/// Time for which events are kept.
const KEPT: Duration = Duration::from_hours(90 * 24);

/// Number of events deleted in one transaction.
const BATCH: u32 = 500;

impl Billing {
    /// Receives a webhook. `body` must be the raw request body. Returns `InvalidRequest` if the signature is not Stripe's.
    pub async fn receive(&self, signature: Option<&str>, body: &[u8]) -> Result<()> {
        let parts = &self.0;
        let now = parts.now();
        let secrets = parts.options.stripe.webhook_secrets.iter();
        let checked = verify_signature(
            signature.unwrap_or_default(),
            body,
            secrets.map(Credential::expose),
            u64::try_from(seconds(now)).unwrap_or_default(),
        );
        if let Err(error) = checked {
            parts.metrics.refused();
            return Err(ErrorCode::InvalidRequest.because(error.to_string()).into());
        }
        let event: Event = serde_json::from_slice(body)
            .map_err(|_| ErrorCode::InvalidRequest.because("the body is not an event of Stripe"))?;
        let new = recorded(&event, now).ok_or_else(|| {
            ErrorCode::InvalidRequest.because("the event has no ID, or a name that is too long")
        })?;
        let kind = event.kind.as_str();
        if !new.is_handled {
            parts.metrics.handled(kind, "ignored");
        }
        parts.store.record_stripe_events(vec![new]).await?;
        parts.rung.notify_one();
        Ok(())
    }
}

/// Whether a text may be an identifier of a Stripe object.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns an event in its stored form, or `None` if its names cannot be stored.
pub(crate) fn recorded(event: &Event, now: Timestamp) -> Option<NewStripeEvent> {
    let (id, kind, object) = (event.id.as_str(), event.kind.as_str(), event.object_id());
    if id.is_empty() || ![id, kind, object].into_iter().all(is_name) {
        return None;
    }
    Some(NewStripeEvent {
        id: id.to_owned(),
        kind: kind.to_owned(),
        object: object.to_owned(),
        made_at: Timestamp::from_micros(event.created.saturating_mul(1_000_000)),
        received_at: now,
        is_handled: subject(kind).is_some(),
    })
}

/// Pause after the failed attempt `number`.
fn pause_after(number: i64) -> Duration {
    let doublings = u32::try_from(number.saturating_sub(1)).unwrap_or(0).min(16);
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(LONGEST_PAUSE)
}

impl Parts {
    /// Processes due events. Returns their number, and the time at which the next one is due.
    pub(crate) async fn handle_events(&self) -> Result<(usize, Option<Timestamp>)> {
        let (events, next) = self.store.claim_stripe_events(self.now(), LEASE, SLOTS).await?;
        join_all(events.iter().map(|event| self.handle(event))).await;
        Ok((events.len(), next))
    }

    /// Processes a claimed event, and records the outcome.
    async fn handle(&self, event: &ClaimedEvent) {
        let after = match self.sync_subject(event).await {
            Ok(SyncOutcome::Recorded | SyncOutcome::Waiting) => AfterEvent::Done,
            Ok(SyncOutcome::NotOurs) => AfterEvent::Ignored,
            Err(Error::Stripe(error)) if error.is_missing() => {
                tracing::warn!(event = %event.id, kind = %event.kind, "the object of an event is not of this account");
                AfterEvent::Ignored
            }
            Err(error) => self.after_failure(event, &error),
        };
        self.metrics
            .handled(&event.kind, after.outcome().unwrap_or("retried"));
        let recorded = self
            .store
            .record_stripe_attempt(event.id.clone(), event.tries, after)
            .await;
        match recorded {
            // Another node has the event now.
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(error) => {
                tracing::warn!(event = %event.id, %error, "recording an event failed; it is handled again");
            }
        }
    }

    fn after_failure(&self, event: &ClaimedEvent, error: &Error) -> AfterEvent {
        let next = self.now() + pause_after(event.tries);
        let is_last = next > event.received_at + GIVEN_UP_AFTER;
        if is_last {
            tracing::error!(event = %event.id, kind = %event.kind, %error, "abandoned an event of Stripe");
            return AfterEvent::Failed;
        }
        tracing::warn!(event = %event.id, kind = %event.kind, %error, "handling an event of Stripe failed; it is handled again later");
        AfterEvent::RetryAt(next)
    }

    async fn sync_subject(&self, event: &ClaimedEvent) -> Result<SyncOutcome> {
        let id = event.object.as_str();
        let Some(subject) = subject(&event.kind) else {
            // Another version, which processes the type, recorded the event.
            return Ok(SyncOutcome::NotOurs);
        };
        match subject {
            Subject::Checkout => self.sync_checkout(id).await,
            Subject::Intent => self.sync_intent(id).await,
            Subject::Charge => self.sync_charge(id).await,
            Subject::Refund => self.sync_refund(id).await,
            Subject::Dispute => self.sync_dispute(id).await,
            Subject::Subscription => self.sync_subscription(id).await,
            Subject::Card => self.sync_card(id).await,
        }
    }

    /// Sets the age of the oldest waiting event, and deletes old events.
    pub(crate) async fn tidy_events(&self) -> Result<()> {
        let now = self.now();
        let oldest = self.store.oldest_stripe_event().await?;
        let age = oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
        self.metrics.waits(age);
        self.store.delete_stripe_events(now - KEPT, BATCH).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        let seconds: Vec<u64> = (1..=12).map(|number| pause_after(number).as_secs()).collect();
        assert_eq!(
            seconds,
            [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600, 3_600]
        );
    }
}
