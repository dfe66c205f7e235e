//! Subscriptions to licenses. An organization buys a configured plan on a checkout page of Stripe, and changes or cancels it in
//! the customer portal.
//!
//! Each event about a subscription is a hint to read it. The price determines the plan, and the state and the period determine
//! the entitlement, so the order and the age of events do not matter.

use std::time::Duration;

use sortie_api::{
    ErrorCode, OrgId, Refusal, Timestamp,
    deployment::{EntitlementSource, EntitlementState},
    limits,
};
use sortie_store::{
    Error as StoreError,
    access::Actor,
    licenses::{ReadSubscription, RecordedSubscription, SubscribedPlan},
};

use crate::{
    Billing, Subscription, SubscriptionItem, SubscriptionOrder, UNPAID_PAGE,
    checkout::purchase::SyncOutcome,
    error::{Error, Result, conflict},
    service::{Parts, seconds},
};

/// Path of the page for a customer who has subscribed.
pub const SUBSCRIBED_PAGE: &str = "/billing/subscribed";

/// Grace period from the start of an unpaid period, in which an organization keeps its entitlement.
const GRACE: Duration = Duration::from_hours(14 * 24);

/// Time in seconds in which a second request for a plan gets the same page.
const SAME_PAGE: i64 = 30 * 60;

/// Minimum lifetime of a page, in seconds.
const STANDS: i64 = 60 * 60;

/// Number of reads of a subscription that keeps changing. After them its event is retried later.
const READINGS: u32 = 5;

/// Plan of licenses that organizations can subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the plan.
    pub name: String,
    /// Recurring price at Stripe.
    pub price: String,
    /// Runs in a calendar month, for each deployment.
    pub monthly_runs: i64,
    /// Maximum number of deployments.
    pub deployments: i64,
}

impl Billing {
    /// Returns the plans that organizations can subscribe to.
    pub fn plans(&self) -> &[Plan] {
        &self.0.options.plans
    }

    /// Creates a page on which the organization subscribes to a plan. Returns its address.
    pub async fn create_license_checkout(&self, org: OrgId, plan: &str) -> Result<String> {
        let parts = &self.0;
        let plans = &parts.options.plans;
        let plan = plans.iter().find(|known| known.name == plan).ok_or_else(|| {
            let names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
            ErrorCode::InvalidRequest.because(format!("plan: must be one of: {}", names.join(", ")))
        })?;
        let now = parts.now();
        let known = parts.store.subscription(org).await?;
        if let Some(known) = &known
            && known.state != EntitlementState::Ended
        {
            return Err(conflict(
                "the organization has a subscription: change or pay it in the customer portal",
            ));
        }
        let granted = parts.store.entitlement(org, now).await?;
        if granted.is_some_and(|found| found.source == EntitlementSource::Operator && found.stands(now)) {
            return Err(conflict(
                "the operator has granted licenses to the organization, and a subscription counts only after their end",
            ));
        }
        let began = seconds(now) / SAME_PAGE * SAME_PAGE;
        // A subscription that has ended in the meantime leads to another page.
        let ended = known.map_or(0, |known| known.revision);
        let key = format!("license_{org}_{ended}_{began}_{}", plan.price);
        let org_url = &parts.options.org_url;
        let page = async |customer: &str, key: &str| {
            let order = SubscriptionOrder {
                customer,
                price: &plan.price,
                organization: &org.to_string(),
                expires_at: began + SAME_PAGE + STANDS,
                success_url: &format!("{org_url}{SUBSCRIBED_PAGE}"),
                cancel_url: &format!("{org_url}{UNPAID_PAGE}"),
            };
            let made = parts.stripe.create_subscription_checkout(key, &order);
            parts.ask("create_checkout", made).await
        };
        let customer = parts.customer(org).await?;
        let made = match page(&customer, &key).await {
            Err(Error::Stripe(error)) if error.lacks_customer() => {
                let other = parts.replace_customer(org, &customer).await?;
                page(&other, &format!("{key}_{other}")).await?
            }
            made => made?,
        };
        made.url
            .ok_or_else(|| Refusal::internal("Stripe has made a page without an address").into())
    }
}

