//! `/metrics` (`docs/METRICS.md`): correct figures, in a valid format, without data of an organization.

#![expect(
    clippy::float_cmp,
    reason = "what is compared are counts, which are whole numbers"
)]

mod documents;

use std::{collections::BTreeMap, time::Instant};

use sortie_testkit::{CallbackReceiver, model::Turn};

use crate::{
    connections::{calls, put},
    prelude::*,
    runs::model::Scripted,
};

both_databases![
    what_a_node_has_done_is_in_its_figures_and_nothing_of_what_it_was_about,
    what_waits_and_what_is_at_work_is_read_from_the_database,
];

/// Reading of the metrics: every series with its value, as text.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) text: String,
    series: BTreeMap<String, f64>,
}

impl Reading {
    pub(crate) async fn of(client: &Client) -> Result<Self> {
        let client = client
            .anonymous()
            .with_header("accept", "application/openmetrics-text");
        let answer = client.get("/metrics").expect(200).await?;
        let kind = answer.header("content-type")?;
        ensure!(
            kind == "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "{kind}"
        );
        let text = answer.text();
        ensure!(text.ends_with("# EOF\n"), "{text}");
        let mut series = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').context("a series without a value")?;
            ensure!(
                series.insert(name.to_owned(), value.parse()?).is_none(),
                "twice: {line}"
            );
        }
        Ok(Self { text, series })
    }

    /// The value of a series.
    fn get(&self, series: &str) -> Result<f64> {
        self.series
            .get(series)
            .copied()
            .with_context(|| format!("there is no {series} in\n{}", self.text))
    }

    /// Fails unless each of these series has its value.
    fn has_all(&self, expected: &[(&str, f64)]) -> Result<()> {
        for (series, expected) in expected {
            let value = self.get(series)?;
            ensure!(value == *expected, "{series} is not {expected} in\n{}", self.text);
        }
        Ok(())
    }

    /// Fails unless each of these series is above zero.
    fn has_some(&self, expected: &[&str]) -> Result<()> {
        for series in expected {
            ensure!(self.get(series)? > 0.0, "{series} is nothing in\n{}", self.text);
        }
        Ok(())
    }

    fn has(&self, series: &str) -> bool {
        self.series.contains_key(series)
    }

    /// The names of all samples.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.series
            .keys()
            .map(|series| series.split_once('{').map_or(series.as_str(), |(name, _)| name))
    }
}

/// Reads the metrics until `wanted` accepts them, because events arrive in them one by one. Figures from the database
/// are updated at most once a second.
async fn until(client: &Client, wanted: impl Fn(&Reading) -> Result<()> + Send + Sync) -> Result<Reading> {
    let look = async || {
        let reading = Reading::of(client).await?;
        Ok(wanted(&reading).map(|()| reading))
    };
    sortie_testkit::until("the figures", look, Result::is_ok).await?
}

/// Text that only the organization may read.
const MARKER: &str = "wolpertinger";

