//! Listing, calls, results, errors, structured and oversized content of MCP servers.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sortie_api::Credential;
use sortie_connect::{Auth, Connection, Program, ProgramEnd, Status, StdioLauncher, StdioProcess, Target};
use sortie_testkit::ports::free_ports;
use tokio::net::unix::pipe;

use crate::rig::{Peer, Run, connector, installed, mcp, server};

pub(crate) fn python(script: &str) -> Peer {
    python_with(script, &[])
}

fn python_with(script: &str, more: &[&str]) -> Peer {
    let script = server(script);
    let python = installed("venv/bin/python");
    let arguments = [&[script.to_str().unwrap(), "PORT"], more].concat();
    Peer::start(&python, &arguments, "running on")
}

fn everything() -> Peer {
    everything_over("streamableHttp", "listening on port")
}

fn everything_over(transport: &str, ready: &str) -> Peer {
    let index = installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    Peer::start(Path::new("node"), &[index.to_str().unwrap(), transport], ready)
}

/// Over the transport of revision 2024-11-05.
#[tokio::test]
async fn the_reference_server_is_called_over_its_event_stream() {
    let peer = everything_over("sse", "is running on port");
    let run = Run::open(mcp(peer.url("/sse"), Auth::None)).await;
    let names = run.names();
    assert!(names.iter().any(|name| name == "peer__echo"), "{names:?}");
    assert_eq!(
        run.call("peer__echo", &json!({"message": "hä \"x\""}))
            .await
            .as_deref(),
        Ok("Echo: hä \"x\"")
    );
    let slow = run
        .call(
            "peer__trigger-long-running-operation",
            &json!({"duration": 1, "steps": 2}),
        )
        .await
        .unwrap();
    assert!(slow.contains("completed"), "{slow}");
    let long = "x".repeat(100_000);
    let cut = run.call("peer__echo", &json!({"message": long})).await.unwrap();
    assert!(cut.ends_with("bytes left out …]"), "{}", cut.len());
    drop(peer);
    let gone = run
        .call("peer__echo", &json!({"message": "2"}))
        .await
        .unwrap_err();
    assert!(gone.starts_with("connection `peer`: "), "{gone}");
    run.opened.close().await;
}

/// Over the transport of revision 2024-11-05.
#[tokio::test]
async fn the_python_sdk_is_called_over_its_event_stream() {
    let peer = python_with("mcp_server.py", &["sse"]);
    let report = connector(None).test(&mcp(peer.url("/sse"), Auth::None)).await;
    assert_eq!(report.status, Status::Ready, "{report:?}");
    let run = Run::open(mcp(peer.url("/sse"), Auth::None)).await;
    assert_eq!(run.names(), ["peer__add", "peer__fail", "peer__big"]);
    let sum = run.call("peer__add", &json!({"a": 2, "b": 40})).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&sum).unwrap(), json!({"sum": 42}));
    let failed = run
        .call("peer__fail", &json!({"why": "no luck"}))
        .await
        .unwrap_err();
    assert!(failed.contains("fail"), "{failed}");
    let huge = run
        .call("peer__big", &json!({"kib": 5 * 1024}))
        .await
        .unwrap_err();
    assert!(huge.contains("larger than 4194304 bytes"), "{huge}");
    assert!(
        run.call("peer__add", &json!({"a": 1, "b": 1})).await.is_ok(),
        "the next call opens a session again"
    );
    run.opened.close().await;
}

/// The peer reports that it is ready before it reports that the port is in use.
#[test]
fn a_peer_that_finds_its_port_taken_is_started_on_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let index = installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let peer = Peer::on_one_of(
        std::iter::once(port).chain(free_ports()),
        Path::new("node"),
        &[index.to_str().unwrap(), "streamableHttp"],
        "listening on port",
    );
    assert_ne!(peer.port, port);
}

#[tokio::test]
async fn the_reference_server_is_listed_and_called() {
    let peer = everything();
    let run = Run::open(mcp(peer.url("/mcp"), Auth::None)).await;
    let names = run.names();
    for name in [
        "peer__echo",
        "peer__get-sum",
        "peer__get-structured-content",
        "peer__get-tiny-image",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} of {names:?}");
    }
    assert_eq!(
        run.call("peer__echo", &json!({"message": "hä \"x\""}))
            .await
            .as_deref(),
        Ok("Echo: hä \"x\"")
    );
    let sum = run
        .call("peer__get-sum", &json!({"a": 2, "b": 40}))
        .await
        .unwrap();
    assert!(sum.contains("42"), "{sum}");
    let weather = run
        .call("peer__get-structured-content", &json!({"location": "Chicago"}))
        .await
        .unwrap();
    let weather: Value = serde_json::from_str(&weather).unwrap();
    assert_eq!(weather["humidity"], 82);
    let image = run.call("peer__get-tiny-image", &json!({})).await.unwrap();
    assert!(
        image.contains("[item 1: a PNG picture, 20 x 20 pixels, ") && image.len() < 1_000,
        "{image}"
    );
    let links = run
        .call("peer__get-resource-links", &json!({"count": 2}))
        .await
        .unwrap();
    assert!(links.contains("[resource "), "{links}");
    let refused = run.call("peer__get-sum", &json!({"a": "x"})).await.unwrap_err();
    assert!(refused.contains("nvalid"), "{refused}");
    let slow = run
        .call(
            "peer__trigger-long-running-operation",
            &json!({"duration": 1, "steps": 2}),
        )
        .await
        .unwrap();
    assert!(slow.contains("completed"), "{slow}");
    let long = "x".repeat(100_000);
    let cut = run.call("peer__echo", &json!({"message": long})).await.unwrap();
    assert!(
        cut.len() < 33 * 1024 && cut.ends_with("bytes left out …]"),
        "{}",
        cut.len()
    );
    run.opened.close().await;
}

