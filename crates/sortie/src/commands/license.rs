//! `sortie license`: the license of a self-hosted engine, and what a hosted deployment grants.

use sortie_api::{License, deployment::GrantLicense, license::PutLicense};

use super::{Context, connections::read_text, operators, print_json};
use crate::{
    args::{LicenseArgs, LicenseCommand},
    failure::{Exit, Result},
    terminal,
};

pub(super) async fn execute(context: &Context, args: LicenseArgs) -> Result<Exit> {
    match args.command {
        None => {
            let connection = context.records(&args.list.engine).await?;
            let license = connection.client.license().await;
            connection.close().await;
            show(&license?, args.list.json)
        }
        Some(LicenseCommand::Install { token, list }) => {
            let token = match token.as_str() {
                "-" => read_text(&mut std::io::stdin(), "standard input")?,
                _ => token,
            };
            let put = PutLicense {
                token: token.trim().to_owned(),
            };
            let connection = context.records(&list.engine).await?;
            let license = connection.client.put_license(&put).await;
            connection.close().await;
            show(&license?, list.json)
        }
        Some(LicenseCommand::Delete(engine)) => {
            let connection = context.records(&engine).await?;
            let deleted = connection.client.delete_license().await;
            connection.close().await;
            deleted?;
            terminal::note("the license is deleted");
            Ok(Exit::Success)
        }
        Some(LicenseCommand::Grant {
            organization,
            monthly_runs,
            deployments,
            expires_at,
            operator,
        }) => {
            let client = operators::client(context, &operator)?;
            let grant = GrantLicense {
                monthly_runs,
                deployments,
                expires_at,
            };
            let granted = client.grant_license(organization, &grant).await?;
            if operator.json {
                return print_json(&granted);
            }
            terminal::note(&format!(
                "{organization} may license {deployments} installations, with {monthly_runs} runs a month each, until {}",
                granted.period_end
            ));
            Ok(Exit::Success)
        }
        Some(LicenseCommand::PublicKey(operator)) => {
            let key = operators::client(context, &operator)?.license_key().await?;
            if operator.json {
                return print_json(&key);
            }
            terminal::print_line(&key.public_key)?;
            Ok(Exit::Success)
        }
    }
}

fn show(license: &License, json: bool) -> Result<Exit> {
    if json {
        return print_json(license);
    }
    terminal::print(&text(license))?;
    Ok(Exit::Success)
}

fn text(license: &License) -> String {
    let mut lines = vec![
        ("licensed", if license.licensed { "yes" } else { "no" }.to_owned()),
        ("machine", license.machine_id.clone()),
    ];
    if let (Some(id), Some(name)) = (license.deployment_id, &license.name) {
        lines.push(("deployment", format!("{id} ({})", terminal::harmless(name))));
    }
    if let Some(organization) = license.organization {
        lines.push(("issued to", organization.to_string()));
    }
    let used = license.runs_used;
    let runs = match license.monthly_runs {
        Some(most) => format!("{used} of {most} this month"),
        None => format!("{used} this month"),
    };
    lines.push(("runs", runs));
    lines.push(("resets", license.resets_at.to_string()));
    if let (Some(end), Some(grace)) = (license.expires_at, license.grace_until) {
        lines.push(("expires", format!("{end}, runs are refused from {grace} on")));
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines = lines
        .into_iter()
        .map(|(name, value)| format!("{name:<width$}  {value}"));
    lines.collect::<Vec<_>>().join("\n") + "\n"
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
        let shown = text(&serde_json::from_value(license).unwrap());
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
