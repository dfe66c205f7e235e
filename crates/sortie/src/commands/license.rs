//! `sortie license`: the license of a self-hosted engine, and what a hosted deployment grants.

use sortie_api::{
    License,
    deployment::{Entitlement, GrantLicense, LicenseKey},
    license::PutLicense,
};

use super::Context;
use crate::{
    args::{LicenseArgs, LicenseCommand},
    client::{delete, get, put},
    failure::{Exit, Result},
    input::{self, DEFINITION_BYTES, STDIN},
    render::{Look, Record, Render},
    terminal,
};

const PATH: &str = "v1/admin/license";

impl Record for License {
    fn text(&self, _: &Look) -> String {
        let mut lines = vec![
            ("licensed", if self.licensed { "yes" } else { "no" }.to_owned()),
            ("machine", self.machine_id.clone()),
        ];
        if let (Some(id), Some(name)) = (self.deployment_id, &self.name) {
            lines.push(("deployment", format!("{id} ({})", terminal::harmless(name))));
        }
        if let Some(organization) = self.organization {
            lines.push(("issued to", organization.to_string()));
        }
        let used = self.runs_used;
        let runs = match self.monthly_runs {
            Some(most) => format!("{used} of {most} this month"),
            None => format!("{used} this month"),
        };
        lines.push(("runs", runs));
        lines.push(("resets", self.resets_at.to_string()));
        if let (Some(end), Some(grace)) = (self.expires_at, self.grace_until) {
            lines.push(("expires", format!("{end}, runs are refused from {grace} on")));
        }
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let lines = lines
            .into_iter()
            .map(|(name, value)| format!("{name:<width$}  {value}"));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }
}

impl Record for LicenseKey {
    fn text(&self, _: &Look) -> String {
        format!("{}\n", self.public_key)
    }
}

pub(super) async fn execute(context: &Context, args: LicenseArgs) -> Result<Exit> {
    match args.command {
        None => context.one::<License>(&args.render, get(PATH)).await,
        Some(LicenseCommand::Install { token, render }) => {
            let token = match token.as_str() {
                "-" => input::text(&mut std::io::stdin(), STDIN, DEFINITION_BYTES)?,
                _ => token,
            };
            let token = token.trim().to_owned();
            context
                .one::<License>(&render, put(PATH, &PutLicense { token }))
                .await
        }
        Some(LicenseCommand::Delete) => {
            let note = |(): &()| "the license is deleted".to_owned();
            context.done(&Render::default(), delete(PATH), note).await
        }
        Some(LicenseCommand::Grant {
            organization,
            monthly_runs,
            deployments,
            expires_at,
            operator,
        }) => {
            let path = format!("v1/operator/organizations/{organization}/license");
            let grant = GrantLicense {
                monthly_runs,
                deployments,
                expires_at,
            };
            let note = |granted: &Entitlement| {
                format!(
                    "{organization} may license {deployments} installations, with {monthly_runs} runs a month each, until {}",
                    granted.period_end
                )
            };
            context.done(&operator, put(path, &grant), note).await
        }
        Some(LicenseCommand::PublicKey(operator)) => {
            let path = "v1/operator/license-key";
            context.one::<LicenseKey>(&operator, get(path)).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_license_is_shown_with_its_use_and_its_end() {
        let license = serde_json::json!({"licensed": true, "organization": "org_01kafs6w1cefkstv6qr1ptb0mp",
            "deployment_id": "depl_01kafs6w1cefkstv6qr1ptb0mp", "name": "north\u{1b}[2J",
            "machine_id": "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b", "monthly_runs": 10, "runs_used": 3,
            "resets_at": "2026-12-01T00:00:00.000Z", "expires_at": "2027-11-20T21:30:00.000Z",
            "grace_until": "2027-12-04T21:30:00.000Z"});
        let license: License = serde_json::from_value(license).unwrap();
        let shown = license.text(&Look::plain());
        assert!(shown.starts_with("licensed    yes\nmachine     6d0f"), "{shown}");
        assert!(shown.contains("runs        3 of 10 this month\n"), "{shown}");
        assert!(
            shown.ends_with(
                "expires     2027-11-20T21:30:00.000Z, runs are refused from 2027-12-04T21:30:00.000Z on\n"
            ),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'));
    }
}
