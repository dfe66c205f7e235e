//! Requests and looks that many tests share.

use std::{
    process::{Command, Output},
    time::{SystemTime, UNIX_EPOCH},
};

use sortie_api::{Event, Micros, Run, Timestamp};
use sortie_testkit::client::status_of;

use crate::prelude::*;

/// The time of the host, which is also that of its nodes.
pub(crate) fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of the nodes is that of the host"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(now.as_micros()).unwrap_or_default())
}

/// A run without tools: the offline model answers with the prompt itself.
pub(crate) fn plain(text: &str) -> Value {
    json!({"prompt": text})
}

/// A run that executes these blocks, one after another.
pub(crate) fn commands(blocks: &[&str]) -> Value {
    let blocks: Vec<String> = blocks
        .iter()
        .map(|block| format!("```sh\n{block}\n```\n"))
        .collect();
    json!({"prompt": blocks.concat()})
}

/// A run that waits until a test ends it.
pub(crate) fn waiting() -> Value {
    json!({"prompt": "```wait 600000\n```\n", "timeout_seconds": 900})
}

/// Creates a run that waits. Returns once it is running.
pub(crate) async fn at_work(client: &Client) -> Result<Run> {
    let run = client.create(&waiting()).await?;
    client.until_running(&run.id.to_string()).await?;
    Ok(run)
}

/// The run after its cost is settled. The cost of a run that is cancelled while it runs is pending until the worker has
/// reported.
pub(crate) async fn settled(client: &Client, id: &str) -> Result<Run> {
    let look = async || client.run(id).await;
    until("the settlement", look, |run| !run.billing_pending).await
}

/// A run without the fields that settle after its end.
pub(crate) fn unsettled(run: &Run) -> Run {
    Run {
        billing_pending: true,
        cost_micros: Micros::ZERO,
        usage: None,
        last_event_id: 0,
        ..run.clone()
    }
}

/// The statuses in a run's events, in order.
pub(crate) fn statuses(events: &[Event]) -> Vec<RunStatus> {
    events.iter().filter_map(status_of).collect()
}

/// Returns the number of events with a final status.
pub(crate) fn finals(events: &[Event]) -> usize {
    statuses(events)
        .into_iter()
        .filter(|status| status.is_final())
        .count()
}

/// The events of one type.
pub(crate) fn of_kind<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

/// Checks the events of a run that was resumed this many times: each worker that began again went through the status
/// transitions once, and the attempts are counted.
pub(crate) fn assert_resumed(events: &[Event], times: usize) {
    let attempts: Vec<Value> = of_kind(events, "resumed")
        .into_iter()
        .map(|event| data(event)["attempt"].clone())
        .collect();
    let expected: Vec<Value> = (2..).take(times).map(Value::from).collect();
    assert_eq!(attempts, expected);
    let running = statuses(events)
        .into_iter()
        .filter(|status| *status == RunStatus::Running);
    assert_eq!((running.count(), finals(events)), (1, 1));
}

/// Returns the output of a command as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command to its end. Fails unless it exits with `code`.
pub(crate) fn exits(mut command: Command, code: i32) -> Result<Output> {
    let output = command.output().context("the command does not start")?;
    ensure!(
        output.status.code() == Some(code),
        "{command:?}: {} instead of {code}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    Ok(output)
}

/// The standard output of a command for a node.
pub(crate) fn said(node: &Node, arguments: &[&str]) -> Result<String> {
    Ok(text(&exits(node.sortie(arguments), 0)?.stdout))
}

pub(crate) fn json_said(node: &Node, arguments: &[&str]) -> Result<Value> {
    let said = said(node, arguments)?;
    serde_json::from_str(&said).with_context(|| said.clone())
}