/// Entitlement from a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entitled {
    state: EntitlementState,
    period_end: Timestamp,
    renews: bool,
}

/// Returns the entitlement of a subscription with this period, or `None` before its first payment.
fn entitled(subscription: &Subscription, period: &SubscriptionItem) -> Result<Option<Entitled>> {
    let at = |seconds: i64| Timestamp::from_micros(seconds.saturating_mul(1_000_000));
    let start = at(period.current_period_start);
    let end = at(period.current_period_end);
    let end = subscription.cancel_at.map_or(end, |cancel| at(cancel).min(end));
    let is_cancelled = subscription.cancel_at_period_end || subscription.cancel_at.is_some();
    let (state, period_end) = match subscription.status.as_str() {
        "active" | "trialing" => (EntitlementState::Active, end),
        "past_due" => (EntitlementState::PastDue, (start + GRACE).min(end)),
        "canceled" | "unpaid" | "paused" | "incomplete_expired" => {
            let ended = subscription.ended_at.map_or(start, at);
            (EntitlementState::Ended, ended.min(end))
        }
        "incomplete" => return Ok(None),
        status => {
            return Err(
                Refusal::internal(format!("a subscription has the unknown status {status:?}")).into(),
            );
        }
    };
    Ok(Some(Entitled {
        state,
        period_end,
        renews: state != EntitlementState::Ended && !is_cancelled,
    }))
}

impl Parts {
    /// Reads a subscription, and records the entitlements of its organization.
    pub(crate) async fn sync_subscription(&self, id: &str) -> Result<SyncOutcome> {
        for _ in 0..READINGS {
            let since = self.store.subscription_revision(id).await?;
            let reading = self.stripe.subscription(id);
            let subscription = self.ask("read_subscription", reading).await?;
            let org = self.store.org_of_customer(&subscription.customer).await?;
            let Some(org) = org else {
                return Ok(SyncOutcome::NotOurs);
            };
            let (plan, period) = self.plan_of(&subscription)?;
            let Some(entitled) = entitled(&subscription, period)? else {
                return Ok(SyncOutcome::Waiting);
            };
            let has_plan = plan.is_some();
            let read = ReadSubscription {
                id: subscription.id.clone(),
                org,
                plan,
                state: entitled.state,
                period_end: entitled.period_end,
                renews: entitled.renews,
                since,
            };
            let audit = self.audit(org, &Actor::default(), "license.subscription", &subscription.id)?;
            let recorded = match self.store.record_subscription(read, audit).await {
                // The organization was deleted.
                Err(StoreError::NotFound) => return self.end_late_subscription(org, &subscription).await,
                recorded => recorded?,
            };
            match recorded {
                RecordedSubscription::Outdated => {}
                RecordedSubscription::Changed => {
                    let state = entitled.state;
                    tracing::info!(subscription = %id, organization = %org, %state, "recorded a subscription to licenses");
                    self.metrics.subscribed(state);
                    if !has_plan {
                        self.warn_of_price(id);
                    }
                    return Ok(SyncOutcome::Recorded);
                }
                RecordedSubscription::Known => return Ok(SyncOutcome::Recorded),
                RecordedSubscription::NoPlan => {
                    self.warn_of_price(id);
                    return Ok(SyncOutcome::Recorded);
                }
                RecordedSubscription::Second => {
                    tracing::error!(subscription = %id, organization = %org, "the organization pays for a second subscription, which does not count");
                    self.metrics.differs();
                    return Ok(SyncOutcome::Recorded);
                }
            }
        }
        Err(Refusal::internal("a subscription changes all the time").into())
    }

    /// Ends a subscription that became known after the deletion of its organization. A failure is an error of the event, which is
    /// retried.
    async fn end_late_subscription(&self, org: OrgId, subscription: &Subscription) -> Result<SyncOutcome> {
        if subscription.ended_at.is_some() {
            return Ok(SyncOutcome::NotOurs);
        }
        let id = &subscription.id;
        tracing::error!(subscription = %id, organization = %org,
            "a deleted organization has subscribed; the subscription is cancelled, and its invoice is to be refunded at Stripe");
        self.metrics.differs();
        self.ask("cancel_subscription", self.stripe.cancel_subscription(id))
            .await?;
        tracing::info!(subscription = %id, organization = %org, "cancelled the subscription of a deleted organization");
        Ok(SyncOutcome::Recorded)
    }

