//! Purchases on a checkout page of Stripe. Each request is repeated with the same key, so a purchase has one page even if its
//! creation is interrupted repeatedly.

mod account;
mod closing;
pub(crate) mod purchase;
mod subscriptions;

use std::time::Duration;

use sha2::Digest as _;
use sortie_api::{
    ErrorCode, OrgId, Refusal, Timestamp, TopupId, TopupKind, TopupState, billing::CreateCheckout, limits,
};
use sortie_base::{hex, random};
use sortie_store::{
    access::Caller,
    money::{NewCustomer, NewTopup, TopupMove, TopupRow},
    outbox::PaymentNotice,
};

use crate::{
    Billing, Checkout, CheckoutOrder, Part,
    error::{Error, Result, conflict},
    service::{LISTED_BEFORE, Parts, seconds},
    webhooks::is_name,
};

pub use subscriptions::{Plan, SUBSCRIBED_PAGE};

/// Maximum number of open checkouts of an organization.
pub(crate) const OPEN: u32 = 10;

/// Lifetime of a page.
const STANDS: Duration = Duration::from_hours(1);

/// Lifetime of a page that is sent by mail. Stripe keeps pages for at most 24 hours.
const MAILED_PAGE: Duration = Duration::from_hours(23);

/// Time until the first check at Stripe whether a page was paid.
pub(crate) const FIRST_LOOK: Duration = Duration::from_mins(2);

/// Text next to the amount on the page.
const DESCRIPTION: &str = "Sortie credits";

/// Error of an order that took too long to get its page.
const GIVEN_UP: &str = "the checkout timed out; start a new one";

/// Path of the page for a customer who has paid.
pub const PAID_PAGE: &str = "/billing/paid";

/// Path of the page for a customer who cancelled.
pub const UNPAID_PAGE: &str = "/billing/cancelled";

impl Billing {
    /// Creates a page on which the organization buys credits. Returns its address.
    pub async fn create_checkout(&self, caller: &Caller, request: &CreateCheckout) -> Result<String> {
        let parts = &self.0;
        let amount_cents = request.amount_cents;
        let (least, most) = (limits::PURCHASE_CENTS_MIN, limits::PURCHASE_CENTS_MAX);
        if !(least..=most).contains(&amount_cents) {
            let rule = format!("amount_cents: must be from {least} to {most}");
            return Err(ErrorCode::InvalidRequest.because(rule).into());
        }
        let at = parts.now();
        let id = TopupId::new(at, random()?);
        let audit = parts.audit(caller.org, &caller.actor, "billing.checkout", id.to_string())?;
        let new = NewTopup {
            id,
            org: caller.org,
            kind: TopupKind::Checkout,
            amount_cents,
            save_card: request.save_payment_method,
            payment_method: None,
            created_by: caller.actor.user,
            created_at: at,
            check_at: at + FIRST_LOOK,
        };
        parts.store.create_topup(new, OPEN, audit).await?;
        let opened = async {
            parts.customer(caller.org).await?;
            let topup = parts.store.topup(id).await?;
            parts.open_checkout(&topup).await
        };
        match opened.await {
            Ok(checkout) => checkout
                .url
                .ok_or_else(|| Refusal::internal("Stripe has made a page without an address").into()),
            Err(error) => {
                let is_undone = matches!(&error, Error::Stripe(error) if error.is_undone());
                if is_undone || parts.store.topup(id).await?.customer.is_none() {
                    parts
                        .fail(id, TopupKind::Checkout, "Stripe has made no page")
                        .await?;
                }
                Err(error)
            }
        }
    }

    /// Opens the customer portal of an organization. Returns its address.
    pub async fn create_portal(&self, org: OrgId) -> Result<String> {
        let parts = &self.0;
        let back = format!("{}/", parts.options.org_url);
        let open = async |customer: &str| {
            let key = format!("portal_{}", hex(&random::<16>()?));
            let portal = parts.stripe.create_portal_session(&key, customer, &back);
            parts.ask("create_portal", portal).await
        };
        let customer = parts.customer(org).await?;
        let portal = match open(&customer).await {
            Err(Error::Stripe(error)) if error.lacks_customer() => {
                open(&parts.replace_customer(org, &customer).await?).await?
            }
            opened => opened?,
        };
        Ok(portal.url)
    }