#[tokio::test]
async fn a_restarted_server_costs_nothing_but_a_new_session() {
    let peer = everything();
    let run = Run::open(mcp(peer.url("/mcp"), Auth::None)).await;
    run.call("peer__echo", &json!({"message": "1"})).await.unwrap();
    let port = peer.port;
    drop(peer);
    let gone = run
        .call("peer__echo", &json!({"message": "2"}))
        .await
        .unwrap_err();
    assert!(gone.starts_with("connection `peer`: "), "{gone}");
    let index = installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    // The system does not assign ports of that range to other processes.
    let arguments = [index.to_str().unwrap(), "streamableHttp"];
    let ports = std::iter::once(port);
    let _peer = Peer::on_one_of(ports, Path::new("node"), &arguments, "listening on port");
    assert_eq!(
        run.call("peer__echo", &json!({"message": "3"})).await.as_deref(),
        Ok("Echo: 3")
    );
}

#[tokio::test]
async fn the_python_sdk_is_listed_and_called() {
    let peer = python("mcp_server.py");
    let report = connector(None).test(&mcp(peer.url("/mcp"), Auth::None)).await;
    assert_eq!(report.status, Status::Ready, "{report:?}");
    assert_eq!(report.protocol_version.as_deref(), Some("2026-07-28"));
    let run = Run::open(mcp(peer.url("/mcp"), Auth::None)).await;
    assert_eq!(run.names(), ["peer__add", "peer__fail", "peer__big"]);
    let sum: Value =
        serde_json::from_str(&run.call("peer__add", &json!({"a": 2, "b": 40})).await.unwrap()).unwrap();
    assert_eq!(sum, json!({"sum": 42}));
    let failed = run
        .call("peer__fail", &json!({"why": "no luck"}))
        .await
        .unwrap_err();
    assert!(failed.contains("fail"), "{failed}");
    let refused = run.call("peer__add", &json!({"a": "x"})).await.unwrap_err();
    assert!(refused.contains("validation"), "{refused}");
    let cut = run.call("peer__big", &json!({"kib": 200})).await.unwrap();
    assert!(cut.len() < 33 * 1024, "{}", cut.len());
    let huge = run
        .call("peer__big", &json!({"kib": 5 * 1024}))
        .await
        .unwrap_err();
    assert!(huge.contains("larger than 4194304 bytes"), "{huge}");
    assert!(
        run.call("peer__add", &json!({"a": 1, "b": 1})).await.is_ok(),
        "the session goes on"
    );
}

/// Starts programs without a sandbox.
struct Bare;

/// Kills a program on drop.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Program for Ending {
    fn end(&mut self) -> BoxFuture<'_, ProgramEnd> {
        let status = self.0.wait().unwrap();
        Box::pin(async move {
            ProgramEnd {
                how: format!("ended: {status}"),
                stderr: Vec::new(),
            }
        })
    }

    fn stop(&mut self) -> BoxFuture<'_, ProgramEnd> {
        self.0.kill().unwrap();
        self.end()
    }
}

impl StdioLauncher for Bare {
    fn launch<'a>(
        &'a self,
        command: &'a [String],
        env: &'a [(String, Credential)],
    ) -> BoxFuture<'a, Result<StdioProcess, String>> {
        Box::pin(async move {
            #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
            let mut program = Command::new(&command[0]);
            let mut child = program
                .args(&command[1..])
                .envs(env.iter().map(|(name, value)| (name, value.expose())))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| error.to_string())?;
            let stdin = std::os::fd::OwnedFd::from(child.stdin.take().unwrap());
            let stdout = std::os::fd::OwnedFd::from(child.stdout.take().unwrap());
            Ok(StdioProcess {
                stdin: Box::new(pipe::Sender::from_owned_fd(stdin).unwrap()),
                stdout: Box::new(pipe::Receiver::from_owned_fd(stdout).unwrap()),
                program: Box::new(Ending(child)),
            })
        })
    }
}

#[tokio::test]
async fn the_reference_server_is_called_as_a_program() {
    let index = installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let node = installed("node/bin/node");
    let connection = Connection {
        name: "peer".to_owned(),
        target: Target::McpStdio {
            command: vec![
                node.to_str().unwrap().to_owned(),
                index.to_str().unwrap().to_owned(),
                "stdio".to_owned(),
            ],
            env: vec![("PEER_KEY".to_owned(), Credential::new("env-secret-1"))],
            allowed_tools: Some(vec!["echo".to_owned(), "get-env".to_owned()]),
        },
        auth: Auth::None,
        headers: Vec::new(),
        description: None,
    };
    let opened = connector(Some(Arc::new(Bare)))
        .open(&[connection], &Arc::default())
        .await
        .unwrap();
    let run = Run { opened };
    assert_eq!(run.names(), ["peer__echo", "peer__get-env"]);
    assert_eq!(
        run.call("peer__echo", &json!({"message": "x"})).await.as_deref(),
        Ok("Echo: x")
    );
    let environment = run.call("peer__get-env", &json!({})).await.unwrap();
    assert!(
        environment.contains("\"PEER_KEY\": \"[redacted]\""),
        "{environment}"
    );
    run.opened.close().await;
}
