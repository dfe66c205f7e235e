//! MCP servers with schemas that providers reject, and servers that are busy, omit fields or send slightly invalid JSON.

use std::time::Duration;

use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::any,
};
use serde_json::{Value, json};
use sortie_connect::Status;
use tokio::time::{Instant, timeout};

use crate::{
    rig::{Run, Serving, connector, mcp},
    script::{Era, Script, events, json_response, result, text, tool},
};

const OLDER: Era = Era::Older("2025-06-18");

fn with_schema(name: &str, schema: &Value) -> Value {
    json!({"name": name, "inputSchema": schema})
}

#[tokio::test]
async fn a_schema_is_repaired_for_the_model_and_the_call_is_checked_against_the_servers_own() {
    let union = json!({"type": "object", "anyOf": [
        {"properties": {"content": {"type": "string"}}, "required": ["content"]},
        {"properties": {"url": {"type": "string"}, "fields[]": {"type": "array"}}, "required": ["url"]},
    ]});
    let fine = json!({"properties": {"x": {"type": "integer"}}, "type": "object"});
    let tools = json!([
        with_schema("attach", &union),
        with_schema("fine", &fine),
        with_schema("none", &Value::Null),
        with_schema("lost", &json!({"$ref": "#/$defs/Gone"})),
    ]);
    let script = Script::start(OLDER, tools, |request, _| {
        text(request, &request["params"]["arguments"].to_string())
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    assert_eq!(run.names(), ["tools__attach", "tools__fine", "tools__none"]);
    assert_eq!(
        run.opened.notes,
        ["connection `tools`: tool `lost` is left out: its schema refers to nothing"]
    );
    let parameters = |name: &str| run.tool(name).definition().parameters.to_owned();
    assert_eq!(parameters("tools__fine"), fine.to_string());
    let told: Value = serde_json::from_str(&parameters("tools__attach")).unwrap();
    assert!(told.get("anyOf").is_none());
    assert_eq!(
        told["properties"]["fields"],
        json!({"type": "array", "items": {}})
    );

    let call = async |arguments: &Value| run.call("tools__attach", arguments).await;
    let sent = call(&json!({"url": "u", "fields": [1]})).await.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&sent).unwrap(),
        json!({"url": "u", "fields[]": [1]})
    );
    let refused = call(&json!({"fields": []})).await.unwrap_err();
    assert!(refused.starts_with("arguments"), "{refused}");
    assert_eq!(
        script.seen.count("tools/call"),
        1,
        "what does not match is not sent"
    );
    // For a valid schema only the server checks the arguments.
    assert!(run.call("tools__fine", &json!({"x": "y"})).await.is_ok());
    assert!(run.call("tools__none", &json!({})).await.is_ok());
}

#[tokio::test]
async fn a_schema_that_is_nested_too_deep_costs_its_tool_and_not_the_connection() {
    let deep = (0..150).fold(
        json!({"type": "string"}),
        |inner, _| json!({"properties": {"a": inner}}),
    );
    let tools = json!([with_schema("deep", &deep), tool("good")]);
    let script = Script::start(OLDER, tools, |request, _| text(request, "fine")).await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    assert_eq!(run.names(), ["tools__good"]);
    assert_eq!(
        run.opened.notes,
        ["connection `tools`: tool `deep` is left out: its schema is nested too deep"]
    );
}

