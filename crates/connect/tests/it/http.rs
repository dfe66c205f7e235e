//! HTTP connections: requests, refusals and responses.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Bytes,
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json, value::to_raw_value};
use sortie_agent::tool::{Effect, Order};
use sortie_api::Credential;
use sortie_connect::{Auth, Connection, Status, Target, TokenError, Tokens, oauth::Challenge};
use sortie_testkit::rows;

use crate::rig::{Run, Serving, connector, http, secret};

/// Returns the request, including its credentials.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let headers: serde_json::Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(value.to_str().unwrap())))
        .collect();
    let body = String::from_utf8_lossy(&body).into_owned();
    let text = json!({"method": method.as_str(), "uri": uri.to_string(), "headers": headers, "body": body});
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

async fn echo_server() -> Serving {
    Serving::start(Router::new().fallback(any(echo))).await
}

/// Parses the request that the echo server returned.
fn echoed(told: &str) -> Value {
    let (_head, body) = told.split_once("\n\n").unwrap();
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn a_request_goes_below_the_base_url_with_its_parts() {
    let server = echo_server().await;
    let run = Run::open(&[http(server.url("/v1"))]).await.unwrap();
    let told = run
        .call(
            "api__request",
            &json!({
                "method": "post",
                "path": "/items/7",
                "query": {"n": 3, "q": "a b", "tag": ["x", "y"]},
                "headers": {"X-Trace": "abc"},
                "json": {"a": [1]},
                "idempotency_key": "k1"
            }),
        )
        .await
        .unwrap();
    assert!(
        told.starts_with("HTTP 200 OK\ncontent-type: application/json\n\n"),
        "{told}"
    );
    let sent = echoed(&told);
    assert_eq!(sent["method"], "POST");
    assert_eq!(sent["uri"], "/v1/items/7?n=3&q=a+b&tag=x&tag=y");
    assert_eq!(sent["body"], "{\"a\":[1]}");
    assert_eq!(sent["headers"]["x-trace"], "abc");
    assert_eq!(sent["headers"]["idempotency-key"], "k1");
    assert_eq!(sent["headers"]["content-type"], "application/json");
    let calls = run.recorder.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (
            calls[0].connection.as_str(),
            calls[0].method.as_str(),
            calls[0].path.as_str(),
            calls[0].status
        ),
        ("api", "POST", "/items/7", Some(200))
    );
    assert!(calls[0].bytes > 50);
}

#[tokio::test]
async fn every_kind_of_credential_is_sent_and_taken_out_of_what_comes_back() {
    let server = echo_server().await;
    let basic = || Auth::Basic {
        username: "ann".to_owned(),
        password: secret("pw-secret-1"),
    };
    for (auth, sent, hidden) in rows! {
        Auth::Bearer(secret("tok-secret-2")), "Bearer [redacted]", "tok-secret-2";
        basic(), "Basic [redacted]", "YW5uOnB3LXNlY3JldC0x";
    } {
        let run = Run::open(&[Connection {
            auth,
            ..http(server.url("/"))
        }])
        .await
        .unwrap();
        let told = run.call("api__request", &json!({"method": "GET"})).await.unwrap();
        assert_eq!(echoed(&told)["headers"]["authorization"], sent);
        assert!(!told.contains(hidden), "{told}");
    }
    let keyed = Connection {
        auth: Auth::Header {
            name: "x-api-key".parse().unwrap(),
            value: secret("key-secret-3"),
        },
        headers: vec![("x-account".parse().unwrap(), secret("acc-secret-4"))],
        ..http(server.url("/"))
    };
    let run = Run::open(&[keyed]).await.unwrap();
    let told = run.call("api__request", &json!({"method": "GET"})).await.unwrap();
    assert_eq!(echoed(&told)["headers"]["x-api-key"], "[redacted]");
    assert_eq!(echoed(&told)["headers"]["x-account"], "[redacted]");
    let queried = Connection {
        auth: Auth::Query {
            name: "key".to_owned(),
            value: secret("query-secret-5"),
        },
        ..http(server.url("/v1"))
    };
    let run = Run::open(&[queried]).await.unwrap();
    let told = run
        .call(
            "api__request",
            &json!({"method": "GET", "path": "/query-secret-5", "query": {"a": "b"}}),
        )
        .await
        .unwrap();
    assert_eq!(echoed(&told)["uri"], "/v1/[redacted]?a=b&key=[redacted]");
    assert_eq!(run.recorder.calls()[0].path, "/[redacted]");
}

