//! Calls that an MCP server works on as a task: the run outlives its worker, and the task is cancelled with the run.

use serde_json::{Value, json};
use sortie_agent::{
    journal::What,
    model::{Content, ToolCall},
    tool::Effect,
};
use sortie_api::RunStatus;
use sortie_store::runs::EventRow;
use sortie_testkit::task_server::{TASK_RESULT, TaskServer};

use crate::{
    resume::{Left, entry, kinds},
    rig::Rig,
};

/// A run with one call of the server.
fn request(server: &TaskServer) -> Value {
    json!({
        "prompt": "```tool tasks__work\n{}\n```\n",
        "shell": false,
        "connections": {"tasks": {"type": "mcp", "url": server.url()}},
    })
}

/// The journal of a worker that was lost in the call, before or after it knew the task.
fn journal(is_task_known: bool) -> Vec<String> {
    let call = ToolCall {
        id: "block_1".to_owned(),
        name: "tasks__work".to_owned(),
        arguments: "{}".to_owned(),
    };
    let reply = What::Reply {
        content: vec![Content::ToolCall(call.clone())],
        count: None,
        is_cut: false,
    };
    let intent = What::Intent {
        id: call.id.clone(),
        tool: call.name,
        effect: Effect::Outside,
    };
    let task = What::CallTask {
        id: call.id,
        task: "task-1".to_owned(),
    };
    let mut entries = vec![entry(1, reply), entry(1, intent)];
    entries.extend(is_task_known.then(|| entry(1, task)));
    entries
}

async fn left(server: &TaskServer, is_task_known: bool) -> Left {
    Left::of(request(server).to_string(), journal(is_task_known)).await
}

fn counts(server: &TaskServer) -> [usize; 3] {
    ["tools/call", "tasks/get", "tasks/cancel"].map(|method| server.count(method))
}

/// Asserts that the run has ended in doubt about its call.
fn assert_uncertain(status: RunStatus, events: &[EventRow]) {
    assert_eq!(status, RunStatus::Interrupted);
    let interrupted = events.iter().find(|event| event.kind == "interrupted").unwrap();
    assert_eq!(
        interrupted.data,
        r#"{"reason":"uncertain_call","step":1,"tool":"tasks__work","id":"block_1"}"#
    );
    assert!(!kinds(events).contains(&"tool_end"), "{:?}", kinds(events));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_lost_worker_has_the_result_of_its_task() {
    let server = TaskServer::start().await.unwrap();
    let left = left(&server, true).await;
    let finished = async {
        server.asked("tasks/get", 2).await.unwrap();
        server.finish();
    };
    let ((run, events), ()) = tokio::join!(left.resumed(), finished);
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some(TASK_RESULT)),
        "{:?}",
        run.error
    );
    let [calls, queries, cancellations] = counts(&server);
    assert_eq!((calls, cancellations), (0, 0));
    assert!(queries >= 3, "{queries}");
    let kinds = kinds(&events);
    assert!(
        kinds.contains(&"resumed") && !kinds.contains(&"tool_start"),
        "{kinds:?}"
    );
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool_end").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_task_is_gone_ends_in_doubt_and_does_not_repeat_the_call() {
    let server = TaskServer::start().await.unwrap();
    server.forget();
    let (run, events) = left(&server, true).await.resumed().await;
    assert_uncertain(run.status, &events);
    assert_eq!(counts(&server), [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_journaled_task_is_in_doubt_as_any_other() {
    let server = TaskServer::start().await.unwrap();
    server.finish();
    let (run, events) = left(&server, false).await.resumed().await;
    assert_uncertain(run.status, &events);
    assert_eq!(counts(&server), [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_reach_the_server_of_its_task_ends_in_doubt() {
    let server = TaskServer::start().await.unwrap();
    let left = left(&server, true).await;
    drop(server);
    let (run, events) = left.resumed().await;
    assert_uncertain(run.status, &events);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_waits_for_the_task_of_a_run_that_is_handed_over() {
    let server = TaskServer::start().await.unwrap();
    let rig = Rig::start().await;
    let run = rig.create(request(&server)).await.unwrap();
    server.asked("tasks/get", 2).await.unwrap();
    rig.engine.shutdown().await;
    assert_eq!(rig.status(&run).await.status, RunStatus::Running);
    let rig = rig.restart(|_| {}).await;
    server
        .asked("tasks/get", server.count("tasks/get") + 1)
        .await
        .unwrap();
    server.finish();
    let ended = rig.ended(&run).await;
    assert_eq!(
        (ended.status, ended.output.as_deref()),
        (RunStatus::Succeeded, Some(TASK_RESULT)),
        "{:?}",
        ended.error
    );
    let [calls, _, cancellations] = counts(&server);
    assert_eq!(
        (calls, cancellations),
        (1, 0),
        "the task is not cancelled with its worker"
    );
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_of_a_cancelled_run_is_cancelled() {
    let server = TaskServer::start().await.unwrap();
    let rig = Rig::start().await;
    let run = rig.create(request(&server)).await.unwrap();
    server.asked("tasks/get", 1).await.unwrap();
    let cancelled = rig.engine.cancel_run(rig.org, run.id).await.unwrap().run;
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    server.asked("tasks/cancel", 1).await.unwrap();
    rig.engine.shutdown().await;
    assert_eq!((server.count("tools/call"), server.count("tasks/cancel")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_of_a_run_that_times_out_is_cancelled() {
    let server = TaskServer::start().await.unwrap();
    let rig = Rig::start().await;
    let mut request = request(&server);
    request["timeout_seconds"] = sortie_api::limits::TIMEOUT_SECONDS_MIN.into();
    let run = rig.create(request).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(ended.status, RunStatus::TimedOut, "{:?}", ended.error);
    server.asked("tasks/cancel", 1).await.unwrap();
    rig.engine.shutdown().await;
}

/// The events of a run with a task are those of any other run with a call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_a_task_has_one_start_and_one_end() {
    let server = TaskServer::start().await.unwrap();
    server.finish();
    let rig = Rig::start().await;
    let run = rig.create(request(&server)).await.unwrap();
    let ended = rig.ended(&run).await;
    assert_eq!(ended.output.as_deref(), Some(TASK_RESULT), "{:?}", ended.error);
    let store = rig.engine.store();
    let events = store.events_after(rig.org, run.id, 0, 100).await.unwrap();
    let of = |kind: &str| -> Vec<Value> {
        let events = events.iter().filter(|event| event.kind == kind);
        events
            .map(|event| serde_json::from_str(&event.data).unwrap())
            .collect()
    };
    assert_eq!((of("tool_start").len(), of("tool_end").len()), (1, 1));
    let calls: Vec<Value> = of("connection_call");
    let methods: Vec<_> = calls.iter().map(|call| &call["method"]).collect();
    assert_eq!(methods, ["tools/call", "tasks/get"]);
    rig.engine.shutdown().await;
    assert_eq!(counts(&server), [1, 1, 0]);
}
