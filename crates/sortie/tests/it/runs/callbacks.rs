//! Completion callbacks (`docs/CALLBACKS.md`): their content, their retries, and the addresses that they may not reach.

mod receivers;

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use sortie_api::{DeliveryAttempt, Timestamp};
use sortie_testkit::{CallbackReceiver, callback::Delivery, http::StatusCode};

use crate::{kit::now, prelude::*};

both_databases![
    the_final_run_is_sent_signed_as_the_contract_says,
    every_way_to_end_is_told,
    callbacks_survive_a_kill,
    where_a_callback_goes_is_stored_sealed,
];

const SECRET: &str = "gehéim \u{1f511}";

/// Maximum callbacks to one host at once.
const SHARE: usize = 16;

/// Timeout of an attempt, in seconds.
const ATTEMPT_SECONDS: u64 = 15;

/// Checks that a host that does not answer got no more than its share of callbacks until the first one had timed out,
/// regardless of when the others came. `signed` has the time of each signature, in seconds.
fn ensure_share(mut signed: Vec<u64>) -> Checked {
    signed.sort_unstable();
    if let (Some(first), Some(next)) = (signed.first(), signed.get(SHARE)) {
        // A second of tolerance for a clock that is adjusted during the test.
        ensure!(
            next - first >= ATTEMPT_SECONDS - 1,
            "more than its share: {signed:?}"
        );
    }
    Ok(())
}

fn timestamp(delivery: &Delivery) -> Result<&str> {
    let timestamp = delivery.headers.get("x-service-timestamp");
    Ok(timestamp.context("no timestamp")?.to_str()?)
}

/// Returns the time at which a callback was signed, in seconds.
fn signed_at(delivery: &Delivery) -> Result<u64> {
    Ok(timestamp(delivery)?.parse()?)
}

/// `request` with a callback to `url`.
fn to(url: &str, mut request: Value) -> Value {
    request["callback"] = json!({"url": url, "secret": SECRET});
    request
}

async fn attempts(client: &Client, id: &str) -> Result<Vec<DeliveryAttempt>> {
    client.get(&format!("/v1/runs/{id}/deliveries")).read(200).await
}

/// The attempts, once there are `count` of them. No event reports them.
async fn attempts_made(client: &Client, id: &str, count: usize) -> Result<Vec<DeliveryAttempt>> {
    let look = async || attempts(client, id).await;
    until(&format!("{count} attempts"), look, |made| made.len() >= count).await
}

/// Waits until a run's callback is known to be delivered.
async fn taken(client: &Client, id: &str) -> Checked {
    let look = async || attempts(client, id).await;
    let is_taken = |last: &DeliveryAttempt| last.status == Some(204);
    until("the callback to be taken", look, |made| {
        made.last().is_some_and(is_taken)
    })
    .await?;
    Ok(())
}

