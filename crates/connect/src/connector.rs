//! Opens the connections of a run, and tests a connection for an administrator.
//!
//! Opening contacts all MCP servers of the run concurrently and takes at most [`OPEN_TIMEOUT`]. An unavailable server is an
//! [`OpenError`] with the name of its connection. HTTP APIs are not contacted at the start.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use reqwest::{Method, StatusCode, header::HeaderMap};
use serde::Serialize;
use sortie_agent::{Redactor, Tool};
use sortie_net::{Client, Network, Timeouts};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::{
    Auth, Connection, Failure, Target,
    http::{HttpTool, REQUEST_TIMEOUT},
    mcp::{self, CALL_TIMEOUT, Dial, Outlets, Session, StdioLauncher, Way},
    outlet::{Outgoing, Outlet},
};

/// Timeout to open a connection.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout of a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum silence of an event stream of MCP revision 2024-11-05, which stays open between calls, possibly for the whole run.
const STREAM_SILENCE: Duration = Duration::from_hours(1);

/// Opens and tests connections for the runs of a node.
pub struct Connector {
    /// For requests with a short response.
    http: Client,
    /// For MCP, with responses that can be streams: this client limits only their silence.
    streams: Client,
    /// For the event stream of MCP revision 2024-11-05.
    long_streams: Client,
    stdio: Option<Arc<dyn StdioLauncher>>,
}

/// Sessions with tasks that the calls of a run have left. Dropping it leaves the tasks to their servers.
pub struct LeftTasks {
    sessions: Vec<Arc<Session>>,
}

impl LeftTasks {
    /// Asks the servers to cancel the tasks. Takes some seconds at most.
    pub async fn cancel(self) {
        join_all(self.sessions.iter().map(|session| session.cancel_tasks())).await;
    }
}

/// The open connections of a run. Dropping it closes the MCP sessions in the background; [`Opened::close`] waits for that.
pub struct Opened {
    /// Tools for the agent: `<connection>__request` for an HTTP API, `<connection>__<tool>` for an MCP server.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Messages about omitted tools, with the reasons.
    pub notes: Vec<String>,
    sessions: Vec<Arc<Session>>,
}

struct OpenOne {
    tools: Vec<Arc<dyn Tool>>,
    notes: Vec<String>,
    session: Option<Arc<Session>>,
}

impl Connector {
    /// Creates a connector for the servers that `network` allows. Without `stdio`, it refuses connections to programs.
    pub fn new(
        network: &Arc<Network>,
        stdio: Option<Arc<dyn StdioLauncher>>,
    ) -> Result<Self, sortie_net::Error> {
        let timeouts = |read: Duration, total| Timeouts {
            connect: CONNECT_TIMEOUT,
            read,
            total,
        };
        Ok(Self {
            http: Client::on(
                Arc::clone(network),
                timeouts(REQUEST_TIMEOUT, Some(REQUEST_TIMEOUT)),
            )?,
            streams: Client::on(Arc::clone(network), timeouts(CALL_TIMEOUT, None))?,
            long_streams: Client::on(Arc::clone(network), timeouts(STREAM_SILENCE, None))?,
            stdio,
        })
    }

    /// Opens the connections of a run concurrently. Registers every credential in them, and every later access token, with
    /// `redactor` before it is sent. Fails with the first connection that cannot be opened.
    pub async fn open(
        &self,
        connections: &[Connection],
        redactor: &Arc<Redactor>,
    ) -> Result<Opened, OpenError> {
        let opening = connections.iter().map(|connection| async move {
            self.open_one(connection, redactor)
                .await
                .map_err(|failure| OpenError {
                    connection: connection.name.clone(),
                    failure,
                })
        });
        let mut opened = Opened {
            tools: Vec::new(),
            notes: Vec::new(),
            sessions: Vec::new(),
        };
        let mut names = HashSet::new();
        for one in try_join_all(opening).await? {
            for tool in one.tools {
                let name = tool.definition().name.to_owned();
                if names.insert(name.clone()) {
                    opened.tools.push(tool);
                } else {
                    // Two tools have the same name only if a server does this on purpose.
                    opened
                        .notes
                        .push(format!("tool `{name}` is left out: another has its name"));
                }
            }
            opened.notes.extend(one.notes);
            opened.sessions.extend(one.session);
        }
        Ok(opened)
    }

