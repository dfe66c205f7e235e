//! Traces as a collector receives them, from the client's own span to the callback.

use std::io::Write as _;

use sortie_testkit::{CallbackReceiver, ScriptedModel, model::Turn, prelude::*};
use tempfile::NamedTempFile;

use crate::collector::{Collector, Trace};

const SECRET: &str = "shared";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn options(collector: &Collector) -> NodeOptions {
    NodeOptions::default()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collect")
        .env("OTEL_SERVICE_NAME", "sortie-test")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
}

/// A client that sends its requests as part of the trace of the test.
fn traced(client: &Client, flags: &str) -> Result<Client> {
    let parent = HeaderValue::from_str(&format!("00-{TRACE}-{PARENT}-{flags}"))?;
    Ok(client
        .with_header("traceparent", parent)
        .with_header("tracestate", "vendor=mark-state-11"))
}

async fn node(database: Database, options: NodeOptions) -> Result<Node> {
    Node::start_with(env!("CARGO_BIN_EXE_sortie"), database, options).await
}

fn attributes(span: &Value, expected: &Value) -> Result<()> {
    for (name, value) in expected.as_object().into_iter().flatten() {
        ensure!(span["attributes"][name] == *value, "{name} of {span:#}");
    }
    Ok(())
}

/// A model with a name and prices, in a configuration file.
fn configured(model: &ScriptedModel) -> Result<NamedTempFile> {
    let mut config = NamedTempFile::new()?;
    write!(
        config,
        "default_model = \"scripted\"\n[providers.test]\napi = \"openai-chat\"\nbase_url = \"{}\"\n\
         [models.scripted]\nprovider = \"test\"\ncontext_window = 100000\nmax_output_tokens = 4096\n\
         free = true\ncapabilities = [\"tools\"]\n",
        model.base_url()
    )?;
    Ok(config)
}

#[tokio::test]
async fn a_request_is_one_trace_from_its_client_to_its_callback_on_sqlite() -> Result<()> {
    one_trace(Database::Sqlite).await
}

#[tokio::test]
async fn a_request_is_one_trace_from_its_client_to_its_callback_on_postgres() -> Result<()> {
    one_trace(Database::Postgres).await
}

async fn one_trace(database: Database) -> Result<()> {
    let (collector, receiver) = (Collector::start()?, CallbackReceiver::start(SECRET).await?);
    let call = Turn::calls("shell", json!({"command": "echo hello"})).using(17, 5);
    let model = ScriptedModel::start([call, Turn::says(["done"]).using(20, 2)]).await?;
    let config = configured(&model)?;
    let file = config.path().to_str().context("a path that is no text")?;
    let node = node(database, options(&collector).env("SORTIE_CONFIG", file)).await?;
    let client = traced(&node.client()?, "01")?;
    let request = json!({"prompt": "Say hello.", "callback": {"url": receiver.url(), "secret": SECRET}});
    let run = client.create_id(&request).await?;
    let delivered = receiver.wait_for(&run, 1).await?;
    let is_whole = |trace: &Trace| {
        let last = ["POST /v1/runs", "invoke_agent", "callback.deliver"];
        last.iter().all(|name| !trace.named(name).is_empty())
    };
    let trace = collector.spans(TRACE, is_whole).await?;

    let request = trace.one("POST /v1/runs")?;
    assert_eq!(
        (&request["parent_span_id"], &request["kind"]),
        (&PARENT.into(), &"server".into())
    );
    attributes(
        request,
        &json!({"http.request.method": "POST", "http.route": "/v1/runs", "http.response.status_code": 202}),
    )?;
    its_run(&trace, request, &run)?;
    let deliver = trace.one("callback.deliver")?;
    its_callback(deliver, request, &run)?;
    // The receiver continues the trace of the delivery, with the headers of the client's tracing system.
    let headers = &delivered[0].headers;
    let parent = format!(
        "00-{TRACE}-{}-01",
        deliver["span_id"].as_str().unwrap_or_default()
    );
    assert_eq!(headers["traceparent"], parent);
    assert_eq!(headers["tracestate"], "vendor=mark-state-11");
    for span in &trace.0 {
        assert_eq!(span["resource"]["service.name"], "sortie-test");
        assert_eq!(span["resource"]["deployment.environment.name"], "test");
        assert_eq!((&span["status"], &span["events"]), (&"unset".into(), &json!([])));
    }
    for request in collector.requests() {
        assert_eq!(request["path"], "/v1/traces");
        assert_eq!(request["headers"]["authorization"], "Bearer collect");
    }
    Ok(())
}