/// The signature as Python's standard library computes it.
#[expect(clippy::disallowed_methods, reason = "an implementation that is not ours")]
fn signed_by_python(delivery: &Delivery) -> Result<String> {
    const SCRIPT: &str = "import hashlib, hmac, sys\n\
        body = sys.stdin.buffer.read()\n\
        message = sys.argv[2].encode() + b'.' + body\n\
        print('sha256=' + hmac.new(sys.argv[1].encode(), message, hashlib.sha256).hexdigest(), end='')";
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT, SECRET, timestamp(delivery)?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3 does not start")?;
    python
        .stdin
        .take()
        .context("no input")?
        .write_all(&delivery.raw)?;
    let output = python.wait_with_output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

async fn the_final_run_is_sent_signed_as_the_contract_says(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    let run = client.create(&to(&receiver.url(), plain("\u{2028} näh"))).await?;
    let id = run.id.to_string();
    let delivery = receiver.wait_for(&id, 1).await?.remove(0);
    assert_eq!(delivery.refused, None);
    let shown = client.get(&format!("/v1/runs/{id}")).json(200).await?;
    assert_eq!(delivery.body, shown);
    assert_eq!(shown["output"], "\u{2028} näh");
    let header = |name: &str| {
        let value = delivery.headers.get(name);
        value.and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    assert_eq!(header("x-service-run"), Some(id.clone()));
    assert_eq!(header("x-service-signature"), Some(signed_by_python(&delivery)?));
    assert_eq!(header("content-type").as_deref(), Some("application/json"));
    ensure!(header("user-agent").is_some_and(|name| name.starts_with("sortie/")));
    let made = attempts_made(&client, &id, 1).await?;
    assert_eq!(
        (
            made.len(),
            made[0].attempt,
            made[0].status,
            made[0].error.as_deref(),
            made[0].next_at
        ),
        (1, 1, Some(204), None, None)
    );
    // The definition is without it (`docs/RUNS.md#the-definition-and-once-more`).
    let definition = client.get(&format!("/v1/runs/{id}/definition")).await?.json()?;
    ensure!(definition["request"].get("callback").is_none(), "{definition}");
    Ok(())
}

async fn every_way_to_end_is_told(database: Database) -> Checked {
    let (_node, client) =
        started_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    let create = async |request| -> Result<String> { client.create_id(&to(&receiver.url(), request)).await };
    let status = async |id: &str| -> Result<Value> {
        let told = receiver.wait_for(id, 1).await?.remove(0);
        assert_eq!(told.refused, None);
        Ok(told.body["status"].clone())
    };
    let failed = create(commands(&["exit 3"])).await?;
    assert_eq!(status(&failed).await?, "failed");
    let mut late = waiting();
    late["timeout_seconds"] = 1.into();
    assert_eq!(status(&create(late).await?).await?, "timed_out");
    let held = create(waiting()).await?;
    client.until_running(&held).await?;
    let queued = create(plain("x")).await?;
    for id in [&queued, &held] {
        client.cancel(id).await?;
        assert_eq!(status(id).await?, "cancelled");
    }
    Ok(())
}

/// A receiver that does not answer when the node dies is called again after the restart, and no receiver is skipped.
async fn callbacks_survive_a_kill(database: Database) -> Checked {
    let (mut node, client) = started(database).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    receiver.hold();
    let mut ids = Vec::new();
    for number in 0..20 {
        let run = client
            .create(&to(&receiver.url(), plain(&number.to_string())))
            .await?;
        ids.push(run.id.to_string());
    }
    for id in &ids {
        client.finished(id).await?;
    }
    receiver.wait_for_all(SHARE).await?;
    node.kill()?;
    let under_way = receiver.all();
    ensure_share(under_way.iter().map(signed_at).collect::<Result<_>>()?)?;
    receiver.release();
    node.restart().await?;
    for id in &ids {
        let before = under_way.iter().filter(|delivery| delivery.run == *id).count();
        let deliveries = receiver.wait_for(id, before + 1).await?;
        ensure!(
            deliveries.iter().all(|delivery| delivery.refused.is_none()),
            "{deliveries:?}"
        );
        taken(&node.client()?, id).await?;
    }
    Ok(())
}

async fn where_a_callback_goes_is_stored_sealed(database: Database) -> Checked {
    let (node, client) = started(database).await?;
    let receiver = CallbackReceiver::start("hush-secret-7f3a").await?;
    let url = format!("{}?token=hush-query-51c8", receiver.url());
    let mut request = plain("x");
    request["callback"] = json!({"url": url, "secret": "hush-secret-7f3a"});
    let id = client.create_id(&request).await?;
    receiver.wait_for(&id, 1).await?;
    attempts_made(&client, &id, 1).await?;
    let mut looked = node.dump().await?;
    looked.push(("the log".to_owned(), node.log().into_bytes()));
    for entry in std::fs::read_dir(node.data_dir())? {
        let path = entry?.path();
        if path.is_file() {
            looked.push((path.display().to_string(), std::fs::read(&path)?));
        }
    }
    for secret in ["hush-secret", "hush-query"] {
        for (place, bytes) in &looked {
            ensure!(
                !bytes.windows(secret.len()).any(|part| part == secret.as_bytes()),
                "{secret} is in {place}"
            );
        }
    }
    Ok(())
}

/// `docs/CALLBACKS.md#when`: an answer other than 2xx is retried after 10 seconds.
#[tokio::test]
async fn a_failed_delivery_is_tried_again_after_ten_seconds() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    receiver.answer_with([StatusCode::SERVICE_UNAVAILABLE]);
    let id = client.create_id(&to(&receiver.url(), plain("x"))).await?;
    let made = attempts_made(&client, &id, 1).await?;
    assert_eq!(
        (made[0].status, made[0].error.as_deref()),
        (Some(503), Some("answered 503"))
    );
    let next = made[0]
        .next_at
        .context("it is to be tried again")?
        .since(made[0].at);
    ensure!(
        (Duration::from_secs(10)..Duration::from_secs(11)).contains(&next),
        "{next:?}"
    );
    let deliveries = receiver.wait_for(&id, 2).await?;
    ensure!(
        deliveries.iter().all(|delivery| delivery.refused.is_none()),
        "{deliveries:?}"
    );
    let made = attempts_made(&client, &id, 2).await?;
    assert_eq!(
        (made[1].attempt, made[1].status, made[1].next_at),
        (2, Some(204), None)
    );
    ensure!(
        made[1].at.since(made[0].at) >= Duration::from_secs(10),
        "{made:?}"
    );
    ensure_in_time(&made)
}

/// Checks that the second attempt came within a second of its time.
fn ensure_in_time(made: &[DeliveryAttempt]) -> Checked {
    let due = made[0].next_at.context("it is to be tried again")?;
    let late = made[1].at.since(due);
    ensure!(late < Duration::from_secs(1), "{late:?}: {made:?}");
    Ok(())
}

/// `docs/CALLBACKS.md#when`: fresh deliveries to the receiver, up to half a second before a retry, do not delay it.
#[tokio::test]
async fn a_retry_is_in_time_although_its_receiver_got_others_just_before() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    receiver.answer_with([StatusCode::SERVICE_UNAVAILABLE]);
    let failed = client.create(&to(&receiver.url(), plain("x"))).await?.id;
    let made = attempts_made(&client, &failed.to_string(), 1).await?;
    let due = made[0].next_at.context("it is to be tried again")?;
    let last = Timestamp::from_micros(due.as_micros() - 500_000);
    while now() < last {
        let fresh = client.create(&to(&receiver.url(), plain("x"))).await?.id;
        taken(&client, &fresh.to_string()).await?;
    }
    ensure_in_time(&attempts_made(&client, &failed.to_string(), 2).await?)
}

