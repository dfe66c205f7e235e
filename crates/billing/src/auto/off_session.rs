//! Off-session charges of a saved card, and their outcomes.
//!
//! A purchase has at most one payment at Stripe. Every node may repeat the request, always with the same idempotency key, as long
//! as Stripe remembers the key. Stripe may replay a 500 for the key, and a lost response may have been a payment: in both cases
//! the engine searches the payments of the customer for the one that names the purchase. Once Stripe may have forgotten the key,
//! no request is sent.
//!
//! The engine never sends a request with a second key, even if repeated searches find nothing. After a 500 Stripe may still
//! finish the request: a charge that has reached the card network is rolled forward, and Stripe sends an event. A second request
//! could therefore always charge the card twice. The purchase fails instead. A payment that appears later is still credited, and
//! the next charge belongs to a new purchase.

use std::time::Duration;

use sortie_api::{OrgId, Refusal, Timestamp, TopupId, TopupKind, TopupState};
use sortie_base::{hex, random};
use sortie_store::{
    money::{AfterAutoTopup, NewTopup, SETTINGS_CHANGED, SentAutoTopup, TopupRow, UnpaidAutoTopup},
    outbox::{NewMail, PaymentNotice},
};

use crate::{
    Part, PaymentIntent, SavedCardPayment, StripeError, StripeRefusal,
    checkout::{FIRST_LOOK, OPEN, purchase::SyncOutcome},
    error::{Error, Result},
    service::{LISTED_BEFORE, Parts, seconds},
};

/// Time after which requests are not repeated: Stripe forgets keys after 24 hours.
pub(crate) const KEY_LIFETIME: Duration = Duration::from_hours(23);

/// Abandon a purchase after this time if Stripe keeps returning a failure for its key and no payment exists. The check after it
/// runs within three minutes.
pub(crate) const NO_ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Abandon a purchase after this time if every request fails at Stripe and no payment exists.
const ERRORS_TIMEOUT: Duration = Duration::from_mins(10);

/// Pause of automatic purchases after a purchase that failed at Stripe.
const AFTER_ERRORS: Duration = Duration::from_hours(1);

/// Pauses after the first and the second declined purchase. The third disables the automatic purchases.
const DECLINED: [Duration; 2] = [Duration::from_hours(1), Duration::from_hours(6)];

/// Attempts to record an outcome despite concurrent changes of the settings.
const TRIES: u32 = 3;

/// Maximum length of a stored code, in bytes.
const LONGEST: usize = 100;

/// Error code of a payment that needs the cardholder.
const NEEDS_CARDHOLDER: &str = "authentication_required";