#[tokio::test]
async fn the_agent_can_neither_set_nor_override_what_the_engine_sets() {
    let server = echo_server().await;
    let connection = Connection {
        auth: Auth::Query {
            name: "key".to_owned(),
            value: secret("query-secret-5"),
        },
        headers: vec![("x-account".parse().unwrap(), secret("acc-secret-4"))],
        ..http(server.url("/v1?version=2"))
    };
    let run = Run::open(&[connection]).await.unwrap();
    for (argument, value) in [
        ("headers", json!({"Authorization": "Bearer mine"})),
        ("headers", json!({"X-Account": "mine"})),
        ("headers", json!({"Host": "evil.com"})),
        ("headers", json!({"Cookie": "a=b"})),
        ("headers", json!({"Transfer-Encoding": "chunked"})),
        ("headers", json!({"X-HTTP-Method-Override": "DELETE"})),
        ("headers", json!({"X-Original-URL": "/v2"})),
        ("headers", json!({"X-Rewrite-Url": "/v2"})),
        ("headers", json!({"X-Forwarded-Host": "evil.com"})),
        ("headers", json!({"a": "b\r\nc: d"})),
        ("headers", json!({"a\r\nb": "c"})),
        ("query", json!({"key": "mine"})),
        ("query", json!({"version": "3"})),
        ("query", json!({"a": {"b": 1}})),
        ("path", json!("/../v2")),
        ("path", json!("http://evil.com/")),
        ("path", json!("//evil.com/")),
        ("path", json!("/%2e%2e/v2")),
        ("method", json!("TRACE")),
        ("method", json!("CONNECT")),
        ("method", json!("G ET")),
        ("method", json!("PROPFIND")),
        ("idempotency_key", json!("")),
        ("bogus", json!(1)),
    ] {
        let mut arguments = json!({"method": "GET"});
        arguments[argument] = value.clone();
        let told = run.call("api__request", &arguments).await.unwrap_err();
        assert!(told.contains(argument), "{argument}={value}: {told}");
    }
    let both = json!({"method": "POST", "json": 1, "body": "x"});
    run.call("api__request", &both).await.unwrap_err();
    assert_eq!(run.recorder.calls(), [], "nothing was sent");
}

#[tokio::test]
async fn a_method_that_is_not_allowed_is_a_tool_error() {
    let server = echo_server().await;
    let mut connection = http(server.url("/"));
    connection.target = Target::Http {
        url: server.url("/"),
        allowed_methods: Some(vec![Method::GET]),
    };
    let run = Run::open(&[connection]).await.unwrap();
    let told = run
        .call("api__request", &json!({"method": "POST"}))
        .await
        .unwrap_err();
    assert!(
        told.starts_with("api__request: method must be one of \"GET\". "),
        "{told}"
    );
    assert_eq!(run.tool("api__request").order(), Order::SideBySide);
    assert_eq!(run.recorder.calls(), []);
}

#[tokio::test]
async fn reading_and_idempotent_requests_may_be_repeated_and_no_others() {
    let server = echo_server().await;
    let run = Run::open(&[http(server.url("/"))]).await.unwrap();
    let tool = run.tool("api__request");
    let effect = |arguments: Value| tool.effect(&to_raw_value(&arguments).unwrap());
    for method in ["GET", "head", "OPTIONS"] {
        assert_eq!(effect(json!({"method": method})), Effect::Nothing);
    }
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        assert_eq!(effect(json!({"method": method})), Effect::Outside);
        assert_eq!(
            effect(json!({"method": method, "idempotency_key": "k"})),
            Effect::Nothing
        );
    }
    assert_eq!(tool.order(), Order::OneByOne);
}