/// Makes a node do something of every kind. Returns the texts that must not be in its metrics.
async fn live_through(client: &Client) -> Result<Vec<String>> {
    let (receiver, service) = (CallbackReceiver::start(MARKER).await?, Service::start().await?);
    let mut told = vec![MARKER.to_owned()];

    let mut request = commands(&[&format!("echo {MARKER}"), "exit 3"]);
    request["callback"] = json!({"url": receiver.url(), "secret": MARKER});
    request["tags"] = json!([MARKER]);
    request["shell"] = json!(true);
    let (_, failed) = client.complete(&request).await?;
    assert_eq!(failed.status, RunStatus::Failed);
    receiver.wait_for(&failed.id.to_string(), 1).await?;
    let (_, answered) = client
        .complete(&json!({"prompt": MARKER, "input": {"a": MARKER}, "shell": false}))
        .await?;
    assert_eq!(answered.status, RunStatus::Succeeded);
    let waiting = at_work(client).await?;
    client.cancel(&waiting.id.to_string()).await?;
    settled(client, &waiting.id.to_string()).await?;
    let definition = json!({"type": "http", "url": format!("{}/echo", service.url()),
        "auth": {"type": "bearer", "token": format!("token-{MARKER}")}});
    put(client, MARKER, &definition).expect(201).await?;
    let request = calls(
        &[(
            &format!("{MARKER}__request"),
            json!({"method": "GET", "path": "/orders"}),
        )],
        &json!({MARKER: {"ref": MARKER}}),
    );
    client.complete(&request).await?;
    client.upload(&format!("{MARKER}.txt"), MARKER).await?;
    let budget = Bytes::from(r#"{"limit_micros":1,"period":"day"}"#);
    let path = format!("/v1/budgets/workflow:{MARKER}");
    client.send(Method::PUT, &path, budget).expect(201).await?;
    let workflow = Bytes::from(json!({"prompt": MARKER}).to_string());
    let path = format!("/v1/workflows/{MARKER}");
    client.send(Method::PUT, &path, workflow).expect(201).await?;
    client
        .post("/v1/runs", &json!({"workflow": MARKER}))
        .refused("payment_required")
        .await?;
    client.get(&format!("/v1/{MARKER}")).expect(404).await?;
    told.extend([failed.id, answered.id, waiting.id].map(|id| id.to_string()));
    let me = client.get("/v1/me").await?.json()?;
    for id in ["organization_id", "key_id"] {
        told.push(me[id].as_str().context(id)?.to_owned());
    }
    Ok(told)
}

/// Figures that [`live_through`] makes.
const COUNTED: &[(&str, f64)] = &rows! {
    "sortie_ready", 1.0;
    "sortie_store_up", 1.0;
    "sortie_storage_up", 1.0;
    "sortie_runs_waiting_for_storage", 0.0;
    "sortie_runs_accepted_total{trigger=\"api\"}", 4.0;
    "sortie_runs_finished_total{status=\"succeeded\"}", 2.0;
    "sortie_runs_finished_total{status=\"failed\"}", 1.0;
    "sortie_runs_finished_total{status=\"cancelled\"}", 1.0;
    "sortie_run_duration_seconds_count{status=\"succeeded\"}", 2.0;
    "sortie_dispatch_delay_seconds_count", 4.0;
    "sortie_budget_refusals_total", 1.0;
    "sortie_tool_call_duration_seconds_count{tool=\"shell\"}", 2.0;
    "sortie_tool_call_duration_seconds_count{tool=\"http\"}", 1.0;
    "sortie_tool_errors_total{tool=\"shell\"}", 1.0;
    "sortie_connection_calls_total{kind=\"http\",status=\"2xx\"}", 1.0;
    "sortie_sandbox_opens_total{outcome=\"opened\"}", 1.0;
    "sortie_callback_attempts_total{outcome=\"delivered\"}", 1.0;
    "sortie_callbacks_waiting", 0.0;
    "sortie_uploads_total", 1.0;
    "sortie_upload_bytes_total", 12.0;
    "sortie_runs_open{status=\"queued\"}", 0.0;
    "sortie_runs_at_work", 0.0;
    "sortie_streams_open", 0.0;
    "sortie_http_requests_total{method=\"POST\",route=\"/v1/runs\",status=\"2xx\"}", 4.0;
    "sortie_http_requests_total{method=\"POST\",route=\"/v1/runs\",status=\"4xx\"}", 1.0;
    "sortie_http_requests_total{method=\"GET\",route=\"none\",status=\"4xx\"}", 1.0;
    "sortie_http_requests_total{method=\"PUT\",route=\"/v1/workflows/{name}\",status=\"2xx\"}", 1.0;
    "sortie_model_calls_total{provider=\"sortie\",model=\"runbook\",outcome=\"error\"}", 1.0;
    "sortie_model_calls_total{provider=\"sortie\",model=\"runbook\",outcome=\"given_up\"}", 1.0;
    "sortie_model_errors_total{provider=\"sortie\",model=\"runbook\",kind=\"request\"}", 1.0;
};

/// Figures that it leaves above zero.
const THERE: &[&str] = &[
    "sortie_run_cost_micros_total",
    "sortie_events_recorded_total",
    "sortie_event_lag_seconds_count",
    "sortie_model_calls_total{provider=\"sortie\",model=\"runbook\",outcome=\"ok\"}",
    "sortie_model_call_duration_seconds_count{provider=\"sortie\",model=\"runbook\"}",
    "sortie_sandbox_open_duration_seconds_sum",
    "sortie_store_commit_seconds_count",
    "sortie_store_group_commands_sum",
    "sortie_lease_renewals_total{outcome=\"renewed\"}",
    "sortie_lease_remaining_seconds",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_start_time_seconds",
];

async fn what_a_node_has_done_is_in_its_figures_and_nothing_of_what_it_was_about(
    database: Database,
) -> Checked {
    let options = NodeOptions::default().env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000000");
    let (node, client) = started_with(database, options).await?;
    let mut told = live_through(&client).await?;
    told.push(node.key().to_owned());
    let reading = until(&client, |reading| {
        reading.has_all(COUNTED)?;
        reading.has_some(THERE)
    })
    .await?;
    for secret in &told {
        ensure!(
            !reading.text.contains(secret.as_str()),
            "{secret} is in\n{}",
            reading.text
        );
    }
    assert_eq!(
        reading.has("sortie_store_wal_bytes"),
        database == Database::Sqlite
    );
    Ok(())
}

async fn what_waits_and_what_is_at_work_is_read_from_the_database(database: Database) -> Checked {
    let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let (_node, client) = started_with(database, options).await?;
    let run = at_work(&client).await?;
    for _ in 0..2 {
        client.create(&plain("later")).await?;
    }
    let stream = client.follow(&run.id.to_string(), None).await?;
    let reading = until(&client, |reading| {
        reading.has_all(&[
            ("sortie_queue_depth", 2.0),
            ("sortie_runs_open{status=\"queued\"}", 2.0),
            ("sortie_runs_open{status=\"running\"}", 1.0),
            ("sortie_runs_open{status=\"starting\"}", 0.0),
            ("sortie_runs_at_work", 1.0),
            ("sortie_run_places", 1.0),
            ("sortie_streams_open", 1.0),
            ("sortie_nodes{state=\"live\"}", 1.0),
            ("sortie_nodes{state=\"lost\"}", 0.0),
        ])?;
        reading.has_some(&[
            "sortie_lease_remaining_seconds",
            "sortie_queue_oldest_age_seconds",
        ])
    })
    .await?;
    let left = reading.get("sortie_lease_remaining_seconds")?;
    ensure!(left <= 10.0, "{left}");
    drop(stream);
    client.cancel(&run.id.to_string()).await?;
    until(&client, |reading| {
        reading.has_all(&[
            ("sortie_queue_depth", 0.0),
            ("sortie_runs_finished_total{status=\"succeeded\"}", 2.0),
            ("sortie_queue_oldest_age_seconds", 0.0),
            ("sortie_streams_open", 0.0),
        ])
    })
    .await?;
    Ok(())
}

/// Returns the number of reads of events for waiting streams, and the sum of their ages.
fn read_lag(reading: &Reading) -> Result<(f64, f64)> {
    let of = |part: &str| reading.get(&format!("sortie_event_read_lag_seconds_{part}"));
    Ok((of("count")?, of("sum")?))
}

/// The lag is measured on the node that serves the stream; replayed events do not count.
#[tokio::test]
async fn how_late_events_come_through_another_node_is_measured_there() -> Checked {
    // Each with a different output: a run that only repeats itself is asked for its answer.
    let call = |n: u32| Turn::calls("shell", json!({"command": format!("sleep 0.2; echo {n}")}));
    let first_call = call(0).held();
    // Far more than the required reads, as one read may return the events of several calls.
    let calls = std::iter::once(first_call).chain((1..=12).map(call));
    let turns = calls.chain([Turn::says(["done"])]);
    let first = Scripted::start(Database::Postgres, turns).await?;
    let here = first.node.client()?;
    let id = here.create_id(&plain("Say one.")).await?;
    let mut stream = here.follow(&id, None).await?;
    stream.until_status(RunStatus::Running).await?;
    // The run is on the first node, because there was no other when it began.
    let second = first.node.beside().await?;
    let there = second.client()?;
    let mut elsewhere = there.follow(&id, None).await?;
    first.model.release();
    let (_, done) = elsewhere.to_done().await?;
    assert_eq!(done.status, RunStatus::Succeeded);
    let reading = until(&there, |reading| {
        ensure!(read_lag(reading)?.0 >= 5.0, "too few in\n{}", reading.text);
        Ok(())
    })
    .await?;
    let (count, sum) = read_lag(&reading)?;
    ensure!(sum > 0.0 && sum < count * 2.0, "{sum} s in {count}");

    stream.to_done().await?;
    there.finished(&id).await?;
    there.follow(&id, Some(3)).await?.to_done().await?;
    let followed = "sortie_http_requests_total{method=\"GET\",route=\"/v1/runs/{id}/events\",status=\"2xx\"}";
    let reading = until(&there, |reading| reading.has_all(&[(followed, 3.0)])).await?;
    assert_eq!(read_lag(&reading)?.0, count);
    let reading = until(&here, |reading| reading.has_all(&[(followed, 1.0)])).await?;
    // The events come from the worker. A read of the store may happen between a commit and the hand-over of its events.
    let (few, _) = read_lag(&reading)?;
    ensure!(few <= 1.0, "{few} reads");
    Ok(())
}

#[tokio::test]
async fn requests_over_a_quota_are_counted_by_whose_it_was() -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_RATE_LIMIT_PER_MINUTE", "1")
        .env("SORTIE_ANONYMOUS_RATE_LIMIT_PER_MINUTE", "1");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    // At least one of three is refused, even if a new minute begins between them.
    for _ in 0..3 {
        client.get("/v1/me").await?;
        client.anonymous().get("/v1/models").await?;
    }
    let reading = Reading::of(&client).await?;
    for quota in ["key", "network"] {
        let refused = reading.get(&format!("sortie_rate_limit_refusals_total{{quota=\"{quota}\"}}"))?;
        ensure!((1.0..=2.0).contains(&refused), "{quota}: {refused}");
    }
    ensure!(
        reading.has("sortie_http_requests_total{method=\"GET\",route=\"none\",status=\"4xx\"}"),
        "{}",
        reading.text
    );
    Ok(())
}

