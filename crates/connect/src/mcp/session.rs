//! MCP session of a run: opened at the start, opened again when it has broken, closed with the run.
//!
//! Opening tries the newest revision and falls back to `initialize`. A call that broke off is made again only when it
//! may be made twice; every other failure is told, and the next call opens a new session. Nothing waits for ever: each
//! step has its time.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ClientHandler, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ErrorData,
        Implementation, JsonObject, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RoleClient,
        RunningService,
    },
    transport::{
        DynamicTransportError, StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::Value;
use sortie_agent::{Redactor, tool::Effect};
use sortie_api::Credential;
use tokio::{sync::Mutex, time::timeout};
use url::Url;

use super::{
    frames::MESSAGE_BYTES,
    listing::TOOLS,
    pipes::{Pipes, StdioLauncher},
    wire::{Meter, Wire, WireError},
};
use crate::{Failure, OPEN_TIMEOUT, outlet::Outlet, text};

/// The longest that a call may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// Time beyond the timeout of a call until its cancellation is sent.
const CALL_GRACE: Duration = Duration::from_secs(10);
/// Time for which closing waits for the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most pages of tools that are asked for.
const PAGES: usize = 20;
/// Maximum part of a server's message in an error, in bytes.
const TOLD_BYTES: usize = 1024;

/// Server at which a session is opened.
pub(crate) struct Dial {
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) way: Way,
}

/// Transport to the server.
pub(crate) enum Way {
    /// Over streamable HTTP.
    Http {
        /// Adds the credentials.
        outlet: Arc<Outlet>,
        /// The endpoint.
        url: Url,
    },
    /// Over the standard streams of a program, which is started with the session.
    Stdio {
        /// Starts it.
        launcher: Arc<dyn StdioLauncher>,
        /// The program and its arguments.
        command: Vec<String>,
        /// Environment of the program.
        env: Vec<(String, Credential)>,
    },
}

type Running = RunningService<RoleClient, Client>;

/// A session, connected or to be connected again.
pub(crate) struct Session {
    dial: Dial,
    running: Mutex<Option<Arc<Running>>>,
}

/// Reason why a call brought no result.
pub(super) enum CallError {
    /// The server says so; the session is fine.
    Server(String),
    /// The session is not, and whether the call took place is not known.
    Broken(Failure),
    /// There is no session: nothing was sent.
    Unsent(Failure),
}

impl Session {
    /// Opens it. The caller bounds the time.
    pub(crate) async fn open(dial: Dial) -> Result<Self, Failure> {
        let running = dial.connect().await?;
        Ok(Self {
            dial,
            running: Mutex::new(Some(running)),
        })
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.dial.redactor
    }

    /// The revision that was agreed upon.
    pub(crate) async fn protocol_version(&self) -> Option<String> {
        let running = self.running.lock().await;
        let info = running.as_ref()?.peer_info()?;
        Some(info.protocol_version.as_str().to_owned())
    }

    /// The tools the server lists, page by page, as it describes them, until there are more than a run can have.
    pub(crate) async fn tools(&self) -> Result<Vec<Value>, Failure> {
        let running = self.running().await?;
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _page in 0..PAGES {
            let request =
                ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let result = request_of(&running, ClientRequest::ListToolsRequest(request), OPEN_TIMEOUT)
                .await
                .map_err(|error| self.failure(error))?;
            let page = as_value(result)?;
            if let Some(Value::Array(listed)) = page.get("tools") {
                tools.extend(listed.iter().take(10 * TOOLS).cloned());
            }
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() || tools.len() >= 10 * TOOLS {
                break;
            }
        }
        Ok(tools)
    }

