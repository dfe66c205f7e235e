//! MCP server, `/mcp` (`docs/MCP.md`): other agents start runs, wait for them and read what they left.
//!
//! Each request is answered on its own, in every revision of the protocol: there are no sessions, so any node answers any request
//! and a restart loses nothing. Each saved workflow of the organization is a tool. A call that starts a run is answered by a task
//! if the client knows tasks; its ID is that of the run, and its state is the run in the store. Any other client waits, and gets
//! the status of the run before it would give up.

mod changes;
mod resources;
mod results;
mod tools;

use std::sync::Arc;

use axum::{Extension, body::Body, extract::State, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header::ACCEPT, request::Parts};
use http_body_util::Full;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, GetTaskResult,
        Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
        ServerConfig, SubscriptionFilter, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::json;
use sortie_api::{ErrorCode, Refusal, RunId, limits};
use sortie_engine::Hop;

use self::changes::{Changes, change_stream};
pub(crate) use self::tools::Catalog;
use self::tools::NoResult;
use crate::{
    app::App,
    kit::{ApiResult, JsonBytes, Member, Opener},
    routes::names,
};

const INSTRUCTIONS: &str = "Sortie runs agents in a sandbox. Each saved workflow is a tool. A run may take longer than a call: \
    then the result has its ID and status, and `wait_run` waits for its end.";

/// Answers one message of a client.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    who: Member,
    Extension(hop): Extension<Hop>,
    opener: Opener,
    parts: Parts,
    JsonBytes(bytes, _room): JsonBytes,
) -> ApiResult<Response> {
    let server = Server {
        app: Arc::clone(&app),
        who,
        hop,
        opener,
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
    Ok(response.map(Body::new))
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
    let changes = Changes::of(&app, who.org).await?;
    Ok(change_stream(&app, changes, opener))
}

/// Answers the requests of one caller.
#[derive(Clone)]
struct Server {
    app: Arc<App>,
    who: Member,
    hop: Hop,
    opener: Opener,
}

impl ServerHandler for Server {
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
            Err(NoResult::UnknownTool) => Err(ErrorData::invalid_params("there is no such tool", None)),
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

    /// No run asks its client for anything.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        run_of_task(&request.task_id)?;
        Err(ErrorData::invalid_params("the task asks for nothing", None))
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
        let mut changes = Changes::of(&self.app, self.who.org)
            .await
            .map_err(protocol_error)?;
        let credential = self.app.watch.watch(self.opener);
        let stop = self.app.stop.clone();
        let over = async {
            match &credential {
                Some(credential) => credential.over().await,
                None => stop.cancelled().await,
            }
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
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
    match refusal.code.status() {
        400..500 => ErrorData::invalid_params(refusal.text, None),
        _ => {
            tracing::error!(error = %refusal, "an MCP request failed");
            ErrorData::internal_error(refusal.text, None)
        }
    }
}