    /// Checks whether the page of a purchase was paid, for the customer who returns from it. Unknown pages are ignored.
    pub async fn returned(&self, session: &str) -> Result<Option<TopupState>> {
        let parts = &self.0;
        if !is_name(session) {
            return Ok(None);
        }
        let Some(topup) = parts.store.topup_of_session(session).await? else {
            return Ok(None);
        };
        if topup.state.is_waiting() {
            parts.sync_checkout(session).await?;
        }
        Ok(Some(parts.store.topup(topup.id).await?.state))
    }
}

/// Time at which the page of a purchase expires. The engine orders the pages that are sent by mail, so they have no creator.
pub(crate) fn end_of_page(topup: &TopupRow) -> Timestamp {
    topup.created_at + topup.created_by.map_or(MAILED_PAGE, |_| STANDS)
}

impl Parts {
    /// Returns the Stripe customer of an organization, and creates one if there is none.
    pub(crate) async fn customer(&self, org: OrgId) -> Result<String> {
        if let Some(account) = self.store.billing_account(org).await? {
            return Ok(account.customer);
        }
        let made = self.make_customer(org, "").await?;
        Ok(self.store.keep_customer(org, &made).await?)
    }

    /// Creates a replacement for a customer that is missing at Stripe. Returns the saved customer.
    pub(crate) async fn replace_customer(&self, org: OrgId, missing: &str) -> Result<String> {
        let known = self.customer(org).await?;
        if known != missing {
            return Ok(known);
        }
        let customer = self.make_customer(org, missing).await?;
        let new = NewCustomer {
            missing: missing.to_owned(),
            customer,
            mail: self.notice(org, &PaymentNotice::CardGone).await?,
            audit: self.audit(
                org,
                &Self::system_actor(),
                "billing.auto_topup.disable",
                org.to_string(),
            )?,
        };
        let replaced = self.store.replace_customer(new).await?;
        tracing::warn!(organization = %org, missing, "replaced a customer that Stripe does not have");
        if let Some(notices) = self
            .options
            .notices
            .as_ref()
            .filter(|_| replaced.disabled_auto_topup)
        {
            notices.queued();
        }
        Ok(replaced.customer)
    }

    /// Creates a customer. `missing` is the previous customer: Stripe may still remember its key.
    async fn make_customer(&self, org: OrgId, missing: &str) -> Result<String> {
        let name = self.store.operated_organization(org).await?.name;
        // A repeated request must have the same parameters, but the name may change in between.
        let digest = sha2::Sha256::digest(format!("{name}{missing}"));
        let key = format!("{org}-{}", hex(&<[u8; 32]>::from(digest)));
        let id = org.to_string();
        let made = async |key: &str| {
            let customer = self.stripe.create_customer(key, &id, &name);
            self.ask("create_customer", customer).await
        };
        let customer = match made(&key).await {
            // Stripe repeats this answer for the key for a day. A second customer is harmless: only one of them is saved.
            Err(Error::Stripe(error)) if error.is_indefinite() => {
                made(&format!("{org}-{}", hex(&random::<16>()?))).await?
            }
            made => made?,
        };
        Ok(customer.id)
    }

