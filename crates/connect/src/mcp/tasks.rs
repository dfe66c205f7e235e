//! Waits for the tasks of a session (docs/CONNECTIONS.md#tasks).
//!
//! A task is queried at the server's pace until it ends or its call times out. A query that fails is repeated. A task
//! without an end is cancelled. The session knows each task that a dropped call has left, so that they can be cancelled later.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use rmcp::{
    ServiceError,
    model::{
        CancelTaskParams, CancelTaskRequest, ClientRequest, ErrorCode, GetTaskParams, GetTaskRequest,
        ServerResult,
    },
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    dial::{Channel, busy},
    meter::Meter,
    session::{CALL_TIMEOUT, CallError, NO_INPUT, Session, as_value, request_of},
    task_report::{DEFAULT_PACE, NewTask, TaskReport, TaskStatus, task_report},
};
use crate::Failure;

/// Timeout of one query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout to cancel a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A task without an end.
#[derive(Clone, Copy)]
pub(super) struct OpenTask {
    /// Time before the next query.
    pause: Duration,
    /// Time between queries.
    pace: Duration,
    /// Deadline of the call.
    until: Instant,
}

/// Reason why a query has no report.
enum QueryError {
    /// The query can be repeated, after this time if the server names one.
    Failed(Failure, Option<Duration>),
    /// The call has ended with this error.
    Ended(CallError),
}

impl Session {
    /// Adds a task of a call with this deadline.
    pub(super) fn begin_task(&self, NewTask { id, pace }: NewTask, until: Instant) -> String {
        let task = OpenTask {
            pause: pace,
            pace,
            until,
        };
        self.tasks.lock().insert(id.clone(), task);
        id
    }

    /// Waits for the result of a task. One that this session has not begun is queried at once, and gets the time of a call.
    pub(super) async fn wait(&self, id: &str, meter: &Meter) -> Result<Value, CallError> {
        let task = *self
            .tasks
            .lock()
            .entry(id.to_owned())
            .or_insert_with(|| OpenTask {
                pause: Duration::ZERO,
                pace: DEFAULT_PACE,
                until: Instant::now() + CALL_TIMEOUT,
            });
        let ended = self.end_of(id, task, meter).await;
        self.tasks.lock().remove(id);
        ended
    }

    async fn end_of(&self, id: &str, task: OpenTask, meter: &Meter) -> Result<Value, CallError> {
        let OpenTask {
            mut pause,
            mut pace,
            until,
        } = task;
        let mut failed = None;
        // A server can ask for a pause that no clock can hold.
        while let Some(next) = Instant::now().checked_add(pause).filter(|next| *next < until) {
            sleep_until(next).await;
            match self.query(id, until, meter).await {
                Ok(TaskReport { status, pace: named }) => {
                    if let Some(ended) = self.outcome(id, status).await {
                        return ended;
                    }
                    pace = named.unwrap_or(pace);
                    (pause, failed) = (pace, None);
                }
                Err(QueryError::Failed(failure, after)) => {
                    pause = after.map_or(pace, |after| after.max(pace));
                    // The deadline cuts the last query off, which says nothing about the server.
                    if Instant::now() < until {
                        failed = Some(failure);
                    }
                }
                Err(QueryError::Ended(error)) => return Err(error),
            }
        }
        sleep_until(until).await;
        let cancelled = self.cancel_task(id).await;
        Err(failed.map_or_else(
            || {
                CallError::Server(format!(
                    "the call's task did not end within {} s; {cancelled}",
                    CALL_TIMEOUT.as_secs()
                ))
            },
            CallError::Broken,
        ))
    }

    /// Returns the outcome of a call with a task in this state. `None` while the server works on it.
    async fn outcome(&self, id: &str, status: TaskStatus) -> Option<Result<Value, CallError>> {
        Some(match status {
            TaskStatus::Working => return None,
            TaskStatus::Completed(result) => Ok(result),
            TaskStatus::Failed(error) => Err(CallError::Server(self.dial.words(&error))),
            TaskStatus::Cancelled(message) => {
                let why = message.map(|message| format!(": {message}")).unwrap_or_default();
                let told = format!("the server has cancelled the call's task{why}");
                Err(CallError::Server(self.dial.shown(&told)))
            }
            TaskStatus::InputRequired => {
                let cancelled = self.cancel_task(id).await;
                Err(CallError::Server(format!("{NO_INPUT}; {cancelled}")))
            }
        })
    }

