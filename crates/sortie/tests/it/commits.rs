//! A commit on PostgreSQL is lost before or after it took place, or is late: the client's view, a retry, and the
//! records agree. Tests of the store prove the effect on each command.

use std::time::Instant;

use sortie_api::Run;
use sortie_testkit::{CommitFault, CommitProxy, PATIENCE, Records, Which, client::status_of};

use crate::prelude::*;

const LATE: Duration = Duration::from_secs(3);
const FAULTS: [CommitFault; 3] = [
    CommitFault::LostBefore,
    CommitFault::LostAfter,
    CommitFault::Late(LATE),
];

/// Statements that tell the transactions apart.
const CREATE: &str = "INSERT INTO run (";
const CANCEL: &str = "UPDATE queue SET stopping = 1";
const FINISH: &str = "UPDATE run SET status = $4, outcome = $4";
const READ: &str = "UPDATE run SET output_expires_at = NULL";

/// A node with faults in its commits.
struct Behind {
    node: Node,
    proxy: CommitProxy,
    client: Client,
}

impl Behind {
    async fn start() -> Result<Self> {
        let records = Database::Postgres.fresh().await?;
        let Records::Shared(database) = &records else {
            anyhow::bail!("no server");
        };
        let proxy = CommitProxy::start(database.server()?).await?;
        let options = NodeOptions {
            database_url: Some(database.url_at(proxy.address())?),
            ..NodeOptions::default()
        };
        let node = Node::on(env!("CARGO_BIN_EXE_sortie"), records.clone(), options, None).await?;
        let client = node.client()?;
        Ok(Self { node, proxy, client })
    }

    /// The only value of a query.
    async fn number(&self, sql: &str) -> Result<i64> {
        let rows = self.node.rows(&format!("SELECT ({sql}) AS n")).await?;
        rows.first()
            .and_then(|row| row["n"].as_i64())
            .context("no number")
    }

    /// Sends a request that has a fault at its commit. If the commit is lost, the client gets an error and may retry;
    /// if it is late, the client gets an answer.
    async fn disturbed<T>(
        &self,
        fault: CommitFault,
        commit: &'static str,
        request: impl Future<Output = Result<(u16, T)>>,
        fine: u16,
    ) -> Result<T> {
        self.proxy.fail(Which::With(commit), fault);
        let begun = Instant::now();
        let (status, answer) = request.await?;
        ensure!(!self.proxy.disarm(), "{fault:?}: there was no such commit");
        match fault {
            CommitFault::LostBefore | CommitFault::LostAfter => ensure!(status == 503, "{fault:?}: {status}"),
            CommitFault::Late(time) => {
                ensure!(
                    status == fine && begun.elapsed() >= time,
                    "{fault:?}: {status} after {:?}",
                    begun.elapsed()
                );
            }
        }
        Ok(answer)
    }

    /// Waits until the run has ended, by its record.
    async fn ended(&self, id: &str) -> Result<String> {
        // The record, because an event stream returns nothing if the content is lost.
        let sql = format!("SELECT outcome FROM run WHERE id = '{id}' AND outcome IS NOT NULL");
        let look = async || self.node.rows(&sql).await;
        let rows = until(&format!("the end of {id}"), look, |rows| !rows.is_empty()).await?;
        Ok(rows[0]["outcome"].as_str().unwrap_or_default().to_owned())
    }
}

async fn post(client: &Client, request: &Value) -> Result<(u16, Option<Run>)> {
    let answer = client.post("/v1/runs", request).await?;
    let run = matches!(answer.status, 200 | 202)
        .then(|| answer.read())
        .transpose()?;
    Ok((answer.status, run))
}

/// Creates a run under each fault, and again with the same key: the result is one run, which ends, and no hold is left.
async fn create(is_unretained: bool) -> Checked {
    let behind = Behind::start().await?;
    let budget = json!({"limit_micros": 900_000_000, "period": "month"});
    behind
        .client
        .send(
            sortie_testkit::http::Method::PUT,
            "/v1/budgets/organization",
            budget.to_string().into(),
        )
        .expect(201)
        .await?;
    for (nth, fault) in (1..).zip(FAULTS) {
        let key = HeaderValue::from_str(&format!("key {nth}"))?;
        let client = behind.client.with_header("idempotency-key", key);
        let request = json!({"prompt": "```answer\nfine\n```\n", "zero_data_retention": is_unretained});
        let made = behind
            .disturbed(fault, CREATE, post(&client, &request), 202)
            .await?;
        let runs = behind.number("SELECT count(*) FROM run").await?;
        let there = if fault == CommitFault::LostBefore {
            nth - 1
        } else {
            nth
        };
        ensure!(runs == there, "{fault:?}: {runs} runs");

        let (status, again) = post(&client, &request).await?;
        let expected = if fault == CommitFault::LostBefore {
            202
        } else {
            200
        };
        ensure!(status == expected, "{fault:?}: another try: {status}");
        let again = again.context("no run")?;
        ensure!(made.is_none_or(|made| made.id == again.id), "another run");
        let outcome = behind.ended(&again.id.to_string()).await?;
        ensure!(outcome == "succeeded", "{fault:?}: {outcome}");
        ensure!(
            behind.number("SELECT count(*) FROM run").await? == nth,
            "made twice"
        );
        settled(&client, &again.id.to_string()).await?;
        let held = behind
            .number("SELECT count(*) FROM budget_window WHERE held_micros <> 0")
            .await?;
        ensure!(held == 0, "{fault:?}: a budget is still held");
    }
    Ok(())
}

