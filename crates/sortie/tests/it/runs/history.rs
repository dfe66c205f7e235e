//! A long history, as the load program makes it: lists, usage, the audit log and the retention treat its runs like
//! others.

use sortie_api::{Run, RunPage, ScheduleId, Timestamp};
use sortie_testkit::History;

use crate::prelude::*;

both_databases![a_history_is_listed_counted_and_deleted];

/// Runs of the history.
const RUNS: u64 = 400;

async fn schedule(client: &Client) -> Result<ScheduleId> {
    let workflow = Bytes::from(plain("x").to_string());
    let put = client.send(Method::PUT, "/v1/workflows/nightly", workflow);
    ensure!(put.await?.status < 300);
    let disabled = json!({"workflow": "nightly", "cron": "@yearly", "enabled": false});
    let made = client.post("/v1/schedules", &disabled).json(201).await?;
    made["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .context("an id")
}

/// Reads a list to its end, page by page.
async fn listed(client: &Client, query: &str) -> Result<Vec<Run>> {
    let (mut runs, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/runs?limit=100&{query}{cursor}");
        let page: RunPage = client.get(&path).read(200).await?;
        runs.extend(page.items);
        if page.next_cursor.is_empty() {
            return Ok(runs);
        }
        cursor = format!("&cursor={}", page.next_cursor);
    }
}

async fn a_history_is_listed_counted_and_deleted(database: Database) -> Checked {
    let options = NodeOptions::default().env("SORTIE_RETENTION_DAYS", "0");
    let (mut node, client) = started_with(database, options).await?;
    let (_, template) = client.complete(&plain("hello")).await?;
    let schedules = [schedule(&client).await?, schedule(&client).await?];
    node.stop().await?;
    let before = i64::try_from(Duration::from_hours(12 * 24).as_micros())?;
    let history = History {
        template: template.id,
        runs: RUNS,
        first: Timestamp::from_micros(template.created_at.as_micros() - before),
        lasts: Duration::from_hours(10 * 24),
        schedules,
    };
    node.add_history(&history).await?;
    node.restart().await?;

    let client = node.client()?;
    let [first, second] = schedules;
    for (query, count) in [
        (String::new(), 401),
        ("status=failed".to_owned(), 1),
        ("status=cancelled".to_owned(), 100),
        ("tag=nightly".to_owned(), 400),
        ("tag=even&status=cancelled".to_owned(), 0),
        ("tag=rare".to_owned(), 1),
        (format!("schedule={first}"), 200),
        (format!("tag=nightly&schedule={second}"), 1),
    ] {
        assert_eq!(listed(&client, &query).await?.len(), count, "{query}");
    }
    let copy = listed(&client, "tag=rare").await?.remove(0);
    assert_eq!((copy.status, &copy.output), (template.status, &template.output));
    let events = client.finished(&copy.id.to_string()).await?.0;
    ensure!(events.len() > 3, "{events:?}");
    let get = async |path: &str| -> Result<Value> { client.get(path).json(200).await };
    let usage = get("/v1/admin/usage").await?;
    assert_eq!(usage["totals"]["runs"], json!(401));
    let log = get("/v1/admin/audit?action=test.rare").await?;
    assert_eq!(log["items"].as_array().map(Vec::len), Some(1));

    let look = async || node.has_counted_history().await;
    until("the count of the usage", look, |is_counted| *is_counted).await?;
    node.stop().await?;
    node.set_env("SORTIE_RETENTION_DAYS", "1");
    node.restart().await?;
    node.until_logged("deleted expired runs").await?;
    let client = node.client()?;
    ensure!(!node.has_first_of_history().await?);
    let left: Vec<_> = client.list("").await?.iter().map(|run| run.id).collect();
    assert_eq!(left, [template.id]);
    let usage = client.get("/v1/admin/usage").json(200).await?;
    assert_eq!(usage["totals"]["runs"], json!(401));
    Ok(())
}
