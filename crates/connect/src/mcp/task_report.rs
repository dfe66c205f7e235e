//! Reports about tasks: calls that a server answers later, with the extension `io.modelcontextprotocol/tasks`.
//!
//! Reports are untrusted. The id of a task has a maximum length, the pace of the queries stays within limits, and a report that
//! contradicts itself is an error (docs/CONNECTIONS.md#tasks).

use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::Value;

use crate::text;

/// Maximum length of a task's id, in bytes. Some servers keep the state of a task in it.
pub(super) const ID_BYTES: usize = 2048;
/// Maximum length of an unknown status in an error, in bytes.
const STATUS_BYTES: usize = 100;
/// Pace of a server that names none.
pub(super) const DEFAULT_PACE: Duration = Duration::from_secs(1);
/// Limits for the pace that a server may name.
pub(super) const SHORTEST_PACE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PACE: Duration = Duration::from_secs(10);

/// Answer to a call that the server works on as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewTask {
    pub(super) id: String,
    /// Time between two queries.
    pub(super) pace: Duration,
}

/// State of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskReport {
    pub(super) status: TaskStatus,
    /// Time between two queries, if the server names one.
    pub(super) pace: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaskStatus {
    Working,
    /// The server waits for input of a person or of a model.
    InputRequired,
    /// The call has this result.
    Completed(Value),
    /// The call has failed with this JSON-RPC error.
    Failed(ErrorData),
    /// The task was cancelled, with this message of the server.
    Cancelled(Option<String>),
}

/// Reads the task in a result of `tools/call`. `None` if the result is not a task.
pub(super) fn new_task(result: &Value) -> Option<Result<NewTask, &'static str>> {
    if result.get("resultType").and_then(Value::as_str) != Some("task") {
        return None;
    }
    let id = result.get("taskId").and_then(Value::as_str);
    let id = id.filter(|id| (1..=ID_BYTES).contains(&id.len()) && !id.contains(char::is_control));
    let task = id.map(|id| NewTask {
        id: id.to_owned(),
        pace: pace(result).unwrap_or(DEFAULT_PACE),
    });
    Some(task.ok_or("the server answers with a task that has no usable id"))
}

/// Reads a result of `tasks/get`. The error is a sentence about the first fault.
pub(super) fn task_report(mut result: Value) -> Result<TaskReport, String> {
    let pace = pace(&result);
    let message = result.get("statusMessage").and_then(Value::as_str);
    let message = message.map(str::to_owned);
    let status = result.get("status").and_then(Value::as_str);
    let status = match status.ok_or("the server's answer about the task has no status")? {
        "working" => TaskStatus::Working,
        "input_required" => TaskStatus::InputRequired,
        "completed" => {
            let ended = result.get_mut("result").map(Value::take);
            let ended = ended.filter(is_complete);
            TaskStatus::Completed(ended.ok_or("the server's task has ended without a result")?)
        }
        "failed" => TaskStatus::Failed(error(result.get("error"), message)),
        "cancelled" => TaskStatus::Cancelled(message),
        other => {
            let other = text::line(other, STATUS_BYTES);
            return Err(format!("the server's task has an unknown status: {other}"));
        }
    };
    Ok(TaskReport { status, pace })
}

/// Whether a result ends a call: the result of a task must not be another task, and must not ask for input.
fn is_complete(result: &Value) -> bool {
    let kind = result.get("resultType").and_then(Value::as_str);
    result.is_object() && kind.is_none_or(|kind| kind == "complete")
}

fn error(error: Option<&Value>, message: Option<String>) -> ErrorData {
    let field = |name| error.and_then(|error| error.get(name));
    let code = field("code").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    let told = field("message").and_then(Value::as_str);
    let told = told.map(str::to_owned).or(message);
    ErrorData::new(
        code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode),
        told.unwrap_or_else(|| "the task has failed".to_owned()),
        None,
    )
}

