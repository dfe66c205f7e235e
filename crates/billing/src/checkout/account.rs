//! Saved card and receipts, read at Stripe on request.

use std::time::Duration;

use sortie_api::{ErrorCode, OrgId, billing::PaymentMethodSync};
use sortie_store::{
    money::{BillingAccount, PaymentRow, RemovedCard, SavedCard},
    outbox::PaymentNotice,
};

use crate::{
    Billing,
    checkout::purchase::{SyncOutcome, card_of},
    error::{Error, Result},
    service::Parts,
};

/// Time limit for Stripe while a client waits for the billing information.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time for which a card is cached.
const KEPT: Duration = Duration::from_mins(1);

impl Billing {
    /// Returns the saved card of an organization, and whether it matches Stripe. Reads it at Stripe at most once a minute, and
    /// returns the last known card if Stripe does not answer in time.
    pub async fn card(&self, org: OrgId) -> Result<(Option<SavedCard>, PaymentMethodSync)> {
        let parts = &self.0;
        let Some(account) = parts.store.billing_account(org).await? else {
            return Ok((None, PaymentMethodSync::Synced));
        };
        let now = parts.now();
        if !parts.store.ask_for_card(org, now, now - KEPT).await? {
            let is_seen = account.seen_at >= account.asked_at;
            let sync = if is_seen {
                PaymentMethodSync::Synced
            } else {
                PaymentMethodSync::Unavailable
            };
            return Ok((account.card, sync));
        }
        let read = tokio::time::timeout(PATIENCE, parts.read_card(&account.customer)).await;
        let error = match read {
            Ok(Ok(card)) => {
                parts.replace_card(org, &account, card).await?;
                let kept = parts.store.billing_account(org).await?;
                return Ok((kept.and_then(|account| account.card), PaymentMethodSync::Synced));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(organization = %org, error, "cannot read the saved card");
        Ok((account.card, PaymentMethodSync::Unavailable))
    }

    /// Returns the address of the receipt of a payment, or `NotFound` if Stripe has no receipt.
    pub async fn receipt(&self, payment: &PaymentRow) -> Result<String> {
        let none = || ErrorCode::NotFound.because("the payment has no receipt");
        let parts = &self.0;
        let charge = parts.charge_of(payment).await?.ok_or_else(none)?;
        let charge = parts.ask("read_charge", parts.stripe.charge(&charge)).await?;
        Ok(charge.receipt_url.ok_or_else(none)?)
    }
}

impl Parts {
    /// Reads the card of an organization and saves it. `account` is the saved billing account.
    pub(crate) async fn refresh_card(
        &self,
        org: OrgId,
        account: &BillingAccount,
    ) -> Result<Option<SavedCard>> {
        let card = self.read_card(&account.customer).await?;
        self.replace_card(org, account, card.clone()).await?;
        Ok(card)
    }

    /// Reads the card of the organization after the card was detached from its customer.
    pub(crate) async fn sync_card(&self, id: &str) -> Result<SyncOutcome> {
        let Some(org) = self.store.org_of_card(id).await? else {
            return Ok(SyncOutcome::NotOurs);
        };
        let Some(account) = self.store.billing_account(org).await? else {
            return Ok(SyncOutcome::NotOurs);
        };
        self.refresh_card(org, &account).await?;
        Ok(SyncOutcome::Recorded)
    }

    /// Saves the card from Stripe. If there is none, deletes the saved card and disables automatic purchases.
    async fn replace_card(
        &self,
        org: OrgId,
        account: &BillingAccount,
        card: Option<SavedCard>,
    ) -> Result<()> {
        let (None, Some(known)) = (&card, &account.card) else {
            return Ok(self.store.keep_card(org, card, self.now()).await?);
        };
        let removed = RemovedCard {
            payment_method: known.payment_method.clone(),
            mail: self.notice(org, &PaymentNotice::CardGone).await?,
            audit: self.audit(
                org,
                &Self::system_actor(),
                "billing.auto_topup.disable",
                org.to_string(),
            )?,
        };
        if self.store.forget_card(removed).await? {
            tracing::info!(organization = %org, "disabled the automatic purchases of a card that was removed");
            if let Some(notices) = &self.options.notices {
                notices.queued();
            }
        }
        Ok(())
    }

    /// Reads the card of a customer: the card chosen in the portal, or otherwise the newest one.
    pub(crate) async fn read_card(&self, customer: &str) -> Result<Option<SavedCard>> {
        let read = match self.ask("read_customer", self.stripe.customer(customer)).await {
            // The Stripe account has changed: the next purchase creates another customer.
            Err(Error::Stripe(error)) if error.is_missing() => return Ok(None),
            read => read?,
        };
        if read.deleted {
            return Ok(None);
        }
        if let Some(chosen) = read.default_card() {
            return Ok(card_of(chosen, "portal"));
        }
        let cards = self.ask("list_cards", self.stripe.saved_cards(customer)).await?;
        Ok(cards.data.iter().find_map(|card| card_of(card, "portal")))
    }
}
