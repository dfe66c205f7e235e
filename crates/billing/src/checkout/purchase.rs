//! Turns paid purchases into credits. Webhook, reconciler and return page all use this module.
//!
//! Only the current answer of Stripe counts, and a payment must match its order: the customer of the organization, US dollars,
//! and the ordered amount.

use std::{collections::BTreeMap, time::Duration};

use sortie_api::{PaymentId, RefundOrderId, TopupKind, TopupState};
use sortie_base::random;
use sortie_store::{
    Error as StoreError,
    access::Actor,
    money::{Appended, OTHER_AMOUNT, OTHER_ENTRY, PAID_TWICE, PaidTopup, SavedCard, TopupMove, TopupRow},
};

use crate::{
    Checkout, PaymentIntent, PaymentMethod,
    error::{Error, Result},
    service::Parts,
};

/// Currency of all purchases.
const CURRENCY: &str = "usd";

/// Interval between two comparisons of a payment with Stripe.
pub(crate) const COMPARED_EVERY: Duration = Duration::from_hours(24);

/// Outcome of reading an object of Stripe and recording its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncOutcome {
    /// The state of the object is recorded.
    Recorded,
    /// The purchase has not ended.
    Waiting,
    /// The object does not belong to a purchase of this deployment.
    NotOurs,
}

/// Returns the card of a payment method in its stored form.
pub(crate) fn card_of(method: &PaymentMethod, source: &str) -> Option<SavedCard> {
    let card = method.card.as_ref()?;
    Some(SavedCard {
        payment_method: method.id.clone(),
        brand: card.brand.clone(),
        last4: card.last4.clone(),
        exp_month: card.exp_month.into(),
        exp_year: card.exp_year.into(),
        source: source.to_owned(),
    })
}

impl Parts {
    /// Reads a checkout session, and records the outcome of its purchase.
    pub(crate) async fn sync_checkout(&self, id: &str) -> Result<SyncOutcome> {
        let checkout = self.ask("read_checkout", self.stripe.checkout(id)).await?;
        if let Some(subscription) = &checkout.subscription {
            return self.sync_subscription(subscription).await;
        }
        let metadata = checkout.metadata.as_ref();
        let Some(topup) = self.topup_of(metadata).await? else {
            return Ok(SyncOutcome::NotOurs);
        };
        let is_of_another = topup.session.as_ref().is_some_and(|known| *known != checkout.id);
        if is_of_another && checkout.payment_status == "unpaid" && checkout.payment_intent.is_none() {
            // Stripe created this page after a failed response. Its address was never sent to a client.
            return Ok(SyncOutcome::NotOurs);
        }
        if is_of_another || topup.kind != TopupKind::Checkout {
            tracing::error!(topup = %topup.id, "a second checkout session names the purchase");
            self.metrics.differs();
            return Ok(SyncOutcome::NotOurs);
        }
        if checkout.payment_status == "paid" {
            return self.credit_checkout(&topup, &checkout).await;
        }
        match checkout.status.as_deref() {
            Some("expired") => {
                self.end(topup.id, topup.kind, TopupState::Expired, None).await?;
                Ok(SyncOutcome::Recorded)
            }
            Some("complete") => self.sync_unpaid_checkout(&topup, &checkout).await,
            Some(_) | None => {
                self.note_session(&topup, &checkout).await?;
                Ok(SyncOutcome::Waiting)
            }
        }
    }

    /// Reads a payment intent, and records the outcome of its purchase.
    pub(crate) async fn sync_intent(&self, id: &str) -> Result<SyncOutcome> {
        let intent = self.ask("read_intent", self.stripe.intent(id)).await?;
        match self.topup_of(Some(&intent.metadata)).await? {
            Some(topup) => self.apply_intent(&topup, &intent).await,
            None => Ok(SyncOutcome::NotOurs),
        }
    }

