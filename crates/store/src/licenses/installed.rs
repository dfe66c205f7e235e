//! License of a self-hosted engine, which has at most one.

use sortie_api::{DeploymentId, OrgId, Timestamp};

use crate::{
    Error, Result, Store,
    access::audit::{Audit, record},
    db::{Stmt, insert, row, select, vals},
    money::allowance::used,
};

row! {
    /// License that is installed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct InstalledLicense {
        /// Number of the token.
        pub serial: String = "serial",
        /// Deployment that the license is for.
        pub deployment: DeploymentId = "deployment_id",
        /// Organization that has the license.
        pub organization: OrgId = "organization",
        /// Name of the deployment.
        pub name: String = "name",
        /// Runs in a calendar month.
        pub monthly_runs: i64 = "monthly_runs",
        /// End of the license, without the grace.
        pub expires_at: Timestamp = "expires_at",
        /// Time of the installation.
        pub installed_at: Timestamp = "installed_at",
    }
}

/// License with its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LicenseUse {
    /// The license.
    pub license: InstalledLicense,
    /// Runs of the month that were counted.
    pub used: i64,
}

const INSTALLED: &str = select!(InstalledLicense, " FROM license WHERE id = 1");

impl Store {
    /// System: reads the license of the engine.
    pub async fn license(&self) -> Result<Option<InstalledLicense>> {
        self.db.read(|tx| tx.read_opt(INSTALLED, vals![])).await
    }

    /// Reads the license of the engine with its use in the month that begins at `month`.
    pub async fn license_use(&self, month: Timestamp) -> Result<Option<LicenseUse>> {
        self.db
            .read(move |tx| {
                let Some(license) = tx.read_opt(INSTALLED, vals![])? else {
                    return Ok(None);
                };
                let used = used(tx, month)?;
                Ok(Some(LicenseUse { license, used }))
            })
            .await
    }

    /// Installs a license, replacing an earlier one. The month's count stays.
    pub async fn put_license(&self, license: InstalledLicense, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    insert!("license", {
                        "id" = "1",
                        "serial": license.serial.as_str(),
                        "deployment_id": license.deployment,
                        "organization": license.organization,
                        "name": license.name.as_str(),
                        "monthly_runs": license.monthly_runs,
                        "expires_at": license.expires_at,
                        "installed_at": license.installed_at,
                    }, " ON CONFLICT (id) DO UPDATE SET serial = excluded.serial, deployment_id = excluded.deployment_id, \
                        organization = excluded.organization, name = excluded.name, \
                        monthly_runs = excluded.monthly_runs, expires_at = excluded.expires_at, \
                        installed_at = excluded.installed_at"),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Deletes the license of the engine. The month's count stays. `NotFound` if no license is installed.
    pub async fn delete_license(&self, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    Stmt::new("DELETE FROM license WHERE id = 1", vals![]).exactly(1, Error::NotFound),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }
}
