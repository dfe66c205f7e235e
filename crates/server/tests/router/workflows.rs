//! Workflows over HTTP: saved, replaced, shown, listed, deleted, and run.

use tokio::io::AsyncReadExt as _;

use crate::{prelude::*, unread};

fn put(client: &Client, name: &str, body: &Value) -> Pending {
    let path = format!("/v1/workflows/{name}");
    client.put(&path, body)
}

async fn get(client: &Client, path: &str) -> Value {
    client.get(path).must_json(200).await
}

/// The sentence of a refusal.
fn refusal(answer: &Answer) -> String {
    answer.refused("invalid_request").unwrap();
    answer.json().unwrap()["error"].as_str().unwrap().to_owned()
}

/// Such a record is sent from the store, piece by piece.
#[tokio::test]
async fn a_record_of_any_size_is_the_definition_as_saved() {
    let rig = Rig::start().await;
    for (size, revision) in [(20_000, 1), (70_000, 2), (3_000_000, 3)] {
        // Of one, two and three bytes, and with escapes.
        let content = "xäﬀ\"\n".repeat(size / 8);
        let definition = json!({"prompt": "x", "files": [{"path": "a", "content": content}], "tags": ["b"]});
        let answer = put(&rig.member, "large", &definition).await.unwrap();
        let status = if revision == 1 { 201 } else { 200 };
        let record = answer.expect(status).unwrap().json().unwrap();
        let mut expected = definition;
        for field in ["created_at", "updated_at"] {
            expected[field] = record[field].clone();
        }
        expected["name"] = "large".into();
        expected["revision"] = revision.into();
        assert!(record == expected, "{size}");
        assert!(
            get(&rig.member, "/v1/workflows/large").await == expected,
            "{size}"
        );
    }
}

#[tokio::test]
async fn a_record_is_the_definition_as_saved_with_its_revision_and_times() {
    let rig = Rig::start().await;
    let definition = json!({"prompt": "x", "input": {"n": 1}, "tags": ["a"], "shell": false, "web": {"search": false},
        "files": [{"path": "a", "file": "report.csv"}], "connections": {"crm": {"ref": "not-there-yet"}}});
    let made = put(&rig.member, "daily", &definition).must_json(201).await;
    let mut expected = definition.clone();
    for field in ["created_at", "updated_at"] {
        expected[field] = made["created_at"].clone();
    }
    expected["name"] = "daily".into();
    expected["revision"] = 1.into();
    assert_eq!(made, expected);
    assert_eq!(get(&rig.admin, "/v1/workflows/daily").await, made);

    let same = put(&rig.member, "daily", &definition).must_json(200).await;
    assert_eq!(same, made, "the same definition again is no change");
    let other = json!({"prompt": "y"});
    let replaced = put(&rig.member, "daily", &other).must_json(200).await;
    assert_has!(replaced, {"revision": 2, "prompt": "y"});
    assert_eq!(replaced["created_at"], made["created_at"]);
    assert!(replaced.get("tags").is_none(), "it is replaced whole");
}

#[tokio::test]
async fn a_list_has_names_alone_unless_it_is_asked_for_more() {
    let rig = Rig::start().await;
    assert_eq!(get(&rig.member, "/v1/workflows").await, json!([]));
    let schema = json!({"type": "object"});
    let b = json!({"prompt": "x", "description": "d", "input_schema": schema, "output_schema": schema, "tags": ["t"]});
    put(&rig.member, "b", &b).must(201).await;
    put(&rig.member, "a", &json!({"prompt": "x"})).must(201).await;
    let names = json!([{"name": "a"}, {"name": "b"}]);
    for path in ["/v1/workflows", "/v1/workflows?detail=false"] {
        assert_eq!(get(&rig.member, path).await, names);
    }
    let mut listed = get(&rig.member, "/v1/workflows?detail=true").await;
    for workflow in listed.as_array_mut().unwrap() {
        assert!(workflow.as_object_mut().unwrap().remove("updated_at").is_some());
    }
    let detailed = json!([
        {"name": "a", "revision": 1, "runs_30d": 0, "cost_30d_micros": 0},
        {"name": "b", "description": "d", "input_schema": schema, "output_schema": schema,
            "revision": 1, "runs_30d": 0, "cost_30d_micros": 0},
    ]);
    assert_eq!(listed, detailed);
    let wrong = rig.member.get("/v1/workflows?detail=1").await.unwrap();
    assert_eq!(refusal(&wrong), "detail: must be true or false");
}

