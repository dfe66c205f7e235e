//! The MCP server over HTTP.

use sortie_api::{RunId, Timestamp};
use sortie_server::Options;
use sortie_testkit::{client::EventStream, sse::Item};

use crate::{
    prelude::*,
    rig::{options, plain, waiting},
};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// MCP client of the newest revision.
struct Mcp {
    client: Client,
    /// Extensions that the client declares.
    extensions: Value,
}

impl Mcp {
    fn of(client: &Client) -> Self {
        let extensions = json!({});
        let client = client
            .with_header("accept", "application/json, text/event-stream")
            .with_header("mcp-protocol-version", "2026-07-28");
        Self { client, extensions }
    }

    /// A client that knows tasks.
    fn with_tasks(client: &Client) -> Self {
        Self {
            extensions: json!({TASKS: {}}),
            ..Self::of(client)
        }
    }

    /// Sends a request and returns the whole answer.
    async fn answer(&self, method: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": self.extensions},
        });
        let client = self.client.with_header("mcp-method", method);
        let name = ["name", "uri", "taskId"]
            .iter()
            .find_map(|field| params[field].as_str());
        let client = match name {
            Some(name) => client.with_header("mcp-name", name),
            None => client,
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        client.post("/mcp", &body).await.unwrap()
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self
            .answer(method, params)
            .await
            .expect(200)
            .unwrap()
            .json()
            .unwrap();
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    async fn error(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await.json().unwrap();
        assert!(answer["result"].is_null(), "{answer}");
        answer["error"].clone()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    /// Calls a tool that returns a run. Returns the run.
    async fn run(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        let run = result["structuredContent"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap(),
            run,
            "text for older clients"
        );
        run
    }

    /// Calls a tool that refuses. Returns the sentence.
    async fn refusal(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn tools(&self) -> Vec<Value> {
        let (mut tools, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() {
                json!({})
            } else {
                json!({"cursor": cursor})
            };
            let page = self.result("tools/list", params).await;
            tools.extend(page["tools"].as_array().unwrap().clone());
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return tools;
            }
        }
    }
}

async fn save(client: &Client, name: &str, definition: &Value) {
    let path = format!("/v1/workflows/{name}");
    client.put(&path, definition).must(201).await;
}

fn named<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test]
async fn each_workflow_is_a_tool_with_its_schemas() {
    let rig = Rig::start().await;
    let object = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}});
    let output = json!({"$ref": "#/$defs/sum", "$defs": {"sum": {"type": "integer"}}});
    let sum = json!({"prompt": "1", "description": "Adds.", "input_schema": object, "output_schema": output});
    save(&rig.member, "sum", &sum).await;
    save(&rig.member, "list", &json!({"prompt": "x", "input_schema": list})).await;
    save(&rig.member, "free", &json!({"prompt": "x"})).await;
    for hidden in ["report.v2", &"a".repeat(65)] {
        save(&rig.member, hidden, &json!({"prompt": "x"})).await;
    }
    save(
        &rig.member,
        "get_run",
        &json!({"prompt": "x", "description": "hidden"}),
    )
    .await;
    save(&rig.stranger, "theirs", &json!({"prompt": "x"})).await;

    let tools = Mcp::of(&rig.member).tools().await;
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let any_run = [
        "start_run",
        "get_run",
        "wait_run",
        "cancel_run",
        "list_runs",
        "read_artifact",
    ];
    assert_eq!(names, [&any_run[..], &["free", "list", "sum"]].concat());
    assert_ne!(
        named(&tools, "get_run")["description"],
        "hidden",
        "start_run can start it"
    );

    let tool = named(&tools, "sum");
    assert_eq!(
        (&tool["description"], &tool["inputSchema"]),
        (&json!("Adds."), &object)
    );
    let identified = |mut schema: Value, nested: &Value, id: &str| {
        let urn = nested["$id"].as_str().unwrap();
        assert!(
            urn.starts_with("urn:sortie:workflow:") && urn.ends_with(id),
            "{urn}"
        );
        schema["$id"] = urn.into();
        schema
    };
    let nested = &tool["outputSchema"]["properties"]["output"];
    assert_eq!(*nested, identified(output, nested, ":output"));
    let of_list = &named(&tools, "list")["inputSchema"];
    let list = identified(list, &of_list["properties"]["input"], ":input");
    assert_eq!(
        *of_list,
        json!({"type": "object", "properties": {"input": list}, "required": ["input"], "additionalProperties": false})
    );
    assert_eq!(named(&tools, "free")["inputSchema"], json!({"type": "object"}));
    assert_eq!(named(&tools, "free")["description"], "Runs the workflow free.");
}

