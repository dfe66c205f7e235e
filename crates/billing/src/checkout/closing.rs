//! Checkout pages of deleted organizations: open pages are expired. A payment that was faster is refunded
//! ([`refunds`](crate::refunds)), and a subscription is cancelled ([`subscriptions`](crate::checkout::subscriptions)).

use std::time::Duration;

use futures_util::future::join_all;
use sortie_base::{hex, random};
use sortie_store::money::ClosingAccount;

use crate::{
    error::{Error, Result},
    service::{LEASE, Parts},
};

/// Number of customers that a node processes concurrently.
const SLOTS: u32 = 8;

/// Time after the deletion at which the pages are expired again, because a request for a page may have been in flight.
const AGAIN_AFTER: Duration = Duration::from_mins(15);

/// Pause after a failed attempt.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

impl Parts {
    /// Expires the pages of deleted organizations that are due. Returns the number of organizations.
    pub(crate) async fn close_accounts(&self) -> Result<usize> {
        let due = self
            .store
            .claim_closing_accounts(self.now(), LEASE, SLOTS)
            .await?;
        join_all(due.iter().map(|account| self.close_and_record(account))).await;
        Ok(due.len())
    }

    async fn close_and_record(&self, account: &ClosingAccount) {
        let (now, again_at) = (self.now(), account.deleted_at + AGAIN_AFTER);
        let next = match self.close(account).await {
            Ok(()) => (now < again_at).then_some(again_at),
            Err(error) => {
                tracing::warn!(organization = %account.org, %error,
                    "expiring the pages of a deleted organization failed; they are expired later");
                Some(now + AFTER_FAILURE)
            }
        };
        if let Err(error) = self.store.close_account_at(account.org, next).await {
            tracing::warn!(organization = %account.org, %error, "recording the end of pages failed");
        }
    }

    async fn close(&self, account: &ClosingAccount) -> Result<()> {
        let customer = account.customer.as_str();
        let page = |after: Option<String>| async move {
            self.stripe.open_checkouts(customer, after.as_deref()).await
        };
        let pages = match self.read_all("list_checkouts", page, |page| &page.id).await {
            // The operator has switched to another Stripe account.
            Err(Error::Stripe(error)) if error.lacks_customer() => return Ok(()),
            pages => pages?,
        };
        for page in pages {
            // Expiring a page is idempotent, so each request may have a new key.
            let key = format!("expire_{}_{}", page.id, hex(&random::<16>()?));
            match self
                .ask("expire_checkout", self.stripe.expire_checkout(&key, &page.id))
                .await
            {
                Ok(_) => {
                    tracing::info!(organization = %account.org, page = page.id, "expired a page of a deleted organization");
                }
                // The page was paid or has expired in the meantime: Stripe sends an event.
                Err(Error::Stripe(error)) if error.is_final() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