/// The queue, the worker, the model and the tool, below the request.
fn its_run(trace: &Trace, request: &Value, run: &str) -> Result<()> {
    let own = &request["span_id"];
    let claim = trace.one("run.claim")?;
    assert_eq!(&claim["parent_span_id"], own);
    ensure!(
        claim["start"].as_u64() <= request["end"].as_u64()
            && claim["end"].as_u64() >= claim["start"].as_u64(),
        "the queue: {claim:#}"
    );
    ensure!(
        claim["attributes"].get("sortie.began_at_micros").is_none(),
        "{claim:#}"
    );
    let execute = trace.one("invoke_agent")?;
    assert_eq!(&execute["parent_span_id"], own);
    attributes(
        execute,
        &json!({
            "gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": run, "run.id": run, "run.attempt": 1,
            "run.status": "succeeded", "gen_ai.provider.name": "test", "gen_ai.request.model": "scripted",
        }),
    )?;
    let agent = execute["span_id"].clone();
    let calls = trace.named("chat scripted");
    assert_eq!(calls.len(), 2);
    for (call, (input, output, reason)) in calls.iter().zip([(17, 5, "tool_use"), (20, 2, "end_turn")]) {
        assert_has!(call, {"parent_span_id": agent, "kind": "client"});
        attributes(
            call,
            &json!({
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "test", "gen_ai.request.model": "scripted",
                "gen_ai.usage.input_tokens": input, "gen_ai.usage.output_tokens": output,
                "gen_ai.usage.cache_read.input_tokens": 0, "run.id": run, "gen_ai.response.finish_reasons": [reason],
            }),
        )?;
    }
    let tool = trace.one("execute_tool shell")?;
    assert_has!(tool, {"parent_span_id": agent, "kind": "internal"});
    attributes(
        tool,
        &json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell", "gen_ai.tool.call.id": "call_0",
            "run.id": run, "gen_ai.conversation.id": run,
        }),
    )?;
    Ok(())
}

fn its_callback(deliver: &Value, request: &Value, run: &str) -> Result<()> {
    let own = &request["span_id"];
    assert_eq!(
        (&deliver["parent_span_id"], &deliver["kind"]),
        (own, &"client".into())
    );
    attributes(
        deliver,
        &json!({"run.id": run, "delivery.attempt": 1, "http.response.status_code": 204}),
    )?;
    Ok(())
}

#[tokio::test]
async fn a_takeover_on_another_node_goes_on_in_the_trace() -> Result<()> {
    let collector = Collector::start()?;
    let mut node = node(Database::Postgres, options(&collector)).await?;
    let client = traced(&node.client()?, "01")?;
    let request = json!({"prompt": "```wait 600000\n```\n", "timeout_seconds": 900});
    let run = client.create_id(&request).await?;
    let is_answered = |trace: &Trace| !trace.named("POST /v1/runs").is_empty();
    let first = collector.spans(TRACE, is_answered).await?;
    client.until_running(&run).await?;
    let other = node.beside().await?;
    node.kill()?;
    let client = other.client()?;
    let mut stream = client.follow(&run, None).await?;
    stream.until(|event| event.kind == "resumed").await?;
    client.cancel(&run).await?;
    let is_whole = |trace: &Trace| !trace.named("invoke_agent").is_empty();
    let trace = collector.spans(TRACE, is_whole).await?;
    // The first node's spans have no end, because it was killed.
    let execute = trace.one("invoke_agent")?;
    assert_eq!(execute["parent_span_id"], first.one("POST /v1/runs")?["span_id"]);
    attributes(
        execute,
        &json!({"run.id": run, "run.attempt": 2, "run.status": "cancelled"}),
    )?;
    Ok(())
}