#[tokio::test]
async fn redirects_are_followed_within_the_connection_only() {
    let away = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&away);
    let elsewhere = Serving::start(Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "gone" }
    }))
    .await;
    let to = |target: String| move || async move { (StatusCode::FOUND, [(header::LOCATION, target)]) };
    let router = Router::new()
        .route("/v1/in", any(to("/v1/end".to_owned())))
        .route("/v1/relative", get(to("end".to_owned())))
        .route("/v1/up", get(to("/v2/end".to_owned())))
        .route("/v1/dots", get(to("/v1/x/../../v2".to_owned())))
        .route("/v1/away", get(to(elsewhere.url("/v1/end").to_string())))
        .route("/v1/loop", get(to("/v1/loop".to_owned())))
        .route(
            "/v1/end",
            any(|method: Method| async move { format!("end {method}") }),
        );
    let server = Serving::start(router).await;
    let run = Run::open(&[http(server.url("/v1"))]).await.unwrap();
    let get = async |path: &str| {
        run.call("api__request", &json!({"method": "GET", "path": path}))
            .await
            .unwrap()
    };
    assert!(get("/in").await.ends_with("\n\nend GET"));
    assert!(get("/relative").await.ends_with("\n\nend GET"));
    for path in ["/up", "/dots", "/away"] {
        let told = get(path).await;
        assert!(
            told.contains("[not followed: it leads out of the connection]"),
            "{told}"
        );
    }
    assert!(
        get("/loop")
            .await
            .contains("[not followed: it is one redirect too many]")
    );
    let posted = run
        .call("api__request", &json!({"method": "POST", "path": "/in"}))
        .await
        .unwrap();
    assert!(
        posted.contains("[not followed: only GET and HEAD requests are]"),
        "{posted}"
    );
    assert_eq!(away.load(Ordering::SeqCst), 0, "nothing went elsewhere");
}

#[tokio::test]
async fn an_answer_is_bounded_and_binary_is_told_by_type_and_size() {
    let router = Router::new()
        .route("/big", get(|| async { "x".repeat(3 << 20) }))
        .route(
            "/png",
            get(|| async { ([(header::CONTENT_TYPE, "image/png")], vec![0_u8, 1, 2, 255]) }),
        )
        .route("/bytes", get(|| async { vec![0_u8, 159, 146, 150] }))
        .route(
            "/gzip",
            get(|| async {
                // A stored deflate block.
                let packed = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x04\0\xfb\xffabcd\0\0\0\0\x04\0\0\0";
                (
                    [
                        (header::CONTENT_ENCODING, "gzip"),
                        (header::CONTENT_TYPE, "text/plain"),
                    ],
                    packed,
                )
            }),
        )
        .route(
            "/brotli",
            get(|| async { ([(header::CONTENT_ENCODING, "br")], "\u{1f}squeezed") }),
        )
        .route(
            "/name",
            get(|headers: HeaderMap| async move { headers["user-agent"].to_str().unwrap().to_owned() }),
        )
        .route(
            "/missing",
            get(|| async { (StatusCode::NOT_FOUND, "no such thing") }),
        );
    let server = Serving::start(router).await;
    let run = Run::open(&[http(server.url("/"))]).await.unwrap();
    let get = async |path: &str| {
        run.call("api__request", &json!({"method": "GET", "path": path}))
            .await
    };
    let big = get("big").await.unwrap();
    assert!(
        big.len() < 33 * 1024 && big.contains("bytes left out"),
        "{}",
        big.len()
    );
    assert_eq!(run.recorder.calls()[0].bytes, 1 << 20);
    assert!(
        get("png")
            .await
            .unwrap()
            .ends_with("[image/png, 4 bytes: binary, not shown]")
    );
    assert!(
        get("bytes")
            .await
            .unwrap()
            .ends_with("[application/octet-stream, 4 bytes: binary, not shown]")
    );
    for (path, end) in [
        ("gzip", "\n\nabcd"),
        ("brotli", "[compressed (br), 9 bytes: not shown]"),
        ("name", sortie_net::USER_AGENT),
    ] {
        let answer = get(path).await.unwrap();
        assert!(answer.ends_with(end), "{answer}");
    }
    let missing = get("missing").await.unwrap_err();
    assert!(
        missing.starts_with("HTTP 404 Not Found\n") && missing.ends_with("no such thing"),
        "{missing}"
    );
}