#[tokio::test]
async fn a_create_whose_commit_is_lost_or_late_makes_one_run() -> Checked {
    create(false).await
}

#[tokio::test]
async fn a_create_without_retention_whose_commit_is_lost_or_late_makes_one_run() -> Checked {
    create(true).await
}

#[tokio::test]
async fn a_cancel_whose_commit_is_lost_or_late_cancels_once() -> Checked {
    let behind = Behind::start().await?;
    for fault in FAULTS {
        let id = at_work(&behind.client).await?.id.to_string();
        let path = format!("/v1/runs/{id}/cancel");
        let cancel = async {
            let answer = behind.client.post(&path, &json!({})).await?;
            Ok((answer.status, ()))
        };
        behind.disturbed(fault, CANCEL, cancel, 200).await?;
        let stored = format!("SELECT count(*) FROM run WHERE id = '{id}' AND outcome = 'cancelled'");
        let is_cancelled = behind.number(&stored).await? == 1;
        ensure!(
            is_cancelled == (fault != CommitFault::LostBefore),
            "{fault:?}: {is_cancelled}"
        );
        let again = behind.client.cancel(&id).await?;
        ensure!(again.status == RunStatus::Cancelled, "{fault:?}: {again:?}");
        let (events, done) = behind.client.finished(&id).await?;
        ensure!(finals(&events) == 1, "{fault:?}: {events:?}");
        ensure!(done.status == RunStatus::Cancelled, "{fault:?}: {done:?}");
        settled(&behind.client, &id).await?;
    }
    Ok(())
}

/// The commit of a worker's last write: the run ends once, its stream reports the end, and the answer is available.
#[tokio::test]
async fn an_end_whose_commit_is_lost_or_late_is_the_only_one() -> Checked {
    let behind = Behind::start().await?;
    for is_unretained in [false, true] {
        for fault in FAULTS {
            let request = json!({
                "prompt": "```wait 300\n```\n```answer\nfine\n```\n", "zero_data_retention": is_unretained
            });
            behind.proxy.fail(Which::With(FINISH), fault);
            let id = behind.client.create_id(&request).await?;
            let ends = tokio::time::timeout(PATIENCE, behind.client.finished(&id)).await;
            let (events, done) = ends.with_context(|| format!("{fault:?}: the stream does not end"))??;
            ensure!(!behind.proxy.disarm(), "{fault:?}: no end was committed");
            ensure!(done.status == RunStatus::Succeeded, "{fault:?}: {done:?}");
            ensure!(finals(&events) == 1, "{fault:?}: {events:?}");
            let last = events.last().and_then(status_of);
            ensure!(last == Some(RunStatus::Succeeded), "{fault:?}: {events:?}");
            let results = events.iter().filter(|event| event.kind == "result");
            let results: Vec<Value> = results.map(data).collect();
            ensure!(results.len() == 1, "{fault:?}: {results:?}");
            ensure!(behind.ended(&id).await? == "succeeded");
            let read = behind.client.run(&id).await?;
            ensure!(read.output.as_deref() == Some("fine"), "{fault:?}: {read:?}");
            let queued = format!("SELECT count(*) FROM queue WHERE run_id = '{id}'");
            ensure!(
                behind.number(&queued).await? == 0,
                "{fault:?}: it is still queued"
            );
        }
    }
    Ok(())
}

/// Of all reads of an answer that is not retained exactly one gets it, even if the commit of a read was lost.
#[tokio::test]
async fn a_read_without_retention_whose_commit_is_lost_or_late_hands_the_answer_out_once() -> Checked {
    let behind = Behind::start().await?;
    for fault in FAULTS {
        let request = json!({"prompt": "```answer\nfine\n```\n", "zero_data_retention": true});
        let (_, done) = behind.client.complete(&request).await?;
        ensure!(done.output_available == Some(true), "{done:?}");
        let path = format!("/v1/runs/{}", done.id);
        behind.proxy.fail(Which::With(READ), fault);
        let begun = Instant::now();
        let mut outputs = Vec::new();
        let mut statuses = Vec::new();
        for nth in 0..4 {
            let answer = behind.client.get(&path).await?;
            statuses.push(answer.status);
            if nth == 0 {
                ensure!(!behind.proxy.disarm(), "{fault:?}: the read committed nothing");
            }
            if let CommitFault::Late(time) = fault {
                ensure!(begun.elapsed() >= time, "{fault:?}: not late");
            }
            if answer.status == 200 {
                outputs.extend(answer.read::<Run>()?.output);
            } else {
                ensure!(answer.status == 503 && nth == 0, "{fault:?}: {statuses:?}");
            }
        }
        ensure!(outputs == ["fine"], "{fault:?}: {outputs:?} of {statuses:?}");
        let held = format!(
            "SELECT count(*) FROM run WHERE id = '{}' AND output_expires_at IS NOT NULL",
            done.id
        );
        ensure!(behind.number(&held).await? == 0, "{fault:?}: said to be held");
    }
    Ok(())
}