#[tokio::test]
async fn a_busy_server_is_asked_for_its_tools_again() {
    for (status, headers) in [
        (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")]),
        (StatusCode::INTERNAL_SERVER_ERROR, [(header::SERVER, "s")]),
        (StatusCode::BAD_GATEWAY, [(header::SERVER, "s")]),
    ] {
        let script = Script::handling(OLDER, move |request, seen| match request["method"].as_str() {
            Some("tools/list") if seen.count("tools/list") < 2 => {
                Some((status, headers.clone(), json!({"error": "busy"}).to_string()).into_response())
            }
            Some("tools/list") => Some(result(request, &json!({"tools": [tool("t")]}))),
            _ => Some((status, "busy").into_response()),
        })
        .await;
        let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
        assert_eq!(run.names(), ["tools__t"], "{status}");
        // A call is not retried because it may have had an effect.
        let told = run.call("tools__t", &json!({})).await.unwrap_err();
        assert!(told.contains(&format!("HTTP {}", status.as_u16())), "{told}");
        assert_eq!(script.seen.count("tools/call"), 1);
    }
    let refused = Script::handling(OLDER, |_, _| Some((StatusCode::FORBIDDEN, "no").into_response())).await;
    assert!(Run::open(&[mcp(refused.serving.url("/mcp"))]).await.is_err());
    assert_eq!(refused.seen.count("tools/list"), 1);
}

#[tokio::test]
async fn a_call_that_is_taken_without_an_answer_fails_at_once() {
    let script = Script::start(OLDER, json!([tool("t")]), |request, seen| {
        match seen.count("tools/call") {
            1 => StatusCode::ACCEPTED.into_response(),
            2 => StatusCode::NO_CONTENT.into_response(),
            _ => (StatusCode::ACCEPTED, text(request, "here")).into_response(),
        }
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let began = Instant::now();
    for status in ["202 Accepted", "204 No Content"] {
        assert_eq!(
            run.call("tools__t", &json!({})).await.unwrap_err(),
            format!(
                "connection `tools`: the server has taken the request without an answer (HTTP {status}); it is unknown \
                 whether the call took place"
            )
        );
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(run.call("tools__t", &json!({})).await.as_deref(), Ok("here"));
}

#[tokio::test]
async fn a_first_answer_with_nulls_or_without_a_name_opens_the_session() {
    for answer in [
        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": null, "logging": null}, "instructions": null,
            "serverInfo": {"name": "s", "version": null}}),
        json!({"protocolVersion": "2025-06-18", "capabilities": null, "serverInfo": null}),
    ] {
        for as_events in [false, true] {
            let answer = answer.clone();
            let router = Router::new().fallback(any(move |body: Bytes| async move {
                let request: Value = serde_json::from_slice(&body).unwrap();
                let whole = json!({"jsonrpc": "2.0", "id": request["id"], "result": answer});
                match request["method"].as_str() {
                    Some("tools/list") => result(&request, &json!({"tools": [tool("t")]})),
                    Some("initialize") if as_events => events(format!("data: {whole}\n\n")),
                    Some("initialize") => json_response(&whole),
                    Some("server/discover") => StatusCode::BAD_REQUEST.into_response(),
                    _ => StatusCode::ACCEPTED.into_response(),
                }
            }));
            let server = Serving::start(router).await;
            let report = connector().test(&mcp(server.url("/mcp"))).await;
            assert_eq!(report.status, Status::Ready, "{report:?}");
            assert_eq!(report.tools, Some(vec!["t".to_owned()]));
        }
    }
}

#[tokio::test]
async fn an_event_that_is_nearly_json_is_read_and_one_that_is_not_fails_its_call_at_once() {
    let script = Script::start(OLDER, json!([tool("t")]), |request, _| {
        let id = &request["id"];
        events(match request["params"]["arguments"]["kind"].as_str() {
            Some("half") => format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"a\\udc80\"}}]}}}}\n\n"
            ),
            _ => format!("data: hello\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\"\n\n"),
        })
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let call = async |kind: &str| {
        let arguments = json!({"kind": kind});
        let call = run.call("tools__t", &arguments);
        timeout(Duration::from_secs(20), call).await.unwrap()
    };
    assert_eq!(call("half").await.as_deref(), Ok("a\u{fffd}"));
    let told = call("torn").await.unwrap_err();
    assert!(
        told.starts_with("the server's answer is not an MCP message: it begins with {\"jsonrpc\""),
        "{told}"
    );
}
