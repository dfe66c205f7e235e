//! MCP connections with correct servers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::Body,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, future::BoxFuture, stream};
use parking_lot::Mutex;
use serde_json::{Value, json, value::to_raw_value};
use sortie_agent::tool::{Effect, Order};
use sortie_api::Credential;
use sortie_connect::{Auth, Connection, Failure, Status, Target, TokenError, Tokens, oauth::Challenge};
use sortie_testkit::rows;

use crate::{
    rig::{Run, connector, mcp, secret},
    script::{Era, Script, events, json_response, reading_tool, result, text, tool},
};

const OLDER: Era = Era::Older("2025-11-25");

#[tokio::test]
async fn a_server_of_every_revision_is_listed_and_called() {
    for era in [
        Era::Modern,
        OLDER,
        Era::Older("2025-06-18"),
        Era::Older("2025-03-26"),
        Era::Older("2024-11-05"),
    ] {
        let tools = json!([tool("add"), reading_tool("look")]);
        let script = Script::start(era, tools, |request, _| {
            text(request, &request["params"]["arguments"].to_string())
        })
        .await;
        let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
        assert_eq!(run.names(), ["tools__add", "tools__look"]);
        let told = run.call("tools__add", &json!({"a": 1, "b": [2]})).await;
        assert_eq!(told.as_deref(), Ok("{\"a\":1,\"b\":[2]}"));
        let calls = run.recorder.calls();
        assert_eq!(
            (
                calls[0].connection.as_str(),
                calls[0].method.as_str(),
                calls[0].path.as_str(),
                calls[0].status
            ),
            ("tools", "tools/call", "add", Some(200))
        );
        assert!(calls[0].bytes > 0);
        run.opened.close().await;
        let (sessions, version) = match era {
            Era::Modern => (0, "2026-07-28"),
            Era::Older(version) => (1, version),
        };
        assert_eq!(
            script.seen.deleted.load(Ordering::SeqCst),
            sessions,
            "closed with the run"
        );
        assert_eq!(
            script.seen.streams.load(Ordering::SeqCst),
            0,
            "no stream for unasked messages"
        );
        assert_eq!(
            script
                .seen
                .header("tools/call", "mcp-protocol-version")
                .as_deref(),
            Some(version)
        );
        if era == Era::Modern {
            assert_eq!(
                script.seen.header("tools/call", "mcp-method").as_deref(),
                Some("tools/call")
            );
            assert_eq!(
                script.seen.header("tools/call", "mcp-name").as_deref(),
                Some("add")
            );
        }
    }
}

#[tokio::test]
async fn hints_decide_what_may_be_repeated_and_what_runs_side_by_side() {
    let mut idempotent = tool("put");
    idempotent["annotations"] = json!({"idempotentHint": true});
    let tools = json!([tool("add"), reading_tool("look"), idempotent]);
    let script = Script::start(OLDER, tools, |request, _| text(request, "")).await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let nothing = to_raw_value(&json!({})).unwrap();
    let of = |name: &str| (run.tool(name).effect(&nothing), run.tool(name).order());
    assert_eq!(of("tools__add"), (Effect::Outside, Order::OneByOne));
    assert_eq!(of("tools__look"), (Effect::Nothing, Order::SideBySide));
    assert_eq!(of("tools__put"), (Effect::Nothing, Order::OneByOne));
}

#[tokio::test]
async fn only_allowed_tools_are_there() {
    let script = Script::start(OLDER, json!([tool("a"), tool("b")]), |request, _| {
        text(request, "")
    })
    .await;
    let mut connection = mcp(script.serving.url("/mcp"));
    connection.target = Target::Mcp {
        url: script.serving.url("/mcp"),
        allowed_tools: Some(vec!["b".to_owned(), "c".to_owned()]),
    };
    let run = Run::open(&[connection]).await.unwrap();
    assert_eq!(run.names(), ["tools__b"]);
    assert_eq!(
        run.opened.notes,
        ["connection `tools`: tool `c` is left out: the server does not offer it"]
    );
}