#[tokio::test]
async fn what_a_client_does_not_sample_is_not_exported_and_its_callback_carries_it_on() -> Result<()> {
    let (collector, receiver) = (Collector::start()?, CallbackReceiver::start(SECRET).await?);
    let mut node = node(Database::Sqlite, options(&collector)).await?;
    let request =
        json!({"prompt": "x", "shell": false, "callback": {"url": receiver.url(), "secret": SECRET}});
    let run = traced(&node.client()?, "00")?.create_id(&request).await?;
    let delivered = receiver.wait_for(&run, 1).await?;
    let parent = delivered[0].headers["traceparent"].to_str()?;
    ensure!(
        parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-00"),
        "{parent}"
    );
    // A client that sends no trace context begins a new trace.
    let run = node.client()?.create_id(&request).await?;
    let delivered = receiver.wait_for(&run, 1).await?;
    let parent = delivered[0].headers["traceparent"].to_str()?.to_owned();
    let own = parent.get(3..35).context("no trace")?;
    node.stop().await?;
    let is_whole = |trace: &Trace| {
        let last = ["POST /v1/runs", "callback.deliver"];
        last.iter().all(|name| !trace.named(name).is_empty())
    };
    let trace = collector.spans(own, is_whole).await?;
    assert_eq!(trace.one("POST /v1/runs")?["parent_span_id"], "");
    ensure!(collector.seen(TRACE).0.is_empty(), "nobody wanted these");
    ensure!(
        collector
            .all()
            .iter()
            .all(|span| !span.to_string().contains("readyz")),
        "probes are no work"
    );
    Ok(())
}

#[tokio::test]
async fn the_run_of_a_schedule_begins_a_trace() -> Result<()> {
    let collector = Collector::start()?;
    let mut node = node(Database::Sqlite, options(&collector)).await?;
    let client = node.client()?;
    let workflow = Bytes::from(json!({"prompt": "done", "shell": false}).to_string());
    client.send(Method::PUT, "/v1/workflows/report", workflow).await?;
    let schedule = json!({"workflow": "report", "cron": "* * * * *", "timezone": "UTC"});
    let made = client.post("/v1/schedules", &schedule).json(201).await?;
    // As if the schedule had been made a minute ago: an occurrence is due at the start.
    node.stop().await?;
    node.meddle(
        "UPDATE schedule SET handled_instant = handled_instant - 60000000, \
         next_instant = next_instant - 60000000, due_at = due_at - 60000000",
    )
    .await?;
    node.restart().await?;
    let look = async || {
        let fires = collector.all().into_iter();
        Ok(fires
            .filter(|span| span["name"] == "schedule.fire")
            .collect::<Vec<_>>())
    };
    let fire = &until("a span of the schedule", look, |fires| !fires.is_empty()).await?[0];
    assert_eq!(
        (&fire["parent_span_id"], &fire["attributes"]["schedule.id"]),
        (&"".into(), &made["id"])
    );
    let id = fire["trace_id"].as_str().context("no trace")?;
    let trace = collector
        .spans(id, |trace| !trace.named("invoke_agent").is_empty())
        .await?;
    assert_eq!(trace.one("invoke_agent")?["parent_span_id"], fire["span_id"]);
    Ok(())
}

