//! The rotation of the master key: everything is sealed again while a node runs, and then the old key can be removed.

use futures_util::future::try_join_all;
use sortie_testkit::CallbackReceiver;

use crate::{
    connections::{calls, put},
    prelude::*,
};

both_databases![
    everything_is_sealed_with_the_new_key_while_tokens_are_renewed_and_the_old_key_can_go,
    a_rotation_that_is_killed_in_the_middle_is_done_by_the_next_one,
];

const OLD: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const NEW: &str = "0202020202020202020202020202020202020202020202020202020202020202";
const SECRET: &str = "signed with this";

fn id(key: &str) -> Result<String> {
    let key: sortie_engine::MasterKey = key.parse()?;
    Ok(key.id())
}

async fn sealed_with_the_old_key(database: Database) -> Result<Node> {
    node_with(database, NodeOptions::default().env("SORTIE_MASTER_KEY", OLD)).await
}

async fn with_keys(node: &mut Node, keys: &[&str]) -> Checked {
    node.stop().await?;
    node.set_env("SORTIE_MASTER_KEY", &keys.join(","));
    node.restart().await?;
    Ok(())
}

/// Returns the number of values that are sealed with a key.
fn values(status: &Value, key: &str) -> Result<i64> {
    let id = id(key)?;
    let sealed = status["sealed"].as_array().context("a list")?;
    let of_key = sealed.iter().filter(|line| line["key"] == id.as_str());
    Ok(of_key.filter_map(|line| line["values"].as_i64()).sum())
}

fn call() -> Value {
    calls(
        &[("crm__request", json!({"method": "GET"}))],
        &json!({"crm": {"ref": "crm"}}),
    )
}

async fn succeeds(client: &Client, request: &Value) -> Checked {
    let (_, run) = client.complete(request).await?;
    ensure!(run.status == RunStatus::Succeeded, "{:?}", run.error);
    Ok(())
}

fn with_callback(receiver: &CallbackReceiver) -> Value {
    let mut request = plain("told");
    request["callback"] = json!({"url": receiver.url(), "secret": SECRET});
    request
}

/// A connection that refreshes its tokens before each use, a schedule that signs, and a callback that was sent.
async fn seal_something(client: &Client, service: &Service, receiver: &CallbackReceiver) -> Result<String> {
    service.give_tokens_for(1);
    crate::connections::authorize(client, service)
        .await?
        .expect(200)?;
    let workflow = Bytes::from(plain("x").to_string());
    client
        .send(Method::PUT, "/v1/workflows/nightly", workflow)
        .expect(201)
        .await?;
    let schedule = json!({"workflow": "nightly", "cron": "@yearly",
        "callback": {"url": receiver.url(), "secret": SECRET}});
    let schedule = client.post("/v1/schedules", &schedule).json(201).await?;
    let (_, run) = client.complete(&with_callback(receiver)).await?;
    receiver.wait_for(&run.id.to_string(), 1).await?;
    Ok(schedule["id"].as_str().context("an id")?.to_owned())
}

async fn everything_is_sealed_with_the_new_key_while_tokens_are_renewed_and_the_old_key_can_go(
    database: Database,
) -> Checked {
    let (service, receiver) = (Service::start().await?, CallbackReceiver::start(SECRET).await?);
    let mut node = sealed_with_the_old_key(database).await?;
    let schedule = seal_something(&node.client()?, &service, &receiver).await?;
    let before = json_said(&node, &["master-key", "status", "--json"])?;
    let sealed = values(&before, OLD)?;
    ensure!(sealed >= 5 && values(&before, NEW)? == 0, "{before}");

    // The new key second: nothing changes yet. Then the new key first: new values are sealed with it, old ones still
    // need the old key.
    with_keys(&mut node, &[OLD, NEW]).await?;
    with_keys(&mut node, &[NEW, OLD]).await?;
    let told = said(&node, &["master-key", "status"])?;
    ensure!(told.contains("needed: `sortie master-key reseal`"), "{told}");

    let client = node.client()?;
    let request = call();
    let renewing = try_join_all((0..6).map(|_| succeeds(&client, &request)));
    let command = node.sortie(&["master-key", "reseal", "--json"]);
    let resealing = async { tokio::task::spawn_blocking(move || exits(command, 0)).await? };
    let (renewed, resealed) = tokio::join!(renewing, resealing);
    renewed?;
    let after: Value = serde_json::from_slice(&resealed?.stdout)?;
    ensure!(values(&after, NEW)? >= sealed - 1, "{before} {after}");
    // A concurrent token refresh has used the new key as well.
    let again = json_said(&node, &["master-key", "reseal", "--json"])?;
    assert_eq!(values(&again, OLD)?, 0, "{again}");
    let told = said(&node, &["master-key", "status"])?;
    ensure!(told.contains("can be dropped"), "{told}");

    with_keys(&mut node, &[NEW]).await?;
    let client = node.client()?;
    succeeds(&client, &request).await?;
    let trigger = format!("/v1/schedules/{schedule}/trigger");
    let run = client.post_empty(&trigger).await?.json()?;
    let run = run["id"].as_str().context("a run")?.to_owned();
    let (_, ended) = client.finished(&run).await?;
    assert_eq!(ended.status, RunStatus::Succeeded);
    receiver.wait_for(&run, 1).await?;
    let log = client
        .get("/v1/admin/audit?action=master_key.reseal")
        .await?
        .json()?;
    assert_eq!(log["items"][0]["target"], id(NEW)?);
    Ok(())
}

