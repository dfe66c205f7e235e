//! Runs as results of tools and as tasks.

use std::time::Duration;

use rmcp::model::{
    CallToolResult, ContentBlock, CreateTaskResult, DetailedTask, GetTaskResult, Task, TaskPayload,
    TaskStatus,
};
use serde::Serialize;
use serde_json::Value;
use sortie_api::{Artifact, Micros, Refusal, Run, RunId, RunStatus, Timestamp};

use super::resources::link;

/// Shortest interval between the requests of a client that waits for a task.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// Longest interval between these requests.
const LONGEST_POLL: Duration = Duration::from_secs(10);

/// Run as a tool describes it.
#[derive(Debug, Serialize)]
struct RunResult<'a> {
    run: RunId,
    status: RunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Micros::is_zero")]
    cost_micros: Micros,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<ArtifactResult<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ArtifactResult<'a> {
    path: &'a str,
    size: i64,
    content_type: &'a str,
}

impl<'a> From<&'a Artifact> for ArtifactResult<'a> {
    fn from(artifact: &'a Artifact) -> Self {
        Self {
            path: &artifact.path,
            size: artifact.size,
            content_type: &artifact.content_type,
        }
    }
}

/// Run in a list.
#[derive(Debug, Serialize)]
pub(super) struct ListedResult {
    run: RunId,
    status: RunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Micros::is_zero")]
    cost_micros: Micros,
}

impl From<Run> for ListedResult {
    fn from(run: Run) -> Self {
        Self {
            run: run.id,
            status: run.status,
            title: run.title,
            workflow: run.workflow,
            error: run.error,
            created_at: run.created_at,
            cost_micros: run.cost_micros,
        }
    }
}

/// Page of a list of runs.
#[derive(Debug, Serialize)]
pub(super) struct ListResult {
    pub(super) runs: Vec<ListedResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// Purpose of a call that returns a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To get the result of the run: a run that ended without success is an error.
    Result,
    /// To get the state of the run.
    State,
}

/// Returns what to call next.
fn hint_of(run: &Run) -> Option<&'static str> {
    if !run.status.is_final() {
        Some("still running: call wait_run to wait for its end")
    } else if run.output_available == Some(true) {
        Some("the run has zero data retention: its output can be read once, by GET /v1/runs/{id}")
    } else {
        None
    }
}

/// Makes the result of a tool from a run and its output.
pub(super) fn of_run(run: &Run, output: Option<Value>, purpose: Purpose) -> Result<CallToolResult, Refusal> {
    let result = RunResult {
        run: run.id,
        status: run.status,
        output,
        error: run.error.as_deref(),
        cost_micros: run.cost_micros,
        artifacts: run.artifacts.iter().map(Into::into).collect(),
        hint: hint_of(run),
    };
    let mut made = structured(&result)?;
    made.content.extend(
        run.artifacts
            .iter()
            .map(|artifact| ContentBlock::resource_link(link(run.id, artifact))),
    );
    let is_failure = run.status.is_final() && run.status != RunStatus::Succeeded;
    made.is_error = Some(purpose == Purpose::Result && is_failure);
    Ok(made)
}

/// Makes a result with this value, also as text for clients that read no structured content.
pub(super) fn structured(value: &impl Serialize) -> Result<CallToolResult, Refusal> {
    let value = serde_json::to_value(value).map_err(Refusal::internal)?;
    Ok(CallToolResult::structured(value))
}

/// Makes the result of a call that was refused.
pub(super) fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refusal.text.clone())])
}

/// Answers a call by the task of its run.
pub(super) fn created(run: &Run, now: Timestamp) -> CreateTaskResult {
    CreateTaskResult::new(task(run, now))
}

/// Makes the state of the task of a run. `result` has the result of the call once the run has one.
pub(super) fn state(
    run: &Run,
    result: Option<CallToolResult>,
    now: Timestamp,
) -> Result<GetTaskResult, Refusal> {
    let payload = match (run.status, result) {
        (RunStatus::Cancelled, _) => TaskPayload::Cancelled,
        (_, None) => TaskPayload::Working,
        (_, Some(result)) => {
            let result = serde_json::to_value(result).and_then(serde_json::from_value);
            TaskPayload::Completed {
                result: result.map_err(Refusal::internal)?,
            }
        }
    };
    Ok(GetTaskResult::new(DetailedTask::new(task(run, now), payload)))
}

fn task(run: &Run, now: Timestamp) -> Task {
    let changed_at = run.finished_at.or(run.started_at).unwrap_or(run.created_at);
    let status = format!("the run is {}", run.status);
    Task::new(
        run.id.to_string(),
        TaskStatus::Working,
        run.created_at.to_string(),
        changed_at.to_string(),
    )
    .with_status_message(status)
    .with_poll_interval_ms(poll_millis(now.since(run.created_at)))
}

/// Returns the interval for a task of this age, in milliseconds: a tenth of it, because each request counts against the rate limit
/// of the key.
fn poll_millis(age: Duration) -> u64 {
    let interval = (age / 10).clamp(SHORTEST_POLL, LONGEST_POLL);
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_asks_less_often_for_an_older_task() {
        let polls = [0, 9, 30, 99, 3_600].map(|age| poll_millis(Duration::from_secs(age)));
        assert_eq!(polls, [1_000, 1_000, 3_000, 9_900, 10_000]);
    }
}
