//! Runs over HTTP: created, listed, followed, cancelled.

use sortie_api::{Event, Run, RunPage};
use sortie_store::runs::RunFilter;

use crate::prelude::*;

#[tokio::test]
async fn a_key_that_was_used_answers_the_same_run() {
    let rig = Rig::start().await;
    let keyed = rig.member.with_header("idempotency-key", "k");
    let first: Run = keyed.post("/v1/runs", &waiting()).must_read(202).await;
    assert_eq!(first.status, RunStatus::Queued);
    let again: Run = keyed.post("/v1/runs", &plain("other")).must_read(200).await;
    assert_eq!(again.id, first.id);
    assert_eq!(rig.member.list("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn pages_hold_every_run_once_and_the_plain_list_is_an_array() {
    let rig = Rig::start().await;
    let mut made = Vec::new();
    for number in 0..7 {
        made.insert(
            0,
            rig.member.create(&plain(&number.to_string())).await.unwrap().id,
        );
    }
    let listed: Vec<_> = rig
        .member
        .list("")
        .await
        .unwrap()
        .iter()
        .map(|run| run.id)
        .collect();
    assert_eq!(listed, made);
    let (mut seen, mut sizes, mut query) = (Vec::new(), Vec::new(), "limit=3".to_owned());
    loop {
        let page: RunPage = rig
            .member
            .get(&format!("/v1/runs?{query}"))
            .await
            .unwrap()
            .read()
            .unwrap();
        sizes.push(page.items.len());
        seen.extend(page.items.iter().map(|run| run.id));
        if page.next_cursor.is_empty() {
            break;
        }
        query = format!("limit=3&cursor={}", page.next_cursor);
    }
    assert_eq!((seen, sizes), (made, vec![3, 3, 1]));
    let exact: RunPage = rig.member.get("/v1/runs?limit=7").await.unwrap().read().unwrap();
    assert_eq!((exact.items.len(), exact.next_cursor.as_str()), (7, ""));
}

#[tokio::test]
async fn a_long_list_arrives_in_stretches_and_is_whole() {
    let rig = Rig::start().await;
    for number in 0..45 {
        rig.member.create(&plain(&number.to_string())).await.unwrap();
    }
    let filter = RunFilter {
        limit: 100,
        ..RunFilter::default()
    };
    let made = rig.engine.store().list_runs(rig.org, filter).await.unwrap().items;
    let made: Vec<_> = made.iter().map(|listed| listed.run.id).collect();
    assert_eq!(made.len(), 45);
    let all = rig.member.get("/v1/runs").await.unwrap();
    let length: usize = all.header("content-length").unwrap().parse().unwrap();
    assert_eq!(length, all.body.len(), "short entries are answered whole");
    let all: Vec<Run> = all.read().unwrap();
    assert_eq!(all.iter().map(|run| run.id).collect::<Vec<_>>(), made);
    for limit in [19, 20, 21, 40, 44, 45, 46, 100] {
        let page = rig.member.get(&format!("/v1/runs?limit={limit}")).await.unwrap();
        let page: RunPage = page.read().unwrap();
        let shown: Vec<_> = page.items.iter().map(|run| run.id).collect();
        assert_eq!(shown, made[..limit.min(45)], "{limit}");
        assert_eq!(page.next_cursor.is_empty(), limit >= 45, "{limit}");
    }
}

#[tokio::test]
async fn an_invalid_list_parameter_is_refused_by_name() {
    let rig = Rig::start().await;
    rig.member.create(&plain("a")).await.unwrap();
    rig.member.create(&plain("b")).await.unwrap();
    let page: RunPage = rig.member.get("/v1/runs?limit=1").await.unwrap().read().unwrap();
    for (query, name) in [
        ("limit=0".to_owned(), "limit"),
        ("limit=101".to_owned(), "limit"),
        ("limit=".to_owned(), "limit"),
        ("limit=1&limit=1".to_owned(), "limit"),
        ("status=done".to_owned(), "status"),
        ("schedule=run_01hf7yat31e4ar9bcdefghjkmn".to_owned(), "schedule"),
        ("cursor=".to_owned(), "cursor"),
        ("cursor=x".to_owned(), "cursor"),
        (format!("cursor={}&status=queued", page.next_cursor), "cursor"),
    ] {
        let answer = rig.member.get(&format!("/v1/runs?{query}")).await.unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert!(refusal.error.starts_with(name), "{query}: {}", refusal.error);
    }
    let unknown = rig
        .member
        .get("/v1/runs?stauts=failed")
        .must_refuse("invalid_request")
        .await;
    assert_eq!(unknown.error, "stauts: no such parameter; did you mean status?");
}

#[tokio::test]
async fn a_list_without_parameters_refuses_each() {
    let rig = Rig::start().await;
    let run = rig.member.create(&plain("hello")).await.unwrap().id;
    for path in [
        "/v1/budgets".to_owned(),
        "/v1/connections".to_owned(),
        "/v1/connections/catalog".to_owned(),
        "/v1/admin/keys".to_owned(),
        "/v1/admin/sessions".to_owned(),
        format!("/v1/runs/{run}/artifacts"),
        format!("/v1/runs/{run}/deliveries"),
    ] {
        let answer = rig.admin.get(&format!("{path}?limit=2")).await.unwrap();
        let refusal = answer.refused("invalid_request").unwrap();
        assert_eq!(refusal.error, "limit: no such parameter", "{path}");
    }
}

#[tokio::test]
async fn a_stream_opens_with_its_comment_and_resumes_where_it_broke_off() {
    let rig = Rig::start().await;
    let run = rig.member.create(&plain("hello")).await.unwrap().id.to_string();
    let mut stream = rig.member.follow(&run, None).await.unwrap();
    let (events, done) = stream.to_done().await.unwrap();
    assert!(
        stream
            .raw()
            .starts_with(b": connected\nretry: 2000\nid: 1\nevent: status\ndata: {")
    );
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(stream.headers[name], value);
    }
    assert!(stream.headers.contains_key("x-request-id") && stream.headers.contains_key("ratelimit"));
    for after in [0, 1, i64::try_from(events.len()).unwrap(), i64::MAX] {
        let (rest, again) = rig
            .member
            .follow(&run, Some(after))
            .await
            .unwrap()
            .to_done()
            .await
            .unwrap();
        let expected = events
            .iter()
            .filter(|event| event.id > after)
            .map(|event| event.id);
        assert!(rest.iter().map(|event| event.id).eq(expected), "after {after}");
        assert_eq!(again, done);
    }
}

fn as_json(client: &Client) -> Client {
    client.with_header("accept", "application/json")
}

#[tokio::test]
async fn events_are_json_for_who_asks_for_it() {
    let rig = Rig::start().await;
    let (events, run) = rig.member.complete(&plain("hello")).await.unwrap();
    let path = format!("/v1/runs/{}/events", run.id);
    let all: Vec<Event> = as_json(&rig.member).get(&path).must_read(200).await;
    assert_eq!(all.len(), events.len());
    let rest: Vec<Event> = as_json(&rig.member)
        .get(&format!("{path}?after=2"))
        .await
        .unwrap()
        .read()
        .unwrap();
    assert!(
        rest.iter()
            .map(|event| event.id)
            .eq(3..=i64::try_from(events.len()).unwrap())
    );
    for accept in ["*/*", "text/event-stream", "text/event-stream, application/json"] {
        let client = rig.member.with_header("accept", accept);
        let answer = client.get(&path).await.unwrap();
        assert_eq!(
            answer.header("content-type").unwrap(),
            "text/event-stream",
            "{accept}"
        );
    }
}

#[tokio::test]
async fn large_texts_come_whole_in_lists_definitions_and_events() {
    let rig = Rig::start().await;
    // Characters of one to four bytes, some of them escaped: pieces must not split any of them.
    let prompt = "\"\\\n\u{1}aü€😀".repeat(9_000);
    let (events, run) = rig.member.complete(&plain(&prompt)).await.unwrap();
    let output = run.output.clone().unwrap();
    assert!(output.len() > 100_000 && output.contains('😀'));
    let small = rig.member.complete(&plain("small")).await.unwrap().1;
    let whole = async |client: &Client, path: &str| {
        let answer = client.get(path).must(200).await;
        assert!(answer.header("content-length").is_err(), "{path} comes in pieces");
        answer
    };

    let list: Vec<Run> = whole(&rig.member, "/v1/runs").await.read().unwrap();
    assert_eq!(list, [small, run.clone()]);
    let page: RunPage = whole(&rig.member, "/v1/runs?limit=2").await.read().unwrap();
    assert_eq!((page.items, page.next_cursor.as_str()), (list, ""));
    let path = format!("/v1/runs/{}/definition", run.id);
    let definition = whole(&rig.member, &path).await.json().unwrap();
    assert_eq!(definition["request"]["prompt"], prompt.as_str());
    assert_eq!(definition["requires_credentials"], json!([]));
    let path = format!("/v1/runs/{}/events", run.id);
    let read: Vec<Event> = whole(&as_json(&rig.member), &path).await.read().unwrap();
    let texts = |events: &[Event]| -> Vec<_> {
        let text = |event: &Event| (event.id, event.kind.clone(), event.data.get().to_owned());
        events.iter().map(text).collect()
    };
    assert_eq!(texts(&read), texts(&events));
    let path = "/v1/workflows/w";
    let workflow = Bytes::from(r#"{"prompt":"x","shell":false}"#);
    rig.member.send(Method::PUT, path, workflow).must(201).await;
    let schedule = json!({"workflow": "w", "cron": "@yearly", "input": {"text": prompt}});
    let schedule = rig.member.post("/v1/schedules", &schedule).must_json(201).await;
    let page = whole(&rig.member, "/v1/schedules").await.json().unwrap();
    assert_eq!(page, json!({"items": [schedule], "next_cursor": ""}));
    // Runs of another organization are not found.
    let foreign = format!("/v1/runs/{}/definition", run.id);
    rig.stranger.get(&foreign).must(404).await;
}

#[tokio::test]
async fn a_bad_place_to_resume_at_is_refused() {
    let rig = Rig::start().await;
    let run = rig.member.create(&plain("x")).await.unwrap().id;
    let path = format!("/v1/runs/{run}/events");
    for value in ["-1", "", "1.5", "+1", "9223372036854775808", "x"] {
        let client = rig.member.with_header("last-event-id", value);
        let refusal = client.get(&path).must_refuse("invalid_request").await;
        assert!(
            refusal.error.starts_with("Last-Event-ID"),
            "{value}: {}",
            refusal.error
        );
    }
    let refusal = as_json(&rig.member)
        .get(&format!("{path}?after=-1"))
        .await
        .unwrap();
    assert!(
        refusal
            .refused("invalid_request")
            .unwrap()
            .error
            .starts_with("after")
    );
}

#[tokio::test]
async fn a_cancel_answers_the_run_and_a_second_one_changes_nothing() {
    let rig = Rig::start().await;
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    let cancelled = rig.member.cancel(&run).await.unwrap();
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    for again in [
        rig.member.cancel(&run).await.unwrap(),
        rig.member.run(&run).await.unwrap(),
    ] {
        // Only the usage and the cost may still be settled, by the run's worker.
        let again = Run {
            usage: cancelled.usage,
            cost_micros: cancelled.cost_micros,
            billing_pending: cancelled.billing_pending,
            last_event_id: cancelled.last_event_id,
            ..again
        };
        assert_eq!(again, cancelled);
    }
}

/// `docs/API.md#large-answers`
#[tokio::test]
async fn a_cancel_of_a_finished_run_answers_a_large_output_as_a_get_does() {
    let rig = Rig::start().await;
    let (_, done) = rig
        .member
        .complete(&plain(&"x\u{2028}\"".repeat(26_000)))
        .await
        .unwrap();
    let id = done.id.to_string();
    let got = rig.member.get(&format!("/v1/runs/{id}")).await.unwrap();
    let cancel = format!("/v1/runs/{id}/cancel");
    let cancelled = rig.member.post_empty(&cancel);
    let cancelled = cancelled.await.unwrap().expect(200).unwrap();
    assert!(
        !cancelled.headers.contains_key("content-length"),
        "{:?}",
        cancelled.headers
    );
    assert_eq!(cancelled.text(), got.text());
}

#[tokio::test]
async fn a_definition_can_be_sent_again() {
    let rig = Rig::start().await;
    let request = json!({"prompt": "hello", "shell": false, "input": {"n": 12_345}, "timeout_seconds": 7});
    let (_, run) = rig.member.complete(&request).await.unwrap();
    let path = format!("/v1/runs/{}/definition", run.id);
    let definition: Value = rig.member.get(&path).must_json(200).await;
    assert_eq!(definition["requires_credentials"], json!([]));
    for field in ["prompt", "shell", "input", "timeout_seconds"] {
        assert_eq!(definition["request"][field], request[field], "{field}");
    }
    let (_, again) = rig.member.complete(&definition["request"]).await.unwrap();
    assert_eq!(again.output, run.output);
}

#[tokio::test]
async fn a_head_does_not_use_up_an_output_that_is_handed_out_once() {
    let rig = Rig::start_in_memory().await;
    let mut request = plain("only once");
    request["zero_data_retention"] = json!(true);
    let (_, done) = rig.member.complete(&request).await.unwrap();
    let id = done.id.to_string();
    for path in [format!("/v1/runs/{id}"), format!("/v1/runs/{id}?wait=1")] {
        rig.member.send(Method::HEAD, &path, Bytes::new()).must(200).await;
    }
    let run = rig.member.run(&id).await.unwrap();
    assert_eq!(run.output.as_deref(), Some("only once"));
    assert_eq!(rig.member.run(&id).await.unwrap().output, None);
}
