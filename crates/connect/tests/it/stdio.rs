//! MCP servers as programs. Tasks at the other end of the pipes replace the programs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sortie_api::Credential;
use sortie_connect::{
    Auth, Connection, Connector, Failure, OpenError, Program, ProgramEnd, StdioLauncher, StdioProcess, Target,
};
use sortie_net::{Network, Reach};
use sortie_testkit::rows;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split},
    task::JoinSet,
};

use crate::{
    rig::{Recorder, Run, secret},
    script::tool,
};

/// Starts a task instead of a program.
#[derive(Default)]
struct Tasks {
    started: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

/// Ends the task and counts this.
struct Guard {
    ended: Arc<AtomicUsize>,
    task: JoinSet<()>,
}

impl Program for Guard {
    fn end(&mut self) -> BoxFuture<'_, ProgramEnd> {
        Box::pin(async {
            while self.task.join_next().await.is_some() {}
            ProgramEnd {
                how: "ended with exit code 3".to_owned(),
                stderr: b"Error: Cannot find module 'x'\n  with env-secret-1\n".to_vec(),
            }
        })
    }

    fn stop(&mut self) -> BoxFuture<'_, ProgramEnd> {
        Box::pin(async {
            self.task.shutdown().await;
            ProgramEnd {
                how: "was ended by signal 9".to_owned(),
                stderr: b"waiting for the license server with env-secret-1\n".to_vec(),
            }
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl StdioLauncher for Tasks {
    fn launch<'a>(
        &'a self,
        command: &'a [String],
        env: &'a [(String, Credential)],
    ) -> BoxFuture<'a, Result<StdioProcess, String>> {
        Box::pin(async move {
            if command == ["nothing"] {
                return Err("nothing cannot be started".to_owned());
            }
            self.started.fetch_add(1, Ordering::SeqCst);
            let (ours, theirs) = duplex(64 * 1024);
            let key = env[0].1.expose().to_owned();
            let mut task = JoinSet::new();
            let name = command[0].clone();
            task.spawn(async move {
                match name.as_str() {
                    "server" | "mute" | "fades" => serve(theirs, &name, key).await,
                    "silent" => hang(theirs).await,
                    _ => {}
                }
            });
            let (stdout, stdin) = split(ours);
            Ok(StdioProcess {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                program: Box::new(Guard {
                    ended: Arc::clone(&self.ended),
                    task,
                }),
            })
        })
    }
}

/// Keeps the streams open without output.
async fn hang<T>(_streams: T) {
    std::future::pending::<()>().await;
}

/// An older server with additional standard output. `quit` ends it during the call, `wait` leaves the call without a response,
/// `print` prints a line as response, with `ID` replaced by its id, and `flood` prints an endless line. When asked for its tools,
/// `mute` does not respond and `fades` exits.
async fn serve(streams: DuplexStream, name: &str, key: String) {
    let (read, mut write) = split(streams);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}
            }),
            Some("tools/list") if name == "mute" => return hang((lines, write)).await,
            Some("tools/list") if name == "fades" => return,
            Some("tools/list") => json!({"tools": [tool("t")]}),
            Some("tools/call") => match request["params"]["arguments"]["do"].as_str() {
                Some("quit") => return,
                Some("wait") => continue,
                Some("print") => {
                    let printed = request["params"]["arguments"]["line"].as_str().unwrap();
                    let printed = printed.replace("ID", &request["id"].to_string());
                    write.write_all(format!("{printed}\n").as_bytes()).await.unwrap();
                    continue;
                }
                Some("flood") => loop {
                    if write.write_all(&[b'x'; 8192]).await.is_err() {
                        return;
                    }
                },
                _ => json!({"content": [{"type": "text", "text": format!("my key is {key}")}]}),
            },
            _ if request["id"].is_null() => continue,
            _ => {
                let unknown = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}});
                write.write_all(format!("{unknown}\n").as_bytes()).await.unwrap();
                continue;
            }
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        let chatter = "starting up...\n{\"not\": \"a message\"}\n\n";
        write
            .write_all(format!("{chatter}{answer}\n").as_bytes())
            .await
            .unwrap();
    }
}

