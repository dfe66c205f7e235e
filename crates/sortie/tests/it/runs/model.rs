//! Runs with a model over HTTP: its requests, the cost of its answers, and the effect of its failures
//! (`docs/design/MODELS.md#how-a-call-goes`).

use std::{io::Write as _, time::Instant};

use sortie_api::{Micros, RunUsage};
use sortie_testkit::{ScriptedModel, http::StatusCode, model::Turn, sse::Item};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::prelude::*;

both_databases![
    a_run_costs_what_its_provider_counts,
    an_expensive_model_ends_the_run_within_its_budget,
    the_effort_and_the_files_of_a_run_reach_its_model,
    the_cost_grows_while_the_run_runs,
    a_cancelled_run_costs_what_its_events_show,
];

/// A node with the default model `scripted`, at 3 and 15 dollars a million tokens.
pub(crate) struct Scripted {
    pub(crate) node: Node,
    pub(crate) model: ScriptedModel,
    _config: NamedTempFile,
}

impl Scripted {
    pub(crate) async fn start(database: Database, script: impl IntoIterator<Item = Turn>) -> Result<Self> {
        Self::start_with(database, script, NodeOptions::default()).await
    }

    /// Starts a node with options, and a scripted model for it.
    pub(crate) async fn start_with(
        database: Database,
        script: impl IntoIterator<Item = Turn>,
        options: NodeOptions,
    ) -> Result<Self> {
        let model = ScriptedModel::start(script).await?;
        let (node, config) = node_of_with(database, ("openai-chat", &model.base_url()), options).await?;
        Ok(Self {
            node,
            model,
            _config: config,
        })
    }
}

/// A node with the default model `scripted` at `base_url`, at 3 and 15 dollars a million tokens, and its configuration
/// file.
pub(crate) async fn node_of(database: Database, base_url: &str) -> Result<(Node, NamedTempFile)> {
    node_of_with(database, ("openai-chat", base_url), NodeOptions::default()).await
}

/// Starts a node with options, with the protocol and the address of the provider.
pub(crate) async fn node_of_with(
    database: Database,
    (api, base_url): (&str, &str),
    options: NodeOptions,
) -> Result<(Node, NamedTempFile)> {
    let mut config = NamedTempFile::new()?;
    write!(
        config,
        "default_model = \"scripted\"\n[providers.test]\napi = \"{api}\"\nbase_url = \"{base_url}\"\n\
         api_key = \"{KEY}\"\n[models.scripted]\nprovider = \"test\"\nupstream = \"up-stream\"\n\
         context_window = 100000\nmax_output_tokens = 4096\ninput_micros_per_mtok = 3000000\n\
         output_micros_per_mtok = 15000000\ncapabilities = [\"tools\", \"structured_output\", \"thinking\"]\neffort = \"low\"\n",
    )?;
    let file = config
        .path()
        .to_str()
        .context("a path that is no text")?
        .to_owned();
    let node = node_with(database, options.env("SORTIE_CONFIG", &file)).await?;
    Ok((node, config))
}

const KEY: &str = "sk-planted-7f3a91c2";

fn micros(amount: u64) -> Micros {
    Micros::new(amount).unwrap_or_default()
}

async fn the_effort_and_the_files_of_a_run_reach_its_model(database: Database) -> Checked {
    let rig = Scripted::start(database, [Turn::says(["One."]), Turn::says(["Two."])]).await?;
    let client = rig.node.client()?;
    let request = json!({"prompt": "Look.", "effort": "high", "fallback_model": "runbook",
        "files": [{"path": "in/data.csv", "content": "a,b\n1,2\n"}]});
    client.complete(&request).await?;
    client.complete(&plain("Look.")).await?;
    let requests = rig.model.requests();
    let efforts: Vec<_> = requests
        .iter()
        .map(|sent| sent["reasoning_effort"].clone())
        .collect();
    // The second run sets none, so that of the model's settings applies.
    assert_eq!(efforts, [json!("high"), json!("low")]);
    let first = requests[0]["messages"][1]["content"].to_string();
    assert_contains!(first, "in/data.csv", "8 bytes");
    Ok(())
}

