//! Delay of runs if all schedules are due in the same second.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use sortie_api::{RunPage, Schedule, Timestamp};

use crate::{Bench, connection::Connection, report::Report, samples::Samples};

/// Number of schedules that are due at once: the maximum of an organization.
const SCHEDULES: usize = 1_000;

/// Minimum time to create them before they are due.
const LEAD: Duration = Duration::from_secs(25);

const MINUTE: i64 = 60_000_000;

fn schedule(cron: &str, enabled: bool) -> Bytes {
    json!({"workflow": "w", "cron": cron, "enabled": enabled})
        .to_string()
        .into()
}

/// Measures a thousand schedules of one minute: from the scheduled time until each run is recorded, and until it is started.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("schedules due at once") {
        return Ok(());
    }
    let node = bench.node().await?;
    let mut connection = Connection::to(&node)?;
    let definition = json!({"prompt": "hello"}).to_string().into();
    let _: Value = connection
        .call(Method::PUT, "/v1/workflows/w", definition, 201)
        .await?;
    let probe: Schedule = connection
        .call(Method::POST, "/v1/schedules", schedule("* * * * *", false), 201)
        .await?;
    let created_at = Instant::now();
    let path = format!("/v1/schedules/{}", probe.id);
    let due = due_after(probe.created_at + LEAD);
    let cron = format!("{} * * * *", due.as_micros() / MINUTE % 60);
    let _: Schedule = connection
        .call(Method::PATCH, &path, schedule(&cron, true), 200)
        .await?;
    for _ in 1..SCHEDULES {
        let _: Schedule = connection
            .call(Method::POST, "/v1/schedules", schedule(&cron, true), 201)
            .await?;
    }
    let (recorded, started) = lags(&mut connection, (due, created_at + due.since(probe.created_at))).await?;
    report.add(
        "1,000 schedules due at once: instant to run recorded, p50 / p99",
        recorded.to_string(),
    );
    report.add("… instant to run started, p50 / p99", started.to_string());
    Ok(())
}

/// Returns the first full minute at or after `at`.
fn due_after(at: Timestamp) -> Timestamp {
    Timestamp::from_micros((at.as_micros() + MINUTE - 1) / MINUTE * MINUTE)
}

/// Waits until every schedule has started its run, and evaluates the times of the runs. The first request comes after the runs,
/// because earlier requests would slow them down.
async fn lags(
    connection: &mut Connection,
    (due, due_at): (Timestamp, Instant),
) -> Result<(Samples, Samples)> {
    let deadline = due_at + Duration::from_mins(1);
    tokio::time::sleep_until(due_at.into()).await;
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        ensure!(Instant::now() < deadline, "not every schedule had its run");
        let (mut recorded, mut started) = (Samples::default(), Samples::default());
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/runs?limit=100{cursor}");
            let page: RunPage = connection.call(Method::GET, &path, Bytes::new(), 200).await?;
            for run in page.items {
                recorded.add(run.created_at.since(due));
                if let Some(at) = run.started_at {
                    started.add(at.since(due));
                }
            }
            if page.next_cursor.is_empty() {
                break;
            }
            cursor = format!("&cursor={}", page.next_cursor);
        }
        if started.len() == SCHEDULES {
            return Ok((recorded, started));
        }
    }
}