    /// Calls a tool, by the server's own name. `meter` learns what came over the wire.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        effect: Effect,
        meter: &Arc<Meter>,
    ) -> Result<Value, CallError> {
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

    async fn call_once(
        &self,
        tool: &str,
        arguments: JsonObject,
        meter: &Arc<Meter>,
    ) -> Result<Value, CallError> {
        let running = self.running().await.map_err(CallError::Unsent)?;
        let mut request =
            CallToolRequest::new(CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments));
        request.extensions.insert(Arc::clone(meter));
        match request_of(&running, ClientRequest::CallToolRequest(request), CALL_TIMEOUT).await {
            Ok(ServerResult::InputRequiredResult(_)) => Err(CallError::Server(
                "the server asks for input in the middle of the call, which this engine does not give"
                    .to_owned(),
            )),
            Ok(ServerResult::CreateTaskResult(_)) => Err(CallError::Server(
                "the server answers with a task to wait for, which this engine does not do".to_owned(),
            )),
            Ok(result) => as_value(result).map_err(CallError::Broken),
            Err(ServiceError::McpError(error)) => Err(CallError::Server(self.words(&error))),
            Err(error @ ServiceError::Timeout { .. }) => {
                Err(CallError::Server(self.failure(error).to_string()))
            }
            Err(error) => {
                self.forget(&running).await;
                let failure = match (error, meter.broke_off()) {
                    (ServiceError::TransportClosed, Some(why)) => Failure::Error(why.to_owned()),
                    (error, _) => self.failure(error),
                };
                Err(CallError::Broken(failure))
            }
        }
    }

    /// The session, opened again if it has broken.
    async fn running(&self) -> Result<Arc<Running>, Failure> {
        let mut slot = self.running.lock().await;
        if let Some(running) = slot.as_ref().filter(|running| !running.is_transport_closed()) {
            return Ok(Arc::clone(running));
        }
        let opened = timeout(OPEN_TIMEOUT, self.dial.connect()).await;
        let running = opened.map_err(|_| slow(OPEN_TIMEOUT))??;
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }

    async fn forget(&self, broken: &Arc<Running>) {
        let mut slot = self.running.lock().await;
        if slot.as_ref().is_some_and(|running| Arc::ptr_eq(running, broken)) {
            *slot = None;
        }
    }

    /// Ends the session and waits, for some seconds at most, until the server has been told.
    pub(crate) async fn close(&self) {
        let running = self.running.lock().await.take();
        // A call that is still under way keeps it: it ends with the last of them.
        if let Some(mut running) = running.and_then(Arc::into_inner)
            && let Err(error) = running.close_with_timeout(CLOSE_TIMEOUT).await
        {
            tracing::warn!(%error, "an MCP session did not end");
        }
    }

    fn failure(&self, error: ServiceError) -> Failure {
        match error {
            ServiceError::McpError(error) => Failure::Error(self.words(&error)),
            ServiceError::TransportSend(error) => self.dial.transport_failure(&error),
            ServiceError::Timeout { timeout } => slow(timeout),
            ServiceError::TransportClosed => {
                Failure::Error("the connection to the server broke off".to_owned())
            }
            error @ (ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _) => Failure::Error(text::line(&error.to_string(), TOLD_BYTES)),
        }
    }

    fn words(&self, error: &ErrorData) -> String {
        self.dial.words(error)
    }
}

impl Dial {
    async fn connect(&self) -> Result<Arc<Running>, Failure> {
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let started = match &self.way {
            Way::Http { outlet, url } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.max_sse_event_size = MESSAGE_BYTES;
                let wire = Wire::new(Arc::clone(outlet), url.clone());
                let transport = StreamableHttpClientTransport::with_client(wire, config);
                Client.serve_with_lifecycle(transport, lifecycle).await
            }
            Way::Stdio {
                launcher,
                command,
                env,
            } => {
                let process = launcher.launch(command, env).await.map_err(Failure::Error)?;
                let pipes = Pipes::new(process, Arc::clone(&self.redactor));
                Client.serve_with_lifecycle(pipes, lifecycle).await
            }
        };
        started.map(Arc::new).map_err(|error| self.start_failure(&error))
    }

    fn start_failure(&self, error: &ClientInitializeError) -> Failure {
        match error {
            ClientInitializeError::TransportError { error, .. } => self.transport_failure(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => self.start_failure(fallback),
            ClientInitializeError::JsonRpcError(error) => Failure::Error(self.words(error)),
            ClientInitializeError::ConnectionClosed(_) => {
                Failure::Error("the server's answer to the first message cannot be read".to_owned())
            }
            ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
            | ClientInitializeError::NoCompatibleProtocolVersion { .. }
            | ClientInitializeError::NoPreferredProtocolVersion
            | ClientInitializeError::Cancelled
            | _ => Failure::Error(self.shown(&error.to_string())),
        }
    }

    fn transport_failure(&self, error: &DynamicTransportError) -> Failure {
        match error.error.downcast_ref::<StreamableHttpError<WireError>>() {
            Some(StreamableHttpError::Client(WireError(failure))) => failure.clone(),
            Some(other) => Failure::Error(self.shown(&other.to_string())),
            None => Failure::Error(self.shown(&error.error.to_string())),
        }
    }

    fn words(&self, error: &ErrorData) -> String {
        self.shown(&format!("the server says: {} ({})", error.message, error.code.0))
    }

    fn shown(&self, words: &str) -> String {
        text::line(&self.redactor.redact(words), TOLD_BYTES)
    }
}

fn slow(limit: Duration) -> Failure {
    Failure::Error(format!("the server did not answer within {} s", limit.as_secs()))
}

/// Makes a request and returns its answer, within `limit`; the server is notified when the time is up.
async fn request_of(
    running: &Running,
    request: ClientRequest,
    limit: Duration,
) -> Result<ServerResult, ServiceError> {
    let exchange = async {
        let options = PeerRequestOptions::with_timeout(limit);
        let handle = running.peer().send_request_with_option(request, options).await?;
        handle.await_response().await
    };
    timeout(limit + CALL_GRACE, exchange)
        .await
        .unwrap_or(Err(ServiceError::Timeout { timeout: limit }))
}

/// A result as JSON: read leniently afterwards, so that one strange item does not spoil the rest.
fn as_value(result: ServerResult) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(|_| Failure::Error("the server's answer cannot be read".to_owned()))
}

/// Our side of the protocol: it can do nothing for a server. No sampling, no elicitation, no roots.
#[derive(Clone, Copy)]
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("sortie", env!("CARGO_PKG_VERSION")),
        )
    }
}