    /// Creates the page of a purchase, or returns the existing one. Returns `Conflict` if the purchase has ended in the meantime,
    /// because its page is not checked for payments then.
    pub(crate) async fn open_checkout(&self, topup: &TopupRow) -> Result<Checkout> {
        let Some(customer) = &topup.customer else {
            return Err(Refusal::internal("the organization is not a customer yet").into());
        };
        let id = topup.id.to_string();
        let org_url = &self.options.org_url;
        let success_url = format!("{org_url}{PAID_PAGE}?session={{CHECKOUT_SESSION_ID}}");
        let cancel_url = format!("{org_url}{UNPAID_PAGE}");
        let page = async |customer: &str, key: &str| {
            let order = CheckoutOrder {
                customer,
                amount_cents: topup.amount_cents,
                description: DESCRIPTION,
                topup: &id,
                saves_card: topup.save_card,
                expires_at: seconds(end_of_page(topup)),
                success_url: &success_url,
                cancel_url: &cancel_url,
            };
            self.make_page(topup, key, &order).await
        };
        let checkout = match page(customer, &id).await {
            Err(Error::Stripe(error)) if error.lacks_customer() => {
                let other = self.replace_customer(topup.org, customer).await?;
                // The key of the purchase belongs to the request with the missing customer.
                page(&other, &format!("{id}-{other}")).await?
            }
            page => page?,
        };
        self.record_page(topup, checkout).await
    }

    /// Creates a page, or returns the existing one. After a 500, which Stripe may replay for the key for a day, searches for the
    /// page, and creates it with a second key if the search finds none.
    ///
    /// Stripe may still create the first page later. It cannot be paid: only the lost response had its address, and clients get
    /// only the page that the purchase names.
    async fn make_page(&self, topup: &TopupRow, key: &str, order: &CheckoutOrder<'_>) -> Result<Checkout> {
        let made = async |key: &str| {
            let checkout = self.stripe.create_checkout(key, order);
            self.ask("create_checkout", checkout).await
        };
        match made(key).await {
            Err(Error::Stripe(error)) if error.is_indefinite() => {}
            answered => return answered,
        }
        if let Some(page) = self.find_page(topup, order).await? {
            return Ok(page);
        }
        made(&format!("{key}-2")).await
    }

    async fn find_page(&self, topup: &TopupRow, order: &CheckoutOrder<'_>) -> Result<Option<Checkout>> {
        let (customer, since) = (order.customer, seconds(topup.created_at - LISTED_BEFORE));
        let page = |after: Option<String>| async move {
            let part = Part {
                since: Some(since),
                after: after.as_deref(),
            };
            self.stripe.checkouts(customer, &part).await
        };
        let pages = self.read_all("list_checkouts", page, |page| &page.id);
        let is_named = |page: &Checkout| {
            let metadata = page.metadata.as_ref();
            metadata.is_some_and(|metadata| metadata.get("topup").is_some_and(|topup| topup == order.topup))
        };
        Ok(pages.await?.into_iter().find(is_named))
    }

    /// Saves the page of a purchase. Returns `Conflict` if the purchase has ended in the meantime or has another page.
    async fn record_page(&self, topup: &TopupRow, checkout: Checkout) -> Result<Checkout> {
        let change = TopupMove {
            id: topup.id,
            to: TopupState::Open,
            session: Some(checkout.id.clone()),
            intent: None,
            error: None,
        };
        if self.store.move_topup(change).await? {
            return Ok(checkout);
        }
        let kept = self.store.topup(topup.id).await?;
        if kept.session.is_some_and(|session| session != checkout.id) {
            return Err(conflict(GIVEN_UP));
        }
        match kept.state {
            TopupState::Created | TopupState::Open | TopupState::Processing | TopupState::Paid => {
                Ok(checkout)
            }
            TopupState::Failed | TopupState::Expired | TopupState::RequiresAction => Err(conflict(GIVEN_UP)),
        }
    }

    /// Ends a purchase without credits. A payment that arrives later is still credited.
    pub(crate) async fn end(
        &self,
        id: TopupId,
        kind: TopupKind,
        to: TopupState,
        why: Option<&str>,
    ) -> Result<()> {
        let change = TopupMove {
            id,
            to,
            session: None,
            intent: None,
            error: why.map(str::to_owned),
        };
        if self.store.move_topup(change).await? {
            self.metrics.ended(kind, to);
        }
        Ok(())
    }

    pub(crate) async fn fail(&self, id: TopupId, kind: TopupKind, why: &str) -> Result<()> {
        self.end(id, kind, TopupState::Failed, Some(why)).await
    }
}
