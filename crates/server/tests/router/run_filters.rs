//! Filters of runs, events from the end and by type, and the cancellation of many runs.

use serde_json::{Value, json};
use sortie_api::{
    CancelledRuns, Event, OrganizationInfo, Run, RunPage, RunStatus, WorkflowSummary, key::ApiKey,
};
use sortie_testkit::until;

use crate::rig::{Rig, plain, waiting};

#[tokio::test]
async fn a_run_is_found_by_each_of_its_properties() {
    let rig = Rig::start().await;
    let request = json!({"prompt": "Count the Swallows.\nAll of them.", "shell": false, "tags": ["a"]});
    let (_, first) = rig.member.complete(&request).await.unwrap();
    assert_eq!(first.title.as_deref(), Some("Count the Swallows."));
    let again = json!({"prompt": "x", "description": "Count geese", "shell": false, "replay_of": first.id});
    let (_, second) = rig.member.complete(&again).await.unwrap();
    assert_eq!(
        (second.title.as_deref(), second.replay_of),
        (Some("Count geese"), Some(first.id))
    );
    assert_eq!(
        (second.timeout_seconds, second.model.as_deref()),
        (300, Some("runbook"))
    );
    assert!(second.last_event_id > 1 && second.usage.is_some(), "{second:?}");
    let (key, created) = (first.key_id.unwrap(), second.created_at);
    for (query, expected) in [
        ("q=swallows", vec![first.id]),
        ("q=ALL%20of", vec![first.id]),
        ("q=count", vec![second.id, first.id]),
        ("q=co_nt", vec![]),
        ("model=runbook&tag=a", vec![first.id]),
        ("model=other", vec![]),
        (&*format!("key={key}"), vec![second.id, first.id]),
        (
            &*format!("ids={},{}", first.id, second.id),
            vec![second.id, first.id],
        ),
        (&*format!("ids={}&q=geese", first.id), vec![]),
        (&*format!("since={created}"), vec![second.id]),
        (
            &*format!("until={created}&status=succeeded,failed"),
            vec![first.id],
        ),
        ("status=failed,queued", vec![]),
        ("workflow=none", vec![]),
        ("error=x", vec![]),
        ("min_cost_micros=0&status=succeeded", vec![second.id, first.id]),
        ("min_cost_micros=1", vec![]),
    ] {
        let found: Vec<_> = rig
            .member
            .list(query)
            .await
            .unwrap()
            .iter()
            .map(|run| run.id)
            .collect();
        assert_eq!(found, expected, "{query}");
    }
    let page: RunPage = rig
        .member
        .get("/v1/runs?q=count&limit=1")
        .await
        .unwrap()
        .read()
        .unwrap();
    assert_eq!(page.items[0].id, second.id);
    let next = format!("/v1/runs?q=count&limit=1&cursor={}", page.next_cursor);
    let page: RunPage = rig.member.get(&next).await.unwrap().read().unwrap();
    assert_eq!(page.items[0].id, first.id);
    let other = next.replace("q=count", "q=geese");
    rig.member
        .get(&other)
        .await
        .unwrap()
        .refused("invalid_request")
        .unwrap();
    assert!(rig.stranger.list("q=count").await.unwrap().is_empty());
    let foreign = json!({"prompt": "x", "shell": false, "replay_of": first.id});
    let refused = rig.stranger.post("/v1/runs", &foreign).await.unwrap();
    let error = refused.refused("invalid_request").unwrap().error;
    assert_eq!(error, format!("replay_of: no run {}", first.id));
}

