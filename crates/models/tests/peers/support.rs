//! Peers as child processes, and the clients under test.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use sortie_agent::model::{Deltas, Model, Request, Task, ToolDefinition, ToolUse, Turn};
use sortie_api::{Credential, Micros, model::ModelPrices};
use sortie_models::{Api, ModelSettings, ProviderSettings, Settings, catalog};
use sortie_testkit::{
    peers::{self, installed},
    ports::{free_ports, listens},
};

/// Maximum start-up time of a peer: Python on a busy machine is slow.
const PATIENCE: Duration = Duration::from_mins(2);

/// Number of attempts with different ports, because another process can take a port first or a server can fail to start.
const TRIES: usize = 3;

/// A program in the folder of the peers.
pub(crate) fn command(path: &str) -> Command {
    peers::command(installed(path).unwrap()).unwrap()
}

/// Python with the packages of the peers.
pub(crate) fn python() -> Command {
    let mut python = command("venv/bin/python");
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// A script in the folder of these tests.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers")).join(name)
}

/// Runs a script with this input and returns its output.
pub(crate) async fn run_script(name: &'static str, arguments: Vec<String>) -> Value {
    let run = move || {
        let mut python = python();
        python.arg(script(name)).args(arguments);
        python.output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {said}"))
}

/// A running server. Dropping it kills the server.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Peer {
    /// Starts a server that prints its address once it listens.
    pub(crate) fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|log| panic!("the peer tells no address:\n{log}"))
    }

    /// Starts a server that requires a port number as its last argument, on a free port.
    pub(crate) fn on_free_port(command: impl Fn() -> Command) -> Self {
        let mut said = String::new();
        for port in free_ports().take(TRIES) {
            let mut command = command();
            command.arg(port.to_string());
            match Self::try_start(command) {
                Ok(peer) if listens(peer.child.id(), port) => return peer,
                Ok(_) => said = format!("{port} is another process's"),
                Err(log) => said = log,
            }
        }
        panic!("the peer does not start:\n{said}");
    }

    /// Returns the log of the peer if it exits without printing an address.
    fn try_start(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (found, addresses) = mpsc::channel();
        let log = Arc::new(Mutex::new(String::new()));
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        // We read both streams until it exits: a full pipe would block it.
        for stream in streams {
            let (found, log) = (found.clone(), Arc::clone(&log));
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if let Some(address) = address_in(&line) {
                        // After the first address, the receiver is gone.
                        let _ = found.send(address);
                    }
                    let mut log = log.lock();
                    log.push_str(&line);
                    log.push('\n');
                }
            });
        }
        drop(found);
        // From here on dropping the handle kills the process.
        let mut peer = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            child,
        };
        let Ok(address) = addresses.recv_timeout(PATIENCE) else {
            drop(peer);
            return Err(log.lock().clone());
        };
        peer.address = address;
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses the address in a line such as `listening on http://127.0.0.1:4711`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://127.0.0.1:")?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)))
}

/// Creates a client of the model `name` at this address.
pub(crate) fn model(api: &str, base: &str, key: &str, name: &str) -> Arc<dyn Model> {
    let price = |micros| Micros::new(micros).unwrap();
    let settings = Settings {
        providers: vec![ProviderSettings {
            name: "peer".to_owned(),
            api: Api::named(api).unwrap(),
            base_url: Some(base.parse().unwrap()),
            key: Some(Credential::new(key)),
            outbound: sortie_net::Outbound::default(),
        }],
        models: vec![ModelSettings {
            id: name.to_owned(),
            provider: Some("peer".to_owned()),
            context_window: Some(200_000),
            max_output_tokens: Some(8_000),
            prices: Some(ModelPrices {
                input_micros_per_mtok: price(3_000_000),
                output_micros_per_mtok: price(15_000_000),
                cache_read_micros_per_mtok: price(300_000),
                cache_write_micros_per_mtok: price(3_750_000),
            }),
            ..ModelSettings::default()
        }],
        ..Settings::default()
    };
    let catalog = catalog(&settings).unwrap();
    let found = catalog.models.iter().find(|model| model.info().id == name);
    Arc::clone(found.unwrap())
}

pub(crate) const SHELL: ToolDefinition<'_> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#,
};

/// A request with one tool.
pub(crate) fn request<'a>(prompt: &'a str, transcript: &'a [Turn]) -> Request<'a> {
    Request {
        system: "Be brief.",
        task: Task {
            prompt,
            input: None,
            input_file: None,
            output_schema: None,
            environment: "",
            media: &[],
        },
        transcript,
        tools: &[SHELL],
        max_tokens: 500,
        tool_use: ToolUse::Auto,
        effort: None,
        cache_key: "",
    }
}

/// Records the streamed text.
#[derive(Default)]
pub(crate) struct Streamed(Mutex<String>);

impl Streamed {
    pub(crate) fn text(&self) -> String {
        self.0.lock().clone()
    }
}

impl Deltas for Streamed {
    fn text(&self, piece: &str) {
        self.0.lock().push_str(piece);
    }
}
