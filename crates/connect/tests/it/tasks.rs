//! Servers that work on calls as tasks: every end of a task, the pace of the queries, time-outs, and reports that are malformed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, future::BoxFuture, stream};
use parking_lot::Mutex;
use serde_json::{Value, json, value::to_raw_value};
use sortie_agent::{
    Redactor,
    tool::{Begun, Context, TaskError},
};
use sortie_api::Credential;
use sortie_connect::{Auth, Connection, Connector, Program, ProgramEnd, StdioLauncher, StdioProcess, Target};
use sortie_net::{Network, Reach};
use sortie_testkit::rows;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split},
    sync::Notify,
    task::JoinSet,
    time::Instant,
};

use crate::{
    rig::{OUTPUT_BYTES, Recorder, Run, mcp},
    script::{Era, Script, events, json_response, reading_tool, result, tool},
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const DOUBT: &str = "; it is unknown whether the call took place";

/// The task with which the server answers a call.
fn created(id: &str) -> Value {
    json!({
        "resultType": "task", "taskId": id, "status": "working", "createdAt": "2026-11-30T10:00:00Z",
        "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": null, "pollIntervalMs": 100
    })
}

/// A report about the task: these fields in addition to those of every report.
fn report(fields: Value) -> Value {
    let mut report = created("t-1");
    report["resultType"] = "complete".into();
    let Value::Object(fields) = fields else {
        panic!("{fields}")
    };
    report.as_object_mut().unwrap().extend(fields);
    report
}

fn completed(text: &str) -> Value {
    report(json!({"status": "completed", "result": {"content": [{"type": "text", "text": text}]}}))
}

fn error(request: &Value, code: i64, message: &str) -> Response {
    let error = json!({"code": code, "message": message});
    json_response(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
}

/// A server with the tools `t` and `read`. It answers each call with a task, and the queries with `answer`, which gets their
/// number from 1.
async fn server(answer: impl Fn(&Value, usize) -> Response + Send + Sync + 'static) -> (Script, Run) {
    let queries = AtomicUsize::new(0);
    let script = Script::handling(Era::Modern, move |request, _| {
        Some(match request["method"].as_str()? {
            "tools/list" => result(
                request,
                &json!({
                    "tools": [tool("t"), reading_tool("read")], "resultType": "complete", "ttlMs": 0,
                    "cacheScope": "private"
                }),
            ),
            "tools/call" => result(request, &created("t-1")),
            "tasks/get" => answer(request, queries.fetch_add(1, Ordering::SeqCst) + 1),
            "tasks/cancel" => result(request, &json!({"resultType": "complete"})),
            _ => return None,
        })
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    (script, run)
}

/// The answer to a call of a server that is `working` at the first query and has this report at the second.
async fn ended(last: Value) -> (Result<String, String>, Script) {
    let (script, run) = server(move |request, number| {
        let working = report(json!({"status": "working"}));
        result(request, if number == 1 { &working } else { &last })
    })
    .await;
    let told = run.call("tools__t", &json!({})).await;
    assert_eq!(script.seen.count("tools/call"), 1);
    assert_eq!(script.seen.count("tasks/get"), 2);
    (told, script)
}

#[tokio::test]
async fn a_call_waits_for_its_task_and_has_the_result_of_a_direct_answer() {
    for (result, told) in rows! {
        json!({"content": [{"type": "text", "text": "done"}]}), Ok("done".to_owned());
        json!({"content": [], "structuredContent": {"a": 1}, "resultType": "complete"}), Ok("{\"a\":1}".to_owned());
        json!({"content": [{"type": "hologram"}]}), Ok("[hologram: not shown]".to_owned());
        json!({}), Ok("[the tool returned nothing]".to_owned());
        json!({"content": [{"type": "text", "text": "went wrong"}], "isError": true}), Err("went wrong".to_owned());
    } {
        let (is, _script) = ended(report(json!({"status": "completed", "result": result.clone()}))).await;
        assert_eq!(is, told, "{result}");
    }
    let (long, _script) = ended(completed(&"x".repeat(100_000))).await;
    let long = long.unwrap();
    assert!(
        long.len() < 33 * 1024 && long.ends_with("bytes left out …]"),
        "{}",
        long.len()
    );
}

#[tokio::test]
async fn a_task_without_a_result_is_a_failed_call() {
    for (fields, told) in rows! {
        json!({"status": "failed", "error": {"code": -32000, "message": "no\nluck"}}), "the server says: no luck (-32000)";
        json!({"status": "cancelled", "statusMessage": "an admin\nwas here"}),
        "the server has cancelled the call's task: an admin was here";
        json!({"status": "cancelled"}), "the server has cancelled the call's task";
    } {
        let (is, script) = ended(report(fields)).await;
        assert_eq!(is, Err(told.to_owned()));
        assert_eq!(script.seen.count("tasks/cancel"), 0);
    }
}

#[tokio::test]
async fn a_task_that_asks_for_input_is_cancelled() {
    let asks = json!({"one": {"method": "elicitation/create", "params": {"message": "key?", "requestedSchema": {}}}});
    for requests in [asks, json!({}), json!(null)] {
        let (told, script) = ended(report(
            json!({"status": "input_required", "inputRequests": requests}),
        ))
        .await;
        let input = "the server requests input during the call, which this engine does not support";
        assert_eq!(told, Err(format!("{input}; the server was asked to cancel it")));
        assert_eq!(script.seen.count("tasks/cancel"), 1);
        let requests = script.seen.requests.lock();
        let (_, cancel) = requests.last().unwrap();
        assert_eq!(cancel["params"]["taskId"], "t-1");
    }
}

#[tokio::test]
async fn a_malformed_report_fails_the_call_at_once_and_leaves_its_effect_in_doubt() {
    for (fields, why) in rows! {
        json!({"status": "submitted"}), "the server's task has an unknown status: submitted";
        json!({"status": null}), "the server's answer about the task has no status";
        json!({"status": "completed"}), "the server's task has ended without a result";
        json!({"status": "completed", "result": [1]}), "the server's task has ended without a result";
        json!({"status": "completed", "result": {"resultType": "task", "taskId": "t-2"}}),
        "the server's task has ended without a result";
    } {
        let (is, _script) = ended(report(fields)).await;
        assert_eq!(is, Err(format!("connection `tools`: {why}{DOUBT}")));
    }
}

#[tokio::test]
async fn a_task_with_an_unusable_id_is_never_queried() {
    for id in [
        json!(""),
        json!(7),
        json!(null),
        json!("a\u{7}"),
        json!("x".repeat(10_000)),
    ] {
        let script = Script::start(Era::Modern, json!([tool("t")]), move |request, _| {
            let mut task = created("");
            task["taskId"] = id.clone();
            result(request, &task)
        })
        .await;
        let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
        let why = "the server answers with a task that has no usable id";
        assert_eq!(
            run.call("tools__t", &json!({})).await,
            Err(format!("connection `tools`: {why}{DOUBT}"))
        );
        assert_eq!(
            (script.seen.count("tools/call"), script.seen.count("tasks/get")),
            (1, 0)
        );
    }
}

#[tokio::test]
async fn an_id_passes_unchanged_in_the_body_and_in_the_header() {
    let id = "päron/1 \"x\"";
    let script = Script::handling(Era::Modern, move |request, _| {
        Some(match request["method"].as_str()? {
            "tools/list" => result(request, &json!({"tools": [tool("t")]})),
            "tools/call" => result(request, &created(id)),
            "tasks/get" => result(request, &completed(request["params"]["taskId"].as_str().unwrap())),
            _ => return None,
        })
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    assert_eq!(run.call("tools__t", &json!({})).await.as_deref(), Ok(id));
    let name = script.seen.header("tasks/get", "mcp-name").unwrap();
    assert!(name.starts_with("=?base64?"), "{name}");
    let method = script.seen.header("tasks/get", "mcp-method");
    assert_eq!(method.as_deref(), Some("tasks/get"));
}

#[tokio::test]
async fn the_extension_is_declared_with_each_request_where_the_revision_has_it() {
    for era in [Era::Modern, Era::Older("2025-11-25"), Era::Older("2025-06-18")] {
        let script = Script::start(era, json!([tool("t")]), |request, _| {
            crate::script::text(request, "done")
        })
        .await;
        let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
        assert_eq!(run.call("tools__t", &json!({})).await.as_deref(), Ok("done"));
        let requests = script.seen.requests.lock();
        let (_, call) = requests
            .iter()
            .rfind(|(_, body)| body["method"] == "tools/call")
            .unwrap();
        let declared = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        if era == Era::Modern {
            assert_eq!(*declared, json!({"extensions": {EXTENSION: {}}}));
        } else {
            assert!(
                requests
                    .iter()
                    .all(|(_, body)| !body.to_string().contains(EXTENSION))
            );
        }
    }
}

#[tokio::test]
async fn a_query_that_fails_is_repeated_and_the_call_is_not() {
    let (script, run) = server(|request, number| match number {
        1 => (StatusCode::SERVICE_UNAVAILABLE, "down").into_response(),
        2 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]).into_response(),
        3 => {
            let broken = stream::iter([Ok(Bytes::from("{")), Err(std::io::Error::other("broken"))]);
            ([("content-type", "application/json")], Body::from_stream(broken)).into_response()
        }
        4 => events(Body::from_stream(stream::iter([
            Ok(Bytes::from("data: ")),
            Err(std::io::Error::other("broken")),
        ]))),
        5 => error(request, -32603, "try again"),
        6 => (StatusCode::BAD_GATEWAY, "<html>").into_response(),
        _ => result(request, &completed("done")),
    })
    .await;
    let began = Instant::now();
    let told = run.call("tools__read", &json!({})).await;
    assert_eq!(told.as_deref(), Ok("done"));
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(
        (script.seen.count("tools/call"), script.seen.count("tasks/get")),
        (1, 7)
    );
    let calls = run.recorder.calls();
    let methods: Vec<_> = calls
        .iter()
        .map(|call| (&*call.method, &*call.path, call.status))
        .collect();
    assert_eq!(
        methods,
        [
            ("tools/call", "read", Some(200)),
            ("tasks/get", "read", Some(200))
        ]
    );
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_the_call_at_once() {
    let large = completed(&"x".repeat(5 << 20));
    let many = report(json!({"status": "completed", "result": {"content": vec![0; 250_000]}}));
    for (large, as_events) in [(&large, false), (&large, true), (&many, false), (&many, true)] {
        let large = large.clone();
        let (script, run) = server(move |request, _| {
            if as_events {
                let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": large});
                return events(format!("data: {answer}\n\n"));
            }
            result(request, &large)
        })
        .await;
        let told = run.call("tools__t", &json!({})).await.unwrap_err();
        assert!(
            told.contains("4194304 bytes") || told.contains("more than 200000 values"),
            "{told}"
        );
        assert!(told.ends_with(DOUBT), "{told}");
        assert_eq!(
            (script.seen.count("tools/call"), script.seen.count("tasks/get")),
            (1, 1)
        );
    }
}

#[tokio::test]
async fn the_next_attempt_reads_the_task_at_once() {
    let (script, run) = server(|request, _| match request["params"]["taskId"].as_str() {
        Some("t-1") => result(request, &completed("done")),
        Some("failed") => result(
            request,
            &report(json!({"status": "failed", "error": {"code": 1, "message": "no"}})),
        ),
        _ => error(request, -32602, "unknown task"),
    })
    .await;
    let tool = run.tool("tools__t");
    let context = Context::new(&run.recorder, OUTPUT_BYTES);
    let done = tool.wait("t-1".to_owned(), context).await.unwrap();
    assert_eq!(done.text(), "done");
    let failed = tool.wait("failed".to_owned(), context).await.unwrap_err();
    assert!(matches!(failed, TaskError::Ended(_)), "{failed:?}");
    let gone = tool.wait("gone".to_owned(), context).await.unwrap_err();
    let TaskError::Unknown(told) = gone else {
        panic!("{gone:?}")
    };
    let why = "the call's task cannot be read: the server says: unknown task (-32602)";
    assert_eq!(told, format!("connection `tools`: {why}{DOUBT}"));
    assert_eq!(
        (script.seen.count("tools/call"), script.seen.count("tasks/get")),
        (0, 3)
    );
    assert!(run.opened.into_left_tasks().is_none());
}

#[tokio::test]
async fn a_server_without_tasks_does_not_know_the_task() {
    let script = Script::handling(Era::Older("2025-11-25"), |request, _| {
        Some(match request["method"].as_str()? {
            "tools/list" => result(request, &json!({"tools": [tool("t")]})),
            _ => error(request, -32601, "method not found"),
        })
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let context = Context::new(&run.recorder, OUTPUT_BYTES);
    let gone = run
        .tool("tools__t")
        .wait("t-1".to_owned(), context)
        .await
        .unwrap_err();
    assert!(matches!(gone, TaskError::Unknown(_)), "{gone:?}");
}

#[tokio::test]
async fn a_dropped_call_leaves_its_task_which_can_be_cancelled() {
    let (script, run) = server(|request, _| result(request, &report(json!({"status": "working"})))).await;
    let tool = run.tool("tools__t");
    let context = Context::new(&run.recorder, OUTPUT_BYTES);
    let begun = tool
        .begin(to_raw_value(&json!({})).unwrap(), context)
        .await
        .unwrap();
    let Begun::Task(id) = begun else {
        panic!("{begun:?}")
    };
    assert!(tool.wait(id, context).now_or_never().is_none());
    let left = run.opened.into_left_tasks().expect("the task has no end");
    assert_eq!(script.seen.count("tasks/cancel"), 0);
    left.cancel().await;
    let requests = script.seen.requests.lock();
    let (_, cancel) = requests.last().unwrap();
    assert_eq!(
        (&cancel["method"], &cancel["params"]["taskId"]),
        (&json!("tasks/cancel"), &json!("t-1"))
    );
}

/// Program with one task. It answers the queries with these reports, the last one again and again, and notes their times.
struct TaskProgram {
    reports: Vec<Option<Value>>,
    queries: Arc<Mutex<Vec<Duration>>>,
    cancelled: Arc<Notify>,
}

struct Guard(JoinSet<()>);

impl Program for Guard {
    fn end(&mut self) -> BoxFuture<'_, ProgramEnd> {
        Box::pin(std::future::pending())
    }

    fn stop(&mut self) -> BoxFuture<'_, ProgramEnd> {
        Box::pin(async {
            self.0.shutdown().await;
            ProgramEnd {
                how: "was ended".to_owned(),
                stderr: Vec::new(),
            }
        })
    }
}

impl StdioLauncher for TaskProgram {
    fn launch<'a>(
        &'a self,
        _: &'a [String],
        _: &'a [(String, Credential)],
    ) -> BoxFuture<'a, Result<StdioProcess, String>> {
        let (ours, theirs) = duplex(64 * 1024);
        let mut task = JoinSet::new();
        task.spawn(serve(
            theirs,
            self.reports.clone(),
            Arc::clone(&self.queries),
            Arc::clone(&self.cancelled),
        ));
        let (stdout, stdin) = split(ours);
        Box::pin(async {
            Ok(StdioProcess {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                program: Box::new(Guard(task)),
            })
        })
    }
}

async fn serve(
    streams: DuplexStream,
    reports: Vec<Option<Value>>,
    queries: Arc<Mutex<Vec<Duration>>>,
    cancelled: Arc<Notify>,
) {
    let (read, mut write) = split(streams);
    let mut lines = BufReader::new(read).lines();
    let mut called = Instant::now();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let result = match request["method"].as_str() {
            Some("server/discover") => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private"
            }),
            Some("tools/list") => json!({"tools": [tool("t")], "resultType": "complete"}),
            Some("tools/call") => {
                called = Instant::now();
                created("t-1")
            }
            Some("tasks/get") => {
                let number = queries.lock().len();
                queries.lock().push(called.elapsed());
                match reports.get(number).or(reports.last()).unwrap() {
                    Some(report) => report.clone(),
                    None => continue,
                }
            }
            Some("tasks/cancel") => {
                cancelled.notify_one();
                json!({"resultType": "complete"})
            }
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

/// Calls the program. Returns the answer with the time that it took, and the times of the queries.
async fn run_program(
    reports: Vec<Option<Value>>,
) -> (Result<String, String>, Duration, Vec<Duration>, Arc<Notify>) {
    let (queries, cancelled) = (Arc::default(), Arc::default());
    let launcher = TaskProgram {
        reports,
        queries: Arc::clone(&queries),
        cancelled: Arc::clone(&cancelled),
    };
    let network = Network::new(Reach::Private, Vec::new()).into();
    let connector = Connector::new(&network, Some(Arc::new(launcher))).unwrap();
    let connection = Connection {
        name: "tools".to_owned(),
        target: Target::McpStdio {
            command: vec!["server".to_owned()],
            env: Vec::new(),
            allowed_tools: None,
        },
        auth: Auth::None,
        headers: Vec::new(),
        description: None,
    };
    let redactor = Arc::new(Redactor::default());
    let run = Run {
        opened: connector.open(&[connection], &redactor).await.unwrap(),
        recorder: Recorder::default(),
        redactor,
    };
    let began = Instant::now();
    let told = run.call("tools__t", &json!({})).await;
    let took = began.elapsed();
    assert!(run.opened.into_left_tasks().is_none());
    let queries = queries.lock().clone();
    (told, took, queries, cancelled)
}

#[tokio::test(start_paused = true)]
async fn queries_have_the_pace_that_the_server_names() {
    let at = |pace: Value| Some(report(json!({"status": "working", "pollIntervalMs": pace})));
    let reports = vec![
        at(json!(2_000)),
        at(json!(0)),
        at(json!(3_600_000)),
        at(json!(-5)),
        at(json!("soon")),
        at(json!(500)),
        Some(completed("done")),
    ];
    let (told, _, queries, _) = run_program(reports).await;
    assert_eq!(told.as_deref(), Ok("done"));
    // An odd pace changes nothing.
    let expected = [100, 2_100, 2_200, 12_200, 22_200, 32_200, 32_700];
    for (query, expected) in queries.iter().zip(expected) {
        let expected = Duration::from_millis(expected);
        let late = query.saturating_sub(expected);
        assert!(
            *query >= expected && late < Duration::from_millis(50),
            "{queries:?}"
        );
    }
    assert_eq!(queries.len(), expected.len());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_end_is_cancelled_at_the_end_of_the_calls_time() {
    let working = report(json!({"status": "working", "pollIntervalMs": 7_000}));
    let (told, took, queries, cancelled) = run_program(vec![Some(working)]).await;
    let why = "the call's task did not end within 120 s; the server was asked to cancel it";
    assert_eq!(told, Err(why.to_owned()));
    assert_eq!(took.as_secs(), 120);
    assert_eq!(queries.len(), 18);
    cancelled.notified().await;
}

#[tokio::test(start_paused = true)]
async fn a_query_without_an_answer_is_repeated_until_the_calls_time_ends() {
    let (told, _, queries, _) = run_program(vec![None, None, Some(completed("done"))]).await;
    assert_eq!(told.as_deref(), Ok("done"));
    assert_eq!(queries.len(), 3);
    let (told, took, queries, cancelled) = run_program(vec![None]).await;
    let why = "the program `server` did not answer within 15 s";
    let told = told.unwrap_err();
    assert!(told.starts_with(&format!("connection `tools`: {why}")), "{told}");
    assert!(told.ends_with(DOUBT), "{told}");
    assert!((120..126).contains(&took.as_secs()), "{took:?}");
    assert!((7..10).contains(&queries.len()), "{queries:?}");
    cancelled.notified().await;
}
