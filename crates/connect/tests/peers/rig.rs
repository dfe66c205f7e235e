//! Starts the peers, and acts as a run and as a person with a browser.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, mpsc::RecvTimeoutError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use reqwest::{
    Method,
    header::{COOKIE, LOCATION, SET_COOKIE},
};
use serde_json::{Value, value::to_raw_value};
use sortie_agent::{
    Redactor, Sink, Stopped, Tool,
    journal::Entry,
    tool::{Context, ToolError},
};
use sortie_api::{EventType, Micros};
use sortie_connect::{Auth, Connection, Connector, Opened, StdioLauncher, Target};
use sortie_net::{EngineClient, Network, Reach, Timeouts};
use sortie_testkit::{
    peers,
    ports::{free_ports, listens},
};
use url::Url;

/// A peer process. Dropping it kills the process.
pub(crate) struct Peer {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may already have exited.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Maximum silence of a starting peer: Python on a busy machine is slow.
const PATIENCE: Duration = Duration::from_mins(2);

/// Number of attempts with different ports, because another process can take a port first or a peer can fail to start.
const TRIES: usize = 5;

/// Returns the path of a peer's file, or fails with the command that installs it.
pub(crate) fn installed(path: &str) -> PathBuf {
    peers::installed(path).unwrap()
}

/// A server script in the folder of the tests.
pub(crate) fn server(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/peers/servers")
        .join(name)
}

impl Peer {
    /// Starts `program` and waits for a line with `ready` in its output. `PORT` in the arguments is replaced by its port.
    pub(crate) fn start(program: &Path, arguments: &[&str], ready: &str) -> Self {
        Self::on_one_of(free_ports(), program, arguments, ready)
    }

    /// Starts the peer on the first of these ports that it can bind.
    pub(crate) fn on_one_of(
        ports: impl Iterator<Item = u16>,
        program: &Path,
        arguments: &[&str],
        ready: &str,
    ) -> Self {
        let mut said = String::new();
        for port in ports.take(TRIES) {
            match Self::on(port, program, arguments, ready) {
                Ok(peer) => return peer,
                Err(why) => said = why,
            }
        }
        panic!("{} is not ready: {said}", program.display());
    }

    /// Starts the peer on a port. The error is its output if it has exited or could not bind the port.
    fn on(port: u16, program: &Path, arguments: &[&str], ready: &str) -> Result<Self, String> {
        let mut command = peers::command(program).unwrap();
        let port_text = port.to_string();
        let arguments = arguments.iter().map(|argument| {
            if *argument == "PORT" {
                &port_text
            } else {
                *argument
            }
        });
        let child = command
            .args(arguments)
            .env("PORT", &port_text)
            .env("PEERS_NPM", peers::folder().join("npm"))
            .env("PYTHONUNBUFFERED", "1")
            .env("FASTMCP_CHECK_FOR_UPDATES", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}: run scripts/peers", program.display()));
        // From here on dropping the handle kills the process.
        let mut peer = Self { child, port };
        let (tell, lines) = std::sync::mpsc::channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(peer.child.stdout.take().unwrap()),
            Box::new(peer.child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // The receiver is gone once the peer is ready. We keep reading the output so that the peer never blocks.
                    let _told = tell.send(line);
                }
            });
        }
        drop(tell);
        let mut said = String::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(ready) && listens(peer.child.id(), port) => return Ok(peer),
                Ok(line) => {
                    said.push_str(&line);
                    said.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => return Err(said),
                Err(RecvTimeoutError::Timeout) => panic!("{} is silent: {said}", program.display()),
            }
        }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap()
    }
}

struct Nothing;

impl Sink for Nothing {
    fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, _cost: Micros, _at: tokio::time::Instant) {}
}

/// A run with one open connection.
pub(crate) struct Run {
    pub(crate) opened: Opened,
}

impl Run {
    pub(crate) async fn open(connection: Connection) -> Self {
        let redactor = Arc::new(Redactor::default());
        let opened = connector(None).open(&[connection], &redactor).await.unwrap();
        Self { opened }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let tools = self.opened.tools.iter();
        tools.map(|tool| tool.definition().name.to_owned()).collect()
    }

    pub(crate) fn tool(&self, name: &str) -> &dyn Tool {
        let mut tools = self.opened.tools.iter();
        &**tools
            .find(|tool| tool.definition().name == name)
            .unwrap_or_else(|| panic!("no tool {name} among {:?}", self.names()))
    }

    /// Calls a tool and returns the text for the model; `Err` for a tool error.
    pub(crate) async fn call(&self, name: &str, arguments: &Value) -> Result<String, String> {
        let called = self.tool(name).call(to_raw_value(arguments).unwrap(), context());
        match called.await {
            Ok(output) => Ok(output.text().into_owned()),
            Err(ToolError::ToModel(told) | ToolError::NotSent(told)) => Err(told),
            Err(ToolError::Fatal(why)) => panic!("fatal: {why}"),
        }
    }
}

/// Context of a call that records nothing.
pub(crate) fn context<'a>() -> Context<'a> {
    Context::new(&Nothing, 32 * 1024)
}

pub(crate) fn connector(stdio: Option<Arc<dyn StdioLauncher>>) -> Connector {
    Connector::new(&Network::new(Reach::Private, Vec::new()).into(), stdio).unwrap()
}

pub(crate) fn mcp(url: Url, auth: Auth) -> Connection {
    Connection {
        name: "peer".to_owned(),
        target: Target::Mcp {
            url,
            allowed_tools: None,
        },
        auth,
        headers: Vec::new(),
        description: None,
    }
}

/// Opens `url` like a browser with cookies, and returns the query of the final address below `home`.
pub(crate) async fn browse(url: &Url, home: &Url) -> String {
    let timeouts = Timeouts {
        connect: Duration::from_secs(5),
        read: Duration::from_secs(10),
        total: Some(Duration::from_secs(10)),
    };
    let client = EngineClient::new(timeouts).unwrap();
    let mut cookies: Vec<(String, String)> = Vec::new();
    let mut at = url.clone();
    for _hop in 0..12 {
        let jar: Vec<String> = cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = client
            .request(Method::GET, &at)
            .unwrap()
            .header(COOKIE, jar.join("; "));
        let response = request.send().await.unwrap();
        for cookie in response.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            cookies.retain(|(other, _)| other != name);
            cookies.push((name.to_owned(), value.to_owned()));
        }
        let location = response
            .headers()
            .get(LOCATION)
            .map(|value| value.to_str().unwrap().to_owned());
        let Some(location) = location else {
            let status = response.status();
            panic!("{at} answers {status}: {}", response.text().await.unwrap());
        };
        at = at.join(&location).unwrap();
        if at.path() == home.path() && at.port() == home.port() {
            return at.query().unwrap_or_default().to_owned();
        }
    }
    panic!("too many redirects, the last to {at}");
}
