//! Refused requests, and the headers of every answer.

use sortie_api::limits::BODY_BYTES;

use crate::prelude::*;

const RUN: &str = "run_01hf7yat31e4ar9bcdefghjkmn";

/// Checks that the headers of `docs/API.md#rate-limits` are present and consistent with each other.
pub(crate) fn check_headers(answer: &Answer, what: &str) {
    let text = |name: &str| {
        answer
            .header(name)
            .unwrap_or_else(|error| panic!("{what}: {error}"))
            .to_owned()
    };
    let (limit, remaining, reset) = (
        text("x-ratelimit-limit"),
        text("x-ratelimit-remaining"),
        text("x-ratelimit-reset"),
    );
    assert_eq!(
        text("ratelimit-policy"),
        format!("\"default\";q={limit};w=60"),
        "{what}"
    );
    assert_eq!(
        text("ratelimit"),
        format!("\"default\";r={remaining};t={reset}"),
        "{what}"
    );
    assert!((1..=60).contains(&reset.parse().unwrap()), "{what}");
    assert!(!text("x-request-id").is_empty(), "{what}");
}

#[tokio::test]
async fn every_answer_carries_its_headers_also_when_it_is_a_failure() {
    let rig = Rig::start().await;
    let body = |length: usize| Bytes::from(vec![b' '; length]);
    for (method, path, sent, status) in [
        (Method::GET, "/healthz", Bytes::new(), 200),
        (Method::GET, "/readyz", Bytes::new(), 200),
        (Method::GET, "/openapi.json", Bytes::new(), 200),
        (Method::GET, "/metrics", Bytes::new(), 200),
        (Method::GET, "/v1/me", Bytes::new(), 200),
        (Method::HEAD, "/v1/me", Bytes::new(), 200),
        (Method::GET, "/v1/runs?limit=0", Bytes::new(), 400),
        (Method::GET, "/v1/runs/x", Bytes::new(), 404),
        (Method::GET, "/nothing", Bytes::new(), 404),
        (Method::DELETE, "/v1/runs", Bytes::new(), 405),
        (Method::OPTIONS, "/healthz", Bytes::new(), 405),
        (Method::POST, "/v1/runs", Bytes::new(), 400),
        (Method::POST, "/v1/runs", body(BODY_BYTES + 1), 413),
    ] {
        let answer = rig.admin.send(method.clone(), path, sent).await.unwrap();
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        check_headers(&answer, &format!("{method} {path}"));
    }
    let answer = rig.admin.anonymous().get("/v1/me").await.unwrap();
    check_headers(&answer, "without a key");
}

/// Part 7: a route accepts the methods of the document, and `HEAD` if it has `GET`.
#[tokio::test]
async fn a_wrong_method_is_told_the_documented_ones() {
    let rig = Rig::start().await;
    let document = sortie_server::openapi(sortie_server::Api::Engine);
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods: Vec<String> = item
            .as_object()
            .unwrap()
            .keys()
            .map(|method| method.to_uppercase())
            .collect();
        let mut allowed: Vec<&str> = methods.iter().map(String::as_str).collect();
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        allowed.sort_unstable();
        let concrete = path.replace("{id}", RUN);
        for wrong in [
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::POST,
            Method::OPTIONS,
            Method::TRACE,
        ] {
            let answer = rig
                .admin
                .send(wrong.clone(), &concrete, Bytes::new())
                .await
                .unwrap();
            if allowed.contains(&wrong.as_str()) {
                assert_ne!(
                    answer.status, 405,
                    "{wrong} {path} is documented and must be routed"
                );
                continue;
            }
            answer
                .refused("method_not_allowed")
                .unwrap_or_else(|error| panic!("{wrong} {path}: {error}"));
            let mut told: Vec<&str> = answer
                .header("allow")
                .unwrap()
                .split(',')
                .map(str::trim)
                .collect();
            told.sort_unstable();
            assert_eq!(told, allowed, "{path}");
        }
    }
}