#[tokio::test]
async fn tools_come_page_by_page_each_once() {
    let rig = Rig::start().await;
    for at in 0..201 {
        save(&rig.member, &format!("w{at:03}"), &json!({"prompt": "x"})).await;
    }
    let tools = Mcp::of(&rig.member).tools().await;
    let workflows: Vec<_> = tools.iter().skip(6).map(|tool| tool["name"].clone()).collect();
    let expected: Vec<_> = (0..201).map(|at| json!(format!("w{at:03}"))).collect();
    assert_eq!(workflows, expected);
}

#[tokio::test]
async fn a_call_starts_a_run_of_the_workflow_with_its_input() {
    let rig = Rig::start().await;
    let mcp = Mcp::of(&rig.member);
    let echo = json!({"prompt": "[1]", "model": "runbook", "shell": false});
    save(&rig.member, "text", &echo).await;
    let mut with_output = echo.clone();
    with_output["output_schema"] = json!({"type": "array"});
    save(&rig.member, "values", &with_output).await;
    let mut with_default = echo.clone();
    with_default["input"] = json!({"from": "the workflow"});
    save(&rig.member, "default", &with_default).await;
    let mut of_list = echo.clone();
    of_list["input_schema"] = json!({"type": "array", "items": {"type": "integer"}});
    save(&rig.member, "list", &of_list).await;

    let input = async |run: &Value| {
        let path = format!("/v1/runs/{}/definition", run["run"].as_str().unwrap());
        rig.member.get(&path).must_json(200).await["request"]["input"].clone()
    };
    let run = mcp.run("text", json!({"any": "thing"})).await;
    assert_has!(run, {"status": "succeeded", "output": "[1]"});
    assert_eq!(input(&run).await, json!({"any": "thing"}));
    let run = mcp.run("values", json!({})).await;
    assert_eq!(run["output"], json!([1]), "an output with a schema is JSON");
    let run = mcp.run("default", json!({})).await;
    assert_eq!(input(&run).await, json!({"from": "the workflow"}));
    let run = mcp.run("list", json!({"input": [1, 2]})).await;
    assert_eq!(input(&run).await, json!([1, 2]));

    let refused = mcp.refusal("list", json!({"input": ["x"]})).await;
    assert!(refused.starts_with("input"), "{refused}");
    assert_eq!(
        mcp.refusal("list", json!({})).await,
        "input: required by input_schema"
    );
    let unknown = mcp.error("tools/call", json!({"name": "theirs"})).await;
    assert_eq!(
        unknown,
        json!({"code": -32_602, "message": "there is no such tool"})
    );
    assert_eq!(
        rig.member.list("").await.unwrap().len(),
        4,
        "a refused call starts nothing"
    );
}

