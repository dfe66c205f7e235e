//! MCP connections with servers that behave.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::any,
};
use futures_util::{StreamExt, future::BoxFuture, stream};
use serde_json::{Value, json, value::to_raw_value};
use sortie_agent::tool::{Effect, Order};
use sortie_api::Credential;
use sortie_connect::{Auth, Connection, Failure, Status, Target, TokenError, Tokens};

use crate::{
    rig::{Run, Serving, connector, mcp, secret},
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

/// Answers `server/discover` by `answer` and everything else as a server of an older revision.
async fn answering_discover_with(answer: fn(&Value) -> Response) -> Serving {
    let router = Router::new().fallback(any(move |body: Bytes| async move {
        let request: Value = serde_json::from_slice(&body).unwrap();
        match request["method"].as_str() {
            Some("server/discover") => answer(&request),
            Some("initialize") => result(&request, &initialized()),
            Some("tools/list") => result(&request, &json!({"tools": [tool("t")]})),
            Some("tools/call") => text(&request, "here"),
            _ => StatusCode::ACCEPTED.into_response(),
        }
    }));
    Serving::start(router).await
}

fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}
    })
}

#[tokio::test]
async fn a_discovery_without_a_result_of_its_own_leads_to_initialize() {
    let answers: [fn(&Value) -> Response; 12] = [
        |_| json_response(&json!({})),
        |_| json_response(&Value::Null),
        |request| result(request, &initialized()),
        |request| result(request, &json!({})),
        |request| result(request, &Value::Null),
        |_| "<html>hello</html>".into_response(),
        |_| "".into_response(),
        |_| StatusCode::ACCEPTED.into_response(),
        |_| StatusCode::NO_CONTENT.into_response(),
        |_| events(Body::empty()),
        |request| {
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {}});
            events(format!(": hello\n\nid: 1\ndata:\n\ndata: {answer}\n\n"))
        },
        |_| {
            json_response(
                &json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no"}}),
            )
        },
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let server = answering_discover_with(answer).await;
        let report = connector().test(&mcp(server.url("/mcp"))).await;
        assert_eq!(report.status, Status::Ready, "{number}: {report:?}");
        assert_eq!(report.protocol_version.as_deref(), Some("2025-06-18"));
        let run = Run::open(&[mcp(server.url("/mcp"))]).await.unwrap();
        assert_eq!(
            run.call("tools__t", &json!({})).await.as_deref(),
            Ok("here"),
            "{number}"
        );
    }
}

#[tokio::test]
async fn a_discovery_that_comes_as_events_is_read() {
    let server = answering_discover_with(|request| {
        let found = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private"
        });
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": found});
        events(format!("data: {answer}\n\n"))
    })
    .await;
    let report = connector().test(&mcp(server.url("/mcp"))).await;
    assert_eq!(
        report.protocol_version.as_deref(),
        Some("2026-07-28"),
        "{report:?}"
    );
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
        Ok("[image, image/png, 3 bytes: not shown]\nx")
    );
    assert_eq!(call("strange").await.as_deref(), Ok("[hologram: not shown]\nx"));
    assert_eq!(call("error").await, Err("went wrong".to_owned()));
    assert_eq!(
        call("rpc").await,
        Err("the server says: bad args (-32602)".to_owned())
    );
    assert_eq!(
        call("status").await,
        Err("connection `tools`: HTTP 500: oops; whether the call took place is not known".to_owned())
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

/// A token that is refused once, then a good one.
#[derive(Default)]
struct Renewing {
    renewed: Mutex<bool>,
}

impl Tokens for Renewing {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(async move {
            let mut renewed = self.renewed.lock().unwrap();
            *renewed |= refused.is_some();
            Ok(secret(if *renewed { "good-token" } else { "stale-token" }))
        })
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
            // The first call of each breaks off after it was carried out.
            let name = request["params"]["name"].as_str().unwrap();
            let requests = seen.requests.lock().unwrap();
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
        told.ends_with("whether the call took place is not known"),
        "{told}"
    );
    assert_eq!(script.seen.count("tools/call"), 3);
    assert_eq!(
        run.call("tools__write", &json!({})).await.as_deref(),
        Ok("done"),
        "the next call opens a session again"
    );
}

/// Answers a call by asking for it again with a state, until the third time.
fn putting_off(request: &Value, ask: &Value) -> Response {
    let state = request["params"]["requestState"].as_str().unwrap_or("0");
    let round: u32 = state.rsplit('-').next().unwrap().parse().unwrap();
    if round == 2 {
        return text(request, &format!("done with {}", request["params"]["arguments"]));
    }
    let mut asked = ask.clone();
    asked["resultType"] = json!("input_required");
    asked["requestState"] = json!(format!("a \"b\" ä-{}", round + 1));
    result(request, &asked)
}

