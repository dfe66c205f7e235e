//! Entitlement of an organization to licenses for self-hosted engines.

use sortie_api::{
    OrgId, Timestamp,
    deployment::{EntitlementSource, EntitlementState},
};

use crate::{
    Store,
    audit::{Audit, record},
    db::{Row, Stmt, vals},
    organizations::lock,
    types::Result,
};

/// Entitlement to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutEntitlement {
    /// Organization that is entitled.
    pub org: OrgId,
    /// Name of the plan; none for a grant of the operator.
    pub plan: Option<String>,
    /// Origin of the entitlement.
    pub source: EntitlementSource,
    /// ID of the subscription; none for a grant of the operator.
    pub subscription: Option<String>,
    /// Runs in a calendar month, for each deployment.
    pub monthly_runs: i64,
    /// Maximum number of deployments.
    pub deployments: i64,
    /// State of the entitlement.
    pub state: EntitlementState,
    /// End of the licenses that are issued.
    pub period_end: Timestamp,
    /// Time of the change.
    pub at: Timestamp,
}

/// Entitlement with its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntitlementRow {
    /// Name of the plan.
    pub plan: Option<String>,
    /// Origin of the entitlement.
    pub source: EntitlementSource,
    /// Runs in a calendar month, for each deployment.
    pub monthly_runs: i64,
    /// Maximum number of deployments.
    pub deployments: i64,
    /// Deployments in use.
    pub deployments_used: i64,
    /// State of the entitlement.
    pub state: EntitlementState,
    /// End of the licenses that are issued.
    pub period_end: Timestamp,
}

/// Query for the entitlement of the organization `$1`.
macro_rules! select_entitlement {
    () => {
        "SELECT e.plan, e.source, e.monthly_runs, e.deployments, \
         (SELECT COUNT(*) FROM deployment d WHERE d.org_id = e.org_id AND d.ended_at IS NULL), e.state, e.period_end \
         FROM entitlement e WHERE e.org_id = $1"
    };
}

impl Store {
    /// Sets what an organization is entitled to, in place of an earlier entitlement. Existing deployments stay.
    pub async fn put_entitlement(&self, put: PutEntitlement, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| tx.batch(&[lock(put.org), upsert(&put), record(&audit)]).map(drop))
            .await
    }

    /// Reads what an organization is entitled to.
    pub async fn entitlement(&self, org: OrgId) -> Result<Option<EntitlementRow>> {
        self.db
            .read(move |tx| {
                tx.query_opt(select_entitlement!(), vals![org])?
                    .as_ref()
                    .map(entitlement_from)
                    .transpose()
            })
            .await
    }
}

fn upsert(put: &PutEntitlement) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO entitlement (org_id, plan, source, subscription, monthly_runs, deployments, state, period_end, \
         updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (org_id) DO UPDATE SET \
         plan = excluded.plan, source = excluded.source, subscription = excluded.subscription, \
         monthly_runs = excluded.monthly_runs, deployments = excluded.deployments, state = excluded.state, \
         period_end = excluded.period_end, updated_at = excluded.updated_at",
        vals![
            put.org,
            put.plan.as_deref(),
            put.source.as_str(),
            put.subscription.as_deref(),
            put.monthly_runs,
            put.deployments,
            put.state.as_str(),
            put.period_end,
            put.at
        ],
    )
}

/// Statement that reads the entitlement of an organization.
pub(super) fn read(org: OrgId) -> Stmt<'static> {
    Stmt::new(select_entitlement!(), vals![org])
}

pub(super) fn entitlement_from(row: &Row) -> Result<EntitlementRow> {
    Ok(EntitlementRow {
        plan: row.opt_text(0)?.map(str::to_owned),
        source: row.parse(1)?,
        monthly_runs: row.int(2)?,
        deployments: row.int(3)?,
        deployments_used: row.int(4)?,
        state: row.parse(5)?,
        period_end: row.time(6)?,
    })
}
