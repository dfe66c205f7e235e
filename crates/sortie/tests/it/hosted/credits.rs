//! Credits of a hosted deployment under concurrent creates, and an independent recomputation of the books
//! (`docs/BILLING.md#what-a-run-costs`, `docs/BILLING.md#recompute-the-ledger`).

use futures_util::future::try_join_all;
use sortie_testkit::recompute_ledger;

use super::people::{Person, text};
use crate::prelude::*;

every_deployment![a_hundred_creates_with_credit_for_seven];

both_databases![the_books_are_added_up_without_the_product_and_a_changed_figure_is_found,];

/// Creates that come at once.
const AT_ONCE: usize = 100;
/// Creates that the credits cover.
const COVERED: usize = 7;
/// Maximum cost of each run, in micros.
const MAX_COST: i64 = 50_000;

/// An organization of a deployment, and the operator.
struct Paying {
    nodes: Vec<HostedNode>,
    organization: String,
    owner: Person,
    key: String,
    operator: Client,
}

impl Paying {
    async fn start(database: Database, count: usize) -> Result<Self> {
        let options = NodeOptions::default().env("SORTIE_MASTER_KEY", &"5a".repeat(32));
        let first = crate::hosted_with(database, options.clone()).await?;
        let operator = std::fs::read_to_string(first.node.data_dir().join("operator.key"))?;
        let operator = first.client(operator.trim());
        let owner = Person::sign_up(&first, "ann@example.com", "Ann").await?;
        let organization = owner.organization("Plum").await?;
        let (_, key) = owner.key(&organization, "ci", "member").await?;
        let mut nodes = vec![first];
        while nodes.len() < count {
            nodes.push(nodes[0].beside(options.clone()).await?);
        }
        Ok(Self {
            nodes,
            organization,
            owner,
            key,
            operator,
        })
    }

    /// Reads the balance.
    async fn balance(&self) -> Result<Value> {
        let path = format!("/v1/organizations/{}/balance", self.organization);
        self.owner.client.get(&path).json(200).await
    }

    /// Gives or takes credits, so that this amount is available.
    async fn make_available(&self, micros: i64, reference: &str) -> Checked {
        let available = self.balance().await?["available_micros"].as_i64();
        let amount = micros - available.context("an amount")?;
        if amount == 0 {
            return Ok(());
        }
        let path = format!("/v1/operator/organizations/{}/credits", self.organization);
        let movement = json!({"amount_micros": amount, "kind": "correction", "reason": "for the round",
            "reference": reference});
        self.operator.post(&path, &movement).expect(201).await?;
        Ok(())
    }

    /// Creates this run. Returns the id; `None` if the credits do not cover it.
    async fn create(&self, nth: usize, run: &Value) -> Result<Option<String>> {
        let client = self.nodes[nth % self.nodes.len()].engine_client(&self.key)?;
        let answer = client.post("/v1/runs", run).await?;
        if answer.status == 402 {
            answer.refused("payment_required")?;
            return Ok(None);
        }
        text(&answer.expect(202)?.json()?, "id").map(Some)
    }

    /// Sends all creates, and ends the covered runs.
    async fn round(&self, round: usize) -> Checked {
        let covered = i64::try_from(COVERED)? * MAX_COST;
        // A rest that covers no further run.
        let available = covered + i64::try_from(round)? % MAX_COST;
        self.make_available(available, &format!("round {round}")).await?;
        let run = json!({"prompt": "```wait 600000\n```\n", "shell": false, "model": "runbook",
            "timeout_seconds": 900, "max_cost_micros": MAX_COST});
        let created = try_join_all((0..AT_ONCE).map(|nth| self.create(nth, &run))).await?;
        let created: Vec<String> = created.into_iter().flatten().collect();
        assert_eq!(created.len(), COVERED, "round {round}");
        let balance = self.balance().await?;
        assert_eq!(balance["reserved_micros"], covered, "{balance}");
        let client = self.nodes[0].engine_client(&self.key)?;
        for id in &created {
            let cancel = format!("/v1/runs/{id}/cancel");
            client.post(&cancel, &Value::Null).expect(200).await?;
            settled(&client, id).await?;
        }
        let balance = self.balance().await?;
        assert_eq!(balance["reserved_micros"], 0, "{balance}");
        Ok(())
    }
}

