//! `/v1/admin` (`docs/ADMINISTRATION.md`): expiry and rotation of keys, the audit log, usage and the license, and their
//! commands.

use std::{fs, os::unix::fs::PermissionsExt as _};

use sortie_api::{
    Timestamp,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::Clock;

use crate::prelude::*;

both_databases![
    a_key_ends_at_its_time,
    a_key_is_rotated_while_it_is_in_use,
    usage_and_the_license_count_what_was_run,
];

async fn made(client: &Client, body: &Value) -> Result<Value> {
    client.post("/v1/admin/keys", body).json(201).await
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

async fn a_key_ends_at_its_time(database: Database) -> Checked {
    let (mut node, admin) = started(database).await?;
    let ends = Clock::system().now() + Duration::from_hours(1);
    let short = json!({"name": "short", "expires_at": ends});
    let key = made(&admin, &short).await?;
    assert_eq!(key["expires_at"], json!(ends));
    admin
        .with_key(field(&key, "key"))
        .get("/v1/me")
        .expect(200)
        .await?;
    // An hour passes.
    node.stop().await?;
    let hour = Duration::from_hours(1).as_micros();
    let sql = format!("UPDATE api_key SET expires_at = expires_at - {hour} WHERE expires_at IS NOT NULL");
    node.meddle(&sql).await?;
    node.restart().await?;
    let admin = node.client()?;
    let short = admin.with_key(field(&key, "key"));
    short.get("/v1/me").refused("unauthorized").await?;
    let listed = admin.get("/v1/admin/keys").json(200).await?;
    let ended = Timestamp::from_micros(ends.as_micros() - i64::try_from(hour)?);
    assert_eq!(listed[1]["expires_at"], json!(ended));
    let path = format!("/v1/admin/keys/{}/rotate", field(&key, "id"));
    admin.post(&path, &json!({})).refused("conflict").await?;
    Ok(())
}

async fn a_key_is_rotated_while_it_is_in_use(database: Database) -> Checked {
    let (_node, first) = started(database).await?;
    let id = first.get("/v1/me").await?.json()?["key_id"].clone();
    let path = format!("/v1/admin/keys/{}/rotate", id.as_str().unwrap_or_default());
    let rotate = async |client: &Client, body: Value| -> Result<Client> {
        let answer = client.post(&path, &body).expect(200).await?;
        assert_eq!(answer.header("cache-control")?, "no-store");
        let rotated = answer.json()?;
        ensure!(rotated["id"] == id && rotated["role"] == "admin", "{rotated}");
        Ok(client.with_key(field(&rotated, "key")))
    };
    // The one in use, with itself.
    let second = rotate(&first, json!({})).await?;
    for client in [&first, &second] {
        client.get("/v1/me").expect(200).await?;
    }
    let third = rotate(&first, json!({"grace_seconds": 600})).await?;
    first.get("/v1/me").refused("unauthorized").await?;
    second.get("/v1/me").expect(200).await?;
    let fourth = rotate(&second, json!({"grace_seconds": 0})).await?;
    third.get("/v1/me").refused("unauthorized").await?;
    second.get("/v1/me").refused("unauthorized").await?;
    let log = fourth.get("/v1/admin/audit?action=key.rotate").json(200).await?;
    assert_eq!(log["items"].as_array().map(Vec::len), Some(3));
    let entry = &log["items"][0];
    ensure!(entry["target"] == id && entry["key_id"] == id, "{log}");
    ensure!(entry["actor_kind"] == "key" && entry["actor_id"] == id, "{log}");
    Ok(())
}

async fn usage_and_the_license_count_what_was_run(database: Database) -> Checked {
    let (_node, admin) = started(database).await?;
    let member = made(&admin, &json!({"name": "member"})).await?;
    admin.complete(&plain("a")).await?;
    admin.complete(&json!({"prompt": "```sh\nexit 1\n```\n"})).await?;
    admin
        .with_key(field(&member, "key"))
        .complete(&plain("b"))
        .await?;
    let usage = admin.get("/v1/admin/usage?by=key,model").json(200).await?;
    assert_has!(usage["totals"], {"runs": 3, "succeeded": 2});
    let rows = usage["rows"].as_array().cloned().unwrap_or_default();
    let of_member: Vec<_> = rows.iter().filter(|row| row["key_id"] == member["id"]).collect();
    assert_eq!(rows.len(), 2, "{usage}");
    assert_has!(of_member[0], {"runs": 1, "model": "runbook"});
    let license = admin.get("/v1/admin/license").json(200).await?;
    assert_has!(license, {"licensed": false, "runs_used": 3});
    Ok(())
}

/// Nodes of one database are the same installation, so a rotation on one applies to all.
#[tokio::test]
async fn two_nodes_agree_on_keys_and_on_who_they_are() -> Checked {
    let one = node(Database::Postgres).await?;
    let two = one.beside().await?;
    let (here, there) = (one.client()?, two.client()?);
    let machine = async |client: &Client| -> Result<Value> {
        Ok(client.get("/v1/admin/license").json(200).await?["machine_id"].clone())
    };
    assert_eq!(machine(&here).await?, machine(&there).await?);
    let key = made(&here, &json!({"name": "shared"})).await?;
    let old = here.with_key(field(&key, "key"));
    old.get("/v1/me").expect(200).await?;
    let path = format!("/v1/admin/keys/{}/rotate", field(&key, "id"));
    let rotated = here.post(&path, &json!({"grace_seconds": 0})).json(200).await?;
    there
        .with_key(field(&rotated, "key"))
        .get("/v1/me")
        .expect(200)
        .await?;
    // A node that has looked the key up before caches the result for five seconds, which the tests of the engine
    // measure.
    for client in [&here, &there] {
        let old = client.with_key(field(&key, "key"));
        old.get("/v1/me").refused("unauthorized").await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_key_of_the_data_folder_is_rotated_with_its_file() -> Checked {
    let node = node(Database::Sqlite).await?;
    let path = node.data_dir().join("admin.key");
    let before = fs::read_to_string(&path)?;
    let id = node.client()?.get("/v1/me").await?.json()?["key_id"].clone();
    let id = id.as_str().unwrap_or_default();
    let output = exits(node.sortie(&["keys", "rotate", id, "--grace", "0s"]), 0)?;
    let after = fs::read_to_string(&path)?;
    ensure!(
        after != before && text(&output.stdout) == after,
        "{}",
        text(&output.stdout)
    );
    assert_contains!(output.stderr, "admin.key holds it");
    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    let keys: Vec<_> = fs::read_dir(node.data_dir())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("admin.key"))
        .collect();
    assert_eq!(keys, ["admin.key"]);
    node.client()?.get("/v1/me").refused("unauthorized").await?;
    // Commands in the node's data folder continue with the new one.
    said(&node, &["keys", "list"])?;

    // The rotation of another key leaves the file unchanged.
    let other = json_said(
        &node,
        &["keys", "create", "other", "--json", "--expires-in", "30d"],
    )?;
    let rotated = json_said(&node, &["keys", "rotate", field(&other, "id"), "--json"])?;
    ensure!(
        rotated["key"] != other["key"] && rotated["expires_at"] == other["expires_at"],
        "{rotated}"
    );
    assert_eq!(fs::read_to_string(&path)?, after);
    Ok(())
}

#[tokio::test]
async fn the_log_usage_and_the_license_are_printed() -> Checked {
    let node = node(Database::Sqlite).await?;
    exits(node.sortie(&["run", "hello"]), 0)?;
    json_said(&node, &["keys", "create", "deploy", "--json"])?;
    let log = said(&node, &["audit", "--limit", "1"])?;
    ensure!(log.lines().count() == 2 && log.contains("key.create"), "{log}");
    let me = node.client()?.get("/v1/me").await?.json()?;
    let line = log.lines().last().unwrap_or_default();
    ensure!(line.contains(field(&me, "key_id")), "{log}");
    let log = json_said(&node, &["audit", "--json", "--action", "key.create"])?;
    assert_eq!(log.as_array().map(Vec::len), Some(2));
    let usage = said(&node, &["usage", "--by", "model,day"])?;
    ensure!(usage.lines().count() == 3 && usage.contains("runbook"), "{usage}");
    let usage = json_said(&node, &["usage", "--json"])?;
    assert_eq!(usage["totals"]["runs"], 1);
    let license = said(&node, &["license"])?;
    assert_contains!(license, "licensed  no", "1 this month");
    Ok(())
}

/// The file holds a key that this engine does not know.
#[tokio::test]
async fn a_file_that_holds_another_key_is_left_alone() -> Checked {
    let node = node(Database::Sqlite).await?;
    let path = node.data_dir().join("admin.key");
    let stale = format!("{}\n", Secret::new(SELF_HOSTED_KEY, [5; 32]).expose());
    fs::write(&path, &stale)?;
    let id = node.client()?.get("/v1/me").await?.json()?["key_id"].clone();
    let mut command = node.sortie(&["keys", "rotate", id.as_str().unwrap_or_default()]);
    command.env("SORTIE_API_KEY", node.key());
    let output = exits(command, 0)?;
    assert_lacks!(output.stderr, "holds it");
    assert_eq!(fs::read_to_string(&path)?, stale);
    Ok(())
}
