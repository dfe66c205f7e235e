//! Deployments: self-hosted installations that an organization has licensed.

use sortie_api::{DeploymentId, OrgId, Timestamp, UserId};

use super::{
    LicenseRefusal,
    entitlements::{in_effect, read},
};
use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{Row, Stmt, Tx, batch, insert, row, select, vals},
    organizations::lock,
};

/// Maximum number of an organization's deleted deployments with an unexpired license. Their licenses still work.
const MOST_ENDED: i64 = 100;

/// Deployment to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeployment {
    /// ID of the deployment.
    pub id: DeploymentId,
    /// Organization of the deployment.
    pub org: OrgId,
    /// Name for people.
    pub name: String,
    /// ID of the installation.
    pub machine_id: String,
    /// Number of the token.
    pub serial: String,
    /// Person who adds it.
    pub created_by: UserId,
    /// Time of the creation.
    pub created_at: Timestamp,
}

row! {
    /// Deployment as it is stored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DeploymentRow {
        /// ID of the deployment.
        pub id: DeploymentId = "id",
        /// Name for people.
        pub name: String = "name",
        /// ID of the installation.
        pub machine_id: String = "machine_id",
        /// Runs in a calendar month.
        pub monthly_runs: i64 = "monthly_runs",
        /// Person who added it.
        pub created_by: UserId = "created_by",
        /// Time of the creation.
        pub created_at: Timestamp = "created_at",
        /// End of its license.
        pub expires_at: Timestamp = "expires_at",
        /// Time of the deletion.
        pub ended_at: Option<Timestamp> = "ended_at",
    }
}

impl Store {
    /// Adds a deployment with the runs and the end of the organization's entitlement. [`Error::Unlicensed`] if the
    /// entitlement is not active or used up, `Conflict` if the installation has a deployment.
    pub async fn create_deployment(&self, new: NewDeployment, audit: Audit) -> Result<DeploymentRow> {
        self.db.write(move |tx| create(tx, &new, &audit)).await
    }

    /// Lists the deployments of an organization in the order of their creation, including deleted ones with a license
    /// that is valid at `at`.
    pub async fn list_deployments(&self, org: OrgId, at: Timestamp) -> Result<Vec<DeploymentRow>> {
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        DeploymentRow,
                        " FROM deployment WHERE org_id = $1 AND (ended_at IS NULL OR expires_at > $2) \
                         ORDER BY org_id, id"
                    ),
                    vals![org, at],
                )
            })
            .await
    }

    /// Ends a deployment. `NotFound` if the organization has no active deployment with this id.
    pub async fn end_deployment(
        &self,
        org: OrgId,
        id: DeploymentId,
        at: Timestamp,
        audit: Audit,
    ) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new(
                        "UPDATE deployment SET ended_at = $3 WHERE id = $2 AND org_id = $1 AND ended_at IS NULL",
                        vals![org, id, at],
                    )
                    .exactly(1, Error::NotFound),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }
}

fn create(tx: &mut dyn Tx, new: &NewDeployment, audit: &Audit) -> Result<DeploymentRow> {
    let [_, _, entitlement, ended] = batch(
        tx,
        &[
            // The lock makes the number exact.
            lock(new.org),
            Stmt::new(
                "DELETE FROM deployment WHERE org_id = $1 AND ended_at IS NOT NULL AND expires_at <= $2",
                vals![new.org, new.created_at],
            ),
            read(new.org),
            Stmt::new(
                "SELECT COUNT(*) FROM deployment WHERE org_id = $1 AND ended_at IS NOT NULL",
                vals![new.org],
            ),
        ],
    )?;
    let entitlement = in_effect(&entitlement.rows, new.created_at)?
        .filter(|found| found.stands(new.created_at))
        .ok_or(Error::Unlicensed(LicenseRefusal::NotEntitled))?;
    if entitlement.deployments_used >= entitlement.deployments {
        let refusal = LicenseRefusal::Deployments(entitlement.deployments);
        return Err(Error::Unlicensed(refusal));
    }
    if ended.rows.first().map_or(Ok(0), Row::only)? >= MOST_ENDED {
        return Err(Error::Conflict(
            "too many deleted deployments still have valid licenses",
        ));
    }
    tx.batch(&[
        insert!("deployment", {
            "id": new.id,
            "org_id": new.org,
            "name": new.name.as_str(),
            "machine_id": new.machine_id.as_str(),
            "serial": new.serial.as_str(),
            "monthly_runs": entitlement.monthly_runs,
            "created_by": new.created_by,
            "created_at": new.created_at,
            "expires_at": entitlement.period_end,
        }, " ON CONFLICT (org_id, machine_id) WHERE ended_at IS NULL DO NOTHING")
        .exactly(1, Error::Conflict("the installation has a deployment already")),
        record(audit),
    ])?;
    Ok(DeploymentRow {
        id: new.id,
        name: new.name.clone(),
        machine_id: new.machine_id.clone(),
        monthly_runs: entitlement.monthly_runs,
        created_by: new.created_by,
        created_at: new.created_at,
        expires_at: entitlement.period_end,
        ended_at: None,
    })
}