#[tokio::test]
async fn nothing_that_was_said_is_exported_with_and_without_retention() -> Result<()> {
    const MARKS: [&str; 7] = [
        "mark-prompt-5a1f",
        "mark-input-77c3",
        "mark-file-e09b",
        "mark-output-41d8",
        "mark-answer-b6e2",
        "mark-secret-90af",
        "mark-name-3d74",
    ];
    let [prompt, input, file, output, answer, secret, name] = MARKS;
    let (collector, receiver) = (Collector::start()?, CallbackReceiver::start(secret).await?);
    let mut node = node(Database::Sqlite, options(&collector)).await?;
    let client = traced(&node.client()?, "01")?;
    for zero_data_retention in [true, false] {
        let (head, tail) = output.split_at(6);
        let request = json!({
            "prompt": format!("{prompt}\n```sh\ncat n.txt; printf '%s%s\\n' {head} {tail}; mkdir -p outputs; echo x >outputs/{name}\n```\n```answer\n{answer}\n```\n"),
            "input": {"secret": input}, "files": [{"path": "n.txt", "content": file}],
            "zero_data_retention": zero_data_retention,
            "callback": {"url": format!("{}?token={secret}", receiver.url()), "secret": secret},
        });
        let run = client.create(&request).await?;
        let (_, run) = client.finished(&run.id.to_string()).await?;
        assert_ended!(run, Succeeded);
        let delivered = receiver.wait_for(&run.id.to_string(), 1).await?;
        // The trace state is the client's own text: it is not stored for a run without retention.
        assert_eq!(
            delivered[0].headers.contains_key("tracestate"),
            !zero_data_retention
        );
        ensure!(
            delivered[0].headers["traceparent"].to_str()?.contains(TRACE),
            "it goes on"
        );
        // The path contains a name, such as that of a file. Without retention no artifacts are kept.
        let artifact = format!("/v1/runs/{}/artifacts/{name}", run.id);
        let status = if zero_data_retention { 404 } else { 200 };
        client.get(&artifact).await?.expect(status)?;
        client.get(&format!("/v1/files/{name}")).expect(404).await?;
    }
    let key = node.key().to_owned();
    node.stop().await?;
    let artifact = "GET /v1/runs/{id}/artifacts/{*path}";
    let twice = ["callback.deliver", "execute_tool shell", artifact];
    let is_whole = |trace: &Trace| twice.iter().all(|name| trace.named(name).len() >= 2);
    let trace = collector.spans(TRACE, is_whole).await?;
    for name in twice {
        assert_eq!(trace.named(name).len(), 2, "{name}");
    }
    for span in trace.named(artifact) {
        let path = span["attributes"]["url.path"].as_str();
        ensure!(
            path.is_some_and(|path| path.ends_with("/artifacts/*")),
            "{span:#}"
        );
    }
    for request in collector.requests() {
        let sent = request.to_string();
        for mark in MARKS.into_iter().chain([key.as_str()]) {
            ensure!(!sent.contains(mark), "{mark} was exported");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_fails_says_so_and_not_why() -> Result<()> {
    let collector = Collector::start()?;
    let node = node(Database::Sqlite, options(&collector)).await?;
    let request = json!({"prompt": "```sh\necho mark-why >&2; exit 3\n```\n"});
    let (_, run) = traced(&node.client()?, "01")?.complete(&request).await?;
    assert_eq!(run.status, RunStatus::Failed);
    let is_whole = |trace: &Trace| !trace.named("invoke_agent").is_empty();
    let trace = collector.spans(TRACE, is_whole).await?;
    for (name, kind) in [
        ("execute_tool shell", "command_failed"),
        ("invoke_agent", "failed"),
    ] {
        let span = trace.one(name)?;
        assert_eq!(
            (&span["status"], &span["attributes"]["error.type"]),
            (&"error".into(), &kind.into())
        );
    }
    let sent = format!("{:?}", collector.requests());
    ensure!(!sent.contains("mark-why"), "{sent}");
    Ok(())
}