#[tokio::test]
async fn an_unknown_route_or_a_malformed_id_is_not_found() {
    let rig = Rig::start().await;
    for path in [
        "/".to_owned(),
        "/v1/runs/".to_owned(),
        "/v1/workflow".to_owned(),
        "/v2/runs".to_owned(),
        "/v1/runs/run_x".to_owned(),
        "/v1/runs/%00".to_owned(),
        "/v1/runs/%ff".to_owned(),
        format!("/v1/runs/{}", RUN.to_uppercase()),
        format!("/v1/runs/{}", RUN.replace("run_", "key_")),
        format!("/v1/runs/{RUN}"),
        format!("/v1/runs/{RUN}/events"),
        format!("/v1/runs/{RUN}/definition"),
    ] {
        let answer = rig.member.get(&path).await.unwrap();
        answer
            .refused("not_found")
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

#[tokio::test]
async fn a_bad_body_creates_nothing_and_names_the_field() {
    let rig = Rig::start().await;
    for (body, named) in rows! {
        r#"{"prompt":"x","bogus":1}"#, "bogus";
        r#"{"prompt":"x","files":[{"path":"a","text":"b"}]}"#, "files[0].text";
        r#"{"prompt":"x","files":[{"path":"../a","content":"b"}]}"#, "files[0].path";
        r#"{"prompt":"x","timeout_seconds":0}"#, "timeout_seconds";
        r#"{"prompt":"x","prompt":"y"}"#, "prompt";
        r#"{"prompt":"x\u0000"}"#, "prompt";
        r#"{"prompt":"x","input":{"a":"\u0000"}}"#, "input.a";
        "{", "malformed JSON";
    } {
        let answer = rig
            .member
            .send(Method::POST, "/v1/runs", Bytes::from(body))
            .await
            .unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert!(refusal.error.starts_with(named), "{body}: {}", refusal.error);
    }
    assert!(rig.member.list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_bad_idempotency_key_creates_nothing() {
    let rig = Rig::start().await;
    for key in [String::new(), "k".repeat(201), "a\tb".to_owned()] {
        let client = rig.member.with_header("idempotency-key", &key);
        let answer = client.post("/v1/runs", &plain("x")).await.unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert!(refusal.error.starts_with("Idempotency-Key"), "{}", refusal.error);
    }
    assert!(rig.member.list("").await.unwrap().is_empty());
    let key = HeaderValue::from_str(&"é".repeat(200)).unwrap();
    let client = rig.member.with_header("idempotency-key", key);
    client.post("/v1/runs", &plain("x")).must(202).await;
}

#[tokio::test]
async fn a_valid_request_id_is_kept() {
    let rig = Rig::start().await;
    let with = |id: &str| rig.member.with_header("x-request-id", id);
    let answer = with("trace-1").get("/v1/me").await.unwrap();
    assert_eq!(answer.header("x-request-id").unwrap(), "trace-1");
    let answer = with("two words").get("/v1/me").await.unwrap();
    assert_ne!(answer.header("x-request-id").unwrap(), "two words");
}

#[tokio::test]
async fn a_node_that_stops_is_alive_but_not_ready() {
    let rig = Rig::start().await;
    rig.engine.shutdown().await;
    rig.admin.get("/healthz").must(200).await;
    let answer = rig.admin.get("/readyz").await.unwrap();
    answer.refused("unavailable").unwrap();
    check_headers(&answer, "/readyz");
    rig.member
        .post("/v1/runs", &plain("x"))
        .must_refuse("unavailable")
        .await;
}

#[tokio::test]
async fn the_document_is_served_as_it_is_reviewed() {
    let rig = Rig::start().await;
    let served: Value = rig
        .admin
        .anonymous()
        .get("/openapi.json")
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(served, sortie_server::openapi(sortie_server::Api::Engine));
}
