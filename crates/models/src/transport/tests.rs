use http::HeaderValue;
use serde_json::json;
use sortie_agent::model::{Deltas, Reply};
use sortie_testkit::rows;

use super::*;
use crate::{
    answer::{Decoder, Failure, Flow},
    endpoint,
    test_server::{Answer, KEY, RecordedDeltas, Server, http},
};

fn transport(server: &Server) -> Transport {
    let provider = &server.provider;
    let url = endpoint::url(provider, "v1", &["x"]).unwrap();
    let headers = endpoint::keyed(provider, "x-api-key").unwrap();
    Transport::new(provider, url, headers)
}

/// Returns the error of a call with this answer.
async fn refusal(answer: Answer) -> ModelError {
    let server = Server::start([answer]).await;
    let transport = transport(&server);
    match transport.stream(&json!({})).await {
        Ok(_) => panic!("the answer was taken for a stream"),
        Err(error) => error,
    }
}

/// A decoder of a protocol without events.
struct Nothing;

impl Decoder for Nothing {
    fn take(&mut self, _: &str, _: &str, _: &dyn Deltas) -> Result<Flow, Failure> {
        Err(Failure::Unreadable("an event".to_owned()))
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn written_bytes(&self) -> u64 {
        0
    }

    fn cut(&mut self) {}

    fn finish(self) -> Result<Reply, Failure> {
        Err(Failure::CutOff)
    }
}

/// Reads a stream to its end and counts its events.
async fn events(transport: &Transport) -> Result<usize, ModelError> {
    let mut events = transport.stream(&json!({})).await?;
    let mut count = 0;
    while events.next().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[tokio::test]
async fn what_passes_is_tried_again_what_is_too_long_is_made_smaller_and_the_rest_is_final() {
    let soon = Retry::Soon { after: None };
    for (status, body, retry) in rows! {
        "500 E", "x", soon;
        "502 E", "<html>", soon;
        "529 E", r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, soon;
        "429 E", r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#, soon;
        "408 E", "", soon;
        "409 E", "", soon;
        "429 E", r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#, Retry::Never;
        "429 E", r#"{"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}}"#, Retry::Never;
        "400 E", r#"{"error":{"message":"prompt is too long: 212000 tokens > 200000 maximum"}}"#, Retry::Smaller;
        "400 E", r#"{"error":{"message":"the request exceeds the available context size"}}"#, Retry::Smaller;
        "400 E", r#"[{"error":{"message":"The input token count (9) exceeds the maximum"}}]"#, Retry::Smaller;
        "413 E", "", Retry::Smaller;
        "413 E",
        r#"{"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000","code":"rate_limit_exceeded"}}"#,
        soon;
        "422 E",
        r#"{"error":"`inputs` must have less than 4096 tokens. Given: 5000","error_type":"validation"}"#,
        Retry::Smaller;
        "500 E",
        r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
        Retry::Smaller;
        "400 E", r#"{"error":{"code":400,"message":"it does not fit","type":"exceed_context_size_error"}}"#, Retry::Smaller;
        "400 E", r#"{"error":{"message":"temperature: bad"}}"#, Retry::Never;
        "401 E", r#"{"error":{"message":"no"}}"#, Retry::Never;
        "403 E", r#"{"detail":"the context window is closed to you"}"#, Retry::Never;
        "404 E", r#"{"error":"no such model"}"#, Retry::Never;
        "301 E", "", Retry::Never;
    } {
        let error = refusal(Answer::whole(status, "", body)).await;
        assert_eq!(error.retry, retry, "{status} {body}");
    }
}

#[tokio::test]
async fn a_wait_is_read_from_headers_fields_and_words_of_a_refusal() {
    let date = "date: Sat, 21 Nov 2026 10:00:00 GMT\r\nretry-after: Sat, 21 Nov 2026 10:01:30 GMT\r\n";
    let retry_info = r#"{"error":{"message":"m","details":[{"@type":"a"},{"retryDelay":"34.5s"}]}}"#;
    let words = r#"{"error":{"message":"Rate limit reached. Please try again in 18.5s."}}"#;
    for (status, headers, body, expected) in rows! {
        "429 E", "retry-after: 7\r\n", "{}", Some(7_000);
        "503 E", date, "{}", Some(90_000);
        "429 E", "", retry_info, Some(34_500);
        "429 E", "", words, Some(18_500);
        "529 E", "retry-after: 2\r\n", words, Some(2_000);
        "429 E", "retry-after: -1\r\n", "please wait 3 minutes", Some(180_000);
        "429 E", "retry-after: soon\r\n", "{}", None;
        "498 E", "", "Flex tier capacity exceeded", None;
    } {
        let error = refusal(Answer::whole(status, headers, body)).await;
        let after = expected.map(Duration::from_millis);
        assert_eq!(error.retry, Retry::Soon { after }, "{headers} {body}");
    }
    // A failure inside of a stream has no headers.
    let server = Server::start([]).await;
    let failed = transport(&server).failure(StatusCode::TOO_MANY_REQUESTS, "try again in 11.054s", None);
    let after = Some(Duration::from_millis(11_054));
    assert_eq!(failed.retry, Retry::Soon { after });
}

#[tokio::test]
async fn half_a_surrogate_pair_is_never_sent() {
    let server = Server::start([Answer::events("")]).await;
    let raw = |json: &str| serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
    let body = [
        raw(r#"{"path":"\ud99c","emoji":"\ud83d\ude00"}"#),
        raw(r#""\\ud99c""#),
    ];
    assert!(transport(&server).stream(&body).await.is_ok());
    assert_eq!(
        server.body(0),
        json!([{"path": "\u{fffd}", "emoji": "😀"}, "\\ud99c"])
    );
}

#[tokio::test]
async fn a_failure_is_told_in_the_providers_words_without_the_key_and_not_at_length() {
    let long = "ä".repeat(2_000);
    for (body, expected) in rows! {
        format!(r#"{{"error":{{"message":"bad key {KEY}!"}}}}"#), "bad key [redacted]!";
        format!("plain {KEY}"), "plain [redacted]";
        r#"{"message":"m"}"#.to_owned(), "400: m";
        long, "ä";
    } {
        let message = refusal(Answer::whole("400 Bad", "", &body)).await.message;
        assert!(message.contains(expected), "{message}");
        assert!(
            !message.contains(KEY) && message.chars().count() <= TOLD_CHARS,
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_failure_with_an_endless_body_is_told_all_the_same() {
    let mut answer = Answer::endless(&"x".repeat(10_000));
    answer = answer.with_status("500 E");
    let error = refusal(answer).await;
    assert_eq!(error.retry, Retry::Soon { after: None });
}

#[tokio::test]
async fn a_success_that_is_no_stream_is_a_failure_in_the_providers_words() {
    for (kind, body, expected) in rows! {
        "application/json; charset=utf-8", r#"{"error":{"message":"no such route"}}"#, "no such route";
        "text/event-stream", r#"{"type":"error","message":"no stream"}"#, "no stream";
        "Text/HTML", "<title>Sign in</title>", "Sign in";
    } {
        let error = refusal(Answer::whole(
            "200 OK",
            &format!("content-type: {kind}\r\n"),
            body,
        ))
        .await;
        assert_eq!(error.retry, Retry::Never);
        assert!(error.message.contains(expected), "{}", error.message);
    }
}

#[tokio::test]
async fn what_the_server_could_not_use_of_its_model_is_asked_for_again() {
    for (status, body) in rows! {
        "400 E",
        r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed"}}"#;
        "424 E", r#"{"message":"Model produced invalid sequence as part of ToolUse."}"#;
    } {
        let error = refusal(Answer::whole(status, "", body)).await;
        assert_eq!(error.retry, Retry::Soon { after: None }, "{error}");
    }
}

#[tokio::test]
async fn a_failure_in_disguise_has_the_status_that_it_tells() {
    let json = "content-type: application/json\r\n";
    for (body, retry) in rows! {
        r#"{"error":{"message":"slow down","code":429}}"#, Retry::Soon { after: None };
        r#"[{"error":{"code":503,"message":"busy"}}]"#, Retry::Soon { after: None };
        r#"{"error":{"message":"no","code":403}}"#, Retry::Never;
        r#"{"error":"no"}"#, Retry::Never;
        r#"{"error":{"message":"Rate limit exceeded","type":"rate_limit_error"}}"#, Retry::Soon { after: None };
        r#"{"error":{"message":"no","code":"429"}}"#, Retry::Soon { after: None };
        r#"{"object":"error","message":"busy","code":503}"#, Retry::Soon { after: None };
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}"}}}"#,
        Retry::Smaller;
    } {
        let error = refusal(Answer::whole("200 OK", json, body)).await;
        assert_eq!(error.retry, retry, "{body}");
    }
}

#[tokio::test]
async fn an_answer_is_told_by_its_bytes_in_whatever_form_it_comes() {
    let gzip = |text: &str| {
        let data = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6);
        [&[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3][..], &data, &[0; 8]].concat()
    };
    let of = |headers: &str, body: &[u8]| Answer::packed("200 OK", headers, body);
    for (answer, expected) in rows! {
        of("content-type: application/json\r\n", b"data: 1\n\ndata: 2\n\n"), 2;
        of("content-type: text/event-stream\r\n", b" \n{\"a\": 1}"), 1;
        of("", b"\xEF\xBB\xBF{\"a\": 1}\n{\"a\": NaN}\n"), 1;
        of("", b"[{\"a\": 1}, {\"b\": 2}, 3]"), 1;
        of("content-encoding: gzip\r\n", &gzip("data: 1\n\ndata: 2\n\ndata: 3\n\n")), 3;
        of("content-encoding: gzip\r\n", &gzip("{\"a\": 1}")), 1;
        // Without the final empty line.
        of("", b"data: 1\n\ndata: 2"), 2;
        of("", b"\n\n: comment\n\n"), 0;
    } {
        let server = Server::start([answer]).await;
        assert_eq!(events(&transport(&server)).await.unwrap(), expected);
    }
    let refused = refusal(Answer::whole("200 OK", "content-encoding: br\r\n", "x")).await;
    assert!(refused.message.contains("compressed as `br`"), "{refused}");
    let packed = Answer::packed(
        "400 E",
        "content-encoding: gzip\r\n",
        &gzip(r#"{"error":{"message":"why"}}"#),
    );
    assert!(refusal(packed).await.message.contains("400: why"));
}

#[tokio::test]
async fn a_stream_without_an_answer_tells_what_came() {
    for (body, expected) in rows! {
        "data: [DONE]\n\n", "it sent: data: [DONE]";
        "data: {\"choices\":null}\n\n", "it sent: data: {\"choices\":null}";
        "upstream is down", "it sent: upstream is down";
    } {
        let server = Server::start([Answer::events(body)]).await;
        let transport = transport(&server);
        let events = transport.stream(&json!({})).await.unwrap();
        let mut events = events;
        while events.next().await.unwrap().is_some() {}
        let error = events.cut_off(false);
        assert!(error.message.ends_with(expected), "{error}");
        assert_eq!(error.retry, Retry::Soon { after: None });
        assert!(!events.cut_off(true).message.contains("it sent"));
    }
}

#[tokio::test]
async fn a_request_is_made_again_at_once_without_a_field_that_the_server_does_not_know() {
    let refused = r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#;
    let pydantic = r#"{"detail":[{"type":"extra_forbidden","loc":["body","store"],"msg":"Extra inputs are not permitted"}]}"#;
    let server = Server::start([
        Answer::whole("400 E", "", refused),
        Answer::whole("422 E", "", pydantic),
        Answer::events("data: 1\n\n"),
        Answer::events("data: 1\n\n"),
    ])
    .await;
    let transport = transport(&server);
    let body = json!({"max_tokens": 7, "messages": [], "store": false});
    for number in [2, 3] {
        assert!(transport.stream(&body).await.is_ok());
        assert_eq!(
            server.body(number),
            json!({"max_completion_tokens": 7, "messages": []})
        );
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there_or_breaks_off_may_be_tried_again() {
    let server = Server::start([Answer::broken("data: 1\n\n")]).await;
    let transport = transport(&server);
    let error = events(&transport).await.unwrap_err();
    assert_eq!(error.retry, Retry::Soon { after: None }, "{error}");
    drop(server);
    let error = events(&transport).await.unwrap_err();
    assert_eq!(error.retry, Retry::Soon { after: None }, "{error}");
    assert!(!error.message.contains(KEY), "{error}");
}

#[tokio::test]
async fn a_stream_that_falls_silent_ends_with_the_time_limit() {
    let mut server = Server::start([Answer::held("data: 1\n\n")]).await;
    server.provider.http = http(Duration::from_millis(50));
    let error = events(&transport(&server)).await.unwrap_err();
    assert_eq!(error.retry, Retry::Soon { after: None }, "{error}");
}

#[tokio::test]
async fn a_request_that_was_accepted_and_brought_nothing_costs_its_input() {
    // `{}` is one token.
    let input = |error: &ModelError| error.usage.input_tokens;
    let json = "content-type: application/json\r\n";
    for (answer, expected) in [
        (Answer::whole("200 OK", json, r#"{"error":"no"}"#), 0),
        (Answer::whole("500 E", "", "x"), 0),
        (Answer::whole("400 E", json, r#"{"error":"no"}"#), 0),
        (Answer::whole("429 E", "", "x"), 0),
    ] {
        let error = refusal(answer).await;
        assert_eq!(input(&error), expected, "{error}");
    }
    // Not even the head of an answer arrives.
    let mut server = Server::start([Answer::silent()]).await;
    server.provider.http = http(Duration::from_millis(200));
    let silent = events(&transport(&server)).await.unwrap_err();
    assert_eq!(
        (input(&silent), silent.retry),
        (1, Retry::Soon { after: None }),
        "{silent}"
    );
    // No server listens there. The timeout leaves enough time for the refusal.
    server.provider.http = http(Duration::from_secs(20));
    let patient = transport(&server);
    drop(server);
    let refused = events(&patient).await.unwrap_err();
    assert_eq!(input(&refused), 0, "{refused}");
}

#[tokio::test]
async fn a_stream_that_breaks_or_ends_before_its_first_event_costs_its_input() {
    let body = json!({"text": "x".repeat(400)});
    let expected = serde_json::to_vec(&body).unwrap().len().div_ceil(4) as u64;
    for answer in [
        Answer::broken(""),
        Answer::events(""),
        Answer::events("data: {\n\n"),
    ] {
        let server = Server::start([answer]).await;
        let transport = transport(&server);
        let heard = RecordedDeltas::default();
        let error = crate::answer::call(&transport, &body, Nothing, &heard, 1_000)
            .await
            .unwrap_err();
        assert_eq!(
            (error.usage.input_tokens, error.usage.output_tokens),
            (expected, 0)
        );
    }
}

#[tokio::test]
async fn a_stream_without_end_is_refused_by_its_size() {
    let event = format!("data: {}\n\n", "x".repeat(1 << 20));
    let server = Server::start([Answer::endless(&event)]).await;
    let error = events(&transport(&server)).await.unwrap_err();
    assert_eq!(error.retry, Retry::Never);
    assert!(error.message.contains("larger than 67108864 bytes"), "{error}");
}

#[tokio::test]
async fn an_event_without_end_is_refused_by_its_size() {
    let server = Server::start([Answer::endless(&"x".repeat(1 << 20))]).await;
    let error = events(&transport(&server)).await.unwrap_err();
    assert_eq!(error.retry, Retry::Never);
    assert!(error.message.contains("16777216"), "{error}");
}

#[tokio::test]
async fn the_key_goes_out_in_its_header_and_nowhere_else() {
    let server = Server::start([Answer::events("data: 1\n\ndata: 2\n\n")]).await;
    let transport = transport(&server);
    assert_eq!(events(&transport).await.unwrap(), 2);
    let head = server.head(0);
    assert!(head.contains(&format!("x-api-key: {KEY}")) && head.starts_with("post /v1/x http/1.1"));
    assert_eq!(head.matches(KEY).count(), 1);
    assert!(!format!("{transport:?}").contains(KEY));
}

#[test]
fn a_short_key_of_an_empty_text_takes_nothing_out() {
    let mut headers = HeaderMap::new();
    headers.insert("x", HeaderValue::from_static("y"));
    let base: Url = "http://localhost".parse().unwrap();
    let provider = Provider {
        name: "acme".to_owned(),
        base: base.clone(),
        key: Some(Credential::new("")),
        http: http(Duration::from_secs(1)),
        end_wait: Duration::ZERO,
    };
    let transport = Transport::new(&provider, base, headers);
    assert_eq!(transport.clean("abc"), "abc");
}

#[tokio::test]
async fn a_refusal_is_told_by_its_kind() {
    for (status, said, kind) in [
        ("429 E", "slow down", ErrorKind::RateLimit),
        ("401 E", "who are you", ErrorKind::Credential),
        ("403 E", "not you", ErrorKind::Credential),
        ("408 E", "too slow", ErrorKind::Timeout),
        ("500 E", "broken", ErrorKind::Server),
        ("529 E", "overloaded", ErrorKind::Server),
        ("413 E", "too long", ErrorKind::TooLarge),
        ("400 E", "no such field", ErrorKind::Request),
    ] {
        assert_eq!(
            refusal(Answer::whole(status, "", said)).await.kind,
            kind,
            "{status}"
        );
    }
    let server = Server::start([Answer::broken("data: 1\n\n")]).await;
    let broken = events(&transport(&server)).await.unwrap_err();
    assert_eq!(broken.kind, ErrorKind::Connection);
}