fn program(command: &[&str]) -> Connection {
    Connection {
        name: "tools".to_owned(),
        target: Target::McpStdio {
            command: command.iter().map(|part| (*part).to_owned()).collect(),
            env: vec![("KEY".to_owned(), secret("env-secret-1"))],
            allowed_tools: None,
        },
        auth: Auth::None,
        headers: Vec::new(),
        description: None,
    }
}

async fn open(tasks: Tasks) -> Run {
    let redactor = Arc::default();
    let opened = connector(tasks)
        .open(&[program(&["server", "--stdio"])], &redactor)
        .await
        .unwrap();
    Run {
        opened,
        recorder: Recorder::default(),
        redactor,
    }
}

#[tokio::test]
async fn a_program_is_started_called_and_ended_with_the_run() {
    let tasks = Tasks::default();
    let ended = Arc::clone(&tasks.ended);
    let run = open(tasks).await;
    assert_eq!(run.names(), ["tools__t"]);
    let told = run.call("tools__t", &json!({})).await;
    assert_eq!(told.as_deref(), Ok("my key is [redacted]"));
    let calls = run.recorder.calls();
    assert_eq!(
        (calls[0].method.as_str(), calls[0].path.as_str(), calls[0].status),
        ("tools/call", "t", None)
    );
    run.opened.close().await;
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_program_that_ends_or_floods_is_a_tool_error_and_is_started_again() {
    let tasks = Tasks::default();
    let (started, ended) = (Arc::clone(&tasks.started), Arc::clone(&tasks.ended));
    let run = open(tasks).await;
    for (round, how, why) in rows! {
        1, "quit", "ended with exit code 3, and wrote to standard error: Error: Cannot find module 'x' with [redacted]";
        2, "flood", "cannot be understood: a message is larger than 4194304 bytes";
    } {
        let told = run.call("tools__t", &json!({"do": how})).await.unwrap_err();
        assert_eq!(
            told,
            format!(
                "connection `tools`: the program `server` {why}; it is unknown whether the call took place"
            )
        );
        assert!(run.call("tools__t", &json!({})).await.is_ok());
        assert_eq!(started.load(Ordering::SeqCst), round + 1);
        assert_eq!(ended.load(Ordering::SeqCst), round);
    }
}

fn connector(tasks: Tasks) -> Connector {
    let network = Network::new(Reach::Private, Vec::new());
    Connector::new(&network.into(), Some(Arc::new(tasks))).unwrap()
}

/// Opens a program that fails at the start.
async fn refusal(connector: &Connector, command: &[&str]) -> OpenError {
    let opened = connector.open(&[program(command)], &Arc::default()).await;
    opened.err().unwrap()
}

#[tokio::test]
async fn a_program_that_cannot_be_started_or_ends_at_once_fails_the_start() {
    for (command, why) in rows! {
        &["nothing"][..], "nothing cannot be started".to_owned();
        &["npx", "missing"], format!("the program `npx` {ENDED}");
    } {
        let error = refusal(&connector(Tasks::default()), command).await;
        assert_eq!(error.to_string(), format!("connection `tools`: {why}"));
    }
}

#[tokio::test]
async fn programs_are_refused_where_nothing_starts_them() {
    let error = Run::open(&[program(&["server", "--stdio"])]).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "connection `tools`: programs as MCP servers are possible on self-hosted engines only"
    );
}

/// Error for a program that starts but does not respond.
const SILENT: &str = "the program `silent` did not answer within 15 s, and wrote to standard error: waiting for the \
                      license server with [redacted]";

#[tokio::test(start_paused = true)]
async fn a_program_that_does_not_answer_is_named_with_what_it_wrote_to_standard_error() {
    let connector = connector(Tasks::default());
    let refused = refusal(&connector, &["silent"]).await;
    assert_eq!(refused.failure, Failure::Error(SILENT.to_owned()));
    let tested = connector.test(&program(&["silent"])).await;
    assert_eq!(tested.detail, SILENT);
}