#[tokio::test]
async fn a_run_that_fails_is_a_failed_call_and_a_state_of_its_own() {
    let rig = Rig::start().await;
    let mcp = Mcp::of(&rig.member);
    let fails = json!({"prompt": "```tool no_such_tool\n{}\n```", "model": "runbook", "shell": false});
    save(&rig.member, "fails", &fails).await;
    let result = mcp.call("fails", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    let run = &result["structuredContent"];
    assert_eq!(run["status"], "failed");
    assert!(
        run["error"].as_str().is_some_and(|error| !error.is_empty()),
        "{run}"
    );
    let of = json!({"run": run["run"]});
    assert_eq!(mcp.call("wait_run", of.clone()).await["isError"], true);
    assert_eq!(mcp.run("get_run", of).await["status"], "failed", "it was found");
}

#[tokio::test]
async fn a_client_without_tasks_gets_the_status_before_it_gives_up() {
    let patience = Options {
        call_patience: Duration::from_millis(100),
        ..options()
    };
    let rig = Rig::start_with(sortie_api::Mode::SelfHosted, patience).await;
    let mcp = Mcp::of(&rig.member);
    save(&rig.member, "slow", &waiting()).await;
    let run = mcp.run("slow", json!({})).await;
    assert!(
        ["queued", "starting", "running"].contains(&run["status"].as_str().unwrap()),
        "{run}"
    );
    assert_eq!(run["hint"], "still running: call wait_run to wait for its end");
    let of = json!({"run": run["run"]});
    assert_eq!(mcp.run("wait_run", of.clone()).await["hint"], run["hint"]);
    let cancelled = mcp.run("cancel_run", of.clone()).await;
    assert_has!(cancelled, {"status": "cancelled"});
    assert!(cancelled.get("hint").is_none(), "{cancelled}");
}

#[tokio::test]
async fn any_run_is_started_listed_and_read() {
    let rig = Rig::start().await;
    let mcp = Mcp::of(&rig.member);
    let mut request = plain("hello");
    request["tags"] = json!(["a"]);
    request["metadata"] = json!({"customer": "c & d"});
    request["instructions"] = json!("You are a clerk.");
    let started = mcp.run("start_run", request).await;
    let done = mcp.run("wait_run", json!({"run": started["run"]})).await;
    assert_has!(done, {"status": "succeeded", "output": "hello"});
    let mut other = plain("other");
    other["idempotency_key"] = "once".into();
    let other = [
        mcp.run("start_run", other.clone()).await,
        mcp.run("start_run", other).await,
    ];
    assert_eq!(other[0]["run"], other[1]["run"], "the same key starts one run");
    let page = mcp.call("list_runs", json!({"limit": 1})).await["structuredContent"].clone();
    assert_eq!(page["runs"][0]["title"], "other");
    let next = json!({"limit": 1, "cursor": page["next_cursor"]});
    let page = mcp.call("list_runs", next).await["structuredContent"].clone();
    assert_eq!(page["runs"][0]["run"], started["run"]);
    let tagged = mcp
        .call("list_runs", json!({"tag": "a", "status": ["succeeded"]}))
        .await;
    assert_eq!(
        tagged["structuredContent"]["runs"].as_array().map(Vec::len),
        Some(1)
    );
    let of_customer = |customer: &str| json!({"metadata": {"customer": customer}});
    for (customer, count) in [("c & d", 1), ("c", 0)] {
        let found = mcp.call("list_runs", of_customer(customer)).await;
        assert_eq!(
            found["structuredContent"]["runs"].as_array().map(Vec::len),
            Some(count)
        );
    }
    let path = format!("/v1/runs/{}/definition", started["run"].as_str().unwrap());
    let used: Value = rig.member.get(&path).await.unwrap().read().unwrap();
    assert_eq!(used["request"]["instructions"], "You are a clerk.");

    for (tool, arguments, rule) in rows! {
        "start_run", json!({}), "prompt: required unless workflow is set";
        "start_run", json!({"prompt": 1}), "prompt: must be a string, not the number 1";
        "start_run", json!({"promt": "x"}), "promt: start_run has no such argument";
        "start_run", json!({"prompt": "x", "zero_data_retention": true}), "zero_data_retention: start_run has no such argument";
        "start_run", json!({"prompt": "x", "idempotency_key": 1}), "idempotency_key: must be a string";
        "get_run", json!({"run": "x"}), "run: ";
        "get_run", json!({}), "run: required";
        "wait_run", json!({"run": RunId::new(Timestamp::from_micros(1), [1; 10])}), "not found";
        "list_runs", json!({"limit": 101}), "limit: ";
        "list_runs", json!({"tag": ""}), "tag: ";
        "list_runs", json!({"metadata": {"": "x"}}), "metadata.: ";
        "list_runs", json!({"metadata": {"a": 1}}), "metadata.a: must be a string";
        "start_run", json!({"prompt": "x", "metadata": {"a": 1}}), "metadata.a: must be a string";
        "list_runs", json!({"cursor": "x"}), "cursor: not a cursor of this list";
        "read_artifact", json!({"run": started["run"], "path": "no.txt"}), "not found";
    } {
        let refused = mcp.refusal(tool, arguments.clone()).await;
        assert!(refused.starts_with(rule), "{tool} {arguments}: {refused}");
    }
    let stranger = Mcp::of(&rig.stranger);
    assert_eq!(
        stranger.refusal("get_run", json!({"run": started["run"]})).await,
        "not found"
    );
}

#[tokio::test]
async fn a_call_is_answered_by_the_task_of_its_run() {
    let rig = Rig::start().await;
    let mcp = Mcp::with_tasks(&rig.member);
    save(&rig.member, "slow", &waiting()).await;
    save(&rig.member, "quick", &plain("done")).await;

    let task = mcp.call("quick", json!({})).await;
    assert_has!(task, {"resultType": "task", "status": "working", "ttlMs": null, "pollIntervalMs": 1_000});
    let id = task["taskId"].clone();
    rig.member.finished(id.as_str().unwrap()).await.unwrap();
    let state = mcp.result("tasks/get", json!({"taskId": id})).await;
    assert_has!(state, {"resultType": "complete", "status": "completed", "taskId": id});
    let direct = mcp.call("wait_run", json!({"run": id})).await;
    assert_eq!(
        direct["resultType"], "complete",
        "a run that has ended needs no task"
    );
    assert_eq!(state["result"]["structuredContent"], direct["structuredContent"]);

    let slow = mcp.call("slow", json!({})).await["taskId"].clone();
    let of = json!({"taskId": slow});
    assert_eq!(mcp.result("tasks/get", of.clone()).await["status"], "working");
    assert_eq!(mcp.call("wait_run", json!({"run": slow})).await["taskId"], slow);
    let answers = json!({"taskId": slow, "inputResponses": {"none": {}}});
    mcp.result("tasks/update", answers).await;
    mcp.result("tasks/cancel", of.clone()).await;
    assert_eq!(mcp.result("tasks/get", of.clone()).await["status"], "cancelled");
    mcp.result("tasks/cancel", of.clone()).await;

    let unknown = json!({"code": -32_602, "message": "no such task"});
    for (client, task) in [
        (&rig.stranger, &slow),
        (&rig.member, &json!("run_x")),
        (&rig.member, &json!("")),
    ] {
        let mcp = Mcp::with_tasks(client);
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            assert_eq!(
                mcp.error(method, json!({"taskId": task, "inputResponses": {}}))
                    .await,
                unknown,
                "{task}"
            );
        }
    }
    let error = Mcp::of(&rig.member).error("tasks/get", of).await;
    assert_eq!(error["code"], -32_021, "the client did not declare the extension");
}