async fn a_rotation_that_is_killed_in_the_middle_is_done_by_the_next_one(database: Database) -> Checked {
    // More than a page of them.
    const CALLBACKS: usize = 620;
    let receiver = CallbackReceiver::start(SECRET).await?;
    let mut node = sealed_with_the_old_key(database).await?;
    let client = node.client()?;
    let request = with_callback(&receiver);
    let mut last = String::new();
    for _ in 0..CALLBACKS / 20 {
        let made = try_join_all((0..20).map(|_| client.create(&request))).await?;
        last = made[0].id.to_string();
    }
    receiver.wait_for_all(CALLBACKS).await?;

    with_keys(&mut node, &[NEW, OLD]).await?;
    let client = node.client()?;
    let page = client.post_empty("/v1/admin/master-key/reseal").json(200).await?;
    assert_eq!(page["looked_at"], 500);
    ensure!(page["next_cursor"] != "", "{page}");
    node.kill()?;
    node.restart().await?;
    let status = json_said(&node, &["master-key", "status", "--json"])?;
    ensure!(values(&status, NEW)? > 0 && values(&status, OLD)? > 0, "{status}");

    json_said(&node, &["master-key", "reseal", "--json"])?;
    with_keys(&mut node, &[NEW]).await?;
    let status = json_said(&node, &["master-key", "status", "--json"])?;
    assert_eq!(
        (values(&status, NEW)?, values(&status, OLD)?),
        (i64::try_from(CALLBACKS)? + 1, 0)
    );
    let client = node.client()?;
    let path = format!("/v1/runs/{last}/deliveries");
    client.post_empty(&path).expect(202).await?;
    receiver.wait_for(&last, 2).await?;
    Ok(())
}

/// A key that was used and then dropped: its values stay sealed, and the rotation is never reported as done.
#[tokio::test]
async fn a_rotation_that_leaves_something_behind_is_not_done() -> Checked {
    const FORGOTTEN: &str = "0303030303030303030303030303030303030303030303030303030303030303";
    let mut node = sealed_with_the_old_key(Database::Sqlite).await?;
    let definition =
        json!({"type": "http", "url": "https://a.example", "auth": {"type": "bearer", "token": "hush-1"}});
    put(&node.client()?, "crm", &definition).expect(201).await?;
    with_keys(&mut node, &[FORGOTTEN, OLD]).await?;
    put(&node.client()?, "other", &definition).expect(201).await?;

    with_keys(&mut node, &[NEW, OLD]).await?;
    let output = exits(node.sortie(&["master-key", "reseal", "--json"]), 1)?;
    let said = text(&output.stderr);
    ensure!(said.contains("IT IS NOT DONE: 1 values"), "{said}");
    let status: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((values(&status, OLD)?, values(&status, FORGOTTEN)?), (0, 1));

    with_keys(&mut node, &[NEW, FORGOTTEN]).await?;
    json_said(&node, &["master-key", "reseal", "--json"]).map(drop)
}

#[tokio::test]
async fn nothing_is_sealed_with_a_key_that_another_node_lacks() -> Checked {
    let mut first = sealed_with_the_old_key(Database::Postgres).await?;
    let mut second = first.beside().await?;
    let service = Service::start().await?;
    let definition =
        json!({"type": "http", "url": service.url(), "auth": {"type": "bearer", "token": "hush-1"}});
    put(&second.client()?, "crm", &definition).expect(201).await?;

    with_keys(&mut first, &[NEW, OLD]).await?;
    let refused = exits(first.sortie(&["master-key", "reseal"]), 64)?;
    assert_contains!(refused.stderr, "does not have the master key");
    let status = json_said(&first, &["master-key", "status", "--json"])?;
    assert_eq!(values(&status, NEW)?, 0);

    // The node opens values of the new key, and still seals with the old one: nothing is lost, and the old key stays in
    // use.
    with_keys(&mut second, &[OLD, NEW]).await?;
    said(&first, &["master-key", "reseal"])?;
    put(&second.client()?, "other", &definition).expect(201).await?;
    let status = json_said(&first, &["master-key", "status", "--json"])?;
    assert_eq!(values(&status, OLD)?, 1);
    let told = said(&first, &["master-key", "status"])?;
    ensure!(!told.contains("can be dropped"), "{told}");

    with_keys(&mut second, &[NEW, OLD]).await?;
    let told = said(&first, &["master-key", "reseal"])?;
    ensure!(told.contains("can be dropped"), "{told}");
    with_keys(&mut first, &[NEW]).await?;
    with_keys(&mut second, &[NEW]).await?;
    succeeds(&first.client()?, &call()).await
}