/// `docs/CALLBACKS.md#when`: each delivery is retried when it is due, even if others of its receiver have failed and
/// are slow.
#[tokio::test]
async fn deliveries_that_failed_together_are_each_tried_again_when_they_are_due() -> Checked {
    const RUNS: usize = 4;
    let (_node, client) = started(Database::Sqlite).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    receiver.answer_with([StatusCode::SERVICE_UNAVAILABLE; RUNS]);
    let mut ids = Vec::new();
    for _ in 0..RUNS {
        let run = client.create(&to(&receiver.url(), plain("x"))).await?;
        ids.push(run.id.to_string());
    }
    for id in &ids {
        attempts_made(&client, id, 1).await?;
    }
    // From here on an attempt takes the maximum time.
    receiver.hold();
    receiver.wait_for_all(2 * RUNS).await?;
    receiver.release();
    for id in &ids {
        ensure_in_time(&attempts_made(&client, id, 2).await?)?;
    }
    Ok(())
}

/// A failed callback can be sent again at once, by the command line too.
#[tokio::test]
async fn the_command_line_lists_deliveries_and_sends_again() -> Checked {
    let (node, client) = started(Database::Sqlite).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    receiver.answer_with([StatusCode::NOT_FOUND]);
    let id = client.create_id(&to(&receiver.url(), plain("x"))).await?;
    attempts_made(&client, &id, 1).await?;
    let said = |arguments: &[&str]| -> Result<(String, String)> {
        let output = node.sortie(arguments).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok((
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        ))
    };
    let (_, told) = said(&["runs", "redeliver", &id])?;
    ensure!(told.contains("is sent again, as attempt 2"), "{told}");
    receiver.wait_for(&id, 2).await?;
    attempts_made(&client, &id, 2).await?;
    let (listed, _) = said(&["runs", "deliveries", &id])?;
    let lines: Vec<&str> = listed.lines().collect();
    ensure!(
        lines.len() == 3 && lines[1].ends_with("answered 404") && lines[2].contains("204"),
        "{listed}"
    );
    let (json, _) = said(&["runs", "deliveries", &id, "--json"])?;
    let listed: Vec<DeliveryAttempt> = serde_json::from_str(&json)?;
    assert_eq!(listed.len(), 2);
    let refused = node
        .sortie(&["runs", "redeliver", &client.create_id(&plain("x")).await?])
        .output()?;
    assert_eq!(refused.status.code(), Some(64));
    Ok(())
}