#[tokio::test]
async fn runs_are_resources() {
    let rig = Rig::start().await;
    let mcp = Mcp::of(&rig.member);
    let mut uris = Vec::new();
    for at in 0..51 {
        let run = rig.member.create(&plain(&at.to_string())).await.unwrap();
        uris.push(format!("sortie://runs/{}", run.id));
    }
    uris.reverse();
    let page = mcp.result("resources/list", json!({})).await;
    let more = mcp
        .result("resources/list", json!({"cursor": page["nextCursor"]}))
        .await;
    assert!(more["nextCursor"].is_null(), "{more}");
    let listed = [&page, &more]
        .into_iter()
        .flat_map(|page| page["resources"].as_array().unwrap());
    let listed: Vec<_> = listed
        .map(|resource| resource["uri"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, uris);
    let read = mcp.result("resources/read", json!({"uri": uris[50]})).await;
    let run: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(run["title"], "0");
    let templates = mcp.result("resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"].as_array().map(Vec::len), Some(2));
    for (client, uri) in [
        (&rig.stranger, uris[0].clone()),
        (&rig.member, format!("{}/artifacts/a.txt", uris[0])),
        (&rig.member, "file:///etc/passwd".to_owned()),
    ] {
        let error = Mcp::of(client).error("resources/read", json!({"uri": uri})).await;
        assert_eq!(
            error,
            json!({"code": -32_602, "message": "no such resource", "data": {"uri": uri}})
        );
    }
    let error = mcp.error("resources/list", json!({"cursor": "x"})).await;
    assert_eq!(error["code"], -32_602);
}

/// Opens the stream of changes.
async fn changes(client: &Client) -> EventStream {
    let client = client.with_header("accept", "text/event-stream");
    client.follow_at("/mcp", None).await.unwrap()
}

/// The next message of the stream, without comments; `None` at its end.
async fn next(stream: &mut EventStream) -> Option<Value> {
    loop {
        match stream.item().await.unwrap()? {
            Item::Message(message) => return Some(serde_json::from_str(&message.data).unwrap()),
            Item::Comment(_) | Item::Retry(_) => {}
        }
    }
}