#[tokio::test]
async fn a_call_that_is_put_off_with_a_state_alone_is_made_again_with_it() {
    let script = Script::start(Era::Modern, json!([tool("t"), tool("u")]), |request, _| {
        if request["params"]["name"] == "t" {
            return putting_off(request, &json!({}));
        }
        putting_off(request, &json!({"inputRequests": {}}))
    })
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    for name in ["tools__t", "tools__u"] {
        let told = run.call(name, &json!({"a": 1})).await;
        assert_eq!(told.as_deref(), Ok("done with {\"a\":1}"));
    }
    let states: Vec<Value> = {
        let requests = script.seen.requests.lock().unwrap();
        let calls = requests.iter().filter(|(_, body)| body["method"] == "tools/call");
        calls
            .map(|(_, body)| body["params"]["requestState"].clone())
            .collect()
    };
    let expected = [Value::Null, json!("a \"b\" ä-1"), json!("a \"b\" ä-2")];
    assert_eq!(states, [expected.clone(), expected].concat());
    assert_eq!(run.recorder.calls().len(), 2, "one call each");
}

#[tokio::test]
async fn a_call_that_asks_for_input_is_refused_and_one_that_is_put_off_for_ever_ends() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&begun);
    let script = Script::start(
        Era::Modern,
        json!([tool("ask"), tool("put_off")]),
        move |request, _| {
            tell.notify_one();
            let mut asked = json!({"resultType": "input_required", "requestState": "s"});
            if request["params"]["name"] == "ask" {
                asked["inputRequests"] = json!({"one": {"method": "roots/list"}});
            }
            result(request, &asked)
        },
    )
    .await;
    let run = Run::open(&[mcp(script.serving.url("/mcp"))]).await.unwrap();
    let told = run.call("tools__ask", &json!({})).await.unwrap_err();
    assert!(
        told.starts_with("the server asks for input in the middle of the call"),
        "{told}"
    );
    begun.notified().await;
    let clock = async {
        begun.notified().await;
        tokio::time::pause();
    };
    let nothing = json!({});
    let (told, ()) = tokio::join!(run.call("tools__put_off", &nothing), clock);
    assert_eq!(told, Err("the server has put the call off for 120 s".to_owned()));
    assert!(
        script.seen.count("tools/call") < 40,
        "{}",
        script.seen.count("tools/call")
    );
}

fn rpc_error(request: &Value, code: i32) -> Response {
    json_response(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}))
}

/// Servers say that they have none, have no such method, or have tools without saying so.
#[tokio::test]
async fn a_server_without_tools_is_a_connection_without_tools() {
    type Answer = fn(&Value) -> Response;
    let unknown: Answer = |request| rpc_error(request, -32601);
    let failing: Answer = |request| rpc_error(request, -32603);
    let listing: Answer = |request| result(request, &json!({"tools": [tool("t")]}));
    for (capabilities, list, expected) in [
        (json!({"resources": {}}), unknown, Some(0)),
        (json!({"resources": {}}), failing, Some(0)),
        (json!({}), listing, Some(1)),
        (json!({"tools": {}}), unknown, Some(0)),
        (json!({"tools": {}}), failing, None),
    ] {
        let router = Router::new().fallback(any(move |body: Bytes| {
            let capabilities = capabilities.clone();
            async move {
                let request: Value = serde_json::from_slice(&body).unwrap();
                match request["method"].as_str() {
                    Some("initialize") => {
                        let mut initialized = initialized();
                        initialized["capabilities"] = capabilities;
                        result(&request, &initialized)
                    }
                    Some("tools/list") => list(&request),
                    Some("server/discover") => StatusCode::BAD_REQUEST.into_response(),
                    _ => StatusCode::ACCEPTED.into_response(),
                }
            }
        }));
        let server = Serving::start(router).await;
        let opened = Run::open(&[mcp(server.url("/mcp"))])
            .await
            .map(|run| run.names().len());
        assert_eq!(opened.ok(), expected);
        let report = connector().test(&mcp(server.url("/mcp"))).await;
        assert_eq!(report.tools.map(|tools| tools.len()), expected);
    }
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

/// Asks for a sample and for input in the middle of a call, and returns what it was answered.
fn asking(
    request: &Value,
    told: Arc<tokio::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<Value>>>,
) -> Response {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let asks = [
        (
            "sample",
            "sampling/createMessage",
            json!({"messages": [message], "maxTokens": 5}),
        ),
        (
            "input",
            "elicitation/create",
            json!({"message": "key?", "requestedSchema": {"type": "object", "properties": {}}}),
        ),
    ];
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
    // Each header is a credential of the run, so that it comes back hidden; the server saw the right one.
    run.call(&names[1], &json!({})).await.unwrap();
    assert_eq!(script.seen.header("tools/call", "x-who").as_deref(), Some("w2"));
    assert!(run.redactor.redact("w1 w2").contains("[redacted]"));
}