/// Two nodes send nothing twice, as long as neither dies.
#[tokio::test]
async fn two_nodes_share_the_deliveries() -> Checked {
    let options = NodeOptions::default().env("SORTIE_MASTER_KEY", &"5a".repeat(32));
    let first = node_with(Database::Postgres, options).await?;
    let second = first.beside().await?;
    let nodes: [Client; 2] = [first.client()?, second.client()?];
    let receiver = CallbackReceiver::start(SECRET).await?;
    let mut ids = Vec::new();
    for number in 0..40_usize {
        let request = to(&receiver.url(), plain(&number.to_string()));
        ids.push(nodes[number % 2].create_id(&request).await?);
    }
    for id in &ids {
        receiver.wait_for(id, 1).await?;
        attempts_made(&nodes[0], id, 1).await?;
    }
    assert_eq!(receiver.wait_for_all(40).await?.len(), 40);
    Ok(())
}

/// A node that stops gracefully leaves unsent callbacks to the next start.
#[tokio::test]
async fn a_callback_under_way_when_the_node_stops_is_sent_by_the_next() -> Checked {
    let (mut node, client) = started(Database::Sqlite).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    receiver.hold();
    let id = client.create_id(&to(&receiver.url(), plain("x"))).await?;
    receiver.wait_for(&id, 1).await?;
    node.stop().await?;
    receiver.release();
    node.restart().await?;
    receiver.wait_for(&id, 2).await?;
    let made = attempts_made(&node.client()?, &id, 1).await?;
    assert_eq!((made.len(), made[0].status), (1, Some(204)));
    Ok(())
}

/// `docs/CALLBACKS.md#where-it-may-go`: callbacks to private addresses can be refused, both in the URL and after
/// resolving a name.
#[tokio::test]
async fn a_node_can_keep_callbacks_from_private_addresses() -> Checked {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("sortie.toml");
    std::fs::write(&file, "private_addresses = [\"connections\"]\n")?;
    let options = NodeOptions::default()
        .arg("--config")
        .arg(&file.display().to_string());
    let node: Node = node_with(Database::Sqlite, options).await?;
    let client = node.client()?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    for url in [
        receiver.url().as_str(),
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://2130706433/",
    ] {
        let answer = client.post("/v1/runs", &to(url, plain("x"))).await?;
        let refused = answer.refused("invalid_request")?;
        ensure!(
            refused.error.starts_with("callback.url: ") && refused.error.ends_with("is not a public address"),
            "{refused:?}"
        );
    }
    let by_name = receiver.url().replace("127.0.0.1", "localhost");
    let id = client.create_id(&to(&by_name, plain("x"))).await?;
    let made = attempts_made(&client, &id, 1).await?;
    assert_eq!(
        (made[0].status, made[0].error.as_deref()),
        (None, Some("localhost is not a public address"))
    );
    ensure!(made[0].next_at.is_some() && receiver.deliveries(&id).is_empty());
    Ok(())
}
