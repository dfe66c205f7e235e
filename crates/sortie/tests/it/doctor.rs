//! `sortie doctor` on an engine that runs.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
use sortie_testkit::node::binary_command;

use crate::prelude::*;

both_databases![
    a_running_node_is_looked_at_from_here_and_from_inside,
    a_database_of_another_version_is_told_and_not_migrated
];

/// No server listens at the address of the provider, and no engine runs.
#[tokio::test]
async fn providers_are_asked_without_an_engine() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    node.stop().await?;
    let asked = |arguments: &[&str]| -> Result<Value> {
        let output = node
            .sortie(&[&["doctor", "--json"], arguments].concat())
            .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
            .env("OPENAI_API_KEY", "key-of-nobody")
            .output()?;
        serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))
    };
    ensure!(check(&asked(&[])?, "provider openai").is_err());
    let report = asked(&["--providers"])?;
    assert_eq!(check(&report, "provider openai")?["verdict"], "fault", "{report}");
    // No server listens at the address of the engine either.
    let away = asked(&["--providers", "--url", "http://127.0.0.1:9"])?;
    for name in ["node", "provider openai"] {
        assert_eq!(check(&away, name)?["verdict"], "fault", "{away}");
    }
    Ok(())
}

/// `docs/SANDBOX.md#allow-it-on-a-host`: an ordinary user in a namespace that allows no nested ones.
#[tokio::test]
async fn a_host_without_user_namespaces_is_named_with_the_setting_that_does_without() -> Checked {
    const WITHOUT: &str = "echo 0 >/proc/sys/user/max_user_namespaces || exit 77; exec \"$0\" \"$@\"";
    let sortie = env!("CARGO_BIN_EXE_sortie");
    let folder = tempfile::tempdir()?;
    let confined = |arguments: &[&str]| {
        let mut command = binary_command(Path::new("unshare"));
        command
            .env_remove("SORTIE_SANDBOX_MINIMUM")
            .current_dir(folder.path())
            .args(["--user", "--map-user=1000", "--keep-caps", "sh", "-c", WITHOUT])
            .args(arguments);
        command.output()
    };
    let tried = confined(&["true"]);
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        println!("NOT CHECKED: a host without user namespaces: this one makes no namespace to stand for it");
        return Ok(());
    }
    let told = confined(&[sortie, "doctor", "--json"])?;
    let report: Value = serde_json::from_slice(&told.stdout).with_context(|| text(&told.stderr))?;
    let sandbox = check(&report, "sandbox")?;
    assert_eq!(sandbox["verdict"], "fault", "{report}");
    let told = sandbox.to_string();
    for words in [
        "does not allow user namespaces",
        "SORTIE_SANDBOX_MINIMUM=landlock",
    ] {
        ensure!(told.contains(words), "{told}");
    }
    Ok(())
}

/// `docs/OPERATIONS.md#looking`: `doctor` never migrates a database.
async fn a_database_of_another_version_is_told_and_not_migrated(database: Database) -> Checked {
    let mut node = node(database).await?;
    node.stop().await?;
    let newest = || async {
        let rows = node
            .rows("SELECT COALESCE(MAX(version), 0) AS newest FROM migration")
            .await?;
        rows[0]["newest"].as_i64().context("a number")
    };
    for (change, migration, verdict, words) in rows! {
        "DELETE FROM migration".to_owned(), 0, "ok", "its tables are made at the first start";
        "INSERT INTO migration (version, name, checksum) VALUES (1000000, 'later', 'x')".to_owned(),
        1_000_000,
        "fault",
        "newer than this version";
    } {
        node.meddle(&change).await?;
        let mut command = node.sortie(&["doctor", "--json"]);
        command.env("SORTIE_DATABASE_URL", node.records_address());
        let output = command.output()?;
        let report: Value = serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))?;
        let check = check(&report, "database")?;
        assert_eq!(check["verdict"], verdict, "{check}");
        ensure!(found(check).contains(words), "{check}");
        assert_eq!(newest().await?, migration);
    }
    Ok(())
}

