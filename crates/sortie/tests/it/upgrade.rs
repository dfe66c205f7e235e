//! Data of the version before is read (`docs/OPERATIONS.md#updating`): the present binary starts on a database that the
//! earlier one has left, with runs at work and waiting.

mod fixture;
mod make;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sortie_api::{Budget, Run, RunStatus};
use sortie_testkit::{
    CallbackReceiver, Database, Node, NodeOptions, Service, http::HeaderValue, until_within,
};

use self::fixture::{Beside, ensure_kept, get, start, whole};
use crate::{Checked, both_databases, connections::calls, kit::finals};

both_databases![
    everything_that_the_version_before_has_answered_is_read,
    keys_of_the_version_before_work_or_are_refused_as_before,
    connections_of_the_version_before_open_their_credentials,
    runs_that_the_version_before_left_open_come_to_their_end,
    schedules_of_the_version_before_fire,
];

/// The master key of the fixtures.
const MASTER_KEY: &str = "1616161616161616161616161616161616161616161616161616161616161616";

/// Credential of the saved connection, and secret of the callbacks.
const SECRET: &str = "signed and sealed";

/// Credentials are sealed with their addresses, so those of the fixtures stay: below the ports that the system gives to
/// outgoing connections, and on addresses of their own.
fn service_address(database: Database) -> SocketAddr {
    address(database, 21_601)
}

fn receiver_address(database: Database) -> SocketAddr {
    address(database, 21_602)
}

fn address(database: Database, port: u16) -> SocketAddr {
    let host = match database {
        Database::Sqlite => Ipv4Addr::new(127, 0, 16, 1),
        Database::Postgres => Ipv4Addr::new(127, 0, 16, 2),
    };
    (host, port).into()
}

/// Options of the nodes of both versions.
fn options() -> NodeOptions {
    NodeOptions::default()
        .env("SORTIE_MASTER_KEY", MASTER_KEY)
        .env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000")
        // The runs of the fixtures grow older than any node keeps them.
        .env("SORTIE_RETENTION_DAYS", "0")
}

/// Moves what is spent and held under budgets into the present month: the figures of earlier ones are not shown.
fn budgets_of_this_month() -> Result<String> {
    let now = sortie_engine::Clock::system().now();
    let now = jiff::Timestamp::from_microsecond(now.as_micros())?.to_zoned(jiff::tz::TimeZone::UTC);
    let month = now.first_of_month()?.start_of_day()?.timestamp().as_microsecond();
    Ok(format!(
        "UPDATE budget_window SET starts_at = {month}; UPDATE budget_hold SET starts_at = {month};"
    ))
}

async fn started(database: Database) -> Result<(Node, Beside)> {
    start(database, &budgets_of_this_month()?).await
}

async fn everything_that_the_version_before_has_answered_is_read(database: Database) -> Checked {
    let (node, before) = started(database).await?;
    let client = node.client()?;
    ensure!(before.answers.len() > 30, "{} answers", before.answers.len());
    for answer in &before.answers {
        let now = whole(&client, &answer.path).await?;
        ensure_kept(&answer.body, &now, answer.grows).with_context(|| answer.path.clone())?;
    }
    let artifact = format!("/v1/runs/{}/artifacts/report.md", before.name("artifact")?);
    assert_eq!(client.get(&artifact).await?.expect(200)?.body, "the report");
    assert_eq!(
        client.get("/v1/files/data.txt/content").await?.expect(200)?.body,
        "the data\n"
    );
    let unretained = format!("/v1/runs/{}/events", before.name("unretained")?);
    client.get(&unretained).await?.failure(410, "gone")?;
    // Entries of the audit log have keys as their authors, and the filter finds them.
    let log = before
        .answers
        .iter()
        .find(|answer| answer.path.contains("/audit?limit=100&key="));
    let log = get(&client, &log.context("no log of a key")?.path)
        .await?
        .json()?;
    let entries = log["items"].as_array().context("no entries")?;
    ensure!(entries.len() > 5, "{log}");
    for entry in entries {
        let author = (&entry["actor_kind"], &entry["actor_id"]);
        assert_eq!(author, (&json!("key"), &entry["key_id"]));
    }
    // The key of the request is known: nothing is created.
    let once = client.with_key(before.name("member")?);
    let once = once.with_header("idempotency-key", HeaderValue::from_static("once"));
    let again: Run = once
        .post("/v1/runs", &json!({"prompt": "once"}))
        .await?
        .expect(200)?
        .read()?;
    assert_eq!(again.id.to_string(), before.name("once")?);
    Ok(())
}

