//! MCP session of a run: opened at the start, reopened after a failure, closed with the run.
//!
//! An interrupted call is retried only if it can safely be repeated. Every other failure is reported, and the next call opens a
//! new session. Every step has a timeout.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use rmcp::{
    ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientRequest, ErrorCode, InputRequests,
        JsonObject, ListToolsRequest, PaginatedRequestParams, RequestMetaObject, ServerResult,
        TASKS_EXTENSION_ID,
    },
    service::PeerRequestOptions,
};
use serde_json::Value;
use sortie_agent::{Redactor, tool::Effect};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    dial::{Busy, Channel, Dial, Running, busy},
    listing::TOOLS,
    meter::Meter,
    task_report::new_task,
    tasks::OpenTask,
};
use crate::{Failure, OPEN_TIMEOUT};

/// Timeout of a call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// Initial delay before a call is repeated because the server asks for it. It doubles, up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Time after the timeout of a call until its cancellation is sent.
const CALL_GRACE: Duration = Duration::from_secs(10);
/// Maximum time that closing waits for the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Error of a call that the server asks input for.
pub(super) const NO_INPUT: &str =
    "the server requests input during the call, which this engine does not support";
/// Maximum number of pages of the list of tools.
const PAGES: usize = 20;

/// A session, either connected or waiting for a reconnection.
pub(crate) struct Session {
    pub(super) dial: Dial,
    running: Mutex<Option<Arc<Running>>>,
    /// Deadline to open the session and list its tools.
    opened_until: Instant,
    /// Tasks without an end, by their ids: those that are waited for, and those of dropped calls.
    pub(super) tasks: parking_lot::Mutex<BTreeMap<String, OpenTask>>,
}

/// Tools that a server lists.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) tools: Vec<Value>,
    /// Whether the list started again instead of ending.
    pub(crate) is_repeated: bool,
}

/// Response to one request of a call.
enum Round {
    /// The result, or the task.
    Done(Value),
    /// The server wants the request again with this state.
    Again(String),
}

/// Answer to a call.
pub(super) enum Answered {
    /// The result.
    Result(Value),
    /// The server works on the call as the task with this id.
    Task(String),
}

/// Reason why a call has no result.
pub(super) enum CallError {
    /// The server returned an error; the session still works.
    Server(String),
    /// The session has failed, and it is unknown if the call was executed.
    Broken(Failure),
    /// There is no session, or no authorization for this call: nothing was executed.
    Unsent(Failure),
}

impl Session {
    /// Opens the session. The caller sets the timeout.
    pub(crate) async fn open(dial: Dial) -> Result<Self, Failure> {
        let opened_until = Instant::now() + OPEN_TIMEOUT;
        let running = dial.connect().await?;
        Ok(Self {
            opened_until,
            dial,
            running: Mutex::new(Some(running)),
            tasks: parking_lot::Mutex::default(),
        })
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.dial.redactor
    }

    /// Returns the negotiated revision.
    pub(crate) async fn protocol_version(&self) -> Option<String> {
        let running = self.running.lock().await;
        let info = running.as_ref()?.service.peer_info()?;
        Some(info.protocol_version.as_str().to_owned())
    }