#[tokio::test]
async fn a_node_writes_its_figures_once_a_second_however_often_it_is_asked() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let (began, mut texts) = (Instant::now(), std::collections::BTreeSet::new());
    for _ in 0..50 {
        texts.insert(Reading::of(&client).await?.text);
        // It changes the figures.
        client.get("/v1/me").expect(200).await?;
    }
    let most = began.elapsed().as_secs() + 1;
    ensure!(
        texts.len() as u64 <= most,
        "{} texts in {:?}",
        texts.len(),
        began.elapsed()
    );
    Ok(())
}

/// Longer than any read takes that does not wait for the lock.
const LOCKED: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_database_that_does_not_answer_leaves_the_rest_to_read() -> Checked {
    let (node, client) = started(Database::Postgres).await?;
    let is_up = |reading: &Reading| reading.has_all(&[("sortie_store_up", 1.0)]);
    let before = until(&client, is_up).await?;
    ensure!(before.has("sortie_callbacks_waiting"), "{}", before.text);
    let watching = async {
        let look = async || {
            let began = Instant::now();
            let reading = Reading::of(&client).await?;
            ensure!(began.elapsed() < LOCKED / 2, "{:?}", began.elapsed());
            Ok(reading)
        };
        let is_down = |reading: &Reading| reading.has_all(&[("sortie_store_up", 0.0)]).is_ok();
        let reading = sortie_testkit::until("the lock to be noticed", look, is_down).await;
        // The lock has served its purpose: end its session.
        node.meddle(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()",
        )
        .await?;
        reading
    };
    let (_broken_off, reading) = tokio::join!(node.lock_table("delivery", LOCKED), watching);
    let reading = reading?;
    for gone in [
        "sortie_callbacks_waiting",
        "sortie_queue_depth",
        "sortie_lease_remaining_seconds",
    ] {
        ensure!(!reading.has(gone), "{gone} is not known");
    }
    reading.get("sortie_runs_at_work")?;
    reading.get("sortie_store_commit_seconds_count")?;
    reading.get("process_open_fds")?;
    until(&client, is_up).await?;
    Ok(())
}

#[tokio::test]
async fn on_a_listener_of_its_own_the_api_does_not_have_it() -> Checked {
    let options = NodeOptions::default().env("SORTIE_METRICS_LISTEN", "127.0.0.1:0");
    let (node, client) = started_with(Database::Sqlite, options).await?;
    client.get("/metrics").refused("not_found").await?;
    let own = own_listener(&node)?;
    let reading = Reading::of(&own).await?;
    assert_eq!(reading.get("sortie_ready")?, 1.0);
    own.get("/v1/me").refused("not_found").await?;
    own.get("/healthz").refused("not_found").await?;
    own.post_empty("/metrics").refused("method_not_allowed").await?;
    Ok(())
}

/// A client of the listener that the log names.
fn own_listener(node: &Node) -> Result<Client> {
    let log = node.log();
    let address = log
        .lines()
        .filter(|line| line.contains("listening for /metrics"))
        .find_map(|line| Some(line.split_once("address=")?.1.trim()))
        .with_context(|| format!("no listener in\n{log}"))?;
    Ok(Client::new(address.parse()?, None))
}
