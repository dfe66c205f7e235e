//! Subscriptions to licenses, as they were last read at Stripe.
//!
//! Stripe is called outside of transactions. A change is recorded only if no other change was recorded since the request
//! began. An older reading therefore never replaces a newer one.

use sortie_api::{OrgId, Timestamp, deployment::EntitlementState};

use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{Stmt, Tx, batch, insert, row, select, vals},
    organizations::lock,
};

row! {
    /// Plan that an organization pays for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SubscribedPlan {
        /// Name of the plan.
        pub name: String = "plan",
        /// Runs in a calendar month, for each deployment.
        pub monthly_runs: i64 = "monthly_runs",
        /// Maximum number of deployments.
        pub deployments: i64 = "deployments",
    }
}

/// Subscription as it was read at Stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSubscription {
    /// ID at Stripe.
    pub id: String,
    /// Organization that pays.
    pub org: OrgId,
    /// Plan of its price. `None` if the price belongs to no plan: a recorded plan then stays.
    pub plan: Option<SubscribedPlan>,
    /// State of the entitlement.
    pub state: EntitlementState,
    /// End of the licenses that are issued.
    pub period_end: Timestamp,
    /// Whether Stripe will renew the subscription and charge again.
    pub renews: bool,
    /// Revision that was recorded before it was read. `None` if there was none.
    pub since: Option<i64>,
}

row! {
    /// Subscription as it is recorded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SubscriptionRow {
        /// ID at Stripe.
        pub id: String = "id",
        /// Plan that is paid.
        pub plan: SubscribedPlan,
        /// State of the entitlement.
        pub state: EntitlementState = "state",
        /// End of the licenses that are issued.
        pub period_end: Timestamp = "period_end",
        /// Whether Stripe will renew the subscription and charge again.
        pub renews: bool = "renews",
        /// Number of changes of the organization's subscriptions.
        pub revision: i64 = "revision",
    }
}

/// Outcome of recording a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedSubscription {
    /// The change is recorded.
    Changed,
    /// Nothing has changed: the same state is recorded already, or the subscription has ended and was never recorded.
    Known,
    /// Another request has recorded a newer reading. The caller must read the subscription again.
    Outdated,
    /// The organization has another subscription that has not ended.
    Second,
    /// The price of a new subscription is that of no plan.
    NoPlan,
}

/// Error of a deletion of an organization that Stripe still charges.
const RENEWS: Error = Error::Conflict(
    "the organization has a subscription to licenses: cancel it in the customer portal first",
);

/// Query of the subscription of an organization.
const OF_ORGANIZATION: &str = select!(SubscriptionRow, " FROM subscription WHERE org_id = $1");

impl Store {
    /// Reads the subscription of an organization.
    pub async fn subscription(&self, org: OrgId) -> Result<Option<SubscriptionRow>> {
        self.db
            .read(move |tx| tx.read_opt(OF_ORGANIZATION, vals![org]))
            .await
    }

    /// System: reads the revision of the subscription with this ID at Stripe.
    pub async fn subscription_revision(&self, id: &str) -> Result<Option<i64>> {
        let id = id.to_owned();
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT revision FROM subscription WHERE id = $1",
                    vals![id.as_str()],
                )?
                .map(|row| row.only())
                .transpose()
            })
            .await
    }

    /// System: records a subscription that was read at Stripe, in place of one that has ended. A late payment ends the
    /// entitlement no later than it was recorded for the first late one in a row. `NotFound` if the organization was deleted.
    pub async fn record_subscription(
        &self,
        read: ReadSubscription,
        audit: Audit,
    ) -> Result<RecordedSubscription> {
        self.db.write(move |tx| put(tx, &read, &audit)).await
    }
}

fn put(tx: &mut dyn Tx, read: &ReadSubscription, audit: &Audit) -> Result<RecordedSubscription> {
    let [_, found] = batch(tx, &[lock(read.org), Stmt::new(OF_ORGANIZATION, vals![read.org])])?;
    let known = found.first::<SubscriptionRow>()?;
    let next = match next(known.as_ref(), read) {
        Ok(next) => next,
        Err(outcome) => return Ok(outcome),
    };
    tx.batch(&[upsert(read.org, &next, audit.at), record(audit)])?;
    Ok(RecordedSubscription::Changed)
}

/// Returns the row after a reading. An error is the outcome of one that changes nothing.
fn next(
    known: Option<&SubscriptionRow>,
    read: &ReadSubscription,
) -> std::result::Result<SubscriptionRow, RecordedSubscription> {
    let same = known.filter(|known| known.id == read.id);
    if same.map(|known| known.revision) != read.since {
        return Err(RecordedSubscription::Outdated);
    }
    if same.is_none() {
        if read.state == EntitlementState::Ended {
            return Err(RecordedSubscription::Known);
        }
        if known.is_some_and(|other| other.state != EntitlementState::Ended) {
            return Err(RecordedSubscription::Second);
        }
    }
    let plan = read.plan.as_ref().or(same.map(|known| &known.plan));
    let plan = plan.ok_or(RecordedSubscription::NoPlan)?;
    let was_late = same
        .filter(|known| known.state == EntitlementState::PastDue && read.state == EntitlementState::PastDue);
    let next = SubscriptionRow {
        id: read.id.clone(),
        plan: plan.clone(),
        state: read.state,
        period_end: was_late.map_or(read.period_end, |known| known.period_end.min(read.period_end)),
        renews: read.renews,
        revision: known.map_or(1, |known| known.revision.saturating_add(1)),
    };
    let is_known = same.is_some_and(|known| {
        let revision = known.revision;
        *known
            == SubscriptionRow {
                revision,
                ..next.clone()
            }
    });
    if is_known {
        return Err(RecordedSubscription::Known);
    }
    Ok(next)
}

fn upsert(org: OrgId, row: &SubscriptionRow, at: Timestamp) -> Stmt<'_> {
    insert!("subscription", {
        "org_id": org,
        "id": row.id.as_str(),
        "plan": row.plan.name.as_str(),
        "monthly_runs": row.plan.monthly_runs,
        "deployments": row.plan.deployments,
        "state": row.state,
        "period_end": row.period_end,
        "renews": row.renews,
        "revision": row.revision,
        "updated_at": at,
    }, " ON CONFLICT (org_id) DO UPDATE SET id = excluded.id, plan = excluded.plan, monthly_runs = \
        excluded.monthly_runs, deployments = excluded.deployments, state = excluded.state, period_end = \
        excluded.period_end, renews = excluded.renews, revision = excluded.revision, updated_at = excluded.updated_at")
}

/// Refuses the command if Stripe still charges the organization for licenses.
pub(crate) fn none_renews(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "SELECT 1 FROM subscription WHERE org_id = $1 AND renews = 1",
        vals![org],
    )
    .exactly(0, RENEWS)
}
