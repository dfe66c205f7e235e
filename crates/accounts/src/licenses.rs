//! Licenses of organizations: the entitlements of each organization, and licenses for self-hosted installations
//! (`docs/LICENSES.md`).

use std::time::Duration;

use sortie_api::{
    DeploymentId, ErrorCode, OrgId, Refusal, UserId,
    deployment::{CreateDeployment, CreatedDeployment, GrantLicense},
    limits,
};
use sortie_base::{LicenseClaims, LicensePublicKey, LicenseSigner, hex, random};
use sortie_store::{
    access::{Actor, Caller},
    licenses::{EntitlementRow, NewDeployment, PutEntitlement},
};

use crate::{Accounts, Parts, Result, people::rules::checked_name};

/// Length of the ID of an installation, in hexadecimal digits.
const MACHINE_ID: usize = 32;

impl Accounts {
    /// Entitles an organization to licenses, and replaces an earlier grant. The grant takes precedence over a subscription.
    pub async fn grant_license(
        &self,
        actor: &Actor,
        org: OrgId,
        grant: &GrantLicense,
    ) -> Result<EntitlementRow> {
        let parts = &self.0;
        let at = parts.options.clock.now();
        let within = |field: &str, value: i64, most: i64| {
            let rule = || ErrorCode::InvalidRequest.because(format!("{field}: must be from 0 to {most}"));
            (0..=most).contains(&value).then_some(value).ok_or_else(rule)
        };
        let period_end = grant
            .expires_at
            .unwrap_or(at + Duration::from_hours(24 * limits::LICENSE_DAYS));
        if period_end <= at {
            return Err(ErrorCode::InvalidRequest.because("expires_at: must be in the future"));
        }
        let put = PutEntitlement {
            org,
            monthly_runs: within("monthly_runs", grant.monthly_runs, limits::LICENSE_MONTHLY_RUNS)?,
            deployments: within("deployments", grant.deployments, limits::LICENSE_DEPLOYMENTS)?,
            period_end,
            at,
        };
        let audit = parts.audit(actor, org, "license.grant", org)?;
        parts.store.put_entitlement(put, audit).await?;
        parts
            .store
            .entitlement(org, at)
            .await?
            .ok_or(Refusal::not_found())
    }

    /// Adds a deployment and signs its license. The license is shown only once.
    pub async fn create_deployment(
        &self,
        (caller, user): (&Caller, UserId),
        request: &CreateDeployment,
    ) -> Result<CreatedDeployment> {
        let parts = &self.0;
        let (org, signer) = (caller.org, parts.signer()?);
        let name = checked_name(&request.name, limits::PERSON_NAME_CHARS)?;
        let machine_id = match &request.machine_id {
            Some(given) => checked_machine_id(given)?,
            None => hex(&random::<16>()?),
        };
        let created_at = parts.options.clock.now();
        let id = DeploymentId::new(created_at, random()?);
        let serial = hex(&random::<8>()?);
        let new = NewDeployment {
            id,
            org,
            name,
            machine_id,
            serial: serial.clone(),
            created_by: user,
            created_at,
        };
        let audit = parts.audit(&caller.actor, org, "deployment.create", id)?;
        let made = parts.store.create_deployment(new, audit).await?;
        let token = signer.sign(&LicenseClaims {
            serial,
            deployment: made.id,
            organization: org,
            name: made.name.clone(),
            machine_id: made.machine_id.clone(),
            monthly_runs: made.monthly_runs,
            issued_at: made.created_at,
            expires_at: made.expires_at,
        });
        let token = token.map_err(|error| Refusal::internal(format!("cannot sign a license: {error}")))?;
        Ok(CreatedDeployment {
            id: made.id,
            name: made.name,
            machine_id: made.machine_id,
            token: token.to_string(),
            monthly_runs: made.monthly_runs,
            created_at: made.created_at,
            expires_at: made.expires_at,
        })
    }

    /// Ends a deployment. Its license works until it expires.
    pub async fn end_deployment(&self, caller: &Caller, deployment: DeploymentId) -> Result<()> {
        let parts = &self.0;
        let audit = parts.audit(&caller.actor, caller.org, "deployment.delete", deployment)?;
        let at = audit.at;
        Ok(parts
            .store
            .end_deployment(caller.org, deployment, at, audit)
            .await?)
    }

    /// Returns the key that verifies the licenses of this deployment.
    pub fn license_key(&self) -> Result<&LicensePublicKey> {
        Ok(self.0.signer()?.public())
    }
}

impl Parts {
    fn signer(&self) -> Result<&LicenseSigner> {
        let missing = || ErrorCode::Conflict.because("this deployment has no license.signing_key");
        self.options.license_signer.as_deref().ok_or_else(missing)
    }
}

fn checked_machine_id(text: &str) -> Result<String> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != MACHINE_ID || !text.bytes().all(is_digit) {
        return Err(ErrorCode::InvalidRequest.because(
            "machine_id: must be 32 hexadecimal digits in lower case, as `sortie license` shows them",
        ));
    }
    Ok(text.to_owned())
}