async fn keys_of_the_version_before_work_or_are_refused_as_before(database: Database) -> Checked {
    let (node, before) = started(database).await?;
    let client = node.client()?;
    for (key, role) in [("admin", "admin"), ("member", "member"), ("rotated", "admin")] {
        let me = client
            .with_key(before.name(key)?)
            .get("/v1/me")
            .await?
            .expect(200)?
            .json()?;
        assert_eq!(me["role"], role, "{key}");
    }
    for key in ["expired", "before"] {
        let refused = client.with_key(before.name(key)?).get("/v1/me").await?;
        refused.failure(401, "unauthorized").context(key)?;
    }
    let member = client.with_key(before.name("member")?);
    member.get("/v1/admin/audit").await?.failure(403, "forbidden")?;
    let (_, run) = member.complete(&json!({"workflow": "report"})).await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("the data\n"))
    );
    Ok(())
}

async fn connections_of_the_version_before_open_their_credentials(database: Database) -> Checked {
    let service = Service::start_at(service_address(database)).await?;
    // The tokens that the connection has come from this one grant.
    service.has_granted(1);
    let (node, _) = started(database).await?;
    let call = |name: &str| {
        let tool = format!("{name}__request");
        calls(
            &[(&tool, json!({"method": "GET"}))],
            &json!({name: {"ref": name}}),
        )
    };
    for name in ["api", "crm"] {
        let (_, run) = node.client()?.complete(&call(name)).await?;
        assert_eq!(run.status, RunStatus::Succeeded, "{:?}", run.error);
    }
    let received = service.received();
    let echo = received
        .iter()
        .find(|one| one.headers.contains_key("authorization"))
        .context("no call of api")?;
    assert_eq!(echo.headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(echo.headers["x-key"], SECRET);
    // The access token had expired, and the refresh token of the earlier version gave the next one.
    assert_eq!((service.grants(), service.refused()), (2, 0));
    Ok(())
}

async fn runs_that_the_version_before_left_open_come_to_their_end(database: Database) -> Checked {
    let service = Service::start_at(service_address(database)).await?;
    let callbacks = CallbackReceiver::start_at(receiver_address(database), SECRET).await?;
    let (node, before) = started(database).await?;
    let client = node.client()?;
    let (events, queued) = client.finished(before.name("queued")?).await?;
    assert_eq!(
        (queued.status, finals(&events)),
        (RunStatus::Succeeded, 1),
        "{:?}",
        queued.error
    );
    // Its inline credentials were sealed by the earlier version, like the address of its callback.
    let received = service.received();
    let call = received
        .iter()
        .find(|one| one.path == "/echo")
        .context("no call")?;
    assert_eq!(call.headers["x-key"], "of-the-run");
    let deliveries = callbacks.wait_for(before.name("queued")?, 1).await?;
    assert_eq!(deliveries[0].refused, None);
    // A worker of the earlier version had begun it, and its time is over.
    let (events, at_work) = client.finished(before.name("at_work")?).await?;
    assert_eq!((at_work.status, finals(&events)), (RunStatus::TimedOut, 1));

    let scope = format!("/v1/budgets/{}", before.name("late_scope")?);
    let late: Budget = client.get(&scope).await?.expect(200)?.read()?;
    let spent = queued.cost_micros.get() + at_work.cost_micros.get();
    assert_eq!((late.held_micros.get(), late.spent_micros.get()), (0, spent));
    ensure!(spent > 0, "the runs cost nothing");
    Ok(())
}

async fn schedules_of_the_version_before_fire(database: Database) -> Checked {
    let (node, before) = started(database).await?;
    let client = node.client()?;
    let path = format!("/v1/schedules/{}/fires", before.name("schedule")?);
    let known = before
        .answers
        .iter()
        .find(|answer| answer.path == path)
        .context("the fires")?;
    let known = known.body["items"].as_array().map_or(0, Vec::len);
    let look = async || get(&client, &path).await?.json();
    let started = |fires: &Value| {
        let items = fires["items"].as_array().filter(|items| items.len() > known)?;
        items.iter().find(|fire| fire["outcome"] == "started").cloned()
    };
    let came = |fires: &Value| started(fires).is_some();
    let fires = until_within(Duration::from_secs(90), "an occurrence", look, came).await?;
    let fire = started(&fires).context("none has started")?;
    let (_, run) = client
        .finished(fire["run_id"].as_str().unwrap_or_default())
        .await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("the data\n"))
    );
    Ok(())
}