#[tokio::test]
async fn a_list_of_several_stretches_shows_each_workflow_once_and_in_order() {
    let rig = Rig::start().await;
    let name = |at: usize| format!("w{at:02}");
    for at in 0..45 {
        let workflow = json!({"prompt": "x", "description": at.to_string()});
        put(&rig.member, &name(at), &workflow).must(201).await;
        if [1, 20, 21, 40, 45].contains(&(at + 1)) {
            let all: Vec<_> = (0..=at).map(|at| json!([name(at), at.to_string()])).collect();
            let listed = get(&rig.member, "/v1/workflows?detail=true").await;
            let listed = listed.as_array().unwrap().iter();
            let listed: Vec<_> = listed.map(|of| json!([of["name"], of["description"]])).collect();
            assert_eq!(listed, all);
        }
    }
}

#[tokio::test]
async fn a_deleted_workflow_is_gone_and_its_runs_are_not() {
    let rig = Rig::start().await;
    put(&rig.member, "daily", &json!({"prompt": "x", "shell": false}))
        .must(201)
        .await;
    let run = rig.member.create(&json!({"workflow": "daily"})).await.unwrap();
    assert_eq!(run.workflow.as_deref(), Some("daily"));
    let delete = async || rig.member.delete("/v1/workflows/daily").await.unwrap();
    delete().await.expect(204).unwrap();
    delete().await.refused("not_found").unwrap();
    rig.member
        .get("/v1/workflows/daily")
        .must_refuse("not_found")
        .await;
    rig.member
        .get("/v1/workflows/%2e%2e")
        .must_refuse("not_found")
        .await;
    let kept = rig.member.run(&run.id.to_string()).await.unwrap();
    assert_eq!(kept.workflow.as_deref(), Some("daily"));
}

/// A definition with one more field.
fn with(field: &str, value: Value) -> Value {
    let mut body = json!({"prompt": "x"});
    body[field] = value;
    body
}