#[tokio::test]
async fn a_list_in_pages_is_read_to_its_end() {
    let script = Script::handling(OLDER, |request, _| {
        let page = match request["params"]["cursor"].as_str() {
            None => json!({"tools": [tool("a")], "nextCursor": "2"}),
            Some("2") => json!({"tools": [tool("b")], "nextCursor": "3"}),
            Some(_) => json!({"tools": [tool("c")]}),
        };
        Some(result(request, &page))
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    assert_eq!(run.names(), ["tools__a", "tools__b", "tools__c"]);
}

#[tokio::test]
async fn one_strange_tool_does_not_spoil_the_others() {
    let tools = json!([{"name": 7}, {"description": "nameless"}, {"name": "bare"}, tool("good")]);
    let script = Script::start(OLDER, tools, |request, _| text(request, "fine")).await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    assert_eq!(run.names(), ["tools__good"]);
    assert_eq!(run.opened.notes.len(), 3);
    assert_eq!(run.call("tools__good", &json!({})).await.as_deref(), Ok("fine"));
}

#[tokio::test]
async fn results_and_errors_of_every_kind_are_told() {
    let script = Script::start(OLDER, json!([tool("t")]), |request, _| {
        match request["params"]["arguments"]["kind"].as_str().unwrap() {
            "structured" => result(request, &json!({"content": [], "structuredContent": {"a": 1}})),
            "image" => result(
                request,
                &json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}, {"type": "text", "text": "x"}]}),
            ),
            "strange" => result(request, &json!({"content": [{"type": "hologram"}, {"type": "text", "text": "x"}]})),
            "error" => result(request, &json!({"content": [{"type": "text", "text": "went wrong"}], "isError": true})),
            "rpc" => json_response(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": "bad\nargs"}})),
            "status" => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "oops",
            )
                .into_response(),
            _ => text(request, &"x".repeat(100_000)),
        }
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let call = async |kind: &str| run.call("tools__t", &json!({"kind": kind})).await;
    assert_eq!(call("structured").await.as_deref(), Ok("{\"a\":1}"));
    assert_eq!(
        call("image").await.as_deref(),
        Ok(
            "[item 1: 3 bytes that are no whole picture (PNG, JPEG, GIF, WebP) and no PDF document, so they are not \
            shown]\nx"
        )
    );
    assert_eq!(call("strange").await.as_deref(), Ok("[hologram: not shown]\nx"));
    assert_eq!(call("error").await, Err("went wrong".to_owned()));
    assert_eq!(
        call("rpc").await,
        Err("the server says: bad args (-32602)".to_owned())
    );
    assert_eq!(
        call("status").await,
        Err("connection `tools`: HTTP 500: oops; it is unknown whether the call took place".to_owned())
    );
    let long = call("long").await.unwrap();
    assert!(
        long.len() < 33 * 1024 && long.ends_with("bytes left out …]"),
        "{}",
        long.len()
    );
}

#[tokio::test]
async fn credentials_go_with_every_request_and_come_back_hidden() {
    let script = Script::start(Era::Modern, json!([tool("t")]), |request, seen| {
        let key = seen.header("tools/call", "authorization").unwrap();
        match request["params"]["arguments"]["as"].as_str() {
            Some("escaped") => {
                let escaped = key.chars().fold(String::new(), |escaped, c| format!("{escaped}\\u{:04x}", u32::from(c)));
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":"{escaped}"}}]}}}}"#,
                    request["id"]
                );
                ([("content-type", "application/json")], body).into_response()
            }
            Some("error") => json_response(
                &json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": key}}),
            ),
            Some("status") => (StatusCode::BAD_GATEWAY, key).into_response(),
            Some("event") => events(format!(
                "data: {}\n\n",
                json!({"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": key}]}})
            )),
            _ => text(request, &key),
        }
    })
    .await;
    let connection = Connection {
        auth: Auth::Bearer(secret("tok-secret-1")),
        ..mcp(script.serving.url("/mcp"))
    };
    let run = Run::open(&[connection]).await.unwrap();
    for how in ["plain", "escaped", "error", "status", "event"] {
        let told = match run.call("tools__t", &json!({"as": how})).await {
            Ok(told) | Err(told) => told,
        };
        assert!(
            told.contains("Bearer [redacted]") && !told.contains("tok-secret-1"),
            "{how}: {told}"
        );
    }
}