#[tokio::test]
async fn runs_are_found_by_pairs_of_metadata_with_any_characters() {
    let rig = Rig::start().await;
    let with = |metadata: Value| json!({"prompt": "x", "shell": false, "metadata": metadata});
    let create = async |metadata: Value| rig.member.create(&with(metadata)).await.unwrap();
    let first = create(json!({"customer": "c-1", "a.b=c&d e": "100% \"ä\"\n"})).await;
    let second = create(json!({"customer": "c-1", "customer.name": "", "plan": "pro"})).await;
    assert_eq!(
        serde_json::to_value(&second.metadata).unwrap(),
        json!({"customer": "c-1", "customer.name": "", "plan": "pro"})
    );
    let odd = "metadata.a.b%3Dc%26d+e=100%25+%22%C3%A4%22%0A";
    for (query, expected) in [
        ("metadata.customer=c-1", vec![second.id, first.id]),
        ("metadata%2Ecustomer=c%2D1", vec![second.id, first.id]),
        ("metadata.customer=c-1&metadata.plan=pro", vec![second.id]),
        ("metadata.customer.name=", vec![second.id]),
        ("metadata.plan=", vec![]),
        ("metadata.customer=C-1", vec![]),
        (odd, vec![first.id]),
        (
            &*format!("{odd}&metadata.customer=c-1&model=runbook"),
            vec![first.id],
        ),
        (&*format!("{odd}&metadata.plan=pro"), vec![]),
    ] {
        let found = rig.member.list(query).await.unwrap();
        let found: Vec<_> = found.iter().map(|run| run.id).collect();
        assert_eq!(found, expected, "{query}");
    }
    assert!(
        rig.stranger
            .list("metadata.customer=c-1")
            .await
            .unwrap()
            .is_empty()
    );
    let page: RunPage = rig
        .member
        .get("/v1/runs?metadata.customer=c-1&limit=1")
        .await
        .unwrap()
        .read()
        .unwrap();
    assert_eq!(page.items[0].id, second.id);
    let next = format!(
        "/v1/runs?metadata.customer=c-1&limit=1&cursor={}",
        page.next_cursor
    );
    let page: RunPage = rig.member.get(&next).await.unwrap().read().unwrap();
    assert_eq!(page.items[0].id, first.id);
    let many: Vec<String> = (0..17).map(|number| format!("metadata.k{number}=")).collect();
    for (query, rule) in [
        (
            next.trim_start_matches("/v1/runs?").replace("c-1", "c-2"),
            "cursor: ",
        ),
        (
            "metadata.=x".to_owned(),
            "metadata.: a key must be 1 to 64 characters",
        ),
        ("metadata.a%0A=x".to_owned(), "metadata.a\\n: a key must be"),
        (format!("metadata.{}=x", "k".repeat(65)), "metadata.k"),
        (
            format!("metadata.a={}", "v".repeat(513)),
            "metadata.a: must be at most 512 characters",
        ),
        ("metadata.a=1&metadata.a=2".to_owned(), "metadata.a: sent twice"),
        ("metadata.a=%ff".to_owned(), "metadata.a: must be UTF-8"),
        ("metadata.%ff=a".to_owned(), "metadata.: a name must be UTF-8"),
        ("metadata.a%00=a".to_owned(), "metadata.: a name must be UTF-8"),
        ("metadata=a".to_owned(), "metadata: no such parameter"),
        (many.join("&"), "metadata: must be at most 16 pairs"),
    ] {
        let refused = rig.member.get(&format!("/v1/runs?{query}")).await.unwrap();
        let error = refused.refused("invalid_request").unwrap().error;
        assert!(error.starts_with(rule), "{query}: {error}");
    }
}