async fn a_hundred_creates_with_credit_for_seven(database: Database, count: usize) -> Checked {
    let rounds = rounds("SORTIE_RACE_ROUNDS", 2)?;
    let paying = Paying::start(database, count).await?;
    for round in 1..=rounds {
        paying.round(round).await?;
    }
    recompute_ledger(&paying.nodes[0].node)
}

/// The rules that the script reports for this change of the database.
async fn found_behind(node: &Node, change: &str) -> Result<Vec<String>> {
    node.meddle(change).await?;
    let Err(error) = recompute_ledger(node) else {
        return Ok(Vec::new());
    };
    let told = error.to_string();
    let rules = told.lines().filter_map(|line| line.split_once(": "));
    Ok(rules.map(|(rule, _)| rule.to_owned()).collect())
}

async fn the_books_are_added_up_without_the_product_and_a_changed_figure_is_found(
    database: Database,
) -> Checked {
    let mut paying = Paying::start(database, 1).await?;
    paying.make_available(1_000_000, "first").await?;
    let client = paying.nodes[0].engine_client(&paying.key)?;
    let run = json!({"prompt": "```wait 200\n```\n", "shell": false, "model": "runbook",
        "timeout_seconds": 30, "max_cost_micros": MAX_COST});
    let dear = paying.create(0, &run).await?.context("a run")?;
    let run = settled(&client, &dear).await?;
    ensure!(run.cost_micros.get() > 0, "{run:?}");
    // While the node is running, and with a run that is not settled.
    let open = json!({"prompt": "```wait 600000\n```\n", "shell": false, "model": "runbook",
        "timeout_seconds": 900, "max_cost_micros": MAX_COST});
    paying.create(0, &open).await?.context("a run")?;
    recompute_ledger(&paying.nodes[0].node)?;
    let organization = paying.organization;
    let node = &mut paying.nodes[0].node;
    node.kill()?;
    recompute_ledger(node)?;
    let of_run = format!("WHERE id = '{dear}'");
    for (rule, change, back) in rows! {
        "I1",
        "UPDATE credit SET balance_micros = balance_micros + 1".to_owned(),
        "UPDATE credit SET balance_micros = balance_micros - 1".to_owned();
        "I2",
        "UPDATE credit SET reserved_micros = reserved_micros + 1".to_owned(),
        "UPDATE credit SET reserved_micros = reserved_micros - 1".to_owned();
        "I2",
        "UPDATE queue SET org_id = 'x' || org_id".to_owned(),
        "UPDATE queue SET org_id = SUBSTR(org_id, 2)".to_owned();
        "I3",
        "UPDATE credit SET reserved_micros = reserved_micros + 1000000000".to_owned(),
        "UPDATE credit SET reserved_micros = reserved_micros - 1000000000".to_owned();
        "I4",
        format!("UPDATE run SET cost_micros = cost_micros + 1 {of_run}"),
        format!("UPDATE run SET cost_micros = cost_micros - 1 {of_run}");
        "I4",
        format!("UPDATE run SET billing_pending = 1 {of_run}"),
        format!("UPDATE run SET billing_pending = 0 {of_run}");
        "I5",
        format!("UPDATE run SET reserved_micros = cost_micros - 1 {of_run}"),
        format!("UPDATE run SET reserved_micros = {MAX_COST} {of_run}");
    } {
        let found = found_behind(node, &change).await?;
        ensure!(found.iter().any(|found| found == rule), "{change}: {found:?}");
        node.meddle(&back).await?;
        recompute_ledger(node).context(change)?;
    }
    entries_are_added_up(node, &organization).await
}

/// Adds entries that contradict their payment. They cannot be removed, so this comes last.
async fn entries_are_added_up(node: &Node, organization: &str) -> Checked {
    let entry = |cause: &str, kind: &str, amount: i64| {
        format!(
            "INSERT INTO ledger (cause, org_id, at, kind, amount_micros, payment_id, description) \
             VALUES ('{cause}', '{organization}', 1, '{kind}', {amount}, 'pay_1', 'x'); \
             UPDATE credit SET balance_micros = balance_micros + {amount}"
        )
    };
    for (cause, kind, amount) in [
        ("re_1", "refund", -10_000),
        ("pi_1", "purchase", 5_000),
        ("pi_2", "purchase", 20_000),
    ] {
        let found = found_behind(node, &entry(cause, kind, amount)).await?;
        ensure!(found.iter().any(|rule| rule == "I6"), "{cause}: {found:?}");
    }
    Ok(())
}
