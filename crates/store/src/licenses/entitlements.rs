//! Entitlement of an organization to licenses for self-hosted engines: by a grant of the operator, or by a subscription.

use sortie_api::{
    OrgId, Timestamp,
    deployment::{EntitlementSource, EntitlementState},
};

use crate::{
    Result, Store,
    access::audit::{Audit, record},
    db::{ReadRow, Row, Stmt, insert, row, select, vals},
    organizations::lock,
};

/// Entitlement that the operator grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutEntitlement {
    /// Organization that is entitled.
    pub org: OrgId,
    /// Runs in a calendar month, for each deployment.
    pub monthly_runs: i64,
    /// Maximum number of deployments.
    pub deployments: i64,
    /// End of the licenses that are issued.
    pub period_end: Timestamp,
    /// Time of the change.
    pub at: Timestamp,
}

row! {
    /// Entitlement with its use.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EntitlementRow {
        /// Name of the plan.
        pub plan: Option<String> = "e.plan",
        /// Origin of the entitlement.
        pub source: EntitlementSource = "e.source",
        /// Runs in a calendar month, for each deployment.
        pub monthly_runs: i64 = "e.monthly_runs",
        /// Maximum number of deployments.
        pub deployments: i64 = "e.deployments",
        /// Deployments in use.
        pub deployments_used: i64 = "(SELECT COUNT(*) FROM deployment d WHERE d.org_id = e.org_id AND d.ended_at IS NULL)",
        /// State of the entitlement.
        pub state: EntitlementState = "e.state",
        /// End of the licenses that are issued.
        pub period_end: Timestamp = "e.period_end",
    }
}

impl EntitlementRow {
    /// Returns true if deployments can be added at this time.
    pub fn stands(&self, at: Timestamp) -> bool {
        self.state != EntitlementState::Ended && self.period_end > at
    }
}

/// Query for the entitlements of the organization `$1`: what the operator has granted, and its subscription.
const OF_ORGANIZATION: &str = select!(
    EntitlementRow,
    " FROM entitlement e WHERE e.org_id = $1 UNION ALL \
     SELECT s.plan, 'stripe', s.monthly_runs, s.deployments, \
     (SELECT COUNT(*) FROM deployment d WHERE d.org_id = s.org_id AND d.ended_at IS NULL), s.state, s.period_end \
     FROM subscription s WHERE s.org_id = $1"
);

impl Store {
    /// Grants an entitlement to an organization, replacing an earlier grant. Existing deployments stay. A subscription
    /// stays as well, and entitles the organization again after the grant has ended.
    pub async fn put_entitlement(&self, put: PutEntitlement, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| tx.batch(&[lock(put.org), upsert(&put), record(&audit)]).map(drop))
            .await
    }

    /// Reads the entitlement of an organization at this time: the grant of the operator until it ends, else the
    /// subscription. If both have ended, the one that ended last.
    pub async fn entitlement(&self, org: OrgId, at: Timestamp) -> Result<Option<EntitlementRow>> {
        self.db
            .read(move |tx| in_effect(&tx.query_all(OF_ORGANIZATION, vals![org])?, at))
            .await
    }
}

fn upsert(put: &PutEntitlement) -> Stmt<'_> {
    insert!("entitlement", {
        "org_id": put.org,
        "source": EntitlementSource::Operator,
        "monthly_runs": put.monthly_runs,
        "deployments": put.deployments,
        "state": EntitlementState::Active,
        "period_end": put.period_end,
        "updated_at": put.at,
    }, " ON CONFLICT (org_id) DO UPDATE SET source = excluded.source, monthly_runs = excluded.monthly_runs, \
        deployments = excluded.deployments, state = excluded.state, period_end = excluded.period_end, updated_at = \
        excluded.updated_at")
}

/// Statement that reads the entitlements of an organization, for [`in_effect`].
pub(super) fn read(org: OrgId) -> Stmt<'static> {
    Stmt::new(OF_ORGANIZATION, vals![org])
}

/// Returns the entitlement that counts at this time.
pub(super) fn in_effect(rows: &[Row], at: Timestamp) -> Result<Option<EntitlementRow>> {
    let found: Vec<EntitlementRow> = rows.iter().map(EntitlementRow::read).collect::<Result<_>>()?;
    Ok(found.into_iter().max_by_key(|row| {
        let stands = row.stands(at);
        (
            stands,
            stands && row.source == EntitlementSource::Operator,
            row.period_end,
        )
    }))
}