    async fn open_one(&self, connection: &Connection, redactor: &Arc<Redactor>) -> Result<OpenOne, Failure> {
        let allowed_tools = match &connection.target {
            Target::Http { url, allowed_methods } => {
                let outlet = outlet(connection, url, &self.http, redactor)?;
                let description = connection.description.as_deref();
                let tool = HttpTool::new(
                    &connection.name,
                    description,
                    url,
                    allowed_methods.as_deref(),
                    outlet,
                );
                return Ok(OpenOne {
                    tools: vec![Arc::new(tool)],
                    notes: Vec::new(),
                    session: None,
                });
            }
            Target::Mcp { allowed_tools, .. } | Target::McpStdio { allowed_tools, .. } => {
                allowed_tools.as_deref()
            }
        };
        let dial = self.dial(connection, redactor)?;
        let limit = dial.limit();
        let opening = async {
            let session = Arc::new(Session::open(dial).await?);
            let (tools, notes) = mcp::tools(&connection.name, allowed_tools, &session).await?;
            Ok(OpenOne {
                tools: tools
                    .into_iter()
                    .map(|tool| Arc::new(tool) as Arc<dyn Tool>)
                    .collect(),
                notes,
                session: Some(session),
            })
        };
        timeout(limit, opening)
            .await
            .unwrap_or_else(|_| Err(too_slow(&connection.target, redactor)))
    }

    fn dial(&self, connection: &Connection, redactor: &Arc<Redactor>) -> Result<Dial, Failure> {
        let way = match &connection.target {
            Target::Http { url, .. } | Target::Mcp { url, .. } => Way::Http {
                outlets: Outlets {
                    stream: outlet(connection, url, &self.long_streams, redactor)?,
                    messages: outlet(connection, url, &self.streams, redactor)?,
                },
                url: url.clone(),
            },
            Target::McpStdio { command, env, .. } => {
                let launcher = self.stdio.as_ref().ok_or_else(|| {
                    Failure::Error(
                        "programs as MCP servers are possible on self-hosted engines only".to_owned(),
                    )
                })?;
                for (_, value) in env {
                    redactor.add(value.expose());
                }
                Way::Stdio {
                    launcher: Arc::clone(launcher),
                    command: command.clone(),
                    env: env.clone(),
                }
            }
        };
        Ok(Dial {
            redactor: Arc::clone(redactor),
            way,
        })
    }

    /// Tests a connection: opens an MCP server and lists its tools, or sends a `HEAD` to an HTTP API, and a `GET` if it does not
    /// support `HEAD`.
    pub async fn test(&self, connection: &Connection) -> TestReport {
        let began = Instant::now();
        let redactor = Arc::new(Redactor::default());
        let tested = async {
            match &connection.target {
                Target::Http { url, .. } => {
                    timeout(OPEN_TIMEOUT, self.test_http(connection, url, &redactor)).await
                }
                Target::Mcp { .. } | Target::McpStdio { .. } => {
                    let dial = self.dial(connection, &redactor)?;
                    timeout(dial.limit(), Self::test_mcp(connection, dial)).await
                }
            }
            .unwrap_or_else(|_| Err(too_slow(&connection.target, &redactor)))
        };
        let mut report = match tested.await {
            Ok(report) => report,
            Err(failure) => TestReport::failed(&failure),
        };
        report.detail = redactor.redact(&report.detail).into_owned();
        report.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        report
    }