#[tokio::test]
async fn events_are_read_by_type_and_from_the_end() {
    let rig = Rig::start().await;
    let (all, run) = rig.member.complete(&plain("hello")).await.unwrap();
    let json = rig.member.clone().with_header("accept", "application/json");
    let read = async |query: &str| {
        let path = format!("/v1/runs/{}/events?{query}", run.id);
        let events: Vec<Event> = json
            .get(&path)
            .await
            .unwrap()
            .expect(200)
            .unwrap()
            .read()
            .unwrap();
        events.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    let last = run.last_event_id;
    assert_eq!(usize::try_from(last).unwrap(), all.len());
    assert_eq!(
        read(&format!("before={}&limit=2", last + 1)).await,
        [last - 1, last]
    );
    assert_eq!(read("before=3").await, [1, 2]);
    assert_eq!(read("limit=2").await, [1, 2]);
    assert_eq!(read("after=1&limit=1").await, [2]);
    let of_type = |kind: &str| {
        all.iter()
            .filter(|event| event.kind == kind)
            .map(|event| event.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(read("types=status").await, of_type("status"));
    assert_eq!(
        read(&format!("types=status&before={}&limit=1", last + 1)).await,
        [last]
    );
    for (query, rule) in [
        ("types=nothing", "types: must be one of status, "),
        ("limit=1001", "limit: must be"),
        ("befor=2", "befor: no such parameter; did you mean before?"),
    ] {
        let path = format!("/v1/runs/{}/events?{query}", run.id);
        let error = json
            .get(&path)
            .await
            .unwrap()
            .refused("invalid_request")
            .unwrap()
            .error;
        assert!(error.starts_with(rule), "{query}: {error}");
    }
    let stream = format!("/v1/runs/{}/events?types=status", run.id);
    rig.member
        .get(&stream)
        .await
        .unwrap()
        .refused("invalid_request")
        .unwrap();
}

#[tokio::test]
async fn many_runs_are_counted_and_cancelled_by_their_properties() {
    let rig = Rig::start().await;
    let (_, finished) = rig.member.complete(&plain("hello")).await.unwrap();
    let mut tagged = waiting();
    tagged["tags"] = json!(["batch"]);
    for request in [&tagged, &tagged, &tagged, &waiting()] {
        rig.member.create(request).await.unwrap();
    }
    let cancel = async |query: &str| {
        let answer = rig
            .member
            .post(&format!("/v1/runs/cancel?{query}"), &Value::Null)
            .await
            .unwrap();
        answer.expect(200).unwrap().read::<CancelledRuns>().unwrap()
    };
    let counted = cancel("tag=batch&dry_run=true").await;
    assert_eq!(
        (counted.matched, counted.cancelled, counted.next_cursor.as_str()),
        (3, 0, "")
    );
    let first = cancel("tag=batch&limit=2").await;
    assert_eq!((first.matched, first.cancelled), (2, 2));
    let rest = cancel(&format!("tag=batch&limit=2&cursor={}", first.next_cursor)).await;
    assert_eq!(
        (rest.matched, rest.cancelled, rest.next_cursor.as_str()),
        (1, 1, "")
    );
    assert_eq!(cancel("tag=batch").await.matched, 0);
    assert_eq!(cancel("status=queued,starting,running").await.cancelled, 1);
    let runs: Vec<Run> = rig.member.list("").await.unwrap();
    let statuses = runs
        .iter()
        .filter(|run| run.status == RunStatus::Cancelled)
        .count();
    assert_eq!((statuses, runs.len()), (4, 5));
    assert_eq!(
        rig.member.run(&finished.id.to_string()).await.unwrap().status,
        RunStatus::Succeeded
    );
    for query in ["", "limit=3", "status=failed", "taag=batch", "tag=batch&cursor=x"] {
        let answer = rig
            .member
            .post(&format!("/v1/runs/cancel?{query}"), &Value::Null)
            .await
            .unwrap();
        answer.refused("invalid_request").unwrap();
    }
}

#[tokio::test]
async fn a_credential_sees_names_and_the_last_use_of_keys() {
    let rig = Rig::start().await;
    let me: OrganizationInfo = rig.member.get("/v1/me").await.unwrap().read().unwrap();
    assert!(
        !me.organization_name.is_empty() && me.key_name.is_some() && !me.version.is_empty(),
        "{me:?}"
    );
    let look = async || {
        let keys: Vec<ApiKey> = rig.admin.get("/v1/admin/keys").await?.read()?;
        Ok(keys)
    };
    let is_noted = |keys: &Vec<ApiKey>| {
        let used = keys.iter().find(|key| Some(key.id) == me.key_id);
        used.is_some_and(|key| {
            key.last_used_at
                .is_some_and(|at| at.as_micros() % 3_600_000_000 == 0)
        })
    };
    until("the use of the key", look, is_noted).await.unwrap();
}

#[tokio::test]
async fn workflows_show_their_model_revision_and_usage() {
    let rig = Rig::start().await;
    rig.member.upload("orders.csv", b"a").await.unwrap();
    let body = json!({"prompt": "hello", "shell": false, "model": "runbook", "files": [
        {"path": "a", "file": "orders.csv"}, {"path": "b", "file": "orders.csv"}, {"path": "c", "content": ""}
    ]});
    let body = body.to_string();
    let put = sortie_testkit::http::Method::PUT;
    rig.member
        .send(put, "/v1/workflows/daily", body.into())
        .await
        .unwrap()
        .expect(201)
        .unwrap();
    rig.member.complete(&json!({"workflow": "daily"})).await.unwrap();
    let listed: Vec<WorkflowSummary> = rig
        .member
        .get("/v1/workflows?detail=true")
        .await
        .unwrap()
        .read()
        .unwrap();
    let daily = &listed[0];
    assert_eq!(
        (daily.model.as_deref(), daily.revision, daily.runs_30d),
        (Some("runbook"), Some(1), Some(1))
    );
    assert_eq!(
        (daily.files.as_slice(), daily.connections.len()),
        (["orders.csv".to_owned()].as_slice(), 0)
    );
    assert!(daily.updated_at.is_some() && daily.cost_30d_micros.is_some());
    let plain: Value = rig.member.get("/v1/workflows").await.unwrap().read().unwrap();
    assert_eq!(plain, json!([{"name": "daily"}]));
    let of_workflow = rig.member.list("workflow=daily").await.unwrap();
    assert_eq!(of_workflow.len(), 1);
}
