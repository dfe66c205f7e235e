//! Calls that the task extension of `FastMCP` runs in the background.

use std::time::Duration;

use serde_json::{json, value::to_raw_value};
use sortie_agent::tool::{Begun, TaskError};
use sortie_connect::Auth;
use tokio::time::Instant;

use crate::{
    rig::{Run, context, mcp},
    tools::python,
};

#[tokio::test]
async fn fastmcps_tasks_are_waited_for_read_again_and_cancelled() {
    let peer = python("task_server.py");
    let run = Run::open(mcp(peer.url("/mcp"), Auth::None)).await;
    let began = Instant::now();
    let slept = run.call("peer__slow", &json!({"seconds": 1.5})).await;
    assert_eq!(slept.as_deref(), Ok("slept 1.5 s"));
    assert!(began.elapsed() >= Duration::from_millis(1500));
    let failed = run
        .call("peer__fail", &json!({"why": "no luck"}))
        .await
        .unwrap_err();
    assert!(failed.contains("no luck"), "{failed}");
    let asked = run.call("peer__ask", &json!({})).await.unwrap_err();
    assert!(
        asked.starts_with("the server requests input")
            && asked.ends_with("the server was asked to cancel it"),
        "{asked}"
    );

    // Another session reads the task, as the next worker does.
    let begin_sleep = async |seconds: f64| {
        let arguments = to_raw_value(&json!({"seconds": seconds})).unwrap();
        match run.tool("peer__slow").begin(arguments, context()).await.unwrap() {
            Begun::Task(task) => task,
            ended @ Begun::Ended(_) => panic!("{ended:?}"),
        }
    };
    let task = begin_sleep(0.5).await;
    let next = Run::open(mcp(peer.url("/mcp"), Auth::None)).await;
    let done = next.tool("peer__slow").wait(task, context()).await.unwrap();
    assert_eq!(done.text(), "slept 0.5 s");
    let unknown = next
        .tool("peer__slow")
        .wait("nope".to_owned(), context())
        .await
        .unwrap_err();
    assert!(matches!(unknown, TaskError::Unknown(_)), "{unknown:?}");

    let left = begin_sleep(60.0).await;
    run.opened.into_left_tasks().unwrap().cancel().await;
    let cancelled = next.tool("peer__slow").wait(left, context()).await.unwrap_err();
    assert!(matches!(cancelled, TaskError::Ended(_)), "{cancelled:?}");
    let finished = next.call("peer__done", &json!({})).await;
    assert_eq!(finished.as_deref(), Ok("1.5 and 0.5"));
}
