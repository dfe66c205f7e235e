//! Opens a session with an MCP server, and classifies failures.
//!
//! Opening tries the newest revision, then `initialize`, and finally, over HTTP, the event stream of revision 2024-11-05. A busy
//! server is retried.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use rmcp::{
    ClientHandler,
    model::{ClientCapabilities, ClientConfig, ErrorData, Implementation, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService},
    transport::{
        DynamicTransportError, StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use sortie_agent::Redactor;
use sortie_api::Credential;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use super::{
    frames::{MESSAGE_BYTES, NO_MESSAGE},
    http_sse::{HttpSse, Outlets},
    pipes::{PATIENCE, Pipes, StdioLauncher, Watched, program_name},
    wire::{Wire, WireError},
};
use crate::{Failure, OPEN_TIMEOUT, text};

/// Timeout to stop a program that did not respond: first it can exit, then it is killed.
const STOP_TIMEOUT: Duration = PATIENCE.saturating_mul(2).saturating_add(Duration::from_secs(1));
/// Maximum number of bytes of a server's message in an error.
const TOLD_BYTES: usize = 1024;
/// Initial delay before a busy server is retried, unless the server specifies one. It doubles.
const BUSY_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of retries for a busy server.
const BUSY_TRIES: u32 = 3;

/// Server of a session that is being opened.
pub(crate) struct Dial {
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) way: Way,
}

/// Transport to the server.
pub(crate) enum Way {
    /// Streamable HTTP, or the event stream of revision 2024-11-05.
    Http {
        /// These add the credentials.
        outlets: Outlets,
        /// URL of the connection.
        url: Url,
    },
    /// Standard streams of a program, which starts with the session.
    Stdio {
        /// Starts the program.
        launcher: Arc<dyn StdioLauncher>,
        /// The program and its arguments.
        command: Vec<String>,
        /// Environment of the program.
        env: Vec<(String, Credential)>,
    },
}

type Service = RunningService<RoleClient, Client>;

/// A connected session.
pub(super) struct Running {
    pub(super) service: Service,
    pub(super) channel: Channel,
}

/// Channel for the responses of a session.
pub(super) enum Channel {
    /// Each request has a separate response.
    Separate,
    /// A single stream carries all responses. After a silence, it is unknown if it is still open.
    OneStream,
    /// A program writes them. It may have exited.
    Program(Arc<Watched>),
}

impl Running {
    /// Whether each request declares the capabilities of the client, as since revision 2026-07-28.
    pub(super) fn declares_per_request(&self) -> bool {
        let info = self.service.peer_info();
        info.is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Returns the failure if the program has exited.
    pub(super) fn lost(&self) -> Option<Failure> {
        match &self.channel {
            Channel::Program(program) => program.lost().map(Failure::Error),
            Channel::Separate | Channel::OneStream => None,
        }
    }

    /// Returns the failure of the server at `dial` that did not list its tools in time. Stops a program, to get its output.
    pub(super) async fn silent(&self, dial: &Dial) -> Failure {
        match &self.channel {
            Channel::Program(program) => Failure::Error(program.silent(OPEN_TIMEOUT).await),
            Channel::Separate | Channel::OneStream => dial.slow(OPEN_TIMEOUT),
        }
    }

    /// Returns the failure of the server at `dial` that did not respond to a call within `limit`.
    pub(super) fn slow(&self, dial: &Dial, limit: Duration) -> Failure {
        match &self.channel {
            Channel::Program(program) => Failure::Error(program.slow(limit)),
            Channel::Separate | Channel::OneStream => dial.slow(limit),
        }
    }

    /// Whether the server declares that it has tools.
    pub(super) fn names_tools(&self) -> bool {
        let info = self.service.peer_info();
        info.is_some_and(|info| info.capabilities.tools.is_some())
    }
}

impl Dial {
    /// Timeout to open a session. After that, a program is stopped to get its output.
    pub(crate) const fn limit(&self) -> Duration {
        match &self.way {
            Way::Http { .. } => OPEN_TIMEOUT,
            Way::Stdio { .. } => OPEN_TIMEOUT.saturating_add(STOP_TIMEOUT),
        }
    }

