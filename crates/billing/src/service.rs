//! Handle on the payments of a node, and its shared state.

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use sortie_api::{OrgId, Timestamp};
use sortie_base::{Clock, random};
use sortie_store::{
    Store,
    access::{Actor, Audit},
    outbox::NoticeWriter,
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    AutoTopupLimits, Page, Plan, Stripe, StripeError, StripeSettings,
    error::{Error, Result},
    metrics::Metrics,
};

/// Settings of the payments of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clock that the nodes share: idempotency keys and event searches have time limits.
    pub clock: Clock,
    /// Public address of the organization API, without a final slash.
    pub org_url: String,
    /// The account at Stripe.
    pub stripe: StripeSettings,
    /// Limits of automatic purchases.
    pub auto_topup: AutoTopupLimits,
    /// License plans that are on sale.
    pub plans: Vec<Plan>,
    /// Writer of mails to the owners of organizations. None: no mails.
    pub notices: Option<Arc<dyn NoticeWriter>>,
}

/// Handle on the payments of a node. Cheap to clone; every clone is the same node.
#[derive(Clone, Debug)]
pub struct Billing(pub(crate) Arc<Parts>);

/// Everything that the clones of a [`Billing`] share.
pub(crate) struct Parts {
    pub(crate) options: Options,
    pub(crate) stripe: Stripe,
    pub(crate) store: Store,
    pub(crate) metrics: Metrics,
    /// Wakes the worker of this node.
    pub(crate) rung: Notify,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Billing {
    /// Creates the handle. Fails if TLS is not available on this machine.
    pub fn new(options: Options, store: Store) -> std::result::Result<Self, StripeError> {
        Ok(Self(Arc::new(Parts {
            stripe: Stripe::new(options.stripe.clone())?,
            options,
            store,
            metrics: Metrics::default(),
            rung: Notify::new(),
        })))
    }

    /// Registers the metrics of the payments.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.0.metrics.register(registry);
    }
}

impl Parts {
    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Sends a request to Stripe, and records metrics with this name.
    pub(crate) async fn ask<T>(
        &self,
        name: &'static str,
        request: impl Future<Output = std::result::Result<T, StripeError>>,
    ) -> Result<T> {
        let begun = Instant::now();
        let answer = request.await;
        let outcome = answer.as_ref().err().map_or("done", StripeError::outcome);
        self.metrics.asked(name, outcome, begun.elapsed());
        Ok(answer?)
    }

    /// Reads all pages of a list at Stripe. `page` requests the objects after a given one, and `id` returns the id of an object.
    pub(crate) async fn read_all<T, F>(
        &self,
        name: &'static str,
        mut page: impl FnMut(Option<String>) -> F,
        id: fn(&T) -> &String,
    ) -> Result<Vec<T>>
    where
        F: Future<Output = std::result::Result<Page<T>, StripeError>>,
    {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let found = self.ask(name, page(after)).await?;
            let last = found.data.last().map(|object| id(object).clone());
            all.extend(found.data);
            if !found.has_more {
                return Ok(all);
            }
            // An empty page with `has_more` would be requested forever.
            let unreadable = StripeError::Unreadable("a list without an end");
            after = Some(last.ok_or(Error::Stripe(unreadable))?);
        }
    }

    /// Makes the entry of the audit log for a change that happens now.
    pub(crate) fn audit(
        &self,
        org: OrgId,
        actor: &Actor,
        action: &'static str,
        target: impl Into<String>,
    ) -> Result<Audit> {
        Ok(actor.audit((self.now(), random()?), org, action, target))
    }
}

/// Lease on a claimed purchase, payment or event: longer than the requests for it take.
pub(crate) const LEASE: Duration = Duration::from_mins(2);

/// Margin between the start of a search in a Stripe list and the creation of the object: the clocks of Stripe and the nodes may
/// differ.
pub(crate) const LISTED_BEFORE: Duration = Duration::from_hours(1);

/// Returns a time in seconds since 1970.
pub(crate) const fn seconds(at: Timestamp) -> i64 {
    at.as_micros() / 1_000_000
}
