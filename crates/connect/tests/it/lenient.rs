//! MCP servers that omit parts of the protocol, postpone calls or require another authorization.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::any,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sortie_api::Credential;
use sortie_connect::{Auth, Connection, Failure, Status, TokenError, Tokens, oauth::Challenge};

use crate::{
    rig::{Run, Serving, connector, mcp, secret},
    script::{Era, Script, events, json_response, result, text, tool},
};

const OLDER: Era = Era::Older("2025-11-25");

/// Answers `server/discover` with `answer` and all other requests like a server of an older revision.
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

/// Asks twice to repeat a call with a new state, then answers it.
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
        let requests = script.seen.requests.lock();
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
        told.starts_with("the server requests input during the call"),
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

/// Servers declare that they have no tools, do not support the method, or have tools without declaring them.
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

/// Always returns a token, and records challenges.
#[derive(Default)]
struct Keeping {
    challenges: Mutex<Vec<Challenge>>,
}

impl Tokens for Keeping {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(
            async move { refused.map_or_else(|| Ok(secret("some-token")), |_| Err(TokenError::JustGiven)) },
        )
    }

    fn challenged<'a>(&'a self, _: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()> {
        self.challenges.lock().push(challenge);
        Box::pin(async {})
    }
}

/// Refuses with a challenge.
fn challenging(status: StatusCode, challenge: &str) -> Response {
    (status, [("www-authenticate", challenge.to_owned())]).into_response()
}

#[tokio::test]
async fn a_challenge_of_a_call_is_kept_and_told() {
    const WANTS: &str = "Bearer error=\"insufficient_scope\", scope=\"a b\"";
    let script = Script::start(
        OLDER,
        json!([tool("scope"), tool("other"), tool("never")]),
        |request, _| match request["params"]["name"].as_str().unwrap() {
            "scope" => challenging(StatusCode::FORBIDDEN, WANTS),
            "other" => challenging(
                StatusCode::FORBIDDEN,
                "Bearer error=\"access_denied\", scope=\"c\"",
            ),
            _ => challenging(
                StatusCode::UNAUTHORIZED,
                "Bearer resource_metadata=\"https://a.b/m\"",
            ),
        },
    )
    .await;
    let tokens = Arc::new(Keeping::default());
    let connection = Connection {
        auth: Auth::OAuth(Arc::clone(&tokens) as Arc<dyn Tokens>),
        ..mcp(script.serving.url("/mcp"))
    };
    let run = Run::open(std::slice::from_ref(&connection)).await.unwrap();
    let told = run.call("tools__scope", &json!({})).await.unwrap_err();
    assert!(
        told.contains("it needs authorization: the server requires the scope `a b` (HTTP 403)"),
        "{told}"
    );
    assert!(!told.contains("not known"), "{told}");
    assert_eq!(tokens.challenges.lock().len(), 1);
    let kept = tokens.challenges.lock().remove(0);
    assert!(
        kept.wants_scope() && kept.scope.as_deref() == Some("a b"),
        "{kept:?}"
    );
    run.call("tools__other", &json!({})).await.unwrap_err();
    assert!(tokens.challenges.lock().is_empty());
    run.call("tools__never", &json!({})).await.unwrap_err();
    let kept = tokens.challenges.lock().remove(0);
    assert_eq!(kept.resource_metadata.as_deref(), Some("https://a.b/m"));

    let script = Script::handling(OLDER, |_, _| Some(challenging(StatusCode::FORBIDDEN, WANTS))).await;
    let connection = Connection {
        target: mcp(script.serving.url("/mcp")).target,
        ..connection
    };
    let error = Run::open(std::slice::from_ref(&connection)).await.err().unwrap();
    let wants = Failure::NeedsAuthorization("the server requires the scope `a b` (HTTP 403)".to_owned());
    assert_eq!(error.failure, wants);
    let report = connector().test(&connection).await;
    assert_eq!(
        (report.status, report.detail),
        (Status::NeedsAuthorization, wants.to_string())
    );
    let fixed = Connection {
        auth: Auth::Bearer(secret("fixed-secret-1")),
        ..connection
    };
    let error = Run::open(&[fixed]).await.err().unwrap();
    assert_eq!(
        error.failure,
        Failure::Error("the server requires the scope `a b` (HTTP 403)".to_owned())
    );
}