/// `docs/OPERATIONS.md#looking`: few descriptors mean few runs, but the host still has a sandbox.
#[test]
fn commands_are_confined_with_few_descriptors_as_with_many() -> Checked {
    let folder = tempfile::tempdir()?;
    let level = |most: u32| -> Result<Value> {
        let limited = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
        let mut command = binary_command("sh".as_ref());
        command
            .args(["-c", &limited, env!("CARGO_BIN_EXE_sortie"), "doctor", "--json"])
            .arg("--data-dir")
            .arg(folder.path());
        let output = command.output()?;
        let report: Value = serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))?;
        Ok(report["sandbox"]["level"].clone())
    };
    assert_eq!(level(256)?, level(1_024)?);
    Ok(())
}

/// Returns the report of `doctor` with these arguments.
fn report(node: &Node, arguments: &[&str]) -> Result<Value> {
    let output = node
        .sortie(&[&["doctor", "--json"], arguments].concat())
        .output()?;
    serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))
}

fn check<'a>(report: &'a Value, name: &str) -> Result<&'a Value> {
    let checks = report["checks"].as_array().context("a list")?;
    checks
        .iter()
        .rfind(|check| check["name"] == name)
        .with_context(|| format!("no {name} in {report}"))
}

fn found(check: &Value) -> &str {
    check["found"].as_str().unwrap_or_default()
}

async fn a_running_node_is_looked_at_from_here_and_from_inside(database: Database) -> Checked {
    let node = node(database).await?;
    let report = report(&node, &["--providers"])?;
    for name in [
        "node",
        "connection",
        "clocks",
        "version",
        "readiness",
        "database",
        "storage",
        "master key",
        "disk",
        "open files",
        "queue",
        "callbacks",
        "schedules",
        "memory",
        "addresses",
        "proxies",
    ] {
        let check = check(&report, name)?;
        ensure!(check["verdict"] != "fault", "{check}");
    }
    for name in [
        "node",
        "connection",
        "clocks",
        "version",
        "storage",
        "master key",
        "queue",
        "proxies",
    ] {
        assert_eq!(check(&report, name)?["verdict"], "ok", "{report}");
    }
    let said = found(check(&report, "database")?);
    assert_contains!(said, database.as_str(), "migration ");
    // A node raises its limit to the hard one, and reserves half of it.
    let limit = getrlimit(Resource::Nofile)
        .maximum
        .context("no limit of open files")?;
    let files = found(check(&report, "open files")?);
    let reserved = limit - limit / 2;
    let told = format!(" of {limit}; {reserved} are reserved for runs, the storage and the database");
    ensure!(files.ends_with(&told), "{files}");
    // Tests have no provider, and `doctor` asks providers only with `--providers`.
    assert_eq!(check(&report, "providers")?["verdict"], "warning");
    let without = self::report(&node, &[])?;
    ensure!(check(&without, "providers").is_err());
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_a_fault_and_the_exit_says_so() -> Checked {
    let node = node_with(
        Database::Sqlite,
        NodeOptions::default().env("SORTIE_CONCURRENCY", "1"),
    )
    .await?;
    let client = node.client()?;
    let held = at_work(&client).await?.id.to_string();
    client.create(&plain("waits")).await?;
    let told = report(&node, &[])?;
    ensure!(found(check(&told, "queue")?).starts_with("1 runs wait"), "{told}");
    client.cancel(&held).await?;

    // A member may not ask, and without a listener there is no answer.
    let key = client
        .post(
            "/v1/admin/keys",
            &serde_json::json!({"name": "x", "role": "member"}),
        )
        .json(201)
        .await?;
    let url = node.url()?;
    let mut command = node.sortie(&["doctor", "--json", "--url", &url]);
    command.env("SORTIE_API_KEY", key["key"].as_str().context("a key")?);
    let refused: Value = serde_json::from_slice(&exits(command, 1)?.stdout)?;
    assert_eq!(check(&refused, "key")?["verdict"], "fault");
    assert_eq!(refused["healthy"], false);
    let nobody = exits(node.sortie(&["doctor", "--url", "http://127.0.0.1:1"]), 1)?;
    assert_contains!(nobody.stdout, "cannot reach the engine");
    Ok(())
}