#[tokio::test]
async fn clients_hear_of_workflows_that_are_saved_and_deleted() {
    let rig = Rig::start().await;
    let key = rig.new_key("mcp").await;
    let mut stream = changes(&key.client).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let definition = json!({"prompt": "x"});
    save(&rig.member, "one", &definition).await;
    assert_eq!(next(&mut stream).await.as_ref(), Some(&changed));
    // Neither another organization nor the same definition again changes the list.
    save(&rig.stranger, "one", &definition).await;
    rig.member.put("/v1/workflows/one", &definition).must(200).await;
    rig.member
        .put("/v1/workflows/one", &json!({"prompt": "y"}))
        .must(200)
        .await;
    assert_eq!(next(&mut stream).await.as_ref(), Some(&changed));
    rig.member.delete("/v1/workflows/one").must(204).await;
    assert_eq!(next(&mut stream).await.as_ref(), Some(&changed));
    rig.admin
        .delete(&format!("/v1/admin/keys/{}", key.id))
        .must(204)
        .await;
    assert_eq!(
        next(&mut stream).await,
        None,
        "its key has ended, and nothing else has changed"
    );

    let wrong = rig.member.with_header("accept", "application/json").get("/mcp");
    assert_eq!(
        wrong.must_refuse("invalid_request").await.error,
        "Accept: must name text/event-stream"
    );
}

#[tokio::test]
async fn a_message_that_is_none_is_refused() {
    let rig = Rig::start().await;
    let client = rig
        .member
        .with_header("accept", "application/json, text/event-stream");
    let message = "the body must be one JSON-RPC message of MCP";
    let object = "the body must be a JSON object";
    for (body, rule) in [
        ("{", message),
        ("{}", message),
        (r#"{"jsonrpc":"2.0","id":1}"#, message),
        ("[]", object),
        ("\"x\"", object),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\u0000"}}"#,
            "params.a: ",
        ),
    ] {
        let refused = client.send(Method::POST, "/mcp", Bytes::from_static(body.as_bytes()));
        let refused = refused.must_refuse("invalid_request").await;
        assert!(refused.error.starts_with(rule), "{body}: {}", refused.error);
    }
    let unknown = Mcp::of(&rig.member).error("no/such/method", json!({})).await;
    assert_eq!(unknown["code"], -32_601);
}

#[tokio::test]
async fn only_members_of_an_organization_are_served() {
    let rig = Rig::start().await;
    let anonymous = rig
        .member
        .anonymous()
        .with_header("accept", "application/json, text/event-stream");
    let refused = anonymous.post("/mcp", &json!({})).await.unwrap();
    refused.refused("unauthorized").unwrap();
    assert_eq!(refused.header("www-authenticate").unwrap(), "Bearer");
    anonymous.get("/mcp").must_refuse("unauthorized").await;
    let run = rig.member.create(&plain("x")).await.unwrap();
    let tokens = format!("/v1/runs/{}/tokens", run.id);
    let token = rig
        .member
        .post(&tokens, &json!({"ttl_seconds": 60, "may": ["read"]}))
        .must_json(201)
        .await;
    let of_run = rig.member.with_key(token["token"].as_str().unwrap());
    of_run.get("/mcp").must_refuse("forbidden").await;
    of_run.post("/mcp", &json!({})).must_refuse("forbidden").await;
}

/// Clients repeat calls, and a task has its result each time. The one answer with the output stays the API's.
#[tokio::test]
async fn an_output_that_can_be_read_once_stays_readable() {
    let rig = Rig::start().await;
    let mut request = plain("secret");
    request["zero_data_retention"] = true.into();
    let run = rig.member.create_id(&request).await.unwrap();
    let mcp = Mcp::of(&rig.member);
    let of = json!({"run": run});
    let waited = mcp.run("wait_run", of.clone()).await;
    assert_has!(waited, {"status": "succeeded"});
    for result in [waited, mcp.run("get_run", of).await] {
        assert!(result.get("output").is_none(), "{result}");
        assert!(
            result["hint"]
                .as_str()
                .is_some_and(|hint| hint.contains("can be read once")),
            "{result}"
        );
    }
    let state = Mcp::with_tasks(&rig.member)
        .result("tasks/get", json!({"taskId": run}))
        .await;
    assert_eq!(state["status"], "completed");
    let read = rig.member.run(&run).await.unwrap();
    assert_eq!(read.output.as_deref(), Some("secret"));
}