/// Returns one token after the other.
struct Rotating {
    given: Mutex<Vec<Option<String>>>,
}

impl Tokens for Rotating {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(async move {
            self.given
                .lock()
                .push(refused.map(|token| token.expose().to_owned()));
            Ok(secret(if refused.is_none() {
                "stale-token"
            } else {
                "fresh-token"
            }))
        })
    }

    fn challenged<'a>(&'a self, _: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()> {
        panic!("{challenge:?} of a server that names none")
    }
}

#[tokio::test]
async fn a_refused_access_token_is_renewed_once_and_both_are_hidden() {
    let router = Router::new().fallback(any(async |request: Request| {
        let authorization = request.headers()[header::AUTHORIZATION]
            .to_str()
            .unwrap()
            .to_owned();
        let status = match authorization.as_str() {
            "Bearer fresh-token" if request.uri().path() == "/fine" => StatusCode::OK,
            _ => StatusCode::UNAUTHORIZED,
        };
        (status, format!("you sent {authorization}"))
    }));
    let server = Serving::start(router).await;
    let tokens = Arc::new(Rotating {
        given: Mutex::default(),
    });
    let connection = Connection {
        auth: Auth::OAuth(Arc::clone(&tokens) as Arc<dyn Tokens>),
        ..http(server.url("/"))
    };
    let run = Run::open(&[connection]).await.unwrap();
    let told = run
        .call("api__request", &json!({"method": "GET", "path": "fine"}))
        .await
        .unwrap();
    assert!(told.ends_with("you sent Bearer [redacted]"), "{told}");
    assert_eq!(*tokens.given.lock(), [None, Some("stale-token".to_owned())]);
    let told = run
        .call("api__request", &json!({"method": "GET", "path": "bad"}))
        .await
        .unwrap_err();
    assert!(
        told.starts_with("HTTP 401") && told.ends_with("you sent Bearer [redacted]"),
        "{told}"
    );
    assert_eq!(tokens.given.lock().len(), 4, "one renewal for each request");
}

#[tokio::test]
async fn the_method_cannot_be_changed_in_the_query_where_not_every_method_is_allowed() {
    let server = echo_server().await;
    let narrowed = |allowed: Option<Vec<Method>>| Connection {
        target: Target::Http {
            url: server.url("/"),
            allowed_methods: allowed,
        },
        ..http(server.url("/"))
    };
    for name in ["_method", "_METHOD", "_Method"] {
        let arguments = json!({"method": "GET", "query": {name: "DELETE"}});
        let run = Run::open(&[narrowed(Some(vec![Method::GET, Method::POST]))])
            .await
            .unwrap();
        let told = run.call("api__request", &arguments).await.unwrap_err();
        assert!(told.contains(name), "{told}");
        assert_eq!(run.recorder.calls(), [], "nothing was sent");
        let run = Run::open(&[narrowed(None)]).await.unwrap();
        run.call("api__request", &arguments).await.unwrap();
    }
}

struct JustGiven;

impl Tokens for JustGiven {
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(
            async move { refused.map_or_else(|| Ok(secret("new-token")), |_| Err(TokenError::JustGiven)) },
        )
    }

    fn challenged<'a>(&'a self, _: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()> {
        panic!("{challenge:?} of a server that names none")
    }
}

#[tokio::test]
async fn a_request_that_is_refused_with_a_new_token_gets_the_servers_answer() {
    let router = Router::new().fallback(any(async || (StatusCode::UNAUTHORIZED, "not for you")));
    let server = Serving::start(router).await;
    let connection = Connection {
        auth: Auth::OAuth(Arc::new(JustGiven)),
        ..http(server.url("/"))
    };
    let run = Run::open(&[connection]).await.unwrap();
    let told = run
        .call("api__request", &json!({"method": "GET"}))
        .await
        .unwrap_err();
    assert!(
        told.starts_with("HTTP 401") && told.ends_with("not for you"),
        "{told}"
    );
    assert_eq!(run.recorder.calls()[0].status, Some(401));
}