    /// Lists the tools of the server, page by page and unchanged, until there are more than a run can have. Must finish within
    /// the time to open the session.
    pub(crate) async fn tools(&self) -> Result<Listed, Failure> {
        let running = self.running().await?;
        let mut listed = Listed::default();
        let (mut cursor, mut cursors, mut names) = (None, HashSet::new(), HashSet::new());
        for _page in 0..PAGES {
            let page = match self.page(&running, cursor.take()).await {
                Ok(page) => as_value(page)?,
                // A few servers have tools but do not declare them, so we ask anyway and accept a refusal.
                Err(ServiceError::McpError(error))
                    if error.code == ErrorCode::METHOD_NOT_FOUND
                        || (error.code != ErrorCode::PARSE_ERROR && !running.names_tools()) =>
                {
                    break;
                }
                Err(ServiceError::Timeout { .. }) => {
                    return Err(running.silent(&self.dial).await);
                }
                Err(error) => return Err(running.lost().unwrap_or_else(|| self.failure(error))),
            };
            let tools = page.get("tools").and_then(Value::as_array);
            let tools = tools.map_or(&[][..], Vec::as_slice);
            let mut is_new = tools.is_empty();
            for tool in tools {
                is_new |= names.insert(tool.get("name").and_then(Value::as_str).map(str::to_owned));
            }
            // A few servers do not recognize their cursors and start again.
            if !is_new {
                listed.is_repeated = true;
                break;
            }
            listed.tools.extend(tools.iter().take(10 * TOOLS).cloned());
            let next = page.get("nextCursor").and_then(Value::as_str);
            cursor = next.filter(|next| !next.is_empty()).map(str::to_owned);
            if cursor.is_none() || listed.tools.len() >= 10 * TOOLS {
                break;
            }
            if !cursors.insert(cursor.clone()) {
                listed.is_repeated = true;
                break;
            }
        }
        Ok(listed)
    }