    /// Queries a task once.
    async fn query(&self, id: &str, until: Instant, meter: &Meter) -> Result<TaskReport, QueryError> {
        let left = until.saturating_duration_since(Instant::now());
        let limit = left.min(QUERY_TIMEOUT);
        let running = match timeout(left, self.running()).await {
            Ok(Ok(running)) => running,
            Ok(Err(failure)) => return Err(failed(failure)),
            Err(_) => return Err(failed(self.dial.slow(left))),
        };
        let own_meter = Arc::new(Meter::default());
        let mut request = GetTaskRequest::new(GetTaskParams::new(id));
        request.extensions.insert(Arc::clone(&own_meter));
        let answer = request_of(&running, ClientRequest::GetTaskRequest(request), limit).await;
        meter.include(&own_meter);
        let error = match answer {
            Ok(result) => {
                let report = as_value(result).and_then(|result| task_report(result).map_err(Failure::Error));
                return report.map_err(|failure| QueryError::Ended(CallError::Broken(failure)));
            }
            Err(error) => error,
        };
        match error {
            ServiceError::McpError(error) if is_refusal(error.code) => {
                let why = self.dial.words(&error);
                let why = format!("the call's task cannot be read: {why}");
                Err(QueryError::Ended(CallError::Broken(Failure::Error(why))))
            }
            ServiceError::McpError(error) => Err(failed(Failure::Error(self.dial.words(&error)))),
            ServiceError::Timeout { .. } => {
                if matches!(running.channel, Channel::OneStream) {
                    self.forget(&running).await;
                }
                Err(failed(running.slow(&self.dial, limit)))
            }
            ServiceError::TransportSend(error) if let Some(refused) = busy(&error) => Err(
                QueryError::Failed(self.dial.transport_failure(&error), refused.after()),
            ),
            error @ (ServiceError::TransportSend(_) | ServiceError::TransportClosed | _) => {
                let failure = self.broken(&running, error, &own_meter).await;
                // A larger answer stays too large, and a program takes its tasks with it.
                if own_meter.is_exceeded() || running.lost().is_some() {
                    return Err(QueryError::Ended(CallError::Broken(failure)));
                }
                Err(failed(failure))
            }
        }
    }

    /// Asks the server to cancel a task. Returns a clause about it for the model.
    async fn cancel_task(&self, id: &str) -> &'static str {
        let cancelling = async {
            let running = self.running().await.ok()?;
            let request = CancelTaskRequest::new(CancelTaskParams::new(id));
            let request = ClientRequest::CancelTaskRequest(request);
            let answer: Result<ServerResult, _> = request_of(&running, request, CANCEL_TIMEOUT).await;
            answer.ok()
        };
        match timeout(CANCEL_TIMEOUT, cancelling).await {
            Ok(Some(_)) => "the server was asked to cancel it",
            Ok(None) | Err(_) => "the server could not be asked to cancel it",
        }
    }

    /// Whether dropped calls have left tasks.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// Asks the server to cancel the tasks of dropped calls. Takes some seconds at most.
    pub(crate) async fn cancel_tasks(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        join_all(tasks.keys().map(|id| self.cancel_task(id))).await;
    }
}

/// Returns the error of a query that can be repeated, unless a person has to authorize the connection first.
fn failed(failure: Failure) -> QueryError {
    match failure {
        Failure::NeedsAuthorization(_) => QueryError::Ended(CallError::Broken(failure)),
        Failure::Error(_) => QueryError::Failed(failure, None),
    }
}

/// Whether this error to a query means that the server does not know the task, or knows no tasks.
fn is_refusal(code: ErrorCode) -> bool {
    [
        ErrorCode::INVALID_PARAMS,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        ErrorCode::RESOURCE_NOT_FOUND,
    ]
    .contains(&code)
}
