//! MCP session of a run: opened at the start, opened again when it has broken, closed with the run.
//!
//! Opening tries the newest revision, falls back to `initialize`, and over HTTP from there to the stream of revision
//! 2024-11-05. A call that broke off is made again only when it
//! may be made twice; every other failure is told, and the next call opens a new session. Nothing waits for ever: each
//! step has its time.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use rmcp::{
    ClientHandler, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ErrorCode,
        ErrorData, Implementation, InputRequests, JsonObject, ListToolsRequest, PaginatedRequestParams,
        ProtocolVersion, ServerResult,
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
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout, timeout_at},
};
use url::Url;

use super::{
    frames::MESSAGE_BYTES,
    http_sse::{HttpSse, Outlets},
    listing::TOOLS,
    meter::Meter,
    pipes::{PATIENCE, Pipes, StdioLauncher, Watched, program_name},
    wire::{Wire, WireError},
};
use crate::{Failure, OPEN_TIMEOUT, text};

/// The longest that a call may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// Pause before a call is made again because its server has asked for that. It doubles, up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Time beyond the timeout of a call until its cancellation is sent.
const CALL_GRACE: Duration = Duration::from_secs(10);
/// Time for the end of a program that did not answer: its own end is waited for, and it is ended.
const STOP_TIMEOUT: Duration = PATIENCE.saturating_mul(2).saturating_add(Duration::from_secs(1));
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
    /// Over streamable HTTP, or over the stream of revision 2024-11-05.
    Http {
        /// Add the credentials.
        outlets: Outlets,
        /// URL of the connection.
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

type Service = RunningService<RoleClient, Client>;

/// A session that is connected.
struct Running {
    service: Service,
    channel: Channel,
}

/// Way of the answers of a session.
enum Channel {
    /// Each request has its own.
    Separate,
    /// A single stream has all of them. After a silence nobody knows whether it is still open.
    OneStream,
    /// A program writes them. It may be lost.
    Program(Arc<Watched>),
}

impl Running {
    /// Reason of the loss of a program.
    fn lost(&self) -> Option<Failure> {
        match &self.channel {
            Channel::Program(program) => program.lost().map(Failure::Error),
            Channel::Separate | Channel::OneStream => None,
        }
    }

    /// Returns the failure of the server at `dial` that has not listed its tools in time. A program is ended, to learn
    /// what it wrote.
    async fn silent(&self, dial: &Dial) -> Failure {
        match &self.channel {
            Channel::Program(program) => Failure::Error(program.silent(OPEN_TIMEOUT).await),
            Channel::Separate | Channel::OneStream => dial.slow(OPEN_TIMEOUT),
        }
    }

    /// Whether the server says that it has tools.
    fn names_tools(&self) -> bool {
        let info = self.service.peer_info();
        info.is_some_and(|info| info.capabilities.tools.is_some())
    }
}

/// A session, connected or to be connected again.
pub(crate) struct Session {
    dial: Dial,
    running: Mutex<Option<Arc<Running>>>,
    /// End of the time in which the session is opened and its tools are listed.
    opened_until: Instant,
}

/// Answer to one request of a call.
enum Round {
    /// The result.
    Done(Value),
    /// The server wants the request again, with this state.
    Again(String),
}

/// Reason why a call brought no result.
pub(super) enum CallError {
    /// The server says so; the session is fine.
    Server(String),
    /// The session is not, and whether the call took place is not known.
    Broken(Failure),
    /// There is no session, or no authorization for this call: nothing was done.
    Unsent(Failure),
}

impl Session {
    /// Opens it. The caller bounds the time.
    pub(crate) async fn open(dial: Dial) -> Result<Self, Failure> {
        let opened_until = Instant::now() + OPEN_TIMEOUT;
        let running = dial.connect().await?;
        Ok(Self {
            opened_until,
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
        let info = running.as_ref()?.service.peer_info()?;
        Some(info.protocol_version.as_str().to_owned())
    }

    /// The tools the server lists, page by page, as it describes them, until there are more than a run can have. They are
    /// listed within the time for opening the session.
    pub(crate) async fn tools(&self) -> Result<Vec<Value>, Failure> {
        let running = self.running().await?;
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _page in 0..PAGES {
            let request =
                ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let left = self.opened_until.saturating_duration_since(Instant::now());
            let listed = request_of(&running, ClientRequest::ListToolsRequest(request), left).await;
            let page = match listed {
                Ok(page) => as_value(page)?,
                // Some servers have tools and do not say so: they are asked, and may refuse.
                Err(ServiceError::McpError(error))
                    if error.code == ErrorCode::METHOD_NOT_FOUND || !running.names_tools() =>
                {
                    break;
                }
                Err(ServiceError::Timeout { .. }) => {
                    return Err(running.silent(&self.dial).await);
                }
                Err(error) => return Err(running.lost().unwrap_or_else(|| self.failure(error))),
            };
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

    /// Makes a call, and makes it again with the state that the server returns for as long as it asks for that alone.
    async fn call_once(
        &self,
        tool: &str,
        arguments: JsonObject,
        meter: &Arc<Meter>,
    ) -> Result<Value, CallError> {
        let running = self.running().await.map_err(CallError::Unsent)?;
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let until = Instant::now() + CALL_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.round(&running, params.clone(), (meter, left)).await? {
                Round::Done(result) => return Ok(result),
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

    /// Makes one request of a call, and waits for its answer until its time is up.
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
                Some(_) | None => Err(CallError::Server(
                    "the server asks for input in the middle of the call, which this engine does not give"
                        .to_owned(),
                )),
            },
            Ok(ServerResult::CreateTaskResult(_)) => Err(CallError::Server(
                "the server answers with a task to wait for, which this engine does not do".to_owned(),
            )),
            Ok(result) => as_value(result).map(Round::Done).map_err(CallError::Broken),
            Err(ServiceError::McpError(error)) => Err(CallError::Server(self.words(&error))),
            Err(ServiceError::Timeout { .. }) => {
                if matches!(running.channel, Channel::OneStream) {
                    self.forget(running).await;
                }
                // A program goes on: it may be at work on other calls.
                Err(CallError::Server(self.dial.slow(CALL_TIMEOUT).to_string()))
            }
            Err(error) => {
                let failure = match (error, meter.broke_off()) {
                    (ServiceError::TransportClosed, Some(why)) => Failure::Error(why.to_owned()),
                    (error, _) => self.failure(error),
                };
                // A request that is refused for its authorization was not carried out.
                if matches!(failure, Failure::NeedsAuthorization(_)) {
                    return Err(CallError::Unsent(failure));
                }
                self.forget(running).await;
                Err(CallError::Broken(running.lost().unwrap_or(failure)))
            }
        }
    }

    /// The session, opened again if it has broken.
    async fn running(&self) -> Result<Arc<Running>, Failure> {
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
            && let Err(error) = running.service.close_with_timeout(CLOSE_TIMEOUT).await
        {
            tracing::warn!(%error, "an MCP session did not end");
        }
    }

    fn failure(&self, error: ServiceError) -> Failure {
        match error {
            ServiceError::McpError(error) => Failure::Error(self.words(&error)),
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

    fn words(&self, error: &ErrorData) -> String {
        self.dial.words(error)
    }
}

impl Dial {
    /// Time in which a session is opened. A program that does not answer is then ended, to learn what it wrote.
    pub(crate) const fn limit(&self) -> Duration {
        match &self.way {
            Way::Http { .. } => OPEN_TIMEOUT,
            Way::Stdio { .. } => OPEN_TIMEOUT.saturating_add(STOP_TIMEOUT),
        }
    }

    /// Returns the failure of a server, or of the named program, that does not answer.
    pub(crate) fn slow(&self, limit: Duration) -> Failure {
        let whose = match &self.way {
            Way::Http { .. } => "the server".to_owned(),
            Way::Stdio { command, .. } => program_name(command, &self.redactor),
        };
        Failure::Error(format!("{whose} did not answer within {} s", limit.as_secs()))
    }

    // Boxed without its type: it holds the clients of three transports, which the compiler otherwise makes again in the
    // future of everything that opens a session.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<Running>, Failure>> {
        self.open_session().boxed()
    }

    async fn open_session(&self) -> Result<Arc<Running>, Failure> {
        let (started, channel) = match &self.way {
            Way::Http { outlets, url } => match streamable(outlets, url).await {
                // The server takes no messages here: it may speak the older transport.
                Err(error) if is_not_served(&error) => match HttpSse::open(outlets, url).await? {
                    Some(stream) => {
                        let started = Client
                            .serve_with_lifecycle(stream, ClientLifecycleMode::Initialize)
                            .await;
                        (started, Channel::OneStream)
                    }
                    None => (Err(error), Channel::Separate),
                },
                started => (started, Channel::Separate),
            },
            Way::Stdio {
                launcher,
                command,
                env,
            } => {
                let until = Instant::now() + OPEN_TIMEOUT;
                let launched = timeout_at(until, launcher.launch(command, env)).await;
                let process = launched
                    .map_err(|_| self.slow(OPEN_TIMEOUT))?
                    .map_err(Failure::Error)?;
                let pipes = Pipes::new(process, command, Arc::clone(&self.redactor));
                let program = pipes.program();
                let Ok(started) = timeout_at(until, Client.serve_with_lifecycle(pipes, auto())).await else {
                    return Err(Failure::Error(program.silent(OPEN_TIMEOUT).await));
                };
                if let (Err(_), Some(why)) = (&started, program.lost()) {
                    return Err(Failure::Error(why));
                }
                (started, Channel::Program(program))
            }
        };
        let service = started.map_err(|error| self.start_failure(&error))?;
        Ok(Arc::new(Running { service, channel }))
    }

    fn start_failure(&self, error: &ClientInitializeError) -> Failure {
        let why = match error {
            ClientInitializeError::TransportError { error, .. } => return self.transport_failure(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                return self.start_failure(fallback);
            }
            ClientInitializeError::JsonRpcError(error) => self.words(error),
            ClientInitializeError::ConnectionClosed(_) => {
                "the server's answer to the first message cannot be read".to_owned()
            }
            ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
                let theirs: Vec<&str> = server_supported.iter().map(ProtocolVersion::as_str).collect();
                self.shown(&format!(
                    "the server speaks no revision of MCP that this engine speaks: {}",
                    theirs.join(", ")
                ))
            }
            ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
                "the server's answer to the first message does not belong to it".to_owned()
            }
            ClientInitializeError::NoPreferredProtocolVersion | ClientInitializeError::Cancelled | _ => {
                "the session could not be opened".to_owned()
            }
        };
        Failure::Error(why)
    }

    fn transport_failure(&self, error: &DynamicTransportError) -> Failure {
        if let Some(error) = wire_error(error) {
            return error.failure();
        }
        let why = match error.error.downcast_ref::<StreamableHttpError<WireError>>() {
            Some(StreamableHttpError::ReinitializationFailed(error)) => self.words(error),
            Some(StreamableHttpError::Sse(_) | StreamableHttpError::UnexpectedEndOfStream) => {
                "the server's event stream broke off".to_owned()
            }
            Some(StreamableHttpError::SessionExpired | StreamableHttpError::SessionRecoveryTimeout) => {
                "the server has lost the session".to_owned()
            }
            Some(
                StreamableHttpError::UnexpectedServerResponse(_)
                | StreamableHttpError::UnexpectedContentType(_)
                | StreamableHttpError::MissingSessionIdInResponse
                | StreamableHttpError::Deserialize(_),
            ) => "the server's answer cannot be read".to_owned(),
            Some(_) | None => "the connection to the server broke off".to_owned(),
        };
        Failure::Error(why)
    }

    fn words(&self, error: &ErrorData) -> String {
        self.shown(&format!("the server says: {} ({})", error.message, error.code.0))
    }

    fn shown(&self, words: &str) -> String {
        text::line(&self.redactor.redact(words), TOLD_BYTES)
    }
}

async fn streamable(outlets: &Outlets, url: &Url) -> Result<Service, ClientInitializeError> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.max_sse_event_size = MESSAGE_BYTES;
    let wire = Wire::new(Arc::clone(&outlets.messages), url.clone());
    let transport = StreamableHttpClientTransport::with_client(wire, config);
    Client.serve_with_lifecycle(transport, auto()).await
}

/// The newest revision first, then `initialize`.
fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Whether the server does not take messages at the URL of the connection.
fn is_not_served(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            matches!(wire_error(error), Some(WireError::NotServed(_)))
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_not_served(fallback),
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. }
        | ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::JsonRpcError(_)
        | ClientInitializeError::NoCompatibleProtocolVersion { .. }
        | ClientInitializeError::NoPreferredProtocolVersion
        | ClientInitializeError::Cancelled
        | _ => false,
    }
}

/// Our own error in that of a transport.
fn wire_error(error: &DynamicTransportError) -> Option<&WireError> {
    match error.error.downcast_ref() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        Some(_) => None,
        None => error.error.downcast_ref(),
    }
}

/// Makes a request and returns its answer, within `limit`; the server is notified when the time is up.
async fn request_of(
    running: &Running,
    request: ClientRequest,
    limit: Duration,
) -> Result<ServerResult, ServiceError> {
    let exchange = async {
        let options = PeerRequestOptions::with_timeout(limit);
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
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