    /// Fetches a page of the list, with retries while the server is busy.
    async fn page(&self, running: &Running, cursor: Option<String>) -> Result<ServerResult, ServiceError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let mut tries = Busy::until(self.opened_until);
        loop {
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params.clone()));
            let left = self.opened_until.saturating_duration_since(Instant::now());
            let page = request_of(running, request, left).await;
            let refused = match &page {
                Err(ServiceError::TransportSend(error)) => busy(error),
                Ok(_) | Err(_) => None,
            };
            if !tries.allow_another(refused).await {
                return page;
            }
        }
    }

    /// Calls a tool by its name at the server. `meter` records the traffic.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        effect: Effect,
        meter: &Arc<Meter>,
    ) -> Result<Answered, CallError> {
        let tries = if effect == Effect::Nothing { 2 } else { 1 };
        let mut last = Failure::Error("it was not tried".to_owned());
        for _try in 0..tries {
            match self.call_once(tool, arguments.clone(), meter).await {
                Err(CallError::Broken(Failure::Error(why))) => last = Failure::Error(why),
                other => return other,
            }
        }
        Err(CallError::Broken(last))
    }

    /// Makes a call, and repeats it with the returned state while the server asks only for that.
    async fn call_once(
        &self,
        tool: &str,
        arguments: JsonObject,
        meter: &Arc<Meter>,
    ) -> Result<Answered, CallError> {
        let running = self.running().await.map_err(CallError::Unsent)?;
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let until = Instant::now() + CALL_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.round(&running, params.clone(), (meter, left)).await? {
                Round::Done(result) => {
                    return match new_task(&result) {
                        None => Ok(Answered::Result(result)),
                        Some(Ok(task)) => Ok(Answered::Task(self.begin_task(task, until))),
                        Some(Err(why)) => Err(CallError::Broken(Failure::Error(why.to_owned()))),
                    };
                }
                Round::Again(_) if Instant::now() + pause >= until => {
                    return Err(CallError::Server(format!(
                        "the server has put the call off for {} s",
                        CALL_TIMEOUT.as_secs()
                    )));
                }
                Round::Again(state) => params.request_state = Some(state),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Sends one request of a call and waits for its response until the deadline.
    async fn round(
        &self,
        running: &Arc<Running>,
        params: CallToolRequestParams,
        (meter, limit): (&Arc<Meter>, Duration),
    ) -> Result<Round, CallError> {
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(Arc::clone(meter));
        match request_of(running, ClientRequest::CallToolRequest(request), limit).await {
            Ok(ServerResult::InputRequiredResult(asked)) => match asked.request_state {
                Some(state) if asked.input_requests.as_ref().is_none_or(InputRequests::is_empty) => {
                    Ok(Round::Again(state))
                }
                Some(_) | None => Err(CallError::Server(NO_INPUT.to_owned())),
            },
            Ok(result) => as_value(result).map(Round::Done).map_err(CallError::Broken),
            Err(ServiceError::McpError(error)) => Err(CallError::Server(self.dial.words(&error))),
            Err(ServiceError::Timeout { .. }) => {
                if matches!(running.channel, Channel::OneStream) {
                    self.forget(running).await;
                }
                // We do not stop a program, because it may be processing other calls.
                Err(CallError::Server(
                    running.slow(&self.dial, CALL_TIMEOUT).to_string(),
                ))
            }
            Err(error) => match self.broken(running, error, meter).await {
                // A request that was refused for its authorization was not executed.
                failure @ Failure::NeedsAuthorization(_) => Err(CallError::Unsent(failure)),
                failure @ Failure::Error(_) => Err(CallError::Broken(failure)),
            },
        }
    }

    /// Returns the failure of a request without a response. The next request opens another session, unless only an authorization
    /// is missing.
    pub(super) async fn broken(&self, running: &Arc<Running>, error: ServiceError, meter: &Meter) -> Failure {
        let failure = match (error, meter.broke_off()) {
            (ServiceError::TransportClosed, Some(why)) => Failure::Error(why.to_owned()),
            (error, _) => self.failure(error),
        };
        if matches!(failure, Failure::NeedsAuthorization(_)) {
            return failure;
        }
        self.forget(running).await;
        running.lost().unwrap_or(failure)
    }

    /// Returns the session, reopened if it has failed.
    pub(super) async fn running(&self) -> Result<Arc<Running>, Failure> {
        let mut slot = self.running.lock().await;
        if let Some(running) = slot
            .as_ref()
            .filter(|running| !running.service.is_transport_closed())
        {
            return Ok(Arc::clone(running));
        }
        let opened = timeout(self.dial.limit(), self.dial.connect()).await;
        let running = opened.map_err(|_| self.dial.slow(OPEN_TIMEOUT))??;
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }

    pub(super) async fn forget(&self, broken: &Arc<Running>) {
        let mut slot = self.running.lock().await;
        if slot.as_ref().is_some_and(|running| Arc::ptr_eq(running, broken)) {
            *slot = None;
        }
    }

    /// Ends the session and waits up to some seconds until the server is notified.
    pub(crate) async fn close(&self) {
        let running = self.running.lock().await.take();
        // A call in progress keeps the session open, which then ends with the last call.
        if let Some(mut running) = running.and_then(Arc::into_inner)
            && let Err(error) = running.service.close_with_timeout(CLOSE_TIMEOUT).await
        {
            tracing::warn!(%error, "an MCP session did not end");
        }
    }

    fn failure(&self, error: ServiceError) -> Failure {
        match error {
            ServiceError::McpError(error) => Failure::Error(self.dial.words(&error)),
            ServiceError::TransportSend(error) => self.dial.transport_failure(&error),
            ServiceError::Timeout { timeout } => self.dial.slow(timeout),
            ServiceError::TransportClosed => {
                Failure::Error("the connection to the server broke off".to_owned())
            }
            ServiceError::Cancelled { .. } => Failure::Error("the call was cancelled".to_owned()),
            ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _ => Failure::Error("the server's answer does not belong to the request".to_owned()),
        }
    }
}

/// Sends a request and returns its response within `limit`. Notifies the server of a time-out.
pub(super) async fn request_of(
    running: &Running,
    request: ClientRequest,
    limit: Duration,
) -> Result<ServerResult, ServiceError> {
    let exchange = async {
        let mut options = PeerRequestOptions::with_timeout(limit);
        if running.declares_per_request() {
            let mut capabilities = ClientCapabilities::default();
            capabilities
                .extensions
                .get_or_insert_default()
                .insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
            let mut meta = RequestMetaObject::new();
            meta.set_client_capabilities(capabilities);
            options = options.with_meta(meta);
        }
        let handle = running
            .service
            .peer()
            .send_request_with_option(request, options)
            .await?;
        handle.await_response().await
    };
    timeout(limit + CALL_GRACE, exchange)
        .await
        .unwrap_or(Err(ServiceError::Timeout { timeout: limit }))
}

/// Converts a result to JSON, which the caller parses leniently, so that one invalid item does not affect the rest.
pub(super) fn as_value(result: ServerResult) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(|_| Failure::Error("the server's answer cannot be read".to_owned()))
}