/// Definitions with model options that cannot be satisfied, and the beginnings of their refusals.
fn refused_of_models() -> [(Value, &'static str); 3] {
    rows! {
        with("fallback_model", json!("nobody")), "fallback_model: no model \"nobody\"";
        with("fallback_model", json!("runbook")), "fallback_model: must be another model than model";
        with("effort", json!("extreme")), "effort: must be one of `minimal`";
    }
}

/// Definitions that cannot be saved, and how their refusals begin.
fn refused() -> Vec<(Value, &'static str)> {
    let secret =
        json!({"type": "http", "url": "https://a.example", "auth": {"type": "bearer", "token": "hush"}});
    vec![
        (json!({}), "prompt: required"),
        (json!({"prompt": " "}), "prompt: must not be empty"),
        (
            with("workflow", json!("other")),
            "workflow: belongs to a single run",
        ),
        (
            with("callback", json!({"url": "https://a.example", "secret": "s"})),
            "callback: belongs to a single run",
        ),
        (
            with("zero_data_retention", json!(false)),
            "zero_data_retention: belongs to a single run",
        ),
        (with("promt", json!("x")), "promt"),
        (with("model", json!("nobody")), "model: no model \"nobody\""),
        (
            with("files", json!([{"path": "../a", "content": ""}])),
            "files[0].path: ",
        ),
        (
            with("files", json!([{"path": "a"}])),
            "files[0]: must have either file or content",
        ),
        (
            with(
                "connections",
                json!({"crm": {"ref": "crm", "url": "https://a.example"}}),
            ),
            "connections.crm.url: ",
        ),
        (
            with("connections", json!({"crm": secret})),
            "connections.crm: brings credentials",
        ),
        (
            with(
                "connections",
                json!({"crm": {"type": "http", "url": "https://a.example/?k=hush"}}),
            ),
            "connections.crm: brings credentials",
        ),
        (
            with("description", json!("d".repeat(501))),
            "description: must be at most 500",
        ),
        (
            with("timeout_seconds", json!(0)),
            "timeout_seconds: must be from 1 to 3600",
        ),
        (
            with("shell", json!(true)),
            "shell: commands are unavailable on this engine",
        ),
        (
            with("web", json!({"allow": ["https://a.example"]})),
            "web.allow[0]: ",
        ),
        (
            with("max_cost_micros", json!(0)),
            "max_cost_micros: must be from 1",
        ),
        (with("tags", json!(["a", "a"])), "tags[1]: "),
        (with("metadata", json!({"": "x"})), "metadata.: a key must be"),
        (
            with("instructions", json!("x".repeat(65_537))),
            "instructions: must be at most 65536 bytes",
        ),
        (with("input_schema", json!({"type": "nothing"})), "input_schema: "),
        (
            with("output_schema", json!({"$ref": "https://a.example"})),
            "output_schema: ",
        ),
        (
            json!({"prompt": "x", "input": {}, "input_schema": {"required": ["day"]}}),
            "input.day: required",
        ),
    ]
}

#[tokio::test]
async fn what_breaks_a_rule_by_itself_is_refused_when_it_is_saved() {
    let rig = Rig::start().await;
    for (body, told) in refused().into_iter().chain(refused_of_models()) {
        let answer = put(&rig.member, "daily", &body).await.unwrap();
        let sentence = refusal(&answer);
        assert!(
            sentence.starts_with(told) || told == "promt" && sentence.contains("`promt`"),
            "{body}: {sentence}"
        );
        assert!(!sentence.contains("hush"), "{sentence}");
    }
    let open = json!({"prompt": "x", "input_schema": {"required": ["day"]},
        "connections": {"api": {"type": "http", "url": "https://a.example/v1", "allowed_methods": ["GET"]}}});
    put(&rig.member, "daily", &open).must(201).await;
    for name in ["Daily", "-a", "a%20b", "a%2Fb"] {
        let sentence = refusal(&put(&rig.member, name, &json!({"prompt": "x"})).await.unwrap());
        assert!(sentence.starts_with("name: a name is"), "{sentence}");
    }
}

#[tokio::test]
async fn a_run_uses_what_is_saved_where_it_sends_nothing() {
    let rig = Rig::start().await;
    let saved = json!({"prompt": "```answer\nsaved\n```", "shell": false, "timeout_seconds": 7, "tags": ["nightly", "eu"],
        "input": {"day": "monday", "deep": {"a": 1}}, "input_schema": {"required": ["day"]}, "max_cost_micros": 5,
        "description": "d", "files": [{"path": "a", "content": "1"}, {"path": "b", "content": "2"}]});
    put(&rig.member, "daily", &saved).must(201).await;
    let definition = async |request: Value| {
        let run = rig.member.create(&request).await.unwrap();
        let path = format!("/v1/runs/{}/definition", run.id);
        (run, get(&rig.member, &path).await["request"].clone())
    };
    let (run, used) = definition(json!({"workflow": "daily"})).await;
    let mut expected = saved.clone();
    expected["model"] = "runbook".into();
    expected["max_steps"] = 200.into();
    assert_eq!(used, expected, "without the name of the workflow");
    assert_eq!(
        (run.tags, run.max_cost_micros.get()),
        (vec!["nightly".to_owned(), "eu".to_owned()], 5)
    );

    let (run, used) = definition(json!({"workflow": "daily", "input": {"day": "friday"}, "tags": ["now"],
        "files": [{"path": "c", "content": "3"}], "timeout_seconds": 9, "description": "e", "prompt": "sent"})).await;
    let sent = json!({"input": {"day": "friday"}, "tags": ["now"], "files": [{"path": "c", "content": "3"}],
        "timeout_seconds": 9, "description": "e", "prompt": "sent"});
    for (field, value) in sent.as_object().unwrap() {
        expected[field] = value.clone();
    }
    assert_eq!(used, expected, "fields that are sent replace whole");
    assert_eq!(
        (run.tags, run.workflow.as_deref()),
        (vec!["now".to_owned()], Some("daily"))
    );
}

#[tokio::test]
async fn instructions_that_are_sent_replace_and_metadata_is_merged() {
    let rig = Rig::start().await;
    let pairs = |names: std::ops::Range<u8>, value: &str| {
        let pairs = names.map(|number| (format!("k{number:02}"), json!(value)));
        Value::Object(pairs.collect())
    };
    let saved = json!({"prompt": "x", "shell": false, "instructions": "You are a clerk.", "metadata": pairs(0..10, "saved")});
    put(&rig.member, "daily", &saved).must(201).await;
    let started = async |request: Value| {
        let run = rig.member.create(&request).await.unwrap();
        let path = format!("/v1/runs/{}/definition", run.id);
        let used = get(&rig.member, &path).await["request"].clone();
        assert_eq!(used["metadata"], serde_json::to_value(&run.metadata).unwrap());
        (used["instructions"].clone(), used["metadata"].clone())
    };
    let inherited = started(json!({"workflow": "daily"})).await;
    assert_eq!(inherited, (json!("You are a clerk."), pairs(0..10, "saved")));
    let sent = json!({"workflow": "daily", "instructions": "", "metadata": pairs(8..16, "sent")});
    let mut merged = pairs(0..8, "saved");
    merged
        .as_object_mut()
        .unwrap()
        .append(pairs(8..16, "sent").as_object_mut().unwrap());
    assert_eq!(started(sent).await, (json!(""), merged));
    let many = json!({"workflow": "daily", "metadata": pairs(10..17, "sent")});
    let refused = refusal(&rig.member.post("/v1/runs", &many).await.unwrap());
    assert_eq!(
        refused,
        "metadata: must be at most 16 pairs, with those of the workflow; these are 17"
    );
}

#[tokio::test]
async fn the_effective_definition_is_what_is_checked() {
    let rig = Rig::start().await;
    let saved = json!({"prompt": "x", "shell": false, "input_schema": {"required": ["day"], "properties": {"day": {"type": "string"}}},
        "connections": {"crm": {"ref": "crm"}}});
    put(&rig.member, "daily", &saved).must(201).await;
    for (request, told) in rows! {
        json!({"workflow": "nobody"}), "workflow: no workflow \"nobody\"";
        json!({"workflow": "No Name"}), "workflow: a name is";
        json!({"workflow": "daily", "input": {"day": "x"}}), "connections.crm.ref: no connection \"crm\"";
        json!({"workflow": "daily", "connections": {}}), "input: required by input_schema";
        json!({"workflow": "daily", "connections": {}, "input": {}}), "input.day: required";
        json!({"workflow": "daily", "connections": {}, "input": {"day": 1}}), "input.day: not of type \"string\"";
        json!({"workflow": "daily", "connections": {}, "input": {}, "input_schema": {"required": ["night"]}}),
        "input.night: required";
        json!({"workflow": "daily", "connections": {}, "input": {"day": "x"}, "prompt": ""}), "prompt: must not be empty";
    } {
        let answer = rig.member.post("/v1/runs", &request).await.unwrap();
        let sentence = refusal(&answer);
        assert!(sentence.starts_with(told), "{request}: {sentence}");
    }
    assert!(
        rig.member.list("").await.unwrap().is_empty(),
        "nothing was created"
    );
    let run = json!({"workflow": "daily", "connections": {}, "input": {}, "input_schema": {}});
    rig.member.create(&run).await.unwrap();
    let foreign = rig
        .stranger
        .post("/v1/runs", &json!({"workflow": "daily"}))
        .await
        .unwrap();
    assert_eq!(refusal(&foreign), "workflow: no workflow \"daily\"");
}

/// `docs/API.md#large-answers`: an answer is of one version.
#[tokio::test]
async fn a_large_workflow_that_is_replaced_while_it_is_read_is_sent_as_it_was() {
    let rig = Rig::start().await;
    // Two of them are more than the node keeps without need.
    let definition =
        |letter: &str| json!({"prompt": "x", "files": [{"path": "a", "content": letter.repeat(8 << 20)}]});
    let (old, new) = (definition("a"), definition("b"));
    let saved = put(&rig.member, "large", &old).must_json(201).await;
    let mut reader = unread::asked_with(&rig, "/v1/workflows/large", "HTTP/1.0").await;
    reader.readable().await.unwrap();
    put(&rig.member, "large", &new).must(200).await;
    let replaced = get(&rig.member, "/v1/workflows/large").await;
    assert!(replaced["files"] == new["files"] && replaced["revision"] == 2);

    let mut answer = Vec::new();
    reader.read_to_end(&mut answer).await.unwrap();
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let read: Value = serde_json::from_slice(&answer[body..]).unwrap();
    assert!(read == saved);
}