fn pace(report: &Value) -> Option<Duration> {
    let millis = report.get("pollIntervalMs")?.as_f64()?;
    let seconds = millis / 1_000.0;
    let (shortest, longest) = (SHORTEST_PACE.as_secs_f64(), LONGEST_PACE.as_secs_f64());
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.clamp(shortest, longest)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sortie_testkit::rows;

    use super::*;

    #[test]
    fn only_a_result_of_the_type_task_is_a_task_and_its_id_has_limits() {
        assert_eq!(new_task(&json!({"taskId": "a", "status": "working"})), None);
        assert_eq!(new_task(&json!({"resultType": "complete", "taskId": "a"})), None);
        let of = |id: Value| new_task(&json!({"resultType": "task", "taskId": id})).unwrap();
        for id in ["a", "päron", &"x".repeat(ID_BYTES)] {
            assert_eq!(of(json!(id)).unwrap().id, id);
        }
        for id in [
            json!(""),
            json!(null),
            json!(7),
            json!("a\nb"),
            json!("a\u{0}"),
            json!("x".repeat(ID_BYTES + 1)),
        ] {
            assert!(of(id.clone()).is_err(), "{id}");
        }
    }

    #[test]
    fn a_pace_is_brought_within_its_limits_and_an_odd_one_is_ignored() {
        for (named, millis) in rows! {
            json!(2500), Some(2500);
            json!(2500.5), Some(2500);
            json!(0), Some(100);
            json!(1), Some(100);
            json!(3_600_000), Some(10_000);
            json!(u64::MAX), Some(10_000);
            json!(1e300), Some(10_000);
            json!(-1), None;
            json!("500"), None;
            json!(null), None;
            json!({}), None;
        } {
            let report =
                json!({"resultType": "task", "taskId": "a", "status": "working", "pollIntervalMs": named});
            let pace = task_report(report.clone()).unwrap().pace;
            assert_eq!(pace.map(|pace| pace.as_millis()), millis, "{named}");
            let first = new_task(&report).unwrap().unwrap().pace;
            assert_eq!(first, pace.unwrap_or(DEFAULT_PACE), "{named}");
        }
    }

    #[test]
    fn a_report_has_one_of_five_states() {
        let error = |code, message: &str| {
            TaskStatus::Failed(ErrorData::new(ErrorCode(code), message.to_owned(), None))
        };
        for (report, status) in rows! {
            json!({"status": "working", "result": {}}), TaskStatus::Working;
            json!({"status": "input_required"}), TaskStatus::InputRequired;
            json!({"status": "completed", "result": {"content": []}}), TaskStatus::Completed(json!({"content": []}));
            json!({"status": "failed", "error": {"code": -32000, "message": "no luck", "data": 1}}), error(-32000, "no luck");
            json!({"status": "failed", "statusMessage": "broke"}), error(-32603, "broke");
            json!({"status": "failed", "error": {"code": 1e30, "message": 7}}), error(-32603, "the task has failed");
            json!({"status": "cancelled"}), TaskStatus::Cancelled(None);
            json!({"status": "cancelled", "statusMessage": "too old"}), TaskStatus::Cancelled(Some("too old".to_owned()));
        } {
            assert_eq!(
                task_report(report.clone()).map(|report| report.status),
                Ok(status),
                "{report}"
            );
        }
    }

    #[test]
    fn a_report_that_contradicts_itself_is_an_error() {
        for (report, why) in rows! {
            json!({}), "has no status";
            json!({"status": 1}), "has no status";
            json!([]), "has no status";
            json!({"status": "submitted\u{202e}\n"}), "has an unknown status: submitted";
            json!({"status": "x".repeat(1000)}), "has an unknown status: xxx";
            json!({"status": "completed"}), "ended without a result";
            json!({"status": "completed", "result": "done"}), "ended without a result";
            json!({"status": "completed", "result": {"resultType": "task", "taskId": "b"}}), "ended without a result";
            json!({"status": "completed", "result": {"resultType": "input_required"}}), "ended without a result";
        } {
            let told = task_report(report.clone()).unwrap_err();
            assert!(told.contains(why) && told.len() < 200, "{report}: {told}");
        }
    }
}