    /// Logs a subscription that an operator has to check.
    fn warn_of_price(&self, id: &str) {
        tracing::error!(subscription = %id, "a subscription has a price of no plan in license.plans");
        self.metrics.differs();
    }

    /// Returns the plan of a subscription by its price, and the item with its period.
    fn plan_of<'a>(
        &self,
        subscription: &'a Subscription,
    ) -> Result<(Option<SubscribedPlan>, &'a SubscriptionItem)> {
        let items = &subscription.items.data;
        let sold = items.iter().find_map(|item| {
            let mut plans = self.options.plans.iter();
            plans
                .find(|plan| plan.price == item.price())
                .map(|plan| (plan, item))
        });
        if let Some((plan, item)) = sold {
            let units = i64::try_from(item.quantity.unwrap_or(1)).unwrap_or(i64::MAX);
            let plan = SubscribedPlan {
                name: plan.name.clone(),
                monthly_runs: plan.monthly_runs,
                deployments: plan
                    .deployments
                    .saturating_mul(units)
                    .min(limits::LICENSE_DEPLOYMENTS),
            };
            return Ok((Some(plan), item));
        }
        let item = items.first();
        let item = item.ok_or_else(|| Refusal::internal("a subscription has no price"))?;
        Ok((None, item))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const START: i64 = 1_763_674_200;
    const DAY: i64 = 86_400;

    /// A subscription of 30 days with these members.
    fn read(members: &Value) -> Result<Option<Entitled>> {
        let mut object = json!({"id": "sub_1", "customer": "cus_1", "status": "active", "cancel_at_period_end": false,
            "cancel_at": null, "ended_at": null, "metadata": {}, "items": {"has_more": false, "data": [{
                "price": {"id": "price_1"}, "quantity": 1, "current_period_start": START,
                "current_period_end": START + 30 * DAY}]}});
        for (name, value) in members.as_object().unwrap() {
            object[name] = value.clone();
        }
        let subscription: Subscription = serde_json::from_value(object).unwrap();
        entitled(&subscription, &subscription.items.data[0])
    }

    #[test]
    fn a_subscription_makes_an_entitlement_by_its_status_and_its_period() {
        use EntitlementState::{Active, Ended, PastDue};
        for (members, state, days, renews) in [
            (json!({}), Active, 30, true),
            (json!({"status": "trialing"}), Active, 30, true),
            (json!({"status": "past_due"}), PastDue, 14, true),
            // Cancelled, but paid until the end of the period.
            (json!({"cancel_at_period_end": true}), Active, 30, false),
            (json!({"cancel_at": START + 10 * DAY}), Active, 10, false),
            (json!({"cancel_at": START + 90 * DAY}), Active, 30, false),
            (
                json!({"status": "past_due", "cancel_at": START + 3 * DAY}),
                PastDue,
                3,
                false,
            ),
            (
                json!({"status": "canceled", "ended_at": START + 30 * DAY}),
                Ended,
                30,
                false,
            ),
            (
                json!({"status": "canceled", "ended_at": START + 7 * DAY}),
                Ended,
                7,
                false,
            ),
            (json!({"status": "unpaid"}), Ended, 0, false),
            (json!({"status": "paused"}), Ended, 0, false),
            (
                json!({"status": "incomplete_expired", "ended_at": START + DAY}),
                Ended,
                1,
                false,
            ),
        ] {
            let period_end = Timestamp::from_micros((START + days * DAY) * 1_000_000);
            let expected = Entitled {
                state,
                period_end,
                renews,
            };
            assert_eq!(read(&members).unwrap(), Some(expected), "{members}");
        }
        assert_eq!(read(&json!({"status": "incomplete"})).unwrap(), None);
        assert!(read(&json!({"status": "of_a_later_version"})).is_err());
    }
}
