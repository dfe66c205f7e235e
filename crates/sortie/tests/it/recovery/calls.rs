//! kill -9 while runs call models and external APIs: no completed call is repeated, and no call in doubt is made twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use parking_lot::Mutex;
use sortie_testkit::{http::Uri, model::Turn, serve::Serving};
use tokio::sync::watch;

use super::completed;
use crate::{
    prelude::*,
    runs::model::{Scripted, node_of},
};

both_databases![
    no_call_with_an_effect_is_made_twice_when_the_node_is_killed,
    a_call_that_is_under_way_at_the_last_loss_is_named_as_well,
    a_killed_run_needs_only_the_model_calls_that_were_not_complete,
];

/// Runs that call at once.
const RUNS: usize = 24;
/// Times that the node is killed.
const KILLS: u32 = 3;
/// POSTs in a round before its kill: a third of all that its runs make.
const POSTS: u32 = 32;

/// Number of posts to each path.
type Counts = BTreeMap<String, u32>;

/// A service that counts every POST, and answers after a time in which the caller may die.
async fn counter() -> Result<(Serving, watch::Receiver<Counts>)> {
    let (counts, counted) = watch::channel(Counts::default());
    let count = |State(counts): State<watch::Sender<Counts>>, uri: Uri| async move {
        counts.send_modify(|counts| *counts.entry(uri.path().to_owned()).or_default() += 1);
        tokio::time::sleep(Duration::from_millis(30)).await;
        "counted"
    };
    let router = Router::new()
        .route("/api/{*path}", post(count).get(|| async { "read" }))
        .with_state(counts);
    Ok((Serving::start(router).await?, counted))
}

fn posts(counts: &Counts) -> u32 {
    counts.values().sum()
}

/// Saves the service as the connection `counter`.
async fn connect(client: &Client, service: &Serving) -> Checked {
    let definition = json!({"type": "http", "url": format!("{}/api", service.base_url())});
    let body = serde_json::to_vec(&definition)?;
    client
        .send(Method::PUT, "/v1/connections/counter", body.into())
        .expect(201)
        .await?;
    Ok(())
}

/// A run that posts three times, reads in between, and posts once more under an idempotency key.
fn caller(n: usize) -> Value {
    let call = |arguments: Value| format!("```tool counter__request\n{arguments}\n```\n");
    let once = |step: u32| call(json!({"method": "POST", "path": format!("/once/{n}/{step}")}));
    let read = call(json!({"method": "GET", "path": "/read"}));
    let keyed =
        call(json!({"method": "POST", "path": format!("/keyed/{n}"), "idempotency_key": format!("key-{n}")}));
    let blocks = [once(1), read.clone(), once(2), read, once(3), keyed];
    json!({
        "prompt": format!("{}```answer\nall done\n```\n", blocks.concat()),
        "shell": false,
        "connections": {"counter": {"ref": "counter"}},
    })
}

async fn no_call_with_an_effect_is_made_twice_when_the_node_is_killed(database: Database) -> Checked {
    let (service, mut counted) = counter().await?;
    let mut node = node(database).await?;
    connect(&node.client()?, &service).await?;
    let mut ids = Vec::new();
    for kill in 0..KILLS {
        let client = node.client()?;
        let before = posts(&counted.borrow());
        for n in 0..RUNS {
            let run = client.create(&caller(kill as usize * RUNS + n)).await?;
            ids.push(run.id.to_string());
        }
        // Each POST takes 30 ms, so some are in progress.
        counted.wait_for(|counts| posts(counts) >= before + POSTS).await?;
        node.kill()?;
        node.restart().await?;
    }
    let client = node.client()?;
    let (mut succeeded, mut in_doubt) = (0, 0);
    for id in &ids {
        let (events, run) = client.finished(id).await?;
        if run.status == RunStatus::Succeeded {
            assert_eq!(run.output.as_deref(), Some("all done"));
            succeeded += 1;
            continue;
        }
        assert_eq!(run.status, RunStatus::Interrupted, "{id}: {:?}", run.error);
        let said = of_kind(&events, "interrupted");
        let told = data(said.last().context("no interrupted event")?);
        assert_eq!(told["reason"], "uncertain_call", "{told}");
        assert_eq!(told["tool"], "counter__request", "{told}");
        let open = told["id"].as_str().context("no id")?;
        let ended = of_kind(&events, "tool_end");
        ensure!(
            ended.iter().all(|end| data(end)["id"] != open),
            "{open} has ended"
        );
        let error = run.error.unwrap_or_default();
        ensure!(error.contains("counter__request"), "{error}");
        in_doubt += 1;
    }
    println!(
        "{}: {succeeded} succeeded, {in_doubt} with a call in doubt",
        database.as_str()
    );
    ensure!(in_doubt > 0, "no run was killed in a call");
    ensure!(succeeded > 0, "no run went on");
    let counts = counted.borrow().clone();
    let twice: Vec<_> = counts
        .iter()
        .filter(|(path, count)| path.starts_with("/api/once/") && **count > 1)
        .collect();
    ensure!(twice.is_empty(), "made twice: {twice:?}");
    Ok(())
}