    async fn test_http(
        &self,
        connection: &Connection,
        url: &Url,
        redactor: &Arc<Redactor>,
    ) -> Result<TestReport, Failure> {
        let outlet = outlet(connection, url, &self.http, redactor)?;
        let ask = async |method| {
            let request = Outgoing {
                method,
                url: url.clone(),
                headers: HeaderMap::new(),
                body: None,
            };
            outlet.send(&request).await
        };
        let mut response = ask(Method::HEAD).await?;
        if matches!(
            response.status(),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        ) {
            response = ask(Method::GET).await?;
        }
        if let Some(failure) = outlet.refused_scope(&response) {
            return Err(failure);
        }
        let status = response.status();
        let (verdict, detail) = match status.as_u16() {
            401 if matches!(connection.auth, Auth::OAuth(_)) => (
                Status::NeedsAuthorization,
                "the API refuses the access token".to_owned(),
            ),
            401 | 403 | 407 => (
                Status::Error,
                format!("the API refuses the credentials (HTTP {status})"),
            ),
            500.. => (Status::Error, format!("the API answers HTTP {status}")),
            _ => (Status::Ready, format!("the API answers HTTP {status}")),
        };
        Ok(TestReport {
            status: verdict,
            detail,
            http_status: Some(status.as_u16()),
            protocol_version: None,
            tools: None,
            duration_ms: 0,
        })
    }

    async fn test_mcp(connection: &Connection, dial: Dial) -> Result<TestReport, Failure> {
        let session = Arc::new(Session::open(dial).await?);
        let listed = mcp::tools(&connection.name, None, &session).await;
        let version = session.protocol_version().await;
        session.close().await;
        let (tools, notes) = listed?;
        let mut detail = format!("the server offers {} tools", tools.len());
        for note in notes {
            detail.push_str("; ");
            detail.push_str(&note);
        }
        Ok(TestReport {
            status: Status::Ready,
            detail,
            http_status: None,
            protocol_version: version,
            tools: Some(tools.iter().map(|tool| tool.server_name().to_owned()).collect()),
            duration_ms: 0,
        })
    }
}

impl Opened {
    /// Closes the MCP sessions in the background, except for those with tasks that dropped calls have left.
    pub fn into_left_tasks(self) -> Option<LeftTasks> {
        let sessions = self.sessions.into_iter().filter(|session| session.has_tasks());
        let sessions: Vec<_> = sessions.collect();
        (!sessions.is_empty()).then_some(LeftTasks { sessions })
    }

    /// Closes the MCP sessions and waits up to some seconds until the servers are notified.
    pub async fn close(self) {
        let Self { tools, sessions, .. } = self;
        drop(tools);
        join_all(sessions.iter().map(|session| session.close())).await;
    }
}

impl TestReport {
    fn failed(failure: &Failure) -> Self {
        let status = match failure {
            Failure::NeedsAuthorization(_) => Status::NeedsAuthorization,
            Failure::Error(_) => Status::Error,
        };
        Self {
            status,
            detail: failure.to_string(),
            http_status: None,
            protocol_version: None,
            tools: None,
            duration_ms: 0,
        }
    }
}

/// Creates the outlet of a connection and checks its URL. Sends nothing.
fn outlet(
    connection: &Connection,
    url: &Url,
    client: &Client,
    redactor: &Arc<Redactor>,
) -> Result<Arc<Outlet>, Failure> {
    // Built only as a check, and not sent.
    let _request = client
        .request(Method::GET, url)
        .map_err(|error| Failure::Error(error.to_string()))?;
    Outlet::new(client.clone(), connection, Arc::clone(redactor))
        .map(Arc::new)
        .map_err(Failure::Error)
}

/// Returns the failure of a server, or of the named program, that does not respond.
fn too_slow(target: &Target, redactor: &Redactor) -> Failure {
    let whose = match target {
        Target::Http { .. } | Target::Mcp { .. } => "the server".to_owned(),
        Target::McpStdio { command, .. } => mcp::program_name(command, redactor),
    };
    Failure::Error(format!(
        "{whose} did not answer within {} s",
        OPEN_TIMEOUT.as_secs()
    ))
}

/// Failure to open a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection `{connection}`: {failure}")]
pub struct OpenError {
    /// Name of the connection in the run.
    pub connection: String,
    /// Reason of the failure.
    pub failure: Failure,
}

/// Result of a connection test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestReport {
    /// State of the connection.
    pub status: Status,
    /// Result as a sentence.
    pub detail: String,
    /// Status of the HTTP API's response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// The negotiated MCP revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The tools of an MCP server, by its names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Duration of the test, in milliseconds.
    pub duration_ms: u64,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The connection can be used.
    Ready,
    /// A person has to authorize the connection first.
    NeedsAuthorization,
    /// The connection cannot be used.
    Error,
}
