//! Fifty runs that are killed while each waits for the second of three slow model calls: the number of calls until they end, and
//! the time in addition to these calls.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use tokio::time::sleep;

use crate::{
    Bench,
    connection::Connection,
    memory::some_with,
    model::{ModelServer, calls, request},
    report::Report,
    run::Run,
    samples::Millis,
};

const RUNS: u64 = 50;
/// Duration of each model call.
const SLOW: Duration = Duration::from_secs(6);

pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("resumed runs") {
        return Ok(());
    }
    let model = ModelServer::start().await?;
    let mut node = model.node(bench).await?;
    let mut connection = Connection::to(&node)?;
    let prompt = request(&format!("wait-for-{} tools-to-call-2", SLOW.as_millis()));
    let before = calls();
    let mut ids = Vec::new();
    for _ in 0..RUNS {
        let run: Run = connection
            .call(Method::POST, "/v1/runs", prompt.clone(), 202)
            .await?;
        ids.push(run.id);
    }
    while calls() < before + 2 * RUNS {
        sleep(Duration::from_millis(10)).await;
    }
    // The second call of every run is in progress.
    sleep(SLOW / 2).await;
    node.kill()?;
    let before = calls();
    let killed = Instant::now();
    let restart = node.restart().await?;
    let mut connection = Connection::to(&node)?;
    while some_with(&mut connection, "running").await? || some_with(&mut connection, "starting").await? {
        sleep(Duration::from_millis(5)).await;
    }
    let took = killed.elapsed();
    for id in ids {
        let run: Run = connection
            .call(Method::GET, &format!("/v1/runs/{id}"), Bytes::new(), 200)
            .await?;
        ensure!(run.status == sortie_api::RunStatus::Succeeded, "{run:?}");
    }
    report.add(
        "50 resumed runs, killed in the second of three 6 s model calls: further calls",
        (calls() - before).to_string(),
    );
    report.add("… restart to the first 200", Millis(restart).to_string());
    report.add(
        "… all done, from the kill, beyond the 12 s of two calls",
        Millis(took.saturating_sub(2 * SLOW)).to_string(),
    );
    Ok(())
}
