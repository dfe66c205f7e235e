//! A node continues from a database of the previous version (`docs/OPERATIONS.md#updating`): records of every kind,
//! keys, sealed credentials, and runs that are running or queued.

mod left;

use sortie_api::{Budget, Run};
use sortie_testkit::{CallbackReceiver, until_within};

use self::left::{Left, get};
use crate::{connections::calls, prelude::*};

both_databases![a_node_goes_on_with_what_the_version_before_has_left];

/// The binary of the previous version. Until the first release it is the current one.
const BEFORE: &str = env!("CARGO_BIN_EXE_sortie");

/// Credential of the saved connection, and secret of the callbacks.
const SECRET: &str = "signed and sealed";

/// Lifetime of a key that expires soon after the node has restarted.
const SHORT: Duration = Duration::from_secs(2);

/// Time in which a schedule that is due each minute starts a run.
const NEXT_MINUTE: Duration = Duration::from_mins(2);

async fn a_node_goes_on_with_what_the_version_before_has_left(database: Database) -> Checked {
    let service = Service::start().await?;
    let callbacks = CallbackReceiver::start(SECRET).await?;
    let (mut node, left) = Left::make(BEFORE, database, &service, &callbacks).await?;
    node.set_binary(env!("CARGO_BIN_EXE_sortie"));
    node.set_env("SORTIE_CONCURRENCY", "8");
    node.restart().await?;
    let client = node.client()?;
    answers_are_kept(&client, &left).await?;
    keys_work_or_are_refused(&client, &left).await?;
    credentials_open(&client, &service).await?;
    open_runs_end(&client, &left, &service, &callbacks).await?;
    schedules_fire(&client, &left).await
}

/// A list of keys without their last uses, which later requests move.
fn without_uses(mut answer: Value) -> Value {
    for entry in answer.as_array_mut().into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("last_used_at");
        }
    }
    answer
}

async fn answers_are_kept(client: &Client, left: &Left) -> Checked {
    ensure!(left.answers.len() > 30, "{} answers", left.answers.len());
    for (path, before) in &left.answers {
        let (before, now) = (
            without_uses(before.clone()),
            without_uses(get(client, path).await?.json()?),
        );
        ensure!(before == now, "{path}: {before} is now {now}");
    }
    let artifact = format!("/v1/runs/{}/artifacts/report.md", left.name("artifact")?);
    assert_eq!(client.get(&artifact).expect(200).await?.body, "the report");
    assert_eq!(
        client.get("/v1/files/data.txt/content").expect(200).await?.body,
        "the data\n"
    );
    let unretained = format!("/v1/runs/{}/events", left.name("unretained")?);
    client.get(&unretained).refused("gone").await?;
    // The idempotency key of the request is known: nothing is created.
    let once = client
        .with_key(left.name("member")?)
        .with_header("idempotency-key", "once");
    let again: Run = once
        .post("/v1/runs", &json!({"prompt": "once"}))
        .read(200)
        .await?;
    assert_eq!(again.id.to_string(), left.name("once")?);
    Ok(())
}

async fn keys_work_or_are_refused(client: &Client, left: &Left) -> Checked {
    for (key, role) in [("member", "member"), ("rotated", "admin")] {
        let me = client.with_key(left.name(key)?).get("/v1/me").await?;
        assert_eq!(me.expect(200)?.json()?["role"], role, "{key}");
    }
    // Both expire within [`SHORT`].
    for key in ["expired", "before"] {
        let ended = client.with_key(left.name(key)?);
        let look = async || ended.get("/v1/me").await;
        let refused = until("the end of the key", look, |answer| answer.status != 200).await?;
        refused.refused("unauthorized").context(key)?;
    }
    let member = client.with_key(left.name("member")?);
    member.get("/v1/admin/audit").refused("forbidden").await?;
    let (_, run) = member.complete(&json!({"workflow": "report"})).await?;
    assert_ended!(run, Succeeded, "the data\n");
    Ok(())
}

async fn credentials_open(client: &Client, service: &Service) -> Checked {
    for name in ["api", "crm"] {
        let tool = format!("{name}__request");
        let call = calls(
            &[(&tool, json!({"method": "GET"}))],
            &json!({name: {"ref": name}}),
        );
        let (_, run) = client.complete(&call).await?;
        assert_ended!(run, Succeeded);
    }
    let received = service.received();
    let bearer = format!("Bearer {SECRET}");
    ensure!(
        received.iter().any(|one| one
            .headers
            .get("authorization")
            .is_some_and(|value| *value == bearer)
            && one.headers["x-key"] == SECRET),
        "no call of api"
    );
    // The access token had expired, and the saved refresh token was exchanged for the next one.
    assert_eq!((service.grants(), service.refused()), (2, 0));
    Ok(())
}

async fn open_runs_end(
    client: &Client,
    left: &Left,
    service: &Service,
    callbacks: &CallbackReceiver,
) -> Checked {
    let (events, queued) = client.finished(left.name("queued")?).await?;
    assert_eq!(
        (queued.status, finals(&events)),
        (RunStatus::Succeeded, 1),
        "{:?}",
        queued.error
    );
    // The inline credentials were sealed before, like the address of the callback.
    let received = service.received();
    ensure!(
        received
            .iter()
            .any(|one| one.path == "/echo" && one.headers.get("x-key").is_some_and(|key| key == "of-the-run")),
        "no call"
    );
    let deliveries = callbacks.wait_for(left.name("queued")?, 1).await?;
    assert_eq!(deliveries[0].refused, None);
    let (events, at_work) = client.finished(left.name("at_work")?).await?;
    assert_eq!((at_work.status, finals(&events)), (RunStatus::TimedOut, 1));

    let scope = format!("/v1/budgets/{}", left.name("late_scope")?);
    let late: Budget = client.get(&scope).read(200).await?;
    let spent = queued.cost_micros.get() + at_work.cost_micros.get();
    assert_eq!((late.held_micros.get(), late.spent_micros.get()), (0, spent));
    ensure!(spent > 0, "the runs cost nothing");
    Ok(())
}

async fn schedules_fire(client: &Client, left: &Left) -> Checked {
    let path = format!("/v1/schedules/{}/fires", left.name("schedule")?);
    let look = async || Ok(started(&get(client, &path).await?.json()?));
    let run = until_within(NEXT_MINUTE, "an occurrence", look, Option::is_some).await?;
    let run = run.context("no occurrence")?;
    let (_, run) = client.finished(&run).await?;
    assert_ended!(run, Succeeded, "the data\n");
    Ok(())
}

/// The run of the newest occurrence that has started one.
fn started(fires: &Value) -> Option<String> {
    let mut items = fires["items"].as_array()?.iter();
    let started = items.find(|fire| fire["outcome"] == "started")?;
    started["run_id"].as_str().map(str::to_owned)
}
