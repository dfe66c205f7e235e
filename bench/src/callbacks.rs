//! Delivery of accumulated callbacks, from the moment the receiver responds again until it has received all of them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, extract::State, routing::post};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;
use sortie_testkit::serve::Serving;
use tokio::{sync::watch, task::JoinSet};

use crate::{Bench, connection::Connection, memory::some_with, report::Report, run::Run};

/// Number of runs with a callback.
const CALLBACKS: usize = 10_000;

/// Number of clients that create them.
const CLIENTS: usize = 16;

/// Time to delay a request while callbacks accumulate: less than the timeout of an attempt.
const PATIENCE: Duration = Duration::from_secs(10);

/// State of the receiver.
struct Receiver {
    taken: watch::Sender<usize>,
    answers: watch::Sender<bool>,
}

/// Accepts a callback once the receiver responds.
async fn take(State(receiver): State<Arc<Receiver>>, _body: Bytes) -> StatusCode {
    let mut answers = receiver.answers.subscribe();
    // After the delay it responds in any case.
    let _waited = tokio::time::timeout(PATIENCE, answers.wait_for(|answers| *answers))
        .await
        .is_ok();
    receiver.taken.send_modify(|taken| *taken += 1);
    StatusCode::NO_CONTENT
}

/// Measures the rate of deliveries of accumulated callbacks to one receiver on this machine.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("callbacks") {
        return Ok(());
    }
    let receiver = Arc::new(Receiver {
        taken: watch::Sender::new(0),
        answers: watch::Sender::new(false),
    });
    let router = Router::new()
        .route("/", post(take))
        .with_state(Arc::clone(&receiver));
    let server = Serving::start(router).await?;
    let node = bench.node().await?;
    let request = json!({
        "prompt": "hello",
        "callback": {"url": server.base_url() + "/", "secret": "a secret of the usual length"},
    });
    let request = Bytes::from(request.to_string());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut connection, request) = (Connection::to(&node)?, request.clone());
        clients.spawn(async move {
            for _ in 0..CALLBACKS / CLIENTS {
                let _: Run = connection
                    .call(Method::POST, "/v1/runs", request.clone(), 202)
                    .await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let mut connection = Connection::to(&node)?;
    for status in ["queued", "starting", "running"] {
        while some_with(&mut connection, status).await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let before = *receiver.taken.borrow();
    let begun = Instant::now();
    receiver.answers.send_replace(true);
    let mut taken = receiver.taken.subscribe();
    let all = taken.wait_for(|taken| *taken >= CALLBACKS);
    tokio::time::timeout(Duration::from_mins(5), all)
        .await
        .context("the callbacks do not come")??;
    let rate = f64::from(u32::try_from(CALLBACKS - before)?) / begun.elapsed().as_secs_f64();
    report.add("10,000 callbacks to one receiver", format!("{rate:.0}/s"));
    Ok(())
}
