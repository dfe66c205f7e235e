//! MCP server, `/mcp` (`docs/MCP.md`): other agents start runs, wait for them and read their files.
//!
//! Each request is answered on its own, in every revision of the protocol: there are no sessions, so any node answers any request
//! and a restart loses nothing. Each saved workflow of the organization is a tool. A call that starts a run is answered by a task
//! if the client knows tasks; its ID is that of the run, and its state is the run in the store. Any other client waits, and gets
//! the status of the run before its own timeout.

mod calls;
mod catalog;
mod changes;
mod resources;
mod results;

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody as _},
    extract::State,
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode, header::ACCEPT, request::Parts};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, GetTaskResult,
        Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ServerCapabilities, ServerConfig, SubscriptionFilter, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::json;
use sortie_api::{ErrorCode, Refusal, RunId, limits};

pub(crate) use self::catalog::Catalog;
use self::{
    calls::NoResult,
    changes::{WorkflowChanges, change_stream},
};
use crate::{
    app::App,
    kit::{AnswerRoom, ApiResult, JsonBytes, Member, Opener, check_object, over, value_bytes},
    routes::names,
};

/// Header with the method of a request, in revisions from 2026-07-28.
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// Method of a subscription.
const LISTEN: &str = "subscriptions/listen";

/// Revisions of the protocol that the server speaks.
const REVISIONS: [ProtocolVersion; 3] = [
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

const INSTRUCTIONS: &str = "Sortie runs agents in a sandbox. Each saved workflow is a tool. A run may take longer than a call: \
    then the result has its ID and status, and `wait_run` waits for its end.";

/// Answers one message of a client.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    who: Member,
    opener: Opener,
    parts: Parts,
    JsonBytes(bytes, mut room): JsonBytes,
) -> ApiResult<Response> {
    check_object(&bytes)?;
    // The library keeps the values, and copies them to compare the headers with them.
    room.grow(value_bytes(&bytes).saturating_mul(2)).await?;
    let rooms = Rooms::default();
    // The library acknowledges a subscription before it calls the handler, and each change after that has a message.
    let changes = if parts
        .headers
        .get(MCP_METHOD)
        .is_some_and(|method| method == LISTEN)
    {
        Some(WorkflowChanges::subscribe(&app, who.org).await?)
    } else {
        None
    };
    let server = McpServer {
        app: Arc::clone(&app),
        who,
        opener,
        rooms: Arc::clone(&rooms),
        changes: Arc::new(Mutex::new(changes)),
    };
    let config = StreamableHttpServerConfig::default()
        // Requests carry a credential that pages of other origins do not have, so `Host` is not checked.
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(Some(app.heartbeat))
        .with_max_request_body_bytes(limits::BODY_BYTES);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let request = Request::from_parts(parts, Full::new(Bytes::from(bytes)));
    let response = service.handle(request).await;
    // The content type is that of JSON, so this is about a text that is not a message.
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Err(ErrorCode::InvalidRequest
            .because("the body must be one JSON-RPC message of MCP")
            .into());
    }
    Ok(response.map(|body| {
        if body.size_hint().exact().is_some() {
            return Body::new(body);
        }
        // The answer is a stream, which a slow reader holds in memory.
        Body::new(body.map_frame(move |frame| {
            let _kept_with_the_body = &rooms;
            frame
        }))
    }))
}

/// Streams the changes of the list of tools to a client of a revision before 2026-07-28. Later clients send
/// `subscriptions/listen`.
pub(crate) async fn listen(
    State(app): State<Arc<App>>,
    who: Member,
    opener: Opener,
    headers: HeaderMap,
) -> ApiResult<Response> {
    if !names(&headers, ACCEPT, "text/event-stream") {
        return Err(ErrorCode::InvalidRequest
            .because("Accept: must name text/event-stream")
            .into());
    }
    let changes = WorkflowChanges::subscribe(&app, who.org).await?;
    Ok(change_stream(&app, changes, opener))
}

/// Memory reservations of an answer.
type Rooms = Arc<Mutex<Vec<AnswerRoom>>>;

/// Answers the requests of one caller.
#[derive(Clone)]
struct McpServer {
    app: Arc<App>,
    who: Member,
    opener: Opener,
    rooms: Rooms,
    /// Changes after the request, if it is a subscription.
    changes: Arc<Mutex<Option<WorkflowChanges>>>,
}

impl McpServer {
    /// Keeps a reservation until the answer is sent.
    fn keep(&self, room: AnswerRoom) {
        self.rooms.lock().push(room);
    }
}

impl ServerHandler for McpServer {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&REVISIONS)
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("sortie", env!("CARGO_PKG_VERSION")).with_title("Sortie"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.tools(cursor).await.map_err(protocol_error)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.call(request, &context).await {
            Ok(response) => Ok(response),
            Err(NoResult::UnknownTool) => Err(ErrorData::invalid_params("no such tool", None)),
            Err(NoResult::Refused(refusal)) if refusal.code == ErrorCode::Internal => {
                Err(protocol_error(refusal))
            }
            // A model reads the text and changes its call.
            Err(NoResult::Refused(refusal)) => Ok(results::refused(&refusal).into()),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.resources(cursor).await.map_err(protocol_error)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match self.resource(&request.uri).await {
            Ok(read) => Ok(read.into()),
            Err(refusal) if refusal.code == ErrorCode::NotFound => {
                let uri = json!({"uri": request.uri});
                Err(ErrorData::resource_not_found("no such resource", Some(uri)))
            }
            Err(refusal) => Err(protocol_error(refusal)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let run = run_of_task(&request.task_id)?;
        self.task(run).await.map_err(task_error)
    }

    /// No run asks its client for anything, so answers are ignored.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let run = run_of_task(&request.task_id)?;
        let found = self.app.engine.look_at_run(self.who.org, run, Duration::ZERO);
        found.await.map(drop).map_err(task_error)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let run = run_of_task(&request.task_id)?;
        let cancelled = self.app.engine.cancel_run(self.who.org, run).await;
        cancelled.map(drop).map_err(task_error)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        // The library has compared the header with the request.
        let Some(mut changes) = self.changes.lock().take() else {
            return Err(protocol_error(Refusal::internal(
                "a subscription without its header",
            )));
        };
        let credential = self.app.watch.watch(self.opener);
        let _open = self.app.http.stream();
        loop {
            tokio::select! {
                () = over(credential.as_ref(), &self.app.stop) => return Ok(()),
                () = subscription.cancelled() => return Ok(()),
                () = changes.next() => {}
            }
            // It fails when the client has gone.
            if subscription.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Reads the ID of a task, which is that of its run.
fn run_of_task(task: &str) -> Result<RunId, ErrorData> {
    task.parse().map_err(|_| unknown_task())
}

fn unknown_task() -> ErrorData {
    ErrorData::invalid_params("no such task", None)
}

fn task_error(refusal: Refusal) -> ErrorData {
    if refusal.code == ErrorCode::NotFound {
        unknown_task()
    } else {
        protocol_error(refusal)
    }
}

/// Turns a refusal into a JSON-RPC error. The cause is logged and not sent.
fn protocol_error(refusal: Refusal) -> ErrorData {
    if (400..500).contains(&refusal.code.status()) {
        return ErrorData::invalid_params(refusal.text, None);
    }
    tracing::error!(error = %refusal, "an MCP request failed");
    ErrorData::internal_error(refusal.text, None)
}