/// Three resumes are used up when the call begins: the run ends and still names the call.
async fn a_call_that_is_under_way_at_the_last_loss_is_named_as_well(database: Database) -> Checked {
    let (posted, mut is_posted) = watch::channel(false);
    let never = move || {
        let posted = posted.clone();
        async move {
            posted.send_replace(true);
            std::future::pending::<()>().await;
        }
    };
    let router = Router::new().route("/api/{*path}", post(never).get(|| async { "read" }));
    let service = Serving::start(router).await?;
    let request = |method, path| Turn::calls("counter__request", json!({"method": method, "path": path}));
    // Three attempts complete a step and are lost with the node in the next answer; the fourth attempt makes the call.
    let lost = (0..3).flat_map(|_| [request("GET", "/read"), Turn::says(["never"]).held()]);
    let call = request("POST", "/never");
    let mut rig = Scripted::start(database, lost.chain([call])).await?;
    connect(&rig.node.client()?, &service).await?;
    let mut request = plain("Go.");
    request["shell"] = false.into();
    request["connections"] = json!({"counter": {"ref": "counter"}});
    let id = rig.node.client()?.create_id(&request).await?;
    for attempt in 1..=4 {
        if attempt < 4 {
            completed(&rig.node.client()?, &id, attempt).await?;
            rig.model.asked(2 * attempt).await?;
        } else {
            is_posted.wait_for(|is_posted| *is_posted).await?;
        }
        rig.node.kill()?;
        rig.node.restart().await?;
    }
    let (events, run) = rig.node.client()?.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted, "{run:?}");
    let told = data(of_kind(&events, "interrupted")[0]);
    assert_has!(told, {"reason": "uncertain_call", "tool": "counter__request"});
    assert_eq!(of_kind(&events, "resumed").len(), 3);
    Ok(())
}

/// A model that calls a tool twice and then answers. It derives the position in a conversation from the request.
#[derive(Default)]
struct TwoTools {
    /// The tool results of each request so far.
    asked: Mutex<Vec<usize>>,
    /// Whether the second call of a conversation returns.
    answers: AtomicBool,
}

impl TwoTools {
    fn asked(&self, results: usize) -> usize {
        let asked = self.asked.lock();
        asked.iter().filter(|had| **had == results).count()
    }
}

async fn answer(State(model): State<Arc<TwoTools>>, body: Bytes) -> Response {
    let results = String::from_utf8_lossy(&body)
        .matches("\"role\":\"tool\"")
        .count();
    model.asked.lock().push(results);
    if results == 1 && !model.answers.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        format!("data: {}\n\n", json!({"choices": choice}))
    };
    let (delta, reason) = if results < 2 {
        let function = json!({"name": "list_files", "arguments": "{}"});
        let id = format!("call_{results}");
        (
            json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}),
            "tool_calls",
        )
    } else {
        (json!({"content": "Done."}), "stop")
    };
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 1_000, "completion_tokens": 10}});
    let stream = [
        chunk(delta, None),
        chunk(json!({}), Some(reason)),
        format!("data: {usage}\n\ndata: [DONE]\n\n"),
    ];
    ([("content-type", "text/event-stream")], stream.concat()).into_response()
}

/// Ten runs, each killed in the second of three model calls: each repeats the interrupted call, and makes the third.
async fn a_killed_run_needs_only_the_model_calls_that_were_not_complete(database: Database) -> Checked {
    const AT_ONCE: usize = 10;
    let model = Arc::new(TwoTools::default());
    let router = Router::new()
        .route("/v1/chat/completions", post(answer))
        .with_state(Arc::clone(&model));
    let server = Serving::start(router).await?;
    let (mut node, _config) = node_of(database, &format!("{}/v1", server.base_url())).await?;
    let client = node.client()?;
    let mut ids = Vec::new();
    for _ in 0..AT_ONCE {
        let request = json!({"prompt": "Look around.", "shell": false});
        ids.push(client.create_id(&request).await?);
    }
    let look = async || Ok(model.asked(1));
    until("the second calls", look, |asked| *asked >= AT_ONCE).await?;
    for id in &ids {
        recorded_first_step(&node, id).await?;
    }
    node.kill()?;
    model.answers.store(true, Ordering::SeqCst);
    node.restart().await?;
    let client = node.client()?;
    for id in &ids {
        let (events, run) = client.finished(id).await?;
        assert_ended!(run, Succeeded, "Done.");
        let resumed: Vec<Value> = of_kind(&events, "resumed").into_iter().map(data).collect();
        assert_eq!(resumed, [json!({"step": 1, "attempt": 2})]);
        // More than three complete calls, because the interrupted one has a charge as well.
        let whole = 3 * (3_000 + 150);
        ensure!(run.cost_micros.get() > whole, "{run:?}");
    }
    assert_eq!(
        [model.asked(0), model.asked(1), model.asked(2)],
        [AT_ONCE, 2 * AT_ONCE, AT_ONCE]
    );
    Ok(())
}

/// Waits until the first step of a run is in its events, and therefore in its journal.
async fn recorded_first_step(node: &Node, id: &str) -> Checked {
    let mut stream = node.client()?.follow(id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    Ok(())
}