async fn a_run_costs_what_its_provider_counts(database: Database) -> Checked {
    let call = Turn::calls("write_file", json!({"path": "note.txt", "content": "ä"}))
        .and_calls("list_files", json!({}))
        .using(1_000, 100);
    let rig = Scripted::start(database, [call, Turn::says(["It is ", "done."]).using(2_001, 7)]).await?;
    let (events, run) = rig.node.client()?.complete(&plain("Write a note.")).await?;
    assert_ended!(run, Succeeded, "It is done.");
    let calls: Vec<Value> = of_kind(&events, "model_call").into_iter().map(data).collect();
    let costs: Vec<_> = calls.iter().map(|call| call["cost_micros"].clone()).collect();
    assert_eq!(costs, [json!(3_000 + 1_500), json!(6_003 + 105)]);
    assert_eq!(run.cost_micros, micros(4_500 + 6_108));
    let usage = RunUsage {
        input_tokens: 3_001,
        output_tokens: 107,
        model_calls: 2,
        tool_calls: 2,
        ..RunUsage::default()
    };
    assert_eq!(run.usage, Some(usage));
    ensure!(!run.billing_pending);
    assert_eq!(
        (&calls[0]["stop_reason"], &calls[1]["stop_reason"]),
        (&json!("tool_use"), &json!("end_turn"))
    );
    let tools: Vec<Value> = of_kind(&events, "tool_end").into_iter().map(data).collect();
    ensure!(
        tools.len() == 2 && tools.iter().all(|tool| tool["is_error"] == false),
        "{tools:?}"
    );

    let requests = rig.model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0]["model"], "up-stream");
    let messages = requests[1]["messages"].as_array().context("no messages")?;
    let roles: Vec<_> = messages
        .iter()
        .filter_map(|message| message["role"].as_str())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
    ensure!(messages[1]["content"].to_string().contains("Write a note."));
    assert_contains!(messages[4]["content"], "note.txt");
    Ok(())
}

