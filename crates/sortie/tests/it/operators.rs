//! Operators of a hosted deployment: the key of the first start, and the commands (`docs/HOSTED.md#operators`).

use std::os::unix::fs::PermissionsExt as _;

use crate::prelude::*;

both_databases![
    the_first_start_leaves_a_key_for_the_operator,
    the_operators_commands_make_and_close_accounts,
    the_operators_commands_move_credits_and_check_the_ledger,
    the_commands_on_all_nodes_take_the_operators_key,
];

/// A node of a hosted deployment.
async fn hosted(database: Database) -> Result<HostedNode> {
    crate::hosted_with(database, NodeOptions::default()).await
}

/// The answer of a command as JSON.
fn answered(node: &HostedNode, arguments: &[&str]) -> Result<Value> {
    let output = exits(node.node.sortie(arguments), 0)?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// `docs/HOSTED.md#operators`: the key is created once, readable by its owner only.
async fn the_first_start_leaves_a_key_for_the_operator(database: Database) -> Checked {
    let mut node = hosted(database).await?;
    let file = node.node.data_dir().join("operator.key");
    let key = std::fs::read_to_string(&file)?;
    ensure!(key.starts_with("stp_"), "{key}");
    let mode = std::fs::metadata(&file)?.permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    ensure!(!node.node.data_dir().join("admin.key").exists());
    assert_eq!(
        answered(&node, &["organizations", "list", "--json"])?,
        Value::Array(Vec::new())
    );
    // There is no admin key: a command that needs a key prints where to get one.
    for arguments in [
        &["runs", "list"][..],
        &["runs", "list", "--url", &node.node.url()?],
    ] {
        let told = text(&exits(node.node.sortie(arguments), 77)?.stderr);
        ensure!(
            told.contains("SORTIE_API_KEY") && told.contains("page of the organization's keys"),
            "{arguments:?}: {told}"
        );
    }
    node.node.stop().await?;
    node.node.restart().await?;
    assert_eq!(
        std::fs::read_to_string(&file)?,
        key,
        "a later start keeps the key"
    );
    let client = node.client(key.trim());
    client.get("/v1/operator/organizations").expect(200).await?;
    Ok(())
}

async fn the_operators_commands_make_and_close_accounts(database: Database) -> Checked {
    let node = hosted(database).await?;
    let created = exits(
        node.node.sortie(&["users", "create", "ann@example.com", "Ann"]),
        0,
    )?;
    let link = text(&created.stdout);
    let page = format!("{}/reset-password?token=stm_", node.org_url());
    ensure!(link.starts_with(&page), "{link}");
    let people = answered(&node, &["users", "list", "--json"])?;
    assert_eq!(people[0]["email"], "ann@example.com");
    let id = people[0]["id"].as_str().context("an id")?;
    let disabled = answered(&node, &["users", "disable", "ANN@example.com", "--json"])?;
    ensure!(disabled["disabled_at"].is_string(), "{disabled}");
    let enabled = answered(&node, &["users", "enable", id, "--json"])?;
    ensure!(enabled.get("disabled_at").is_none(), "{enabled}");
    let unlinked = answered(&node, &["users", "unlink", "ann@example.com", "--json"])?;
    assert_eq!(unlinked["id"], id);
    let again = exits(node.node.sortie(&["users", "reset-link", id]), 0)?;
    ensure!(text(&again.stdout).starts_with(&page) && text(&again.stdout) != link);
    let listed = text(&exits(node.node.sortie(&["users", "list"]), 0)?.stdout);
    ensure!(listed.contains("ann@example.com"), "{listed}");
    let unknown = node
        .node
        .sortie(&["users", "disable", "bob@example.com"])
        .output()?;
    ensure!(!unknown.status.success());
    ensure!(text(&unknown.stderr).contains("no person has this email address"));
    Ok(())
}

/// `docs/BILLING.md#for-operators`: credits are granted once for each reference, corrected, shown and checked.
async fn the_operators_commands_move_credits_and_check_the_ledger(database: Database) -> Checked {
    let mut node = hosted(database).await?;
    let person =
        serde_json::json!({"email": "ann@example.com", "name": "Ann", "password": "plum-anchor-violet-42"});
    let signed = node.anybody().post("/v1/auth/signup", &person).json(201).await?;
    let ann = node.client(signed["token"].as_str().context("a token")?);
    let made = ann
        .post("/v1/organizations", &serde_json::json!({"name": "Plum"}))
        .json(201)
        .await?;
    let org = made["id"].as_str().context("an id")?;
    let grant = |amount: &str, more: &[&str]| {
        let given = ["credits", "grant", org, amount, "--reason", "welcome", "--json"];
        node.node.sortie(&[&given[..], more].concat())
    };
    let balance = |output: &[u8]| -> Result<Value> {
        Ok(serde_json::from_slice::<Value>(output)?["balance_micros"].clone())
    };
    for _ in 0..2 {
        let given = exits(grant("$5", &["--reference", "ticket-1"]), 0)?;
        assert_eq!(balance(&given.stdout)?, 5_000_000);
    }
    let other = grant("$6", &["--reference", "ticket-1"]).output()?;
    ensure!(
        !other.status.success() && text(&other.stderr).contains("the reference was used before"),
        "{other:?}"
    );
    exits(grant("-$1.50", &["--reference", "fix-1"]), 64)?;
    let corrected = exits(grant("-$1.50", &["--reference", "fix-1", "--correct"]), 0)?;
    assert_eq!(balance(&corrected.stdout)?, 3_500_000);
    exits(grant("5", &["--reference", "bare"]), 64)?;
    let shown = text(&exits(node.node.sortie(&["credits", "show", org]), 0)?.stdout);
    ensure!(shown.contains("$3.50") && shown.contains("AVAILABLE"), "{shown}");

    let checked = exits(node.node.sortie(&["admin", "check-ledger"]), 0)?;
    assert_contains!(checked.stderr, "checked 1 organizations and 0 runs");
    node.node.stop().await?;
    node.node.meddle("UPDATE credit SET reserved_micros = 7").await?;
    node.node.restart().await?;
    let differs = exits(node.node.sortie(&["admin", "check-ledger"]), 1)?;
    assert_eq!(
        text(&differs.stdout).trim(),
        format!("{org} reserved: expected $0.00, found $0.000007")
    );
    assert_contains!(differs.stderr, "the ledger differs in one place");
    let differs = exits(node.node.sortie(&["admin", "check-ledger", "--json"]), 1)?;
    let answer: Value = serde_json::from_slice(&differs.stdout)?;
    assert_eq!(
        (&answer["differences"][0]["rule"], &answer["organizations"]),
        (&"reserved".into(), &1.into())
    );
    the_check_names_a_payment_that_was_not_credited(&mut node, org).await
}

async fn the_check_names_a_payment_that_was_not_credited(node: &mut HostedNode, org: &str) -> Result<()> {
    let payment = "pay_01kafs6w1cefkstv6qr1ptb0mp";
    node.node.stop().await?;
    for sql in [
        "UPDATE credit SET reserved_micros = 0".to_owned(),
        format!(
            "INSERT INTO payment (id, org_id, topup_id, intent_id, amount_cents, refunded_cents, disputed_cents, created_at) \
             VALUES ('{payment}', '{org}', 'topup_1', 'pi_1', 500, 0, 0, 1)"
        ),
    ] {
        node.node.meddle(&sql).await?;
    }
    node.node.restart().await?;
    let differs = exits(node.node.sortie(&["admin", "check-ledger"]), 1)?;
    assert_eq!(
        text(&differs.stdout).trim(),
        format!("{org} {payment} purchase: expected $5.00, found $0.00")
    );
    let differs = exits(node.node.sortie(&["admin", "check-ledger", "--json"]), 1)?;
    let answer: Value = serde_json::from_slice(&differs.stdout)?;
    assert_eq!(answer["differences"][0]["payment_id"], payment);
    Ok(())
}

/// `docs/HOSTED.md#nodes-and-master-keys`: the commands of a self-hosted engine work with the operator's key.
async fn the_commands_on_all_nodes_take_the_operators_key(database: Database) -> Checked {
    let mut node = hosted(database).await?;
    let nodes = answered(&node, &["nodes", "list", "--json"])?;
    assert_eq!(nodes[0]["state"], "ready", "{nodes}");
    let keys = answered(&node, &["master-key", "status", "--json"])?;
    assert_eq!(keys["nodes"][0]["keys"], keys["keys"], "{keys}");
    let resealed = exits(node.node.sortie(&["master-key", "reseal"]), 0)?;
    assert_contains!(resealed.stderr, "values looked at");
    node.node.until_logged("started to seal all values again").await?;
    let doctor = node.node.sortie(&["doctor", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&doctor.stdout)?;
    let check = |name: &str| {
        let checks = report["checks"].as_array();
        checks.and_then(|checks| checks.iter().rfind(|check| check["name"] == name))
    };
    for name in ["node", "master key", "queue"] {
        let found = check(name).with_context(|| format!("no {name} in {report}"))?;
        assert_eq!(found["verdict"], "ok", "{found}");
    }
    ensure!(check("key").is_none(), "{report}");

    // These commands accept only the operator's key.
    let mut other = node.node.sortie(&["nodes", "list", "--org-url", &node.org_url()]);
    other.env("SORTIE_OPERATOR_KEY", format!("stp_{}", "0".repeat(52)));
    let refused = other.output()?;
    ensure!(!refused.status.success(), "{refused:?}");
    let both = [
        "nodes",
        "list",
        "--url",
        "http://127.0.0.1:1",
        "--org-url",
        "http://127.0.0.1:1",
    ];
    exits(node.node.sortie(&both), 64)?;
    // An engine that a command starts has no operator.
    node.node.stop().await?;
    let settings = tempfile::tempdir()?;
    let file = settings.path().join("sortie.toml");
    let hosted = "mode = \"hosted\"\nlisten = \"127.0.0.1:1\"\norg_listen = \"127.0.0.1:2\"\n\
        org_url = \"http://127.0.0.1:2\"\nadvertise_url = \"http://127.0.0.1:1\"\n";
    std::fs::write(&file, hosted)?;
    let mut status = node.node.sortie(&["master-key", "status"]);
    let nowhere = status.arg("--config").arg(&file).output()?;
    assert_contains!(nowhere.stderr, "no hosted node runs in the data folder");
    Ok(())
}

/// `docs/HOSTED.md#operators`: the address and the key of a command come from the environment or the data folder.
#[tokio::test]
async fn the_commands_find_the_node_by_the_environment_too() -> Checked {
    let node = hosted(Database::Sqlite).await?;
    let key = std::fs::read_to_string(node.node.data_dir().join("operator.key"))?;
    let elsewhere = tempfile::tempdir()?;
    let command = || {
        let mut command = sortie_testkit::node::binary_command(env!("CARGO_BIN_EXE_sortie").as_ref());
        command.args(["organizations", "list", "--json", "--data-dir"]);
        command.arg(elsewhere.path()).current_dir(elsewhere.path());
        command
    };
    let mut told = command();
    told.env("SORTIE_ORG_URL", node.org_url())
        .env("SORTIE_OPERATOR_KEY", key.trim());
    assert_eq!(text(&exits(told, 0)?.stdout).trim(), "[]");
    let nowhere = command().output()?;
    ensure!(text(&nowhere.stderr).contains("SORTIE_ORG_URL"), "{nowhere:?}");
    let mut without_key = command();
    without_key.env("SORTIE_ORG_URL", node.org_url());
    let refused = without_key.output()?;
    assert_contains!(refused.stderr, "SORTIE_OPERATOR_KEY");
    let unknown = ["organizations", "suspend", "org_01kafs6w1cefkstv6qr1ptb0mp"];
    let missing = node.node.sortie(&unknown).output()?;
    ensure!(
        !missing.status.success() && text(&missing.stderr).contains("not found"),
        "{missing:?}"
    );
    Ok(())
}