    /// Returns the failure of a server, or of the named program, that does not respond.
    pub(crate) fn slow(&self, limit: Duration) -> Failure {
        let whose = match &self.way {
            Way::Http { .. } => "the server".to_owned(),
            Way::Stdio { command, .. } => program_name(command, &self.redactor),
        };
        Failure::Error(format!("{whose} did not answer within {} s", limit.as_secs()))
    }

    // Boxed to erase its type: it contains the clients of three transports, which the compiler would otherwise instantiate again
    // in every future that opens a session.
    pub(super) fn connect(&self) -> BoxFuture<'_, Result<Arc<Running>, Failure>> {
        self.open_session().boxed()
    }

    async fn open_session(&self) -> Result<Arc<Running>, Failure> {
        let mut tries = Busy::until(Instant::now() + OPEN_TIMEOUT);
        loop {
            let (started, channel) = self.start().await?;
            let refused = started.as_ref().err().and_then(busy_at_start);
            if tries.allow_another(refused).await {
                continue;
            }
            let service = started.map_err(|error| self.start_failure(&error))?;
            return Ok(Arc::new(Running { service, channel }));
        }
    }

    async fn start(&self) -> Result<(Result<Service, ClientInitializeError>, Channel), Failure> {
        Ok(match &self.way {
            Way::Http { outlets, url } => match streamable(outlets, url).await {
                // The server accepts no messages at this URL, so it may use the older transport.
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
        })
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

    pub(super) fn transport_failure(&self, error: &DynamicTransportError) -> Failure {
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

    pub(super) fn words(&self, error: &ErrorData) -> String {
        if error.message.starts_with(NO_MESSAGE) {
            return self.shown(&error.message);
        }
        self.shown(&format!("the server says: {} ({})", error.message, error.code.0))
    }

    /// Returns words of the server for an error: redacted, on one line, with a maximum length.
    pub(super) fn shown(&self, words: &str) -> String {
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

/// Tries the newest revision first, then `initialize`.
fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Whether the server accepts no messages at the URL of the connection.
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

/// Extracts the refusal by a busy server from the error of opening a session.
fn busy_at_start(error: &ClientInitializeError) -> Option<Refused> {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return busy_at_start(fallback);
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        return busy(error);
    }
    None
}

/// Extracts the refusal by a busy server from the error of a transport.
pub(super) fn busy(error: &DynamicTransportError) -> Option<Refused> {
    match wire_error(error) {
        Some(WireError::Busy { after, .. }) => Some(Refused { after: *after }),
        Some(WireError::Failed(_) | WireError::NotServed(_)) | None => None,
    }
}

/// Refusal of a request that can be retried.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    /// Delay that the server requests.
    after: Option<Duration>,
}

impl Refused {
    /// Delay that the server requests.
    pub(super) const fn after(self) -> Option<Duration> {
        self.after
    }
}

/// Retries of a request to a busy server.
pub(super) struct Busy {
    until: Instant,
    pause: Duration,
    left: u32,
}

impl Busy {
    /// Permits retries until `until`.
    pub(super) fn until(until: Instant) -> Self {
        Self {
            until,
            pause: BUSY_PAUSE,
            left: BUSY_TRIES,
        }
    }

    /// Waits before another attempt of a refused request. Returns `false` if it was not refused, or if no attempts or no time are
    /// left.
    pub(super) async fn allow_another(&mut self, refused: Option<Refused>) -> bool {
        let Some(refused) = refused.filter(|_| self.left > 0) else {
            return false;
        };
        let pause = refused.after.unwrap_or(self.pause);
        let again = Instant::now().checked_add(pause);
        if again.is_none_or(|again| again >= self.until) {
            return false;
        }
        self.left -= 1;
        self.pause *= 2;
        sleep(pause).await;
        true
    }
}

/// Extracts our error from that of a transport.
fn wire_error(error: &DynamicTransportError) -> Option<&WireError> {
    match error.error.downcast_ref() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        Some(_) => None,
        None => error.error.downcast_ref(),
    }
}

/// Our side of the protocol. It offers servers no capabilities at the start of a session: no sampling, no elicitation, no roots.
/// Requests declare tasks if the revision has them.
#[derive(Clone, Copy)]
pub(super) struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("sortie", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