/// Returns a token that is refused, then a valid one.
#[derive(Default)]
struct Renewing {
    renewed: Mutex<bool>,
}

impl Tokens for Renewing {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(async move {
            let mut renewed = self.renewed.lock();
            *renewed |= refused.is_some();
            Ok(secret(if *renewed { "good-token" } else { "stale-token" }))
        })
    }

    fn challenged<'a>(&'a self, _: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()> {
        panic!("{challenge:?} of a server that takes the renewed token")
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_in_the_middle_of_a_session() {
    let refusing = Arc::new(AtomicUsize::new(0));
    let refuse = Arc::clone(&refusing);
    let script = Script::start(OLDER, json!([tool("t")]), move |request, seen| {
        let token = seen.header("tools/call", "authorization").unwrap();
        if token == "Bearer stale-token" {
            refuse.fetch_add(1, Ordering::SeqCst);
            return StatusCode::UNAUTHORIZED.into_response();
        }
        text(request, &token)
    })
    .await;
    let connection = Connection {
        auth: Auth::OAuth(Arc::new(Renewing::default())),
        ..mcp(script.serving.url("/mcp"))
    };
    let run = Run::open(&[connection]).await.unwrap();
    for _call in 0..2 {
        assert_eq!(
            run.call("tools__t", &json!({})).await.as_deref(),
            Ok("Bearer [redacted]")
        );
    }
    assert_eq!(refusing.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_that_wants_authorization_fails_the_start_with_that() {
    let script = Script::handling(OLDER, |_, _| Some(StatusCode::UNAUTHORIZED.into_response())).await;
    let error = Run::open(&[mcp(script.serving.url("/mcp"))]).await.err().unwrap();
    assert_eq!(error.connection, "tools");
    assert_eq!(
        error.failure,
        Failure::NeedsAuthorization("the server answers HTTP 401".to_owned())
    );
    let report = connector().test(&mcp(script.serving.url("/mcp"))).await;
    assert_eq!(report.status, Status::NeedsAuthorization);
}

#[tokio::test]
async fn a_test_tells_the_revision_and_the_tools() {
    let script = Script::start(Era::Modern, json!([tool("a"), tool("b/c")]), |request, _| {
        text(request, "")
    })
    .await;
    let report = connector().test(&mcp(script.serving.url("/mcp"))).await;
    assert_eq!(report.status, Status::Ready, "{report:?}");
    assert_eq!(report.protocol_version.as_deref(), Some("2026-07-28"));
    assert_eq!(report.tools, Some(vec!["a".to_owned(), "b/c".to_owned()]));
}

#[tokio::test]
async fn a_session_the_server_has_lost_is_opened_again_and_the_call_made_once() {
    for lost in [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST] {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let script = Script::start(OLDER, json!([tool("t")]), move |request, seen| {
            if seen.header("tools/call", "mcp-session-id").as_deref() == Some("1") {
                let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID provided"}});
                return (lost, [("content-type", "application/json")], body.to_string()).into_response();
            }
            counted.fetch_add(1, Ordering::SeqCst);
            text(request, "done")
        })
        .await;
        let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
        assert_eq!(
            run.call("tools__t", &json!({})).await.as_deref(),
            Ok("done"),
            "{lost}"
        );
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert_eq!(script.seen.sessions.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn a_call_that_breaks_off_is_made_again_only_where_it_only_reads() {
    let script = Script::start(
        OLDER,
        json!([tool("write"), reading_tool("read")]),
        |request, seen| {
            // The first call of each tool is executed but breaks off.
            let name = request["params"]["name"].as_str().unwrap();
            let requests = seen.requests.lock();
            let before = requests
                .iter()
                .filter(|(_, body)| body["params"]["name"] == name)
                .count();
            if before == 1 {
                return (StatusCode::BAD_GATEWAY, "gone").into_response();
            }
            text(request, "done")
        },
    )
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    assert_eq!(run.call("tools__read", &json!({})).await.as_deref(), Ok("done"));
    let told = run.call("tools__write", &json!({})).await.unwrap_err();
    assert!(
        told.ends_with("it is unknown whether the call took place"),
        "{told}"
    );
    assert_eq!(script.seen.count("tools/call"), 3);
    assert_eq!(
        run.call("tools__write", &json!({})).await.as_deref(),
        Ok("done"),
        "the next call opens a session again"
    );
}

#[tokio::test]
async fn what_a_server_asks_of_the_client_is_refused() {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel::<Value>();
    let told = Arc::new(tokio::sync::Mutex::new(told));
    let script = Script::handling(OLDER, move |request, _| match request["method"].as_str() {
        Some("tools/list") => Some(result(request, &json!({"tools": [tool("t")]}))),
        Some("tools/call") => Some(asking(request, Arc::clone(&told))),
        Some(_) => None,
        None => {
            tell.send(request.clone()).unwrap();
            Some(StatusCode::ACCEPTED.into_response())
        }
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let answers = run.call("tools__t", &json!({})).await.unwrap();
    let answers: Vec<Value> = serde_json::from_str(&answers).unwrap();
    let of = |id: &str| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of("sample")["error"]["code"], -32601);
    assert_eq!(of("input")["result"]["action"], "decline");
}

/// Requests sampling and input during a call, and returns the client's responses.
fn asking(
    request: &Value,
    told: Arc<tokio::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<Value>>>,
) -> Response {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let asks = rows! {
        "sample", "sampling/createMessage", json!({"messages": [message], "maxTokens": 5});
        "input", "elicitation/create", json!({"message": "key?", "requestedSchema": {"type": "object", "properties": {}}});
    };
    let mut first = ": hello\n\nid: 1\ndata:\n\n".to_owned();
    for (id, method, params) in asks {
        let ask = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        first = format!("{first}data: {ask}\n\n");
    }
    let id = request["id"].clone();
    let last = async move {
        let mut told = told.lock().await;
        let answers = [told.recv().await.unwrap(), told.recv().await.unwrap()];
        let answers = Value::from(answers.to_vec()).to_string();
        let end =
            json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": answers}]}});
        format!("event: message\ndata: {end}\n\n")
    };
    let stream = stream::once(async { first }).chain(stream::once(last));
    events(Body::from_stream(stream.map(Ok::<_, std::io::Error>)))
}

#[tokio::test]
async fn two_connections_with_the_same_tools_are_told_apart() {
    let script = Script::start(Era::Modern, json!([tool("t")]), |request, seen| {
        text(request, &seen.header("tools/call", "x-who").unwrap())
    })
    .await;
    let who_is = |name: &str, who: &str| Connection {
        name: name.to_owned(),
        headers: vec![("x-who".parse().unwrap(), secret(who))],
        ..mcp(script.serving.url("/mcp"))
    };
    let run = Run::open(&[who_is("one", "w1"), who_is("two.x", "w2")])
        .await
        .unwrap();
    let names = run.names();
    assert_eq!(names[0], "one__t");
    assert!(names[1].starts_with("two_x__t_"), "{names:?}");
    // Each header is a credential of the run, so it is redacted in the result; the server got the right one.
    run.call(&names[1], &json!({})).await.unwrap();
    assert_eq!(script.seen.header("tools/call", "x-who").as_deref(), Some("w2"));
    assert!(run.redactor.redact("w1 w2").contains("[redacted]"));
}