    /// Finds the purchase that is named in metadata.
    async fn topup_of(&self, metadata: Option<&BTreeMap<String, String>>) -> Result<Option<TopupRow>> {
        let id = metadata.and_then(|metadata| metadata.get("topup")?.parse().ok());
        let Some(id) = id else { return Ok(None) };
        match self.store.topup(id).await {
            Ok(topup) => Ok(Some(topup)),
            // Another deployment may use the same account.
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Saves the session of a purchase if its creation was interrupted.
    async fn note_session(&self, topup: &TopupRow, checkout: &Checkout) -> Result<()> {
        if topup.state == TopupState::Created {
            let change = TopupMove {
                id: topup.id,
                to: TopupState::Open,
                session: Some(checkout.id.clone()),
                intent: None,
                error: None,
            };
            self.store.move_topup(change).await?;
        }
        Ok(())
    }

    async fn credit_checkout(&self, topup: &TopupRow, checkout: &Checkout) -> Result<SyncOutcome> {
        let is_as_ordered = checkout.amount_total == Some(topup.amount_cents)
            && checkout.currency.as_deref() == Some(CURRENCY)
            && checkout.customer == topup.customer;
        match &checkout.payment_intent {
            Some(intent) if is_as_ordered => {
                let intent = self.ask("read_intent", self.stripe.intent(intent)).await?;
                self.apply_intent(topup, &intent).await
            }
            Some(_) | None => self.reject_mismatch(topup).await,
        }
    }

    /// Checks whether a submitted page will still be paid: some payment methods take days.
    async fn sync_unpaid_checkout(&self, topup: &TopupRow, checkout: &Checkout) -> Result<SyncOutcome> {
        let Some(intent) = &checkout.payment_intent else {
            return Ok(SyncOutcome::Waiting);
        };
        let intent = self.ask("read_intent", self.stripe.intent(intent)).await?;
        match intent.status.as_str() {
            "succeeded" => self.apply_intent(topup, &intent).await,
            "canceled" | "requires_payment_method" => {
                self.fail(topup.id, topup.kind, "the payment has failed").await?;
                Ok(SyncOutcome::Recorded)
            }
            _ => Ok(SyncOutcome::Waiting),
        }
    }

    /// Records the state of a payment, and credits it if it has succeeded.
    pub(crate) async fn apply_intent(&self, topup: &TopupRow, intent: &PaymentIntent) -> Result<SyncOutcome> {
        match intent.status.as_str() {
            "succeeded" => self.credit_intent(topup, intent).await,
            _ => self.apply_unpaid_intent(topup, intent).await,
        }
    }

    /// Credits a payment that has succeeded.
    pub(crate) async fn credit_intent(
        &self,
        topup: &TopupRow,
        intent: &PaymentIntent,
    ) -> Result<SyncOutcome> {
        let is_as_ordered = intent.amount == topup.amount_cents
            && intent.currency == CURRENCY
            && intent.customer.is_some()
            && intent.customer == topup.customer
            && intent.metadata.get("topup") == Some(&topup.id.to_string());
        if !is_as_ordered {
            return self.reject_mismatch(topup).await;
        }
        let audit = self.audit(
            topup.org,
            &Actor::default(),
            "billing.purchase",
            topup.id.to_string(),
        )?;
        let paid = PaidTopup {
            topup: topup.id,
            payment: PaymentId::new(audit.at, random()?),
            intent: intent.id.clone(),
            charge: intent.latest_charge.clone(),
            amount_cents: intent.amount,
            card: self.card_saved_with(topup, intent).await,
            description: "purchase".to_owned(),
            compare_at: audit.at + COMPARED_EVERY,
            refund: RefundOrderId::new(audit.at, random()?),
            audit,
        };
        match self.store.credit_purchase(paid).await {
            Ok(Appended::New) => {
                tracing::info!(topup = %topup.id, organization = %topup.org, cents = topup.amount_cents, "credited a purchase");
                self.metrics.ended(topup.kind, TopupState::Paid);
                Ok(SyncOutcome::Recorded)
            }
            Ok(Appended::Before) => Ok(SyncOutcome::Recorded),
            Err(error) if [PAID_TWICE, OTHER_AMOUNT, OTHER_ENTRY].contains(&error) => {
                tracing::error!(topup = %topup.id, intent = %intent.id, %error, "a payment was not credited");
                self.metrics.differs();
                Ok(SyncOutcome::Recorded)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records the state of an unsuccessful payment. The page of a checkout can still be paid with another card.
    async fn apply_unpaid_intent(&self, topup: &TopupRow, intent: &PaymentIntent) -> Result<SyncOutcome> {
        match topup.kind {
            TopupKind::Checkout => Ok(SyncOutcome::Waiting),
            TopupKind::Auto => self.apply_unpaid_auto(topup, intent).await,
        }
    }

    /// Ends a purchase with a payment that differs from the order. An operator has to check it.
    async fn reject_mismatch(&self, topup: &TopupRow) -> Result<SyncOutcome> {
        tracing::error!(topup = %topup.id, "a purchase was paid differently than ordered, and is not credited");
        self.metrics.differs();
        self.fail(topup.id, topup.kind, "paid in another way than it was ordered")
            .await?;
        Ok(SyncOutcome::Recorded)
    }

    /// Reads the card that was saved with a payment. If Stripe does not answer, the purchase is still credited, and the card is
    /// read again for the billing information.
    async fn card_saved_with(&self, topup: &TopupRow, intent: &PaymentIntent) -> Option<SavedCard> {
        let (customer, method) = (topup.customer.as_ref()?, intent.payment_method.as_ref()?);
        if !topup.save_card {
            return None;
        }
        let cards = self.ask("list_cards", self.stripe.saved_cards(customer)).await;
        let cards = cards
            .inspect_err(|error: &Error| tracing::warn!(%error, "cannot read the card of a purchase"))
            .ok()?;
        let card = cards.data.iter().find(|card| card.id == *method)?;
        card_of(card, "checkout")
    }
}