struct Revoked;

impl Tokens for Revoked {
    fn token<'a>(
        &'a self,
        _refused: Option<&'a Credential>,
    ) -> BoxFuture<'a, Result<Credential, TokenError>> {
        Box::pin(async { Err(TokenError::NeedsAuthorization("the grant is over".to_owned())) })
    }

    fn challenged<'a>(&'a self, _: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()> {
        panic!("{challenge:?} of a server that names none")
    }
}

#[tokio::test]
async fn a_connection_that_needs_authorization_says_so() {
    let server = echo_server().await;
    let connection = Connection {
        auth: Auth::OAuth(Arc::new(Revoked)),
        ..http(server.url("/"))
    };
    let report = connector().test(&connection).await;
    assert_eq!(report.status, Status::NeedsAuthorization);
    assert_eq!(report.detail, "it needs authorization: the grant is over");
    let run = Run::open(&[connection]).await.unwrap();
    let told = run
        .call("api__request", &json!({"method": "GET"}))
        .await
        .unwrap_err();
    assert_eq!(
        told,
        "connection `api`: it needs to be authorized again: the grant is over"
    );
    assert_eq!(run.recorder.calls()[0].status, None);
}

/// Answers `GET` with one status, and all other methods with another.
fn answering_get(
    other: StatusCode,
    get: StatusCode,
) -> impl Fn(axum::http::Method) -> std::future::Ready<StatusCode> + Clone {
    move |method| std::future::ready(if method == "GET" { get } else { other })
}

#[tokio::test]
async fn a_test_tells_ready_from_refused_and_from_gone() {
    let router = Router::new()
        .route("/ok", any(|| async { StatusCode::METHOD_NOT_ALLOWED }))
        .route("/no", any(|| async { StatusCode::FORBIDDEN }))
        .route("/down", any(|| async { StatusCode::BAD_GATEWAY }))
        .route(
            "/no_head",
            any(answering_get(StatusCode::METHOD_NOT_ALLOWED, StatusCode::OK)),
        )
        .route(
            "/no_head_either",
            any(answering_get(StatusCode::NOT_IMPLEMENTED, StatusCode::NO_CONTENT)),
        )
        .route(
            "/no_head_nor_key",
            any(answering_get(
                StatusCode::NOT_IMPLEMENTED,
                StatusCode::UNAUTHORIZED,
            )),
        );
    let server = Serving::start(router).await;
    for (path, status, http_status) in [
        ("/no_head", Status::Ready, 200),
        ("/no_head_either", Status::Ready, 204),
        ("/no_head_nor_key", Status::Error, 401),
        ("/ok", Status::Ready, 405),
        ("/no", Status::Error, 403),
        ("/down", Status::Error, 502),
    ] {
        let report = connector().test(&http(server.url(path))).await;
        assert_eq!(
            (report.status, report.http_status),
            (status, Some(http_status)),
            "{report:?}"
        );
    }
    let gone = server.url("/");
    drop(server);
    let report = connector().test(&http(gone)).await;
    assert_eq!(report.status, Status::Error, "{report:?}");
}

#[tokio::test]
async fn private_addresses_are_refused_at_the_start_where_only_public_ones_are_in_reach() {
    // Treated as an address of the engine.
    let own = vec!["8.8.8.8".parse().unwrap()];
    let network = sortie_net::Network::new(sortie_net::Reach::Public, own);
    let connector = sortie_connect::Connector::new(&network.into(), None).unwrap();
    for (url, why) in rows! {
        "http://127.0.0.1:1/", "127.0.0.1 is not a public address";
        "http://8.8.8.8:1/", "8.8.8.8 is not a public address";
        "http://[::ffff:10.0.0.1]/", "::ffff:10.0.0.1 is not a public address";
        "ftp://example.com/", "the URL must begin with http:// or https://";
        "https://a:b@example.com/", "the URL must not carry a user name or a password";
    } {
        let connection = http(url.parse().unwrap());
        let error = connector
            .open(&[connection], &Arc::default())
            .await
            .err()
            .unwrap();
        assert_eq!(error.to_string(), format!("connection `api`: {why}"));
    }
}