#[tokio::test]
async fn an_overloaded_or_broken_model_is_called_again_and_each_retry_is_an_event() -> Checked {
    let script = [
        Turn::fails(StatusCode::TOO_MANY_REQUESTS, Some(0)),
        Turn::says(["half an ans", "wer"]).cut_after(2),
        Turn::fails(StatusCode::SERVICE_UNAVAILABLE, None),
        Turn::says(["Whole."]).using(10, 2),
    ];
    let rig = Scripted::start(Database::Sqlite, script).await?;
    let (events, run) = rig.node.client()?.complete(&plain("Go.")).await?;
    assert_ended!(run, Succeeded, "Whole.");
    let retries: Vec<Value> = of_kind(&events, "retry").into_iter().map(data).collect();
    let attempts: Vec<_> = retries.iter().map(|retry| retry["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(2), json!(3), json!(4)]);
    ensure!(
        retries[0]["reason"].to_string().contains("429") && retries[2]["reason"].to_string().contains("503"),
        "{retries:?}"
    );
    assert_eq!(rig.model.requests().len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_refused_request_fails_the_run_at_once_in_the_providers_words_without_the_key() -> Checked {
    let rig = Scripted::start(Database::Sqlite, [Turn::fails(StatusCode::UNAUTHORIZED, None)]).await?;
    let (events, run) = rig.node.client()?.complete(&plain("Go.")).await?;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.unwrap_or_default();
    ensure!(error.contains("401") && error.contains("as scripted"), "{error}");
    ensure!(of_kind(&events, "retry").is_empty() && rig.model.requests().len() == 1);
    ensure!(!rig.node.log().contains(KEY), "the key is in the log");
    Ok(())
}

/// The first calls fit; the rest of the budget is then too small for another one.
async fn an_expensive_model_ends_the_run_within_its_budget(database: Database) -> Checked {
    // The model keeps calling tools, even when it is asked for its answer.
    let turn = || Turn::says(["As far as I came."]).and_calls("list_files", json!({}));
    let turns = (0..50).map(|_| turn().using(300, 120));
    let rig = Scripted::start(database, turns).await?;
    for budget in [30_000_u64, 31_234, 45_001] {
        let request = json!({"prompt": "Go.", "shell": false, "max_cost_micros": budget});
        let (events, run) = rig.node.client()?.complete(&request).await?;
        assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
        assert_eq!(run.output.as_deref(), Some("As far as I came."));
        let spent: u64 = of_kind(&events, "model_call")
            .into_iter()
            .filter_map(|call| data(call)["cost_micros"].as_u64())
            .sum();
        assert_eq!(
            run.cost_micros,
            micros(spent),
            "the cost is what the calls cost, to the microdollar"
        );
        ensure!(spent <= budget && spent > 0, "{spent} of {budget}");
        let order = kinds(&events);
        ensure!(order.contains(&"answer_requested"), "{order:?}");
        for request in rig.model.requests() {
            let most = request["max_tokens"].as_u64().context("no max_tokens")?;
            ensure!(
                most * 15 <= budget,
                "an answer of {most} tokens could cost more than {budget}"
            );
        }
    }
    Ok(())
}

async fn the_cost_grows_while_the_run_runs(database: Database) -> Checked {
    let script = [
        Turn::calls("list_files", json!({})).using(1_000, 1),
        Turn::says(["Late."])
            .using(1_000, 0)
            .after(Duration::from_mins(10)),
    ];
    let rig = Scripted::start(database, script).await?;
    let client = rig.node.client()?;
    let run = client
        .create(&json!({"prompt": "Go.", "timeout_seconds": 900}))
        .await?;
    let mut stream = client.follow(&run.id.to_string(), None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    let seen = client.run(&run.id.to_string()).await?;
    assert_eq!(
        (seen.status, seen.cost_micros),
        (RunStatus::Running, micros(3_015))
    );
    client.cancel(&run.id.to_string()).await?;
    let (_, ended) = stream.to_done().await?;
    assert_eq!(ended.status, RunStatus::Cancelled);
    Ok(())
}

/// `docs/RUNS.md#what-the-events-say-of-the-cost`: the call in progress is an event after the cancellation.
async fn a_cancelled_run_costs_what_its_events_show(database: Database) -> Checked {
    for (nth, zero_data_retention) in [false, true].into_iter().enumerate() {
        let script = [
            Turn::calls("list_files", json!({})).using(1_000, 1),
            Turn::says(["Late."])
                .using(1_000, 0)
                .after(Duration::from_mins(10)),
        ];
        let options = NodeOptions::default()
            .env("SORTIE_COMPUTE_MICROS_PER_SECOND", "1000")
            .env("SORTIE_NODE_NAME", &format!("node-{nth}"));
        let rig = Scripted::start_with(database, script, options).await?;
        let client = rig.node.client()?;
        let request = json!({"prompt": "Go.", "timeout_seconds": 900, "max_cost_micros": 2_000_000,
            "zero_data_retention": zero_data_retention});
        let created = Instant::now();
        let id = client.create_id(&request).await?;
        let mut open = client.follow(&id, None).await?;
        open.until(|event| event.kind == "tool_end").await?;
        rig.model.asked(2).await?;
        client.cancel(&id).await?;
        let until_cancelled = created.elapsed().as_micros();
        let (_, done) = open.to_done().await?;
        assert_eq!(done.status, RunStatus::Cancelled);
        let run = settled(&client, &id).await?;
        let (events, done) = client.finished(&id).await?;
        assert_eq!(done.cost_micros, run.cost_micros);
        assert_eq!(statuses(&events).last(), Some(&RunStatus::Cancelled));
        let calls = of_kind(&events, "model_call");
        let given_up = events.last().context("no event")?;
        assert_eq!(
            (calls.len(), data(given_up)["stop_reason"].as_str()),
            (2, Some("given_up"))
        );
        let usage = run.usage.context("no usage")?;
        assert_eq!(usage.model_calls, 2);
        let shown: i64 = calls
            .iter()
            .filter_map(|call| data(call)["cost_micros"].as_i64())
            .sum();
        ensure!(shown > 3_015, "{shown}");
        let (begun, ended) = (
            run.started_at.context("no start")?,
            run.finished_at.context("no end")?,
        );
        // On SQLite there is only the clock of the node, so the displayed time is the charged time: to a millisecond,
        // which costs a micro, because times are displayed in milliseconds.
        let time = (ended.as_micros() - begun.as_micros() + 999) / 1_000;
        let cost = run.cost_micros.get();
        match database {
            Database::Sqlite => ensure!(cost.abs_diff(shown + time) <= 1, "{cost} for {shown} and {time}"),
            // PostgreSQL's own clock reading is between the request and the answer to the cancel.
            Database::Postgres => {
                let most = shown + i64::try_from(until_cancelled)? / 1_000 + 1;
                ensure!(
                    (shown..=most).contains(&cost),
                    "{cost} for {shown} and at most {most}"
                );
            }
        }
        // A stream that begins after the cancellation has the remaining events.
        let behind = given_up.id - 1;
        let (rest, _) = client.follow(&id, Some(behind)).await?.to_done().await?;
        assert_eq!(kinds(&rest), ["model_call"]);
        let json = client.with_header("accept", "application/json");
        let path = format!("/v1/runs/{id}/events?after={behind}");
        let array: Vec<sortie_api::Event> = json.get(&path).read(200).await?;
        assert_eq!(kinds(&array), ["model_call"]);
    }
    Ok(())
}

/// The stream of a run with the model's deltas. The model answers once the stream is open, because only connected
/// clients get a delta.
async fn with_deltas(rig: &Scripted, run: &str) -> Result<String> {
    let mut socket = TcpStream::connect(rig.node.address()?).await?;
    // An HTTP/1.0 client gets the body unchunked.
    let request = format!(
        "GET /v1/runs/{run}/events?deltas=true HTTP/1.0\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        rig.node.key()
    );
    socket.write_all(request.as_bytes()).await?;
    let mut answer: Vec<u8> = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("\r\n\r\n: connected\n") {
        ensure!(
            socket.read_buf(&mut answer).await? > 0,
            "no stream: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    rig.model.release();
    socket.read_to_end(&mut answer).await?;
    let answer = String::from_utf8(answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(
        head.lines().next().is_some_and(|line| line.contains(" 200")),
        "{head}"
    );
    Ok(body.to_owned())
}

/// `docs/RUNS.md#follow`: `?deltas=true`.
#[tokio::test]
async fn the_text_comes_live_as_message_deltas_without_an_id() -> Checked {
    let pieces = ["The ", "answer ", "is \u{2028}42."];
    let rig = Scripted::start(Database::Sqlite, [Turn::says(pieces).held()]).await?;
    let client = rig.node.client()?;
    let run = client.create(&plain("Go.")).await?;
    let raw = with_deltas(&rig, &run.id.to_string()).await?;
    let mut parser = sortie_testkit::Parser::default();
    let mut written = String::new();
    let mut last_step = None;
    for item in parser.push(raw.as_bytes()) {
        let Item::Message(message) = item else { continue };
        if message.event == "message_delta" {
            let piece: Value = serde_json::from_str(&message.data)?;
            written += piece["text"].as_str().context("no text")?;
            last_step = piece["step"].as_u64();
        }
    }
    assert_eq!(
        (written.as_str(), last_step),
        ("The answer is \u{2028}42.", Some(1))
    );
    for block in raw
        .split("\n\n")
        .filter(|block| block.contains("event: message_delta"))
    {
        ensure!(!block.lines().any(|line| line.starts_with("id:")), "{block}");
    }
    let recorded = client.get(&format!("/v1/runs/{}/events", run.id)).await?.text();
    ensure!(!recorded.contains("message_delta"), "pieces are not recorded");
    let refused = client
        .get(&format!("/v1/runs/{}/events?deltas=1", run.id))
        .await?;
    assert_eq!(
        refused.refused("invalid_request")?.error,
        "deltas: must be true or false"
    );
    Ok(())
}

#[tokio::test]
async fn an_answer_that_does_not_match_the_schema_is_corrected_in_the_conversation() -> Checked {
    let script = [
        Turn::says(["{\"n\": \"one\"}"]),
        Turn::says(["```json\n{\"n\": 1}\n```"]),
    ];
    let rig = Scripted::start(Database::Sqlite, script).await?;
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let request = json!({"prompt": "Count.", "output_schema": schema});
    let (events, run) = rig.node.client()?.complete(&request).await?;
    assert_ended!(run, Succeeded, "{\"n\": 1}");
    assert_eq!(of_kind(&events, "output_rejected").len(), 1);
    let requests = rig.model.requests();
    let first = requests[0]["messages"][1]["content"].to_string();
    ensure!(first.contains("<output_schema>"), "{first}");
    let last = requests[1]["messages"]
        .as_array()
        .and_then(|all| all.last())
        .context("no message")?;
    ensure!(
        last["role"] == "user" && last["content"].to_string().contains("output.n"),
        "{last}"
    );
    Ok(())
}
