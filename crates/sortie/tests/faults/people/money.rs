//! Credits during the kills: grants that the operator repeats until they are answered, and runs that are paid with
//! them.

use sortie_testkit::recompute_ledger;

use super::{
    requests::Call,
    team::{Team, text},
};
use crate::prelude::*;

/// Maximum cost of one run, in micros: a bit more than ten seconds of compute.
const MAX_COST: i64 = 2_000;

impl Team {
    /// Gives credits to an organization. The request is repeated until it is answered, and takes effect once.
    pub(crate) async fn give_credits(&mut self) -> Result<()> {
        let at = self.some_organization();
        let (reference, amount) = (format!("{} {}", self.name, self.fresh()), self.number(1..20_000));
        let organization = &self.organizations[at];
        let path = format!("/v1/operator/organizations/{}/credits", organization.id);
        let grant = json!({"amount_micros": amount, "reason": "for the load", "reference": reference});
        let call = Call::post(path, &grant).by(&self.operator);
        let given = self.requests.ask(&call).await?;
        given.is_done(201, 200)?;
        let organization = &mut self.organizations[at];
        organization.changes.done("credits.grant", reference, 0);
        organization.granted += i64::try_from(amount)?;
        self.tally.grants += 1;
        Ok(())
    }

    /// Starts a run with a key, and sometimes cancels it. A run that the credits do not cover is refused.
    pub(crate) async fn start_run(&mut self) -> Result<()> {
        let Some((at, id)) = self.some_key() else {
            return Ok(());
        };
        let Some(secret) = self.organizations[at].keys[&id].secret.clone() else {
            return Ok(());
        };
        let run = json!({"prompt": format!("```wait {}\n```", self.number(0..400)), "shell": false,
            "model": "runbook", "timeout_seconds": 10, "max_cost_micros": MAX_COST});
        let call = Call::post("/v1/runs", &run).at_engine().by(&secret);
        let Some(answer) = self.requests.try_once(&call).await? else {
            return Ok(());
        };
        if answer.status == 402 {
            self.tally.not_covered += 1;
            assert_contains!(answer, "credits: max_cost_micros is");
            return Ok(());
        }
        let created = answer.expect(202)?.json()?;
        self.tally.runs += 1;
        if self.number(0..4) == 0 {
            let path = format!("/v1/runs/{}/cancel", text(&created, "id")?);
            let cancel = Call::post(path, &Value::Null).at_engine().by(&secret);
            let _lost_or_done = self.requests.try_once(&cancel).await?;
        }
        Ok(())
    }
}

/// Checks that the ledger, the credits and the runs agree: with the product's own check, and with the independent
/// script.
pub(crate) async fn check_books(node: &HostedNode, operator: &str) -> Result<()> {
    let client = node.client(operator);
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/operator/ledger/check?limit=20{cursor}");
        let page = client.get(&path).json(200).await?;
        ensure!(page["differences"] == json!([]), "the ledger differs: {page}");
        let next = text(&page, "next_cursor")?;
        if next.is_empty() {
            break;
        }
        cursor = format!("&cursor={next}");
    }
    recompute_ledger(&node.node)
}

/// Checks the books, and that every grant was entered once.
pub(crate) async fn check_money(node: &HostedNode, operator: &str, teams: &[Team]) -> Result<()> {
    check_books(node, operator).await?;
    let granted = node
        .node
        .rows("SELECT org_id, CAST(SUM(amount_micros) AS BIGINT) AS granted FROM ledger WHERE kind = 'grant' GROUP BY org_id")
        .await?;
    let granted: BTreeMap<String, i64> = granted
        .iter()
        .map(|row| Ok((text(row, "org_id")?, row["granted"].as_i64().context("a sum")?)))
        .collect::<Result<_>>()?;
    for organization in teams.iter().flat_map(|team| &team.organizations) {
        let found = granted.get(&organization.id).copied().unwrap_or_default();
        ensure!(
            found == organization.granted,
            "{} was given {} micros, and the ledger has {found}",
            organization.id,
            organization.granted
        );
    }
    Ok(())
}
