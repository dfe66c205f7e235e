//! kill -9 while runs call models and other people's APIs: no completed call is made again, no call in doubt is made twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use axum::{Router, extract::Path, extract::State, routing::post};
use serde_json::{Value, json};
use sortie_api::RunStatus;
use sortie_testkit::{Client, Database, Node, client::data, http::Method, model::Turn, serve::Serving};

use crate::{Checked, both_databases, kit::of_kind, node, runs::model::Scripted};

both_databases![
    no_call_with_an_effect_is_made_twice_when_the_node_is_killed,
    a_killed_run_needs_only_the_model_calls_that_were_not_complete,
];

/// Runs that call at once.
const RUNS: usize = 24;
/// Times that the node is killed.
const KILLS: u32 = 3;

/// How often each path was posted to.
type Counts = Arc<Mutex<BTreeMap<String, u32>>>;

/// A service whose every POST counts, after a time in which the caller may die.
async fn counter() -> Result<(Serving, Counts)> {
    let counts = Counts::default();
    let count = |State(counts): State<Counts>, Path(path): Path<String>| async move {
        *counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(path)
            .or_default() += 1;
        tokio::time::sleep(Duration::from_millis(30)).await;
        "counted"
    };
    let router = Router::new()
        .route("/api/{*path}", post(count).get(|| async { "read" }))
        .with_state(Arc::clone(&counts));
    Ok((Serving::start(router).await?, counts))
}

/// Saves the service as the connection `counter`.
async fn connect(client: &Client, service: &Serving) -> Checked {
    let definition = json!({"type": "http", "url": format!("{}/api", service.base_url())});
    let body = serde_json::to_vec(&definition)?;
    client
        .send(Method::PUT, "/v1/connections/counter", body.into())
        .await?
        .expect(201)?;
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
    let (service, counts) = counter().await?;
    let mut node = node(database).await?;
    connect(&node.client()?, &service).await?;
    let mut ids = Vec::new();
    for kill in 0..KILLS {
        let client = node.client()?;
        for n in 0..RUNS {
            let run = client.create(&caller(kill as usize * RUNS + n)).await?;
            ids.push(run.id.to_string());
        }
        // The moment of the kill is the test.
        tokio::time::sleep(Duration::from_millis(40 + 35 * u64::from(kill))).await;
        node.kill()?;
        node.restart().await?;
    }
    let client = node.client()?;
    let (mut succeeded, mut in_doubt) = (0, 0);
    for id in &ids {
        let (events, run) = client.finished(id).await?;
        match run.status {
            RunStatus::Succeeded => {
                assert_eq!(run.output.as_deref(), Some("all done"));
                succeeded += 1;
            }
            RunStatus::Interrupted => {
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
            status => anyhow::bail!("{id}: {status}: {:?}", run.error),
        }
    }
    println!(
        "{}: {succeeded} succeeded, {in_doubt} with a call in doubt",
        database.as_str()
    );
    ensure!(in_doubt > 0, "no run was killed in a call");
    ensure!(succeeded > 0, "no run went on");
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let twice: Vec<_> = counts
        .iter()
        .filter(|(path, count)| path.starts_with("once/") && **count > 1)
        .collect();
    ensure!(twice.is_empty(), "made twice: {twice:?}");
    Ok(())
}

/// Ten runs, each killed in the second of three model calls: each needs the interrupted call again, and the third.
async fn a_killed_run_needs_only_the_model_calls_that_were_not_complete(database: Database) -> Checked {
    const AT_ONCE: usize = 10;
    let looks = || Turn::calls("list_files", json!({})).using(1_000, 10);
    let long = || looks().after(Duration::from_mins(5));
    let script = [
        vec![looks(); AT_ONCE],
        vec![long(); AT_ONCE],
        vec![looks(); AT_ONCE],
        vec![Turn::says(["Done."]).using(1_000, 10); AT_ONCE],
    ];
    let mut rig = Scripted::start(database, script.concat()).await?;
    let client = rig.node.client()?;
    let mut ids = Vec::new();
    for _ in 0..AT_ONCE {
        let run = client
            .create(&json!({"prompt": "Look around.", "shell": false}))
            .await?;
        ids.push(run.id.to_string());
    }
    while rig.model.requests().len() < 2 * AT_ONCE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for id in &ids {
        recorded_first_step(&rig.node, id).await?;
    }
    rig.node.kill()?;
    rig.node.restart().await?;
    let client = rig.node.client()?;
    for id in &ids {
        let (events, run) = client.finished(id).await?;
        assert_eq!(
            (run.status, run.output.as_deref()),
            (RunStatus::Succeeded, Some("Done."))
        );
        let resumed: Vec<Value> = of_kind(&events, "resumed").into_iter().map(data).collect();
        assert_eq!(resumed, [json!({"step": 1, "attempt": 2})]);
        // Three whole calls, and half of what the interrupted one would have read.
        let whole = 3 * (3_000 + 150);
        ensure!(run.cost_micros.get() > whole, "{run:?}");
    }
    assert_eq!(rig.model.requests().len(), 4 * AT_ONCE);
    assert_eq!(rig.model.left(), 0);
    Ok(())
}

/// Waits until the first step of a run is in its events, and so in its journal.
async fn recorded_first_step(node: &Node, id: &str) -> Checked {
    let mut stream = node.client()?.follow(id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    Ok(())
}