/// Reason why a payment failed.
enum Unpaid {
    /// The bank or Stripe declined it with this code.
    Declined(String),
    /// The bank requires the cardholder.
    NeedsCardholder,
    /// Stripe does not have the card, for this reason.
    NoCard(&'static str),
    /// Stripe failed, or did not answer in time.
    Unknown(&'static str),
}

impl Parts {
    /// Charges the card of an automatic purchase, or finds the outcome of an earlier charge. Idempotent.
    pub(crate) async fn sync_auto_topup(&self, topup: &TopupRow) -> Result<SyncOutcome> {
        if topup.state == TopupState::Created {
            match self.store.send_auto_topup(topup.id).await? {
                SentAutoTopup::Never => {
                    self.metrics.ended(TopupKind::Auto, TopupState::Failed);
                    return Ok(SyncOutcome::Recorded);
                }
                // Another node has sent it, and may have ended it.
                SentAutoTopup::Before if self.has_ended(topup).await? => return Ok(SyncOutcome::Recorded),
                SentAutoTopup::Now | SentAutoTopup::Before => {}
            }
        }
        if let Some(intent) = &topup.intent {
            return match self.sync_intent(intent).await {
                // The operator has switched to another Stripe account.
                Err(Error::Stripe(error))
                    if error.is_missing() && self.now() >= topup.created_at + ERRORS_TIMEOUT =>
                {
                    let why = "Stripe has deleted the payment";
                    self.end_unpaid(topup, None, Unpaid::Unknown(why)).await
                }
                seen => seen,
            };
        }
        if self.now() >= topup.created_at + KEY_LIFETIME {
            return self
                .find_or_fail(topup, KEY_LIFETIME, "Stripe has not answered for a day")
                .await;
        }
        match self.charge(topup).await {
            Ok(intent) => self.apply_intent(topup, &intent).await,
            Err(Error::Stripe(StripeError::Refused(refusal))) => self.apply_refusal(topup, &refusal).await,
            Err(Error::Stripe(StripeError::FailedBefore(_) | StripeError::KeyReused)) => {
                self.find_or_fail(topup, NO_ANSWER_TIMEOUT, "Stripe repeats a failure")
                    .await
            }
            Err(Error::Stripe(error)) if error.is_indefinite() => {
                self.find_or_fail(topup, ERRORS_TIMEOUT, "Stripe has failed")
                    .await
            }
            Err(error) => Err(error),
        }
    }

    async fn has_ended(&self, topup: &TopupRow) -> Result<bool> {
        Ok(!self.store.topup(topup.id).await?.state.is_waiting())
    }

    /// Sends or repeats the request. All parameters come from the row.
    async fn charge(&self, topup: &TopupRow) -> Result<PaymentIntent> {
        let (Some(customer), Some(payment_method)) = (&topup.customer, &topup.payment_method) else {
            return Err(Refusal::internal("an automatic purchase has no card").into());
        };
        let id = topup.id.to_string();
        let payment = SavedCardPayment {
            customer,
            payment_method,
            amount_cents: topup.amount_cents,
            topup: &id,
        };
        self.ask("charge_card", self.stripe.charge_saved_card(&id, &payment))
            .await
    }

    /// Handles a refusal of the request.
    async fn apply_refusal(&self, topup: &TopupRow, refusal: &StripeRefusal) -> Result<SyncOutcome> {
        let code = refusal.decline_code.as_ref().or(refusal.code.as_ref());
        let needs_cardholder = refusal.code.as_deref() == Some(NEEDS_CARDHOLDER);
        match &refusal.intent {
            Some(intent) if needs_cardholder => self.cancel_unattended(topup, intent).await,
            Some(intent) if intent.status != "requires_payment_method" => {
                self.apply_intent(topup, intent).await
            }
            Some(intent) => self.declined(topup, Some(intent), code).await,
            None if refusal.lacks_customer() => {
                let why = "Stripe does not have the customer";
                self.end_unpaid(topup, None, Unpaid::NoCard(why)).await
            }
            // The request was invalid, perhaps because the card was removed.
            None if self.is_card_gone(topup).await? => {
                let why = "the card was removed at Stripe";
                self.end_unpaid(topup, None, Unpaid::NoCard(why)).await
            }
            None => self.declined(topup, None, code).await,
        }
    }

    /// Whether the customer has lost the card. A card saved since the charge is kept for the next attempt.
    async fn is_card_gone(&self, topup: &TopupRow) -> Result<bool> {
        let Some(customer) = &topup.customer else {
            return Ok(true);
        };
        let card = self.read_card(customer).await?;
        let is_gone = card.is_none();
        self.store.keep_card(topup.org, card, self.now()).await?;
        Ok(is_gone)
    }

    /// Handles an unsuccessful payment of an automatic purchase.
    pub(crate) async fn apply_unpaid_auto(
        &self,
        topup: &TopupRow,
        intent: &PaymentIntent,
    ) -> Result<SyncOutcome> {
        let code = intent.last_payment_error.as_ref();
        match intent.status.as_str() {
            "requires_action" | "requires_confirmation" => self.cancel_unattended(topup, intent).await,
            // Only this engine cancels such payments.
            "canceled" => {
                self.end_unpaid(topup, Some(intent), Unpaid::NeedsCardholder)
                    .await
            }
            "requires_payment_method" => {
                if code.is_some_and(|error| error.code.as_deref() == Some(NEEDS_CARDHOLDER)) {
                    return self.cancel_unattended(topup, intent).await;
                }
                let code = code.and_then(|error| error.decline_code.as_ref().or(error.code.as_ref()));
                self.declined(topup, Some(intent), code).await
            }
            _ => {
                self.store.keep_intent(topup.id, &intent.id).await?;
                Ok(SyncOutcome::Waiting)
            }
        }
    }

    async fn declined(
        &self,
        topup: &TopupRow,
        intent: Option<&PaymentIntent>,
        code: Option<&String>,
    ) -> Result<SyncOutcome> {
        let is_code = |code: &&str| {
            code.len() <= LONGEST && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let code = code.map(String::as_str).filter(is_code).unwrap_or("unknown");
        self.end_unpaid(topup, intent, Unpaid::Declined(code.to_owned()))
            .await
    }

    /// Cancels a payment that needs the absent cardholder. After a 500, which Stripe may replay for the key, cancels it with
    /// another key: cancelling moves no money, so it can be repeated.
    async fn cancel_unattended(&self, topup: &TopupRow, intent: &PaymentIntent) -> Result<SyncOutcome> {
        let cancelled = async |key: &str| {
            let intent = self.stripe.cancel_intent(key, &intent.id);
            self.ask("cancel_intent", intent).await
        };
        let key = format!("cancel_{}", topup.id);
        let mut answer = cancelled(&key).await;
        if matches!(&answer, Err(Error::Stripe(error)) if error.is_indefinite()) {
            answer = cancelled(&format!("{key}-{}", hex(&random::<16>()?))).await;
        }
        match answer {
            Ok(_) => {
                self.end_unpaid(topup, Some(intent), Unpaid::NeedsCardholder)
                    .await
            }
            // The payment was cancelled before, has succeeded after all, or its state is unknown.
            Err(Error::Stripe(error))
                if error.is_indefinite()
                    || matches!(error, StripeError::Refused(_) | StripeError::KeyReused) =>
            {
                let intent = self.ask("read_intent", self.stripe.intent(&intent.id)).await?;
                match intent.status.as_str() {
                    "succeeded" => self.credit_intent(topup, &intent).await,
                    "canceled" => {
                        self.end_unpaid(topup, Some(&intent), Unpaid::NeedsCardholder)
                            .await
                    }
                    _ => Err(Error::Stripe(error)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Searches the payments of the customer for that of a purchase. If there is none, the purchase fails once it is older than
    /// `timeout`.
    async fn find_or_fail(
        &self,
        topup: &TopupRow,
        timeout: Duration,
        why: &'static str,
    ) -> Result<SyncOutcome> {
        if let Some(intent) = self.find_intent(topup).await? {
            return self.apply_intent(topup, &intent).await;
        }
        if self.now() < topup.created_at + timeout {
            return Ok(SyncOutcome::Waiting);
        }
        self.end_unpaid(topup, None, Unpaid::Unknown(why)).await
    }

    async fn find_intent(&self, topup: &TopupRow) -> Result<Option<PaymentIntent>> {
        let Some(customer) = &topup.customer else {
            return Ok(None);
        };
        // A payment is never older than its purchase, so older ones are not listed.
        let (id, since) = (topup.id.to_string(), seconds(topup.created_at - LISTED_BEFORE));
        let page = |after: Option<String>| async move {
            let part = Part {
                since: Some(since),
                after: after.as_deref(),
            };
            self.stripe.intents(customer, &part).await
        };
        let intents = self.read_all("list_intents", page, |intent| &intent.id);
        match intents.await {
            Err(Error::Stripe(error)) if error.lacks_customer() => Ok(None),
            intents => {
                let is_named = |intent: &PaymentIntent| intent.metadata.get("topup") == Some(&id);
                Ok(intents?.into_iter().find(is_named))
            }
        }
    }

    /// Ends an unpaid purchase, pauses or disables automatic purchases, and notifies the owner.
    async fn end_unpaid(
        &self,
        topup: &TopupRow,
        intent: Option<&PaymentIntent>,
        how: Unpaid,
    ) -> Result<SyncOutcome> {
        for _ in 0..TRIES {
            if self.has_ended(topup).await? {
                return Ok(SyncOutcome::Recorded);
            }
            let unpaid = self.unpaid(topup, intent, &how).await?;
            let (after, has_mail) = (unpaid.after, unpaid.mail.is_some());
            match self.store.end_unpaid_auto_topup(unpaid).await {
                Ok(true) => {
                    tracing::info!(topup = %topup.id, organization = %topup.org, ?after, "an automatic purchase was not paid");
                    self.metrics.ended(TopupKind::Auto, state_of(after));
                    if let Some(notices) = self.options.notices.as_ref().filter(|_| has_mail) {
                        notices.queued();
                    }
                    return Ok(SyncOutcome::Recorded);
                }
                Ok(false) => return Ok(SyncOutcome::Recorded),
                Err(error) if error == SETTINGS_CHANGED => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Store(SETTINGS_CHANGED))
    }

    /// Decides the consequences of an unpaid purchase by the current settings.
    async fn unpaid(
        &self,
        topup: &TopupRow,
        intent: Option<&PaymentIntent>,
        how: &Unpaid,
    ) -> Result<UnpaidAutoTopup> {
        let settings = self.auto_topup(topup.org).await?;
        let failures = settings.map(|settings| settings.failures);
        let (now, amount_cents) = (self.now(), topup.amount_cents);
        let (after, notice) = match how {
            Unpaid::Unknown(_) => (AfterAutoTopup::PausedUntil(now + AFTER_ERRORS), None),
            Unpaid::Declined(_) => declined(failures.unwrap_or_default(), now, amount_cents),
            Unpaid::NoCard(_) => (AfterAutoTopup::Disabled, Some(PaymentNotice::CardGone)),
            Unpaid::NeedsCardholder => {
                let checkout = match failures {
                    Some(_) => self.mailed_checkout(topup).await,
                    None => None,
                };
                let notice = PaymentNotice::CardholderNeeded {
                    amount_cents,
                    checkout,
                };
                (AfterAutoTopup::Paused, Some(notice))
            }
        };
        let error = match how {
            Unpaid::Declined(code) => format!("declined: {code}"),
            Unpaid::NeedsCardholder => "the bank requires a confirmation by the cardholder".to_owned(),
            Unpaid::NoCard(why) | Unpaid::Unknown(why) => (*why).to_owned(),
        };
        let audit = self.audit(
            topup.org,
            &Self::system_actor(),
            "billing.auto_topup.disable",
            topup.org.to_string(),
        )?;
        Ok(UnpaidAutoTopup {
            id: topup.id,
            intent: intent.map(|intent| intent.id.clone()),
            error,
            failures,
            after,
            mail: match notice.filter(|_| failures.is_some()) {
                Some(notice) => self.notice(topup.org, &notice).await?,
                None => None,
            },
            audit,
        })
    }

    /// Writes a mail to the owner of the organization.
    pub(crate) async fn notice(&self, org: OrgId, notice: &PaymentNotice) -> Result<Option<NewMail>> {
        let Some(writer) = &self.options.notices else {
            return Ok(None);
        };
        let owner = self.store.owner(org).await?;
        Ok(owner.and_then(|(owner, organization)| writer.write(&owner, &organization, notice)))
    }

    /// Creates a page on which the owner can pay instead of the card. Returns `None` on a failure: the mail is sent without the
    /// page.
    async fn mailed_checkout(&self, topup: &TopupRow) -> Option<String> {
        self.options.notices.as_ref()?;
        match self.order_checkout_for(topup).await {
            Ok(url) => url,
            Err(error) => {
                tracing::warn!(topup = %topup.id, %error, "no checkout for the mail to the owner");
                None
            }
        }
    }

    async fn order_checkout_for(&self, topup: &TopupRow) -> Result<Option<String>> {
        let at = self.now();
        let id = TopupId::new(at, random()?);
        let audit = self.audit(
            topup.org,
            &Self::system_actor(),
            "billing.checkout",
            id.to_string(),
        )?;
        let new = NewTopup {
            id,
            org: topup.org,
            kind: TopupKind::Checkout,
            amount_cents: topup.amount_cents,
            // A payment that the cardholder confirmed makes later off-session payments more likely to succeed.
            save_card: true,
            payment_method: None,
            created_by: None,
            created_at: at,
            check_at: at + FIRST_LOOK,
        };
        self.store.create_topup(new, OPEN, audit).await?;
        let checkout = self.open_checkout(&self.store.topup(id).await?).await?;
        Ok(checkout.url)
    }
}

/// Final state of a purchase that leaves automatic purchases in this state.
const fn state_of(after: AfterAutoTopup) -> TopupState {
    match after {
        AfterAutoTopup::Paused => TopupState::RequiresAction,
        AfterAutoTopup::PausedUntil(_) | AfterAutoTopup::RetryAt(_) | AfterAutoTopup::Disabled => {
            TopupState::Failed
        }
    }
}

/// Decides the consequences of a declined purchase after this number of consecutive declines.
fn declined(failures: i64, now: Timestamp, amount_cents: i64) -> (AfterAutoTopup, Option<PaymentNotice>) {
    let pause = usize::try_from(failures).ok().and_then(|at| DECLINED.get(at));
    match pause {
        Some(pause) => {
            let again_at = now + *pause;
            let notice = PaymentNotice::TopupDeclined {
                amount_cents,
                again_at,
            };
            (AfterAutoTopup::RetryAt(again_at), Some(notice))
        }
        None => (
            AfterAutoTopup::Disabled,
            Some(PaymentNotice::TopupsDisabled { amount_cents }),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declined_card_is_tried_after_one_hour_and_after_six_and_then_no_more() {
        let now = Timestamp::from_micros(1_763_674_200_000_000);
        let hours = |hours| AfterAutoTopup::RetryAt(now + Duration::from_hours(hours));
        let after: Vec<_> = (0..4).map(|failures| declined(failures, now, 500).0).collect();
        assert_eq!(
            after,
            [
                hours(1),
                hours(6),
                AfterAutoTopup::Disabled,
                AfterAutoTopup::Disabled
            ]
        );
    }
}
