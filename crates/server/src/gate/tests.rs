use axum::routing::get;
use http::header::AUTHORIZATION;
use http_body_util::BodyExt as _;
use sortie_api::{
    ErrorCode, Refusal, Timestamp,
    key::CreateKey,
    limits,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::Clock;
use sortie_store::Store;

use super::*;
use crate::kit::ApiResult;

async fn panics() -> StatusCode {
    panic!("the secret of the house")
}

/// A gate in front of failing routes.
async fn gate(dir: &tempfile::TempDir) -> Gate {
    let file = dir.path().join("sortie.db");
    let store = Store::open(&format!("sqlite:{}", file.display())).await.unwrap();
    let options = sortie_engine::Options {
        data_dir: dir.path().to_owned(),
        clock: Clock::manual(Timestamp::from_micros(1_763_674_200_000_000)),
        ..sortie_engine::Options::default()
    };
    let engine = Engine::start(options, store, Err("this test has no sandbox.".to_owned()))
        .await
        .unwrap();
    let router = Router::new()
        .route("/fine", get(|| async { "fine" }))
        .route("/panic", get(panics))
        .route(
            "/broken",
            get(|| async { ApiResult::<()>::Err(Refusal::internal("no such table: run").into()) }),
        )
        .route(
            "/away",
            get(|| async {
                ApiResult::<()>::Err(ErrorCode::Unavailable.because("the database is away").into())
            }),
        );
    let options = Options {
        requests_per_minute: limits::REQUESTS_PER_MINUTE,
        anonymous_requests_per_minute: limits::ANONYMOUS_REQUESTS_PER_MINUTE,
        trusted_proxies: Vec::new(),
        base_url: None,
        deprecation: None,
        ..Options::default()
    };
    let limits = Arc::new(rate_limits(&engine, &options));
    let door = (
        Door::Engine(Box::new(EngineDoor {
            browsers: None,
            challenges: Challenges::none(),
            sign_in: None,
        })),
        router,
    );
    Gate::new(
        engine,
        door,
        (&limits, &BodyBudget::default(), &TrustedProxies::default()),
        &options,
        HttpMetrics::default(),
        7,
    )
}

async fn answer(gate: &Gate, path: &str) -> (u16, ErrorBody, http::HeaderMap) {
    let request = Request::get(path)
        .header(X_REQUEST_ID, "trace-1")
        .body(Body::empty())
        .unwrap();
    let (parts, body) = gate
        .handle(IpAddr::from([192, 0, 2, 1]), request)
        .await
        .into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (
        parts.status.as_u16(),
        serde_json::from_slice(&bytes).unwrap(),
        parts.headers,
    )
}

#[tokio::test]
async fn a_panic_or_a_broken_part_is_a_500_that_shows_the_request_id_only() {
    let dir = tempfile::tempdir().unwrap();
    let gate = gate(&dir).await;
    for path in ["/panic", "/broken"] {
        let (status, body, headers) = answer(&gate, path).await;
        assert_eq!((status, body.code), (500, ErrorCode::Internal), "{path}");
        assert_eq!(body.error, "internal error, request id trace-1");
        assert_eq!(headers[X_REQUEST_ID], "trace-1");
        assert!(headers.contains_key("ratelimit"), "{path}");
    }
    let (status, body, headers) = answer(&gate, "/away").await;
    assert_eq!((status, body.error.as_str()), (503, "the database is away"));
    assert_eq!(headers["x-ratelimit-remaining"], "117", "each was counted once");
}

#[tokio::test]
async fn refusals_of_open_endpoints_are_read_from_every_origin() {
    let dir = tempfile::tempdir().unwrap();
    let gate = gate(&dir).await;
    for _ in 0..limits::ANONYMOUS_REQUESTS_PER_MINUTE {
        let (status, _, headers) = answer(&gate, "/broken").await;
        assert_eq!(status, 500);
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
    for path in [
        "/oauth/token",
        "/oauth/register",
        "/oauth/revoke",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
    ] {
        let (status, _, headers) = answer(&gate, path).await;
        assert_eq!(status, 429, "{path}");
        assert_eq!(headers["access-control-allow-origin"], "*", "{path}");
        let readable = headers["access-control-expose-headers"].to_str().unwrap();
        assert!(readable.contains("retry-after") && headers.contains_key("retry-after"));
    }
    let (status, _, headers) = answer(&gate, "/v1/me").await;
    assert_eq!(status, 429);
    assert!(!headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn guesses_run_into_the_quota_of_their_network_and_refuse_no_valid_key() {
    let dir = tempfile::tempdir().unwrap();
    let gate = gate(&dir).await;
    let secret = |number: u16| {
        let mut random = [0; 32];
        random[..2].copy_from_slice(&number.to_be_bytes());
        Secret::new(SELF_HOSTED_KEY, random)
    };
    let in_use = secret(0);
    assert!(gate.engine.bootstrap(&in_use).await.unwrap());
    let org = gate
        .engine
        .authenticate(in_use.expose())
        .await
        .unwrap()
        .unwrap()
        .org;
    let request = CreateKey {
        name: "new".to_owned(),
        role: None,
        expires_at: None,
    };
    let caller = sortie_store::access::Caller {
        org,
        actor: sortie_store::access::Actor::default(),
    };
    let new = gate.engine.create_key(&caller, request).await.unwrap().key;
    let gate = &gate;
    let status = async |last: u8, credential: &str| {
        let request = Request::get("/fine")
            .header(AUTHORIZATION, format!("Bearer {credential}"))
            .body(Body::empty())
            .unwrap();
        let answer = gate.handle(IpAddr::from([192, 0, 2, last]), request).await;
        answer.status().as_u16()
    };

    let quota = u16::try_from(limits::ANONYMOUS_REQUESTS_PER_MINUTE).unwrap();
    for guess in 1..=quota {
        assert_eq!(
            status(1, secret(guess).expose()).await,
            200,
            "the route is public"
        );
    }
    assert_eq!(status(1, secret(quota + 1).expose()).await, 429);
    assert_eq!(
        status(1, secret(1).expose()).await,
        429,
        "a guess that is remembered"
    );
    // This node has not seen either of them yet.
    assert_eq!(status(1, &new).await, 200);
    assert_eq!(status(1, in_use.expose()).await, 200);
}