/// Error for a program that exits.
const ENDED: &str =
    "ended with exit code 3, and wrote to standard error: Error: Cannot find module 'x' with [redacted]";

/// Error for a program that is stopped because it does not respond.
const STOPPED: &str = "and wrote to standard error: waiting for the license server with [redacted]";

#[tokio::test(start_paused = true)]
async fn a_program_that_never_lists_its_tools_is_named_with_what_it_wrote_to_standard_error() {
    let connector = connector(Tasks::default());
    for (name, why) in rows! {
        "mute", format!("the program `mute` did not answer within 15 s, {STOPPED}");
        "fades", format!("the program `fades` {ENDED}");
    } {
        let refused = refusal(&connector, &[name]).await;
        assert_eq!(refused.failure, Failure::Error(why.clone()));
        assert_eq!(connector.test(&program(&[name])).await.detail, why);
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_does_not_answer_a_call_goes_on_with_the_others() {
    let tasks = Tasks::default();
    let (started, ended) = (Arc::clone(&tasks.started), Arc::clone(&tasks.ended));
    let run = open(tasks).await;
    let told = run.call("tools__t", &json!({"do": "wait"})).await.unwrap_err();
    assert_eq!(told, "the program `server` did not answer within 120 s");
    assert!(run.call("tools__t", &json!({})).await.is_ok());
    assert_eq!(started.load(Ordering::SeqCst), 1);
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

/// Responses as programs print them, and the results of the call.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_nearly_json_is_read_and_one_that_is_not_fails_its_call_at_once() {
    let run = open(Tasks::default()).await;
    let result = r#"{"content":[{"type":"text","text":"a\ud99cb"}],"structuredContent":{"x":NaN}}"#;
    let whole = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#);
    let no_message = |beginning: &str| {
        Err(format!(
            "the server's answer is not an MCP message: it begins with {beginning}"
        ))
    };
    let slow = |line: &str| {
        Err(format!(
            "the program `server` did not answer within 120 s, and wrote to standard output: {line}"
        ))
    };
    for (line, told) in rows! {
        whole.clone(), Ok("a\u{fffd}b\n{\"x\":null}".to_owned());
        format!("Loading… {whole}"), Ok("a\u{fffd}b\n{\"x\":null}".to_owned());
        format!(r#"{{"jsonrpc":"2.0","id":"ID","result":{result}}}"#), Ok("a\u{fffd}b\n{\"x\":null}".to_owned());
        format!(r#"{{"id":ID,"result":{result}}}"#), Ok("a\u{fffd}b\n{\"x\":null}".to_owned());
        r#"{"id":"ID","error":{"code":-32000,"message":"no such file"}}"#.to_owned(),
        Err("the server says: no such file (-32000)".to_owned());
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#.to_owned(), no_message(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
        r#"{"jsonrpc":"2.0","result":{}}"#.to_owned(), no_message(r#"{"jsonrpc":"2.0","result":{}}"#);
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te"#.to_owned(),
        no_message(r#"{"jsonrpc":"2.0","id":"#);
        "{'jsonrpc': '2.0', 'result': {}}".to_owned(), no_message("{'jsonrpc': '2.0', 'result': {}}");
        "Processing tools/call".to_owned(), slow("Processing tools/call");
        r#"{"level":"info"}"#.to_owned(), slow(r#"{"level":"info"}"#);
        r#"{"id":777,"result":{}}"#.to_owned(), slow(r#"{"id":777,"result":{}}"#);
    } {
        let answer = run.call("tools__t", &json!({"do": "print", "line": line})).await;
        match (&answer, &told) {
            (Err(answer), Err(told)) => assert!(answer.starts_with(told.as_str()), "{line}: {answer}"),
            _ => assert_eq!(answer, told, "{line}"),
        }
        assert!(run.call("tools__t", &json!({})).await.is_ok(), "{line}");
    }
}
